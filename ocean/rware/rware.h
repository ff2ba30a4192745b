// rware.h - the robots of a warehouse bring the shelves that are asked for to the stations, and put them back.
//
// Shelves stand in racks, two rows deep with aisles around them, and `num_requests` of them are requested at a time. A
// robot drives under a shelf, loads it, carries it into a station at the right edge, where it is delivered at once and
// another one is requested, and unloads it at any free place of a rack. Without a load robots drive below shelves; with
// one they keep to aisles and free places. Two robots cannot be in one cell: they move one after another, and each step
// another one is the first. Where all shelves are requested or carried a request waits until one is put back.
//
// The warehouses are those of the RWARE benchmark, lying on their side, with racks of eight: tiny (11 x 10 cells, 32
// shelves), small (20 x 10, 80) and medium (20 x 16, 144).
//
// Each robot is an agent. Observation float[27] in [-1, 1], ahead being where it looks:
//   0 carries a shelf, 1 that is requested, 2 stands at a place of a rack, 3 column and 4 row over the warehouse's,
//   5 looks right (left: -1), 6 looks down (up: -1),
//   7 cells ahead and 8 to the right (behind, left: below 0) to where it should go, d as d / (1 + |d|): the nearest
//   requested shelf (0 if none stands), with that a station, with another the nearest free place;
//   9-17 the 3 x 3 cells around it, from ahead left to behind right: 1 another robot, -1 a wall, else 0;
//   18-26 the same cells: 1 a requested shelf, 0.5 another, else 0.
// Action: 0 stay, 1 forward, 2 turn left, 3 turn right, 4 load or unload; anything else stays.
// Reward, for the robot that did it: +1 for a delivery. `shaped` adds +0.2 for loading a requested shelf and for
// putting another one back, and takes it for undoing either, so that nothing is earned without a delivery.
// After RWARE_MAX_STEPS steps the episodes of all are truncated. Score is the deliveries of all robots. Perf is the
// part of a robot's time that its deliveries and returns take at least, by the shortest ways.
#pragma once

#include "puffer_window.h"

enum { RWARE_STAY, RWARE_FORWARD, RWARE_TURN_LEFT, RWARE_TURN_RIGHT, RWARE_TOGGLE, RWARE_NUM_ACTIONS };
enum { RWARE_RIGHT, RWARE_DOWN, RWARE_LEFT, RWARE_UP, RWARE_NUM_HEADINGS };  // clockwise
enum { RWARE_NOTHING, RWARE_SHELF, RWARE_REQUESTED };                        // in a place, or on a robot
enum { RWARE_ROBOT = 1, RWARE_WALL };                                        // in a cell
enum { RWARE_TINY = 1, RWARE_SMALL, RWARE_MEDIUM };                          // sizes
enum { RWARE_MAX_WIDTH = 20, RWARE_MAX_HEIGHT = 16, RWARE_BORDER = 1, RWARE_STRIDE = RWARE_MAX_WIDTH + 2 };
enum { RWARE_CELLS = GRID_CAPACITY(RWARE_MAX_WIDTH, RWARE_MAX_HEIGHT, RWARE_BORDER), RWARE_NEAR = 9 };
enum { RWARE_MAX_ROBOTS = 64, RWARE_MAX_REQUESTS = 32 };  // as many as the tiny one has shelves
enum { RWARE_NUM_STATIONS = 2, RWARE_OWN = 9, RWARE_OBSERVATION = RWARE_OWN + 2 * RWARE_NEAR };
enum { RWARE_RACK_LENGTH = 8, RWARE_RACK_DEPTH = 2, RWARE_MAX_STEPS = 500 };
enum { RWARE_CARRIED = 0, RWARE_OWED = -1 };  // in place of the cell of a request: no shelf was free for it

#define RWARE_SHAPING (0.2f)

PUFFER_TABLE int RWARE_AHEAD[RWARE_NUM_HEADINGS] = {1, RWARE_STRIDE, -1, -RWARE_STRIDE};  // in cells, by heading

