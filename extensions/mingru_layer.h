// mingru_layer.h - a MinGRU layer with its product on a block of sequences, forward and backward.
//
// Row by row, the steps of a sequence one after the other. Forward replaces the products by the activations of the
// gates, from which backward computes the gradients without another exponential.
#pragma once

#include "layer.h"
#include "matmul.h"
#include "mingru_row.h"

// All pointers are borrowed; rows are those of the block. Width is a multiple of MATMUL_LANES.
typedef struct {
    const float* input;       // [rows, width]
    const float* transposed;  // [width, 3 * width], the weights, packed
    const uint8_t* reset;     // [rows], nonzero where the state counts as 0 before the step; or NULL
    const float* initial;     // [sequences, width]
    float* gates;             // [rows, 3 * width], becomes f, z and s of mingru_row.h
    float *states, *output;   // [rows, width]; states may be `initial` itself when there is one step
} MingruForward;

KERNEL_FN void mingru_forward_row(const MingruForward& layer, int64_t row, const float* previous, int64_t width) {
    float *candidate = layer.gates + row * 3 * width, *gate = candidate + width, *highway = gate + width;
    const float* x = layer.input + row * width;
    float *states = layer.states + row * width, *output = layer.output + row * width;
    uint32_t kept = mingru_kept(layer.reset, row);
    INDEPENDENT_LANES
    for (int64_t lane = 0; lane < width; lane++) {
        float f = mingru_candidate(candidate[lane]).value;
        float z = mingru_sigmoid(gate[lane]).value, s = mingru_sigmoid(highway[lane]).value;
        float before = mingru_keep(previous[lane], kept);
        float state = before + z * (f - before);
        candidate[lane] = f;
        gate[lane] = z;
        highway[lane] = s;
        states[lane] = state;
        output[lane] = x[lane] + s * (state - x[lane]);
    }
}

template <class Set>
KERNEL_FN void mingru_forward(const MingruForward& layer, int64_t sequences, int64_t steps, int64_t width) {
    int64_t rows = sequences * steps, columns = 3 * width;
    matmul_packed<Set, false>(
        {layer.input, width, 1, layer.transposed, columns, layer.gates, columns, rows, columns, width});
    for (int64_t sequence = 0; sequence < sequences; sequence++) {
        const float* previous = layer.initial + sequence * width;
        for (int64_t row = sequence * steps; row < (sequence + 1) * steps; row++) {
            mingru_forward_row(layer, row, previous, width);
            previous = layer.states + row * width;
        }
    }
}

typedef struct {
    const float *input, *weights;  // weights: [3 * width, width], packed
    const uint8_t* reset;
    const float *initial, *gates, *states;  // as mingru_forward left them
    const float* grad_output;               // [rows, width]
    float* grad_gates;                      // [rows, 3 * width], scratch
    float* grad_input;                      // [rows, width]
    float* carry;                           // [width], scratch: the gradient on its way from step to step
    float* grad_weights;                    // [3 * width, width], added to
} MingruBackward;

KERNEL_FN void mingru_backward_row(const MingruBackward& layer, int64_t row, const float* previous, int64_t width) {
    const float *candidate = layer.gates + row * 3 * width, *gate = candidate + width, *highway = gate + width;
    const float *x = layer.input + row * width, *states = layer.states + row * width;
    const float* grad_output = layer.grad_output + row * width;
    float *grad_candidate = layer.grad_gates + row * 3 * width, *grad_gate = grad_candidate + width;
    float *grad_highway = grad_gate + width, *grad_input = layer.grad_input + row * width, *carry = layer.carry;
    uint32_t kept = mingru_kept(layer.reset, row);
    INDEPENDENT_LANES
    for (int64_t lane = 0; lane < width; lane++) {
        float f = candidate[lane], z = gate[lane], s = highway[lane];
        // Below 0.5 the candidate was negative and f its sigmoid.
        MingruGradient gradient =
            mingru_chain({f, f < 0.5f ? f * (1.0f - f) : 1.0f}, {z, 1.0f - z}, {s, 1.0f - s}, x[lane],
                         mingru_keep(previous[lane], kept), states[lane], grad_output[lane], carry[lane]);
        grad_candidate[lane] = gradient.candidate;
        grad_gate[lane] = gradient.gate;
        grad_highway[lane] = gradient.highway;
        grad_input[lane] = gradient.x;
        carry[lane] = mingru_keep(gradient.previous, kept);
    }
}

template <class Set>
KERNEL_FN void mingru_backward(const MingruBackward& layer, int64_t sequences, int64_t steps, int64_t width) {
    int64_t rows = sequences * steps, columns = 3 * width;
    for (int64_t sequence = 0; sequence < sequences; sequence++) {
        memset(layer.carry, 0, width * sizeof(float));
        int64_t first = sequence * steps;
        for (int64_t row = first + steps - 1; row >= first; row--) {
            const float* previous = row == first ? layer.initial + sequence * width : layer.states + (row - 1) * width;
            mingru_backward_row(layer, row, previous, width);
        }
    }
    const float* gradient = layer.grad_gates;
    matmul_packed<Set, true>(
        {gradient, columns, 1, layer.weights, width, layer.grad_input, width, rows, width, columns});
    matmul<Set, true>({gradient, 1, columns, layer.input, width, layer.grad_weights, width, columns, width, rows});
}

// sizes: the units, of the input as well. parameters: the weights [3 * units, units]. One state.
struct MingruOp : LayerOp {
    int64_t units, width;
    PackedWeights weights;
    float* grad_weights;
    float *gates, *states, *grad_gates, *carry;
    float* grad_input;  // where it is not wanted

    KERNEL_METHOD explicit MingruOp(const Layer& description)
        : LayerOp(description), units(layer.sizes[0]), width(layer.row) {}

    KERNEL_METHOD void take_packed(LayerMemory& memory) {
        weights = packed_take(width, width, 3 * width, 3 * width, is_rounded(), memory);
    }

    KERNEL_METHOD void take_gradients(LayerMemory& memory) { grad_weights = memory.take(3 * width * width); }

    KERNEL_METHOD void take_scratch(const LayerRows& rows, LayerMemory& memory) {
        gates = memory.take(rows.count * 3 * width);
        states = memory.take(rows.count * width);
        grad_gates = memory.take(rows.count * 3 * width);
        carry = memory.take(width);
        grad_input = memory.take(wants_gradient(0) ? 0 : rows.count * width);
    }

    KERNEL_METHOD void pack(const PackShare&) const { pack_groups(weights, layer.parameters[0], 3, units, units); }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        MingruForward call = {};
        call.input = rows.inputs[0];
        call.transposed = weights.forward.memory;
        call.reset = rows.reset;
        call.initial = rows.states[0];
        call.gates = gates;
        call.states = rows.reset == nullptr ? rows.states[0] : states;
        call.output = rows.output;
        mingru_forward<Set>(call, rows.sequences, rows.steps, width);
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        MingruBackward call = {};
        call.input = rows.inputs[0];
        call.weights = weights.backward.memory;
        call.reset = rows.reset;
        call.initial = rows.states[0];
        call.gates = gates;
        call.states = states;
        call.grad_output = rows.grad_output;
        call.grad_gates = grad_gates;
        call.grad_input = wants_gradient(0) ? rows.grad_inputs[0] : grad_input;
        call.carry = carry;
        call.grad_weights = grad_weights;
        mingru_backward<Set>(call, rows.sequences, rows.steps, width);
    }

    KERNEL_METHOD void write_gradients() const { copy_groups(grad_weights, 3, units, units, width, layer.results[0]); }
};
