// packed_matrix.h - weights as products read them: rounded where the set rounds, and padded with the zeros that their
// memory had at first.
#pragma once

#include "instruction_sets.h"
#include "layer_memory.h"

// A right matrix: float32 row by row, [inner, columns], or pairs of bfloat16 as matmul_bfloat16.h has them, or, where
// the processor has tiles, matmul_tiles.h.
struct PackedMatrix {
    float* memory;  // [packed_size], of which pairs leave half alone
    int64_t inner, columns;
    bool is_rounded;
};

// Enough for whole tiles of 32 of the inner dimension, two of which share the place of a float.
KERNEL_FN int64_t packed_size(int64_t inner, int64_t columns) { return (inner < 16 ? 16 : inner) * columns; }

// The nearest, the even one of two; NaN stays NaN.
KERNEL_FN uint16_t packed_round(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    if (number != number) return 0x7fc0;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

KERNEL_FN void packed_set(const PackedMatrix& matrix, int64_t inner, int64_t column, float number) {
    if (!matrix.is_rounded) {
        matrix.memory[inner * matrix.columns + column] = number;
        return;
    }
    uint16_t half = packed_round(number);
    int64_t pair = inner / 2 * matrix.columns + column;
    if (kernel_has_tiles()) {
        int64_t tile = column / 16 * ((matrix.inner + 31) / 32) + inner / 32;
        pair = tile * 256 + inner % 32 / 2 * 16 + column % 16;
    }
    memcpy((char*)(matrix.memory + pair) + inner % 2 * sizeof(half), &half, sizeof(half));
}

// The weights of a layer: transposed for forward, [inputs, outputs], and as torch has them for backward, [outputs,
// inputs].
struct PackedWeights {
    PackedMatrix forward, backward;
};

// `padded_inputs` are 0 where nobody asks for the gradient in the inputs.
KERNEL_FN PackedWeights packed_take(int64_t inputs, int64_t padded_inputs, int64_t outputs, int64_t padded_outputs,
                                    bool is_rounded, LayerMemory& memory) {
    return {{memory.take(packed_size(inputs, padded_outputs)), inputs, padded_outputs, is_rounded},
            {memory.take(packed_size(outputs, padded_inputs)), outputs, padded_inputs, is_rounded}};
}

KERNEL_FN void packed_set(const PackedWeights& weights, int64_t input, int64_t output, float number) {
    packed_set(weights.forward, input, output, number);
    if (weights.backward.columns > 0) packed_set(weights.backward, output, input, number);
}
