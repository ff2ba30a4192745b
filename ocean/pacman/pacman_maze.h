// pacman_maze.h - the maze of pacman.h and the graph that it is.
#pragma once

#include "puffer_env.h"
#include "puffer_paths.h"

enum { PACMAN_ROWS = 31, PACMAN_COLUMNS = 27 };
enum { PACMAN_PILLS = 4, PACMAN_DOTS = 231, PACMAN_PLACES = 284 };  // tiles: with a pill, with either, all
enum { PACMAN_ROW_BYTES = 288, PACMAN_EATEN_BYTES = 256 };          // the same, rounded up for vector units
enum { PACMAN_START_ROW = 23, PACMAN_EXIT_ROW = 11, PACMAN_FRUIT_ROW = 17, PACMAN_MIDDLE = 13 };  // column of all three
enum { PACMAN_TUNNEL_ROW = 14, PACMAN_TUNNEL_LENGTH = 5 };  // tiles from either side

// Walls #, the door of the house -, dots, pills o.
PUFFER_TABLE char PACMAN_MAZE[PACMAN_ROWS][PACMAN_COLUMNS + 1] = {
    "###########################",  //
    "#.........#######.........#",  //
    "#.###.###.#######.###.###.#",  //
    "#o###.###.#######.###.###o#",  //
    "#.###.###.#######.###.###.#",  //
    "#.........................#",  //
    "#.###.#######.#######.###.#",  //
    "#.###.#######.#######.###.#",  //
    "#.....###.........###.....#",  //
    "#####.### ####### ###.#####",  //
    "#####.### ####### ###.#####",  //
    "#####.###         ###.#####",  // the house's exit is in the middle
    "#####.### ###-### ###.#####",  //
    "#####.### #     # ###.#####",  //
    "     .    #     #    .     ",  // the tunnel
    "#####.### #     # ###.#####",  //
    "#####.### ####### ###.#####",  //
    "#####.###         ###.#####",  // the fruit
    "#####.### ####### ###.#####",  //
    "#####.### ####### ###.#####",  //
    "#.........................#",  //
    "#.###.#######.#######.###.#",  //
    "#.###.#######.#######.###.#",  //
    "#o..#........ ........#..o#",  // Pac-Man
    "###.#.###.#######.###.#.###",  //
    "###.#.###.#######.###.#.###",  //
    "#.....###.........###.....#",  //
    "#.###########.###########.#",  //
    "#.###########.###########.#",  //
    "#.........................#",  //
    "###########################",
};

// The maze as a graph, made once: places are the tiles outside the house, those with pills first, then those with dots.
typedef struct {
    int16_t neighbours[PACMAN_PLACES][PATHS_NUM_DIRECTIONS];  // -1 where a wall is
    int8_t onward[PACMAN_PLACES][PATHS_NUM_DIRECTIONS];  // the only way on for who came by a heading; -1 of several
    int8_t rows[PACMAN_PLACES], columns[PACMAN_PLACES];
    bool is_tunnel[PACMAN_PLACES];
    uint8_t distances[PACMAN_PLACES][PACMAN_ROW_BYTES];  // tiles on the shortest way
    float nearness[256];                                 // by distance; 255 is nowhere
    int16_t start, exit, fruit;                          // places
} PacmanMaze;

// Numbers the tiles that show `tile`, from `count` on; returns how many are numbered then.
PUFFER_FN int pacman_number(PacmanMaze* maze, int16_t* places, char tile, int count) {
    for (int cell = 0; cell < PACMAN_ROWS * PACMAN_COLUMNS; cell++) {
        int row = cell / PACMAN_COLUMNS, column = cell % PACMAN_COLUMNS;
        bool is_house = is_within(row, 13, 15) && is_within(column, 11, 15);
        if (PACMAN_MAZE[row][column] != tile || is_house) continue;
        maze->rows[count] = (int8_t)row;
        maze->columns[count] = (int8_t)column;
        maze->is_tunnel[count] = row == PACMAN_TUNNEL_ROW &&
                                 !is_within(column, PACMAN_TUNNEL_LENGTH, PACMAN_COLUMNS - 1 - PACMAN_TUNNEL_LENGTH);
        places[cell] = (int16_t)count++;
    }
    return count;
}

PUFFER_FN int pacman_only_way_on(const PacmanMaze* maze, int place, int heading) {
    int count = 0, way = -1;
    for (int direction = 0; direction < PATHS_NUM_DIRECTIONS; direction++) {
        if (maze->neighbours[place][direction] < 0 || direction == (heading + 2) % PATHS_NUM_DIRECTIONS) continue;
        count++;
        way = direction;
    }
    return count == 1 ? way : -1;
}

PUFFER_FN void pacman_fill_maze(PacmanMaze* maze) {
    int16_t places[PACMAN_ROWS * PACMAN_COLUMNS];
    uint8_t walls[PACMAN_ROWS * PACMAN_COLUMNS];
    memset(places, 0xFF, sizeof(places));
    memset(maze->distances, 0xFF, sizeof(maze->distances));
    int count = pacman_number(maze, places, 'o', 0);
    count = pacman_number(maze, places, '.', count);
    count = pacman_number(maze, places, ' ', count);
    for (int cell = 0; cell < PACMAN_ROWS * PACMAN_COLUMNS; cell++) walls[cell] = places[cell] < 0;
    PathsGrid grid = {walls, PACMAN_COLUMNS, PACMAN_ROWS, true};
    Paths paths;
    for (int place = 0; place < count; place++) {
        int cell = maze->rows[place] * PACMAN_COLUMNS + maze->columns[place];
        paths_search(&paths, &grid, cell);
        for (int to = 0; to < count; to++) {
            int distance = paths.distances[maze->rows[to] * PACMAN_COLUMNS + maze->columns[to]];
            maze->distances[place][to] = (uint8_t)distance;
        }
        for (int direction = 0; direction < PATHS_NUM_DIRECTIONS; direction++) {
            int neighbour = paths_neighbour(&grid, cell, direction);
            maze->neighbours[place][direction] = neighbour >= 0 ? places[neighbour] : (int16_t)-1;
        }
        for (int heading = 0; heading < PATHS_NUM_DIRECTIONS; heading++) {
            maze->onward[place][heading] = (int8_t)pacman_only_way_on(maze, place, heading);
        }
    }
    for (int distance = 0; distance < 255; distance++) maze->nearness[distance] = 1.0f / (float)(1 + distance);
    maze->nearness[255] = 0.0f;
    maze->start = places[PACMAN_START_ROW * PACMAN_COLUMNS + PACMAN_MIDDLE];
    maze->exit = places[PACMAN_EXIT_ROW * PACMAN_COLUMNS + PACMAN_MIDDLE];
    maze->fruit = places[PACMAN_FRUIT_ROW * PACMAN_COLUMNS + PACMAN_MIDDLE];
}
