// maze.h - find the way out of a maze of which only the surroundings are seen, before the time is up.
//
// A maze has `rooms` x `rooms` rooms, a wall or a passage between neighbours and a wall around it all: a grid of
// 2 * rooms + 1 cells a side. It is perfect: exactly one way leads from a room to another. Each episode digs a new one,
// and every perfect maze is equally likely. One enters in the upper left room; the goal is in the lower right one, and
// that is all that is known of it until it is seen.
// Observation uint8[11 x 11], row by row, the agent in the middle: 0 floor, 1 wall and what is outside, 2 goal.
// Action: 0 stay, 1 down, 2 up, 3 left, 4 right; anything else stays, and so does who walks into a wall.
// Reward: +1 at the goal, which is terminal. After 2 * width * height steps the episode is truncated.
// Score is 1 for a goal that was reached. Perf is the length of the way there over that of the walk, 0 without it
// (success weighted by path length, Anderson et al. 2018).
#pragma once

#include "puffer_window.h"

enum { MAZE_STAY, MAZE_DOWN, MAZE_UP, MAZE_LEFT, MAZE_RIGHT, MAZE_NUM_ACTIONS };
enum { MAZE_FLOOR, MAZE_WALL, MAZE_GOAL, MAZE_WAY };  // MAZE_WAY and more only while a maze is being dug
enum { MAZE_VIEW = 11, MAZE_WINDOW = MAZE_VIEW * MAZE_VIEW, MAZE_BORDER = MAZE_VIEW / 2 };
enum { MAZE_MIN_ROOMS = 2, MAZE_MAX_ROOMS = 23, MAZE_MAX_SIDE = 2 * MAZE_MAX_ROOMS + 1 };
enum { MAZE_STEPS_PER_CELL = 2 };

typedef struct {
    int8_t down, right;  // cells
} MazeMove;

PUFFER_TABLE MazeMove MAZE_MOVES[MAZE_NUM_ACTIONS] = {{0, 0}, {1, 0}, {-1, 0}, {0, -1}, {0, 1}};  // by action

typedef struct {
    uint8_t* observations;        // [MAZE_WINDOW]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]
    uint8_t* final_observations;  // [MAZE_WINDOW] or NULL
    Rng rng;
    int rooms;      // along one side
    int agent;      // cell
    int steps;      // in this episode
    int way_steps;  // from the entrance to the goal
    Log log;        // summed at episode end, cleared by the reader
    uint8_t cells[GRID_CAPACITY(MAZE_MAX_SIDE, MAZE_MAX_SIDE, MAZE_BORDER)];
} Maze;

