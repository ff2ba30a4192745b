// ppo_row.h - the loss of PPO of one step, with its gradient. See pufferlib/ppo/losses.py.
#pragma once

#include "cpu_kernels.h"
#include "decision_row.h"

// One step of an agent; `weight` is its share of the mean over the minibatch, the same for all but for absent agents.
typedef struct {
    float logprob, entropy, value;                         // now
    float old_logprob, old_value, advantage, ret, weight;  // the advantage normalised
    float ratio;                                           // result: probability now over then
} PpoStep;

typedef struct {
    PpoDecision decision;
    float value;
} PpoGradient;

// The gradient of the loss of a step, which it adds to the metrics, PPO_METRICS of them.
KERNEL_FN PpoGradient ppo_differentiate(const PpoCoefficients& coefficients, PpoStep* step, double* metrics) {
    float weight = step->weight, logratio = step->logprob - step->old_logprob, ratio = expf(logratio);
    step->ratio = ratio;
    PpoGradient gradient;

    // The policy: max(-A r, -A clip(r)). Within the clip both are the same; outside, a clipped ratio has no gradient.
    float advantage = step->advantage, clip = coefficients.clip_coef;
    float clipped_ratio = ratio < 1.0f - clip ? 1.0f - clip : ratio > 1.0f + clip ? 1.0f + clip : ratio;
    bool is_free = -advantage * ratio >= -advantage * clipped_ratio;
    float policy_loss = is_free ? -advantage * ratio : -advantage * clipped_ratio;
    gradient.decision.logprob = is_free ? -advantage * ratio * weight : 0.0f;
    gradient.decision.entropy = -coefficients.ent_coef * weight;

    // The value: half of the larger of two squares, that of a value clipped around the old one and that of the value.
    float limit = coefficients.vf_clip_coef, change = step->value - step->old_value;
    float clipped_change = change < -limit ? -limit : change > limit ? limit : change;
    float error = step->value - step->ret, clipped_error = step->old_value + clipped_change - step->ret;
    bool is_value_free = error * error >= clipped_error * clipped_error || clipped_change == change;
    float value_loss = 0.5f * (is_value_free ? error * error : clipped_error * clipped_error);
    gradient.value = is_value_free ? coefficients.vf_coef * error * weight : 0.0f;

    metrics[0] += weight * policy_loss;
    metrics[1] += weight * value_loss;
    metrics[2] += weight * step->entropy;
    metrics[3] -= weight * logratio;
    metrics[4] += weight * (ratio - 1.0f - logratio);
    metrics[5] += fabsf(ratio - 1.0f) > clip ? weight : 0.0f;
    metrics[6] += weight * ratio;
    return gradient;
}
