// window.c - puffer_window.h as functions for tests/ocean/test_window.py and bench/window.py.
#include "puffer_window.h"

enum { BENCH_VIEW = 11 };

int capacity(int width, int height, int border) { return GRID_CAPACITY(width, height, border); }

void fill(uint8_t* cells, int width, int height, int border, int inside, int outside) {
    Grid grid = grid_of(width, height, border);
    grid_fill(cells, &grid, inside, outside);
}

void window(uint8_t* view, const uint8_t* cells, const int* shape, int column, int row, int rows, int columns) {
    Grid grid = grid_of(shape[0], shape[1], shape[2]);
    grid_window(view, cells, grid.stride, grid_cell(&grid, column, row), rows, columns);
}

bool has(const int* shape, int cell) {
    Grid grid = grid_of(shape[0], shape[1], shape[2]);
    return grid_has(&grid, cell);
}

bool is_framed(const uint8_t* cells, const int* shape, int most, int outside) {
    Grid grid = grid_of(shape[0], shape[1], shape[2]);
    return grid_is_framed(cells, &grid, most, outside);
}

// The windows around many cells, one after another.
void windows(uint8_t* views, const uint8_t* cells, int stride, const int32_t* middles, int count) {
    for (int i = 0; i < count; i++) {
        grid_window(views + i * BENCH_VIEW * BENCH_VIEW, cells, stride, middles[i], BENCH_VIEW, BENCH_VIEW);
    }
}

// The same by what it replaces: a cell at a time, each asked for whether it is inside.
void clipped_windows(uint8_t* views, const uint8_t* cells, int width, int height, const int32_t* middles, int count) {
    for (int i = 0; i < count; i++) {
        int left = middles[i] % width - BENCH_VIEW / 2, top = middles[i] / width - BENCH_VIEW / 2;
        for (int row = top; row < top + BENCH_VIEW; row++) {
            for (int column = left; column < left + BENCH_VIEW; column++) {
                bool is_inside = column >= 0 && column < width && row >= 0 && row < height;
                *views++ = is_inside ? cells[row * width + column] : 1;
            }
        }
    }
}
