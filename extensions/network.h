// network.h - the policies that are one kernel on a CPU: from what the environments give to decisions and values.
//
// A policy is a list of layers, each of which reads values that earlier ones gave. A block of rows goes through all of
// them, forward and backward, in scratch memory that stays in a core's cache. Values hold the logits of choices or the
// means of numbers, whose deviations are parameters, and the value of the state.
#pragma once

#include "convolution_layer.h"
#include "elementwise_layer.h"
#include "entity_layer.h"
#include "gru_layer.h"
#include "linear_layer.h"
#include "lstm_layer.h"
#include "mingru_layer.h"
#include "norm_layer.h"
#include "one_hot_layer.h"
#include "pool_layer.h"
#include "ppo_row.h"
#include "state_layer.h"

// The kinds of layers.
#define LAYER_KINDS(KIND)                  \
    KIND(LAYER_LINEAR, LinearOp)           \
    KIND(LAYER_ONE_HOT, OneHotOp)          \
    KIND(LAYER_CONVOLUTION, ConvolutionOp) \
    KIND(LAYER_MINGRU, MingruOp)           \
    KIND(LAYER_LSTM, LstmOp)               \
    KIND(LAYER_GRU, GruOp)                 \
    KIND(LAYER_NORM, NormOp)               \
    KIND(LAYER_ACTIVATION, ActivationOp)   \
    KIND(LAYER_ADD, AddOp)                 \
    KIND(LAYER_MULTIPLY, MultiplyOp)       \
    KIND(LAYER_AFFINE, AffineOp)           \
    KIND(LAYER_CONCATENATE, ConcatenateOp) \
    KIND(LAYER_POOL, PoolOp)               \
    KIND(LAYER_SCALE, ScaleOp)             \
    KIND(LAYER_ARRANGE, ArrangeOp)         \
    KIND(LAYER_EMBEDDING, EmbeddingOp)     \
    KIND(LAYER_COMPARE, CompareOp)         \
    KIND(LAYER_ATTENTION, AttentionOp)     \
    KIND(LAYER_STATE, StateOp)             \
    KIND(LAYER_FEATURES, FeaturesOp)

#define LAYER_CASE(constant, Op) \
    case constant: {             \
        Op op(layer);            \
        call(op);                \
        break;                   \
    }

// Calls `call` with the layer as its kind.
template <class Call>
KERNEL_FN void layer_visit(const Layer& layer, const Call& call) {
    switch (layer.kind) { LAYER_KINDS(LAYER_CASE) }
}

enum { NETWORK_IMAGES = 8 };  // rows that go through layers of images together

KERNEL_FN int64_t network_observation_row(const Network& network) { return matmul_padded(network.numbers); }

KERNEL_FN PpoNormal network_normal(const Network& network) {
    return {network.num_parts, network.normal, network.normal + network.num_parts};
}

// ------------------------------------------------------------------------------------------------------- parameters

struct LayerPack {
    LayerMemory& memory;
    const PackShare& share;

    template <class Op>
    KERNEL_METHOD void operator()(Op& op) const {
        op.take_packed(memory);
        if (Op::IS_SHARED || share.index == 0) op.pack(share);
    }
};

// Copies a share of the parameters as they are now.
KERNEL_FN void network_pack(const Network& network, const PackShare& share) {
    LayerMemory memory = {network.packed, 0};
    for (int64_t i = 0; i < network.num_layers; i++) layer_visit(network.layers[i], LayerPack{memory, share});
    if (share.index > 0) return;
    for (int64_t i = 0; network.log_std != nullptr && i < network.num_parts; i++) {
        network.normal[i] = network.log_std[i];
        network.normal[network.num_parts + i] = expf(network.log_std[i]);
    }
    int64_t channels = network.channels, pixels = network.numbers / channels;
    for (int64_t i = 0; network.mean != nullptr && i < network.numbers; i++) {
        float* seen = network.seen + i % channels * pixels + i / channels;
        seen[0] = (float)network.mean[i];
        seen[network.numbers] = (float)(1.0 / sqrt(network.variance[i] + network.epsilon));
    }
}

struct LayerPlan {
    LayerMemory &packed, &gradients;

    template <class Op>
    KERNEL_METHOD void operator()(Op& op) const {
        op.take_packed(packed);
        op.take_gradients(gradients);
    }
};

struct NetworkSizes {
    int64_t packed, gradients;
};

