// elementwise_layer.h - activations, sums, products and comparisons of numbers, parts and rows side by side.
//
// Values of images are rows of pixels, each padded; whatever is done to numbers is done to the padding as well, but for
// parts and rows side by side, which see the numbers of a pixel.
#pragma once

#include "linear_layer.h"

// sizes: the activation.
struct ActivationOp : LayerOp {
    float* slopes;

    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit ActivationOp(const Layer& description) : LayerOp(description) {}

    KERNEL_METHOD void take_scratch(const LayerRows& rows, LayerMemory& memory) {
        slopes = memory.take(rows.count * layer.row);
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        memcpy(rows.output, rows.inputs[0], rows.count * layer.row * sizeof(float));
        activate_of(Set{}, layer.sizes[0], rows.output, slopes, rows.count * layer.row);
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        float* gradient = rows.grad_inputs[0];
        INDEPENDENT_LANES
        for (int64_t i = 0; i < rows.count * layer.row; i++) gradient[i] = rows.grad_output[i] * slopes[i];
    }
};

// The sum of its inputs.
struct AddOp : LayerOp {
    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit AddOp(const Layer& description) : LayerOp(description) {}

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        int64_t count = rows.count * layer.row;
        memcpy(rows.output, rows.inputs[0], count * sizeof(float));
        for (int64_t input = 1; input < layer.num_inputs; input++) {
            const float* added = rows.inputs[input];
            INDEPENDENT_LANES
            for (int64_t i = 0; i < count; i++) rows.output[i] += added[i];
        }
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        for (int64_t input = 0; input < layer.num_inputs; input++) {
            if (!wants_gradient(input)) continue;
            memcpy(rows.grad_inputs[input], rows.grad_output, rows.count * layer.row * sizeof(float));
        }
    }
};

// The product of two inputs.
struct MultiplyOp : LayerOp {
    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit MultiplyOp(const Layer& description) : LayerOp(description) {}

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        const float *left = rows.inputs[0], *right = rows.inputs[1];
        INDEPENDENT_LANES
        for (int64_t i = 0; i < rows.count * layer.row; i++) rows.output[i] = left[i] * right[i];
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        for (int64_t input = 0; input < 2; input++) {
            if (!wants_gradient(input)) continue;
            const float* other = rows.inputs[1 - input];
            float* gradient = rows.grad_inputs[input];
            INDEPENDENT_LANES
            for (int64_t i = 0; i < rows.count * layer.row; i++) gradient[i] = rows.grad_output[i] * other[i];
        }
    }
};

// Its input times the first of `numbers`, plus the second.
struct AffineOp : LayerOp {
    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit AffineOp(const Layer& description) : LayerOp(description) {}

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        float scale = (float)layer.numbers[0], shift = (float)layer.numbers[1];
        const float* input = rows.inputs[0];
        INDEPENDENT_LANES
        for (int64_t i = 0; i < rows.count * layer.row; i++) rows.output[i] = input[i] * scale + shift;
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        float scale = (float)layer.numbers[0], *gradient = rows.grad_inputs[0];
        INDEPENDENT_LANES
        for (int64_t i = 0; i < rows.count * layer.row; i++) gradient[i] = rows.grad_output[i] * scale;
    }
};

// Parts of the numbers of every pixel of the inputs, side by side. sizes: pixels; then of each input the first number
// and the count.
struct ConcatenateOp : LayerOp {
    int64_t pixels, width;

    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit ConcatenateOp(const Layer& description)
        : LayerOp(description), pixels(layer.sizes[0]), width(layer.row / layer.sizes[0]) {}

    KERNEL_METHOD int64_t first(int64_t input) const { return layer.sizes[1 + 2 * input]; }

    KERNEL_METHOD int64_t count(int64_t input) const { return layer.sizes[2 + 2 * input]; }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        for (int64_t pixel = 0; pixel < rows.count * pixels; pixel++) {
            float *target = rows.output + pixel * width, *end = target + width;
            for (int64_t input = 0; input < layer.num_inputs; input++) {
                int64_t row = layer.input_rows[input] / pixels;
                memcpy(target, rows.inputs[input] + pixel * row + first(input), count(input) * sizeof(float));
                target += count(input);
            }
            for (; target < end; target++) *target = 0.0f;
        }
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        int64_t place = 0;
        for (int64_t input = 0; input < layer.num_inputs; place += count(input), input++) {
            if (!wants_gradient(input)) continue;
            int64_t row = layer.input_rows[input] / pixels;
            float* gradient = rows.grad_inputs[input];
            memset(gradient, 0, rows.count * layer.input_rows[input] * sizeof(float));
            for (int64_t pixel = 0; pixel < rows.count * pixels; pixel++) {
                const float* source = rows.grad_output + pixel * width + place;
                memcpy(gradient + pixel * row + first(input), source, count(input) * sizeof(float));
            }
        }
    }
};

