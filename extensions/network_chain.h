// network_chain.h - layers one after the other, forward and backward, and the memory they compute in.
//
// Convolutions, where there are any, linear layers, then MinGRU or LSTM layers, then a linear head. Every layer after
// the convolutions has `units`, padded to `width`, a multiple of MATMUL_LANES, by weights of zero; so are the columns
// of observations and outputs. What the units of the padding hold is no one's matter: no other unit looks at them. The
// first layer sees the numbers of an observation, or their categories. A block of rows goes through all layers, forward
// and backward, in scratch memory that stays in a core's cache.
//
// Where products round their factors, those of the first layer and of the head do not: what is seen and what is decided
// keep their digits.
//
// Rows of a block lie sequence by sequence, or step by step where an LSTM asks for it.
#pragma once

#include "chain_memory.h"
#include "linear_layer.h"
#include "lstm_layer.h"
#include "mingru_layer.h"
#include "network_convolutions.h"
#include "one_hot_layer.h"
#include "packed_matrix.h"

KERNEL_FN int64_t chain_encoder_inputs(const Chain& chain, int64_t layer) {
    return layer == 0 ? chain.inputs : chain.width;
}

KERNEL_FN int64_t chain_encoder_row(const Chain& chain, int64_t layer) {
    return layer == 0 ? chain.padded_inputs : chain.width;
}

// Whether a layer of the encoder sees the observation.
KERNEL_FN bool chain_is_first(const Chain& chain, int64_t layer) {
    return layer == 0 && !chain_has_convolutions(chain);
}

KERNEL_FN bool chain_is_one_hot(const Chain& chain, int64_t layer) {
    return chain.cells > 0 && chain_is_first(chain, layer);
}

// An LSTM layer has weights of its input and of its hidden state, each with a bias, and a hidden state and a memory; a
// MinGRU layer has one matrix and one state.
KERNEL_FN bool chain_is_lstm(const Chain& chain) { return chain.recurrence == RECURRENCE_LSTM; }

KERNEL_FN int64_t chain_recurrent_weights(const Chain& chain) {
    return chain.recurrent_layers * (chain_is_lstm(chain) ? 2 : 1);
}

KERNEL_FN int64_t chain_recurrent_biases(const Chain& chain) {
    return chain_is_lstm(chain) ? chain_recurrent_weights(chain) : 0;
}

KERNEL_FN int64_t chain_states(const Chain& chain) { return chain_recurrent_weights(chain); }

KERNEL_FN int64_t chain_gate_count(const Chain& chain) { return chain_is_lstm(chain) ? 4 : 3; }

// Columns of the gates of a recurrent layer.
KERNEL_FN int64_t chain_gates(const Chain& chain) { return chain.width * chain_gate_count(chain); }

enum { CHAIN_MAX_RECURRENT = 2 * CHAIN_MAX_LAYERS };

struct ChainPacked {
    ConvolutionsPacked convolutions;
    PackedWeights encoder[CHAIN_MAX_LAYERS], recurrent[CHAIN_MAX_RECURRENT], head;
    float *encoder_bias[CHAIN_MAX_LAYERS], *recurrent_bias[CHAIN_MAX_LAYERS];  // [width]; [gates], both of an LSTM's
    float* head_bias;                                                          // [padded_outputs]
};

KERNEL_FN ChainPacked chain_packed(const Chain& chain, ChainMemory& memory) {
    int64_t width = chain.width, gates = chain_gates(chain);
    bool is_rounded = chain.products == PRODUCTS_BFLOAT16;
    ChainPacked packed = {};
    packed.convolutions = convolutions_packed(chain, memory);
    for (int64_t i = 0; i < chain.encoder_layers; i++) {
        int64_t inputs = chain_encoder_inputs(chain, i);
        bool is_first = chain_is_first(chain, i);
        int64_t padded_inputs = is_first ? 0 : chain_encoder_row(chain, i);
        packed.encoder[i] = packed_take(inputs, padded_inputs, width, width, is_rounded && !is_first, memory);
        packed.encoder_bias[i] = memory.take(width);
    }
    for (int64_t i = 0; i < chain_recurrent_weights(chain); i++) {
        packed.recurrent[i] = packed_take(width, width, gates, gates, is_rounded, memory);
    }
    for (int64_t i = 0; i < chain_recurrent_biases(chain) / 2; i++) packed.recurrent_bias[i] = memory.take(gates);
    packed.head = packed_take(width, width, chain.outputs, chain.padded_outputs, false, memory);
    packed.head_bias = memory.take(chain.padded_outputs);
    return packed;
}

