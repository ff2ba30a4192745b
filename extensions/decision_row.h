// decision_row.h - one decision of a policy: sampling it, its log-probability and entropy, and their gradients. See
// pufferlib/ppo/sampling.py.
//
// A decision has one or more independent parts: all choices, each among the next `size` logits, or all numbers, each
// from a normal distribution.
#pragma once

#include <math.h>

#include "mingru_row.h"

// e^x for x <= 0, and 0 where that is too small for a float; NaN stays NaN.
KERNEL_FN float ppo_probability(float logprob) { return logprob < -87.0f ? 0.0f : mingru_exp(logprob); }

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
KERNEL_FN int32_t ppo_sample(const float* logprobs, int64_t size, float uniform) {
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
    float logprob, entropy;
} PpoDecision;

KERNEL_FN int64_t ppo_action(int64_t action, int64_t size) {
    return action < 0 ? 0 : action < size ? action : size - 1;
}

// Of given choices; replaces logits by log-probabilities. An action outside of its part counts as the nearest one.
KERNEL_FN PpoDecision ppo_evaluate_choices(const int64_t* part_sizes, int64_t num_parts, const int32_t* actions,
                                           float* logits) {
    PpoDecision decision = {0.0f, 0.0f};
    for (int64_t part = 0; part < num_parts; part++) {
        int64_t size = part_sizes[part];
        ppo_log_softmax(logits, size);
        decision.logprob += logits[ppo_action(actions[part], size)];
        decision.entropy += ppo_entropy(logits, size);
        logits += size;
    }
    return decision;
}

// Replaces the log-probabilities by the gradient of the logits; `gradient` is that of the two results above.
KERNEL_FN void ppo_differentiate_choices(const int64_t* part_sizes, int64_t num_parts, const int32_t* actions,
                                         PpoDecision gradient, float* logprobs) {
    for (int64_t part = 0; part < num_parts; part++) {
        int64_t size = part_sizes[part], action = ppo_action(actions[part], size);
        float entropy = ppo_entropy(logprobs, size);
        for (int64_t i = 0; i < size; i++) {
            float chosen = i == action ? 1.0f : 0.0f, probability = ppo_probability(logprobs[i]);
            float grad_entropy = probability > 0.0f ? -probability * (logprobs[i] + entropy) : 0.0f;
            logprobs[i] = gradient.logprob * (chosen - probability) + gradient.entropy * grad_entropy;
        }
        logprobs += size;
    }
}

// Independent numbers whose means the network gives.
typedef struct {
    int64_t size;
    const float *log_deviations, *deviations;  // [size]
} PpoNormal;

// log N(a; m, s) = -((a - m) / s)^2 / 2 - log s - log(2 pi) / 2, and entropy log s + log(2 pi e) / 2, summed.
KERNEL_FN PpoDecision ppo_evaluate_normal(const PpoNormal& normal, const float* actions, const float* means) {
    PpoDecision decision = {0.0f, 0.0f};
    for (int64_t i = 0; i < normal.size; i++) {
        float distance = (actions[i] - means[i]) / normal.deviations[i];
        decision.logprob -= 0.5f * distance * distance + normal.log_deviations[i] + 0.918938533f;
        decision.entropy += normal.log_deviations[i] + 1.418938533f;
    }
    return decision;
}

// Replaces the means by their gradient and adds that of log s; `gradient` is that of the two results above.
KERNEL_FN void ppo_differentiate_normal(const PpoNormal& normal, const float* actions, PpoDecision gradient,
                                        float* means, float* grad_log_deviations) {
    for (int64_t i = 0; i < normal.size; i++) {
        float distance = (actions[i] - means[i]) / normal.deviations[i];
        means[i] = gradient.logprob * distance / normal.deviations[i];
        grad_log_deviations[i] += gradient.logprob * (distance * distance - 1.0f) + gradient.entropy;
    }
}
