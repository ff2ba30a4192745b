// puffer_env.h - what every environment header stands on: function qualifier, data layout, random numbers.
//
// An environment header is C11 that also compiles as C++17 and as CUDA device code, so it uses only the includes
// below, float literals that end in `f`, and no memory or state but its own struct. It defines a struct for the
// environment, with a member `Log log`, and
//
//     c_layout(const Env*)   how many agents it has and what their rows look like
//     c_reset(Env*)          begins an episode and writes the first observation
//     c_step(Env*)           reads the action rows, writes observation, reward, terminal and truncation rows
//     c_accepts(const Env*, const Env* saved)   whether it may go on as `saved`, a struct of bytes from a file
//
// c_accepts is what stands between a stranger's file and the arrays: it says no unless the keyword arguments are those
// of the running environment, every bool is one, and every other number is within what play leads to, as far as an
// index, a loop or an observation depends on it. The pointers, `rng` and `log` need no check. All that c_step leads to
// it accepts.
//
// The arrays belong to the caller and outlive the environment. Row = environment index * num_agents + agent index:
//
//     observations [rows, observation_size]   actions [rows, action_size]
//     rewards [rows] float    terminals, truncations [rows] one byte, 0 or 1
//     final_observations [rows, observation_size], or NULL: not wanted
//     action_masks [rows, num_choices] one byte, 0 or 1; masks [rows] one byte, 0 or 1; see below
//
// When an episode ends inside c_step the environment resets at once: the observation is the first of the next episode,
// the reward and the flag are the last of the old one. Terminal means the task ended, truncation that a limit cut it.
// What would have been observed had it not reset goes through keep_final, just before the reset overwrites it. Nothing
// else reads or writes the final observations, so episodes are the same whether they are wanted or not.
//
// Two arrays are for games with legal moves and with turns; an environment without them has no such members. One that
// has them says so in its binding.c, by lines before it includes puffer_binding.h:
//
//     #define ENV_ACTION_MASKS   the struct has `uint8_t* action_masks`
//     #define ENV_TURNS          the struct has `uint8_t* masks`
//
// action_masks has a byte for every choice of every discrete part of an action, a part after the other: 7 for
// Discrete(7), 8 for MultiDiscrete([3, 5]). 1 is allowed. c_reset and c_step write it together with the observation, to
// which it belongs. An agent that acts must have a choice in every part. How many choices there are c_layout says, by
// puffer_masked_layout. An action that is not allowed may come all the same, from a person or a policy by hand: what it
// does is defined, as by losing the game or by another action that the header names.
//
// masks is 1 where the agent acts on the observation beside it, and 0 where it waits. The action of an agent that waits
// is ignored. Its observation is written all the same, from its own side; its reward and its flags count, as results of
// its own last action. When a game ends all its agents get their last reward and flag in the same step, whosever turn
// it was; then the environment resets and says who begins.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define PUFFER_FN __device__ static inline
#define PUFFER_TABLE __device__ static const
#else
#define PUFFER_FN static inline    // every function of an environment header
#define PUFFER_TABLE static const  // every constant table of an environment header
#endif

typedef enum { PUFFER_UINT8, PUFFER_INT8, PUFFER_INT32, PUFFER_FLOAT32 } PufferType;

// What is reported about episodes: floats, summed over those that ended, and their count `n`; cleared by the reader,
// who takes the means. perf lies between 0 and 1. An environment that reports other numbers names them before it
// includes this file, all of them: #define LOG_FIELDS(field) field(perf) field(score) field(crashes)
#ifndef LOG_FIELDS
#define LOG_FIELDS(field) field(perf) field(score) field(episode_return) field(episode_length)
#endif

#define LOG_MEMBER(name) float name;
typedef struct {
    LOG_FIELDS(LOG_MEMBER)
    float n;
} Log;
#undef LOG_MEMBER

// What the caller's arrays must look like; constant after the environment is configured.
typedef struct {
    int num_agents;
    int observation_size;  // elements per agent
    PufferType observation_type;
    int action_size;         // elements per agent
    PufferType action_type;  // PUFFER_INT32 for discrete actions, PUFFER_FLOAT32 for boxes
    int num_choices;         // bytes of an agent's row of action_masks; 0 without them
} PufferLayout;

PUFFER_FN PufferLayout puffer_layout(int num_agents, int observation_size, PufferType observation_type, int action_size,
                                     PufferType action_type) {
    PufferLayout layout;
    layout.num_agents = num_agents;
    layout.observation_size = observation_size;
    layout.observation_type = observation_type;
    layout.action_size = action_size;
    layout.action_type = action_type;
    layout.num_choices = 0;
    return layout;
}

// The layout of an environment with action masks: its actions are discrete, with `num_choices` over all their parts.
PUFFER_FN PufferLayout puffer_masked_layout(int num_agents, int observation_size, PufferType observation_type,
                                            int action_size, int num_choices) {
    PufferLayout layout = puffer_layout(num_agents, observation_size, observation_type, action_size, PUFFER_INT32);
    layout.num_choices = num_choices;
    return layout;
}

// A PCG32 generator (XSH-RR variant, O'Neill 2014, pcg-random.org): 64 bits of state, 32 bits a number.
typedef struct {
    uint64_t state;
} Rng;

// The finaliser of SplitMix64 (Steele et al. 2014): every bit of the input moves every bit of the result.
PUFFER_FN uint64_t rng_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// The stream of environment `index` in a run seeded with `seed`.
PUFFER_FN Rng rng_seed(uint64_t seed, uint64_t index) {
    Rng rng;
    rng.state = rng_mix(rng_mix(seed + 0x9E3779B97F4A7C15ull) + (index + 1) * 0x9E3779B97F4A7C15ull);
    return rng;
}

PUFFER_FN uint32_t rng_next(Rng* rng) {
    uint64_t state = rng->state;
    rng->state = state * 6364136223846793005ull + 1442695040888963407ull;
    uint32_t shifted = (uint32_t)(((state >> 18) ^ state) >> 27);
    uint32_t rotation = (uint32_t)(state >> 59);
    return (shifted >> rotation) | (shifted << ((32 - rotation) & 31));
}

// An integer in [0, bound), bound >= 1. Multiply-shift: the bias is below bound / 2^32.
PUFFER_FN int rng_below(Rng* rng, int bound) { return (int)(((uint64_t)rng_next(rng) * (uint64_t)bound) >> 32); }

// A float in [0, 1) with 24 random bits.
PUFFER_FN float rng_float(Rng* rng) { return (float)(rng_next(rng) >> 8) * (1.0f / 16777216.0f); }

// A float in [low, high).
PUFFER_FN float rng_uniform(Rng* rng, float low, float high) { return low + (high - low) * rng_float(rng); }

// Keeps the last observation of an episode, `bytes` of it, where it is wanted; see the top.
PUFFER_FN void keep_final(void* final_observations, const void* observations, size_t bytes) {
    if (final_observations != NULL) memcpy(final_observations, observations, bytes);
}

// For c_accepts.
PUFFER_FN bool is_within(int value, int low, int high) { return value >= low && value <= high; }
PUFFER_FN bool is_withinf(float value, float low, float high) { return value >= low && value <= high; }  // not if NaN
PUFFER_FN bool is_bool(const bool* value) { return *(const uint8_t*)value <= 1; }  // another byte may not be read

enum { PUFFER_MAX_STEPS = 1 << 30 };  // no episode is that long; counting on does not overflow

PUFFER_FN float clampf(float value, float low, float high) {
    float above = value > low ? value : low;  // NaN becomes low
    return above < high ? above : high;
}