// The gradients of the parameters, in the order of torch's, rows and columns padded; the first layer lies transposed
// where it is one of categories.
struct ChainGradients {
    ConvolutionsGradients convolutions;
    float *encoder[CHAIN_MAX_LAYERS], *encoder_bias[CHAIN_MAX_LAYERS];
    float* recurrent[CHAIN_MAX_RECURRENT];
    float* recurrent_bias[CHAIN_MAX_LAYERS];  // the same for both biases of an LSTM
    float *head, *head_bias;
};

KERNEL_FN ChainGradients chain_gradients(const Chain& chain, ChainMemory& memory) {
    int64_t width = chain.width;
    ChainGradients gradients = {};
    gradients.convolutions = convolutions_gradients(chain, memory);
    for (int64_t i = 0; i < chain.encoder_layers; i++) {
        bool is_one_hot = chain_is_one_hot(chain, i);
        gradients.encoder[i] = memory.take(width * (is_one_hot ? chain.inputs : chain_encoder_row(chain, i)));
        gradients.encoder_bias[i] = memory.take(width);
    }
    int64_t gates = chain_gates(chain);
    for (int64_t i = 0; i < chain_recurrent_weights(chain); i++) gradients.recurrent[i] = memory.take(gates * width);
    for (int64_t i = 0; i < chain_recurrent_biases(chain) / 2; i++) gradients.recurrent_bias[i] = memory.take(gates);
    gradients.head = memory.take(chain.outputs * width);
    gradients.head_bias = memory.take(chain.outputs);
    return gradients;
}

// What a block of rows needs, `sequences` of `steps` each.
struct ChainScratch {
    int64_t sequences, steps;
    const float* observations;  // [rows, padded_inputs], borrowed; or instead
    const int32_t* columns;     // [rows, cells], borrowed
    ConvolutionsScratch convolutions;
    float *encoded[CHAIN_MAX_LAYERS], *slopes[CHAIN_MAX_LAYERS];  // [rows, width]
    uint8_t* reset;                                               // [rows]
    float* initial[CHAIN_MAX_RECURRENT];                          // [sequences, width], the states
    float *gates[CHAIN_MAX_LAYERS], *states[CHAIN_MAX_LAYERS], *hidden[CHAIN_MAX_LAYERS];
    float* previous[CHAIN_MAX_LAYERS];  // [rows, width], of an LSTM whose states are not overwritten
    float* output;                      // [rows, padded_outputs], and its gradient
    // For backward alone:
    float *grad_gates, *grad_hidden[2], *carry[2];
};

KERNEL_FN ChainScratch chain_scratch(const Chain& chain, int64_t sequences, int64_t steps, ChainMemory& memory) {
    int64_t width = chain.width, gates = chain_gates(chain), rows = sequences * steps;
    bool is_lstm = chain_is_lstm(chain);
    ChainScratch scratch = {};
    scratch.sequences = sequences;
    scratch.steps = steps;
    scratch.convolutions = convolutions_scratch(chain, rows, memory);
    for (int64_t i = 0; i < chain.encoder_layers; i++) {
        scratch.encoded[i] = memory.take(rows * width);
        scratch.slopes[i] = memory.take(chain.activation == ACTIVATION_LINEAR ? 0 : rows * width);
    }
    scratch.reset = (uint8_t*)memory.take((rows + 3) / 4);
    for (int64_t i = 0; i < chain_states(chain); i++) scratch.initial[i] = memory.take(sequences * width);
    for (int64_t i = 0; i < chain.recurrent_layers; i++) {
        scratch.gates[i] = memory.take(rows * gates);
        scratch.states[i] = memory.take(rows * width);
        scratch.hidden[i] = memory.take(rows * width);
        if (is_lstm) scratch.previous[i] = memory.take(rows * width);
    }
    scratch.output = memory.take(rows * chain.padded_outputs);
    scratch.grad_gates = memory.take(is_lstm ? 0 : rows * gates);
    for (int64_t i = 0; i < 2; i++) {
        scratch.grad_hidden[i] = memory.take(rows * width);
        scratch.carry[i] = memory.take(is_lstm ? sequences * width : width);
    }
    return scratch;
}

