// pacman.h - eat all dots of a maze in which four ghosts hunt.
//
// A step is the time in which Pac-Man walks one tile; he is always on a tile, ghosts move by 64ths. The maze is 27 x 31
// tiles with a tunnel from side to side, 227 dots (10 points), four power pills (50), and a house in which the ghosts
// begin, all but Blinky. The rules are those of the first level of the arcade game (Pittman, "The Pac-Man Dossier"):
//
// - At every tile a ghost takes the way that is nearest to its target by straight distance, ties in the order up, left,
//   down, right; it never turns back. Blinky's target is Pac-Man; Pinky's four tiles ahead of him (in all directions:
//   the arcade's slip when he looks up is not repeated); Inky's is as far beyond the tile two ahead of him as Blinky is
//   on this side of it; Clyde's is Pac-Man while more than 8 tiles away, else Clyde's corner.
// - Hunting is interrupted by scattering, to a corner each: 7 seconds, then 20 of the hunt, 7, 20, 5, 20, 5, and the
//   hunt for good; Blinky is past it, and faster, when 20 dots are left. At a change the ghosts turn back once.
// - A power pill frightens the ghosts for 6 seconds: they turn back, slow down, choose their ways by chance, and are
//   eaten by touch for 200, 400, 800 and 1600 points. The eyes return to the house, whence the ghost comes back.
// - Pinky leaves the house at once, Inky and Clyde when 30 and 90 dots are eaten; when none is for 4 seconds, the next.
// - In the tunnel ghosts are slow. Eating takes one frame for a dot and three for a pill, while the ghosts come nearer.
// - At 70 and at 170 dots a fruit lies below the house for 9.5 seconds: 100 points.
//
// Observation float[300] in [-1, 1]: the dots, 1 where it is still there, the four pills first; Pac-Man's row / 30,
// column / 26, and heading, one of four; for each way up, left, down, right: 1 where it is open, how near by it are
// a dot, a pill, a hunting ghost, a frightened one, the fruit, as 1 / (1 + tiles from the next tile), 0 where none is,
// the share of all tiles to which it takes Pac-Man before any hunting ghost, and how near the first such dot is; for
// each ghost: rows and columns from Pac-Man to it over 30 and 26, its heading down and right, how near it is, 1 if
// it hunts, 1 if it is frightened outside; then the time left of the fright, 1 while the ghosts scatter, the share of
// the dots that is left.
// Action: 0 up, 1 left, 2 down, 3 right. Where that way is closed, as with anything else, Pac-Man keeps his heading.
// Reward: 0.1 for a dot or a pill, a 2000th of the points of a ghost or fruit, -5 for being caught, 5 for the last dot.
// Terminal: caught, or all dots eaten. Truncation: after 10,000 steps.
// Score is the points, perf the share of the dots that were eaten.
#pragma once

#include "pacman_maze.h"
#include "puffer_env.h"

enum { PACMAN_BLINKY, PACMAN_PINKY, PACMAN_INKY, PACMAN_CLYDE, PACMAN_GHOSTS };
enum { PACMAN_WAITING, PACMAN_LEAVING, PACMAN_OUTSIDE, PACMAN_EYES, PACMAN_ENTERING };  // what a ghost is at
enum { PACMAN_TILE = 64, PACMAN_HOUSE_DEPTH = 3 * PACMAN_TILE };  // 64ths of a tile; of the floor below the exit
enum { PACMAN_MAX_STEPS = 10000, PACMAN_FRIGHT_STEPS = 45, PACMAN_FRUIT_STEPS = 72, PACMAN_PATIENCE_STEPS = 30 };
enum { PACMAN_PHASES = 8, PACMAN_FIRST_FRUIT = 70, PACMAN_SECOND_FRUIT = 170, PACMAN_SHY_TILES = 8 };
enum { PACMAN_DOT_POINTS = 10, PACMAN_PILL_POINTS = 50, PACMAN_GHOST_POINTS = 200, PACMAN_FRUIT_POINTS = 100 };
enum { PACMAN_FAST_DOTS = 20, PACMAN_FASTER_DOTS = 10 };  // so many left, and Blinky speeds up

