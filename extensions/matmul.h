// matmul.h - small matrix products out of the nearest cache, as parts of a larger kernel.
//
// A library's product pays off where matrices are large; here they have a few dozen columns and are used at once by
// what follows. A tile of the result stays in registers while the inner dimension runs: of every step's operands one
// row of the right matrix is loaded, and one number of the left for each row of the tile.
//
// A product is one function for every instruction set (instruction_sets.h): it is too large to be inlined wherever it
// is called. Sets that round have products of their own.
#pragma once

#include "instruction_sets.h"
#include "matmul_bfloat16.h"
#include "matmul_product.h"
#include "matmul_tiles.h"

// `count` floats that one register holds.
template <int COUNT>
struct MatmulVector {
    typedef float type __attribute__((vector_size(4 * COUNT), aligned(4), may_alias));
};

// Adds to the result where `IS_SUM`, else replaces it.
template <int COUNT, bool IS_SUM, int ROWS, int VECTORS>
KERNEL_FN void matmul_tile(const Matmul& product, int64_t row, int64_t column) {
    using Vector = typename MatmulVector<COUNT>::type;
    const float* left = product.left + row * product.left_row;
    const float* right = product.right + column;
    float* result = product.result + row * product.result_row + column;
    int64_t left_row = product.left_row, left_inner = product.left_inner, right_row = product.right_row;
    Vector sums[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++) {
        const Vector* start = (const Vector*)(result + r * product.result_row);
        for (int v = 0; v < VECTORS; v++) sums[r][v] = IS_SUM ? start[v] : Vector{};
    }
    for (int64_t k = 0; k < product.inner; k++) {
        const Vector* columns = (const Vector*)(right + k * right_row);
        for (int r = 0; r < ROWS; r++) {
            float factor = left[r * left_row + k * left_inner];
            for (int v = 0; v < VECTORS; v++) sums[r][v] += factor * columns[v];
        }
    }
    for (int r = 0; r < ROWS; r++) {
        Vector* end = (Vector*)(result + r * product.result_row);
        for (int v = 0; v < VECTORS; v++) end[v] = sums[r][v];
    }
}

template <int COUNT, bool IS_SUM, int ROWS, int VECTORS>
KERNEL_FN void matmul_columns(const Matmul& product, int64_t column) {
    int64_t row = 0;
    for (; row + ROWS <= product.rows; row += ROWS) matmul_tile<COUNT, IS_SUM, ROWS, VECTORS>(product, row, column);
    for (; row + 2 <= product.rows; row += 2) matmul_tile<COUNT, IS_SUM, 2, VECTORS>(product, row, column);
    for (; row < product.rows; row++) matmul_tile<COUNT, IS_SUM, 1, VECTORS>(product, row, column);
}

template <class Set, bool IS_SUM>
KERNEL_FN void matmul_float32(const Matmul& product) {
    const int WIDTH = Set::COUNT * Set::VECTORS;
    int64_t column = 0;
    for (; column + WIDTH <= product.columns; column += WIDTH) {
        matmul_columns<Set::COUNT, IS_SUM, Set::ROWS, Set::VECTORS>(product, column);
    }
    for (; column < product.columns; column += Set::COUNT) {
        matmul_columns<Set::COUNT, IS_SUM, Set::ROWS, 1>(product, column);
    }
}

enum { MATMUL_INNER = 1024 };  // of the inner dimension, so much that the columns of a tile stay in the second cache

// In parts of the inner dimension, whose sums go on where the part before left them: as exactly as in one.
#define MATMUL_OF_SET(attribute, Set)                                                                            \
    attribute __attribute__((noinline, unused)) static void matmul_of(Set, bool is_sum, const Matmul& product) { \
        Matmul part = product;                                                                                   \
        int64_t first = 0;                                                                                       \
        do {                                                                                                     \
            part.inner = matmul_part(product.inner - first, MATMUL_INNER);                                       \
            if (is_sum || first > 0) {                                                                           \
                matmul_float32<Set, true>(part);                                                                 \
            } else {                                                                                             \
                matmul_float32<Set, false>(part);                                                                \
            }                                                                                                    \
            part.left += part.inner * part.left_inner;                                                           \
            part.right += part.inner * part.right_row;                                                           \
            first += part.inner;                                                                                 \
        } while (first < product.inner);                                                                         \
    }
KERNEL_SETS(MATMUL_OF_SET)

template <class Set, bool IS_SUM, bool IS_PACKED = false>
KERNEL_FN void matmul(const Matmul& product) {
    if constexpr (Set::ROUNDS) {
        if (kernel_has_tiles()) {
            matmul_tiles<IS_SUM, IS_PACKED>(product);
        } else {
            matmul_bfloat16<IS_SUM, IS_PACKED>(product);
        }
    } else {
        matmul_of(Set{}, IS_SUM, product);
    }
}

// The same where the right matrix is one of weights, which were packed for the set (packed_matrix.h).
template <class Set, bool IS_SUM>
KERNEL_FN void matmul_packed(const Matmul& product) {
    matmul<Set, IS_SUM, true>(product);
}
