// orthogonalize.cpp - Muon's Newton-Schulz iteration for a small matrix on a CPU; see orthogonalize.py.
#include <math.h>
#include <string.h>

#include "cpu_kernels.h"
#include "matmul.h"

namespace {

struct Iteration {
    float* x;  // [rows, padded_columns], rows <= columns, in and out; 0 in the padding
    int64_t rows, columns;
    int64_t padded_rows, padded_columns;  // up to a multiple of MATMUL_LANES
    int64_t steps;
    float a, b, c;
    float* scratch;  // [(padded_columns + 2 * rows) * padded_rows + rows * padded_columns]
};

// The transposed matrix, with columns of zeros up to the padding.
KERNEL_FN void transpose(const Iteration& call, const float* x, float* target) {
    for (int64_t column = 0; column < call.columns; column++) {
        float* row = target + column * call.padded_rows;
        for (int64_t i = 0; i < call.padded_rows; i++)
            row[i] = i < call.rows ? x[i * call.padded_columns + column] : 0.0f;
    }
}

KERNEL_FN void scale_to_norm_one(const Iteration& call) {
    double sum = 0.0;
    int64_t count = call.rows * call.padded_columns;
    for (int64_t i = 0; i < count; i++) sum += (double)call.x[i] * (double)call.x[i];
    float norm = (float)sqrt(sum), scale = 1.0f / (norm < 1e-7f ? 1e-7f : norm);
    INDEPENDENT_LANES
    for (int64_t i = 0; i < count; i++) call.x[i] *= scale;
}

// x <- a x + (b s + c s s) x with s = x x^T.
template <class Set>
KERNEL_FN void iterate(const Iteration& call) {
    int64_t rows = call.rows, width = call.padded_rows, columns = call.padded_columns;
    float *transposed = call.scratch, *square = transposed + columns * width, *factor = square + rows * width;
    float *x = call.x, *next = factor + rows * width;
    transpose(call, x, transposed);
    matmul<Set, false>({x, columns, 1, transposed, width, square, width, rows, width, call.columns});
    matmul<Set, false>({square, width, 1, square, width, factor, width, rows, width, rows});
    INDEPENDENT_LANES
    for (int64_t i = 0; i < rows * width; i++) factor[i] = call.b * square[i] + call.c * factor[i];
    INDEPENDENT_LANES
    for (int64_t i = 0; i < rows * columns; i++) next[i] = call.a * x[i];
    matmul<Set, true>({factor, width, 1, x, columns, next, columns, rows, columns, rows});
    memcpy(x, next, rows * columns * sizeof(float));
}

template <class Set>
KERNEL_FN void orthogonalize(const Iteration& call, int64_t, int64_t) {
    scale_to_norm_one(call);
    for (int64_t i = 0; i < call.steps; i++) iterate<Set>(call);
}

KERNEL_VARIANTS(orthogonalize, Iteration)

}  // namespace

extern "C" void puffer_orthogonalize(float* x, float* scratch, int64_t rows, int64_t columns, int64_t padded_rows,
                                     int64_t padded_columns, int64_t steps, float a, float b, float c) {
    Iteration call = {x, rows, columns, padded_rows, padded_columns, steps, a, b, c, scratch};
    orthogonalize_variant()(0, 1, &call);
}