// Says where the memory of every layer lies; returns the floats that all take.
KERNEL_FN NetworkSizes network_plan(Network& network) {
    LayerMemory packed = {}, gradients = {};
    for (int64_t i = 0; i < network.num_layers; i++) {
        network.layers[i].packed = packed.used;
        network.layers[i].gradients = gradients.used;
        layer_visit(network.layers[i], LayerPlan{packed, gradients});
    }
    network.log_std_gradients = gradients.used;
    gradients.take(network.log_std == nullptr ? 0 : network.num_parts);
    return {packed.used, gradients.used};
}

struct LayerClearGradients {
    LayerMemory gradients;

    template <class Op>
    KERNEL_METHOD void operator()(Op& op) const {
        LayerMemory memory = gradients;
        int64_t kept = op.layer.is_differentiated ? op.overwritten() : 0;
        op.take_gradients(memory);
        memset(gradients.base + gradients.used + kept, 0, (memory.used - gradients.used - kept) * sizeof(float));
    }
};

// Before the first backward of a chunk.
KERNEL_FN void network_clear_gradients(const Network& network, float* gradients) {
    for (int64_t i = 0; i < network.num_layers; i++) {
        const Layer& layer = network.layers[i];
        layer_visit(layer, LayerClearGradients{{gradients, layer.gradients}});
    }
    int64_t numbers = network.log_std == nullptr ? 0 : matmul_padded(network.num_parts);
    memset(gradients + network.log_std_gradients, 0, numbers * sizeof(float));
}

struct LayerWriteGradients {
    LayerMemory gradients;

    template <class Op>
    KERNEL_METHOD void operator()(Op& op) const {
        LayerMemory memory = gradients;
        op.take_gradients(memory);
        op.write_gradients();
    }
};

// Writes the results from `gradients`, the sums over all chunks.
KERNEL_FN void network_write_gradients(const Network& network, float* gradients) {
    for (int64_t i = 0; i < network.num_layers; i++) {
        const Layer& layer = network.layers[i];
        layer_visit(layer, LayerWriteGradients{{gradients, layer.gradients}});
    }
    if (network.log_std == nullptr) return;
    copy_rows(gradients + network.log_std_gradients, 1, network.num_parts, 0, network.log_std_results);
}

// ----------------------------------------------------------------------------------------------------------- blocks

// What a block of rows needs; the first value is the observation.
struct NetworkScratch {
    int64_t sequences, steps, rows;
    int64_t sequence_rows, step_rows;  // from a row to that of the next sequence, and of the next step
    int32_t* columns;                  // [rows, cells], those of the weights where the observation is of categories
    uint8_t* reset;                    // [rows], NULL for a single step
    Choices choices;                   // of the rows
    float *values[NETWORK_MAX_LAYERS + 1], *gradients[NETWORK_MAX_LAYERS + 1];  // [rows, row]
    float* layers[NETWORK_MAX_LAYERS];                                          // the memory of each, and in a loop
    int64_t step_sizes[NETWORK_MAX_LAYERS];                                     // how much of it a step has
    float* added[LAYER_MAX_INPUTS];     // gradients in a layer's inputs that are added to those of other readers
    float* states[NETWORK_MAX_STATES];  // [sequences, padded units]
};

KERNEL_FN LayerRows network_rows(const Network& network, const NetworkScratch& scratch, int64_t index, int64_t first,
                                 int64_t count) {
    const Layer& layer = network.layers[index];
    LayerRows rows = {};
    rows.sequences = scratch.sequences;
    rows.steps = layer.loop ? 1 : scratch.steps;
    rows.count = count;
    rows.first = first;
    rows.reset = scratch.reset == nullptr ? nullptr : scratch.reset + first;
    for (int64_t i = 0; i < layer.num_inputs; i++) {
        int64_t value = layer.inputs[i], place = first * layer.input_rows[i];
        if (scratch.values[value] != nullptr) rows.inputs[i] = scratch.values[value] + place;
        if (layer.input_gradients[i] == GRADIENT_FIRST) rows.grad_inputs[i] = scratch.gradients[value] + place;
        if (layer.input_gradients[i] == GRADIENT_ADDED) rows.grad_inputs[i] = scratch.added[i];
    }
    if (scratch.columns != nullptr) rows.columns = scratch.columns + first * network.numbers;
    rows.output = scratch.values[index + 1] + first * layer.row;
    rows.grad_output = scratch.gradients[index + 1] + first * layer.row;
    if (layer.by_choices) rows.choices = scratch.choices.from(first);
    for (int64_t i = 0; i < layer.num_states; i++) rows.states[i] = scratch.states[layer.first_state + i];
    return rows;
}

