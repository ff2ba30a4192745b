// puffer_window.h - a grid of bytes inside a border, and the window of it that an agent sees around itself.
//
// The border is as wide as the farthest that a window reaches over an edge, so that none is ever clipped: each of its
// rows is one memcpy. It holds what is seen out there, as a rule walls, which also keep whoever moves inside. A cell is
// a number, row by row, border included; one further down is a stride away:
//
//     enum { FIELD_VIEW = 11, FIELD_BORDER = FIELD_VIEW / 2, FIELD_MAX_SIDE = 40 };
//     uint8_t cells[GRID_CAPACITY(FIELD_MAX_SIDE, FIELD_MAX_SIDE, FIELD_BORDER)];  // in the struct
//
//     Grid grid = grid_of(env->width, env->height, FIELD_BORDER);
//     grid_fill(env->cells, &grid, FIELD_FLOOR, FIELD_WALL);
//     grid_window(env->observations, env->cells, grid.stride, env->agent, FIELD_VIEW, FIELD_VIEW);
//
// Sizes of windows should be constants: the compiler then makes a few moves of each memcpy. `bench/window.py`
// measures what that gives.
#pragma once

#include "puffer_env.h"

// Bytes of a grid, border included.
#define GRID_CAPACITY(width, height, border) (((width) + 2 * (border)) * ((height) + 2 * (border)))

typedef struct {
    int width, height;  // cells inside the border
    int border;         // cells on each side
    int stride;         // from a cell to the one below it
    int size;           // bytes of all rows, border included
} Grid;

PUFFER_FN Grid grid_of(int width, int height, int border) {
    Grid grid;
    grid.width = width;
    grid.height = height;
    grid.border = border;
    grid.stride = width + 2 * border;
    grid.size = GRID_CAPACITY(width, height, border);
    return grid;
}

// The cell at a place, (0, 0) being the first one inside the border.
PUFFER_FN int grid_cell(const Grid* grid, int column, int row) {
    return (row + grid->border) * grid->stride + column + grid->border;
}

PUFFER_FN int grid_column(const Grid* grid, int cell) { return cell % grid->stride - grid->border; }
PUFFER_FN int grid_row(const Grid* grid, int cell) { return cell / grid->stride - grid->border; }

// Whether a number, which may be anything, is that of a cell inside the border.
PUFFER_FN bool grid_has(const Grid* grid, int cell) {
    return is_within(cell, 0, grid->size - 1) && is_within(grid_column(grid, cell), 0, grid->width - 1) &&
           is_within(grid_row(grid, cell), 0, grid->height - 1);
}

PUFFER_FN void grid_fill(uint8_t* cells, const Grid* grid, int inside, int outside) {
    memset(cells, outside, (size_t)grid->size);
    for (int row = 0; row < grid->height; row++) {
        memset(cells + grid_cell(grid, 0, row), inside, (size_t)grid->width);
    }
}

// Copies the window of `rows` x `columns`, odd both, that has `middle` in its middle.
PUFFER_FN void grid_window(uint8_t* window, const uint8_t* cells, int stride, int middle, int rows, int columns) {
    const uint8_t* corner = cells + middle - rows / 2 * stride - columns / 2;
    for (int row = 0; row < rows; row++) memcpy(window + row * columns, corner + row * stride, (size_t)columns);
}

// For c_accepts: whether the border holds `outside` alone, and no cell inside it more than `most`.
PUFFER_FN bool grid_is_framed(const uint8_t* cells, const Grid* grid, int most, int outside) {
    for (int cell = 0; cell < grid->size; cell++) {
        if (grid_has(grid, cell) ? cells[cell] > most : cells[cell] != outside) return false;
    }
    return true;
}
