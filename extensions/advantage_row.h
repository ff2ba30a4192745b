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
    step.delta = advantage_clip(ratio, settings.rho_clip) * (next_reward + discount * next_value - value);
    step.decay = advantage_clip(ratio, settings.c_clip) * (settings.gae_lambda * discount);
    return step;
}