// 64ths of a tile in a step, in which Pac-Man at 80 % of full speed walks one; frightening makes him 10 points faster.
enum {
    PACMAN_SPEED = 60,             // 75 %
    PACMAN_FAST_SPEED = 64,        // 80 %
    PACMAN_FASTER_SPEED = 68,      // 85 %
    PACMAN_FRIGHTENED_SPEED = 36,  // 50 to his 90 %
    PACMAN_SLOW_SPEED = 32,        // 40 %, in the tunnel and the house
    PACMAN_EYES_SPEED = 128
};
enum { PACMAN_STEP_FRAMES = 8, PACMAN_DOT_FRAMES = 1, PACMAN_PILL_FRAMES = 3 };  // 60 a second

enum { PACMAN_SELF_SIZE = 6, PACMAN_WAY_SIZE = 8, PACMAN_GHOST_SIZE = 7, PACMAN_CLOCK_SIZE = 3, PACMAN_LANES = 32 };
enum { PACMAN_SELF = PACMAN_DOTS, PACMAN_WAYS = PACMAN_SELF + PACMAN_SELF_SIZE };
enum { PACMAN_HAUNTS = PACMAN_WAYS + PATHS_NUM_DIRECTIONS * PACMAN_WAY_SIZE };
enum { PACMAN_CLOCK = PACMAN_HAUNTS + PACMAN_GHOSTS * PACMAN_GHOST_SIZE };
enum { PACMAN_OBSERVATION_SIZE = PACMAN_CLOCK + PACMAN_CLOCK_SIZE };

#define PACMAN_DOT_REWARD (0.1f)
#define PACMAN_POINT_REWARD (0.0005f)  // of ghosts and fruit
#define PACMAN_END_REWARD (5.0f)       // for the last dot; minus that for being caught

PUFFER_TABLE int16_t PACMAN_PHASE_STEPS[PACMAN_PHASES] = {53, 151, 53, 151, 38, 151, 38, 0};  // even ones scatter
PUFFER_TABLE int8_t PACMAN_CORNER_ROWS[PACMAN_GHOSTS] = {-3, -3, 31, 31};
PUFFER_TABLE int8_t PACMAN_CORNER_COLUMNS[PACMAN_GHOSTS] = {24, 2, 26, 0};
PUFFER_TABLE int16_t PACMAN_RELEASES[PACMAN_GHOSTS] = {0, 0, 30, 90};  // dots eaten

typedef struct {
    int16_t place;     // the tile that it reached last
    int16_t progress;  // 64ths of a tile: outside towards the next tile, else how deep below the exit
    uint8_t heading;
    uint8_t mode;
    bool is_frightened;
    bool must_turn;  // back, at the next tile
} PacmanGhost;

typedef struct {
    float* observations;        // [300]  these six are borrowed from the caller
    const void* actions;        // int32_t[1]
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]
    uint8_t* truncations;       // [1]
    float* final_observations;  // [300] or NULL
    const PacmanMaze* shared;   // borrowed, read-only
    Rng rng;
    PacmanGhost ghosts[PACMAN_GHOSTS];
    uint8_t eaten[PACMAN_EATEN_BYTES];  // 255 where a dot was eaten and where none ever was, else 0
    int16_t place, heading;             // Pac-Man's
    int16_t dots_left;
    int16_t hungry_steps;  // since the last dot
    int16_t phase, phase_left;
    int16_t fright_left, ghosts_eaten;  // ghosts since the last pill
    int16_t fruit_left;                 // steps, as all that is left but dots
    int16_t steps;
    int score;  // points
    float episode_return;
    Log log;  // summed at episode end, cleared by the reader
} Pacman;

PUFFER_FN PufferLayout c_layout(const Pacman* env) {
    return puffer_layout(1, PACMAN_OBSERVATION_SIZE, PUFFER_FLOAT32, 1, PUFFER_INT32);
}

// ---------------------------------------------------------------------------------------------------- observations

PUFFER_FN uint8_t pacman_nearer(uint8_t distance, uint8_t other) { return distance < other ? distance : other; }

