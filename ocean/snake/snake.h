// snake.h - many snakes in one arena eat, grow, and turn to food when they run into something.
//
// All snakes move at the same moment, one cell straight ahead or to a side; to turn back is to go on. First all tails
// leave their cells, but for those of snakes that grow. Then whoever enters a wall or a body is dead, and so are all
// whose heads enter the same cell, whatever lay there: the order of the rows decides nothing. Of a dead snake the head
// and the neck vanish and the rest turns to corpse, which is food. Food grows in empty cells while less than one cell
// in SNAKE_CELLS_PER_FOOD of the arena is edible. The dead are back at once, SNAKE_START_LENGTH long, in a random empty
// cell.
//
// Each snake is an agent. Observation uint8[11 x 11], row by row, its head in the middle: 0 empty, 1 food, 2 corpse,
// 3 body, 4 head, 5 wall and what is outside. Action: 0 down, 1 up, 2 left, 3 right; anything else goes on.
// Reward: +0.1 for food or corpse eaten, which makes a snake longer up to the longest that the arena lets all be,
// SNAKE_MAX_LENGTH at most; -1 for death, which is terminal. After SNAKE_MAX_STEPS steps a snake dies of age: its
// episode is truncated. Score is the length in the end, perf that over the longest.
#pragma once

#include "puffer_window.h"

enum { SNAKE_DOWN, SNAKE_UP, SNAKE_LEFT, SNAKE_RIGHT, SNAKE_NUM_ACTIONS };
enum { SNAKE_EMPTY, SNAKE_FOOD, SNAKE_CORPSE, SNAKE_BODY, SNAKE_HEAD, SNAKE_WALL };
enum { SNAKE_ENTERED = 6, SNAKE_CLASH = 7 };  // within a step: by one head, by several
enum { SNAKE_VIEW = 11, SNAKE_WINDOW = SNAKE_VIEW * SNAKE_VIEW, SNAKE_BORDER = SNAKE_VIEW / 2 };
enum { SNAKE_MAX_SNAKES = 512, SNAKE_MAX_LENGTH = 64, SNAKE_START_LENGTH = 2, SNAKE_MAX_STEPS = 1000 };
enum { SNAKE_MIN_WIDTH = 64, SNAKE_MAX_WIDTH = 320, SNAKE_MIN_HEIGHT = 32, SNAKE_MAX_HEIGHT = 180 };
enum { SNAKE_CELLS_PER_FOOD = 32 };

#define SNAKE_FOOD_REWARD (0.1f)
#define SNAKE_DEATH_REWARD (-1.0f)

typedef struct {
    int16_t down, right;  // cells
} SnakeMove;

PUFFER_TABLE SnakeMove SNAKE_MOVES[SNAKE_NUM_ACTIONS] = {{1, 0}, {-1, 0}, {0, -1}, {0, 1}};  // by action

typedef struct {
    uint16_t ring[SNAKE_MAX_LENGTH];  // its cells, the tail's and on, around the end of the array
    uint8_t tail;                     // where in the ring it begins
    uint8_t num_cells;                // in the arena; below the length while it comes out of the first
    uint8_t length;
    uint8_t heading;  // an action
    int16_t steps;    // in this episode
    int16_t meals;
} SnakeAgent;

typedef struct {
    uint8_t* observations;        // [num_snakes, SNAKE_WINDOW]  these six are borrowed from the caller
    const void* actions;          // int32_t[num_snakes]
    float* rewards;               // [num_snakes]
    uint8_t* terminals;           // [num_snakes]
    uint8_t* truncations;         // [num_snakes]
    uint8_t* final_observations;  // [num_snakes, SNAKE_WINDOW] or NULL
    Rng rng;
    int num_snakes, width, height;
    int longest;   // that a snake may be: then a quarter of the arena is always empty
    int num_food;  // edible cells below which more food grows
    int num_edible;
    Log log;  // summed at episode ends, cleared by the reader
    SnakeAgent snakes[SNAKE_MAX_SNAKES];
    uint8_t cells[GRID_CAPACITY(SNAKE_MAX_WIDTH, SNAKE_MAX_HEIGHT, SNAKE_BORDER)];
} Snake;

