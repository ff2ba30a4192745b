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
// Reward: +0.1 for food or corpse eaten, which makes a snake longer, up to SNAKE_MAX_LENGTH, and as long as a quarter
// of the arena is left to nobody; -1 for death, which is terminal. After SNAKE_MAX_STEPS steps a snake dies of age: its
// episode is truncated. Score is the length in the end, perf that over the longest that one may be in this arena.
#pragma once

#include "puffer_window.h"

enum { SNAKE_DOWN, SNAKE_UP, SNAKE_LEFT, SNAKE_RIGHT, SNAKE_NUM_ACTIONS };
enum { SNAKE_EMPTY, SNAKE_FOOD, SNAKE_CORPSE, SNAKE_BODY, SNAKE_HEAD, SNAKE_WALL };
enum { SNAKE_ENTERED = 6, SNAKE_CLASH = 7 };  // within a step: by one head, by several
enum { SNAKE_VIEW = 11, SNAKE_WINDOW = SNAKE_VIEW * SNAKE_VIEW, SNAKE_BORDER = SNAKE_VIEW / 2 };
enum { SNAKE_MAX_SNAKES = 512, SNAKE_MAX_LENGTH = 1024, SNAKE_START_LENGTH = 2, SNAKE_MAX_STEPS = 5000 };
enum { SNAKE_MIN_WIDTH = 64, SNAKE_MAX_WIDTH = 640, SNAKE_MIN_HEIGHT = 32, SNAKE_MAX_HEIGHT = 360 };
enum { SNAKE_CELLS_PER_FOOD = 32 };

#define SNAKE_FOOD_REWARD (0.1f)
#define SNAKE_DEATH_REWARD (-1.0f)

typedef struct {
    int16_t down, right;  // cells
} SnakeMove;

PUFFER_TABLE SnakeMove SNAKE_MOVES[SNAKE_NUM_ACTIONS] = {{1, 0}, {-1, 0}, {0, -1}, {0, 1}};  // by action

// Of its cells but two are known by the moves from one to the next: two bits each, so that a long snake is small.
enum { SNAKE_MOVES_IN_BYTE = 4, SNAKE_MOVE_BYTES = SNAKE_MAX_LENGTH / SNAKE_MOVES_IN_BYTE };

typedef struct {
    int32_t head, tail;  // cells
    uint16_t first;      // move in the ring: the one from the tail
    uint16_t num_cells;  // in the arena; below the length while it comes out of the first
    uint16_t length;
    int16_t steps;  // in this episode
    int16_t meals;
    uint8_t heading;                  // an action
    uint8_t moves[SNAKE_MOVE_BYTES];  // actions, from the tail on, around the end of the array
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
    int longest;    // that a snake may be
    int max_grown;  // cells by which all together may be longer than in the beginning: a quarter of the arena is empty
    int num_grown;  // by which they are
    int num_food;   // edible cells below which more food grows
    int num_edible;
    Log log;  // summed at episode ends, cleared by the reader
    SnakeAgent snakes[SNAKE_MAX_SNAKES];
    uint8_t cells[GRID_CAPACITY(SNAKE_MAX_WIDTH, SNAKE_MAX_HEIGHT, SNAKE_BORDER)];
} Snake;

// What a step has found out so far.
typedef struct {
    int32_t targets[SNAKE_MAX_SNAKES];  // cells that the heads go to
    uint16_t ended[SNAKE_MAX_SNAKES];   // snakes whose episode this step ends
    int num_ended;
    bool may_grow;  // there is room for all to
} SnakeStep;