// Whether states of a layer lie in memory as layers compute with them.
KERNEL_FN bool chain_has_padding(const Chain& chain) { return chain.units != chain.width; }

// Copies rows of a state in, zeros into the padding.
KERNEL_FN void chain_read_state(const Chain& chain, const float* state, int64_t rows, float* target) {
    for (int64_t row = 0; row < rows; row++) {
        memcpy(target + row * chain.width, state + row * chain.units, chain.units * sizeof(float));
        memset(target + row * chain.width + chain.units, 0, (chain.width - chain.units) * sizeof(float));
    }
}

// Lets a single step read and overwrite states where they lie, from `row` on; where they are padded, in scratch memory.
KERNEL_FN void chain_begin_step(const Chain& chain, float* const* states, int64_t row, ChainScratch& scratch) {
    scratch.reset = nullptr;
    for (int64_t i = 0; i < chain_states(chain); i++) {
        float* state = states[i] + row * chain.units;
        if (chain_has_padding(chain)) {
            chain_read_state(chain, state, scratch.sequences, scratch.initial[i]);
        } else {
            scratch.initial[i] = state;
        }
    }
    for (int64_t i = 0; i < chain.recurrent_layers; i++) {
        scratch.previous[i] = nullptr;
        if (chain_is_lstm(chain)) scratch.hidden[i] = scratch.initial[2 * i];
        scratch.states[i] = scratch.initial[chain_is_lstm(chain) ? 2 * i + 1 : i];
    }
}

// Copies the states that a step left back to where they were read.
KERNEL_FN void chain_end_step(const Chain& chain, float* const* states, int64_t row, const ChainScratch& scratch) {
    if (!chain_has_padding(chain)) return;
    for (int64_t i = 0; i < chain_states(chain); i++) {
        for (int64_t j = 0; j < scratch.sequences; j++) {
            float* state = states[i] + (row + j) * chain.units;
            memcpy(state, scratch.initial[i] + j * chain.width, chain.units * sizeof(float));
        }
    }
}

// What the encoder reads, where that is numbers.
KERNEL_FN const float* chain_features(const Chain& chain, const ChainScratch& scratch) {
    if (!chain_has_convolutions(chain)) return scratch.observations;
    return scratch.convolutions.results[chain.num_convolutions - 1];
}

// What the head reads.
KERNEL_FN const float* chain_last_hidden(const Chain& chain, const ChainScratch& scratch) {
    if (chain.recurrent_layers > 0) return scratch.hidden[chain.recurrent_layers - 1];
    return scratch.encoded[chain.encoder_layers - 1];
}

template <class Set>
KERNEL_FN void chain_forward_mingru(const Chain& chain, const ChainPacked& packed, const ChainScratch& scratch,
                                    int64_t i, const float* input) {
    MingruLayer layer = {};
    layer.input = input;
    layer.transposed = packed.recurrent[i].forward.memory;
    layer.reset = scratch.reset;
    layer.initial = scratch.initial[i];
    layer.gates = scratch.gates[i];
    layer.states = scratch.states[i];
    layer.output = scratch.hidden[i];
    mingru_forward<Set>(layer, scratch.sequences, scratch.steps, chain.width);
}

template <class Set>
KERNEL_FN void chain_forward_lstm(const Chain& chain, const ChainPacked& packed, const ChainScratch& scratch, int64_t i,
                                  const float* input) {
    LstmLayer layer = {};
    layer.input = input;
    layer.input_transposed = packed.recurrent[2 * i].forward.memory;
    layer.transposed = packed.recurrent[2 * i + 1].forward.memory;
    layer.bias = packed.recurrent_bias[i];
    layer.reset = scratch.reset;
    layer.initial_hidden = scratch.initial[2 * i];
    layer.initial_memory = scratch.initial[2 * i + 1];
    layer.previous = scratch.previous[i];
    layer.gates = scratch.gates[i];
    layer.memory = scratch.states[i];
    layer.hidden = scratch.hidden[i];
    lstm_forward<Set>(layer, scratch.sequences, scratch.steps, chain.width);
}

