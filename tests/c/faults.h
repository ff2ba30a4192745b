// faults.h - two agents with a fuse each, and at most one of the faults below: what the tests of all environments must
// notice, and without one they must notice nothing. tests/ocean/test_faults.py compiles it with -DFAULT=LOG_ASSIGNED
// and so on.
//
// Observation uint8[2] for each agent: the steps until its fuse is burnt, and its last action. Action: 0 or 1; anything
// else is 0. Reward: the action. Terminal for an agent when its fuse is burnt; it begins anew at once, with another of
// 1 to `longest` steps.
#pragma once

#include "puffer_env.h"

#define NO_FAULT 0
#define TERMINAL_ERASED 1      // by the reset
#define LOG_ASSIGNED 2         // where it should be added to
#define OBSERVATION_OUTSIDE 3  // of its space
#define WRITE_PAST_ROW 4       // by one
#define LIBC_RAND 5            // in place of env->rng
#define STATE_OUTSIDE 6        // of the struct
#define FLAG_KEPT 7            // in the step after
#define REWARD_KEPT 8          // where nothing new was earned
#define EPISODES_MERGED 9      // an agent's is not told of
#define FINAL_FORGOTTEN 10     // the last observation of an episode
#define STRUCT_UNCHECKED 11    // in c_accepts
#define ACTION_WRITTEN 12      // which is the caller's
#define ACTION_AS_FLOAT 13     // whose bits are no such number
#define ROW_OF_ANOTHER 14      // has each agent's observation
#define ADDRESS_KEPT 15        // in the struct

#ifndef FAULT
#define FAULT NO_FAULT
#endif

#if FAULT == LIBC_RAND
#include <stdlib.h>
#elif FAULT == STATE_OUTSIDE
static int faults_num_fuses;
#endif

enum { FAULTS_AGENTS = 2, FAULTS_FEATURES = 2, FAULTS_LONGEST = 200 };

typedef struct {
    uint8_t* observations;        // [2 agents][2]  these six are borrowed from the caller
    const void* actions;          // int32_t[2 agents]
    float* rewards;               // [2 agents]
    uint8_t* terminals;           // [2 agents]
    uint8_t* truncations;         // [2 agents]  never set
    uint8_t* final_observations;  // [2 agents][2] or NULL
    Rng rng;
    int longest;                                    // steps
    int fuse[FAULTS_AGENTS];                        // steps left
    int steps[FAULTS_AGENTS], ones[FAULTS_AGENTS];  // of the running episode; actions that were 1
    const void* address;                            // of nothing, unless the fault is there
    Log log;
} Faults;

PUFFER_FN PufferLayout c_layout(const Faults* env) {
    return puffer_layout(FAULTS_AGENTS, FAULTS_FEATURES, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN int faults_new_fuse(Faults* env) {
#if FAULT == LIBC_RAND
    return 1 + rand() % env->longest;
#elif FAULT == STATE_OUTSIDE
    return 1 + faults_num_fuses++ % env->longest;
#else
    return 1 + rng_below(&env->rng, env->longest);
#endif
}

PUFFER_FN void faults_observe(Faults* env, int agent, int action) {
    uint8_t* row = env->observations + FAULTS_FEATURES * (FAULT == ROW_OF_ANOTHER ? 0 : agent);
    row[0] = (uint8_t)env->fuse[agent];
    row[1] = (uint8_t)(FAULT == OBSERVATION_OUTSIDE && env->ones[agent] == 3 ? 2 : action);
    if (FAULT == WRITE_PAST_ROW) row[FAULTS_FEATURES] = 0;
}

PUFFER_FN void faults_begin(Faults* env, int agent) {
    env->fuse[agent] = faults_new_fuse(env);
    env->steps[agent] = env->ones[agent] = 0;
    if (FAULT == TERMINAL_ERASED) env->terminals[agent] = 0;
    faults_observe(env, agent, 0);
}

PUFFER_FN void c_reset(Faults* env) {
    if (FAULT == ADDRESS_KEPT) env->address = env;
    for (int agent = 0; agent < FAULTS_AGENTS; agent++) faults_begin(env, agent);
}

PUFFER_FN void faults_finish_episode(Faults* env, int agent) {
    float ones = (float)env->ones[agent];
    env->terminals[agent] = 1;
    env->log.perf += ones / (float)env->steps[agent];
    env->log.score += ones;
    env->log.episode_return = FAULT == LOG_ASSIGNED ? ones : env->log.episode_return + ones;
    env->log.episode_length += (float)env->steps[agent];
    env->log.n += FAULT == EPISODES_MERGED && agent > 0 ? 0.0f : 1.0f;
    if (FAULT != FINAL_FORGOTTEN && env->final_observations != NULL) {
        int row = FAULTS_FEATURES * agent;
        keep_final(env->final_observations + row, env->observations + row, FAULTS_FEATURES);
    }
    faults_begin(env, agent);
}

PUFFER_FN void faults_act(Faults* env, int agent) {
    int action = ((const int32_t*)env->actions)[agent] == 1;
    if (FAULT == ACTION_AS_FLOAT) action = ((const float*)env->actions)[agent] == 1.0f;
    if (FAULT == ACTION_WRITTEN) ((int32_t*)env->actions)[agent] = action + 1;
    if (FAULT != REWARD_KEPT || action) env->rewards[agent] = (float)action;
    if (FAULT != FLAG_KEPT) env->terminals[agent] = 0;
    env->truncations[agent] = 0;
    env->fuse[agent] -= 1;
    env->steps[agent] += 1;
    env->ones[agent] += action;
    faults_observe(env, agent, action);
    if (env->fuse[agent] == 0) faults_finish_episode(env, agent);
}

PUFFER_FN void c_step(Faults* env) {
    for (int agent = 0; agent < FAULTS_AGENTS; agent++) faults_act(env, agent);
}

PUFFER_FN bool c_accepts(const Faults* env, const Faults* saved) {
    if (FAULT == STRUCT_UNCHECKED) return true;
    for (int agent = 0; agent < FAULTS_AGENTS; agent++) {
        if (!is_within(saved->fuse[agent], 1, env->longest)) return false;
        if (!is_within(saved->steps[agent], 0, env->longest - saved->fuse[agent])) return false;
        if (!is_within(saved->ones[agent], 0, saved->steps[agent])) return false;
    }
    return saved->longest == env->longest;
}