// The 3 x 3 cells as a robot sees them, from ahead left to behind right, by its heading: how far they are in cells.
enum { RWARE_S = RWARE_STRIDE };
PUFFER_TABLE int8_t RWARE_SEEN[RWARE_NUM_HEADINGS][RWARE_NEAR] = {
    {1 - RWARE_S, 1, 1 + RWARE_S, -RWARE_S, 0, RWARE_S, -1 - RWARE_S, -1, -1 + RWARE_S},
    {1 + RWARE_S, RWARE_S, -1 + RWARE_S, 1, 0, -1, 1 - RWARE_S, -RWARE_S, -1 - RWARE_S},
    {-1 + RWARE_S, -1, -1 - RWARE_S, RWARE_S, 0, -RWARE_S, 1 + RWARE_S, 1, 1 - RWARE_S},
    {-1 - RWARE_S, -RWARE_S, 1 - RWARE_S, -1, 0, 1, -1 + RWARE_S, RWARE_S, 1 + RWARE_S}};

typedef struct {
    int16_t cell;
    int16_t heading;
    int16_t carried;         // RWARE_NOTHING and so on
    int16_t request;         // that it carries, an index
    int16_t place;           // free place of a rack that belongs to the shelf it carries; any other will do as well
    int16_t num_deliveries;  // in this episode
    int16_t num_loaded;      // requested shelves taken, less those put back undelivered
    int16_t num_returned;    // other shelves put back, less those taken
    int16_t least_steps;     // that deliveries and returns took at least
    int16_t loaded_at;       // where it took a requested shelf or delivered it, a cell; 0 for one that nobody asked for
} RwareRobot;

typedef struct {
    float* observations;        // [num_robots, RWARE_OBSERVATION]  these six are borrowed from the caller
    const void* actions;        // int32_t[num_robots]
    float* rewards;             // [num_robots]
    uint8_t* terminals;         // [num_robots]  never set: nothing ends but time
    uint8_t* truncations;       // [num_robots]
    float* final_observations;  // [num_robots, RWARE_OBSERVATION] or NULL
    Rng rng;
    bool shaped;
    int size, num_robots, num_requests;  // keyword arguments
    int width, height;                   // cells, by the size
    uint32_t places[RWARE_MAX_HEIGHT];   // of racks, by row: a bit for each column
    int steps;                           // in this episode
    int num_unasked;                     // shelves in racks that nobody asked for
    int num_owed;                        // requests that wait for one of these
    int requests[RWARE_MAX_REQUESTS];    // cells of requested shelves, or RWARE_CARRIED, RWARE_OWED
    Log log;                             // summed at episode ends, cleared by the reader
    uint8_t robots_at[RWARE_CELLS];      // 0, RWARE_ROBOT or RWARE_WALL
    uint8_t shelves_at[RWARE_CELLS];     // RWARE_NOTHING and so on
    RwareRobot robots[RWARE_MAX_ROBOTS];
} Rware;

PUFFER_FN PufferLayout c_layout(const Rware* env) {
    return puffer_layout(env->num_robots, RWARE_OBSERVATION, PUFFER_FLOAT32, 1, PUFFER_INT32);
}

// ------------------------------------------------------------------------------------------------------ the warehouse

// In the upper left of the largest one, whose stride all have; the rest is wall.
PUFFER_FN Grid rware_grid(const Rware* env) {
    Grid grid = grid_of(RWARE_MAX_WIDTH, RWARE_MAX_HEIGHT, RWARE_BORDER);
    grid.width = env->width;
    grid.height = env->height;
    return grid;
}

// Racks with aisles around them; where the rack before the stations would be there is room to drive.
PUFFER_FN bool rware_has_rack(const Rware* env, int column, int row) {
    bool is_aisle = column % (RWARE_RACK_LENGTH + 1) == 0 || row % (RWARE_RACK_DEPTH + 1) == 0;
    bool is_in_the_middle = row == env->height / 2 - 1 || row == env->height / 2;
    bool is_before_stations = is_in_the_middle && column >= env->width - RWARE_RACK_LENGTH - 2;
    return !is_aisle && !is_before_stations && column < env->width - 1;
}