// For every place, less than how many tiles from it Pac-Man must be to be there before any ghost that hunts: those that
// the nearest one has to go from the tile that it is on the way to, less one; 255 where none hunts.
PUFFER_FN void pacman_find_limits(const Pacman* env, uint8_t* limits) {
    const PacmanMaze* maze = env->shared;
    memset(limits, 255, PACMAN_ROW_BYTES);
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        const PacmanGhost* ghost = &env->ghosts[i];
        if (ghost->mode != PACMAN_OUTSIDE || ghost->is_frightened) continue;
        const uint8_t* distances = maze->distances[maze->neighbours[ghost->place][ghost->heading]];
        for (int to = 0; to < PACMAN_ROW_BYTES; to++) {
            limits[to] = pacman_nearer((uint8_t)(distances[to] - (distances[to] > 0)), limits[to]);
        }
    }
}

// What is near by one way. There are no branches, so that the compiler uses vectors.
typedef struct {
    uint8_t dot, safe_dot, pill, hunter, prey;  // tiles to the nearest; 255 for none
    int num_safe;                               // places
} PacmanView;

PUFFER_FN PacmanView pacman_look(const Pacman* env, const uint8_t* distances, const uint8_t* limits) {
    PacmanView view = {255, 255, 255, 255, 255, 0};
    uint8_t unsafe[PACMAN_ROW_BYTES], counts[PACMAN_LANES] = {0};
    for (int to = 0; to < PACMAN_ROW_BYTES; to++) unsafe[to] = distances[to] < limits[to] ? 0 : 255;
    for (int dot = 0; dot < PACMAN_EATEN_BYTES; dot++) {
        uint8_t distance = (uint8_t)(distances[dot] | env->eaten[dot]);
        view.dot = pacman_nearer(distance, view.dot);
        view.safe_dot = pacman_nearer((uint8_t)(distance | unsafe[dot]), view.safe_dot);
    }
    for (int to = 0; to < PACMAN_ROW_BYTES; to += PACMAN_LANES) {
        for (int i = 0; i < PACMAN_LANES; i++) counts[i] = (uint8_t)(counts[i] + unsafe[to + i] + 1);  // 255 adds none
    }
    for (int i = 0; i < PACMAN_LANES; i++) view.num_safe += counts[i];
    for (int i = 0; i < PACMAN_PILLS; i++) {
        view.pill = pacman_nearer((uint8_t)(distances[i] | env->eaten[i]), view.pill);
    }
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        const PacmanGhost* ghost = &env->ghosts[i];
        uint8_t hidden = ghost->mode == PACMAN_OUTSIDE ? 0 : 255, afraid = ghost->is_frightened ? 255 : 0;
        uint8_t distance = (uint8_t)(distances[ghost->place] | hidden);
        view.hunter = pacman_nearer((uint8_t)(distance | afraid), view.hunter);
        view.prey = pacman_nearer((uint8_t)(distance | (255 - afraid)), view.prey);
    }
    return view;
}

// What lies ahead by one way, see the top.
PUFFER_FN void pacman_write_way(const Pacman* env, int place, const uint8_t* limits, float* way) {
    const PacmanMaze* maze = env->shared;
    memset(way, 0, PACMAN_WAY_SIZE * sizeof(float));
    if (place < 0) return;
    const uint8_t* distances = maze->distances[place];
    PacmanView view = pacman_look(env, distances, limits);
    way[0] = 1.0f;
    way[1] = maze->nearness[view.dot];
    way[2] = maze->nearness[view.pill];
    way[3] = maze->nearness[view.hunter];
    way[4] = maze->nearness[view.prey];
    way[5] = env->fruit_left > 0 ? maze->nearness[distances[maze->fruit]] : 0.0f;
    way[6] = (float)view.num_safe * (1.0f / (float)PACMAN_PLACES);
    way[7] = maze->nearness[view.safe_dot];
}

