// tictactoe.h - the smallest game for puffer_alphabeta.h: three in a row on nine cells. It counts what a search looks
// at, which no environment may do.
#pragma once

#include "puffer_env.h"

typedef struct {
    uint32_t own, other;  // cells of the player to move, and of the opponent; bits
} SearchPosition;
typedef uint32_t SearchMoves;  // cells
typedef int SearchMove;        // a cell, 0 to 8
enum { SEARCH_MAX_MOVES = 9, SEARCH_MAX_PLIES = 9, TICTACTOE_WON = 100 };

static uint64_t positions_seen;

PUFFER_FN bool tictactoe_has_row(uint32_t cells) {
    static const uint32_t rows[8] = {0007, 0070, 0700, 0111, 0222, 0444, 0421, 0124};
    for (int i = 0; i < 8; i++) {
        if ((cells & rows[i]) == rows[i]) return true;
    }
    return false;
}

PUFFER_FN SearchMoves search_moves(const SearchPosition* board) {
    return tictactoe_has_row(board->other) ? 0 : 0777 & ~(board->own | board->other);
}

PUFFER_FN bool search_next(SearchMoves* moves, SearchMove* move) {
    if (*moves == 0) return false;
    *move = __builtin_ctz(*moves);
    *moves &= *moves - 1;
    return true;
}

PUFFER_FN SearchPosition search_play(const SearchPosition* board, SearchMove move) {
    SearchPosition next = {board->other, board->own | 1u << move};
    return next;
}

PUFFER_FN bool search_keeps_turn(const SearchPosition* before, const SearchPosition* after) {
    (void)before, (void)after;
    return false;
}

PUFFER_FN bool search_settles(const SearchPosition* board, int depth, SearchMoves* moves, int* value) {
    positions_seen++;
    *moves = search_moves(board);
    *value = tictactoe_has_row(board->other) ? -(TICTACTOE_WON + depth) : 0;
    return depth == 0 || *moves == 0;
}

#include "puffer_alphabeta.h"

uint64_t take_positions_seen(void);
uint64_t take_positions_seen(void) {
    uint64_t seen = positions_seen;
    positions_seen = 0;
    return seen;
}
