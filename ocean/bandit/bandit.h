// bandit.h - four machines that pay more or less often, and a purse that one may take and go. A test of discount and
// end.
//
// An episode is `pulls` pulls, or fewer where the purse is taken.
// Observation float[2] in [0, 1]: the share of the pulls that is left; whether the last one paid.
// Action: 0 takes the purse, 1 to 4 pulls that machine; anything else pulls none.
// Reward: +1 for the purse and for a pull that pays, else 0. Machines pay by chance, as BANDIT_CHANCES says.
// Terminal when the purse is taken or the last pull is done.
//
// The purse is the largest reward of a step, and the end of all others: it is best taken in place of the last pull.
// Score is the return. Perf is what the actions of an episode are worth on average, whatever luck they had, over what
// the best ones are.
// What is wrong with a trainer shows, with 16 pulls:
// - a discount near 0, or nothing passed back from step to step: the purse at once, 0.14;
// - values that flow from the next episode into the one before: the purse at once, as the next one comes soon;
// - too little to tell chance from luck: another machine, 0.79 or less;
// - a policy that cannot tell the last pull from others: 0.91.
#pragma once

#include "puffer_env.h"

enum { BANDIT_PURSE, BANDIT_NUM_MACHINES = 4, BANDIT_NUM_ACTIONS = BANDIT_NUM_MACHINES + 1 };
enum { BANDIT_MIN_PULLS = 1, BANDIT_MAX_PULLS = 1000 };

#define BANDIT_BEST_CHANCE (0.4f)

// By action; the purse itself is sure.
PUFFER_TABLE float BANDIT_CHANCES[BANDIT_NUM_ACTIONS] = {1.0f, 0.2f, 0.1f, BANDIT_BEST_CHANCE, 0.3f};

typedef struct {
    float* observations;        // [2]  these six are borrowed from the caller
    const void* actions;        // int32_t[1]
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]
    uint8_t* truncations;       // [1]  never set
    float* final_observations;  // [2] or NULL
    Rng rng;
    int pulls;                       // in a whole episode
    int num_pulled;                  // in this one, those of no machine too
    int pulled[BANDIT_NUM_ACTIONS];  // of them, by action
    int paid[BANDIT_NUM_ACTIONS];    // how often that paid
    Log log;                         // summed at episode end, cleared by the reader
} Bandit;

PUFFER_FN PufferLayout c_layout(const Bandit* env) {
    (void)env;
    return puffer_layout(1, 2, PUFFER_FLOAT32, 1, PUFFER_INT32);
}

PUFFER_FN void bandit_write_observations(Bandit* env, bool has_paid) {
    env->observations[0] = (float)(env->pulls - env->num_pulled) / (float)env->pulls;
    env->observations[1] = has_paid ? 1.0f : 0.0f;
}

PUFFER_FN void c_reset(Bandit* env) {
    env->num_pulled = 0;
    memset(env->pulled, 0, sizeof(env->pulled));
    memset(env->paid, 0, sizeof(env->paid));
    bandit_write_observations(env, false);
}

PUFFER_FN void bandit_finish_episode(Bandit* env) {
    float expected = 0.0f, paid = 0.0f, best = BANDIT_BEST_CHANCE * (float)(env->pulls - 1) + 1.0f;
    for (int i = 0; i < BANDIT_NUM_ACTIONS; i++) {
        expected += BANDIT_CHANCES[i] * (float)env->pulled[i];
        paid += (float)env->paid[i];
    }
    env->terminals[0] = 1;
    env->log.perf += fminf(expected / best, 1.0f);  // rounding may lead beyond 1
    env->log.score += paid;
    env->log.episode_return += paid;
    env->log.episode_length += (float)env->num_pulled;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, 2 * sizeof(float));
    c_reset(env);
}

// Pulls a machine, or takes the purse; whether it paid.
PUFFER_FN bool bandit_pull(Bandit* env, int action) {
    env->num_pulled += 1;
    float luck = rng_float(&env->rng);
    if (!is_within(action, 0, BANDIT_NUM_ACTIONS - 1)) return false;
    bool has_paid = luck < BANDIT_CHANCES[action];
    env->pulled[action] += 1;
    env->paid[action] += has_paid;
    return has_paid;
}

PUFFER_FN void c_step(Bandit* env) {
    int action = ((const int32_t*)env->actions)[0];
    bool has_paid = bandit_pull(env, action);
    env->rewards[0] = has_paid ? 1.0f : 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    bandit_write_observations(env, has_paid);
    if (action == BANDIT_PURSE || env->num_pulled == env->pulls) bandit_finish_episode(env);
}

PUFFER_FN bool c_accepts(const Bandit* env, const Bandit* saved) {
    int sum = 0;
    for (int i = 0; i < BANDIT_NUM_ACTIONS; i++) {
        if (!is_within(saved->pulled[i], 0, env->pulls) || !is_within(saved->paid[i], 0, saved->pulled[i]))
            return false;
        sum += saved->pulled[i];
    }
    return saved->pulls == env->pulls && is_within(saved->num_pulled, sum, env->pulls - 1) &&
           saved->pulled[BANDIT_PURSE] == 0;
}