// Once the arguments are set: what follows from them.
PUFFER_FN void rware_configure(Rware* env) {
    int racks_across = env->size == RWARE_TINY ? 1 : 2, racks_down = env->size == RWARE_MEDIUM ? 5 : 3;
    env->width = racks_across * (RWARE_RACK_LENGTH + 1) + 2;  // an aisle, and the edge with the stations
    env->height = racks_down * (RWARE_RACK_DEPTH + 1) + 1;
    memset(env->places, 0, sizeof(env->places));
    for (int row = 0; row < env->height; row++) {
        for (int column = 0; column < env->width; column++) {
            env->places[row] |= (uint32_t)rware_has_rack(env, column, row) << column;
        }
    }
}

PUFFER_FN int rware_column(int cell) { return cell % RWARE_STRIDE - RWARE_BORDER; }
PUFFER_FN int rware_row(int cell) { return cell / RWARE_STRIDE - RWARE_BORDER; }

PUFFER_FN bool rware_is_place(const Rware* env, int column, int row) { return env->places[row] >> column & 1; }

// The cell of a station: the two in the middle of the right edge.
PUFFER_FN int rware_station(const Rware* env, int index) {
    return (env->height / 2 - 1 + index + RWARE_BORDER) * RWARE_STRIDE + env->width - 1 + RWARE_BORDER;
}

PUFFER_FN int rware_distance(int cell, int other) {
    int across = rware_column(cell) - rware_column(other), down = rware_row(cell) - rware_row(other);
    return (across < 0 ? -across : across) + (down < 0 ? -down : down);
}

// A random place of a rack that holds a shelf nobody asked for; there is one.
PUFFER_FN int rware_unasked_shelf(Rware* env) {
    Grid grid = rware_grid(env);
    int cell;
    do {
        int row = rng_below(&env->rng, env->height), column = rng_below(&env->rng, env->width);
        cell = grid_cell(&grid, column, row);
    } while (env->shelves_at[cell] != RWARE_SHELF);
    return cell;
}

PUFFER_FN void rware_request(Rware* env, int index) {
    if (env->num_unasked == 0) {
        env->requests[index] = RWARE_OWED;
        env->num_owed += 1;
        return;
    }
    int cell = rware_unasked_shelf(env);
    env->shelves_at[cell] = RWARE_REQUESTED;
    env->requests[index] = cell;
    env->num_unasked -= 1;
}

// Makes a request that waited for a shelf, now that one was put back.
PUFFER_FN void rware_request_owed(Rware* env) {
    int index = 0;
    while (env->requests[index] != RWARE_OWED) index++;
    env->num_owed -= 1;
    rware_request(env, index);
}

PUFFER_FN void rware_fill_racks(Rware* env) {
    Grid grid = rware_grid(env);
    memset(env->shelves_at, RWARE_NOTHING, sizeof(env->shelves_at));
    env->num_unasked = env->num_owed = 0;
    for (int row = 0; row < env->height; row++) {
        for (int column = 0; column < env->width; column++) {
            if (!rware_is_place(env, column, row)) continue;
            env->shelves_at[grid_cell(&grid, column, row)] = RWARE_SHELF;
            env->num_unasked += 1;
        }
    }
}

// ------------------------------------------------------------------------------------------------------- observations

// Where robots may have to go, all at once for all of them.
typedef struct {
    int columns[RWARE_MAX_ROBOTS], rows[RWARE_MAX_ROBOTS];
    int count;
} RwareSpots;

PUFFER_FN void rware_add_spot(RwareSpots* spots, int cell) {
    spots->columns[spots->count] = rware_column(cell);
    spots->rows[spots->count++] = rware_row(cell);
}

