// advantage_row.h - one step of the advantage recurrence, the same for C++ and CUDA.
//
// Rewards and terminals arrive with the next observation, so step t reads them in column t + 1:
//
//     A_t = delta_t + decay_t * A_{t+1}                                      A_{columns-1} = 0
//     delta_t = min(ratio_t, rho_clip) * (reward_{t+1} + gamma * value_{t+1} * n_t - value_t)
//     decay_t = gamma * gae_lambda * min(ratio_t, c_clip) * n_t              n_t = 1 - terminal_{t+1}
//
// Generalised advantage estimation (Schulman et al. 2015, arXiv:1506.02438) with the clipped importance weights of
// V-trace (Espeholt et al. 2018, arXiv:1802.01561); all ratios 1 give plain GAE.
//
// Where an agent is absent at step t, as one that waits for its turn, no value is asked of what it did not act on: the
// value is what follows, and the advantage passes through, so that lambda counts the agent's own moves:
//
//     value_t = reward_{t+1} + gamma * n_t * value_{t+1}        A_t = gamma * n_t * A_{t+1}
//
// Absent at the last column, nothing is known of what follows its last own move: that one has advantage 0, and its own
// value is where the recurrence begins. An end after that move makes what follows known.
#pragma once

#include "kernel.h"

typedef struct {
    float gamma, gae_lambda, rho_clip, c_clip;
} AdvantageSettings;

typedef struct {
    float delta, decay;
} AdvantageStep;

// The smaller of the two; a NaN ratio stays NaN, so that a broken policy shows.
KERNEL_FN float advantage_clip(float ratio, float limit) { return ratio > limit ? limit : ratio; }

KERNEL_FN AdvantageStep advantage_step(AdvantageSettings settings, float value, float next_value, float next_reward,
                                       float next_terminal, float ratio) {
    float goes_on = 1.0f - next_terminal;
    float discount = settings.gamma * goes_on;
    AdvantageStep step;
    // LaTeX: \delta_t = \min(w_t, \bar\rho)\, (r_{t+1} + \gamma n_t V_{t+1} - V_t)
    // LaTeX:   ; w = ratio, \bar\rho = settings.rho_clip, r_{t+1} = next_reward, n = goes_on, V_{t+1} = next_value,
    // LaTeX:   V_t = value
    step.delta = advantage_clip(ratio, settings.rho_clip) * (next_reward + discount * next_value - value);
    // LaTeX: \mathrm{decay}_t = \min(w_t, \bar c)\, \gamma \lambda\, n_t
    // LaTeX:   ; \bar c = settings.c_clip, \lambda = settings.gae_lambda
    step.decay = advantage_clip(ratio, settings.c_clip) * (settings.gae_lambda * discount);
    return step;
}

// The state of the recurrence in a row with absent agents, from its last column to the first.
typedef struct {
    float advantage, value;
    int is_open;  // nothing is known of what follows
} AdvantageCarry;

KERNEL_FN AdvantageCarry advantage_last(float value, float present) {
    AdvantageCarry carry = {0.0f, value, present == 0.0f};
    return carry;
}

// Step t from what follows; `present` is 1 where the agent acts there, else 0.
KERNEL_FN AdvantageCarry advantage_carry(AdvantageSettings settings, AdvantageCarry next, float present, float value,
                                         float next_reward, float next_terminal, float ratio) {
    AdvantageCarry carry = next;
    carry.is_open = next.is_open && next_terminal == 0.0f;
    if (present == 0.0f) {
        float discount = settings.gamma * (1.0f - next_terminal);
        carry.value = next_reward + discount * next.value;
        carry.advantage = carry.is_open ? 0.0f : discount * next.advantage;
    } else {
        AdvantageStep step = advantage_step(settings, value, next.value, next_reward, next_terminal, ratio);
        carry.value = value;
        carry.advantage = carry.is_open ? 0.0f : step.delta + step.decay * next.advantage;
        carry.is_open = 0;
    }
    return carry;
}
