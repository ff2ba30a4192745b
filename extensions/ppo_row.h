// ppo_row.h - what PPO needs of one decision: drawing it, and the gradient of its loss. See pufferlib/losses.py.
//
// A decision has one or more independent parts, each a choice among the next `size` logits.
#pragma once

#include <math.h>

#include "mingru_row.h"

// e^x for x <= 0, and 0 where that is too small for a float.
KERNEL_FN float ppo_probability(float logprob) { return logprob > -87.0f ? mingru_exp(logprob) : 0.0f; }

// Replaces logits by log-probabilities. NaN stays NaN.
KERNEL_FN void ppo_log_softmax(float* logits, int64_t size) {
    float largest = logits[0];
    for (int64_t i = 1; i < size; i++) largest = logits[i] > largest ? logits[i] : largest;
    float sum = 0.0f;
    for (int64_t i = 0; i < size; i++) sum += ppo_probability(logits[i] - largest);
    float logsum = largest + logf(sum);
    for (int64_t i = 0; i < size; i++) logits[i] -= logsum;
}

// Inverse transform: the number of cumulative probabilities that lie at or below a number uniform in [0, 1). Their last
// is rounded, seldom 1: a number below that last one never leads past the last possible choice.
KERNEL_FN int32_t ppo_draw(const float* logprobs, int64_t size, float uniform) {
    float total = 0.0f;
    for (int64_t i = 0; i < size; i++) total += ppo_probability(logprobs[i]);
    float cumulative = 0.0f;
    int32_t choice = 0;
    for (int64_t i = 0; i < size; i++) {
        cumulative += ppo_probability(logprobs[i]);
        choice += cumulative <= uniform * total;
    }
    return choice < size ? choice : (int32_t)(size - 1);
}

KERNEL_FN float ppo_entropy(const float* logprobs, int64_t size) {
    float entropy = 0.0f;
    for (int64_t i = 0; i < size; i++) {
        float probability = ppo_probability(logprobs[i]);
        if (probability > 0.0f) entropy -= probability * logprobs[i];
    }
    return entropy;
}

typedef struct {
    float clip_coef, vf_clip_coef, vf_coef, ent_coef;
} PpoCoefficients;

// One step of an agent; `weight` is its share of the mean over the minibatch, the same for all but for absent agents.
typedef struct {
    const int32_t* actions;                                // [parts]
    float old_logprob, old_value, advantage, ret, weight;  // the advantage normalised
    float ratio, value;                                    // results: probability now over then, the value now
} PpoStep;

KERNEL_FN int64_t ppo_action(int64_t action, int64_t size) {
    return action < 0 ? 0 : action < size ? action : size - 1;
}

enum { PPO_METRICS = 7 };  // in the order of losses.METRICS

// Replaces the policy's output [logits and value] by the gradient of the loss, adds the step to the metrics, and fills
// in the results of the step. An action outside of its part counts as the nearest one.
KERNEL_FN void ppo_differentiate(const PpoCoefficients& coefficients, const int64_t* part_sizes, int64_t num_parts,
                                 float* output, PpoStep* step, double* metrics) {
    float logprob = 0.0f, entropy = 0.0f, weight = step->weight;
    float* logits = output;
    for (int64_t part = 0; part < num_parts; part++) {
        int64_t size = part_sizes[part];
        ppo_log_softmax(logits, size);
        logprob += logits[ppo_action(step->actions[part], size)];
        entropy += ppo_entropy(logits, size);
        logits += size;
    }
    float value = *logits, logratio = logprob - step->old_logprob, ratio = expf(logratio);
    step->ratio = ratio;
    step->value = value;

    // The policy: max(-A r, -A clip(r)). Within the clip both are the same; outside, a clipped ratio has no gradient.
    float advantage = step->advantage, clip = coefficients.clip_coef;
    float clipped_ratio = ratio < 1.0f - clip ? 1.0f - clip : ratio > 1.0f + clip ? 1.0f + clip : ratio;
    bool is_free = -advantage * ratio >= -advantage * clipped_ratio;
    float policy_loss = is_free ? -advantage * ratio : -advantage * clipped_ratio;
    float grad_logprob = is_free ? -advantage * ratio * weight : 0.0f;

    // The value: half of the larger of two squares, that of a value clipped around the old one and that of the value.
    float limit = coefficients.vf_clip_coef, change = value - step->old_value;
    float clipped_change = change < -limit ? -limit : change > limit ? limit : change;
    float error = value - step->ret, clipped_error = step->old_value + clipped_change - step->ret;
    bool is_value_free = error * error >= clipped_error * clipped_error || clipped_change == change;
    float value_loss = 0.5f * (is_value_free ? error * error : clipped_error * clipped_error);
    *logits = is_value_free ? coefficients.vf_coef * error * weight : 0.0f;

    logits = output;
    for (int64_t part = 0; part < num_parts; part++) {
        int64_t size = part_sizes[part], action = ppo_action(step->actions[part], size);
        float part_entropy = ppo_entropy(logits, size);
        for (int64_t i = 0; i < size; i++) {
            float chosen = i == action ? 1.0f : 0.0f, probability = ppo_probability(logits[i]);
            float grad_entropy = probability > 0.0f ? -probability * (logits[i] + part_entropy) : 0.0f;
            logits[i] = grad_logprob * (chosen - probability) - coefficients.ent_coef * weight * grad_entropy;
        }
        logits += size;
    }

    metrics[0] += weight * policy_loss;
    metrics[1] += weight * value_loss;
    metrics[2] += weight * entropy;
    metrics[3] -= weight * logratio;
    metrics[4] += weight * (ratio - 1.0f - logratio);
    metrics[5] += fabsf(ratio - 1.0f) > clip ? weight : 0.0f;
    metrics[6] += weight * ratio;
}
