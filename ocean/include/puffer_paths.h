// puffer_paths.h - shortest paths by breadth-first search, in arrays of a fixed size.
//
// The caller owns a Paths, as a member of its struct or as a local: the queue and the distances are in it, so that any
// two searches may run at once. Places are numbers from 0 below PATHS_MAX_PLACES, which an environment that needs
// another number defines before it includes this file. Over a grid, with walls:
//
//     PathsGrid grid = {walls, width, height, false};
//     paths_search(&paths, &grid, start);         // paths.distances[cell]: steps from start, or PATHS_UNREACHED
//     paths_toward(&paths, &grid, cell)           // the direction of a first step from `cell` to `start`
//
// Over anything else, where the caller says what lies beside a place, from one start or from several:
//
//     paths_begin(&paths, num_places);
//     paths_visit(&paths, start, 0);
//     for (int place; (place = paths_take(&paths)) >= 0;) {
//         for (each place `next` that is one step from it) paths_visit(&paths, next, paths.distances[place] + 1);
//     }
//
// Places are taken in the order of their distance. A search may end early, and what it then has is right as far as it
// went; it returns whatever the places are, because each is queued once.
#pragma once

#include "puffer_env.h"

#ifndef PATHS_MAX_PLACES
#define PATHS_MAX_PLACES 1024
#endif

enum { PATHS_UNREACHED = UINT16_MAX };

typedef struct {
    uint16_t distances[PATHS_MAX_PLACES];  // steps from the start, or PATHS_UNREACHED
    uint16_t queue[PATHS_MAX_PLACES];      // places in the order in which they were reached
    int num_taken, num_reached;            // of the queue
} Paths;

// Forgets the last search; num_places from 1 to PATHS_MAX_PLACES.
PUFFER_FN void paths_begin(Paths* paths, int num_places) {
    memset(paths->distances, 0xFF, (size_t)num_places * sizeof(paths->distances[0]));
    paths->num_taken = paths->num_reached = 0;
}

// Queues a place, unless it was reached before. Distances must not shrink from one call to the next.
PUFFER_FN void paths_visit(Paths* paths, int place, int distance) {
    if (paths->distances[place] != PATHS_UNREACHED) return;
    paths->distances[place] = (uint16_t)distance;
    paths->queue[paths->num_reached++] = (uint16_t)place;
}

// The next place to go on from, or -1 if there is none.
PUFFER_FN int paths_take(Paths* paths) {
    return paths->num_taken < paths->num_reached ? paths->queue[paths->num_taken++] : -1;
}

// ----------------------------------------------------------------------------------------------------------- grids

typedef enum { PATHS_UP, PATHS_LEFT, PATHS_DOWN, PATHS_RIGHT, PATHS_NUM_DIRECTIONS } PathsDirection;

PUFFER_TABLE int8_t PATHS_DOWNWARDS[PATHS_NUM_DIRECTIONS] = {-1, 0, 1, 0};   // rows, by direction
PUFFER_TABLE int8_t PATHS_RIGHTWARDS[PATHS_NUM_DIRECTIONS] = {0, -1, 0, 1};  // columns

typedef struct {
    const uint8_t* walls;  // [height * width] row by row, 0 where free; borrowed
    int width, height;     // cells; their product is at most PATHS_MAX_PLACES
    bool is_torus;         // whether who leaves at one side enters at the other
} PathsGrid;

// The cell beside another, or -1 where a wall or the border is.
PUFFER_FN int paths_neighbour(const PathsGrid* grid, int cell, int direction) {
    int row = cell / grid->width + PATHS_DOWNWARDS[direction],
        column = cell % grid->width + PATHS_RIGHTWARDS[direction];
    if (grid->is_torus) {
        row = (row + grid->height) % grid->height;
        column = (column + grid->width) % grid->width;
    }
    bool is_inside = is_within(row, 0, grid->height - 1) && is_within(column, 0, grid->width - 1);
    int neighbour = row * grid->width + column;
    return is_inside && grid->walls[neighbour] == 0 ? neighbour : -1;
}

// Finds how far every cell is from `start`, a free one.
PUFFER_FN void paths_search(Paths* paths, const PathsGrid* grid, int start) {
    paths_begin(paths, grid->width * grid->height);
    paths_visit(paths, start, 0);
    for (int cell; (cell = paths_take(paths)) >= 0;) {
        for (int direction = 0; direction < PATHS_NUM_DIRECTIONS; direction++) {
            int neighbour = paths_neighbour(grid, cell, direction);
            if (neighbour >= 0) paths_visit(paths, neighbour, paths->distances[cell] + 1);
        }
    }
}

// The direction of a step that brings `cell` nearer to the start of the last paths_search, of several the first in the
// order up, left, down, right; -1 at the start, and where no way leads to it.
PUFFER_FN int paths_toward(const Paths* paths, const PathsGrid* grid, int cell) {
    for (int direction = 0; direction < PATHS_NUM_DIRECTIONS; direction++) {
        int neighbour = paths_neighbour(grid, cell, direction);
        if (neighbour >= 0 && paths->distances[neighbour] < paths->distances[cell]) return direction;
    }
    return -1;
}
