// matmul_product.h - what a product of matrices is asked for with.
#pragma once

#include "cpu_kernels.h"

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
