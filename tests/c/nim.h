// nim.h - two agents take stones from a heap by turns: the game with turns and action masks of the tests.
//
// Observation float[2]: the stones that are left, as a part of all, and 1 where the agent is to move. Action: 0 takes
// one stone, 1 two, 2 three; taking more than are left, or a number that is none, loses. Who takes the last one wins.
// Reward: +1 for who wins and -1 for the other, both terminal; who begins is drawn by chance. After `limit` moves,
// where it is not 0, the game is cut. With `bonus`, each move also pays the one who waits a hundredth of the stones
// taken.
#pragma once

#include "puffer_env.h"

enum { NIM_AGENTS = 2, NIM_CHOICES = 3, NIM_NUMBERS = 2, NIM_MAX_STONES = 100 };

typedef struct {
    float* observations;        // [2 agents][2]  these eight are borrowed from the caller
    const void* actions;        // int32_t[2 agents]
    float* rewards;             // [2 agents]
    uint8_t* terminals;         // [2 agents]
    uint8_t* truncations;       // [2 agents]
    uint8_t* action_masks;      // [2 agents][3]
    uint8_t* masks;             // [2 agents]
    float* final_observations;  // [2 agents][2], or NULL: not wanted
    Rng rng;
    int stones, limit;
    bool bonus;
    int left, mover, moves;
    Log log;
} Nim;

PUFFER_FN PufferLayout c_layout(const Nim* env) {
    (void)env;
    return puffer_masked_layout(NIM_AGENTS, NIM_NUMBERS, PUFFER_FLOAT32, 1, NIM_CHOICES);
}

PUFFER_FN void nim_write_rows(Nim* env) {
    for (int agent = 0; agent < NIM_AGENTS; agent++) {
        env->masks[agent] = agent == env->mover;
        env->observations[NIM_NUMBERS * agent] = (float)env->left / (float)env->stones;
        env->observations[NIM_NUMBERS * agent + 1] = agent == env->mover ? 1.0f : 0.0f;
        for (int i = 0; i < NIM_CHOICES; i++) env->action_masks[NIM_CHOICES * agent + i] = i < env->left;
    }
}

PUFFER_FN void c_reset(Nim* env) {
    env->left = env->stones;
    env->mover = rng_below(&env->rng, NIM_AGENTS);
    env->moves = 0;
    nim_write_rows(env);
}

PUFFER_FN void nim_finish_episode(Nim* env, int winner) {
    env->log.perf += winner == 0 ? 1.0f : 0.0f;
    env->log.episode_length += (float)env->moves;
    env->log.n += 1.0f;
    nim_write_rows(env);
    keep_final(env->final_observations, env->observations, NIM_AGENTS * NIM_NUMBERS * sizeof(float));
    c_reset(env);
}

PUFFER_FN void c_step(Nim* env) {
    int mover = env->mover, other = 1 - mover, action = ((const int32_t*)env->actions)[mover];
    memset(env->rewards, 0, NIM_AGENTS * sizeof(float));
    memset(env->terminals, 0, NIM_AGENTS);
    memset(env->truncations, 0, NIM_AGENTS);
    bool is_legal = is_within(action, 0, NIM_CHOICES - 1) && action < env->left;
    env->left -= is_legal ? action + 1 : 0;
    env->moves += 1;
    env->mover = other;
    if (env->bonus && is_legal) env->rewards[other] = 0.01f * (float)(action + 1);
    if (!is_legal || env->left == 0) {
        int winner = is_legal ? mover : other;
        env->rewards[winner] += 1.0f;
        env->rewards[1 - winner] -= 1.0f;
        memset(env->terminals, 1, NIM_AGENTS);
        nim_finish_episode(env, winner);
    } else if (env->limit > 0 && env->moves >= env->limit) {
        memset(env->truncations, 1, NIM_AGENTS);
        nim_finish_episode(env, other);
    } else {
        nim_write_rows(env);
    }
}

PUFFER_FN bool c_accepts(const Nim* env, const Nim* saved) {
    return saved->stones == env->stones && saved->limit == env->limit && is_bool(&saved->bonus) &&
           saved->bonus == env->bonus && is_within(saved->left, 1, env->stones) && is_within(saved->mover, 0, 1) &&
           is_within(saved->moves, 0, PUFFER_MAX_STEPS);
}