struct LayerTakeScratch {
    const LayerRows& rows;
    LayerMemory& memory;

    template <class Op>
    KERNEL_METHOD void operator()(Op& op) const {
        op.take_scratch(rows, memory);
    }
};

KERNEL_FN NetworkScratch network_scratch(const Network& network, int64_t sequences, int64_t steps, bool has_masks,
                                         LayerMemory& memory) {
    NetworkScratch scratch = {};
    int64_t rows = sequences * steps, added = 0;
    scratch.sequences = sequences;
    scratch.steps = steps;
    scratch.rows = rows;
    scratch.sequence_rows = network.is_step_by_step ? 1 : steps;
    scratch.step_rows = network.is_step_by_step ? sequences : 1;
    if (network.is_of_categories) {
        scratch.columns = (int32_t*)memory.take(rows * network.numbers);
    } else {
        scratch.values[0] = memory.take(rows * network_observation_row(network));
    }
    scratch.reset = (uint8_t*)memory.take((rows + 3) / 4);
    int32_t* places = (int32_t*)memory.take(has_masks ? rows * network.decision_numbers : 0);
    int32_t* ends = (int32_t*)memory.take(has_masks ? rows * network.num_parts : 0);
    scratch.choices = {has_masks ? places : nullptr, ends, network.decision_numbers, network.num_parts};
    LayerRows shape = {};
    shape.sequences = sequences;
    for (int64_t i = 0; i < network.num_layers; i++) {
        const Layer& layer = network.layers[i];
        scratch.values[i + 1] = memory.take(rows * layer.row);
        scratch.gradients[i + 1] = memory.take(rows * layer.row);
        for (int64_t j = 0; j < layer.num_states; j++) {
            scratch.states[layer.first_state + j] = memory.take(sequences * matmul_padded(layer.units));
        }
        scratch.layers[i] = memory.here();
        int64_t before = memory.used;
        shape.steps = layer.loop ? 1 : steps;
        shape.count = sequences * shape.steps;
        layer_visit(layer, LayerTakeScratch{shape, memory});
        scratch.step_sizes[i] = memory.used - before;
        memory.take(layer.loop ? (steps - 1) * scratch.step_sizes[i] : 0);
        for (int64_t j = 0; j < layer.num_inputs; j++) {
            bool is_largest = layer.input_gradients[j] == GRADIENT_ADDED && layer.input_rows[j] > added;
            added = is_largest ? layer.input_rows[j] : added;
        }
    }
    for (int64_t i = 0; i < LAYER_MAX_INPUTS; i++) scratch.added[i] = memory.take(rows * added);
    return scratch;
}

// The states of a layer, where `units` fill no whole registers, are copied; others lie as the layer computes with them.
KERNEL_FN bool layer_has_padding(const Layer& layer) { return layer.units != matmul_padded(layer.units); }

// Copies states in from `row` on, zeros into the padding.
KERNEL_FN void layer_read_states(const Layer& layer, const float* const* states, int64_t row,
                                 const NetworkScratch& scratch) {
    int64_t units = layer.units, width = matmul_padded(units);
    for (int64_t i = layer.first_state; i < layer.first_state + layer.num_states; i++) {
        for (int64_t j = 0; j < scratch.sequences; j++) {
            memcpy(scratch.states[i] + j * width, states[i] + (row + j) * units, units * sizeof(float));
            memset(scratch.states[i] + j * width + units, 0, (width - units) * sizeof(float));
        }
    }
}

KERNEL_FN void network_read_states(const Network& network, const float* const* states, int64_t row,
                                   const NetworkScratch& scratch) {
    for (int64_t i = 0; i < network.num_layers; i++) layer_read_states(network.layers[i], states, row, scratch);
}

// Lets a single step read and overwrite states where they lie, from `row` on; where they are padded, in scratch memory.
KERNEL_FN void network_begin_step(const Network& network, float* const* states, int64_t row, NetworkScratch& scratch) {
    scratch.reset = nullptr;
    for (int64_t i = 0; i < network.num_layers; i++) {
        const Layer& layer = network.layers[i];
        if (layer_has_padding(layer)) layer_read_states(layer, states, row, scratch);
        for (int64_t j = layer.first_state; j < layer.first_state + layer.num_states; j++) {
            if (!layer_has_padding(layer)) scratch.states[j] = states[j] + row * layer.units;
        }
    }
}

