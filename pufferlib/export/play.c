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

enum { MAX_ENVS = 192, AGENTS_PER_ENV = 1, MAX_AGENTS = MAX_ENVS * AGENTS_PER_ENV };
enum { EPISODES_PER_ENV = 1 };  // side by side: one of all agents, or one of each where they begin and end apart
enum { SEED = 42, MAX_STEPS = 20000 };  // per episode, on average: a greedy policy can go in circles for ever

#define GAME_POLICY_AGENTS MAX_AGENTS
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

static Env envs[MAX_ENVS];
#ifdef MY_SHARED
static Shared shared;
#endif
static GamePolicy policy;
static GamePolicyObservation observations[MAX_AGENTS * GAME_POLICY_OBSERVATION];
static GamePolicyAction actions[MAX_AGENTS * GAME_POLICY_ACTION];
static float rewards[MAX_AGENTS];
static uint8_t terminals[MAX_AGENTS], truncations[MAX_AGENTS];
#ifdef ENV_ACTION_MASKS
static uint8_t action_masks[MAX_AGENTS * GAME_POLICY_CHOICES];
#endif
#ifdef ENV_TURNS
static uint8_t masks[MAX_AGENTS];
static bool is_pending[MAX_AGENTS];  // the last episode has ended, and the agent has not moved since
#endif
#ifdef ENV_TURNS
enum { HAS_OWN = 0 };
#else
enum { HAS_OWN = AGENTS_PER_ENV > 1 };  // whether agents may end apart, so that returns and lengths are counted here
#endif
static double returns[MAX_AGENTS], lengths[MAX_AGENTS];  // of the running episodes
static int num_envs;                                     // that play, no more than the episodes need
static int quotas[MAX_AGENTS];  // episodes still to be counted: as many of every agent, so that long ones count too

typedef struct {
    double total, squares;
} Sums;

#define SUMS(name) Sums name;
typedef struct {
    LOG_FIELDS(SUMS)
    long episodes, episodes_left;  // of agents
} Scores;

static void add(Sums* sums, double value, int times) {
    sums->total += times * value;
    sums->squares += times * value * value;
}

static void print_mean(const char* name, const Sums* sums, long count) {
    double n = (double)count, mean = sums->total / n, squares = sums->squares - n * mean * mean;  // NaN of a single one
    printf("%-16s %.3f +- %.3f (n = %ld)\n", name, mean, sqrt((squares > 0 ? squares : 0) / (n - 1) / n), count);
}

// Whether the environments fit the policy.
static bool open_environments(void) {
#ifdef MY_SHARED
    if (my_shared(&shared, NULL, settings) < 0) return false;
#endif
    for (int i = 0; i < num_envs; i++) {
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
#ifdef ENV_TURNS
        for (int j = agent; j < agent + AGENTS_PER_ENV; j++) is_pending[j] = !masks[j];
#endif
    }
    return true;
}

// A report is a mean of all agents that ended, those that have played their quota too; `own` is of the others alone.
static double mean_of(const char* name, double reported, const double* own) {
    if (own == NULL) return reported;
    return strcmp(name, "episode_return") == 0 ? own[0] : strcmp(name, "episode_length") == 0 ? own[1] : reported;
}

#define ADD(name) add(&scores->name, mean_of(#name, log->name / log->n, own), counted);

// Deals the episodes out, evenly among all that are played side by side.
static void deal(int episodes, Scores* scores) {
    int most = (episodes - 1) / EPISODES_PER_ENV + 1;
    num_envs = most < MAX_ENVS ? most : MAX_ENVS;
    int count = num_envs * EPISODES_PER_ENV;
    for (int agent = 0; agent < num_envs * AGENTS_PER_ENV; agent++) {
        quotas[agent] = episodes / count + (agent / (AGENTS_PER_ENV / EPISODES_PER_ENV) < episodes % count);
        scores->episodes_left += quotas[agent];
    }
}

// Takes what an environment says of the episodes that ended with this step: a mean of its agents', or of them all.
static void count_episodes(int i, Scores* scores) {
    Log* log = &envs[i].log;
    int ended = 0, counted = 0;
    double sums[2] = {0, 0};
    for (int agent = i * AGENTS_PER_ENV; agent < (i + 1) * AGENTS_PER_ENV; agent++) {
        if (!(terminals[agent] | truncations[agent])) continue;
        ended += 1;
        if (quotas[agent] > 0) {
            counted += 1;
            quotas[agent] -= 1;
            sums[0] += returns[agent];
            sums[1] += lengths[agent];
        }
        returns[agent] = lengths[agent] = 0;
    }
    double means[2] = {sums[0] / fmax(counted, 1), sums[1] / fmax(counted, 1)};
    const double* own = HAS_OWN && (int)log->n == ended ? means : NULL;
    scores->episodes_left -= counted;
    if (counted > 1 && (int)log->n != ended) counted = 1;
    scores->episodes += counted;
    LOG_FIELDS(ADD)
    memset(log, 0, sizeof(*log));
}

static void step(Scores* scores, bool is_sampled) {
    int num_agents = num_envs * AGENTS_PER_ENV;
    game_policy_act(&policy, observations, num_agents, actions, is_sampled);
    for (int i = 0; i < num_envs; i++) {
        c_step(&envs[i]);
        for (int agent = i * AGENTS_PER_ENV; HAS_OWN && agent < (i + 1) * AGENTS_PER_ENV; agent++) {
            returns[agent] += rewards[agent];
            lengths[agent] += 1;
        }
        if (envs[i].log.n > 0) count_episodes(i, scores);
    }
    for (int agent = 0; agent < num_agents; agent++) {
        bool begins = terminals[agent] | truncations[agent];
#ifdef ENV_TURNS
        begins |= is_pending[agent];
        is_pending[agent] = begins && !masks[agent];
#endif
        if (begins) game_policy_forget(&policy, agent);
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
    Scores scores;
    memset(&scores, 0, sizeof(scores));
    deal(episodes, &scores);
    if (!open_environments()) return 1;
    game_policy_begin(&policy, SEED);
#ifdef ENV_ACTION_MASKS
    policy.masks = action_masks;
#endif
    long steps = 0, most = (long)MAX_STEPS * quotas[0];
    clock_t begin = clock();
    for (; steps < most && scores.episodes_left > 0; steps++) step(&scores, is_sampled);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (scores.episodes > 0) {
        LOG_FIELDS(PRINT)
    }
    if (scores.episodes_left > 0) printf("%ld episodes did not end\n", scores.episodes_left);
    steps *= num_envs * AGENTS_PER_ENV;
    printf("%.2f million steps a second of one core, %ld steps\n", (double)steps / seconds / 1e6, steps);
    return 0;
}
