// g2048.h - 2048: slide the tiles of a 4 x 4 board; two alike become one of twice the value.
//
// Observation uint8[32], all of 0 to 15. The cells, row by row: 0 an empty one, else the exponent of the tile, 1 for a
// 2 up to 15 for a 32,768. Then, for each of the four moves, of the board as it would be before the tile appears, at
// most 15: the empty cells and one more, 0 where the move would change nothing; the neighbours that are alike; a sixth
// of the roughness, which sums how many exponents neighbouring tiles differ; half of the turns, which sum over rows and
// columns the smaller of how far their exponents rise and how far they fall from tile to tile.
// Action: 0 up, 1 down, 2 left, 3 right; anything else moves nothing.
// A move slides all tiles as far as they go. Of tiles that then touch along the move, two alike merge, those farthest
// along first, and none twice in a move. Then a 2, or one time in ten a 4, appears in a random empty cell. A move that
// would change nothing is none: no tile appears. The game begins with two tiles and is over when nothing can move.
// Reward: for each merge the exponent of the new tile over 16, and -1/16 for an action that moves nothing.
// Terminal: nothing can move. Truncation: after 16,000 actions, or after 64 in a row that moved nothing.
// Score: the values of all merged tiles, as players count it. perf: the largest tile over 2,048, at most 1.
#pragma once

#include "puffer_env.h"

enum { G2048_UP, G2048_DOWN, G2048_LEFT, G2048_RIGHT, G2048_NUM_ACTIONS };
enum { G2048_SIDE = 4, G2048_CELLS = 16, G2048_ROWS = 65536, G2048_GOAL = 2048 };
enum { G2048_MAX_EXPONENT = 15, G2048_MEASURES = 4, G2048_OBSERVATION_SIZE = 32 };

// A step adds at most 4 to the sum of all tiles, so that this many never make two of 32,768.
enum { G2048_MAX_STEPS = 16000, G2048_MAX_FUTILE = 64 };
#define G2048_REWARD (1.0f / 16.0f)  // for each of a merged tile's exponent

// What becomes of every row that slides to its first cell, and what a row is like as it lies. A cell is four bits, the
// first the lowest; above the slid row stands the sum of the exponents of merged tiles. The measures are ten bits each,
// which holds the sum of eight lines: pairs of neighbours alike, roughness, turns.
typedef struct {
    uint32_t rows[G2048_ROWS];
    uint32_t measures[G2048_ROWS];
} G2048Moves;

typedef struct {
    uint8_t* observations;        // [32]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]
    uint8_t* final_observations;  // [32] or NULL
    const G2048Moves* shared;     // borrowed, read-only
    uint64_t board;               // cell by cell as the observation, four bits each, the first the lowest
    Rng rng;
    int steps;   // actions of this episode
    int futile;  // the last ones of them, which moved nothing
    int fours;   // that have appeared as such
    float episode_return;
    Log log;  // summed at episode end, cleared by the reader
} G2048;

