// layer_memory.h - memory for layers, and sums of the gradients that the chunks of a minibatch gave.
#pragma once

#include <string.h>

#include "matmul_product.h"

// Hands out pieces of memory one after the other, on register boundaries; without memory it only counts.
struct LayerMemory {
    float* base;
    int64_t used;

    float* take(int64_t count) {
        float* piece = base == nullptr ? nullptr : base + used;
        used += matmul_padded(count);
        return piece;
    }

    // The next piece, without taking it.
    float* here() { return take(0); }
};

// The gradients of chunks, each `stride` floats after the one before.
struct GradientChunks {
    int64_t count, stride;
};

// Sums rows of `columns` numbers, `row` floats apart, over all chunks; nothing where `result` is NULL, as below.
KERNEL_FN void sum_chunks(const GradientChunks& chunks, const float* first, int64_t rows, int64_t columns, int64_t row,
                          float* result) {
    for (int64_t i = 0; result != nullptr && i < rows; i++) {
        memcpy(result + i * columns, first + i * row, columns * sizeof(float));
        for (int64_t chunk = 1; chunk < chunks.count; chunk++) {
            const float* source = first + chunk * chunks.stride + i * row;
            INDEPENDENT_LANES
            for (int64_t j = 0; j < columns; j++) result[i * columns + j] += source[j];
        }
    }
}

// Leaves `first` with the sums of `count` numbers over all chunks.
KERNEL_FN void sum_chunks_in_place(const GradientChunks& chunks, float* first, int64_t count) {
    for (int64_t chunk = 1; chunk < chunks.count; chunk++) {
        const float* source = first + chunk * chunks.stride;
        INDEPENDENT_LANES
        for (int64_t i = 0; i < count; i++) first[i] += source[i];
    }
}

// Sums rows of `row` numbers over all chunks, and writes the first `columns` as columns; `first` is left with the sums.
KERNEL_FN void sum_transposed_chunks(const GradientChunks& chunks, float* first, int64_t rows, int64_t columns,
                                     int64_t row, float* result) {
    sum_chunks_in_place(chunks, first, rows * row);
    for (int64_t column = 0; result != nullptr && column < columns; column++) {
        for (int64_t i = 0; i < rows; i++) result[column * rows + i] = first[i * row + column];
    }
}