PUFFER_FN void pacman_write_ghost(const Pacman* env, const PacmanGhost* ghost, float* row) {
    const PacmanMaze* maze = env->shared;
    bool is_outside = ghost->mode == PACMAN_OUTSIDE;
    row[0] = (float)(maze->rows[ghost->place] - maze->rows[env->place]) * (1.0f / (float)(PACMAN_ROWS - 1));
    row[1] = (float)(maze->columns[ghost->place] - maze->columns[env->place]) * (1.0f / (float)(PACMAN_COLUMNS - 1));
    row[2] = (float)PATHS_DOWNWARDS[ghost->heading];
    row[3] = (float)PATHS_RIGHTWARDS[ghost->heading];
    row[4] = is_outside ? maze->nearness[maze->distances[env->place][ghost->place]] : 0.0f;
    row[5] = (float)(is_outside && !ghost->is_frightened);
    row[6] = (float)(is_outside && ghost->is_frightened);
}

// All but the dots, which change one by one.
PUFFER_FN void pacman_write_observations(Pacman* env) {
    const PacmanMaze* maze = env->shared;
    float* self = env->observations + PACMAN_SELF;
    float* clock = env->observations + PACMAN_CLOCK;
    uint8_t limits[PACMAN_ROW_BYTES];
    pacman_find_limits(env, limits);
    self[0] = (float)maze->rows[env->place] * (1.0f / (float)(PACMAN_ROWS - 1));
    self[1] = (float)maze->columns[env->place] * (1.0f / (float)(PACMAN_COLUMNS - 1));
    for (int i = 0; i < PATHS_NUM_DIRECTIONS; i++) {
        self[2 + i] = (float)(i == env->heading);
        pacman_write_way(env, maze->neighbours[env->place][i], limits,
                         env->observations + PACMAN_WAYS + i * PACMAN_WAY_SIZE);
    }
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        pacman_write_ghost(env, &env->ghosts[i], env->observations + PACMAN_HAUNTS + i * PACMAN_GHOST_SIZE);
    }
    clock[0] = (float)env->fright_left * (1.0f / (float)PACMAN_FRIGHT_STEPS);
    clock[1] = (float)(env->phase % 2 == 0);
    clock[2] = (float)env->dots_left * (1.0f / (float)PACMAN_DOTS);
}

// -------------------------------------------------------------------------------------------------------- episodes

PUFFER_FN void pacman_place_ghosts(Pacman* env) {
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        PacmanGhost* ghost = &env->ghosts[i];
        ghost->place = env->shared->exit;
        ghost->progress = i == PACMAN_BLINKY ? 0 : PACMAN_HOUSE_DEPTH;
        ghost->heading = rng_below(&env->rng, 2) ? PATHS_LEFT : PATHS_RIGHT;
        ghost->mode = i == PACMAN_BLINKY ? PACMAN_OUTSIDE : PACMAN_WAITING;
        ghost->is_frightened = ghost->must_turn = false;
    }
}

PUFFER_FN void c_reset(Pacman* env) {
    memset(env->eaten, 0, PACMAN_DOTS);
    memset(env->eaten + PACMAN_DOTS, 0xFF, PACMAN_EATEN_BYTES - PACMAN_DOTS);
    for (int dot = 0; dot < PACMAN_DOTS; dot++) env->observations[dot] = 1.0f;
    env->place = env->shared->start;
    env->heading = rng_below(&env->rng, 2) ? PATHS_LEFT : PATHS_RIGHT;
    pacman_place_ghosts(env);
    env->dots_left = PACMAN_DOTS;
    env->phase = 0;
    env->phase_left = PACMAN_PHASE_STEPS[0];
    env->hungry_steps = env->fright_left = env->ghosts_eaten = env->fruit_left = env->steps = 0;
    env->score = 0;
    env->episode_return = 0.0f;
    pacman_write_observations(env);
}

PUFFER_FN void pacman_finish_episode(Pacman* env) {
    env->log.perf += 1.0f - (float)env->dots_left / (float)PACMAN_DOTS;
    env->log.score += (float)env->score;
    env->log.episode_return += env->episode_return;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    pacman_write_observations(env);
    keep_final(env->final_observations, env->observations, PACMAN_OBSERVATION_SIZE * sizeof(float));
    c_reset(env);
}

// --------------------------------------------------------------------------------------------------------- Pac-Man

