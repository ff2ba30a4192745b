// memory.h - one of three lamps lights up at the start, or none does; keep saying which until it counts. A test of
// recurrence.
//
// Observation uint8[3], 0 or 1: the lamps. One burns in the first observation of an episode alone, and in one of four
// episodes none does, which then looks as every moment in the dark. 1 to `delay` observations follow in the dark.
// Action: 0 no lamp, 1 to 3 that lamp; anything else is no answer. The last one of the episode counts, and nothing
// tells that it is the last. Reward: +1 for the right answer at the end, else 0. Terminal after the last answer.
// Score and perf are 1 for a right answer, 0 for a wrong one.
//
// Who cannot remember is right in 1 of 4. What is wrong with a trainer shows as a share of right answers:
// - state that is lost between two steps, in acting or in learning: 1/4;
// - state that is lost where a rollout ends: wrong in most of the episodes that such an end cuts;
// - state that outlives its episode: after a dark beginning the lamp of the episode before is named, and as nothing
//   tells of the end, nothing can be learnt against it.
#pragma once

#include "puffer_env.h"

enum { MEMORY_NUM_LAMPS = 3, MEMORY_NUM_ANSWERS = MEMORY_NUM_LAMPS + 1 };
enum { MEMORY_MIN_DELAY = 1, MEMORY_MAX_DELAY = 1000 };

typedef struct {
    uint8_t* observations;        // [3]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]  never set
    uint8_t* final_observations;  // [3] or NULL
    Rng rng;
    int delay;      // the most observations in the dark
    int lamp;       // that burnt, 1 to 3; 0 for none
    int step;       // of this episode
    int last_step;  // whose answer counts
    Log log;        // summed at episode end, cleared by the reader
} Memory;

PUFFER_FN PufferLayout c_layout(const Memory* env) {
    (void)env;
    return puffer_layout(1, MEMORY_NUM_LAMPS, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN void memory_write_observations(Memory* env) {
    for (int lamp = 1; lamp <= MEMORY_NUM_LAMPS; lamp++) {
        env->observations[lamp - 1] = env->step == 0 && env->lamp == lamp;
    }
}

PUFFER_FN void c_reset(Memory* env) {
    env->lamp = rng_below(&env->rng, MEMORY_NUM_ANSWERS);
    env->step = 0;
    env->last_step = 1 + rng_below(&env->rng, env->delay);
    memory_write_observations(env);
}

PUFFER_FN bool memory_is_right(const Memory* env) { return ((const int32_t*)env->actions)[0] == env->lamp; }

PUFFER_FN void memory_finish_episode(Memory* env) {
    float right = memory_is_right(env) ? 1.0f : 0.0f;
    env->rewards[0] = right;
    env->terminals[0] = 1;
    env->log.perf += right;
    env->log.score += right;
    env->log.episode_return += right;
    env->log.episode_length += (float)(env->last_step + 1);
    env->log.n += 1.0f;
    memset(env->observations, 0, MEMORY_NUM_LAMPS);  // it would have stayed dark
    keep_final(env->final_observations, env->observations, MEMORY_NUM_LAMPS);
    c_reset(env);
}

PUFFER_FN void c_step(Memory* env) {
    env->rewards[0] = 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    if (env->step == env->last_step) {
        memory_finish_episode(env);
        return;
    }
    env->step += 1;
    memory_write_observations(env);
}

PUFFER_FN bool c_accepts(const Memory* env, const Memory* saved) {
    return saved->delay == env->delay && is_within(saved->lamp, 0, MEMORY_NUM_LAMPS) &&
           is_within(saved->last_step, 1, env->delay) && is_within(saved->step, 0, saved->last_step);
}
