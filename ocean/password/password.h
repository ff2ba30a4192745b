// password.h - type a password that nobody tells. A test of exploration, and of credit for what was done long before.
//
// There are two doors, and a row of PASSWORD_KEYS opens each, as many keys of it as `length` says, the same in every
// episode. Which door it is, is drawn.
// Observation uint8[2 + length], 0 or 1: which door, then which key comes next; no key when the last was pressed.
// Action: a key, 0 to 3; anything else is a wrong one.
// Reward: +1 after the last key if all of them were right, else 0, and no sign of which was wrong.
// Terminal when the last key was pressed.
// Score and perf are 1 for a door that opens, 0 for one that does not.
//
// Pressing at random opens one in 4^length times. What is wrong with a trainer shows as a password never found:
// - no entropy bonus: while there is nothing to learn, the policy drifts to a few keys, and stops trying the others;
// - a discount near 0, or advantages that are not passed back: only the last key is ever credited.
#pragma once

#include "puffer_env.h"

enum { PASSWORD_NUM_DOORS = 2, PASSWORD_NUM_KEYS = 4, PASSWORD_MIN_LENGTH = 1, PASSWORD_MAX_LENGTH = 16 };

PUFFER_TABLE int8_t PASSWORD_KEYS[PASSWORD_NUM_DOORS][PASSWORD_MAX_LENGTH] = {
    // by door; no key is the same for both
    {2, 0, 3, 1, 1, 3, 0, 2, 3, 3, 0, 1, 2, 0, 1, 2},
    {1, 3, 0, 3, 2, 0, 1, 1, 0, 2, 3, 2, 1, 2, 3, 0}};

typedef struct {
    uint8_t* observations;        // [2 + length]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]  never set
    uint8_t* final_observations;  // [2 + length] or NULL
    Rng rng;
    int length;
    int door;
    int position;                       // of the next key
    int8_t typed[PASSWORD_MAX_LENGTH];  // keys before it; -1 for what is none
    Log log;                            // summed at episode end, cleared by the reader
} Password;

PUFFER_FN PufferLayout c_layout(const Password* env) {
    return puffer_layout(1, PASSWORD_NUM_DOORS + env->length, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN void password_write_observations(Password* env) {
    memset(env->observations, 0, (size_t)(PASSWORD_NUM_DOORS + env->length));
    env->observations[env->door] = 1;
    if (env->position < env->length) env->observations[PASSWORD_NUM_DOORS + env->position] = 1;
}

PUFFER_FN void c_reset(Password* env) {
    env->door = rng_below(&env->rng, PASSWORD_NUM_DOORS);
    env->position = 0;
    password_write_observations(env);
}

PUFFER_FN void password_type(Password* env) {
    int key = ((const int32_t*)env->actions)[0];
    env->typed[env->position] = (int8_t)(is_within(key, 0, PASSWORD_NUM_KEYS - 1) ? key : -1);
    env->position += 1;
}

PUFFER_FN bool password_opens(const Password* env) {
    for (int i = 0; i < env->length; i++) {
        if (env->typed[i] != PASSWORD_KEYS[env->door][i]) return false;
    }
    return true;
}

PUFFER_FN void password_finish_episode(Password* env) {
    float opened = password_opens(env) ? 1.0f : 0.0f;
    env->rewards[0] = opened;
    env->terminals[0] = 1;
    env->log.perf += opened;
    env->log.score += opened;
    env->log.episode_return += opened;
    env->log.episode_length += (float)env->length;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, (size_t)(PASSWORD_NUM_DOORS + env->length));
    c_reset(env);
}

PUFFER_FN void c_step(Password* env) {
    env->rewards[0] = 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    password_type(env);
    password_write_observations(env);
    if (env->position == env->length) password_finish_episode(env);
}

PUFFER_FN bool c_accepts(const Password* env, const Password* saved) {
    for (int i = 0; i < PASSWORD_MAX_LENGTH; i++) {
        if (!is_within(saved->typed[i], -1, PASSWORD_NUM_KEYS - 1)) return false;
    }
    return saved->length == env->length && is_within(saved->door, 0, PASSWORD_NUM_DOORS - 1) &&
           is_within(saved->position, 0, env->length - 1);
}
