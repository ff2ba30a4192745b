// adam.cpp - what an optimizer does with all parameters of a small policy, each in one call: clip their gradients, and
// a step of Adam.
#include <math.h>

#include "cpu_kernels.h"
#include "instruction_sets.h"

extern "C" void puffer_adam_step(const AdamParameter* parameters, int64_t count, const AdamSettings* settings) {
    FlushedDenormals flushed;  // the averages of a gradient that stays 0 shrink through them
    double beta1 = settings->beta1, beta2 = settings->beta2;
    float keep = (float)(1.0 - settings->learning_rate * settings->weight_decay), epsilon = (float)settings->epsilon;
    float share1 = (float)(1.0 - beta1), keep2 = (float)beta2, share2 = (float)(1.0 - beta2);
    for (int64_t i = 0; i < count; i++) {
        const AdamParameter& each = parameters[i];
        double steps = *each.steps += 1.0f;
        float size = (float)(settings->learning_rate / (1.0 - pow(beta1, steps)));
        float root = (float)sqrt(1.0 - pow(beta2, steps));
        INDEPENDENT_LANES
        for (int64_t j = 0; j < each.size; j++) {
            float gradient = each.gradient[j], average = each.average[j];
            // LaTeX: v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2 ; v = each.square, g = gradient, \beta_2 = beta2
            float square = keep2 * each.square[j] + share2 * gradient * gradient;
            // LaTeX: m \leftarrow m + (1 - \beta_1) (g - m) ; m = average, \beta_1 = beta1
            average += share1 * (gradient - average);
            each.average[j] = average;
            each.square[j] = square;
            // LaTeX: \theta \leftarrow (1 - \eta \lambda)\, \theta - \frac{\eta}{1 - \beta_1^t} \cdot
            // LaTeX:   \frac{m}{\sqrt{v} / \sqrt{1 - \beta_2^t} + \epsilon}
            // LaTeX:   ; \theta = each.parameter, \eta = learning_rate, \lambda = weight_decay, t = steps,
            // LaTeX:   \epsilon = epsilon
            each.parameter[j] = keep * each.parameter[j] - size * average / (sqrtf(square) / root + epsilon);
        }
    }
}

extern "C" void puffer_clip_gradients(const AdamParameter* parameters, int64_t count, double limit) {
    enum { LANES = 16 };  // sums that do not wait for each other
    double total = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const float* gradient = parameters[i].gradient;
        double sums[LANES] = {};
        int64_t j = 0, size = parameters[i].size;
        for (; j + LANES <= size; j += LANES) {
            for (int64_t k = 0; k < LANES; k++) sums[k] += (double)gradient[j + k] * gradient[j + k];
        }
        for (; j < size; j++) sums[0] += (double)gradient[j] * gradient[j];
        for (int64_t k = 0; k < LANES; k++) total += sums[k];
    }
    // LaTeX: s = \frac{c}{\sqrt{\sum_i g_i^2} + 10^{-6}} ; s = scale, c = limit
    double scale = limit / (sqrt(total) + 1e-6);
    if (scale >= 1.0) return;
    for (int64_t i = 0; i < count; i++) {
        INDEPENDENT_LANES
        // LaTeX: g \leftarrow g \min(1, s) ; g = parameters[i].gradient
        for (int64_t j = 0; j < parameters[i].size; j++) parameters[i].gradient[j] *= (float)scale;
    }
}
