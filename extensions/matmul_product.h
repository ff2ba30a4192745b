// matmul_product.h - what a product of matrices is asked for with.
#pragma once

#include "cpu_kernels.h"

// Columns up to a whole number of registers.
KERNEL_FN int64_t matmul_padded(int64_t columns) { return (columns + MATMUL_LANES - 1) / MATMUL_LANES * MATMUL_LANES; }

// Of what is left, what is taken together.
KERNEL_FN int64_t matmul_part(int64_t left, int64_t most) { return left < most ? left : most; }

// One matrix times another, row by row in memory; all pointers are borrowed.
//
// Element (r, k) of the left matrix is left[r * left_row + k * left_inner], so that it may also be given transposed.
struct Matmul {
    const float* left;  // [rows, inner]
    int64_t left_row, left_inner;
    const float* right;  // [inner, columns]
    int64_t right_row;
    float* result;  // [rows, columns]
    int64_t result_row;
    int64_t rows, columns, inner;
};