// By what a robot carries: requested shelves, free places of racks, stations.
PUFFER_FN void rware_find_spots(const Rware* env, RwareSpots* spots) {
    for (int kind = RWARE_NOTHING; kind <= RWARE_REQUESTED; kind++) spots[kind].count = 0;
    for (int i = 0; i < env->num_requests; i++) {
        if (env->requests[i] > 0) rware_add_spot(&spots[RWARE_NOTHING], env->requests[i]);
    }
    for (int i = 0; i < env->num_robots; i++) {
        if (env->robots[i].carried != RWARE_NOTHING) rware_add_spot(&spots[RWARE_SHELF], env->robots[i].place);
    }
    for (int i = 0; i < RWARE_NUM_STATIONS; i++) rware_add_spot(&spots[RWARE_REQUESTED], rware_station(env, i));
}

// The index of the spot with the fewest steps to it, the first of several; 0 if there is none.
PUFFER_FN int rware_nearest(const RwareSpots* spots, int column, int row) {
    int least = (RWARE_MAX_WIDTH + RWARE_MAX_HEIGHT) * RWARE_MAX_ROBOTS;
    for (int i = 0; i < spots->count; i++) {
        int across = spots->columns[i] - column, down = spots->rows[i] - row;
        int distance = (across < 0 ? -across : across) + (down < 0 ? -down : down);
        int key = distance * RWARE_MAX_ROBOTS + i;  // one minimum is both the distance and who has it
        least = key < least ? key : least;
    }
    return least % RWARE_MAX_ROBOTS;
}

PUFFER_FN float rware_squashed(int distance) {
    return (float)distance / (float)(1 + (distance < 0 ? -distance : distance));
}

PUFFER_FN void rware_observe_itself(const Rware* env, const RwareRobot* robot, const RwareSpots* spots, float* own) {
    int column = rware_column(robot->cell), row = rware_row(robot->cell), target = rware_nearest(spots, column, row);
    bool has_target = spots->count > 0;
    int right = has_target ? spots->columns[target] - column : 0, down = has_target ? spots->rows[target] - row : 0;
    int x = robot->heading == RWARE_RIGHT ? 1 : robot->heading == RWARE_LEFT ? -1 : 0;
    int y = robot->heading == RWARE_DOWN ? 1 : robot->heading == RWARE_UP ? -1 : 0;
    own[0] = robot->carried != RWARE_NOTHING ? 1.0f : 0.0f;
    own[1] = robot->carried == RWARE_REQUESTED ? 1.0f : 0.0f;
    own[2] = rware_is_place(env, column, row) ? 1.0f : 0.0f;
    own[3] = (float)column / (float)(env->width - 1);
    own[4] = (float)row / (float)(env->height - 1);
    own[5] = (float)x;
    own[6] = (float)y;
    own[7] = rware_squashed(x * right + y * down);
    own[8] = rware_squashed(x * down - y * right);
}

PUFFER_FN void rware_observe_cells(const Rware* env, const RwareRobot* robot, float* near) {
    const int8_t* seen = RWARE_SEEN[robot->heading];
    for (int i = 0; i < RWARE_NEAR; i++) {
        int cell = robot->cell + seen[i], content = env->robots_at[cell];
        near[i] = content == RWARE_WALL ? -1.0f : (float)content;
        near[RWARE_NEAR + i] = 0.5f * (float)env->shelves_at[cell];
    }
    near[RWARE_NEAR / 2] = 0.0f;  // itself
}

PUFFER_FN void rware_write_observations(Rware* env) {
    RwareSpots spots[RWARE_REQUESTED + 1];
    rware_find_spots(env, spots);
    for (int row = 0; row < env->num_robots; row++) {
        const RwareRobot* robot = &env->robots[row];
        float* own = env->observations + row * RWARE_OBSERVATION;
        rware_observe_itself(env, robot, &spots[robot->carried], own);
        rware_observe_cells(env, robot, own + RWARE_OWN);
    }
}

// ---------------------------------------------------------------------------------------------------------- episodes

PUFFER_FN void rware_place_robot(Rware* env, RwareRobot* robot) {
    Grid grid = rware_grid(env);
    memset(robot, 0, sizeof(*robot));
    do {
        int row = rng_below(&env->rng, env->height), column = rng_below(&env->rng, env->width);
        robot->cell = (int16_t)grid_cell(&grid, column, row);
    } while (env->robots_at[robot->cell] != 0);
    robot->heading = (int16_t)rng_below(&env->rng, RWARE_NUM_HEADINGS);
    env->robots_at[robot->cell] = RWARE_ROBOT;
}

