// norm_layer.h - RMSNorm (Zhang and Sennrich 2019) and LayerNorm (Ba et al. 2016) of rows, forward and backward.
//
//     y = (x - m) s w + b    s = 1 / sqrt(mean((x - m)^2) + epsilon)    m = mean(x) for LayerNorm, 0 for RMSNorm
#pragma once

#include "layer.h"

enum { NORM_LANES = 16 };  // sums that do not wait for each other

// The sum of the products of two rows of `count` numbers.
KERNEL_FN float norm_dot(const float* left, const float* right, int64_t count) {
    float sums[NORM_LANES] = {}, total = 0.0f;
    int64_t i = 0;
    for (; i + NORM_LANES <= count; i += NORM_LANES) {
        INDEPENDENT_LANES
        for (int64_t lane = 0; lane < NORM_LANES; lane++) sums[lane] += left[i + lane] * right[i + lane];
    }
    for (; i < count; i++) total += left[i] * right[i];
    for (int64_t lane = 0; lane < NORM_LANES; lane++) total += sums[lane];
    return total;
}

KERNEL_FN float norm_mean(const float* row, int64_t count) {
    float sums[NORM_LANES] = {}, total = 0.0f;
    int64_t i = 0;
    for (; i + NORM_LANES <= count; i += NORM_LANES) {
        INDEPENDENT_LANES
        for (int64_t lane = 0; lane < NORM_LANES; lane++) sums[lane] += row[i + lane];
    }
    for (; i < count; i++) total += row[i];
    for (int64_t lane = 0; lane < NORM_LANES; lane++) total += sums[lane];
    return total / (float)count;
}

// sizes: units, whether the mean is subtracted, and how many entities of a row are normalised apart. numbers: epsilon.
// parameters: the weight [units] and the bias [units], or NULL.
struct NormOp : LayerOp {
    int64_t units, times, width;
    bool is_centered;
    float *weight, *bias, *grad_weight, *grad_bias;
    float *normal, *scales;  // (x - m) s [count, times, width], s [count, times]

    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit NormOp(const Layer& description)
        : LayerOp(description),
          units(layer.sizes[0]),
          times(layer.sizes[2]),
          width(layer.row / times),
          is_centered(layer.sizes[1] != 0) {}

    KERNEL_METHOD void take_packed(LayerMemory& memory) {
        weight = memory.take(width);
        bias = memory.take(width);
    }

    KERNEL_METHOD void take_gradients(LayerMemory& memory) {
        grad_weight = memory.take(width);
        grad_bias = memory.take(width);
    }

    KERNEL_METHOD void take_scratch(const LayerRows& rows, LayerMemory& memory) {
        normal = memory.take(rows.count * times * width);
        scales = memory.take(rows.count * times);
    }

    KERNEL_METHOD void pack(const PackShare&) const {
        memset(weight, 0, width * sizeof(float));
        memset(bias, 0, width * sizeof(float));
        for (int64_t i = 0; i < units; i++) weight[i] = layer.parameters[0] == nullptr ? 1.0f : layer.parameters[0][i];
        pack_bias(bias, layer.parameters[1], 1, units);
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        for (int64_t row = 0; row < rows.count * times; row++) {
            const float* x = rows.inputs[0] + row * width;
            float *y = rows.output + row * width, *centered = normal + row * width;
            float mean = is_centered ? norm_mean(x, units) : 0.0f;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < units; i++) centered[i] = x[i] - mean;
            float square = norm_dot(centered, centered, units) / (float)units;
            float scale = 1.0f / sqrtf(square + (float)layer.numbers[0]);
            scales[row] = scale;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < units; i++) {
                centered[i] *= scale;
                y[i] = centered[i] * weight[i] + bias[i];
            }
            for (int64_t i = units; i < width; i++) y[i] = 0.0f;
        }
    }

    // dx = s (g - mean(g) - n mean(g n)), with g = dy w and the normal n; without mean(g) where nothing is centered.
    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        for (int64_t row = 0; row < rows.count * times; row++) {
            float* gradient = rows.grad_output + row * width;
            const float* n = normal + row * width;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < units; i++) {
                grad_weight[i] += gradient[i] * n[i];
                grad_bias[i] += gradient[i];
                gradient[i] *= weight[i];
            }
            if (!wants_gradient(0)) continue;
            float mean = is_centered ? norm_mean(gradient, units) : 0.0f, scale = scales[row];
            float along = norm_dot(gradient, n, units) / (float)units;
            float* grad_input = rows.grad_inputs[0] + row * width;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < units; i++) grad_input[i] = scale * (gradient[i] - mean - n[i] * along);
            for (int64_t i = units; i < width; i++) grad_input[i] = 0.0f;
        }
    }

    KERNEL_METHOD void write_gradients() const {
        copy_groups(grad_weight, 1, units, 1, 1, layer.results[0]);
        copy_groups(grad_bias, 1, units, 1, 1, layer.results[1]);
    }
};
