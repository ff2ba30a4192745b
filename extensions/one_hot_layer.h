// one_hot_layer.h - a linear layer on categories and its activation on a block of rows, forward and backward.
//
// Every cell of an observation holds one of some categories, each of which has a column of the weights. A product with
// the one-hot matrix would multiply by zeros nearly everywhere: forward adds the columns that are meant, and backward
// adds to the gradients of these alone. The weights lie transposed, so that a column is a run in memory.
//
// All rows go through a few cells before the next ones, so that the columns of these stay in the nearest cache.
#pragma once

#include "linear_layer.h"

enum { ONE_HOT_CELLS = 8 };    // taken together
enum { ONE_HOT_VECTORS = 4 };  // registers of a row's part

// All pointers are borrowed. Width is a multiple of MATMUL_LANES.
typedef struct {
    const int32_t* columns;  // [rows, cells], of the weights
    int64_t rows, cells, width;
} OneHot;

// Adds columns of the weights to rows of the output: to ROWS of them from `row` on, as far as VECTORS registers go.
template <int COUNT, int ROWS, int VECTORS>
KERNEL_FN void one_hot_gather_tile(const OneHot& input, const float* transposed, int64_t row, int64_t first,
                                   int64_t end, float* output) {
    using Vector = typename MatmulVector<COUNT>::type;
    const int32_t* columns = input.columns + row * input.cells;
    Vector sums[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++) {
        const Vector* start = (const Vector*)(output + (row + r) * input.width);
        for (int v = 0; v < VECTORS; v++) sums[r][v] = start[v];
    }
    for (int64_t i = first; i < end; i++) {
        for (int r = 0; r < ROWS; r++) {
            const Vector* weights = (const Vector*)(transposed + columns[r * input.cells + i] * input.width);
            for (int v = 0; v < VECTORS; v++) sums[r][v] += weights[v];
        }
    }
    for (int r = 0; r < ROWS; r++) {
        Vector* target = (Vector*)(output + (row + r) * input.width);
        for (int v = 0; v < VECTORS; v++) target[v] = sums[r][v];
    }
}

// Adds rows of the gradient of the output to columns of that of the weights.
template <int COUNT, int VECTORS>
KERNEL_FN void one_hot_scatter_tile(const OneHot& input, const float* grad_output, int64_t row, int64_t first,
                                    int64_t end, float* grad_transposed) {
    using Vector = typename MatmulVector<COUNT>::type;
    const int32_t* columns = input.columns + row * input.cells;
    const Vector* source = (const Vector*)(grad_output + row * input.width);
    Vector gradient[VECTORS];
    for (int v = 0; v < VECTORS; v++) gradient[v] = source[v];
    for (int64_t i = first; i < end; i++) {
        Vector* target = (Vector*)(grad_transposed + columns[i] * input.width);
        for (int v = 0; v < VECTORS; v++) target[v] += gradient[v];
    }
}

template <class Set, int VECTORS>
KERNEL_FN void one_hot_gather(const OneHot& input, const float* transposed, float* output) {
    for (int64_t first = 0; first < input.cells; first += ONE_HOT_CELLS) {
        int64_t end = first + ONE_HOT_CELLS < input.cells ? first + ONE_HOT_CELLS : input.cells, row = 0;
        for (; row + 2 <= input.rows; row += 2) {
            one_hot_gather_tile<Set::COUNT, 2, VECTORS>(input, transposed, row, first, end, output);
        }
        if (row < input.rows) one_hot_gather_tile<Set::COUNT, 1, VECTORS>(input, transposed, row, first, end, output);
    }
}

template <class Set, int VECTORS>
KERNEL_FN void one_hot_scatter(const OneHot& input, const float* grad_output, float* grad_transposed) {
    for (int64_t first = 0; first < input.cells; first += ONE_HOT_CELLS) {
        int64_t end = first + ONE_HOT_CELLS < input.cells ? first + ONE_HOT_CELLS : input.cells;
        for (int64_t row = 0; row < input.rows; row++) {
            one_hot_scatter_tile<Set::COUNT, VECTORS>(input, grad_output, row, first, end, grad_transposed);
        }
    }
}

// The layer's input is not read.
template <class Set>
KERNEL_FN void one_hot_forward(const OneHot& input, const LinearForward& layer, int64_t kind) {
    const int64_t PART = Set::COUNT * ONE_HOT_VECTORS;
    int64_t width = input.width, place = 0;
    linear_begin(layer, input.rows, width);
    for (; place + PART <= width; place += PART) {
        one_hot_gather<Set, ONE_HOT_VECTORS>(input, layer.transposed + place, layer.output + place);
    }
    for (; place < width; place += Set::COUNT) {
        one_hot_gather<Set, 1>(input, layer.transposed + place, layer.output + place);
    }
    activate_of(Set{}, kind, layer.output, layer.slopes, input.rows * width);
}

// The layer's input is not read, its gradient not asked for, and that of the weights lies transposed.
template <class Set>
KERNEL_FN void one_hot_backward(const OneHot& input, const LinearBackward& layer) {
    const int64_t PART = Set::COUNT * ONE_HOT_VECTORS;
    int64_t width = input.width, place = 0;
    linear_backward_bias(layer, input.rows, width);
    for (; place + PART <= width; place += PART) {
        one_hot_scatter<Set, ONE_HOT_VECTORS>(input, layer.grad_output + place, layer.grad_weights + place);
    }
    for (; place < width; place += Set::COUNT) {
        one_hot_scatter<Set, 1>(input, layer.grad_output + place, layer.grad_weights + place);
    }
}

// sizes: columns of the weights, cells, outputs, the activation, and 1. parameters: as of LinearOp.
struct OneHotOp : LinearOp {
    int64_t cells;

    KERNEL_METHOD explicit OneHotOp(const Layer& description) : LinearOp(description), cells(pixels) { pixels = 1; }

    KERNEL_METHOD void take_gradients(LayerMemory& memory) {
        grad_weights = memory.take(units * width);  // transposed
        grad_bias = memory.take(width);
    }

    KERNEL_METHOD int64_t overwritten() const { return 0; }  // a column of the weights that no row has stays 0

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        LinearForward product = {nullptr, 0, weights.forward.memory, bias, rows.output, slopes};
        one_hot_forward<Set>({rows.columns, rows.count, cells, width}, product, activation);
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        backward_activation(rows);
        LinearBackward product = {};
        product.grad_output = rows.grad_output;
        product.grad_row = width;
        product.grad_weights = grad_weights;
        product.grad_bias = grad_bias;
        one_hot_backward<Set>({rows.columns, rows.count, cells, width}, product);
    }

    KERNEL_METHOD void write_gradients() const {
        copy_groups(grad_bias, 1, outputs, 1, 1, layer.results[1]);
        copy_transposed(grad_weights, units, outputs, width, layer.results[0]);
    }
};
