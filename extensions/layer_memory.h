// layer_memory.h - memory for layers, and copies of their gradients without its padding.
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

// Copies rows of `columns` numbers, `row` floats apart, to where they are one after the other; nothing where `result`
// is NULL, as below.
KERNEL_FN void copy_rows(const float* first, int64_t rows, int64_t columns, int64_t row, float* result) {
    for (int64_t i = 0; result != nullptr && i < rows; i++) {
        memcpy(result + i * columns, first + i * row, columns * sizeof(float));
    }
}

// Writes the first `columns` of rows of `row` numbers as columns.
KERNEL_FN void copy_transposed(const float* first, int64_t rows, int64_t columns, int64_t row, float* result) {
    for (int64_t column = 0; result != nullptr && column < columns; column++) {
        for (int64_t i = 0; i < rows; i++) result[column * rows + i] = first[i * row + column];
    }
}
