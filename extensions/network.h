// network.h - the policies that are one kernel on a CPU, and the memory they compute in.
//
// Linear layers, then MinGRU layers, then a linear head for the logits and the value. Every layer is `width` wide, a
// multiple of MATMUL_LANES; the columns of observations and outputs are padded to one with zeros. A block of rows goes
// through all layers, forward and backward, in scratch memory that stays in a core's cache.
#pragma once

#include "linear_layer.h"
#include "mingru_layer.h"

enum { NETWORK_MAX_LAYERS = 8 };  // of each kind

// Made by network.py; all pointers are borrowed.
struct Network {
    int64_t inputs, padded_inputs;
    int64_t width;
    int64_t encoder_layers;  // at least 1
    int64_t activation;      // of the encoder
    int64_t recurrent_layers;
    int64_t outputs, padded_outputs;  // the logits, and the value as the last
    int64_t num_parts;                // of a decision
    const int64_t* part_sizes;        // [num_parts], logits of each
    const float* const* weights;      // encoder, recurrent, head: as torch has them, [outputs, inputs]
    const float* const* biases;       // encoder, head; NULL for zeros
    float* packed;                    // filled by puffer_network_pack
};

// Hands out pieces of memory one after the other, on register boundaries; without memory it only counts.
struct NetworkMemory {
    float* base;
    int64_t used;

    float* take(int64_t count) {
        float* piece = base == nullptr ? nullptr : base + used;
        used += (count + MATMUL_LANES - 1) / MATMUL_LANES * MATMUL_LANES;
        return piece;
    }
};

KERNEL_FN int64_t network_encoder_inputs(const Network& network, int64_t layer) {
    return layer == 0 ? network.inputs : network.width;
}

KERNEL_FN int64_t network_encoder_row(const Network& network, int64_t layer) {
    return layer == 0 ? network.padded_inputs : network.width;
}

// The weights transposed, for forward.
struct NetworkPacked {
    float *encoder[NETWORK_MAX_LAYERS], *encoder_bias[NETWORK_MAX_LAYERS];  // [inputs, width], [width]
    float* recurrent[NETWORK_MAX_LAYERS];                                   // [width, 3 * width]
    float *head, *head_bias;                                                // [width, padded_outputs], [padded_outputs]
};

KERNEL_FN NetworkPacked network_packed(const Network& network, NetworkMemory& memory) {
    int64_t width = network.width;
    NetworkPacked packed = {};
    for (int64_t i = 0; i < network.encoder_layers; i++) {
        packed.encoder[i] = memory.take(network_encoder_inputs(network, i) * width);
        packed.encoder_bias[i] = memory.take(width);
    }
    for (int64_t i = 0; i < network.recurrent_layers; i++) packed.recurrent[i] = memory.take(3 * width * width);
    packed.head = memory.take(width * network.padded_outputs);
    packed.head_bias = memory.take(network.padded_outputs);
    return packed;
}

// The gradients of the parameters, in the order and shape of torch's but for padded columns of the first layer.
struct NetworkGradients {
    float *encoder[NETWORK_MAX_LAYERS], *encoder_bias[NETWORK_MAX_LAYERS];
    float* recurrent[NETWORK_MAX_LAYERS];
    float *head, *head_bias;
};

KERNEL_FN NetworkGradients network_gradients(const Network& network, NetworkMemory& memory) {
    int64_t width = network.width;
    NetworkGradients gradients = {};
    for (int64_t i = 0; i < network.encoder_layers; i++) {
        gradients.encoder[i] = memory.take(width * network_encoder_row(network, i));
        gradients.encoder_bias[i] = memory.take(width);
    }
    for (int64_t i = 0; i < network.recurrent_layers; i++) gradients.recurrent[i] = memory.take(3 * width * width);
    gradients.head = memory.take(network.outputs * width);
    gradients.head_bias = memory.take(network.outputs);
    return gradients;
}

// What a block of rows needs, `sequences` of `steps` each.
struct NetworkScratch {
    int64_t sequences, steps;
    float* observations;                                              // [rows, padded_inputs]
    float *encoded[NETWORK_MAX_LAYERS], *slopes[NETWORK_MAX_LAYERS];  // [rows, width]
    uint8_t* reset;                                                   // [rows]
    float* initial[NETWORK_MAX_LAYERS];                               // [sequences, width]
    float *gates[NETWORK_MAX_LAYERS], *states[NETWORK_MAX_LAYERS], *hidden[NETWORK_MAX_LAYERS];
    float* output;  // [rows, padded_outputs], and its gradient
    // For backward alone:
    float *grad_gates, *grad_hidden[2], *carry;
};

