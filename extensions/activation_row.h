// activation_row.h - the activation functions of policies with their slopes, without a branch or a call.
#pragma once

#include <math.h>

#include "mingru_row.h"

typedef struct {
    float value, slope;
} Activation;

KERNEL_FN Activation activation_linear(float x) {
    Activation result;
    result.value = x;
    result.slope = 1.0f;
    return result;
}

KERNEL_FN Activation activation_relu(float x) {
    Activation result;
    result.value = x > 0.0f ? x : 0.0f;
    result.slope = x > 0.0f ? 1.0f : 0.0f;
    return result;
}

// tanh(|x|) = (1 - e^-2|x|) / (1 + e^-2|x|); near 0, where that difference cancels, the series x - x^3/3 + 2x^5/15.
KERNEL_FN Activation activation_tanh(float x) {
    float size = fabsf(x), square = x * x;
    float small = mingru_exp(-2.0f * size);
    float far = (1.0f - small) / (1.0f + small);
    float near = size * (1.0f - square * (0.333333333f - square * 0.133333333f));
    float value = size < 0.1f ? near : far;
    Activation result;
    result.value = x < 0.0f ? -value : value;
    result.slope = 1.0f - value * value;
    return result;
}

// x * Phi(x), Phi the normal distribution function, by 7.1.26 of Abramowitz and Stegun: erf to 1.5e-7.
KERNEL_FN Activation activation_gelu(float x) {
    float bell = mingru_exp(-0.5f * x * x);  // e^(-u^2) for u = |x| / sqrt(2)
    float t = 1.0f / (1.0f + 0.3275911f * 0.70710678f * fabsf(x));
    float sum = 1.061405429f;
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    float tail = 0.5f * sum * t * bell;  // 1 - Phi(|x|)
    float phi = x < 0.0f ? tail : 1.0f - tail;
    Activation result;
    result.value = x * phi;
    result.slope = phi + x * 0.39894228f * bell;
    return result;
}