PUFFER_FN void c_reset(Rware* env) {
    Grid grid = rware_grid(env);
    grid_fill(env->robots_at, &grid, 0, RWARE_WALL);
    rware_fill_racks(env);
    for (int i = 0; i < env->num_requests; i++) rware_request(env, i);
    for (int i = 0; i < env->num_robots; i++) rware_place_robot(env, &env->robots[i]);
    env->steps = 0;
    rware_write_observations(env);
}

// What a robot has earned with some deliveries and this many shelves loaded and put back.
PUFFER_FN float rware_pay(const Rware* env, int num_deliveries, int num_shaped) {
    return (float)num_deliveries + (env->shaped ? RWARE_SHAPING * (float)num_shaped : 0.0f);
}

PUFFER_FN void rware_finish_episodes(Rware* env) {
    int score = 0;
    for (int row = 0; row < env->num_robots; row++) score += env->robots[row].num_deliveries;
    for (int row = 0; row < env->num_robots; row++) {
        const RwareRobot* robot = &env->robots[row];
        env->truncations[row] = 1;
        env->log.perf += (float)robot->least_steps / (float)RWARE_MAX_STEPS;
        env->log.score += (float)score;
        env->log.episode_return += rware_pay(env, robot->num_deliveries, robot->num_loaded + robot->num_returned);
        env->log.episode_length += (float)env->steps;
        env->log.n += 1.0f;
    }
    keep_final(env->final_observations, env->observations, sizeof(float) * (size_t)env->num_robots * RWARE_OBSERVATION);
    c_reset(env);
}

// ------------------------------------------------------------------------------------------------------------- a step

PUFFER_FN void rware_deliver(Rware* env, RwareRobot* robot) {
    rware_request(env, robot->request);
    robot->carried = RWARE_SHELF;
    robot->num_deliveries += 1;
    robot->least_steps = (int16_t)(robot->least_steps + rware_distance(robot->loaded_at, robot->cell));
    robot->loaded_at = robot->cell;
}

PUFFER_FN void rware_drive(Rware* env, RwareRobot* robot) {
    int cell = robot->cell + RWARE_AHEAD[robot->heading];
    bool is_loaded = robot->carried != RWARE_NOTHING;
    if (env->robots_at[cell] != 0 || (is_loaded && env->shelves_at[cell] != RWARE_NOTHING)) return;
    env->robots_at[robot->cell] = 0;
    env->robots_at[cell] = RWARE_ROBOT;
    robot->cell = (int16_t)cell;
    bool is_station = cell == rware_station(env, 0) || cell == rware_station(env, 1);
    if (is_station && robot->carried == RWARE_REQUESTED) rware_deliver(env, robot);
}

PUFFER_FN void rware_load(Rware* env, RwareRobot* robot) {
    robot->carried = env->shelves_at[robot->cell];
    robot->place = robot->cell;
    env->shelves_at[robot->cell] = RWARE_NOTHING;
    if (robot->carried == RWARE_SHELF) {
        env->num_unasked -= 1;
        robot->num_returned -= 1;
        robot->loaded_at = 0;
        return;
    }
    robot->num_loaded += 1;
    robot->loaded_at = robot->cell;
    for (int i = 0; i < env->num_requests; i++) {
        if (env->requests[i] == robot->cell) robot->request = (int16_t)i;
    }
    env->requests[robot->request] = RWARE_CARRIED;
}

