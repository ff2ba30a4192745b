// matmul_bfloat16.h - the products of matmul.h with factors rounded to bfloat16, twice as many at a time.
//
// VDPBF16PS multiplies sixteen pairs of bfloat16 by sixteen others and adds both products of each to a sum in float32.
// A pair is two neighbours along the inner dimension, so a right matrix is read as rows of pairs, [(inner + 1) / 2,
// columns], where the last row of an odd inner dimension is paired with zeros. Left matrices are rounded part by part,
// into memory that stays in the nearest cache; right ones likewise, but for weights, which come packed.
//
// A function of a product is not inlined: its instructions are not those that its callers are compiled for.
#pragma once

#include "instruction_sets.h"
#include "matmul_product.h"

#if defined(KERNEL_AVX512_BFLOAT16)
#include <immintrin.h>

#define BFLOAT16_FN static inline __attribute__((target(KERNEL_AVX512_SETS ",avx512bf16"), always_inline))

enum { BFLOAT16_PAIRS = 64 };     // of the inner dimension that are rounded together
enum { BFLOAT16_ROWS = 96 };      // of the left matrix, a multiple of the rows of a tile and of a register
enum { BFLOAT16_COLUMNS = 256 };  // of the right matrix, where it does not come packed

// Some rows or columns of a matrix as pairs; those along the inner dimension are `pair` apart, the others `row`.
struct Bfloat16Part {
    const uint32_t* pairs;
    int64_t row, pair;
};

