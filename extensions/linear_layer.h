// linear_layer.h - a linear layer and its activation on a block of rows, forward and backward.
//
// Rows of inputs and outputs lie `input_row` and `width` floats apart; width, and columns of inputs where gradients of
// the weights are asked for, are multiples of MATMUL_LANES, padded with zeros.
#pragma once

#include "activation_row.h"
#include "cpu_kernels.h"
#include "layer.h"
#include "matmul.h"

// All pointers are borrowed.
typedef struct {
    const float* input;  // [rows, inputs]
    int64_t input_row;
    const float* transposed;  // [inputs, width], the weights, packed
    const float* bias;        // [width]
    float* output;            // [rows, width]
    float* slopes;            // [rows, width], of the activation; not touched where that is linear
} LinearForward;

KERNEL_FN Activation activation_of(int64_t kind, float x) {
    if (kind == ACTIVATION_RELU) return activation_relu(x);
    if (kind == ACTIVATION_TANH) return activation_tanh(x);
    if (kind == ACTIVATION_GELU) return activation_gelu(x);
    if (kind == ACTIVATION_GELU_TANH) return activation_gelu_tanh(x);
    if (kind == ACTIVATION_SIGMOID) return activation_sigmoid(x);
    if (kind == ACTIVATION_SILU) return activation_silu(x);
    if (kind == ACTIVATION_ELU) return activation_elu(x);
    if (kind == ACTIVATION_LEAKY_RELU) return activation_leaky_relu(x);
    if (kind == ACTIVATION_SOFTPLUS) return activation_softplus(x);
    return activation_linear(x);
}

template <int64_t KIND>
KERNEL_FN void activate(float* output, float* slopes, int64_t count) {
    INDEPENDENT_LANES
    for (int64_t i = 0; i < count; i++) {
        Activation activation = activation_of(KIND, output[i]);
        output[i] = activation.value;
        slopes[i] = activation.slope;
    }
}

KERNEL_FN void linear_begin(const LinearForward& layer, int64_t rows, int64_t width) {
    for (int64_t row = 0; row < rows; row++) memcpy(layer.output + row * width, layer.bias, width * sizeof(float));
}

// Replaces numbers by their activation, and leaves the slopes; neither where that is linear.
KERNEL_FN void activate_any(int64_t kind, float* output, float* slopes, int64_t count) {
    if (kind == ACTIVATION_RELU) activate<ACTIVATION_RELU>(output, slopes, count);
    if (kind == ACTIVATION_TANH) activate<ACTIVATION_TANH>(output, slopes, count);
    if (kind == ACTIVATION_GELU) activate<ACTIVATION_GELU>(output, slopes, count);
    if (kind == ACTIVATION_GELU_TANH) activate<ACTIVATION_GELU_TANH>(output, slopes, count);
    if (kind == ACTIVATION_SIGMOID) activate<ACTIVATION_SIGMOID>(output, slopes, count);
    if (kind == ACTIVATION_SILU) activate<ACTIVATION_SILU>(output, slopes, count);
    if (kind == ACTIVATION_ELU) activate<ACTIVATION_ELU>(output, slopes, count);
    if (kind == ACTIVATION_LEAKY_RELU) activate<ACTIVATION_LEAKY_RELU>(output, slopes, count);
    if (kind == ACTIVATION_SOFTPLUS) activate<ACTIVATION_SOFTPLUS>(output, slopes, count);
}

#define ACTIVATE_OF_SET(attribute, Set)                                                                   \
    attribute __attribute__((noinline, unused)) static void activate_of(Set, int64_t kind, float* output, \
                                                                        float* slopes, int64_t count) {   \
        activate_any(kind, output, slopes, count);                                                        \
    }
KERNEL_SETS(ACTIVATE_OF_SET)

template <class Set>
KERNEL_FN void linear_forward(const LinearForward& layer, int64_t kind, int64_t rows, int64_t inputs, int64_t width) {
    linear_begin(layer, rows, width);
    matmul_packed<Set, true>(
        {layer.input, layer.input_row, 1, layer.transposed, width, layer.output, width, rows, width, inputs});
    activate_of(Set{}, kind, layer.output, layer.slopes, rows * width);
}

typedef struct {
    const float* input;        // [rows, input_row], the whole row
    int64_t input_row;         // a multiple of MATMUL_LANES
    const float* weights;      // [outputs, input_row], packed; not read without grad_input
    const float* grad_output;  // [rows, grad_row]
    int64_t grad_row;
    float* grad_input;    // [rows, input_row], or NULL when nobody wants it
    float* grad_weights;  // [outputs, input_row], added to
    float* grad_bias;     // [outputs], added to
    bool overwrites;      // whether grad_weights are written instead
} LinearBackward;

KERNEL_FN void linear_backward_bias(const LinearBackward& layer, int64_t rows, int64_t outputs) {
    for (int64_t row = 0; row < rows; row++) {
        INDEPENDENT_LANES
        for (int64_t i = 0; i < outputs; i++) layer.grad_bias[i] += layer.grad_output[row * layer.grad_row + i];
    }
}

template <class Set>
KERNEL_FN void linear_backward_parameters(const LinearBackward& layer, int64_t rows, int64_t outputs) {
    int64_t inputs = layer.input_row, stride = layer.grad_row;
    Matmul product = {layer.grad_output,  1,      stride,  layer.input, inputs,
                      layer.grad_weights, inputs, outputs, inputs,      rows};
    linear_backward_bias(layer, rows, outputs);
    if (layer.overwrites) {
        matmul<Set, false>(product);
    } else {
        matmul<Set, true>(product);
    }
}

