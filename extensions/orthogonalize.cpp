// orthogonalize.cpp - Muon's Newton-Schulz iteration for small matrices on a CPU; see orthogonalize.py.
#include <math.h>
#include <string.h>

#include <atomic>

#include "cpu_kernels.h"
#include "matmul.h"

namespace {

struct Orthogonalization {
    const MuonMatrix* matrices;
    int64_t count, steps;
    float a, b, c;
    std::atomic<int64_t>* next;  // the first matrix that no thread has taken
};

// The transposed matrix, with columns of zeros up to the padding.
KERNEL_FN void transpose(const MuonMatrix& matrix, float* target) {
    for (int64_t column = 0; column < matrix.columns; column++) {
        float* row = target + column * matrix.padded_rows;
        for (int64_t i = 0; i < matrix.padded_rows; i++)
            row[i] = i < matrix.rows ? matrix.x[i * matrix.padded_columns + column] : 0.0f;
    }
}

KERNEL_FN void scale_to_norm_one(const MuonMatrix& matrix) {
    double sum = 0.0;
    int64_t count = matrix.rows * matrix.padded_columns;
    for (int64_t i = 0; i < count; i++) sum += (double)matrix.x[i] * (double)matrix.x[i];
    float norm = (float)sqrt(sum), scale = 1.0f / (norm < 1e-7f ? 1e-7f : norm);
    INDEPENDENT_LANES
    for (int64_t i = 0; i < count; i++) matrix.x[i] *= scale;
}

// x <- a x + (b s + c s s) x with s = x x^T.
template <class Set>
KERNEL_FN void iterate(const Orthogonalization& call, const MuonMatrix& matrix) {
    int64_t rows = matrix.rows, width = matrix.padded_rows, columns = matrix.padded_columns;
    float *transposed = matrix.scratch, *square = transposed + columns * width, *factor = square + rows * width;
    float *x = matrix.x, *next = factor + rows * width;
    transpose(matrix, transposed);
    matmul<Set, false>({x, columns, 1, transposed, width, square, width, rows, width, matrix.columns});
    matmul<Set, false>({square, width, 1, square, width, factor, width, rows, width, rows});
    INDEPENDENT_LANES
    for (int64_t i = 0; i < rows * width; i++) factor[i] = call.b * square[i] + call.c * factor[i];
    INDEPENDENT_LANES
    for (int64_t i = 0; i < rows * columns; i++) next[i] = call.a * x[i];
    matmul<Set, true>({factor, width, 1, x, columns, next, columns, rows, columns, rows});
    memcpy(x, next, rows * columns * sizeof(float));
}

enum {
    WIDE = 4,              // times as many columns as rows, from which on few products with x are worth others
    WIDE_SIZE = 1 << 16,   // of a matrix that is worth it
    STEPS_OF_SQUARES = 3,  // without a new one: the squares of small singular values are 200 times larger by then
};

bool is_wide(const MuonMatrix& matrix) {
    return matrix.columns >= WIDE * matrix.rows && matrix.rows * matrix.columns >= WIDE_SIZE;
}

// The same several times, with two products with x in all. As f = a + b s + c s s commutes with s, a step makes f x of
// x and f s f of s, and all of them p x, with p the product of the f.
template <class Set>
KERNEL_FN void iterate_squares(const Orthogonalization& call, const MuonMatrix& matrix, int64_t steps) {
    int64_t rows = matrix.rows, width = matrix.padded_rows, columns = matrix.padded_columns, size = rows * width;
    float *square = matrix.scratch + columns * width, *factor = square + size, *next = factor + size;
    float *transposed = matrix.scratch, *power = transposed, *product = transposed + size;  // once it was read
    transpose(matrix, transposed);
    matmul<Set, false>({matrix.x, columns, 1, transposed, width, square, width, rows, width, matrix.columns});
    for (int64_t step = 0; step < steps; step++) {
        matmul<Set, false>({square, width, 1, square, width, factor, width, rows, width, rows});
        INDEPENDENT_LANES
        for (int64_t i = 0; i < size; i++) factor[i] = call.b * square[i] + call.c * factor[i];
        for (int64_t i = 0; i < rows; i++) factor[i * width + i] += call.a;
        if (step == 0) {
            memcpy(power, factor, size * sizeof(float));
        } else {
            matmul<Set, false>({factor, width, 1, power, width, product, width, rows, width, rows});
            memcpy(power, product, size * sizeof(float));
        }
        if (step == steps - 1) break;
        matmul<Set, false>({factor, width, 1, square, width, product, width, rows, width, rows});
        matmul<Set, false>({product, width, 1, factor, width, square, width, rows, width, rows});
    }
    matmul<Set, false>({power, width, 1, matrix.x, columns, next, columns, rows, columns, rows});
    memcpy(matrix.x, next, rows * columns * sizeof(float));
}

// Each thread takes one matrix after another until none is left, whatever part of the range it was given.
template <class Set>
KERNEL_FN void orthogonalize(const Orthogonalization& call, int64_t, int64_t) {
    for (int64_t i; (i = call.next->fetch_add(1, std::memory_order_relaxed)) < call.count;) {
        const MuonMatrix& matrix = call.matrices[i];
        int64_t together = is_wide(matrix) ? (int64_t)STEPS_OF_SQUARES : 1;
        scale_to_norm_one(matrix);
        for (int64_t step = 0; step < call.steps; step += together) {
            if (together == 1) {
                iterate<Set>(call, matrix);
            } else {
                iterate_squares<Set>(call, matrix, matmul_part(call.steps - step, together));
            }
        }
    }
}

KERNEL_VARIANTS(orthogonalize, Orthogonalization)

}  // namespace

extern "C" void puffer_orthogonalize(const MuonMatrix* matrices, int64_t count, int64_t steps, float a, float b,
                                     float c, KernelParallelFor* parallel_for) {
    std::atomic<int64_t> next(0);
    Orthogonalization call = {matrices, count, steps, a, b, c, &next};
    kernel_run(parallel_for, count, 1, orthogonalize_variant(), &call);
}