PUFFER_FN PufferLayout c_layout(const Snake* env) {
    return puffer_layout(env->num_snakes, SNAKE_WINDOW, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN Grid snake_grid(const Snake* env) { return grid_of(env->width, env->height, SNAKE_BORDER); }

// Once the arguments are set: what follows from them.
PUFFER_FN void snake_configure(Snake* env) {
    int area = env->width * env->height;
    env->num_food = area / SNAKE_CELLS_PER_FOOD;
    env->max_grown = area - area / 4 - env->num_food - SNAKE_START_LENGTH * env->num_snakes;
    int most = env->max_grown - env->num_snakes + 1;  // all others as short as can be
    int longest = SNAKE_START_LENGTH + (most > 0 ? most : 0);
    env->longest = longest < SNAKE_MAX_LENGTH ? longest : SNAKE_MAX_LENGTH;
}

PUFFER_FN int snake_ahead(const Grid* grid, int cell, int move) {
    return cell + SNAKE_MOVES[move].down * grid->stride + SNAKE_MOVES[move].right;
}

// The move from a snake's cell to the next one; cell 0 is its tail's.
PUFFER_FN int snake_move(const SnakeAgent* snake, int index) {
    int at = (snake->first + index) & (SNAKE_MAX_LENGTH - 1);
    return snake->moves[at / SNAKE_MOVES_IN_BYTE] >> (2 * (at % SNAKE_MOVES_IN_BYTE)) & 3;
}

PUFFER_FN void snake_put_move(SnakeAgent* snake, int index, int move) {
    int at = (snake->first + index) & (SNAKE_MAX_LENGTH - 1), shift = 2 * (at % SNAKE_MOVES_IN_BYTE);
    uint8_t* moves = &snake->moves[at / SNAKE_MOVES_IN_BYTE];
    *moves = (uint8_t)((*moves & ~(3 << shift)) | move << shift);
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
    snake->head = snake->tail = cell;
    snake->first = 0;
    snake->num_cells = 1;
    snake->length = SNAKE_START_LENGTH;
    snake->heading = (uint8_t)rng_below(&env->rng, SNAKE_NUM_ACTIONS);
    snake->steps = snake->meals = 0;
}

PUFFER_FN void snake_observe(const Snake* env, const Grid* grid, int row) {
    grid_window(env->observations + row * SNAKE_WINDOW, env->cells, grid->stride, env->snakes[row].head, SNAKE_VIEW,
                SNAKE_VIEW);
}

PUFFER_FN void snake_observe_all(const Snake* env, const Grid* grid) {
    for (int row = 0; row < env->num_snakes; row++) snake_observe(env, grid, row);
}

PUFFER_FN void c_reset(Snake* env) {
    Grid grid = snake_grid(env);
    grid_fill(env->cells, &grid, SNAKE_EMPTY, SNAKE_WALL);
    env->num_edible = env->num_grown = 0;
    for (int row = 0; row < env->num_snakes; row++) snake_begin(env, &grid, &env->snakes[row]);
    snake_grow_food(env, &grid);
    snake_observe_all(env, &grid);
}

// ------------------------------------------------------------------------------------------------------------ a step

// An action and its opposite differ in their last bit.
PUFFER_FN int snake_heading(int heading, int action) {
    return action < 0 || action >= SNAKE_NUM_ACTIONS || action == (heading ^ 1) ? heading : action;
}

PUFFER_FN void snake_leave_tail(Snake* env, const Grid* grid, SnakeAgent* snake) {
    env->cells[snake->tail] = SNAKE_EMPTY;
    snake->tail = snake_ahead(grid, snake->tail, snake_move(snake, 0));
    snake->first = (uint16_t)((snake->first + 1) & (SNAKE_MAX_LENGTH - 1));
    snake->num_cells -= 1;
}

PUFFER_FN bool snake_may_grow(const Snake* env, const SnakeStep* step, const SnakeAgent* snake) {
    return step->may_grow && snake->length < env->longest;
}

// Turns all heads, and has the tails leave that do not stay because their snake grows.
PUFFER_FN void snake_turn(Snake* env, const Grid* grid, SnakeStep* step) {
    step->may_grow = env->num_grown <= env->max_grown - env->num_snakes;
    for (int row = 0; row < env->num_snakes; row++) {
        SnakeAgent* snake = &env->snakes[row];
        int heading = snake_heading(snake->heading, ((const int32_t*)env->actions)[row]);
        int target = snake_ahead(grid, snake->head, heading);
        snake->heading = (uint8_t)heading;
        snake->steps += 1;
        step->targets[row] = target;
        env->rewards[row] = 0.0f;
        env->terminals[row] = env->truncations[row] = 0;
        bool is_growing = snake_is_edible(env->cells[target]) && snake_may_grow(env, step, snake);
        if (snake->num_cells == snake->length && !is_growing) snake_leave_tail(env, grid, snake);
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

PUFFER_FN void snake_advance(Snake* env, const SnakeStep* step, SnakeAgent* snake, int target, bool has_eaten) {
    bool grows = has_eaten && snake_may_grow(env, step, snake);
    env->cells[snake->head] = SNAKE_BODY;
    env->cells[target] = SNAKE_HEAD;
    snake_put_move(snake, snake->num_cells - 1, snake->heading);
    snake->head = target;
    snake->num_cells += 1;
    snake->meals += has_eaten;
    snake->length += grows;
    env->num_grown += grows;
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
            snake_advance(env, step, snake, target, env->rewards[row] > 0.0f);
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
PUFFER_FN void snake_decay(Snake* env, const Grid* grid, const SnakeAgent* snake) {
    int cell = snake->tail;
    for (int i = 0; i < snake->num_cells; i++) {
        bool is_corpse = i < snake->num_cells - SNAKE_START_LENGTH;
        env->cells[cell] = is_corpse ? SNAKE_CORPSE : SNAKE_EMPTY;
        env->num_edible += is_corpse;
        cell = snake_ahead(grid, cell, snake_move(snake, i));
    }
    env->num_grown -= snake->length - SNAKE_START_LENGTH;
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
    for (int i = 0; i < step->num_ended; i++) snake_decay(env, grid, &env->snakes[step->ended[i]]);
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
                    is_within(snake->num_cells, 1, snake->length) && snake->first < SNAKE_MAX_LENGTH &&
                    snake->heading < SNAKE_NUM_ACTIONS && is_within(snake->steps, 0, SNAKE_MAX_STEPS - 1) &&
                    is_within(snake->meals, 0, SNAKE_MAX_STEPS);
    int cell = snake->tail;
    for (int i = 0; is_sound && i < snake->num_cells; i++) {
        if (!grid_has(grid, cell)) return false;
        uint32_t bit = 1u << (cell & 31);
        is_sound =
            saved->cells[cell] == (i + 1 < snake->num_cells ? SNAKE_BODY : SNAKE_HEAD) && (taken[cell / 32] & bit) == 0;
        taken[cell / 32] |= bit;
        if (i + 1 == snake->num_cells) return is_sound && cell == snake->head;
        cell = snake_ahead(grid, cell, snake_move(snake, i));
    }
    return false;
}

// Refuses what would fill the arena, too: a new snake is placed where there is nothing.
PUFFER_FN bool c_accepts(const Snake* env, const Snake* saved) {
    Grid grid = snake_grid(env);
    bool is_same = saved->num_snakes == env->num_snakes && saved->width == env->width && saved->height == env->height &&
                   saved->longest == env->longest && saved->max_grown == env->max_grown &&
                   saved->num_food == env->num_food;
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
    return num_found == num_cells && num_edible == saved->num_edible && num_grown == saved->num_grown &&
           num_grown <= env->max_grown && num_edible + num_grown <= env->num_food + env->max_grown;
}