KERNEL_FN NetworkScratch network_scratch(const Network& network, int64_t sequences, int64_t steps,
                                         NetworkMemory& memory) {
    int64_t width = network.width, rows = sequences * steps;
    NetworkScratch scratch = {};
    scratch.sequences = sequences;
    scratch.steps = steps;
    scratch.observations = memory.take(rows * network.padded_inputs);
    for (int64_t i = 0; i < network.encoder_layers; i++) {
        scratch.encoded[i] = memory.take(rows * width);
        scratch.slopes[i] = memory.take(network.activation == ACTIVATION_LINEAR ? 0 : rows * width);
    }
    scratch.reset = (uint8_t*)memory.take((rows + 3) / 4);
    for (int64_t i = 0; i < network.recurrent_layers; i++) {
        scratch.initial[i] = memory.take(sequences * width);
        scratch.gates[i] = memory.take(rows * 3 * width);
        scratch.states[i] = memory.take(rows * width);
        scratch.hidden[i] = memory.take(rows * width);
    }
    scratch.output = memory.take(rows * network.padded_outputs);
    scratch.grad_gates = memory.take(rows * 3 * width);
    scratch.grad_hidden[0] = memory.take(rows * width);
    scratch.grad_hidden[1] = memory.take(rows * width);
    scratch.carry = memory.take(width);
    return scratch;
}

// What the head reads.
KERNEL_FN const float* network_last_hidden(const Network& network, const NetworkScratch& scratch) {
    if (network.recurrent_layers > 0) return scratch.hidden[network.recurrent_layers - 1];
    return scratch.encoded[network.encoder_layers - 1];
}

// From scratch.observations to scratch.output. The states of a single step may be written where they were read:
// `states` are then the scratch's `initial`.
template <class Set>
KERNEL_FN void network_forward(const Network& network, const NetworkPacked& packed, const NetworkScratch& scratch) {
    int64_t width = network.width, rows = scratch.sequences * scratch.steps;
    const float* hidden = scratch.observations;
    for (int64_t i = 0; i < network.encoder_layers; i++) {
        LinearLayer layer = {};
        layer.input = hidden;
        layer.input_row = network_encoder_row(network, i);
        layer.transposed = packed.encoder[i];
        layer.bias = packed.encoder_bias[i];
        layer.output = scratch.encoded[i];
        layer.slopes = scratch.slopes[i];
        linear_forward<Set>(layer, network.activation, rows, network_encoder_inputs(network, i), width);
        hidden = scratch.encoded[i];
    }
    for (int64_t i = 0; i < network.recurrent_layers; i++) {
        MingruLayer layer = {};
        layer.input = hidden;
        layer.transposed = packed.recurrent[i];
        layer.reset = scratch.reset;
        layer.initial = scratch.initial[i];
        layer.gates = scratch.gates[i];
        layer.states = scratch.states[i];
        layer.output = scratch.hidden[i];
        mingru_forward<Set>(layer, scratch.sequences, scratch.steps, width);
        hidden = scratch.hidden[i];
    }
    LinearLayer head = {hidden, width, packed.head, packed.head_bias, scratch.output, nullptr};
    linear_forward<Set>(head, ACTIVATION_LINEAR, rows, width, network.padded_outputs);
}

// From the gradient in scratch.output to the sums of `gradients`.
template <class Set>
KERNEL_FN void network_backward(const Network& network, const NetworkScratch& scratch,
                                const NetworkGradients& gradients) {
    int64_t width = network.width, rows = scratch.sequences * scratch.steps;
    const float* const* recurrent_weights = network.weights + network.encoder_layers;
    float *gradient = scratch.grad_hidden[0], *spare = scratch.grad_hidden[1];
    LinearGradient head = {};
    head.input = network_last_hidden(network, scratch);
    head.input_row = width;
    head.weights = recurrent_weights[network.recurrent_layers];
    head.grad_output = scratch.output;
    head.grad_row = network.padded_outputs;
    head.grad_input = gradient;
    head.grad_weights = gradients.head;
    head.grad_bias = gradients.head_bias;
    linear_backward<Set>(head, rows, network.outputs);
    for (int64_t i = network.recurrent_layers - 1; i >= 0; i--) {
        MingruLayerGradient layer = {};
        layer.input = i > 0 ? scratch.hidden[i - 1] : scratch.encoded[network.encoder_layers - 1];
        layer.weights = recurrent_weights[i];
        layer.reset = scratch.reset;
        layer.initial = scratch.initial[i];
        layer.gates = scratch.gates[i];
        layer.states = scratch.states[i];
        layer.grad_output = gradient;
        layer.grad_gates = scratch.grad_gates;
        layer.grad_input = spare;
        layer.carry = scratch.carry;
        layer.grad_weights = gradients.recurrent[i];
        mingru_backward<Set>(layer, scratch.sequences, scratch.steps, width);
        spare = gradient;
        gradient = layer.grad_input;
    }
    for (int64_t i = network.encoder_layers - 1; i >= 0; i--) {
        if (network.activation != ACTIVATION_LINEAR) {
            INDEPENDENT_LANES
            for (int64_t j = 0; j < rows * width; j++) gradient[j] *= scratch.slopes[i][j];
        }
        LinearGradient layer = {};
        layer.input = i > 0 ? scratch.encoded[i - 1] : scratch.observations;
        layer.input_row = network_encoder_row(network, i);
        layer.weights = network.weights[i];
        layer.grad_output = gradient;
        layer.grad_row = width;
        layer.grad_input = i > 0 ? spare : nullptr;
        layer.grad_weights = gradients.encoder[i];
        layer.grad_bias = gradients.encoder_bias[i];
        linear_backward<Set>(layer, rows, width);
        spare = gradient;
        gradient = layer.grad_input;
    }
}
