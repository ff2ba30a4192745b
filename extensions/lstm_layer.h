// lstm_layer.h - an LSTM layer on a block of sequences, forward and backward.
//
// Rows lie step by step, those of all sequences side by side, so that a step multiplies the hidden states of all of
// them by weights that stay in the cache. Only this product and its gradient wait for the step before; those of the
// input and of the weights are taken for LSTM_ROWS rows at a time, while their gates are in the cache as well.
#pragma once

#include "linear_layer.h"
#include "lstm_row.h"

enum { LSTM_ROWS = 128 };  // or one step, where it has more

// All pointers are borrowed. Width is a multiple of MATMUL_LANES.
typedef struct {
    const float* input;  // [rows, input_row], of which `inputs` numbers count
    int64_t inputs, input_row;
    const float* input_transposed;                 // [inputs, 4 * width], packed, as is the next one
    const float* transposed;                       // [width, 4 * width], for hidden states
    const float* bias;                             // [4 * width], of both
    const uint8_t* reset;                          // [rows], nonzero where the states count as 0 before the step
    const float *initial_hidden, *initial_memory;  // [sequences, width]
    float* previous;         // [rows, width], becomes the hidden states before the steps; NULL is one step without
                             // resets, whose states may be written where they were read
    float* gates;            // [rows, 4 * width], becomes those of lstm_row.h, in the order of its struct
    float *memory, *hidden;  // [rows, width], after the steps
} LstmForward;

KERNEL_FN int64_t lstm_group(int64_t sequences) { return sequences < LSTM_ROWS ? LSTM_ROWS / sequences : 1; }

KERNEL_FN void lstm_forward_row(const LstmForward& layer, int64_t row, const float* previous, int64_t width) {
    float *input = layer.gates + row * 4 * width, *forget = input + width, *candidate = forget + width;
    float *output = candidate + width, *memory = layer.memory + row * width, *hidden = layer.hidden + row * width;
    uint32_t kept = mingru_kept(layer.reset, row);
    INDEPENDENT_LANES
    for (int64_t lane = 0; lane < width; lane++) {
        LstmGates gates = lstm_activate({input[lane], forget[lane], candidate[lane], output[lane]});
        float after = lstm_memory(gates, mingru_keep(previous[lane], kept));
        input[lane] = gates.input;
        forget[lane] = gates.forget;
        candidate[lane] = gates.candidate;
        output[lane] = gates.output;
        memory[lane] = after;
        hidden[lane] = lstm_hidden(gates, after);
    }
}

// The hidden states of all sequences before a step.
KERNEL_FN const float* lstm_previous_hidden(const LstmForward& layer, int64_t step, int64_t sequences, int64_t width) {
    int64_t first = step * sequences;
    const float* source = step == 0 ? layer.initial_hidden : layer.hidden + (first - sequences) * width;
    if (layer.previous == nullptr) return source;
    float* previous = layer.previous + first * width;
    memcpy(previous, source, sequences * width * sizeof(float));
    for (int64_t i = 0; i < sequences; i++) {
        if (layer.reset[first + i]) memset(previous + i * width, 0, width * sizeof(float));
    }
    return previous;
}

template <class Set>
KERNEL_FN void lstm_forward_step(const LstmForward& layer, int64_t step, int64_t sequences, int64_t width) {
    int64_t first = step * sequences, columns = 4 * width;
    const float* hidden = lstm_previous_hidden(layer, step, sequences, width);
    float* gates = layer.gates + first * columns;
    matmul_packed<Set, true>({hidden, width, 1, layer.transposed, columns, gates, columns, sequences, columns, width});
    const float* memory = step == 0 ? layer.initial_memory : layer.memory + (first - sequences) * width;
    for (int64_t i = 0; i < sequences; i++) lstm_forward_row(layer, first + i, memory + i * width, width);
}

template <class Set>
KERNEL_FN void lstm_forward(const LstmForward& layer, int64_t sequences, int64_t steps, int64_t width) {
    int64_t group = lstm_group(sequences), columns = 4 * width;
    for (int64_t first = 0; first < steps; first += group) {
        int64_t end = first + group < steps ? first + group : steps, row = first * sequences;
        LinearForward product = {};
        product.input = layer.input + row * layer.input_row;
        product.input_row = layer.input_row;
        product.transposed = layer.input_transposed;
        product.bias = layer.bias;
        product.output = layer.gates + row * columns;
        linear_forward<Set>(product, ACTIVATION_LINEAR, (end - first) * sequences, layer.inputs, columns);
        for (int64_t step = first; step < end; step++) lstm_forward_step<Set>(layer, step, sequences, width);
    }
}