// Pairs from two rows of up to sixteen floats, of which the mask says those that are there; `second` may be missing.
BFLOAT16_FN __m512i bfloat16_pair_rows(const float* first, const float* second, __mmask16 mask) {
    __m512 low = _mm512_maskz_loadu_ps(mask, first);
    __m512 high = second == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, second);
    const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(turns, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

BFLOAT16_FN __mmask16 bfloat16_mask(int64_t count) { return (__mmask16)(count >= 16 ? 0xffffu : (1u << count) - 1u); }

// Pairs of `inner` rows of `columns` floats: [(inner + 1) / 2, padded columns].
BFLOAT16_FN void bfloat16_round_rows(const float* source, int64_t row, int64_t inner, int64_t columns, int64_t padded,
                                     uint32_t* target) {
    for (int64_t k = 0; k < inner; k += 2) {
        const float *first = source + k * row, *second = k + 1 < inner ? first + row : nullptr;
        for (int64_t i = 0; i < columns; i += 16) {
            const float* other = second == nullptr ? nullptr : second + i;
            __m512i pairs = bfloat16_pair_rows(first + i, other, bfloat16_mask(columns - i));
            _mm512_storeu_si512(target + k / 2 * padded + i, pairs);
        }
    }
}

// Pairs of neighbours in `rows` rows of `inner` floats: [rows, BFLOAT16_PAIRS].
BFLOAT16_FN void bfloat16_round_neighbours(const float* source, int64_t row, int64_t rows, int64_t inner,
                                           uint32_t* target) {
    for (int64_t r = 0; r < rows; r++) {
        const float* numbers = source + r * row;
        for (int64_t k = 0; k < inner; k += 32) {
            __m512 low = _mm512_maskz_loadu_ps(bfloat16_mask(inner - k), numbers + k);
            __mmask16 rest = inner - k > 16 ? bfloat16_mask(inner - k - 16) : (__mmask16)0;
            __m512 high = _mm512_maskz_loadu_ps(rest, numbers + k + 16);
            _mm512_storeu_si512(target + r * BFLOAT16_PAIRS + k / 2, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
    }
}

// The left matrix from `row` and `inner` on.
BFLOAT16_FN Bfloat16Part bfloat16_left(const Matmul& product, int64_t row, int64_t rows, int64_t inner, int64_t count,
                                       uint32_t* memory) {
    const float* source = product.left + row * product.left_row + inner * product.left_inner;
    if (product.left_inner == 1) {
        bfloat16_round_neighbours(source, product.left_row, rows, count, memory);
        return {memory, BFLOAT16_PAIRS, 1};
    }
    bfloat16_round_rows(source, product.left_inner, count, rows, BFLOAT16_ROWS, memory);
    return {memory, 1, BFLOAT16_ROWS};
}

// Parts of both matrices, and where their product belongs.
struct Bfloat16Product {
    Bfloat16Part left, right;
    int64_t rows, columns, pairs;
    bool is_sum;  // added to what is there
    float* result;
    int64_t result_row;

    Bfloat16Product from(int64_t row, int64_t column) const {
        Bfloat16Product rest = *this;
        rest.left.pairs += row * left.row;
        rest.right.pairs += column * right.row;
        rest.result += row * result_row + column;
        return rest;
    }
};

template <int ROWS, int VECTORS>
BFLOAT16_FN void bfloat16_tile(const Bfloat16Product& product) {
    const Bfloat16Part &left = product.left, &right = product.right;
    float* result = product.result;
    int64_t result_row = product.result_row;
    __m512 sums[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++) {
        for (int v = 0; v < VECTORS; v++) {
            sums[r][v] = product.is_sum ? _mm512_loadu_ps(result + r * result_row + 16 * v) : _mm512_setzero_ps();
        }
    }
    for (int64_t k = 0; k < product.pairs; k++) {
        __m512bh columns[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            columns[v] = (__m512bh)_mm512_loadu_si512(right.pairs + k * right.pair + 16 * v);
        }
        for (int r = 0; r < ROWS; r++) {
            __m512bh factor = (__m512bh)_mm512_set1_epi32((int)left.pairs[r * left.row + k * left.pair]);
            for (int v = 0; v < VECTORS; v++) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], factor, columns[v]);
        }
    }
    for (int r = 0; r < ROWS; r++) {
        for (int v = 0; v < VECTORS; v++) _mm512_storeu_ps(result + r * result_row + 16 * v, sums[r][v]);
    }
}

// Columns from `column` on, 16 * VECTORS at a time; returns the first that is left.
template <int VECTORS>
BFLOAT16_FN int64_t bfloat16_columns(const Bfloat16Product& product, int64_t column) {
    const int ROWS = Avx512::ROWS, WIDTH = 16 * VECTORS;
    for (; column + WIDTH <= product.columns; column += WIDTH) {
        int64_t row = 0;
        for (; row + ROWS <= product.rows; row += ROWS) bfloat16_tile<ROWS, VECTORS>(product.from(row, column));
        for (; row + 2 <= product.rows; row += 2) bfloat16_tile<2, VECTORS>(product.from(row, column));
        if (row < product.rows) bfloat16_tile<1, VECTORS>(product.from(row, column));
    }
    return column;
}

// What a part of the right matrix, `count` of the inner dimension from `inner` on, adds to columns of the result.
BFLOAT16_FN void bfloat16_multiply(const Matmul& product, Bfloat16Product part, int64_t inner, int64_t count) {
    alignas(64) uint32_t memory[BFLOAT16_ROWS * BFLOAT16_PAIRS];
    float* result = part.result;
    part.pairs = (count + 1) / 2;
    part.result_row = product.result_row;
    for (int64_t row = 0; row < product.rows; row += BFLOAT16_ROWS) {
        part.rows = matmul_part(product.rows - row, BFLOAT16_ROWS);
        part.left = bfloat16_left(product, row, part.rows, inner, count, memory);
        part.result = result + row * product.result_row;
        bfloat16_columns<1>(part, bfloat16_columns<Avx512::VECTORS>(part, 0));
    }
}

// Adds to the result where `IS_SUM`, else replaces it. The right matrix is float32, or pairs where it `IS_PACKED`:
// [(inner + 1) / 2, right_row].
template <bool IS_SUM, bool IS_PACKED>
KERNEL_AVX512_BFLOAT16 __attribute__((noinline)) static void matmul_bfloat16(const Matmul& product) {
    alignas(64) uint32_t memory[IS_PACKED ? 1 : BFLOAT16_PAIRS * BFLOAT16_COLUMNS];
    for (int64_t inner = 0; inner < product.inner; inner += 2 * BFLOAT16_PAIRS) {
        int64_t count = matmul_part(product.inner - inner, 2 * BFLOAT16_PAIRS);
        Bfloat16Product part = {};
        part.is_sum = IS_SUM || inner > 0;
        if (IS_PACKED) {
            const uint32_t* weights = (const uint32_t*)product.right + inner / 2 * product.right_row;
            part.right = {weights, 1, product.right_row};
            part.columns = product.columns;
            part.result = product.result;
            bfloat16_multiply(product, part, inner, count);
            continue;
        }
        for (int64_t column = 0; column < product.columns; column += BFLOAT16_COLUMNS) {
            const float* source = product.right + inner * product.right_row + column;
            part.right = {memory, 1, BFLOAT16_COLUMNS};
            part.columns = matmul_part(product.columns - column, BFLOAT16_COLUMNS);
            part.result = product.result + column;
            bfloat16_round_rows(source, product.right_row, count, part.columns, BFLOAT16_COLUMNS, memory);
            bfloat16_multiply(product, part, inner, count);
        }
    }
}
#else
template <bool IS_SUM, bool IS_PACKED>
static void matmul_bfloat16(const Matmul&);  // of no set there is
#endif