template <class Set>
KERNEL_FN void linear_backward_inputs(const LinearBackward& layer, int64_t rows, int64_t outputs) {
    if (layer.grad_input == nullptr) return;
    int64_t inputs = layer.input_row, stride = layer.grad_row;
    matmul_packed<Set, false>(
        {layer.grad_output, stride, 1, layer.weights, inputs, layer.grad_input, inputs, rows, inputs, outputs});
}

template <class Set>
KERNEL_FN void linear_backward(const LinearBackward& layer, int64_t rows, int64_t outputs) {
    linear_backward_parameters<Set>(layer, rows, outputs);
    linear_backward_inputs<Set>(layer, rows, outputs);
}

// sizes: numbers of a pixel of the input, its pixels, outputs, the activation, and how many times it is applied to a
// row: to each of so many entities, which lie one after the other, or once. Pixels of an image lie one after the
// other, and torch has the numbers of all pixels for one channel after the other; what is no image has one pixel.
// parameters: the weights [outputs, inputs] and the bias [outputs].
struct LinearOp : LayerOp {
    static constexpr bool IS_SHARED = true;
    static constexpr bool IS_SPLIT = true;
    int64_t units, pixels, outputs, activation, times;
    int64_t row, width;  // of an input and of an output, padded
    PackedWeights weights;
    float *bias, *grad_weights, *grad_bias;
    float* slopes;  // [count, times, width]

    KERNEL_METHOD explicit LinearOp(const Layer& description)
        : LayerOp(description),
          units(layer.sizes[0]),
          pixels(layer.sizes[1]),
          outputs(layer.sizes[2]),
          activation(layer.sizes[3]),
          times(layer.sizes[4]),
          row(layer.input_rows[0] / times),
          width(layer.row / times) {}

    KERNEL_METHOD int64_t inner() const { return pixels == 1 ? units : row; }

    KERNEL_METHOD void take_packed(LayerMemory& memory) {
        weights = packed_take(inner(), wants_gradient(0) ? row : 0, width, width, is_rounded(), memory);
        bias = memory.take(width);
    }

    KERNEL_METHOD void take_gradients(LayerMemory& memory) {
        grad_weights = memory.take(width * row);
        grad_bias = memory.take(width);
    }

    // Few weights are cleared, which asks for lines that another thread has read in less time.
    KERNEL_METHOD int64_t overwritten() const { return outputs * row < LAYER_LARGE ? 0 : outputs * row; }

    KERNEL_METHOD void take_scratch(const LayerRows& rows, LayerMemory& memory) {
        slopes = memory.take(activation == ACTIVATION_LINEAR ? 0 : rows.count * times * width);
    }

    KERNEL_METHOD void pack(const PackShare& share) const {
        if (pixels == 1) {
            pack_groups(weights, layer.parameters[0], 1, outputs, units, share);
        } else {
            auto place_output = [](int64_t output) { return output; };
            auto place_input = [&](int64_t input) { return input % pixels * matmul_padded(units) + input / pixels; };
            pack_weights(weights, layer.parameters[0], outputs, units * pixels, place_output, place_input, share);
        }
        if (share.index > 0) return;
        memset(bias, 0, width * sizeof(float));
        pack_bias(bias, layer.parameters[1], 1, outputs);
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        LinearForward product = {rows.inputs[0], row, weights.forward.memory, bias, rows.output, slopes};
        linear_forward<Set>(product, activation, rows.count * times, inner(), width);
    }

    KERNEL_METHOD void backward_activation(const LayerRows& rows) const {
        if (activation == ACTIVATION_LINEAR) return;
        INDEPENDENT_LANES
        for (int64_t i = 0; i < rows.count * times * width; i++) rows.grad_output[i] *= slopes[i];
    }

    KERNEL_METHOD LinearBackward product_of(const LayerRows& rows) const {
        LinearBackward product = {};
        product.input = rows.inputs[0];
        product.input_row = row;
        product.weights = weights.backward.memory;
        product.grad_output = rows.grad_output;
        product.grad_row = width;
        product.grad_input = rows.grad_inputs[0];
        product.grad_weights = grad_weights;
        product.grad_bias = grad_bias;
        product.overwrites = rows.is_first && overwritten() > 0;
        return product;
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        backward_activation(rows);
        linear_backward<Set>(product_of(rows), rows.count * times, outputs);
    }

    template <class Set>
    KERNEL_METHOD void backward_rows(const LayerRows& rows) const {
        backward_activation(rows);
        linear_backward_inputs<Set>(product_of(rows), rows.count * times, outputs);
    }

    template <class Set>
    KERNEL_METHOD void backward_parameters(const LayerRows& rows) const {
        linear_backward_parameters<Set>(product_of(rows), rows.count * times, outputs);
    }

    KERNEL_METHOD void write_gradients() const {
        copy_groups(grad_bias, 1, outputs, 1, 1, layer.results[1]);
        if (pixels == 1) {
            copy_groups(grad_weights, 1, outputs, units, row, layer.results[0]);
            return;
        }
        float* result = layer.results[0];
        for (int64_t output = 0; result != nullptr && output < outputs; output++) {
            for (int64_t unit = 0; unit < units; unit++) {
                for (int64_t pixel = 0; pixel < pixels; pixel++) {
                    *result++ = grad_weights[output * row + pixel * matmul_padded(units) + unit];
                }
            }
        }
    }
};