// From scratch.observations to scratch.output.
template <class Set>
KERNEL_FN void chain_forward(const Chain& chain, const ChainPacked& packed, const ChainScratch& scratch) {
    int64_t width = chain.width, rows = scratch.sequences * scratch.steps;
    const float* hidden = chain_features(chain, scratch);
    if (chain_has_convolutions(chain)) {
        ConvolutionsSource source = {scratch.observations, scratch.columns};
        convolutions_forward<Set>(chain, packed.convolutions, scratch.convolutions, source, rows);
    }
    for (int64_t i = 0; i < chain.encoder_layers; i++) {
        LinearLayer layer = {};
        layer.input = hidden;
        layer.input_row = chain_encoder_row(chain, i);
        layer.transposed = packed.encoder[i].forward.memory;
        layer.bias = packed.encoder_bias[i];
        layer.output = scratch.encoded[i];
        layer.slopes = scratch.slopes[i];
        if (chain_is_one_hot(chain, i)) {
            one_hot_forward<Set>({scratch.columns, rows, chain.cells, width}, layer, chain.activation);
        } else if (chain_is_first(chain, i)) {
            linear_forward<typename Set::Exact>(layer, chain.activation, rows, chain.inputs, width);
        } else {
            linear_forward<Set>(layer, chain.activation, rows, chain_encoder_inputs(chain, i), width);
        }
        hidden = scratch.encoded[i];
    }
    for (int64_t i = 0; i < chain.recurrent_layers; i++) {
        if (chain_is_lstm(chain)) {
            chain_forward_lstm<Set>(chain, packed, scratch, i, hidden);
        } else {
            chain_forward_mingru<Set>(chain, packed, scratch, i, hidden);
        }
        hidden = scratch.hidden[i];
    }
    LinearLayer head = {hidden, width, packed.head.forward.memory, packed.head_bias, scratch.output, nullptr};
    linear_forward<typename Set::Exact>(head, ACTIVATION_LINEAR, rows, width, chain.padded_outputs);
}

// Of a recurrent layer: what it read, the gradient in what it gave, and where that in its input belongs.
struct ChainRecurrence {
    const float *input, *grad_output;
    float* grad_input;
};

template <class Set>
KERNEL_FN void chain_backward_mingru(const Chain& chain, const ChainPacked& packed, const ChainScratch& scratch,
                                     const ChainGradients& gradients, int64_t i, const ChainRecurrence& place) {
    MingruLayerGradient layer = {};
    layer.input = place.input;
    layer.weights = packed.recurrent[i].backward.memory;
    layer.reset = scratch.reset;
    layer.initial = scratch.initial[i];
    layer.gates = scratch.gates[i];
    layer.states = scratch.states[i];
    layer.grad_output = place.grad_output;
    layer.grad_gates = scratch.grad_gates;
    layer.grad_input = place.grad_input;
    layer.carry = scratch.carry[0];
    layer.grad_weights = gradients.recurrent[i];
    mingru_backward<Set>(layer, scratch.sequences, scratch.steps, chain.width);
}

template <class Set>
KERNEL_FN void chain_backward_lstm(const Chain& chain, const ChainPacked& packed, const ChainScratch& scratch,
                                   const ChainGradients& gradients, int64_t i, const ChainRecurrence& place) {
    LstmLayerGradient layer = {};
    layer.input = place.input;
    layer.input_weights = packed.recurrent[2 * i].backward.memory;
    layer.weights = packed.recurrent[2 * i + 1].backward.memory;
    layer.reset = scratch.reset;
    layer.initial_memory = scratch.initial[2 * i + 1];
    layer.previous = scratch.previous[i];
    layer.memory = scratch.states[i];
    layer.gates = scratch.gates[i];
    layer.grad_output = place.grad_output;
    layer.grad_input = place.grad_input;
    layer.grad_hidden = scratch.carry[0];
    layer.grad_memory = scratch.carry[1];
    layer.grad_input_weights = gradients.recurrent[2 * i];
    layer.grad_weights = gradients.recurrent[2 * i + 1];
    layer.grad_bias = gradients.recurrent_bias[i];
    lstm_backward<Set>(layer, scratch.sequences, scratch.steps, chain.width);
}