typedef struct {
    const float *input, *input_weights;  // [rows, input_row]; [4 * width, input_row], packed
    int64_t input_row;
    const float* weights;  // [4 * width, width], packed
    const uint8_t* reset;
    const float *initial_memory, *previous, *memory;  // as lstm_forward left them
    float* gates;                                     // likewise, becomes the gradient in what was activated
    const float* grad_output;                         // [rows, width]
    float* grad_input;                                // [rows, input_row], or NULL when it is not wanted
    float *grad_hidden, *grad_memory;                 // [sequences, width], scratch: on their way from step to step
    float *grad_input_weights, *grad_weights;         // [4 * width, input_row] and [4 * width, width], added to
    float* grad_bias;                                 // [4 * width], added to
} LstmBackward;

KERNEL_FN void lstm_backward_row(const LstmBackward& layer, int64_t row, int64_t sequence, const float* previous,
                                 int64_t width) {
    float *input = layer.gates + row * 4 * width, *forget = input + width, *candidate = forget + width;
    float *output = candidate + width, *carry = layer.grad_memory + sequence * width;
    const float *memory = layer.memory + row * width, *grad_output = layer.grad_output + row * width;
    const float* grad_hidden = layer.grad_hidden + sequence * width;
    uint32_t kept = mingru_kept(layer.reset, row);
    INDEPENDENT_LANES
    for (int64_t lane = 0; lane < width; lane++) {
        LstmGates gates = {input[lane], forget[lane], candidate[lane], output[lane]};
        LstmGradient gradient = lstm_gradient(gates, mingru_keep(previous[lane], kept), memory[lane],
                                              grad_output[lane] + grad_hidden[lane], carry[lane]);
        input[lane] = gradient.sums.input;
        forget[lane] = gradient.sums.forget;
        candidate[lane] = gradient.sums.candidate;
        output[lane] = gradient.sums.output;
        carry[lane] = mingru_keep(gradient.previous, kept);
    }
}

template <class Set>
KERNEL_FN void lstm_backward_step(const LstmBackward& layer, int64_t step, int64_t sequences, int64_t width) {
    int64_t first = step * sequences, columns = 4 * width;
    const float* memory = step == 0 ? layer.initial_memory : layer.memory + (first - sequences) * width;
    for (int64_t i = 0; i < sequences; i++) lstm_backward_row(layer, first + i, i, memory + i * width, width);
    if (step == 0) return;
    const float* gates = layer.gates + first * columns;
    matmul_packed<Set, false>(
        {gates, columns, 1, layer.weights, width, layer.grad_hidden, width, sequences, width, columns});
    for (int64_t i = 0; i < sequences; i++) {
        if (layer.reset[first + i]) memset(layer.grad_hidden + i * width, 0, width * sizeof(float));
    }
}

template <class Set>
KERNEL_FN void lstm_backward(const LstmBackward& layer, int64_t sequences, int64_t steps, int64_t width) {
    int64_t group = lstm_group(sequences), columns = 4 * width;
    memset(layer.grad_hidden, 0, sequences * width * sizeof(float));
    memset(layer.grad_memory, 0, sequences * width * sizeof(float));
    for (int64_t end = steps; end > 0; end -= group) {
        int64_t first = end > group ? end - group : 0, row = first * sequences, rows = (end - first) * sequences;
        for (int64_t step = end - 1; step >= first; step--) lstm_backward_step<Set>(layer, step, sequences, width);
        LinearBackward product = {};
        product.input = layer.input + row * layer.input_row;
        product.input_row = layer.input_row;
        product.weights = layer.input_weights;
        product.grad_output = layer.gates + row * columns;
        product.grad_row = columns;
        product.grad_input = layer.grad_input == nullptr ? nullptr : layer.grad_input + row * layer.input_row;
        product.grad_weights = layer.grad_input_weights;
        product.grad_bias = layer.grad_bias;
        linear_backward<Set>(product, rows, columns);
        const float* previous = layer.previous + row * width;
        matmul<Set, true>(
            {product.grad_output, 1, columns, previous, width, layer.grad_weights, width, columns, width, rows});
    }
}

