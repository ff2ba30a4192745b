// linear_layer.h - a linear layer and its activation on a block of rows, forward and backward.
//
// Rows of inputs and outputs lie `input_row` and `width` floats apart; width, and columns of inputs where gradients of
// the weights are asked for, are multiples of MATMUL_LANES, padded with zeros.
#pragma once

#include "activation_row.h"
#include "cpu_kernels.h"
#include "matmul.h"

// All pointers are borrowed.
typedef struct {
    const float* input;  // [rows, inputs]
    int64_t input_row;
    const float* transposed;  // [inputs, width], the weights, packed
    const float* bias;        // [width]
    float* output;            // [rows, width]
    float* slopes;            // [rows, width], of the activation; not touched where that is linear
} LinearLayer;

KERNEL_FN Activation activation_of(int64_t kind, float x) {
    if (kind == ACTIVATION_RELU) return activation_relu(x);
    if (kind == ACTIVATION_TANH) return activation_tanh(x);
    if (kind == ACTIVATION_GELU) return activation_gelu(x);
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

KERNEL_FN void linear_begin(const LinearLayer& layer, int64_t rows, int64_t width) {
    for (int64_t row = 0; row < rows; row++) memcpy(layer.output + row * width, layer.bias, width * sizeof(float));
}

KERNEL_FN void linear_activate(const LinearLayer& layer, int64_t kind, int64_t count) {
    if (kind == ACTIVATION_RELU) activate<ACTIVATION_RELU>(layer.output, layer.slopes, count);
    if (kind == ACTIVATION_TANH) activate<ACTIVATION_TANH>(layer.output, layer.slopes, count);
    if (kind == ACTIVATION_GELU) activate<ACTIVATION_GELU>(layer.output, layer.slopes, count);
}

template <class Set>
KERNEL_FN void linear_forward(const LinearLayer& layer, int64_t kind, int64_t rows, int64_t inputs, int64_t width) {
    linear_begin(layer, rows, width);
    matmul_packed<Set, true>(
        {layer.input, layer.input_row, 1, layer.transposed, width, layer.output, width, rows, width, inputs});
    linear_activate(layer, kind, rows * width);
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
} LinearGradient;

KERNEL_FN void linear_backward_bias(const LinearGradient& layer, int64_t rows, int64_t outputs) {
    for (int64_t row = 0; row < rows; row++) {
        INDEPENDENT_LANES
        for (int64_t i = 0; i < outputs; i++) layer.grad_bias[i] += layer.grad_output[row * layer.grad_row + i];
    }
}

template <class Set>
KERNEL_FN void linear_backward(const LinearGradient& layer, int64_t rows, int64_t outputs) {
    const float* gradient = layer.grad_output;
    int64_t inputs = layer.input_row, stride = layer.grad_row;
    linear_backward_bias(layer, rows, outputs);
    matmul<Set, true>({gradient, 1, stride, layer.input, inputs, layer.grad_weights, inputs, outputs, inputs, rows});
    if (layer.grad_input == nullptr) return;
    matmul_packed<Set, false>(
        {gradient, stride, 1, layer.weights, inputs, layer.grad_input, inputs, rows, inputs, outputs});
}