// From the gradient in scratch.output to the sums of `gradients`.
template <class Set>
KERNEL_FN void chain_backward(const Chain& chain, const ChainPacked& packed, const ChainScratch& scratch,
                              const ChainGradients& gradients) {
    int64_t width = chain.width, rows = scratch.sequences * scratch.steps;
    float *gradient = scratch.grad_hidden[0], *spare = scratch.grad_hidden[1];
    LinearGradient head = {};
    head.input = chain_last_hidden(chain, scratch);
    head.input_row = width;
    head.weights = packed.head.backward.memory;
    head.grad_output = scratch.output;
    head.grad_row = chain.padded_outputs;
    head.grad_input = gradient;
    head.grad_weights = gradients.head;
    head.grad_bias = gradients.head_bias;
    linear_backward<typename Set::Exact>(head, rows, chain.outputs);
    for (int64_t i = chain.recurrent_layers - 1; i >= 0; i--) {
        const float* input = i > 0 ? scratch.hidden[i - 1] : scratch.encoded[chain.encoder_layers - 1];
        ChainRecurrence place = {input, gradient, spare};
        if (chain_is_lstm(chain)) {
            chain_backward_lstm<Set>(chain, packed, scratch, gradients, i, place);
        } else {
            chain_backward_mingru<Set>(chain, packed, scratch, gradients, i, place);
        }
        spare = gradient;
        gradient = place.grad_input;
    }
    for (int64_t i = chain.encoder_layers - 1; i >= 0; i--) {
        if (chain.activation != ACTIVATION_LINEAR) {
            INDEPENDENT_LANES
            for (int64_t j = 0; j < rows * width; j++) gradient[j] *= scratch.slopes[i][j];
        }
        LinearGradient layer = {};
        layer.input = i > 0 ? scratch.encoded[i - 1] : chain_features(chain, scratch);
        layer.input_row = chain_encoder_row(chain, i);
        layer.weights = packed.encoder[i].backward.memory;
        layer.grad_output = gradient;
        layer.grad_row = width;
        layer.grad_input = i > 0 ? spare : nullptr;
        if (i == 0 && chain_has_convolutions(chain)) {
            layer.grad_input = scratch.convolutions.grad_results[chain.num_convolutions - 1];
        }
        layer.grad_weights = gradients.encoder[i];
        layer.grad_bias = gradients.encoder_bias[i];
        if (chain_is_one_hot(chain, i)) {
            one_hot_backward<Set>({scratch.columns, rows, chain.cells, width}, layer);
        } else if (chain_is_first(chain, i)) {
            linear_backward<typename Set::Exact>(layer, rows, width);
        } else {
            linear_backward<Set>(layer, rows, width);
        }
        spare = gradient;
        gradient = layer.grad_input;
    }
    if (!chain_has_convolutions(chain)) return;
    ConvolutionsSource source = {scratch.observations, scratch.columns};
    convolutions_backward<Set>(chain, packed.convolutions, scratch.convolutions, source, gradients.convolutions, rows);
}

// A layer's weights as torch has them: groups of `units` rows, that many for each gate, of `inputs` columns.
struct ChainSource {
    const float* weights;
    int64_t groups, units, inputs;
};

// Copies weights; every group of them fills `width` outputs.
KERNEL_FN void pack(const PackedWeights& packed, const ChainSource& source, int64_t width) {
    packed_clear(packed);
    for (int64_t row = 0; row < source.groups * source.units; row++) {
        int64_t output = row / source.units * width + row % source.units;
        const float* weights = source.weights + row * source.inputs;
        for (int64_t input = 0; input < source.inputs; input++) packed_set(packed, input, output, weights[input]);
    }
}

// Adds a bias to what is there, or nothing where it is NULL.
KERNEL_FN void pack_bias(float* packed, const float* bias, const ChainSource& source, int64_t width) {
    for (int64_t i = 0; bias != nullptr && i < source.groups * source.units; i++) {
        packed[i / source.units * width + i % source.units] += bias[i];
    }
}

