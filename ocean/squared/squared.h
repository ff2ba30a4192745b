// squared.h - walk to the target before the time is up. The tutorial environment.
//
// Observation uint8[size * size], row by row: 0 empty, 1 agent, 2 target.
// Action: 0 stay, 1 down, 2 up, 3 left, 4 right; anything else stays.
// Reward: +1 on the target, -1 for leaving the grid, -1 when 3 * size steps are used up. Each of them is terminal.
#pragma once

#include "puffer_env.h"

enum { SQUARED_STAY, SQUARED_DOWN, SQUARED_UP, SQUARED_LEFT, SQUARED_RIGHT, SQUARED_NUM_ACTIONS };
enum { SQUARED_EMPTY, SQUARED_AGENT, SQUARED_TARGET };
enum { SQUARED_MIN_SIZE = 2, SQUARED_MAX_SIZE = 128, SQUARED_STEPS_PER_SIZE = 3 };

typedef struct {
    float perf;  // 1 when the target was reached
    float score;
    float episode_return;
    float episode_length;
    float n;
} Log;

typedef struct {
    Log log;                // summed at episode end, cleared by the reader
    uint8_t* observations;  // [size * size]  these five are borrowed from the caller
    const void* actions;    // int32_t[1]
    float* rewards;         // [1]
    uint8_t* terminals;     // [1]
    uint8_t* truncations;   // [1]  never set: running out of time is a loss here
    Rng rng;
    int size;           // cells along one side
    int agent, target;  // cells, row * size + column
    int row, column;    // of the agent
    int steps_left;
} Squared;

PUFFER_FN PufferLayout c_layout(const Squared* env) {
    return puffer_layout(1, env->size * env->size, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN void c_reset(Squared* env) {
    int cells = env->size * env->size;
    env->row = env->column = env->size / 2;
    env->agent = env->row * env->size + env->column;
    env->target = rng_below(&env->rng, cells - 1);
    env->target += env->target >= env->agent;  // any cell but the agent's
    env->steps_left = SQUARED_STEPS_PER_SIZE * env->size;
    memset(env->observations, SQUARED_EMPTY, (size_t)cells);
    env->observations[env->agent] = SQUARED_AGENT;
    env->observations[env->target] = SQUARED_TARGET;
}

PUFFER_FN void squared_finish_episode(Squared* env, float reward) {
    env->rewards[0] = reward;
    env->terminals[0] = 1;
    env->log.perf += reward > 0.0f ? 1.0f : 0.0f;
    env->log.score += reward;
    env->log.episode_return += reward;
    env->log.episode_length += (float)(SQUARED_STEPS_PER_SIZE * env->size - env->steps_left);
    env->log.n += 1.0f;
    c_reset(env);
}

PUFFER_FN void c_step(Squared* env) {
    int action = ((const int32_t*)env->actions)[0];
    env->rewards[0] = 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    env->row += (action == SQUARED_DOWN) - (action == SQUARED_UP);
    env->column += (action == SQUARED_RIGHT) - (action == SQUARED_LEFT);
    env->steps_left -= 1;

    bool is_outside = (unsigned)env->row >= (unsigned)env->size || (unsigned)env->column >= (unsigned)env->size;
    int cell = env->row * env->size + env->column;
    if (is_outside) {
        squared_finish_episode(env, -1.0f);
    } else if (cell == env->target) {
        squared_finish_episode(env, 1.0f);
    } else if (env->steps_left == 0) {
        squared_finish_episode(env, -1.0f);
    } else {
        env->observations[env->agent] = SQUARED_EMPTY;
        env->observations[cell] = SQUARED_AGENT;
        env->agent = cell;
    }
}
