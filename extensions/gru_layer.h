// gru_layer.h - a GRU layer on a block of sequences, forward and backward, as torch.nn.GRUCell has it.
//
//     r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)    n = tanh(x_n + r h_n)    h_t = n + z (h_{t-1} - n)
//
// x_* are a product of the input and h_* one of the hidden state, with a bias each (Cho et al. 2014). Rows lie step by
// step, as those of lstm_layer.h and for the same reason.
#pragma once

#include "lstm_layer.h"

// sizes: numbers of the input, and units. parameters: the weights of the input [3 * units, inputs] and of the hidden
// state [3 * units, units], and a bias of each [3 * units]. One state.
struct GruOp : LayerOp {
    int64_t inputs, units, row, width;
    PackedWeights input_weights, weights;
    float *input_bias, *bias;
    float *grad_input_weights, *grad_weights, *grad_input_bias, *grad_bias;
    float* gates;     // [count, 3 * width]: x_*, then r, z and n, then the gradients in x_*
    float* products;  // [count, 3 * width]: h_*, of which h_n stays, then the gradients in h_*
    float* previous;  // [count, width], the hidden states before the steps
    float* carry;     // [sequences, width], the gradient on its way from step to step

    KERNEL_METHOD explicit GruOp(const Layer& description)
        : LayerOp(description),
          inputs(layer.sizes[0]),
          units(layer.sizes[1]),
          row(layer.input_rows[0]),
          width(layer.row) {}

    KERNEL_METHOD void take_packed(LayerMemory& memory) {
        input_weights = packed_take(inputs, wants_gradient(0) ? row : 0, 3 * width, 3 * width, is_rounded(), memory);
        weights = packed_take(width, width, 3 * width, 3 * width, is_rounded(), memory);
        input_bias = memory.take(3 * width);
        bias = memory.take(3 * width);
    }

    KERNEL_METHOD void take_gradients(LayerMemory& memory) {
        grad_input_weights = memory.take(3 * width * row);
        grad_weights = memory.take(3 * width * width);
        grad_input_bias = memory.take(3 * width);
        grad_bias = memory.take(3 * width);
    }

    KERNEL_METHOD void take_scratch(const LayerRows& rows, LayerMemory& memory) {
        gates = memory.take(rows.count * 3 * width);
        products = memory.take(rows.count * 3 * width);
        previous = memory.take(rows.count * width);
        carry = memory.take(rows.sequences * width);
    }

    KERNEL_METHOD void pack(const PackShare&) const {
        pack_groups(input_weights, layer.parameters[0], 3, units, inputs);
        pack_groups(weights, layer.parameters[1], 3, units, units);
        memset(input_bias, 0, 3 * width * sizeof(float));
        memset(bias, 0, 3 * width * sizeof(float));
        pack_bias(input_bias, layer.parameters[2], 3, units);
        pack_bias(bias, layer.parameters[3], 3, units);
    }

    KERNEL_METHOD LinearForward product_of(const float* input, int64_t input_row, const PackedWeights& factors,
                                           const float* added, float* output) const {
        return {input, input_row, factors.forward.memory, added, output, nullptr};
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        int64_t count = rows.sequences, columns = 3 * width, group = lstm_group(count);
        for (int64_t step = 0; step < rows.steps; step++) {
            int64_t first = step * count;
            if (step % group == 0) {
                int64_t steps = matmul_part(rows.steps - step, group);
                LinearForward product =
                    product_of(rows.inputs[0] + first * row, row, input_weights, input_bias, gates + first * columns);
                linear_forward<Set>(product, ACTIVATION_LINEAR, steps * count, inputs, columns);
            }
            const float* source = step == 0 ? rows.states[0] : rows.output + (first - count) * width;
            memcpy(previous + first * width, source, count * width * sizeof(float));
            for (int64_t i = 0; i < count && rows.reset != nullptr; i++) {
                if (rows.reset[first + i]) memset(previous + (first + i) * width, 0, width * sizeof(float));
            }
            LinearForward product =
                product_of(previous + first * width, width, weights, bias, products + first * columns);
            linear_forward<Set>(product, ACTIVATION_LINEAR, count, width, columns);
            for (int64_t i = first; i < first + count; i++) forward_row(rows, i);
        }
        if (rows.reset == nullptr) memcpy(rows.states[0], rows.output, rows.count * width * sizeof(float));
    }

