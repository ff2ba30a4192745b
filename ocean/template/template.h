// template.h - a quiz, the shortest complete environment.
//
// Each step shows one of four questions: 0 is the right answer to the first two, 1 to the others.
// Observation uint8[1]: the question, 0 to 3. Action: the answer, 0 or 1 (below is 0, above is 1).
// Reward: +1 for a right answer, -1 for a wrong one.
// Terminal after a wrong answer; truncation after `rounds` right ones.
// Score is the right answers of an episode, perf that over `rounds`.

// To begin your own, copy this folder by `puffer new`: README.md says what is where. The comment above is the contract
// with whoever trains on the environment: rules, observation, actions, rewards, and what ends an episode.
//
// This file is plain C with no state but its structs, no malloc, no files, no printing: so it runs on any number of
// threads, its episodes can be saved and restored, and it compiles for other machines than this one.
#pragma once

#include "puffer_env.h"

// Constants: an enum for integers, parenthesised defines for floats, each with its unit where it has one.
enum { TEMPLATE_NUM_QUESTIONS = 4, TEMPLATE_NUM_ANSWERS = 2 };
enum { TEMPLATE_MIN_ROUNDS = 1, TEMPLATE_MAX_ROUNDS = 1000 };

// One environment. The six array pointers have these names in every environment.
typedef struct {
    uint8_t* observations;        // [1]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]
    uint8_t* final_observations;  // [1], or NULL: not wanted
    Rng rng;                      // the only source of chance: seeded for you, never call rand()
    int rounds;                   // right answers that complete an episode
    int question;                 // the one that is shown
    int num_right;                // answers of this episode
    Log log;                      // summed at episode end, cleared by the reader
} Template;

// The shape of the arrays: agents, observation elements and type, action elements and type (int32 or float32). It must
// agree with the spaces in template.py; making an environment checks it.
PUFFER_FN PufferLayout c_layout(const Template* env) { return puffer_layout(1, 1, PUFFER_UINT8, 1, PUFFER_INT32); }

// The higher half of the questions is the one that answer 1 is right for.
PUFFER_FN bool template_is_right(int question, int answer) {
    return answer == question / (TEMPLATE_NUM_QUESTIONS / TEMPLATE_NUM_ANSWERS);
}

PUFFER_FN void template_ask(Template* env) {
    env->question = rng_below(&env->rng, TEMPLATE_NUM_QUESTIONS);
    env->observations[0] = (uint8_t)env->question;
}

// Begins an episode and writes its first observation.
PUFFER_FN void c_reset(Template* env) {
    env->num_right = 0;
    template_ask(env);
}

// Adds the episode to the log before the reset forgets it; the trainer shows the means. Keep perf between 0 and 1. The
// four numbers are those of every environment; puffer_env.h says how one reports others. keep_final hands the last
// observation to those who want it, before the reset overwrites it.
PUFFER_FN void template_finish_episode(Template* env, bool has_failed) {
    env->log.perf += (float)env->num_right / (float)env->rounds;
    env->log.score += (float)env->num_right;
    env->log.episode_return += (float)(env->num_right - has_failed);
    env->log.episode_length += (float)(env->num_right + has_failed);
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, sizeof(env->observations[0]));
    c_reset(env);
}

// Reads the action, writes the observation, the reward and the two flags: every one of them, every step. When the
// episode ends it resets at once: the observation is the first of the next episode, the reward and the flag stay.
PUFFER_FN void c_step(Template* env) {
    // An action may be anything: bring it into range before it becomes an index.
    int answer = ((const int32_t*)env->actions)[0] > 0;
    bool has_failed = !template_is_right(env->question, answer);
    env->num_right += !has_failed;
    bool is_complete = env->num_right == env->rounds;

    env->rewards[0] = has_failed ? -1.0f : 1.0f;
    env->terminals[0] = has_failed;     // the task has ended: nothing was to come
    env->truncations[0] = is_complete;  // a limit cut it: more was to come
    template_ask(env);  // at the end of an episode too: what would have been shown is its final observation
    if (has_failed || is_complete) template_finish_episode(env, has_failed);
}

// Whether this environment may go on as `saved`, which was read from a file and may hold anything: the same keyword
// arguments, and every number that becomes an index or ends a loop within its bounds.
PUFFER_FN bool c_accepts(const Template* env, const Template* saved) {
    return saved->rounds == env->rounds && is_within(saved->num_right, 0, env->rounds - 1) &&
           is_within(saved->question, 0, TEMPLATE_NUM_QUESTIONS - 1);
}
