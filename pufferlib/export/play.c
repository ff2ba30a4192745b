// game_play.c - plays puffer_game by the policy of game_policy.h, and prints its scores and its speed:
//
//     cc -O3 -march=native -Wall -Wextra -Werror game_play.c -o game_play -lm
//     ./game_play [EPISODES] [sample]
//
// 1000 episodes unless told, by the likeliest action of every step, or with `sample` by drawn ones. All that it needs
// beside libc lies in this folder: the environment and the policy are headers, and every number is a constant.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NUM_ENVS = 192, AGENTS_PER_ENV = 1, NUM_AGENTS = NUM_ENVS * AGENTS_PER_ENV };
enum { SEED = 42, MAX_STEPS = 20000 };  // per episode, on average: a greedy policy can go in circles for ever

#define GAME_POLICY_AGENTS NUM_AGENTS
#include "game_policy.h"

// The environment computes what it does in Python, to the last bit: without fused multiply-adds, which the policy's
// products are quick by. Its functions have the parameters that all environments' have, whether they use them or not.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "game_binding.h"
#pragma GCC diagnostic pop
#if !defined(__clang__)
#pragma GCC pop_options
#endif

// Keyword arguments of the environment in Python.
static PyObject settings[] = {{NULL, 0}};

static Env envs[NUM_ENVS];
#ifdef MY_SHARED
static Shared shared;
#endif
static GamePolicy policy;
static GamePolicyObservation observations[NUM_AGENTS * GAME_POLICY_OBSERVATION];
static GamePolicyAction actions[NUM_AGENTS * GAME_POLICY_ACTION];
static float rewards[NUM_AGENTS];
static uint8_t terminals[NUM_AGENTS], truncations[NUM_AGENTS];
#ifdef ENV_ACTION_MASKS
static uint8_t action_masks[NUM_AGENTS * GAME_POLICY_CHOICES];
#endif
#ifdef ENV_TURNS
static uint8_t masks[NUM_AGENTS];
#endif
static int quotas[NUM_ENVS];  // episodes still to be counted: as many of every environment, so that long ones count too

typedef struct {
    double total, squares;
} Sums;

#define SUMS(name) Sums name;
typedef struct {
    LOG_FIELDS(SUMS)
    int episodes;
} Scores;

static void add(Sums* sums, double value) {
    sums->total += value;
    sums->squares += value * value;
}

static void print_mean(const char* name, const Sums* sums, int count) {
    double mean = sums->total / count, squares = sums->squares - count * mean * mean;  // NaN of a single one
    printf("%-16s %.3f +- %.3f (n = %d)\n", name, mean, sqrt((squares > 0 ? squares : 0) / (count - 1) / count), count);
}

// Whether the environments fit the policy.
static bool open_environments(void) {
#ifdef MY_SHARED
    if (my_shared(&shared, NULL, settings) < 0) return false;
#endif
    for (int i = 0; i < NUM_ENVS; i++) {
        Env* env = &envs[i];
        int agent = i * AGENTS_PER_ENV;
#ifdef MY_SHARED
        env->shared = &shared;
#endif
        if (my_init(env, NULL, settings) < 0) return false;
        PufferLayout layout = c_layout(env);
        if (layout.num_agents != AGENTS_PER_ENV || layout.observation_size != GAME_POLICY_OBSERVATION) {
            fprintf(stderr, "the environment must be the one that the policy was trained in; change no setting\n");
            return false;
        }
        env->observations = (void*)(observations + agent * GAME_POLICY_OBSERVATION);
        env->actions = (void*)(actions + agent * GAME_POLICY_ACTION);
        env->rewards = rewards + agent;
        env->terminals = terminals + agent;
        env->truncations = truncations + agent;
#ifdef ENV_ACTION_MASKS
        env->action_masks = action_masks + agent * GAME_POLICY_CHOICES;
#endif
#ifdef ENV_TURNS
        env->masks = masks + agent;
#endif
        env->rng = rng_seed(SEED, (uint64_t)i);
        c_reset(env);
    }
    return true;
}

#define ADD(name) add(&scores->name, log->name / log->n);

// Takes what an environment says of an episode that has ended.
static void count_episode(int i, Scores* scores) {
    Log* log = &envs[i].log;
    if (quotas[i] > 0) {
        LOG_FIELDS(ADD)
        scores->episodes += 1;
        quotas[i] -= 1;
    }
    memset(log, 0, sizeof(*log));
}

static void step(Scores* scores, bool is_sampled) {
    game_policy_act(&policy, observations, NUM_AGENTS, actions, is_sampled);
    for (int i = 0; i < NUM_ENVS; i++) {
        c_step(&envs[i]);
        if (envs[i].log.n > 0) count_episode(i, scores);
    }
    for (int agent = 0; agent < NUM_AGENTS; agent++) {
        if (terminals[agent] | truncations[agent]) game_policy_forget(&policy, agent);
    }
}

#define PRINT(name) print_mean(#name, &scores.name, scores.episodes);

int main(int argc, char** argv) {
    int episodes = argc > 1 ? atoi(argv[1]) : 1000;
    bool is_sampled = argc > 2 && strcmp(argv[2], "sample") == 0;
    if (episodes < 1 || argc > 3 || (argc == 3 && !is_sampled)) {
        fprintf(stderr, "usage: %s [EPISODES] [sample]\n", argv[0]);
        return 2;
    }
    if (!open_environments()) return 1;
    game_policy_begin(&policy, SEED);
#ifdef ENV_ACTION_MASKS
    policy.masks = action_masks;
#endif
    for (int i = 0; i < NUM_ENVS; i++) quotas[i] = episodes / NUM_ENVS + (i < episodes % NUM_ENVS);
    Scores scores;
    memset(&scores, 0, sizeof(scores));
    long steps = 0, most = (long)MAX_STEPS * quotas[0];
    clock_t begin = clock();
    for (; steps < most && scores.episodes < episodes; steps++) step(&scores, is_sampled);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (scores.episodes > 0) {
        LOG_FIELDS(PRINT)
    }
    if (scores.episodes < episodes) printf("%d of %d episodes did not end\n", episodes - scores.episodes, episodes);
    printf("%.2f million steps a second of one core, %ld steps\n", (double)steps * NUM_AGENTS / seconds / 1e6,
           steps * NUM_AGENTS);
    return 0;
}