PUFFER_FN void pacman_earn(Pacman* env, int points, float reward) {
    env->score += points;
    env->rewards[0] += reward;
}

PUFFER_FN void pacman_frighten(Pacman* env) {
    env->fright_left = PACMAN_FRIGHT_STEPS;
    env->ghosts_eaten = 0;
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        PacmanGhost* ghost = &env->ghosts[i];
        if (ghost->mode == PACMAN_EYES || ghost->mode == PACMAN_ENTERING) continue;
        ghost->is_frightened = true;
        ghost->must_turn = ghost->mode == PACMAN_OUTSIDE;
    }
}

// Eats what lies where Pac-Man is; returns the frames that it takes.
PUFFER_FN int pacman_eat(Pacman* env) {
    int place = env->place;
    if (place == env->shared->fruit && env->fruit_left > 0) {
        env->fruit_left = 0;
        pacman_earn(env, PACMAN_FRUIT_POINTS, PACMAN_FRUIT_POINTS * PACMAN_POINT_REWARD);
    }
    if (place >= PACMAN_DOTS || env->eaten[place] != 0) return 0;
    bool is_pill = place < PACMAN_PILLS;
    env->eaten[place] = 255;
    env->observations[place] = 0.0f;
    env->dots_left -= 1;
    env->hungry_steps = 0;
    int num_eaten = PACMAN_DOTS - env->dots_left;
    if (num_eaten == PACMAN_FIRST_FRUIT || num_eaten == PACMAN_SECOND_FRUIT) env->fruit_left = PACMAN_FRUIT_STEPS;
    pacman_earn(env, is_pill ? PACMAN_PILL_POINTS : PACMAN_DOT_POINTS, PACMAN_DOT_REWARD);
    if (is_pill) pacman_frighten(env);
    return is_pill ? PACMAN_PILL_FRAMES : PACMAN_DOT_FRAMES;
}

// Turns where the action asks for an open way, then walks on unless a wall is ahead.
PUFFER_FN void pacman_walk(Pacman* env) {
    const int16_t* neighbours = env->shared->neighbours[env->place];
    int action = ((const int32_t*)env->actions)[0];
    if (is_within(action, 0, PATHS_NUM_DIRECTIONS - 1) && neighbours[action] >= 0) env->heading = (int16_t)action;
    if (neighbours[env->heading] >= 0) env->place = neighbours[env->heading];
}

// ---------------------------------------------------------------------------------------------------------- ghosts

typedef struct {
    int row, column;  // may lie outside the maze
} PacmanTarget;

PUFFER_FN PacmanTarget pacman_ahead(const Pacman* env, int tiles) {
    PacmanTarget target = {env->shared->rows[env->place] + tiles * PATHS_DOWNWARDS[env->heading],
                           env->shared->columns[env->place] + tiles * PATHS_RIGHTWARDS[env->heading]};
    return target;
}

PUFFER_FN int pacman_square_distance(const PacmanMaze* maze, int place, PacmanTarget target) {
    int down = target.row - maze->rows[place], right = target.column - maze->columns[place];
    return down * down + right * right;
}

// Where a ghost outside wants to go.
PUFFER_FN PacmanTarget pacman_target(const Pacman* env, int index) {
    const PacmanMaze* maze = env->shared;
    const PacmanTarget corner = {PACMAN_CORNER_ROWS[index], PACMAN_CORNER_COLUMNS[index]};
    PacmanTarget target = pacman_ahead(env, index == PACMAN_PINKY ? 4 : index == PACMAN_INKY ? 2 : 0);
    bool is_past_it = index == PACMAN_BLINKY && env->dots_left <= PACMAN_FAST_DOTS;
    if (env->phase % 2 == 0 && !is_past_it) return corner;
    if (index == PACMAN_INKY) {
        int blinky = env->ghosts[PACMAN_BLINKY].place;
        target.row = 2 * target.row - maze->rows[blinky];
        target.column = 2 * target.column - maze->columns[blinky];
    }
    bool is_shy = index == PACMAN_CLYDE &&
                  pacman_square_distance(maze, env->ghosts[index].place, target) <= PACMAN_SHY_TILES * PACMAN_SHY_TILES;
    return is_shy ? corner : target;
}

