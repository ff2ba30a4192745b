// layer.h - what the kinds of layers have in common: the memory that each asks for, and what it reads and writes.
//
// A kind is a struct over a Layer of cpu_kernels.h that derives from LayerOp and replaces what it needs of it. A new
// kind is a header like linear_layer.h, a constant of cpu_kernels.h, a line in the table of network.h, and a class of
// network_layers.py. Which of torch's modules or operations it stands for is said in fast/traced_layers.py or
// traced_operations.py, and how the C export writes it in export/c_layers.py and puffernet.h.
#pragma once

#include "packed_matrix.h"

enum { LAYER_LARGE = 1 << 16 };  // weights that no nearer cache holds

// The logits of a decision that a mask allows, for every row. Where it allows none of a part, the first one stands
// here, so that a part has one at least.
struct Choices {
    int32_t* places;  // [rows, logits], those of the allowed ones in the decision, part after part, or NULL for all
    int32_t* ends;    // [rows, parts], where the places of each part end
    int64_t logits, parts;  // of a decision

    KERNEL_METHOD Choices from(int64_t row) const {
        if (places == nullptr) return *this;
        return {places + row * logits, ends + row * parts, logits, parts};
    }

    // How many the first row has, as do the next two.
    KERNEL_METHOD int64_t count() const { return ends[parts - 1]; }

    // Moves the allowed logits to the front, in their order.
    KERNEL_METHOD void gather(float* decision) const {
        for (int64_t i = 0; i < count(); i++) decision[i] = decision[places[i]];
    }

    // Moves them back, and writes zeros between them.
    KERNEL_METHOD void scatter(float* decision) const {
        int64_t end = logits;
        for (int64_t i = count() - 1; i >= 0; i--) {
            int64_t place = places[i];
            float number = decision[i];
            for (int64_t j = place + 1; j < end; j++) decision[j] = 0.0f;
            decision[place] = number;
            end = place;
        }
        for (int64_t j = 0; j < end; j++) decision[j] = 0.0f;
    }
};

// Rows of a block, `sequences` of `steps` each. All pointers are borrowed. Padding of inputs holds finite numbers, and
// so must that of outputs.
struct LayerRows {
    int64_t sequences, steps, count;
    int64_t first;                          // rows of the block before these
    const uint8_t* reset;                   // [count], nonzero where states count as 0 before the step; or NULL for a
                                            // single step without resets
    bool is_first;                          // whether a chunk begins: gradients that LayerOp::overwritten counts are
                                            // written, and not added to
    const float* inputs[LAYER_MAX_INPUTS];  // [count, input_rows[i]] each
    const int32_t* columns;                 // instead of the first input where it is of categories: [count, cells]
    float* output;                          // [count, row]
    float* grad_output;                     // likewise, backward may overwrite it
    float* grad_inputs[LAYER_MAX_INPUTS];   // as inputs, to be written; NULL where the gradient is not wanted
    Choices choices;                        // of a layer by_choices, whose output, and the gradient of that, have the
                                            // allowed logits side by side at the front
    float* states[LAYER_MAX_STATES];        // [sequences, padded units] before the first step; a single step without
                                            // resets leaves those after it
};

// What a thread packs of a layer: of every `count` blocks of outputs the one at `index`.
struct PackShare {
    int64_t index, count;
};

struct LayerOp {
    static constexpr bool IS_SHARED = false;    // whether threads share the packing of it
    static constexpr bool HAS_PRODUCTS = true;  // whether it multiplies matrices, so that rounding is a question
    static constexpr bool IS_SPLIT = false;     // whether backward has two parts, so that a loop over steps takes the
                                                // gradients of parameters of all steps at once, at its end
    const Layer& layer;

    KERNEL_METHOD explicit LayerOp(const Layer& description) : layer(description) {}

    // Its copy of the parameters, as products read them.
    KERNEL_METHOD void take_packed(LayerMemory&) {}

    // The gradients of the parameters, summed over a chunk.
    KERNEL_METHOD void take_gradients(LayerMemory&) {}

    // How many of these, from the first on, the first backward of a chunk writes; the others are zeros before it.
    KERNEL_METHOD int64_t overwritten() const { return 0; }

    // What forward leaves for backward, and what they work in.
    KERNEL_METHOD void take_scratch(const LayerRows&, LayerMemory&) {}