PUFFER_FN PufferLayout c_layout(const G2048* env) {
    return puffer_layout(1, G2048_OBSERVATION_SIZE, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN int g2048_cell(uint64_t board, int cell) { return (int)(board >> (4 * cell) & 15); }

// ------------------------------------------------------------------------------------------------------------ moving

PUFFER_FN uint32_t g2048_slide_row(uint32_t row) {
    uint32_t result = 0, merged = 0;
    int filled = 0, last = 0;  // the exponent of the last tile, 0 where none or where it is merged
    for (int i = 0; i < G2048_SIDE; i++) {
        int exponent = (int)(row >> (4 * i) & 15);
        if (exponent == 0) continue;
        if (exponent == last && exponent < G2048_MAX_EXPONENT) {
            result += 1u << (4 * (filled - 1));
            merged += (uint32_t)exponent + 1;
            last = 0;
        } else {
            result |= (uint32_t)exponent << (4 * filled++);
            last = exponent;
        }
    }
    return result | merged << 16;
}

PUFFER_FN uint32_t g2048_measure_row(uint32_t row) {
    uint32_t alike = 0, rises = 0, falls = 0;
    for (int i = 0; i + 1 < G2048_SIDE; i++) {
        uint32_t one = row >> (4 * i) & 15, next = row >> (4 * i + 4) & 15;
        if (one == 0 || next == 0) continue;
        alike += one == next;
        rises += next > one ? next - one : 0;
        falls += one > next ? one - next : 0;
    }
    return alike | (rises + falls) << 10 | (rises < falls ? rises : falls) << 20;
}

PUFFER_FN void g2048_fill_moves(G2048Moves* moves) {
    for (uint32_t row = 0; row < G2048_ROWS; row++) {
        moves->rows[row] = g2048_slide_row(row);
        moves->measures[row] = g2048_measure_row(row);
    }
}

// Exchanges the cells of a mask with those `distance` bits higher.
PUFFER_FN uint64_t g2048_exchange(uint64_t board, uint64_t mask, int distance) {
    uint64_t difference = (board ^ (board >> distance)) & mask;
    return board ^ difference ^ (difference << distance);
}

// Rows become columns: of a cell's number, row then column, the two low bits change places, then the two high ones.
PUFFER_FN uint64_t g2048_transpose(uint64_t board) {
    board = g2048_exchange(board, 0x0000F0F00000F0F0ull, 12);
    return g2048_exchange(board, 0x00000000FF00FF00ull, 24);
}

// Every row the other way round.
PUFFER_FN uint64_t g2048_mirror(uint64_t board) {
    board = (board & 0x00FF00FF00FF00FFull) << 8 | (board >> 8 & 0x00FF00FF00FF00FFull);
    return (board & 0x0F0F0F0F0F0F0F0Full) << 4 | (board >> 4 & 0x0F0F0F0F0F0F0F0Full);
}

typedef struct {
    uint64_t board;
    int exponents;  // of merged tiles, their sum
} G2048Slide;

// Every row to its first cell.
PUFFER_FN G2048Slide g2048_slide_rows(const G2048Moves* moves, uint64_t board) {
    G2048Slide slide = {0, 0};
    for (int i = 0; i < G2048_SIDE; i++) {
        uint32_t row = moves->rows[board >> (16 * i) & 0xFFFF];
        slide.board |= (uint64_t)(row & 0xFFFF) << (16 * i);
        slide.exponents += (int)(row >> 16);
    }
    return slide;
}

// The board after a move, turned so that it goes to the left and back again.
PUFFER_FN G2048Slide g2048_slide(const G2048Moves* moves, uint64_t board, int action) {
    bool is_vertical = action < G2048_LEFT, is_mirrored = action & 1;
    board = is_vertical ? g2048_transpose(board) : board;
    board = is_mirrored ? g2048_mirror(board) : board;
    G2048Slide slide = g2048_slide_rows(moves, board);
    slide.board = is_mirrored ? g2048_mirror(slide.board) : slide.board;
    slide.board = is_vertical ? g2048_transpose(slide.board) : slide.board;
    return slide;
}

// ----------------------------------------------------------------------------------------------------------- appearing

#define G2048_LOWEST 0x1111111111111111ull  // the lowest bit of every cell

// The lowest bit of every empty cell.
PUFFER_FN uint64_t g2048_empty(uint64_t board) {
    board |= board >> 2;
    return ~(board | board >> 1) & G2048_LOWEST;
}

// Puts a tile into a random one of the empty cells, of which there are 1 to 15.
PUFFER_FN void g2048_add_tile(G2048* env) {
    uint64_t counts = g2048_empty(env->board) * G2048_LOWEST;  // of empty cells up to each one, itself included
    int drawn = rng_below(&env->rng, 10 * g2048_cell(counts, 15)), rank = drawn / 10, cell = 0;
    for (int half = 8; half > 0; half /= 2) cell += half * (g2048_cell(counts, cell + half - 1) <= rank);
    bool is_four = drawn % 10 == 0;
    env->board |= (is_four ? 2ull : 1ull) << (4 * cell);
    env->fours += is_four;
}

// Bytes of four bits each: the cells of half a board.
PUFFER_FN uint64_t g2048_spread(uint64_t half) {
    half = (half | half << 16) & 0x0000FFFF0000FFFFull;
    half = (half | half << 8) & 0x00FF00FF00FF00FFull;
    return (half | half << 4) & 0x0F0F0F0F0F0F0F0Full;
}

PUFFER_FN uint8_t g2048_at_most_15(uint32_t value) { return (uint8_t)(value < 15 ? value : 15); }

// What a move to the left makes of a board: its measures are the same whichever way the board is turned.
PUFFER_FN void g2048_write_measures(const G2048Moves* moves, uint64_t board, uint8_t* measures) {
    uint64_t slid = g2048_slide_rows(moves, board).board, turned = g2048_transpose(slid);
    uint32_t empty = (uint32_t)g2048_cell(g2048_empty(slid) * G2048_LOWEST, 15), sums = 0;
    for (int i = 0; i < G2048_SIDE; i++)
        sums += moves->measures[slid >> (16 * i) & 0xFFFF] + moves->measures[turned >> (16 * i) & 0xFFFF];
    measures[0] = slid == board ? 0 : g2048_at_most_15(empty + 1);
    measures[1] = g2048_at_most_15(sums & 1023);
    measures[2] = g2048_at_most_15((sums >> 10 & 1023) / 6);
    measures[3] = g2048_at_most_15((sums >> 20) / 2);
}

// The first cell is the lowest byte, which lies first on all machines that this runs on.
PUFFER_FN void g2048_write_observation(G2048* env) {
    uint64_t halves[2] = {g2048_spread(env->board & 0xFFFFFFFF), g2048_spread(env->board >> 32)};
    memcpy(env->observations, halves, sizeof(halves));
    const uint64_t columns = g2048_transpose(env->board);
    const uint64_t turned[G2048_NUM_ACTIONS] = {columns, g2048_mirror(columns), env->board, g2048_mirror(env->board)};
    for (int action = 0; action < G2048_NUM_ACTIONS; action++) {
        uint8_t* measures = env->observations + G2048_CELLS + G2048_MEASURES * action;
        g2048_write_measures(env->shared, turned[action], measures);
    }
}

PUFFER_FN void c_reset(G2048* env) {
    env->fours = rng_below(&env->rng, 10) == 0;
    env->board = (env->fours ? 2ull : 1ull) << (4 * rng_below(&env->rng, G2048_CELLS));
    env->steps = env->futile = 0;
    env->episode_return = 0.0f;
    g2048_add_tile(env);
    g2048_write_observation(env);
}

// ------------------------------------------------------------------------------------------------------------- ending

// Whether a tile can move: there is an empty cell, or there are two neighbours alike.
PUFFER_FN bool g2048_can_move(uint64_t board) {
    uint64_t beside = g2048_empty(board ^ (board >> 4)) & 0x0111011101110111ull;  // the last column has none
    uint64_t below = g2048_empty(board ^ (board >> 16)) & 0x0000111111111111ull;
    return (g2048_empty(board) | beside | below) != 0;
}

PUFFER_FN int g2048_largest(uint64_t board) {
    int largest = 0;
    for (int cell = 0; cell < G2048_CELLS; cell++) {
        int exponent = g2048_cell(board, cell);
        largest = exponent > largest ? exponent : largest;
    }
    return largest;
}

// The values of all merged tiles. A tile of value v and exponent e came of merges worth v * (e - 1), had all that it is
// made of appeared as twos; each four that did not saved one worth 4.
PUFFER_FN int g2048_score(const G2048* env) {
    int points = -4 * env->fours;
    for (int cell = 0; cell < G2048_CELLS; cell++) {
        int exponent = g2048_cell(env->board, cell);
        if (exponent > 1) points += (exponent - 1) << exponent;
    }
    return points;
}

PUFFER_FN void g2048_finish_episode(G2048* env) {
    float reached = (float)(1 << g2048_largest(env->board)) / (float)G2048_GOAL;
    env->log.perf += reached < 1.0f ? reached : 1.0f;
    env->log.score += (float)g2048_score(env);
    env->log.episode_return += env->episode_return;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, G2048_OBSERVATION_SIZE);
    c_reset(env);
}

PUFFER_FN void c_step(G2048* env) {
    int action = ((const int32_t*)env->actions)[0];
    G2048Slide slide = {env->board, 0};
    if (is_within(action, 0, G2048_NUM_ACTIONS - 1)) slide = g2048_slide(env->shared, env->board, action);
    bool has_moved = slide.board != env->board;
    env->steps += 1;
    env->futile = has_moved ? 0 : env->futile + 1;
    env->rewards[0] = G2048_REWARD * (has_moved ? (float)slide.exponents : -1.0f);
    env->episode_return += env->rewards[0];
    if (has_moved) {
        env->board = slide.board;
        g2048_add_tile(env);
        g2048_write_observation(env);
    }
    bool is_over = !g2048_can_move(env->board);
    bool is_cut = !is_over && (env->steps == G2048_MAX_STEPS || env->futile == G2048_MAX_FUTILE);
    env->terminals[0] = is_over;
    env->truncations[0] = is_cut;
    if (is_over || is_cut) g2048_finish_episode(env);
}

// A board whose tiles have appeared in the steps so far, as twos and so many fours.
PUFFER_FN bool c_accepts(const G2048* env, const G2048* saved) {
    int sum = 0;
    for (int cell = 0; cell < G2048_CELLS; cell++) {
        int exponent = g2048_cell(saved->board, cell);
        if (exponent > 0) sum += 1 << exponent;
    }
    bool is_counted = is_within(saved->fours, 0, G2048_MAX_STEPS + 2);
    int appeared = is_counted ? sum / 2 - saved->fours : 0;
    return is_counted && is_within(saved->steps, 0, G2048_MAX_STEPS - 1) &&
           is_within(saved->futile, 0, G2048_MAX_FUTILE - 1) &&
           is_within(appeared, saved->fours > 2 ? saved->fours : 2, saved->steps + 2);
}