// The open way that a frightened ghost takes: a random one, or the next that is open.
PUFFER_FN int pacman_random_heading(Pacman* env, const int16_t* neighbours, int back) {
    int heading = rng_below(&env->rng, PATHS_NUM_DIRECTIONS);
    while (heading == back || neighbours[heading] < 0) heading = (heading + 1) % PATHS_NUM_DIRECTIONS;
    return heading;
}

// The way on that is nearest to its target; of the eyes, that on the shortest way to the house.
PUFFER_FN int pacman_nearest_heading(const Pacman* env, int index, const int16_t* neighbours, int back) {
    const PacmanMaze* maze = env->shared;
    bool is_eyes = env->ghosts[index].mode == PACMAN_EYES;
    PacmanTarget target = {0, 0};
    if (!is_eyes) target = pacman_target(env, index);
    int best = back, least = INT32_MAX;
    for (int heading = 0; heading < PATHS_NUM_DIRECTIONS; heading++) {
        int next = neighbours[heading];
        if (next < 0 || (heading == back && !is_eyes)) continue;
        int distance = is_eyes ? maze->distances[next][maze->exit] : pacman_square_distance(maze, next, target);
        if (distance >= least) continue;
        least = distance;
        best = heading;
    }
    return best;
}

// The ghost has reached its next tile: it chooses its heading, or, eyes at the exit, enters the house.
PUFFER_FN void pacman_arrive(Pacman* env, int index) {
    PacmanGhost* ghost = &env->ghosts[index];
    int back = (ghost->heading + 2) % PATHS_NUM_DIRECTIONS;
    ghost->place = env->shared->neighbours[ghost->place][ghost->heading];
    ghost->progress = 0;
    const int16_t* neighbours = env->shared->neighbours[ghost->place];
    int onward = env->shared->onward[ghost->place][ghost->heading];
    if (ghost->mode == PACMAN_EYES && ghost->place == env->shared->exit) {
        ghost->mode = PACMAN_ENTERING;
    } else if (ghost->must_turn) {
        ghost->heading = (uint8_t)back;
    } else if (ghost->is_frightened) {
        ghost->heading = (uint8_t)pacman_random_heading(env, neighbours, back);
    } else if (onward >= 0 && ghost->mode != PACMAN_EYES) {
        ghost->heading = (uint8_t)onward;
    } else {
        ghost->heading = (uint8_t)pacman_nearest_heading(env, index, neighbours, back);
    }
    ghost->must_turn = false;
}

// Whether the ghost catches Pac-Man; eats it if it is frightened. It is where most of it is.
PUFFER_FN bool pacman_meet(Pacman* env, PacmanGhost* ghost) {
    bool is_near = env->shared->distances[env->place][ghost->place] <= 1;
    if (!is_near || ghost->mode != PACMAN_OUTSIDE) return false;
    bool is_past_half = ghost->progress >= PACMAN_TILE / 2;
    int place = is_past_half ? env->shared->neighbours[ghost->place][ghost->heading] : ghost->place;
    if (place != env->place) return false;
    if (!ghost->is_frightened) return true;
    int points = PACMAN_GHOST_POINTS << (env->ghosts_eaten & 3);
    pacman_earn(env, points, (float)points * PACMAN_POINT_REWARD);
    env->ghosts_eaten += 1;
    ghost->mode = PACMAN_EYES;
    ghost->is_frightened = ghost->must_turn = false;
    return false;
}

PUFFER_FN int pacman_speed(const Pacman* env, int index) {
    const PacmanGhost* ghost = &env->ghosts[index];
    if (ghost->mode == PACMAN_EYES || ghost->mode == PACMAN_ENTERING) return PACMAN_EYES_SPEED;
    if (ghost->mode != PACMAN_OUTSIDE || env->shared->is_tunnel[ghost->place]) return PACMAN_SLOW_SPEED;
    if (ghost->is_frightened) return PACMAN_FRIGHTENED_SPEED;
    if (index != PACMAN_BLINKY || env->dots_left > PACMAN_FAST_DOTS) return PACMAN_SPEED;
    return env->dots_left > PACMAN_FASTER_DOTS ? PACMAN_FAST_SPEED : PACMAN_FASTER_SPEED;
}