    // Copies the parameters as they are now; where it IS_SHARED, those of a share.
    KERNEL_METHOD void pack(const PackShare&) const {}

    // Writes the gradients as torch has them, from those that it took.
    KERNEL_METHOD void write_gradients() const {}

    // Also, as templates over the sets of instruction_sets.h:
    //     void forward<Set>(const LayerRows& rows) const    from the inputs to the output
    //     void backward<Set>(const LayerRows& rows) const   from grad_output to grad_inputs, adding to the gradients
    // and where it IS_SPLIT, the parts of the last one:
    //     void backward_rows<Set>(const LayerRows& rows) const          writes grad_inputs
    //     void backward_parameters<Set>(const LayerRows& rows) const    adds to the gradients, after it

    KERNEL_METHOD bool wants_gradient(int64_t input) const { return layer.input_gradients[input] != GRADIENT_NONE; }

    KERNEL_METHOD bool is_rounded() const { return layer.products == PRODUCTS_BFLOAT16; }
};

// Packs the weights of an output.
template <class PlaceInput>
KERNEL_FN void pack_output(const PackedWeights& packed, const float* weights, int64_t inputs, int64_t output,
                           const PlaceInput& place_input) {
    const PackedMatrix &forward = packed.forward, &backward = packed.backward;
    if (forward.is_rounded) {
        for (int64_t i = 0; i < inputs; i++) packed_set(packed, place_input(i), output, weights[i]);
        return;
    }
    float *column = forward.memory + output, *row = backward.memory + output * backward.columns;
    for (int64_t i = 0; i < inputs; i++) column[place_input(i) * forward.columns] = weights[i];
    for (int64_t i = 0; i < inputs && backward.columns > 0; i++) row[place_input(i)] = weights[i];
}

// Packs torch's [outputs, inputs]; `place_output` and `place_input` say where each is among those of the packed
// weights. Where no nearer cache holds them, outputs are taken together that fill one of its lines in a row of the
// transposed weights.
template <class PlaceOutput, class PlaceInput>
KERNEL_FN void pack_weights(const PackedWeights& packed, const float* weights, int64_t outputs, int64_t inputs,
                            const PlaceOutput& place_output, const PlaceInput& place_input, const PackShare& share) {
    enum { TOGETHER = 16 };
    if (outputs * inputs < LAYER_LARGE) {
        for (int64_t output = share.index; output < outputs; output += share.count) {
            pack_output(packed, weights + output * inputs, inputs, place_output(output), place_input);
        }
        return;
    }
    int64_t places[TOGETHER];
    for (int64_t first = share.index * TOGETHER; first < outputs; first += share.count * TOGETHER) {
        const float* source = weights + first * inputs;
        int64_t count = matmul_part(outputs - first, TOGETHER);
        for (int64_t i = 0; i < count; i++) places[i] = place_output(first + i);
        for (int64_t input = 0; input < inputs; input++) {
            int64_t place = place_input(input);
            for (int64_t i = 0; i < count; i++) packed_set(packed, place, places[i], source[i * inputs + input]);
        }
    }
}

// Packs torch's [groups * units, inputs] so that every group fills a whole number of registers of outputs.
KERNEL_FN void pack_groups(const PackedWeights& packed, const float* weights, int64_t groups, int64_t units,
                           int64_t inputs, const PackShare& share = {0, 1}) {
    auto place_output = [&](int64_t row) { return row / units * matmul_padded(units) + row % units; };
    pack_weights(packed, weights, groups * units, inputs, place_output, [](int64_t input) { return input; }, share);
}

// Adds a bias to what is there, or nothing where it is NULL.
KERNEL_FN void pack_bias(float* packed, const float* bias, int64_t groups, int64_t units) {
    for (int64_t i = 0; bias != nullptr && i < groups * units; i++) {
        packed[i / units * matmul_padded(units) + i % units] += bias[i];
    }
}

// Copies the gradients of groups of `units` rows; nothing where `result` is NULL.
KERNEL_FN void copy_groups(const float* first, int64_t groups, int64_t units, int64_t columns, int64_t row,
                           float* result) {
    for (int64_t group = 0; result != nullptr && group < groups; group++) {
        const float* source = first + group * matmul_padded(units) * row;
        copy_rows(source, units, columns, row, result + group * units * columns);
    }
}
