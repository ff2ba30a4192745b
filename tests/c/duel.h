// duel.h - two agents and one coin: the environment of several agents in the tests of other libraries' interfaces.
//
// Observation float[2]: the agent's own points and the other's, as parts of `goal`. Action: 0 waits, 1 grabs.
// Reward: +1 for who grabs alone. Terminal for both when one has `goal` points; truncation for both after 4 * goal
// steps. With `leaves`, an agent that grabs in the step of its second point leaves at once and begins with 0 points
// again: its flag is set, and the other's is not.
#pragma once

#include "puffer_env.h"

enum { DUEL_AGENTS = 2 };

typedef struct {
    float* observations;        // [2 agents][2]  these six are borrowed from the caller
    const void* actions;        // int32_t[2 agents]
    float* rewards;             // [2 agents]
    uint8_t* terminals;         // [2 agents]
    uint8_t* truncations;       // [2 agents]
    float* final_observations;  // [2 agents][2], or NULL: not wanted
    Rng rng;
    int goal;
    bool leaves;
    int points[DUEL_AGENTS];
    int steps;
    Log log;
} Duel;

PUFFER_FN PufferLayout c_layout(const Duel* env) {
    return puffer_layout(DUEL_AGENTS, 2, PUFFER_FLOAT32, 1, PUFFER_INT32);
}

PUFFER_FN void duel_write_observations(Duel* env) {
    for (int i = 0; i < DUEL_AGENTS; i++) {
        env->observations[2 * i] = (float)env->points[i] / (float)env->goal;
        env->observations[2 * i + 1] = (float)env->points[1 - i] / (float)env->goal;
    }
}

PUFFER_FN void c_reset(Duel* env) {
    env->points[0] = env->points[1] = env->steps = 0;
    duel_write_observations(env);
}

PUFFER_FN void duel_finish_episode(Duel* env) {
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, 2 * DUEL_AGENTS * sizeof(float));
    c_reset(env);
}

PUFFER_FN void duel_leave(Duel* env, int agent) {
    env->terminals[agent] = 1;
    float* final_observations = env->final_observations ? env->final_observations + 2 * agent : NULL;
    keep_final(final_observations, env->observations + 2 * agent, 2 * sizeof(float));
    env->points[agent] = 0;
    duel_write_observations(env);
}

PUFFER_FN void c_step(Duel* env) {
    const int32_t* actions = (const int32_t*)env->actions;
    env->steps += 1;
    int winner = -1;
    for (int i = 0; i < DUEL_AGENTS; i++) {
        bool is_alone = actions[i] == 1 && actions[1 - i] != 1;
        env->rewards[i] = is_alone ? 1.0f : 0.0f;
        env->terminals[i] = env->truncations[i] = 0;
        if (!is_alone) continue;
        winner = i;
        env->points[i] += 1;
    }
    duel_write_observations(env);
    bool is_won = winner >= 0 && env->points[winner] >= env->goal;
    if (is_won || env->steps >= 4 * env->goal) {
        memset(is_won ? env->terminals : env->truncations, 1, DUEL_AGENTS);
        duel_finish_episode(env);
    } else if (env->leaves && winner >= 0 && env->points[winner] == 2) {
        duel_leave(env, winner);
    }
}

PUFFER_FN bool c_accepts(const Duel* env, const Duel* saved) {
    return saved->goal == env->goal && is_bool(&saved->leaves) && saved->leaves == env->leaves &&
           is_within(saved->points[0], 0, env->goal - 1) && is_within(saved->points[1], 0, env->goal - 1) &&
           is_within(saved->steps, 0, 4 * env->goal - 1);
}
