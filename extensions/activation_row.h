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
    result.value = x < 0.0f ? 0.0f : x;  // NaN stays
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

KERNEL_FN Activation activation_sigmoid(float x) {
    MingruSigmoid sigmoid = mingru_sigmoid(x);
    Activation result;
    result.value = sigmoid.value;
    result.slope = sigmoid.value * sigmoid.complement;
    return result;
}

// x sigmoid(x).
KERNEL_FN Activation activation_silu(float x) {
    MingruSigmoid sigmoid = mingru_sigmoid(x);
    Activation result;
    result.value = x * sigmoid.value;
    result.slope = sigmoid.value + result.value * sigmoid.complement;
    return result;
}

// x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3): torch's approximation of the one above.
KERNEL_FN Activation activation_gelu_tanh(float x) {
    float square = x * x;
    Activation inner = activation_tanh(0.79788456f * x * (1.0f + 0.044715f * square));
    Activation result;
    result.value = 0.5f * x * (1.0f + inner.value);
    result.slope =
        0.5f * (1.0f + inner.value) + 0.5f * x * inner.slope * 0.79788456f * (1.0f + 3.0f * 0.044715f * square);
    return result;
}

// e^x - 1 below 0; near 0, where that difference cancels, the series x + x^2/2 + x^3/6 + x^4/24.
KERNEL_FN Activation activation_elu(float x) {
    float low = x < 0.0f ? x : 0.0f, power = mingru_exp(low);
    float near = low * (1.0f + low * (0.5f + low * (0.166666667f + low * 0.0416666667f)));
    float below = low > -0.1f ? near : power - 1.0f;
    Activation result;
    result.value = x < 0.0f ? below : x;  // NaN stays
    result.slope = x > 0.0f ? 1.0f : power;
    return result;
}

KERNEL_FN Activation activation_leaky_relu(float x) {
    Activation result;
    result.value = x > 0.0f ? x : 0.01f * x;
    result.slope = x > 0.0f ? 1.0f : 0.01f;
    return result;
}

// log(1 + y) for y in [0, 1] as 2 artanh(s), s = y / (2 + y): the odd series up to s^13 is exact to 1e-8.
KERNEL_FN float activation_log1p(float y) {
    float s = y / (2.0f + y), square = s * s;
    float sum = 0.0769230769f;
    sum = sum * square + 0.0909090909f;
    sum = sum * square + 0.111111111f;
    sum = sum * square + 0.142857143f;
    sum = sum * square + 0.2f;
    sum = sum * square + 0.333333333f;
    sum = sum * square + 1.0f;
    return 2.0f * s * sum;
}

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
KERNEL_FN Activation activation_softplus(float x) {
    Activation result;
    result.value = (x > 0.0f ? x : 0.0f) + activation_log1p(mingru_exp(-fabsf(x)));
    result.slope = mingru_sigmoid(x).value;
    return result;
}
