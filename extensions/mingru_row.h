// mingru_row.h - one step of one lane of the MinGRU recurrence and of its gradient, the same for C++ and CUDA.
//
//     z = sigmoid(gate)    s = sigmoid(highway)    f = candidate >= 0 ? candidate + 0.5 : sigmoid(candidate)
//     state_t = state_{t-1} + z * (f - state_{t-1})          output_t = x + s * (state_t - x)
//
// "Were RNNs All We Needed?" (Feng et al. 2024, arXiv:2410.01201) with a highway around the layer. The functions have
// no branch and no call in them, so that a loop over lanes becomes vector instructions.
#pragma once

#include "kernel.h"

#if defined(__CUDACC__)
KERNEL_FN float mingru_exp(float x) { return expf(x); }
#else
#include <string.h>

// e^x for x <= 0, to a relative error of 2e-7; below -87 it stays at e^-87, 1.6e-38; NaN gives NaN.
//
// x = n ln 2 + r with n an integer and |r| <= ln(2) / 2. Adding 1.5 * 2^23 leaves n in the low bits of the sum, from
// where it goes straight into the exponent of 2^n. ln 2 has two parts, the first short enough that n times it is exact.
// e^r = 1 + r + r^2 q(r), where q is fitted for the least relative error, 3e-9.
KERNEL_FN float mingru_exp(float x) {
    const float shifter = 12582912.0f;
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504f + shifter;
    float n = shifted - shifter;
    float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    float q = 0.00138145401f;
    q = q * r + 0.00836874520f;
    q = q * r + 0.0416683908f;
    q = q * r + 0.166665204f;
    q = q * r + 0.499999934f;
    float result = q * (r * r) + (r + 1.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 127u) << 23;  // the bits of the shifter itself fall out
    float power;
    memcpy(&power, &bits, sizeof(power));
    return result * power;
}
#endif

#if !defined(__CUDACC__)
// All bits where the state before the row counts, none where it was reset; `reset` may be NULL.
KERNEL_FN uint32_t mingru_kept(const uint8_t* reset, int64_t row) {
    return reset != nullptr && reset[row] != 0 ? 0u : ~0u;
}

// The value, or 0 whatever it was; by its bits and not by a multiplication, which would let NaN through.
KERNEL_FN float mingru_keep(float value, uint32_t bits) {
    uint32_t kept;
    memcpy(&kept, &value, sizeof(kept));
    kept &= bits;
    memcpy(&value, &kept, sizeof(value));
    return value;
}
#endif

typedef struct {
    float value, complement;  // complement = 1 - value, without the cancellation
} MingruSigmoid;

// 1 / x for x between 1 and 2. A GPU's exact division is ten instructions and a branch; this one is off by 2 units in
// the last place at most.
KERNEL_FN float mingru_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
    return __fdividef(1.0f, x);
#else
    return 1.0f / x;
#endif
}

KERNEL_FN MingruSigmoid mingru_sigmoid(float x) {
    float small = mingru_exp(x < 0.0f ? x : -x);
    float large = mingru_reciprocal(1.0f + small);
    small *= large;
    MingruSigmoid sigmoid;
    sigmoid.value = x < 0.0f ? small : large;
    sigmoid.complement = x < 0.0f ? large : small;
    return sigmoid;
}

typedef struct {
    float value, slope;
} MingruCandidate;

KERNEL_FN MingruCandidate mingru_candidate(float x) {
    MingruSigmoid sigmoid = mingru_sigmoid(x);
    MingruCandidate candidate;
    candidate.value = x >= 0.0f ? x + 0.5f : sigmoid.value;
    candidate.slope = x >= 0.0f ? 1.0f : sigmoid.value * sigmoid.complement;
    return candidate;
}

KERNEL_FN float mingru_state(float candidate, float gate, float previous) {
    return previous + mingru_sigmoid(gate).value * (mingru_candidate(candidate).value - previous);
}

KERNEL_FN float mingru_output(float highway, float state, float x) {
    return x + mingru_sigmoid(highway).value * (state - x);
}

typedef struct {
    float candidate, gate, highway, x, previous;
} MingruGradient;

// The gradients of one step, from those of its output and of the state it leaves to the next step, and from the
// activations of its gates.
KERNEL_FN MingruGradient mingru_chain(MingruCandidate f, MingruSigmoid z, MingruSigmoid s, float x, float previous,
                                      float state, float grad_output, float grad_state) {
    grad_state += s.value * grad_output;
    MingruGradient gradient;
    gradient.candidate = grad_state * z.value * f.slope;
    gradient.gate = grad_state * (f.value - previous) * (z.value * z.complement);
    gradient.highway = grad_output * (state - x) * (s.value * s.complement);
    gradient.x = grad_output * s.complement;
    gradient.previous = grad_state * z.complement;
    return gradient;
}

KERNEL_FN MingruGradient mingru_gradient(float candidate, float gate, float highway, float x, float previous,
                                         float state, float grad_output, float grad_state) {
    return mingru_chain(mingru_candidate(candidate), mingru_sigmoid(gate), mingru_sigmoid(highway), x, previous, state,
                        grad_output, grad_state);
}