// Moves a ghost in the maze, half a tile at most at a time, so that it passes nobody unseen; returns whether it catches
// Pac-Man.
PUFFER_FN bool pacman_advance(Pacman* env, int index, int way) {
    PacmanGhost* ghost = &env->ghosts[index];
    while (way > 0 && (ghost->mode == PACMAN_OUTSIDE || ghost->mode == PACMAN_EYES)) {
        int next = ghost->progress < PACMAN_TILE / 2 ? PACMAN_TILE / 2 : PACMAN_TILE, part = next - ghost->progress;
        if (way < part) {
            ghost->progress = (int16_t)(ghost->progress + way);
            return false;
        }
        way -= part;
        ghost->progress = (int16_t)next;
        if (next == PACMAN_TILE) pacman_arrive(env, index);
        if (pacman_meet(env, ghost)) return true;
    }
    return false;
}

// Moves a ghost in the house: down to its floor, up and out.
PUFFER_FN void pacman_move_inside(Pacman* env, PacmanGhost* ghost, int way) {
    if (ghost->mode == PACMAN_ENTERING) {
        ghost->progress = (int16_t)(ghost->progress + way);
        if (ghost->progress < PACMAN_HOUSE_DEPTH) return;
        ghost->progress = PACMAN_HOUSE_DEPTH;
        ghost->mode = PACMAN_LEAVING;
    } else if (ghost->mode == PACMAN_LEAVING) {
        ghost->progress = (int16_t)(ghost->progress - way);
        if (ghost->progress > 0) return;
        ghost->progress = 0;
        ghost->mode = PACMAN_OUTSIDE;
    }
}

// Moves all ghosts; `frames` are those that Pac-Man spends eating. Returns whether one catches him.
PUFFER_FN bool pacman_move_ghosts(Pacman* env, int frames) {
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        int speed = pacman_speed(env, i);
        int way = speed + speed * frames / PACMAN_STEP_FRAMES;
        PacmanGhost* ghost = &env->ghosts[i];
        if (ghost->mode == PACMAN_OUTSIDE || ghost->mode == PACMAN_EYES) {
            if (pacman_advance(env, i, way)) return true;
        } else {
            pacman_move_inside(env, ghost, way);
        }
    }
    return false;
}

// Lets out those whose time has come; one more when Pac-Man eats nothing.
PUFFER_FN void pacman_release_ghosts(Pacman* env) {
    bool is_impatient = ++env->hungry_steps >= PACMAN_PATIENCE_STEPS;
    if (is_impatient) env->hungry_steps = 0;
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        PacmanGhost* ghost = &env->ghosts[i];
        if (ghost->mode != PACMAN_WAITING) continue;
        if (PACMAN_DOTS - env->dots_left < PACMAN_RELEASES[i] && !is_impatient) continue;
        ghost->mode = PACMAN_LEAVING;
        is_impatient = false;
    }
}

// ------------------------------------------------------------------------------------------------------------ time

PUFFER_FN void pacman_calm(Pacman* env) {
    for (int i = 0; i < PACMAN_GHOSTS; i++) env->ghosts[i].is_frightened = false;
}

PUFFER_FN void pacman_next_phase(Pacman* env) {
    env->phase += 1;
    env->phase_left = PACMAN_PHASE_STEPS[env->phase];
    for (int i = 0; i < PACMAN_GHOSTS; i++) env->ghosts[i].must_turn |= env->ghosts[i].mode == PACMAN_OUTSIDE;
}

// While ghosts are frightened the phase waits.
PUFFER_FN void pacman_pass_time(Pacman* env) {
    env->steps += 1;
    if (env->fruit_left > 0) env->fruit_left -= 1;
    if (env->fright_left > 0) {
        if (--env->fright_left == 0) pacman_calm(env);
    } else if (env->phase < PACMAN_PHASES - 1 && --env->phase_left == 0) {
        pacman_next_phase(env);
    }
}