// The place may be the one that another robot left free: that one gets this robot's for it.
PUFFER_FN void rware_unload(Rware* env, RwareRobot* robot) {
    for (int i = 0; i < env->num_robots; i++) {
        RwareRobot* other = &env->robots[i];
        if (other->carried != RWARE_NOTHING && other->place == robot->cell) other->place = robot->place;
    }
    env->shelves_at[robot->cell] = (uint8_t)robot->carried;
    if (robot->carried == RWARE_REQUESTED) {
        env->requests[robot->request] = robot->cell;
        robot->num_loaded -= 1;
    } else {
        env->num_unasked += 1;
        robot->num_returned += 1;
        int steps = robot->loaded_at != 0 ? rware_distance(robot->loaded_at, robot->cell) : 0;
        robot->least_steps = (int16_t)(robot->least_steps + steps);
        if (env->num_owed > 0) rware_request_owed(env);
    }
    robot->carried = RWARE_NOTHING;
}

PUFFER_FN void rware_toggle(Rware* env, RwareRobot* robot) {
    bool is_loaded = robot->carried != RWARE_NOTHING, is_shelf = env->shelves_at[robot->cell] != RWARE_NOTHING;
    if (!is_loaded && is_shelf) {
        rware_load(env, robot);
    } else if (is_loaded && !is_shelf && rware_is_place(env, rware_column(robot->cell), rware_row(robot->cell))) {
        rware_unload(env, robot);
    }
}

PUFFER_FN void rware_act(Rware* env, int row) {
    RwareRobot* robot = &env->robots[row];
    int num_deliveries = robot->num_deliveries, num_shaped = robot->num_loaded + robot->num_returned;
    switch (((const int32_t*)env->actions)[row]) {
        case RWARE_FORWARD:
            rware_drive(env, robot);
            break;
        case RWARE_TURN_LEFT:
            robot->heading = (int16_t)((robot->heading + 3) % RWARE_NUM_HEADINGS);
            break;
        case RWARE_TURN_RIGHT:
            robot->heading = (int16_t)((robot->heading + 1) % RWARE_NUM_HEADINGS);
            break;
        case RWARE_TOGGLE:
            rware_toggle(env, robot);
            break;
        default:
            break;
    }
    env->rewards[row] =
        rware_pay(env, robot->num_deliveries - num_deliveries, robot->num_loaded + robot->num_returned - num_shaped);
}

PUFFER_FN void c_step(Rware* env) {
    memset(env->terminals, 0, (size_t)env->num_robots);
    memset(env->truncations, 0, (size_t)env->num_robots);
    int first = env->steps % env->num_robots;
    for (int row = first; row < env->num_robots; row++) rware_act(env, row);
    for (int row = 0; row < first; row++) rware_act(env, row);
    env->steps += 1;
    rware_write_observations(env);
    if (env->steps >= RWARE_MAX_STEPS) rware_finish_episodes(env);
}

// ------------------------------------------------------------------------------------------------- a stranger's state

PUFFER_FN bool rware_has_place(const Rware* env, int cell) {
    Grid grid = rware_grid(env);
    return grid_has(&grid, cell) && rware_is_place(env, rware_column(cell), rware_row(cell));
}

PUFFER_FN bool rware_accepts_robot(const Rware* saved, const RwareRobot* robot) {
    Grid grid = rware_grid(saved);
    bool is_sound =
        grid_has(&grid, robot->cell) && saved->robots_at[robot->cell] == RWARE_ROBOT &&
        is_within(robot->heading, 0, RWARE_NUM_HEADINGS - 1) &&
        is_within(robot->carried, RWARE_NOTHING, RWARE_REQUESTED) &&
        is_within(robot->request, 0, saved->num_requests - 1) && is_within(robot->num_deliveries, 0, RWARE_MAX_STEPS) &&
        is_within(robot->num_loaded, 0, RWARE_MAX_STEPS) && is_within(robot->num_returned, -1, RWARE_MAX_STEPS) &&
        is_within(robot->least_steps, 0, saved->steps) && is_within(robot->loaded_at, 0, RWARE_CELLS - 1);
    if (!is_sound || robot->carried == RWARE_NOTHING) return is_sound;
    if (robot->carried == RWARE_REQUESTED && saved->requests[robot->request] != RWARE_CARRIED) return false;
    return rware_has_place(saved, robot->place) && saved->shelves_at[robot->place] == RWARE_NOTHING;
}