// Copies the states that a step left back to where they were read.
KERNEL_FN void network_end_step(const Network& network, float* const* states, int64_t row,
                                const NetworkScratch& scratch) {
    for (int64_t i = 0; i < network.num_layers; i++) {
        const Layer& layer = network.layers[i];
        int64_t units = layer.units, width = matmul_padded(units);
        if (layer.kind == LAYER_STATE) {
            const float* left = scratch.values[layer.inputs[0]];
            memcpy(scratch.states[layer.first_state], left, scratch.sequences * width * sizeof(float));
        }
        for (int64_t j = layer.first_state; j < layer.first_state + layer.num_states; j++) {
            for (int64_t k = 0; k < scratch.sequences && layer_has_padding(layer); k++) {
                memcpy(states[j] + (row + k) * units, scratch.states[j] + k * width, units * sizeof(float));
            }
        }
    }
}

template <class Set>
struct LayerForward {
    const Network& network;
    float* scratch;
    const LayerRows& rows;

    template <class Op>
    KERNEL_METHOD void operator()(Op& op) const {
        LayerMemory packed = {network.packed, op.layer.packed}, own = {scratch, 0};
        op.take_packed(packed);
        op.take_scratch(rows, own);
        if constexpr (Set::ROUNDS && Op::HAS_PRODUCTS) {
            if (!op.is_rounded()) {
                op.template forward<typename Set::Exact>(rows);
                return;
            }
        }
        op.template forward<Set>(rows);
    }
};

template <class Set>
struct LayerBackward {
    const Network& network;
    float *gradients, *scratch;
    const LayerRows& rows;
    bool is_end;  // whether a loop ends, which takes the gradients of parameters that are left then

    template <class Op>
    KERNEL_METHOD void operator()(Op& op) const {
        LayerMemory packed = {network.packed, op.layer.packed}, own = {scratch, 0};
        LayerMemory sums = {gradients, op.layer.gradients};
        op.take_packed(packed);
        op.take_gradients(sums);
        op.take_scratch(rows, own);
        if constexpr (Set::ROUNDS && Op::HAS_PRODUCTS) {
            if (!op.is_rounded()) {
                backward<typename Set::Exact>(op);
                return;
            }
        }
        backward<Set>(op);
    }

    template <class Used, class Op>
    KERNEL_METHOD void backward(Op& op) const {
        if constexpr (Op::IS_SPLIT) {
            if (is_end) {
                op.template backward_parameters<Used>(rows);
                return;
            }
            if (op.layer.loop) {
                op.template backward_rows<Used>(rows);
                return;
            }
        }
        if (!is_end) op.template backward<Used>(rows);
    }
};

KERNEL_FN bool network_is_together(const Layer& left, const Layer& right) {
    return (left.is_image && right.is_image) || (left.loop && left.loop == right.loop);
}

// The end of the layers from `first` on that rows go through together.
KERNEL_FN int64_t network_group(const Network& network, int64_t first) {
    int64_t end = first + 1;
    while (end < network.num_layers && network_is_together(network.layers[end - 1], network.layers[end])) end++;
    return end;
}

// How many rows: those of a step in a loop.
KERNEL_FN int64_t network_together(const Network& network, const NetworkScratch& scratch, int64_t layer) {
    if (network.layers[layer].loop) return scratch.sequences;
    return network.layers[layer].is_image ? (int64_t)NETWORK_IMAGES : scratch.rows;
}

// The memory of a layer for rows from `first` on, of which nothing is kept beyond them but in a loop.
KERNEL_FN float* network_memory(const Network& network, const NetworkScratch& scratch, int64_t index, int64_t first) {
    int64_t step = network.layers[index].loop ? first / scratch.sequences : 0;
    return scratch.layers[index] + step * scratch.step_sizes[index];
}

// From the observations to all values.
template <class Set>
KERNEL_FN void network_forward(const Network& network, const NetworkScratch& scratch) {
    for (int64_t begin = 0, end; begin < network.num_layers; begin = end) {
        end = network_group(network, begin);
        int64_t together = network_together(network, scratch, begin);
        for (int64_t first = 0; first < scratch.rows; first += together) {
            int64_t count = matmul_part(scratch.rows - first, together);
            for (int64_t i = begin; i < end; i++) {
                LayerRows rows = network_rows(network, scratch, i, first, count);
                float* memory = network_memory(network, scratch, i, first);
                layer_visit(network.layers[i], LayerForward<Set>{network, memory, rows});
            }
        }
    }
}

#define NETWORK_FORWARD_OF_SET(attribute, Set)                                                                  \
    attribute __attribute__((noinline, unused)) static void network_forward_of(Set, const Network& network,     \
                                                                               const NetworkScratch& scratch) { \
        network_forward<Set>(network, scratch);                                                                 \
    }