// Every number of a pixel times a weight of its own or divided by it, plus a bias of its own or minus it; one number
// may stand for all. sizes: numbers of a pixel, pixels, numbers of the weight and of the bias. numbers: 1, or -1 for
// division, and the sign of the bias. parameters: the weight and the bias, or NULL.
struct ScaleOp : LayerOp {
    int64_t units, pixels, width;
    float *weight, *bias, *grad_weight, *grad_bias;  // [width]

    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit ScaleOp(const Layer& description)
        : LayerOp(description), units(layer.sizes[0]), pixels(layer.sizes[1]), width(layer.row / layer.sizes[1]) {}

    KERNEL_METHOD bool divides() const { return layer.numbers[0] < 0.0; }

    KERNEL_METHOD void take_packed(LayerMemory& memory) {
        weight = memory.take(width);
        bias = memory.take(width);
    }

    KERNEL_METHOD void take_gradients(LayerMemory& memory) {
        grad_weight = memory.take(width);
        grad_bias = memory.take(width);
    }

    KERNEL_METHOD float parameter(int64_t place, int64_t unit, float missing) const {
        const float* numbers = layer.parameters[place];
        return numbers == nullptr ? missing : numbers[layer.sizes[2 + place] == 1 ? 0 : unit];
    }

    KERNEL_METHOD void pack(const PackShare&) const {
        for (int64_t i = 0; i < width; i++) {
            float factor = i < units ? parameter(0, i, 1.0f) : 1.0f;
            weight[i] = divides() ? 1.0f / factor : factor;
            bias[i] = i < units ? (float)layer.numbers[1] * parameter(1, i, 0.0f) : 0.0f;
        }
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        for (int64_t pixel = 0; pixel < rows.count * pixels; pixel++) {
            const float* x = rows.inputs[0] + pixel * width;
            float* y = rows.output + pixel * width;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < width; i++) y[i] = x[i] * weight[i] + bias[i];
        }
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        for (int64_t pixel = 0; pixel < rows.count * pixels; pixel++) {
            const float *x = rows.inputs[0] + pixel * width, *gradient = rows.grad_output + pixel * width;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < units; i++) {
                grad_weight[i] += gradient[i] * x[i];
                grad_bias[i] += gradient[i];
            }
            if (!wants_gradient(0)) continue;
            float* grad_input = rows.grad_inputs[0] + pixel * width;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < width; i++) grad_input[i] = gradient[i] * weight[i];
        }
    }

    KERNEL_METHOD void write_parameter(int64_t place, const float* gradient) const {
        float* result = layer.results[place];
        if (result == nullptr) return;
        bool is_one = layer.sizes[2 + place] == 1;
        if (is_one) *result = 0.0f;
        for (int64_t i = 0; i < units; i++) {
            float factor = parameter(0, i, 1.0f);
            float slope = place == 1 ? (float)layer.numbers[1] : divides() ? -1.0f / (factor * factor) : 1.0f;
            result[is_one ? 0 : i] = slope * gradient[i] + (is_one ? *result : 0.0f);
        }
    }

    KERNEL_METHOD void write_gradients() const {
        write_parameter(0, grad_weight);
        write_parameter(1, grad_bias);
    }
};

// 1 where a number compares so with another one, else 0; it has no slope. sizes: how. numbers: the other one.
struct CompareOp : LayerOp {
    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit CompareOp(const Layer& description) : LayerOp(description) {}

    KERNEL_METHOD bool holds(float x) const {
        float other = (float)layer.numbers[0];
        if (layer.sizes[0] == COMPARE_GREATER) return x > other;
        if (layer.sizes[0] == COMPARE_GREATER_EQUAL) return x >= other;
        if (layer.sizes[0] == COMPARE_LESS) return x < other;
        if (layer.sizes[0] == COMPARE_LESS_EQUAL) return x <= other;
        return layer.sizes[0] == COMPARE_EQUAL ? x == other : x != other;
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        for (int64_t i = 0; i < rows.count * layer.row; i++) rows.output[i] = holds(rows.inputs[0][i]) ? 1.0f : 0.0f;
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        if (wants_gradient(0)) memset(rows.grad_inputs[0], 0, rows.count * layer.row * sizeof(float));
    }
};
