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

// ------------------------------------------------------------------------------------------------ logits by choices

// Where a mask allows few of many logits, 30 of the 1,858 of chess, say, a row needs one dot product for each of these.
// A run of rows of which more is allowed is one product of matrices for all logits, as without a mask.
enum { LINEAR_SPARSE = 8 };  // at most one of so many logits is allowed

KERNEL_FN bool linear_is_sparse(const Choices& choices, int64_t row) {
    return choices.from(row).count() * LINEAR_SPARSE <= choices.logits;
}

// The end of the rows from `row` on that are computed in the same way.
KERNEL_FN int64_t linear_run(const Choices& choices, int64_t row, int64_t rows) {
    int64_t end = row + 1;
    while (end < rows && linear_is_sparse(choices, end) == linear_is_sparse(choices, row)) end++;
    return end;
}

// `size` is a multiple of MATMUL_LANES.
template <int COUNT>
KERNEL_FN float linear_dot(const float* left, const float* right, int64_t size) {
    using Vector = typename MatmulVector<COUNT>::type;
    Vector sum = {};
    for (int64_t i = 0; i < size; i += COUNT) sum += *(const Vector*)(left + i) * *(const Vector*)(right + i);
    float lanes[COUNT];
    memcpy(lanes, &sum, sizeof(lanes));
    for (int half = COUNT / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    }
    return lanes[0];
}

// Adds a multiple of a vector.
template <int COUNT>
KERNEL_FN void linear_add(float factor, const float* added, int64_t size, float* sum) {
    using Vector = typename MatmulVector<COUNT>::type;
    for (int64_t i = 0; i < size; i += COUNT) *(Vector*)(sum + i) += factor * *(const Vector*)(added + i);
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

    // Few weights are cleared, which asks for lines that another thread has read in less time, and those of which few
    // have a gradient.
    KERNEL_METHOD int64_t overwritten() const {
        return outputs * row < LAYER_LARGE || layer.by_choices ? 0 : outputs * row;
    }

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

    // Calls `sparse` with each row of few allowed logits, `dense` with the first and the number of rows in each run of
    // others.
    template <class Sparse, class Dense>
    KERNEL_METHOD void visit_choices(const LayerRows& rows, const Sparse& sparse, const Dense& dense) const {
        for (int64_t first = 0, end; first < rows.count; first = end) {
            end = linear_run(rows.choices, first, rows.count);
            if (!linear_is_sparse(rows.choices, first)) {
                dense(first, end - first);
                continue;
            }
            for (int64_t i = first; i < end; i++) sparse(i, rows.choices.from(i));
        }
    }

    template <class Set>
    KERNEL_METHOD void forward_choices(const LayerRows& rows) const {
        auto sparse = [&](int64_t index, const Choices& choices) {
            const float* input = rows.inputs[0] + index * row;
            auto compute = [&](int64_t output, int64_t place) {
                float sum = linear_dot<Set::COUNT>(input, weights.backward.memory + output * row, row);
                rows.output[index * width + place] = bias[output] + sum;
            };
            for (int64_t i = 0; i < choices.count(); i++) compute(choices.places[i], i);
            for (int64_t i = choices.logits; i < outputs; i++) compute(i, i);
        };
        auto dense = [&](int64_t first, int64_t count) {
            const float* input = rows.inputs[0] + first * row;
            float* output = rows.output + first * width;
            linear_forward<Set>({input, row, weights.forward.memory, bias, output, slopes}, activation, count, inner(),
                                width);
            for (int64_t i = 0; i < count; i++) rows.choices.from(first + i).gather(output + i * width);
        };
        visit_choices(rows, sparse, dense);
    }

    template <class Set>
    KERNEL_METHOD void backward_choices(const LayerRows& rows) const {
        auto sparse = [&](int64_t index, const Choices& choices) {
            const float *input = rows.inputs[0] + index * row, *grad_output = rows.grad_output + index * width;
            float* grad_input = rows.grad_inputs[0] + index * row;
            memset(grad_input, 0, row * sizeof(float));
            auto add = [&](int64_t output, float gradient) {
                grad_bias[output] += gradient;
                linear_add<Set::COUNT>(gradient, input, row, grad_weights + output * row);
                linear_add<Set::COUNT>(gradient, weights.backward.memory + output * row, row, grad_input);
            };
            for (int64_t i = 0; i < choices.count(); i++) add(choices.places[i], grad_output[i]);
            for (int64_t i = choices.logits; i < outputs; i++) add(i, grad_output[i]);
        };
        auto dense = [&](int64_t first, int64_t count) {
            LinearBackward product = product_of(rows);
            product.input += first * row;
            product.grad_output += first * width;
            product.grad_input += first * row;
            for (int64_t i = first; i < first + count; i++) rows.choices.from(i).scatter(rows.grad_output + i * width);
            linear_backward<Set>(product, count, outputs);
        };
        visit_choices(rows, sparse, dense);
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        if (rows.choices.places != nullptr) return forward_choices<Set>(rows);
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
        if (rows.choices.places != nullptr) return backward_choices<Set>(rows);
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