KERNEL_SETS(NETWORK_FORWARD_OF_SET)
KERNEL_ROUNDING_SETS(NETWORK_FORWARD_OF_SET)

// Adds the gradients that a layer gave beside those of other readers.
KERNEL_FN void network_add(const Network& network, const NetworkScratch& scratch, int64_t index, int64_t first,
                           int64_t count) {
    const Layer& layer = network.layers[index];
    for (int64_t i = 0; i < layer.num_inputs; i++) {
        if (layer.input_gradients[i] != GRADIENT_ADDED) continue;
        float* sum = scratch.gradients[layer.inputs[i]] + first * layer.input_rows[i];
        const float* added = scratch.added[i];
        INDEPENDENT_LANES
        for (int64_t j = 0; j < count * layer.input_rows[i]; j++) sum[j] += added[j];
    }
}

// From the gradients in the decision and the value to the sums of `gradients`, of which these are the first or not.
template <class Set>
KERNEL_FN void network_backward(const Network& network, const NetworkScratch& scratch, float* gradients,
                                bool is_first) {
    for (int64_t end = network.num_layers, begin; end > 0; end = begin) {
        begin = end - 1;
        while (begin > 0 && network_is_together(network.layers[begin - 1], network.layers[begin])) begin--;
        int64_t together = network_together(network, scratch, begin), parts = (scratch.rows - 1) / together + 1;
        bool is_loop = network.layers[begin].loop != 0;
        for (int64_t part = 0; part < parts; part++) {
            int64_t first = (is_loop ? parts - 1 - part : part) * together;
            int64_t count = matmul_part(scratch.rows - first, together);
            for (int64_t i = end - 1; i >= begin; i--) {
                if (!network.layers[i].is_differentiated) continue;
                LayerRows rows = network_rows(network, scratch, i, first, count);
                float* memory = network_memory(network, scratch, i, first);
                rows.is_first = is_first && part == 0;
                layer_visit(network.layers[i], LayerBackward<Set>{network, gradients, memory, rows, false});
                network_add(network, scratch, i, first, count);
            }
        }
        for (int64_t i = begin; is_loop && i < end; i++) {
            if (!network.layers[i].is_differentiated) continue;
            LayerRows rows = network_rows(network, scratch, i, 0, scratch.rows);
            rows.is_first = is_first;
            layer_visit(network.layers[i], LayerBackward<Set>{network, gradients, scratch.layers[i], rows, true});
        }
    }
}

// Of one row: logits or means, and the value.
struct NetworkOutput {
    float *decision, *value;
};

KERNEL_FN NetworkOutput network_output(const Network& network, float* const* values, int64_t row) {
    const Layer &decision = network.layers[network.decision - 1], &value = network.layers[network.value - 1];
    return {values[network.decision] + row * decision.row,
            values[network.value] + row * value.row + network.value_place};
}

// Whether the decisions hold only the allowed logits, side by side.
KERNEL_FN bool network_is_by_choices(const Network& network, const NetworkScratch& scratch) {
    return scratch.choices.places != nullptr && network.layers[network.decision - 1].by_choices;
}

// Leaves the decisions and values where the loss replaces them by its gradient, and zeros beside them, and where states
// add their gradients. Decisions by choices stay where they are.
KERNEL_FN void network_copy_outputs(const Network& network, NetworkScratch& scratch) {
    int64_t decision = network.decision, value = network.value;
    for (int64_t i = 0; i < network.num_layers; i++) {
        int64_t left = network.layers[i].kind == LAYER_STATE ? network.layers[i].inputs[0] : 0;
        if (left == 0) continue;
        memset(scratch.gradients[left], 0, scratch.rows * network.layers[left - 1].row * sizeof(float));
    }
    bool is_by_choices = network_is_by_choices(network, scratch);
    if (is_by_choices) {
        scratch.gradients[decision] = scratch.values[decision];
    } else {
        memset(scratch.gradients[decision], 0, scratch.rows * network.layers[decision - 1].row * sizeof(float));
    }
    if (value != decision) {
        memset(scratch.gradients[value], 0, scratch.rows * network.layers[value - 1].row * sizeof(float));
    }
    for (int64_t row = 0; row < scratch.rows; row++) {
        NetworkOutput source = network_output(network, scratch.values, row);
        NetworkOutput target = network_output(network, scratch.gradients, row);
        if (!is_by_choices) memcpy(target.decision, source.decision, network.decision_numbers * sizeof(float));
        *target.value = *source.value;
    }
}
