// shared_quiz.h - the quiz of ocean/template with its answers in a table that all instances read, the path of `shared`,
// and with a log of its own.
#pragma once

#define LOG_FIELDS(field) field(perf) field(score) field(mistakes)
#include "puffer_env.h"

// Constants: an enum for integers, parenthesised defines for floats, each with its unit where it has one.
enum { QUIZ_NUM_QUESTIONS = 4, QUIZ_NUM_ANSWERS = 2 };
enum { QUIZ_MIN_ROUNDS = 1, QUIZ_MAX_ROUNDS = 1000 };

// A read-only table that all environments of a process look into.
typedef struct {
    float rewards[QUIZ_NUM_QUESTIONS][QUIZ_NUM_ANSWERS];
} QuizShared;

// One environment. The six array pointers have these names in every environment.
typedef struct {
    uint8_t* observations;        // [1]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]
    uint8_t* final_observations;  // [1], or NULL: not wanted
    const QuizShared* shared;     // borrowed, read-only
    Rng rng;                      // the only source of chance: seeded for you, never call rand()
    int rounds;                   // right answers that complete an episode
    int question;                 // the one that is shown
    int num_right;                // answers of this episode
    Log log;                      // summed at episode end, cleared by the reader
} Quiz;

// The shape of the arrays: agents, observation elements and type, action elements and type (int32 or float32). It must
// agree with the spaces in quiz.py; making an environment checks it.
PUFFER_FN PufferLayout c_layout(const Quiz* env) { return puffer_layout(1, 1, PUFFER_UINT8, 1, PUFFER_INT32); }

// Fills the shared table, once. The higher questions are the ones that answer 1 is right for.
PUFFER_FN void quiz_fill_shared(QuizShared* shared) {
    for (int question = 0; question < QUIZ_NUM_QUESTIONS; question++) {
        for (int answer = 0; answer < QUIZ_NUM_ANSWERS; answer++) {
            bool is_right = answer == question / (QUIZ_NUM_QUESTIONS / QUIZ_NUM_ANSWERS);
            shared->rewards[question][answer] = is_right ? 1.0f : -1.0f;
        }
    }
}

PUFFER_FN void quiz_ask(Quiz* env) {
    env->question = rng_below(&env->rng, QUIZ_NUM_QUESTIONS);
    env->observations[0] = (uint8_t)env->question;
}

// Begins an episode and writes its first observation.
PUFFER_FN void c_reset(Quiz* env) {
    env->num_right = 0;
    quiz_ask(env);
}

// Adds the episode to the log before the reset forgets it.
PUFFER_FN void quiz_finish_episode(Quiz* env, bool has_failed) {
    env->log.perf += (float)env->num_right / (float)env->rounds;
    env->log.score += (float)env->num_right;
    env->log.mistakes += (float)has_failed;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, sizeof(env->observations[0]));
    c_reset(env);
}

// Reads the action, writes the observation, the reward and the two flags: every one of them, every step. When the
// episode ends it resets at once: the observation is the first of the next episode, the reward and the flag stay.
PUFFER_FN void c_step(Quiz* env) {
    // An action may be anything: bring it into range before it becomes an index.
    int answer = ((const int32_t*)env->actions)[0] > 0;
    float reward = env->shared->rewards[env->question][answer];
    bool has_failed = reward < 0.0f;
    env->num_right += !has_failed;
    bool is_complete = env->num_right == env->rounds;

    env->rewards[0] = reward;
    env->terminals[0] = has_failed;     // the task has ended: nothing was to come
    env->truncations[0] = is_complete;  // a limit cut it: more was to come
    quiz_ask(env);  // at the end of an episode too: what would have been shown is its final observation
    if (has_failed || is_complete) quiz_finish_episode(env, has_failed);
}

// Whether this environment may go on as `saved`, which was read from a file and may hold anything: the same keyword
// arguments, and every number that becomes an index or ends a loop within its bounds.
PUFFER_FN bool c_accepts(const Quiz* env, const Quiz* saved) {
    return saved->rounds == env->rounds && is_within(saved->num_right, 0, env->rounds - 1) &&
           is_within(saved->question, 0, QUIZ_NUM_QUESTIONS - 1);
}