PUFFER_FN bool pacman_meet_all(Pacman* env) {
    bool is_caught = false;
    for (int i = 0; i < PACMAN_GHOSTS; i++) is_caught |= pacman_meet(env, &env->ghosts[i]);
    return is_caught;
}

// Plays one step but for what its end means; returns whether Pac-Man is caught.
PUFFER_FN bool pacman_play(Pacman* env) {
    pacman_walk(env);
    int frames = pacman_eat(env);
    bool is_caught = env->dots_left > 0 && (pacman_meet_all(env) || pacman_move_ghosts(env, frames));
    pacman_release_ghosts(env);
    pacman_pass_time(env);
    return is_caught;
}

PUFFER_FN void c_step(Pacman* env) {
    env->rewards[0] = 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    bool is_caught = pacman_play(env), is_cleared = env->dots_left == 0;
    if (is_caught) env->rewards[0] -= PACMAN_END_REWARD;
    if (is_cleared) env->rewards[0] += PACMAN_END_REWARD;
    env->episode_return += env->rewards[0];
    env->terminals[0] = is_caught || is_cleared;
    env->truncations[0] = !env->terminals[0] && env->steps == PACMAN_MAX_STEPS;
    if (env->terminals[0] || env->truncations[0]) {
        pacman_finish_episode(env);
    } else {
        pacman_write_observations(env);
    }
}

// ------------------------------------------------------------------------------------------------------- snapshots

PUFFER_FN bool pacman_accepts_ghost(const PacmanMaze* maze, const PacmanGhost* ghost) {
    if (!is_bool(&ghost->is_frightened) || !is_bool(&ghost->must_turn) || ghost->mode > PACMAN_ENTERING) return false;
    if (ghost->heading >= PATHS_NUM_DIRECTIONS || !is_within(ghost->place, 0, PACMAN_PLACES - 1)) return false;
    if (maze->neighbours[ghost->place][ghost->heading] < 0) return false;
    bool is_outside = ghost->mode == PACMAN_OUTSIDE || ghost->mode == PACMAN_EYES;
    if (is_outside) return is_within(ghost->progress, 0, PACMAN_TILE - 1);
    return ghost->place == maze->exit && is_within(ghost->progress, 0, PACMAN_HOUSE_DEPTH);
}

PUFFER_FN bool pacman_accepts_dots(const Pacman* saved) {
    int num_left = 0;
    for (int dot = 0; dot < PACMAN_EATEN_BYTES; dot++) {
        if (saved->eaten[dot] != 0 && (saved->eaten[dot] != 255)) return false;
        if (dot >= PACMAN_DOTS && saved->eaten[dot] == 0) return false;
        num_left += saved->eaten[dot] == 0;
    }
    return saved->dots_left == num_left && num_left > 0;
}

PUFFER_FN bool pacman_accepts_times(const Pacman* saved) {
    return is_within(saved->hungry_steps, 0, PACMAN_PATIENCE_STEPS - 1) &&
           is_within(saved->phase, 0, PACMAN_PHASES - 1) &&
           is_within(saved->phase_left, saved->phase < PACMAN_PHASES - 1, PACMAN_PHASE_STEPS[saved->phase]) &&
           is_within(saved->fright_left, 0, PACMAN_FRIGHT_STEPS) &&
           is_within(saved->fruit_left, 0, PACMAN_FRUIT_STEPS) && is_within(saved->steps, 0, PACMAN_MAX_STEPS - 1);
}

PUFFER_FN bool c_accepts(const Pacman* env, const Pacman* saved) {
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        if (!pacman_accepts_ghost(env->shared, &saved->ghosts[i])) return false;
    }
    return pacman_accepts_dots(saved) && pacman_accepts_times(saved) && is_within(saved->place, 0, PACMAN_PLACES - 1) &&
           is_within(saved->heading, 0, PATHS_NUM_DIRECTIONS - 1) &&
           is_within(saved->ghosts_eaten, 0, PACMAN_MAX_STEPS) && is_within(saved->score, 0, PUFFER_MAX_STEPS);
}
