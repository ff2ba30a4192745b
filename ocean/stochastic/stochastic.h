// stochastic.h - colours are to be called as often as their shares say, by one who sees no count. A test of drawing.
//
// There are two mixtures, STOCHASTIC_SHARES; which one is to be made is drawn for each episode.
// Observation uint8[2], 0 or 1: which mixture. So a policy without memory is two distributions and no more.
// Action: a colour, 0 to 2; anything else is the last.
// Reward: by how much the counts of the colours came nearer to their shares with this step. The distance is half the
// sum over the colours of |count - share * steps|, so that the rewards of an episode add up to minus its last one.
// Truncation after `steps` steps. Score is minus the last distance.
//
// The best policy is the shares themselves. Perf is 1 where the counts meet them, and 0 as far away as a policy without
// chance stays at best, which calls the most frequent colour alone: 0.4 of the steps. Draws at the right probabilities
// miss by chance, after 64 of them by 0.062 of the steps on average: 0.84. What is wrong with a trainer shows as perf:
// - the likeliest action in place of a drawn one: near 0;
// - an entropy bonus that outweighs the rewards: 1/3, all colours alike;
// - actions that are learnt from and were not taken: no better than all colours alike.
#pragma once

#include "puffer_env.h"

enum { STOCHASTIC_NUM_MIXTURES = 2, STOCHASTIC_NUM_COLORS = 3 };
enum { STOCHASTIC_MIN_STEPS = 10, STOCHASTIC_MAX_STEPS = 10000 };

PUFFER_TABLE float STOCHASTIC_SHARES[STOCHASTIC_NUM_MIXTURES][STOCHASTIC_NUM_COLORS] = {{0.6f, 0.3f, 0.1f},
                                                                                        {0.1f, 0.3f, 0.6f}};
#define STOCHASTIC_PURE_DISTANCE (0.4f)  // of all steps, of the best policy without chance: 1 less the largest share

typedef struct {
    uint8_t* observations;        // [2]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]  never set: there is no end but the limit
    uint8_t* truncations;         // [1]
    uint8_t* final_observations;  // [2] or NULL
    Rng rng;
    int steps;  // in a whole episode
    int mixture;
    int counts[STOCHASTIC_NUM_COLORS];
    int num_called;  // their sum
    Log log;         // summed at episode end, cleared by the reader
} Stochastic;

PUFFER_FN PufferLayout c_layout(const Stochastic* env) {
    (void)env;
    return puffer_layout(1, STOCHASTIC_NUM_MIXTURES, PUFFER_UINT8, 1, PUFFER_INT32);
}

// Steps that would have to be other ones for the counts to be as the shares say.
PUFFER_FN float stochastic_distance(const Stochastic* env) {
    const float* shares = STOCHASTIC_SHARES[env->mixture];
    float sum = 0.0f;
    for (int i = 0; i < STOCHASTIC_NUM_COLORS; i++) {
        sum += fabsf((float)env->counts[i] - shares[i] * (float)env->num_called);
    }
    return 0.5f * sum;
}

PUFFER_FN void c_reset(Stochastic* env) {
    memset(env->counts, 0, sizeof(env->counts));
    env->num_called = 0;
    env->mixture = rng_below(&env->rng, STOCHASTIC_NUM_MIXTURES);
    for (int i = 0; i < STOCHASTIC_NUM_MIXTURES; i++) env->observations[i] = i == env->mixture;
}

PUFFER_FN void stochastic_finish_episode(Stochastic* env, float distance) {
    env->truncations[0] = 1;
    env->log.perf += clampf(1.0f - distance / (STOCHASTIC_PURE_DISTANCE * (float)env->steps), 0.0f, 1.0f);
    env->log.score -= distance;
    env->log.episode_return -= distance;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, STOCHASTIC_NUM_MIXTURES);
    c_reset(env);
}

PUFFER_FN int stochastic_color(const Stochastic* env) {
    int action = ((const int32_t*)env->actions)[0];
    return is_within(action, 0, STOCHASTIC_NUM_COLORS - 1) ? action : STOCHASTIC_NUM_COLORS - 1;
}

PUFFER_FN void c_step(Stochastic* env) {
    float before = stochastic_distance(env);
    env->counts[stochastic_color(env)] += 1;
    env->num_called += 1;
    float distance = stochastic_distance(env);
    env->rewards[0] = before - distance;
    env->terminals[0] = env->truncations[0] = 0;
    if (env->num_called == env->steps) stochastic_finish_episode(env, distance);
}

PUFFER_FN bool c_accepts(const Stochastic* env, const Stochastic* saved) {
    int sum = 0;
    for (int i = 0; i < STOCHASTIC_NUM_COLORS; i++) {
        if (!is_within(saved->counts[i], 0, env->steps)) return false;
        sum += saved->counts[i];
    }
    return saved->steps == env->steps && is_within(saved->mixture, 0, STOCHASTIC_NUM_MIXTURES - 1) &&
           saved->num_called == sum && sum < env->steps;
}
