// game_policy.h - a policy of PufferLib, made by `puffer export`; how to use it stands in puffernet.h.
//
// @NOTES
#pragma once

#include "puffernet.h"

// @TYPES

enum {
    // @CONSTANTS
};

#ifndef GAME_POLICY_AGENTS
#define GAME_POLICY_AGENTS 192  // that may act together; multiples of PUFFERNET_BLOCK are quick
#endif

// @TABLES
// All that changes; owned by the caller, for one thread.
typedef struct {
    // @MEMBERS
} GamePolicy;

// Begins anew with every agent; the seed is that of what is sampled.
static inline void game_policy_begin(GamePolicy* policy, uint64_t seed) {
    memset(policy, 0, sizeof(*policy));
    policy->random = puffernet_random(seed);
}

// To be called when an agent's episode has ended: the next begins without memory.
static inline void game_policy_forget(GamePolicy* policy, int agent) {
    // @FORGET
}

// Computes logits and values of a block of agents, and moves their recurrent state on.
static inline void game_policy_block(GamePolicy* policy, const GamePolicyObservation* observations, int first,
                                     int rows) {
    // @BLOCK
}

// Computes policy->logits and policy->values of agents [0, agents), at most GAME_POLICY_AGENTS.
static inline void game_policy_forward(GamePolicy* policy, const GamePolicyObservation* observations, int agents) {
    for (int first = 0; first < agents; first += PUFFERNET_BLOCK) {
        int rows = agents - first < PUFFERNET_BLOCK ? agents - first : PUFFERNET_BLOCK;
        game_policy_block(policy, observations + first * GAME_POLICY_OBSERVATION, first, rows);
    }
    // @MASKS
}

// Writes the actions of agents [0, agents): drawn as the policy was trained to, or the likeliest.
static inline void game_policy_act(GamePolicy* policy, const GamePolicyObservation* observations, int agents,
                                   GamePolicyAction* actions, bool is_sampled) {
    PuffernetRandom* random = is_sampled ? &policy->random : NULL;
    game_policy_forward(policy, observations, agents);
    for (int agent = 0; agent < agents; agent++) {
        const float* logits = policy->logits[agent];
        GamePolicyAction* action = actions + agent * GAME_POLICY_ACTION;
        // @DECISIONS
    }
}
