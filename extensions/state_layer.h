// state_layer.h - an entry of the recurrent state: what another layer left there in the step before.
//
//     output_t = 0 where an episode begins, else input_{t-1}    output_0 = the state before the first step, likewise
//
// The input may be of a layer that comes later in the list, and reads this one: then all layers between them are a
// loop, which network.h computes step by step. Rows lie step by step.
#pragma once

#include <string.h>

#include "layer.h"

// One state, of `layer.units`. After a single step without resets network.h copies the input into it.
struct StateOp : LayerOp {
    int64_t units, width;

    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit StateOp(const Layer& description)
        : LayerOp(description), units(layer.units), width(layer.row) {}

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        for (int64_t i = 0; i < rows.count; i++) {
            bool is_first = rows.first + i < rows.sequences, is_kept = rows.reset == nullptr || !rows.reset[i];
            const float* before = rows.inputs[0] + (i - rows.sequences) * width;
            const float* source = is_first ? rows.states[0] + i * width : before;
            float* target = rows.output + i * width;
            if (is_kept) memcpy(target, source, units * sizeof(float));
            int64_t kept = is_kept ? units : 0;
            memset(target + kept, 0, (width - kept) * sizeof(float));
        }
    }

    // Adds to the gradient in the input, which is zeros or what the loss left at first.
    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        if (!wants_gradient(0)) return;
        for (int64_t i = 0; i < rows.count; i++) {
            if (rows.first + i < rows.sequences || rows.reset[i]) continue;
            float* target = rows.grad_inputs[0] + (i - rows.sequences) * width;
            const float* source = rows.grad_output + i * width;
            INDEPENDENT_LANES
            for (int64_t lane = 0; lane < units; lane++) target[lane] += source[lane];
        }
    }
};