PUFFER_FN PufferLayout c_layout(const Maze* env) {
    (void)env;
    return puffer_layout(1, MAZE_WINDOW, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN Grid maze_grid(const Maze* env) { return grid_of(2 * env->rooms + 1, 2 * env->rooms + 1, MAZE_BORDER); }

PUFFER_FN int maze_room(const Grid* grid, int column, int row) { return grid_cell(grid, 2 * column + 1, 2 * row + 1); }

PUFFER_FN int maze_max_steps(const Maze* env) {
    int side = 2 * env->rooms + 1;
    return MAZE_STEPS_PER_CELL * side * side;
}

PUFFER_FN void maze_write_observation(Maze* env) {
    int stride = 2 * env->rooms + 1 + 2 * MAZE_BORDER;
    grid_window(env->observations, env->cells, stride, env->agent, MAZE_VIEW, MAZE_VIEW);
}

// ---------------------------------------------------------------------------------------------------------- digging

// Strolls at random from a room until one that is dug already, and leaves in every room the way by which it was left
// last. Followed from the start these lead there without a detour.
PUFFER_FN void maze_stroll(Maze* env, const Grid* grid, int column, int row) {
    for (int room = maze_room(grid, column, row); env->cells[room] >= MAZE_WALL; room = maze_room(grid, column, row)) {
        int way = 1 + rng_below(&env->rng, MAZE_NUM_ACTIONS - 1);
        int next_column = column + MAZE_MOVES[way].right, next_row = row + MAZE_MOVES[way].down;
        bool is_inside = (unsigned)next_column < (unsigned)env->rooms && (unsigned)next_row < (unsigned)env->rooms;
        if (!is_inside) continue;
        env->cells[room] = (uint8_t)(MAZE_WAY + way);
        column = next_column;
        row = next_row;
    }
}

// Digs where the stroll led, and returns how many cells that are.
PUFFER_FN int maze_dig_way(Maze* env, const Grid* grid, int room) {
    int length = 0;
    while (env->cells[room] > MAZE_WAY) {
        MazeMove move = MAZE_MOVES[env->cells[room] - MAZE_WAY];
        int passage = room + move.down * grid->stride + move.right;
        env->cells[room] = env->cells[passage] = MAZE_FLOOR;
        room = 2 * passage - room;
        length += 2;
    }
    return length;
}

// Wilson's algorithm (1996), which draws every spanning tree with the same probability. It may begin anywhere: from the
// goal, so that the first way that it digs is the one to be found.
PUFFER_FN void maze_dig(Maze* env) {
    Grid grid = maze_grid(env);
    int goal = maze_room(&grid, env->rooms - 1, env->rooms - 1);
    memset(env->cells, MAZE_WALL, (size_t)grid.size);
    env->cells[goal] = MAZE_FLOOR;
    for (int row = 0; row < env->rooms; row++) {
        for (int column = 0; column < env->rooms; column++) {
            int room = maze_room(&grid, column, row);
            maze_stroll(env, &grid, column, row);
            int length = maze_dig_way(env, &grid, room);
            if (room == maze_room(&grid, 0, 0)) env->way_steps = length;
        }
    }
    env->cells[goal] = MAZE_GOAL;
}

// ---------------------------------------------------------------------------------------------------------- episodes

PUFFER_FN void c_reset(Maze* env) {
    Grid grid = maze_grid(env);
    maze_dig(env);
    env->agent = maze_room(&grid, 0, 0);
    env->steps = 0;
    maze_write_observation(env);
}

PUFFER_FN void maze_finish_episode(Maze* env, bool is_reached) {
    float steps = (float)env->steps, way = (float)env->way_steps;
    float reward = is_reached ? 1.0f : 0.0f;
    env->rewards[0] = reward;
    env->terminals[0] = is_reached;
    env->truncations[0] = !is_reached;
    env->log.perf += is_reached ? way / (way > steps ? way : steps) : 0.0f;
    env->log.score += reward;
    env->log.episode_return += reward;
    env->log.episode_length += steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, MAZE_WINDOW);
    c_reset(env);
}

PUFFER_FN MazeMove maze_move(const Maze* env) {
    int action = ((const int32_t*)env->actions)[0];
    return MAZE_MOVES[action >= 0 && action < MAZE_NUM_ACTIONS ? action : (int)MAZE_STAY];
}

PUFFER_FN void c_step(Maze* env) {
    MazeMove move = maze_move(env);
    int stride = 2 * env->rooms + 1 + 2 * MAZE_BORDER;
    int cell = env->agent + move.down * stride + move.right;
    env->rewards[0] = 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    env->steps += 1;
    if (cell != env->agent && env->cells[cell] != MAZE_WALL) {
        env->agent = cell;
        maze_write_observation(env);
    }
    bool is_reached = env->cells[env->agent] == MAZE_GOAL;
    if (is_reached || env->steps >= maze_max_steps(env)) maze_finish_episode(env, is_reached);
}

PUFFER_FN bool c_accepts(const Maze* env, const Maze* saved) {
    if (saved->rooms != env->rooms) return false;
    Grid grid = maze_grid(env), within = grid_of(grid.width - 2, grid.height - 2, MAZE_BORDER + 1);
    return grid_is_framed(saved->cells, &within, MAZE_GOAL, MAZE_WALL) && grid_has(&within, saved->agent) &&
           saved->cells[saved->agent] == MAZE_FLOOR && is_within(saved->steps, 0, maze_max_steps(env) - 1) &&
           is_within(saved->way_steps, 4, grid.size);
}
