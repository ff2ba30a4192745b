// paths.c - puffer_paths.h as a library, for tests/ocean/test_paths.py.
#include "puffer_paths.h"

// Fills, for every cell, its distance from `start` and the direction towards it.
void search(const uint8_t* walls, int width, int height, int is_torus, int start, uint16_t* distances,
            int* directions) {
    Paths paths;
    PathsGrid grid = {walls, width, height, is_torus};
    paths_search(&paths, &grid, start);
    for (int cell = 0; cell < width * height; cell++) {
        distances[cell] = paths.distances[cell];
        directions[cell] = walls[cell] ? -1 : paths_toward(&paths, &grid, cell);
    }
}

// Steps of a chess knight from the nearer of two squares to every square of a board of 8 x 8: a graph that is no grid.
void ride(int start, int other, uint16_t* distances) {
    static const int downs[8] = {1, 2, 2, 1, -1, -2, -2, -1}, rights[8] = {2, 1, -1, -2, -2, -1, 1, 2};
    Paths paths;
    paths_begin(&paths, 64);
    paths_visit(&paths, start, 0);
    paths_visit(&paths, other, 0);
    for (int place; (place = paths_take(&paths)) >= 0;) {
        for (int i = 0; i < 8; i++) {
            int row = place / 8 + downs[i], column = place % 8 + rights[i];
            if (row < 0 || row > 7 || column < 0 || column > 7) continue;
            paths_visit(&paths, 8 * row + column, paths.distances[place] + 1);
        }
    }
    memcpy(distances, paths.distances, 64 * sizeof(uint16_t));
}
