// squared.h - walk to the target before the time is up. The tutorial environment.
//
// Observation uint8[size * size], row by row: 0 empty, 1 agent, 2 target. When an episode has ended the agent stands on
// the target that it reached, or is nowhere when it left the grid.
// Action: 0 stay, 1 down, 2 up, 3 left, 4 right; anything else stays.
// Reward: +1 on the target, -1 for leaving the grid, -1 when 3 * size steps are used up. Each of them is terminal.
// Score is that last reward, perf 1 for the target and 0 without it.
#pragma once

#include "puffer_env.h"

enum { SQUARED_STAY, SQUARED_DOWN, SQUARED_UP, SQUARED_LEFT, SQUARED_RIGHT, SQUARED_NUM_ACTIONS };
enum { SQUARED_EMPTY, SQUARED_AGENT, SQUARED_TARGET };
enum { SQUARED_MIN_SIZE = 2, SQUARED_MAX_SIZE = 128, SQUARED_STEPS_PER_SIZE = 3 };

typedef struct {
    int8_t down, right;  // cells
} SquaredMove;

PUFFER_TABLE SquaredMove SQUARED_MOVES[SQUARED_NUM_ACTIONS] = {{0, 0}, {1, 0}, {-1, 0}, {0, -1}, {0, 1}};  // by action

typedef struct {
    uint8_t* observations;        // [size * size]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]  never set: running out of time is a loss here
    uint8_t* final_observations;  // [size * size] or NULL
    Rng rng;
    int16_t size;           // cells along one side
    int16_t agent, target;  // cells, row * size + column
    int16_t column;         // of the agent
    int16_t steps_left;
    Log log;  // summed at episode end, cleared by the reader
} Squared;

PUFFER_FN PufferLayout c_layout(const Squared* env) {
    return puffer_layout(1, env->size * env->size, PUFFER_UINT8, 1, PUFFER_INT32);
}

// Chooses a target and marks both cells on a board that is empty.
PUFFER_FN void squared_begin_episode(Squared* env) {
    int size = env->size, centre = size / 2 * size + size / 2;
    int target = rng_below(&env->rng, size * size - 1);
    target += target >= centre;  // any cell but the agent's
    env->column = (int16_t)(size / 2);
    env->agent = (int16_t)centre;
    env->target = (int16_t)target;
    env->steps_left = (int16_t)(SQUARED_STEPS_PER_SIZE * size);
    env->observations[centre] = SQUARED_AGENT;
    env->observations[target] = SQUARED_TARGET;
}

PUFFER_FN void c_reset(Squared* env) {
    memset(env->observations, SQUARED_EMPTY, (size_t)(env->size * env->size));
    squared_begin_episode(env);
}

PUFFER_FN void squared_finish_episode(Squared* env, float reward) {
    env->rewards[0] = reward;
    env->terminals[0] = 1;
    env->log.perf += reward > 0.0f ? 1.0f : 0.0f;
    env->log.score += reward;
    env->log.episode_return += reward;
    env->log.episode_length += (float)(SQUARED_STEPS_PER_SIZE * env->size - env->steps_left);
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, (size_t)(env->size * env->size));
    env->observations[env->agent] = env->observations[env->target] = SQUARED_EMPTY;
    squared_begin_episode(env);
}

PUFFER_FN SquaredMove squared_move(const Squared* env) {
    int action = ((const int32_t*)env->actions)[0];
    return SQUARED_MOVES[action >= 0 && action < SQUARED_NUM_ACTIONS ? action : (int)SQUARED_STAY];
}

PUFFER_FN void c_step(Squared* env) {
    SquaredMove move = squared_move(env);
    int size = env->size, column = env->column + move.right;
    int cell = env->agent + move.down * size + move.right;
    int steps_left = env->steps_left - 1;
    env->rewards[0] = 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    env->steps_left = (int16_t)steps_left;

    // Above and below the grid the number of the cell is none of its cells'.
    bool is_outside = (unsigned)column >= (unsigned)size || (unsigned)cell >= (unsigned)(size * size);
    bool is_reached = !is_outside && cell == env->target;
    env->observations[env->agent] = SQUARED_EMPTY;
    if (!is_outside) {
        env->observations[cell] = SQUARED_AGENT;
        env->agent = (int16_t)cell;
        env->column = (int16_t)column;
    }
    if (is_outside || is_reached || steps_left == 0) squared_finish_episode(env, is_reached ? 1.0f : -1.0f);
}

PUFFER_FN bool c_accepts(const Squared* env, const Squared* saved) {
    int size = env->size, last = size * size - 1;
    return saved->size == size && is_within(saved->agent, 0, last) && is_within(saved->target, 0, last) &&
           saved->agent != saved->target && saved->column == saved->agent % size &&
           is_within(saved->steps_left, 1, SQUARED_STEPS_PER_SIZE * size);
}