// What a step has found out so far.
typedef struct {
    uint16_t targets[SNAKE_MAX_SNAKES];  // cells that the heads go to
    uint16_t ended[SNAKE_MAX_SNAKES];    // snakes whose episode this step ends
    int num_ended;
} SnakeStep;

PUFFER_FN PufferLayout c_layout(const Snake* env) {
    return puffer_layout(env->num_snakes, SNAKE_WINDOW, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN Grid snake_grid(const Snake* env) { return grid_of(env->width, env->height, SNAKE_BORDER); }

// Once the arguments are set: what follows from them.
PUFFER_FN void snake_configure(Snake* env) {
    int area = env->width * env->height;
    env->num_food = area / SNAKE_CELLS_PER_FOOD;
    int longest = (area - area / 4 - env->num_food) / env->num_snakes;
    env->longest = longest < SNAKE_MAX_LENGTH ? longest : SNAKE_MAX_LENGTH;
}

// The cell of a snake, 0 being its tail's.
PUFFER_FN uint16_t* snake_cell(SnakeAgent* snake, int index) {
    return &snake->ring[(snake->tail + index) & (SNAKE_MAX_LENGTH - 1)];
}

PUFFER_FN int snake_head(const SnakeAgent* snake) {
    return snake->ring[(snake->tail + snake->num_cells - 1) & (SNAKE_MAX_LENGTH - 1)];
}

PUFFER_FN bool snake_is_edible(int content) { return content == SNAKE_FOOD || content == SNAKE_CORPSE; }

PUFFER_FN int snake_empty_cell(Snake* env, const Grid* grid) {
    int cell;
    do {
        int row = rng_below(&env->rng, env->height), column = rng_below(&env->rng, env->width);
        cell = grid_cell(grid, column, row);
    } while (env->cells[cell] != SNAKE_EMPTY);
    return cell;
}

PUFFER_FN void snake_grow_food(Snake* env, const Grid* grid) {
    for (; env->num_edible < env->num_food; env->num_edible++) {
        env->cells[snake_empty_cell(env, grid)] = SNAKE_FOOD;
    }
}

PUFFER_FN void snake_begin(Snake* env, const Grid* grid, SnakeAgent* snake) {
    int cell = snake_empty_cell(env, grid);
    env->cells[cell] = SNAKE_HEAD;
    snake->ring[0] = (uint16_t)cell;
    snake->tail = 0;
    snake->num_cells = 1;
    snake->length = SNAKE_START_LENGTH;
    snake->heading = (uint8_t)rng_below(&env->rng, SNAKE_NUM_ACTIONS);
    snake->steps = snake->meals = 0;
}

PUFFER_FN void snake_observe(const Snake* env, const Grid* grid, int row) {
    grid_window(env->observations + row * SNAKE_WINDOW, env->cells, grid->stride, snake_head(&env->snakes[row]),
                SNAKE_VIEW, SNAKE_VIEW);
}

PUFFER_FN void snake_observe_all(const Snake* env, const Grid* grid) {
    for (int row = 0; row < env->num_snakes; row++) snake_observe(env, grid, row);
}

PUFFER_FN void c_reset(Snake* env) {
    Grid grid = snake_grid(env);
    grid_fill(env->cells, &grid, SNAKE_EMPTY, SNAKE_WALL);
    env->num_edible = 0;
    for (int row = 0; row < env->num_snakes; row++) snake_begin(env, &grid, &env->snakes[row]);
    snake_grow_food(env, &grid);
    snake_observe_all(env, &grid);
}

// ------------------------------------------------------------------------------------------------------------ a step

// An action and its opposite differ in their last bit.
PUFFER_FN int snake_heading(int heading, int action) {
    return action < 0 || action >= SNAKE_NUM_ACTIONS || action == (heading ^ 1) ? heading : action;
}

PUFFER_FN void snake_leave_tail(Snake* env, SnakeAgent* snake) {
    env->cells[*snake_cell(snake, 0)] = SNAKE_EMPTY;
    snake->tail = (uint8_t)((snake->tail + 1) & (SNAKE_MAX_LENGTH - 1));
    snake->num_cells -= 1;
}

// Turns all heads, and has the tails leave that do not stay because their snake grows.
PUFFER_FN void snake_turn(Snake* env, const Grid* grid, SnakeStep* step) {
    for (int row = 0; row < env->num_snakes; row++) {
        SnakeAgent* snake = &env->snakes[row];
        int heading = snake_heading(snake->heading, ((const int32_t*)env->actions)[row]);
        int target = snake_head(snake) + SNAKE_MOVES[heading].down * grid->stride + SNAKE_MOVES[heading].right;
        snake->heading = (uint8_t)heading;
        snake->steps += 1;
        step->targets[row] = (uint16_t)target;
        env->rewards[row] = 0.0f;
        env->terminals[row] = env->truncations[row] = 0;
        bool is_growing = snake_is_edible(env->cells[target]) && snake->length < env->longest;
        if (snake->num_cells == snake->length && !is_growing) snake_leave_tail(env, snake);
    }
}

// Marks the cells that heads enter. Rewards say for now who eats, flags who has run into something.
PUFFER_FN void snake_enter(Snake* env, const SnakeStep* step) {
    for (int row = 0; row < env->num_snakes; row++) {
        uint8_t* cell = &env->cells[step->targets[row]];
        if (*cell >= SNAKE_BODY && *cell <= SNAKE_WALL) {
            env->terminals[row] = 1;
        } else if (*cell >= SNAKE_ENTERED) {
            *cell = SNAKE_CLASH;
        } else {
            if (snake_is_edible(*cell)) {
                env->rewards[row] = SNAKE_FOOD_REWARD;
                env->num_edible -= 1;
            }
            *cell = SNAKE_ENTERED;
        }
    }
}

PUFFER_FN void snake_advance(Snake* env, SnakeAgent* snake, int target, bool has_eaten) {
    env->cells[snake_head(snake)] = SNAKE_BODY;
    env->cells[target] = SNAKE_HEAD;
    snake->num_cells += 1;
    *snake_cell(snake, snake->num_cells - 1) = (uint16_t)target;
    snake->meals += has_eaten;
    snake->length += has_eaten && snake->length < env->longest;
}

// Moves those on that live, and lists the others and the old.
PUFFER_FN void snake_settle(Snake* env, SnakeStep* step) {
    step->num_ended = 0;
    for (int row = 0; row < env->num_snakes; row++) {
        SnakeAgent* snake = &env->snakes[row];
        int target = step->targets[row];
        if (env->terminals[row] || env->cells[target] == SNAKE_CLASH) {
            env->terminals[row] = 1;
            env->rewards[row] = SNAKE_DEATH_REWARD;
        } else {
            snake_advance(env, snake, target, env->rewards[row] > 0.0f);
            env->truncations[row] = snake->steps >= SNAKE_MAX_STEPS;
        }
        if (env->terminals[row] || env->truncations[row]) step->ended[step->num_ended++] = (uint16_t)row;
    }
}

PUFFER_FN void snake_log(Snake* env, int row) {
    const SnakeAgent* snake = &env->snakes[row];
    env->log.perf += (float)snake->length / (float)env->longest;
    env->log.score += (float)snake->length;
    env->log.episode_return +=
        SNAKE_FOOD_REWARD * (float)snake->meals + (env->terminals[row] ? SNAKE_DEATH_REWARD : 0.0f);
    env->log.episode_length += (float)snake->steps;
    env->log.n += 1.0f;
}

// Head and neck vanish, the rest turns to corpse.
PUFFER_FN void snake_decay(Snake* env, SnakeAgent* snake) {
    for (int i = 0; i < snake->num_cells; i++) {
        bool is_corpse = i < snake->num_cells - SNAKE_START_LENGTH;
        env->cells[*snake_cell(snake, i)] = is_corpse ? SNAKE_CORPSE : SNAKE_EMPTY;
        env->num_edible += is_corpse;
    }
}

// Each of these is done for all that ended before the next is begun, so that they see each other as they were.
PUFFER_FN void snake_finish_episodes(Snake* env, const Grid* grid, const SnakeStep* step) {
    for (int i = 0; i < step->num_ended; i++) {
        uint8_t* target = &env->cells[step->targets[step->ended[i]]];
        if (*target == SNAKE_CLASH) *target = SNAKE_EMPTY;
    }
    for (int i = 0; i < step->num_ended; i++) {
        int row = step->ended[i], offset = row * SNAKE_WINDOW;
        snake_log(env, row);
        snake_observe(env, grid, row);
        if (env->final_observations == NULL) continue;
        keep_final(env->final_observations + offset, env->observations + offset, SNAKE_WINDOW);
    }
    for (int i = 0; i < step->num_ended; i++) snake_decay(env, &env->snakes[step->ended[i]]);
    for (int i = 0; i < step->num_ended; i++) snake_begin(env, grid, &env->snakes[step->ended[i]]);
}

PUFFER_FN void c_step(Snake* env) {
    Grid grid = snake_grid(env);
    SnakeStep step;
    snake_turn(env, &grid, &step);
    snake_enter(env, &step);
    snake_settle(env, &step);
    snake_finish_episodes(env, &grid, &step);
    snake_grow_food(env, &grid);
    snake_observe_all(env, &grid);
}

// ------------------------------------------------------------------------------------------------- a stranger's state

enum { SNAKE_CELL_WORDS = (GRID_CAPACITY(SNAKE_MAX_WIDTH, SNAKE_MAX_HEIGHT, SNAKE_BORDER) + 31) / 32 };

// Whether a snake lies in cells that say so and are no other's; adds its own to those, a bit each.
PUFFER_FN bool snake_accepts(const Snake* saved, const Grid* grid, const SnakeAgent* snake, uint32_t* taken) {
    bool is_sound = is_within(snake->length, SNAKE_START_LENGTH, saved->longest) &&
                    is_within(snake->num_cells, 1, snake->length) && snake->tail < SNAKE_MAX_LENGTH &&
                    snake->heading < SNAKE_NUM_ACTIONS && is_within(snake->steps, 0, SNAKE_MAX_STEPS - 1) &&
                    is_within(snake->meals, 0, SNAKE_MAX_STEPS);
    for (int i = 0; is_sound && i < snake->num_cells; i++) {
        int cell = snake->ring[(snake->tail + i) & (SNAKE_MAX_LENGTH - 1)];
        if (!grid_has(grid, cell)) return false;
        uint32_t bit = 1u << (cell & 31);
        is_sound =
            saved->cells[cell] == (i + 1 < snake->num_cells ? SNAKE_BODY : SNAKE_HEAD) && (taken[cell / 32] & bit) == 0;
        taken[cell / 32] |= bit;
    }
    return is_sound;
}

// Refuses what would fill the arena, too: a new snake is placed where there is nothing.
PUFFER_FN bool c_accepts(const Snake* env, const Snake* saved) {
    Grid grid = snake_grid(env);
    bool is_same = saved->num_snakes == env->num_snakes && saved->width == env->width && saved->height == env->height &&
                   saved->longest == env->longest && saved->num_food == env->num_food;
    if (!is_same || !grid_is_framed(saved->cells, &grid, SNAKE_HEAD, SNAKE_WALL)) return false;
    uint32_t taken[SNAKE_CELL_WORDS] = {0};
    int num_cells = 0, num_grown = 0, num_found = 0, num_edible = 0;
    for (int row = 0; row < env->num_snakes; row++) {
        if (!snake_accepts(saved, &grid, &saved->snakes[row], taken)) return false;
        num_cells += saved->snakes[row].num_cells;
        num_grown += saved->snakes[row].length - SNAKE_START_LENGTH;
    }
    for (int cell = 0; cell < grid.size; cell++) {
        num_edible += snake_is_edible(saved->cells[cell]);
        num_found += saved->cells[cell] == SNAKE_BODY || saved->cells[cell] == SNAKE_HEAD;
    }
    int most = env->num_food + env->num_snakes * (env->longest - SNAKE_START_LENGTH);
    return num_found == num_cells && num_edible == saved->num_edible && num_edible + num_grown <= most;
}
