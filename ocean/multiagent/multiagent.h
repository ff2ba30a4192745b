// multiagent.h - four agents see a number each, and each has a rule of its own for the answer. A test of rows.
//
// Observation uint8[8] of an agent, 0 or 1: which of the four it is, then its number, 0 to 3, drawn anew each step.
// Action: an answer, 0 to 3; anything else is wrong. Right is (number + agent) modulo 4.
// Reward: +1 for a right answer of its own, else 0.
// Truncation of agent i after (i + 1) * `steps` answers: episodes of four lengths lie side by side.
// Score is the right answers of an episode, perf their share.
//
// Numbers are drawn for each agent alone, so that nothing about one row can be told from another. What is wrong with a
// trainer or a vector shows as a share of right answers:
// - observations, actions or rewards in the rows of other agents: 1/4, chance;
// - one agent's rule for all of them, where the half of the observation that tells them apart is lost: 1/4;
// - flags in the rows of other agents: episodes of wrong lengths.
#pragma once

#include "puffer_env.h"

enum { MULTIAGENT_NUM_AGENTS = 4, MULTIAGENT_NUM_NUMBERS = 4 };
enum { MULTIAGENT_NUM_CELLS = MULTIAGENT_NUM_AGENTS + MULTIAGENT_NUM_NUMBERS };  // that an agent sees
enum { MULTIAGENT_MIN_STEPS = 1, MULTIAGENT_MAX_STEPS = 1000 };

typedef struct {
    int number;     // that it sees
    int num_steps;  // of its episode
    int num_right;  // of them
} MultiagentAgent;

typedef struct {
    uint8_t* observations;        // [4, 8]  these six are borrowed from the caller
    const void* actions;          // int32_t[4]
    float* rewards;               // [4]
    uint8_t* terminals;           // [4]  never set
    uint8_t* truncations;         // [4]
    uint8_t* final_observations;  // [4, 8] or NULL
    Rng rng;
    int steps;  // in an episode of the first agent
    MultiagentAgent agents[MULTIAGENT_NUM_AGENTS];
    Log log;  // summed at the end of each agent's episode, cleared by the reader
} Multiagent;

PUFFER_FN PufferLayout c_layout(const Multiagent* env) {
    (void)env;
    return puffer_layout(MULTIAGENT_NUM_AGENTS, MULTIAGENT_NUM_CELLS, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN void multiagent_show_number(Multiagent* env, int index) {
    uint8_t* row = env->observations + index * MULTIAGENT_NUM_CELLS;
    row[MULTIAGENT_NUM_AGENTS + env->agents[index].number] = 0;
    env->agents[index].number = rng_below(&env->rng, MULTIAGENT_NUM_NUMBERS);
    row[MULTIAGENT_NUM_AGENTS + env->agents[index].number] = 1;
}

PUFFER_FN void c_reset(Multiagent* env) {
    memset(env->observations, 0, MULTIAGENT_NUM_AGENTS * MULTIAGENT_NUM_CELLS);
    memset(env->agents, 0, sizeof(env->agents));
    for (int i = 0; i < MULTIAGENT_NUM_AGENTS; i++) {
        env->observations[i * MULTIAGENT_NUM_CELLS + i] = 1;
        multiagent_show_number(env, i);
    }
}

PUFFER_FN int multiagent_right_answer(const Multiagent* env, int index) {
    return (env->agents[index].number + index) % MULTIAGENT_NUM_NUMBERS;
}

PUFFER_FN int multiagent_episode_length(const Multiagent* env, int index) { return (index + 1) * env->steps; }

PUFFER_FN void multiagent_finish_episode(Multiagent* env, int index) {
    MultiagentAgent* agent = &env->agents[index];
    env->truncations[index] = 1;
    env->log.perf += (float)agent->num_right / (float)agent->num_steps;
    env->log.score += (float)agent->num_right;
    env->log.episode_return += (float)agent->num_right;
    env->log.episode_length += (float)agent->num_steps;
    env->log.n += 1.0f;
    agent->num_steps = agent->num_right = 0;
    if (env->final_observations == NULL) return;
    size_t row = (size_t)(index * MULTIAGENT_NUM_CELLS);
    keep_final(env->final_observations + row, env->observations + row, MULTIAGENT_NUM_CELLS);
}

// The number that is drawn is the last of the episode and the first of the next: which is seen does not matter to it.
PUFFER_FN void multiagent_step_agent(Multiagent* env, int index) {
    MultiagentAgent* agent = &env->agents[index];
    bool is_right = ((const int32_t*)env->actions)[index] == multiagent_right_answer(env, index);
    agent->num_steps += 1;
    agent->num_right += is_right;
    env->rewards[index] = is_right ? 1.0f : 0.0f;
    env->terminals[index] = env->truncations[index] = 0;
    multiagent_show_number(env, index);
    if (agent->num_steps == multiagent_episode_length(env, index)) multiagent_finish_episode(env, index);
}

PUFFER_FN void c_step(Multiagent* env) {
    for (int i = 0; i < MULTIAGENT_NUM_AGENTS; i++) multiagent_step_agent(env, i);
}

PUFFER_FN bool c_accepts(const Multiagent* env, const Multiagent* saved) {
    for (int i = 0; i < MULTIAGENT_NUM_AGENTS; i++) {
        const MultiagentAgent* agent = &saved->agents[i];
        if (!is_within(agent->number, 0, MULTIAGENT_NUM_NUMBERS - 1) ||
            !is_within(agent->num_steps, 0, multiagent_episode_length(env, i) - 1) ||
            !is_within(agent->num_right, 0, agent->num_steps)) {
            return false;
        }
    }
    return saved->steps == env->steps;
}