    KERNEL_METHOD void forward_row(const LayerRows& rows, int64_t index) const {
        float *reset = gates + index * 3 * width, *update = reset + width, *candidate = update + width;
        const float *of_hidden = products + index * 3 * width, *before = previous + index * width;
        float* hidden = rows.output + index * width;
        INDEPENDENT_LANES
        for (int64_t lane = 0; lane < width; lane++) {
            float r = mingru_sigmoid(reset[lane] + of_hidden[lane]).value;
            float z = mingru_sigmoid(update[lane] + of_hidden[width + lane]).value;
            float n = activation_tanh(candidate[lane] + r * of_hidden[2 * width + lane]).value;
            reset[lane] = r;
            update[lane] = z;
            candidate[lane] = n;
            hidden[lane] = n + z * (before[lane] - n);
        }
    }

    // The gradients in x_* and h_* of a row, and in the carry that in the hidden state but for the product's.
    KERNEL_METHOD void backward_row(const LayerRows& rows, int64_t index, float* grad_before) const {
        float *reset = gates + index * 3 * width, *update = reset + width, *candidate = update + width;
        float *of_hidden = products + index * 3 * width, *grad_output = rows.grad_output + index * width;
        const float* before = previous + index * width;
        INDEPENDENT_LANES
        for (int64_t lane = 0; lane < width; lane++) {
            float r = reset[lane], z = update[lane], n = candidate[lane];
            float gradient = grad_output[lane] + grad_before[lane];
            float grad_n = gradient * (1.0f - z) * (1.0f - n * n);
            float grad_r = grad_n * of_hidden[2 * width + lane] * (r * (1.0f - r));
            float grad_z = gradient * (before[lane] - n) * (z * (1.0f - z));
            reset[lane] = of_hidden[lane] = grad_r;
            update[lane] = of_hidden[width + lane] = grad_z;
            candidate[lane] = grad_n;
            of_hidden[2 * width + lane] = grad_n * r;
            grad_before[lane] = gradient * z;
        }
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        int64_t count = rows.sequences, columns = 3 * width;
        memset(carry, 0, count * width * sizeof(float));
        for (int64_t step = rows.steps - 1; step >= 0; step--) {
            int64_t first = step * count;
            for (int64_t i = 0; i < count; i++) backward_row(rows, first + i, carry + i * width);
            const float* gradient = products + first * columns;
            matmul_packed<Set, true>(
                {gradient, columns, 1, weights.backward.memory, width, carry, width, count, width, columns});
            for (int64_t i = 0; i < count; i++) {
                if (rows.reset[first + i]) memset(carry + i * width, 0, width * sizeof(float));
            }
        }
        backward_product<Set>(rows.inputs[0], row, input_weights, gates, rows.grad_inputs[0], grad_input_weights,
                              grad_input_bias, rows.count);
        backward_product<Set>(previous, width, weights, products, nullptr, grad_weights, grad_bias, rows.count);
    }

    template <class Set>
    KERNEL_METHOD void backward_product(const float* input, int64_t input_row, const PackedWeights& factors,
                                        const float* gradient, float* grad_input, float* grad_factors,
                                        float* grad_added, int64_t count) const {
        LinearBackward product = {input,        input_row,  factors.backward.memory,
                                  gradient,     3 * width,  grad_input,
                                  grad_factors, grad_added, false};
        linear_backward<Set>(product, count, 3 * width);
    }

    KERNEL_METHOD void write_gradients() const {
        copy_groups(grad_input_weights, 3, units, inputs, row, layer.results[0]);
        copy_groups(grad_weights, 3, units, units, width, layer.results[1]);
        copy_groups(grad_input_bias, 3, units, 1, 1, layer.results[2]);
        copy_groups(grad_bias, 3, units, 1, 1, layer.results[3]);
    }
};