KERNEL_FN void chain_pack_recurrent(const Chain& chain, const ChainPacked& packed) {
    const float *const *weights = chain.weights + chain.encoder_layers, *const *biases = chain.biases;
    ChainSource source = {nullptr, chain_gate_count(chain), chain.units, chain.units};
    for (int64_t i = 0; i < chain_recurrent_weights(chain); i++) {
        source.weights = weights[i];
        pack(packed.recurrent[i], source, chain.width);
    }
    // Gates of an LSTM layer are sums of two products, so one bias does for both.
    for (int64_t i = 0; i < chain_recurrent_biases(chain); i++) {
        float* bias = packed.recurrent_bias[i / 2];
        if (i % 2 == 0) memset(bias, 0, chain_gates(chain) * sizeof(float));
        pack_bias(bias, biases[chain.encoder_layers + i], source, chain.width);
    }
}

// Copies the parameters as they are now.
KERNEL_FN void chain_pack(const Chain& chain) {
    ChainMemory memory = {chain.packed, 0};
    ChainPacked packed = chain_packed(chain, memory);
    int64_t width = chain.width, encoder = chain.encoder_layers;
    convolutions_pack(chain, packed.convolutions);
    for (int64_t i = 0; i < encoder; i++) {
        ChainSource source = {chain.weights[i], 1, chain.units, i == 0 ? chain.inputs : chain.units};
        if (i == 0 && chain_has_convolutions(chain)) source.weights = packed.convolutions.features;
        pack(packed.encoder[i], source, width);
        memset(packed.encoder_bias[i], 0, width * sizeof(float));
        pack_bias(packed.encoder_bias[i], chain.biases[i], source, width);
    }
    chain_pack_recurrent(chain, packed);
    ChainSource head = {chain.weights[encoder + chain_recurrent_weights(chain)], 1, chain.outputs, chain.units};
    pack(packed.head, head, chain.padded_outputs);
    memset(packed.head_bias, 0, chain.padded_outputs * sizeof(float));
    pack_bias(packed.head_bias, chain.biases[encoder + chain_recurrent_biases(chain)], head, chain.padded_outputs);
}

// Sums the gradients of gates, `units` rows of each, over all chunks.
KERNEL_FN void sum_gates(const Chain& chain, const GradientChunks& chunks, const float* first, int64_t columns,
                         int64_t row, float* result) {
    int64_t units = chain.units;
    for (int64_t gate = 0; gate < chain_gate_count(chain); gate++) {
        sum_chunks(chunks, first + gate * chain.width * row, units, columns, row, result + gate * units * columns);
    }
}

// Writes the results from `gradients`, which are those of the first chunk.
KERNEL_FN void chain_sum(const Chain& chain, const ChainGradients& gradients, const GradientChunks& chunks) {
    int64_t units = chain.units, width = chain.width, encoder = chain.encoder_layers;
    int64_t recurrent = chain_recurrent_weights(chain), recurrent_biases = chain_recurrent_biases(chain);
    float *const *weights = chain.weight_results, *const *biases = chain.bias_results;
    for (int64_t i = 0; i < encoder; i++) {
        int64_t inputs = i == 0 ? chain.inputs : units;
        if (i == 0 && chain_has_convolutions(chain)) {
            convolutions_sum(chain, gradients.convolutions, gradients.encoder[0], chunks);
        } else if (chain_is_one_hot(chain, i)) {
            sum_transposed_chunks(chunks, gradients.encoder[i], inputs, units, width, weights[i]);
        } else {
            sum_chunks(chunks, gradients.encoder[i], units, inputs, chain_encoder_row(chain, i), weights[i]);
        }
        if (biases[i] != nullptr) sum_chunks(chunks, gradients.encoder_bias[i], 1, units, width, biases[i]);
    }
    for (int64_t i = 0; i < recurrent; i++) {
        sum_gates(chain, chunks, gradients.recurrent[i], units, width, weights[encoder + i]);
    }
    for (int64_t i = 0; i < recurrent_biases; i++) {
        float* result = biases[encoder + i];
        if (result != nullptr) sum_gates(chain, chunks, gradients.recurrent_bias[i / 2], 1, 1, result);
    }
    sum_chunks(chunks, gradients.head, chain.outputs, units, width, weights[encoder + recurrent]);
    float* head_bias = biases[encoder + recurrent_biases];
    if (head_bias != nullptr) sum_chunks(chunks, gradients.head_bias, 1, chain.outputs, 0, head_bias);
}