// Whether no two robots are in one cell, carry one request, or have one free place.
PUFFER_FN bool rware_accepts_pairs(const Rware* saved) {
    for (int i = 0; i < saved->num_robots; i++) {
        for (int j = 0; j < i; j++) {
            const RwareRobot *one = &saved->robots[i], *two = &saved->robots[j];
            bool are_loaded = one->carried != RWARE_NOTHING && two->carried != RWARE_NOTHING;
            bool are_asked = one->carried == RWARE_REQUESTED && two->carried == RWARE_REQUESTED;
            if (one->cell == two->cell || (are_loaded && one->place == two->place)) return false;
            if (are_asked && one->request == two->request) return false;
        }
    }
    return true;
}

// Whether requests are those that stand in the racks, are carried, or are owed while no shelf is unasked.
PUFFER_FN bool rware_accepts_requests(const Rware* saved) {
    int num_standing = 0, num_carried = 0, num_owed = 0, num_found = 0;
    for (int i = 0; i < saved->num_requests; i++) {
        int cell = saved->requests[i];
        num_standing += cell > 0;
        num_owed += cell == RWARE_OWED;
        if (cell < RWARE_OWED) return false;
        if (cell > 0 && (!rware_has_place(saved, cell) || saved->shelves_at[cell] != RWARE_REQUESTED)) return false;
        for (int other = 0; other < i; other++) {
            if (cell > 0 && saved->requests[other] == cell) return false;
        }
    }
    for (int i = 0; i < saved->num_robots; i++) num_carried += saved->robots[i].carried == RWARE_REQUESTED;
    for (int cell = 0; cell < RWARE_CELLS; cell++) num_found += saved->shelves_at[cell] == RWARE_REQUESTED;
    return num_found == num_standing && num_standing + num_carried + num_owed == saved->num_requests &&
           num_owed == saved->num_owed && (num_owed == 0 || saved->num_unasked == 0);
}

// Shelves stand in racks alone, and as many places are free as shelves are carried.
PUFFER_FN bool rware_accepts_shelves(const Rware* saved) {
    int num_free = 0, num_carried = 0, num_unasked = 0;
    for (int cell = 0; cell < RWARE_CELLS; cell++) {
        bool is_place = rware_has_place(saved, cell);
        if (saved->shelves_at[cell] > (is_place ? RWARE_REQUESTED : RWARE_NOTHING)) return false;
        num_free += is_place && saved->shelves_at[cell] == RWARE_NOTHING;
        num_unasked += saved->shelves_at[cell] == RWARE_SHELF;
    }
    for (int i = 0; i < saved->num_robots; i++) num_carried += saved->robots[i].carried != RWARE_NOTHING;
    return num_free == num_carried && num_unasked == saved->num_unasked;
}

PUFFER_FN bool c_accepts(const Rware* env, const Rware* saved) {
    Grid grid = rware_grid(env);
    int num_robots = 0;
    bool is_same = saved->size == env->size && saved->num_robots == env->num_robots && saved->width == env->width &&
                   saved->height == env->height && saved->num_requests == env->num_requests;
    for (size_t i = 0; i < sizeof(env->places) / sizeof(env->places[0]); i++) {
        is_same = is_same && saved->places[i] == env->places[i];
    }
    if (!is_same || !is_bool(&saved->shaped) || saved->shaped != env->shaped) return false;
    if (!is_within(saved->steps, 0, RWARE_MAX_STEPS - 1)) return false;
    if (!grid_is_framed(saved->robots_at, &grid, RWARE_ROBOT, RWARE_WALL)) return false;
    for (int row = 0; row < env->num_robots; row++) {
        if (!rware_accepts_robot(saved, &saved->robots[row])) return false;
    }
    for (int cell = 0; cell < RWARE_CELLS; cell++) num_robots += saved->robots_at[cell] == RWARE_ROBOT;
    return num_robots == env->num_robots && rware_accepts_pairs(saved) && rware_accepts_requests(saved) &&
           rware_accepts_shelves(saved);
}