// sizes: numbers of the input, and units. parameters: the weights of the input [4 * units, inputs] and of the hidden
// state [4 * units, units], and a bias of each [4 * units], as torch.nn.LSTMCell has them. Two states: hidden, memory.
struct LstmOp : LayerOp {
    int64_t inputs, units, row, width;
    PackedWeights input_weights, weights;
    float* bias;  // the sum of both: gates are sums of two products
    float *grad_input_weights, *grad_weights, *grad_bias;
    float *gates, *memory, *previous, *grad_hidden, *grad_memory;

    KERNEL_METHOD explicit LstmOp(const Layer& description)
        : LayerOp(description),
          inputs(layer.sizes[0]),
          units(layer.sizes[1]),
          row(layer.input_rows[0]),
          width(layer.row) {}

    KERNEL_METHOD void take_packed(LayerMemory& pieces) {
        input_weights = packed_take(inputs, wants_gradient(0) ? row : 0, 4 * width, 4 * width, is_rounded(), pieces);
        weights = packed_take(width, width, 4 * width, 4 * width, is_rounded(), pieces);
        bias = pieces.take(4 * width);
    }

    KERNEL_METHOD void take_gradients(LayerMemory& pieces) {
        grad_input_weights = pieces.take(4 * width * row);
        grad_weights = pieces.take(4 * width * width);
        grad_bias = pieces.take(4 * width);
    }

    KERNEL_METHOD void take_scratch(const LayerRows& rows, LayerMemory& pieces) {
        gates = pieces.take(rows.count * 4 * width);
        memory = pieces.take(rows.count * width);
        previous = pieces.take(rows.count * width);
        grad_hidden = pieces.take(rows.sequences * width);
        grad_memory = pieces.take(rows.sequences * width);
    }

    KERNEL_METHOD void pack(const PackShare&) const {
        pack_groups(input_weights, layer.parameters[0], 4, units, inputs);
        pack_groups(weights, layer.parameters[1], 4, units, units);
        memset(bias, 0, 4 * width * sizeof(float));
        pack_bias(bias, layer.parameters[2], 4, units);
        pack_bias(bias, layer.parameters[3], 4, units);
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        bool is_step = rows.reset == nullptr;
        LstmForward call = {};
        call.input = rows.inputs[0];
        call.inputs = inputs;
        call.input_row = row;
        call.input_transposed = input_weights.forward.memory;
        call.transposed = weights.forward.memory;
        call.bias = bias;
        call.reset = rows.reset;
        call.initial_hidden = rows.states[0];
        call.initial_memory = rows.states[1];
        call.previous = is_step ? nullptr : previous;
        call.gates = gates;
        call.memory = is_step ? rows.states[1] : memory;
        call.hidden = rows.output;
        lstm_forward<Set>(call, rows.sequences, rows.steps, width);
        if (is_step) memcpy(rows.states[0], rows.output, rows.count * width * sizeof(float));
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        LstmBackward call = {};
        call.input = rows.inputs[0];
        call.input_row = row;
        call.input_weights = input_weights.backward.memory;
        call.weights = weights.backward.memory;
        call.reset = rows.reset;
        call.initial_memory = rows.states[1];
        call.previous = previous;
        call.memory = memory;
        call.gates = gates;
        call.grad_output = rows.grad_output;
        call.grad_input = rows.grad_inputs[0];
        call.grad_hidden = grad_hidden;
        call.grad_memory = grad_memory;
        call.grad_input_weights = grad_input_weights;
        call.grad_weights = grad_weights;
        call.grad_bias = grad_bias;
        lstm_backward<Set>(call, rows.sequences, rows.steps, width);
    }

    KERNEL_METHOD void write_gradients() const {
        copy_groups(grad_input_weights, 4, units, inputs, row, layer.results[0]);
        copy_groups(grad_weights, 4, units, units, width, layer.results[1]);
        copy_groups(grad_bias, 4, units, 1, 1, layer.results[2]);
        copy_groups(grad_bias, 4, units, 1, 1, layer.results[3]);
    }
};
