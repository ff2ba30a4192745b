// puffer_alphabeta.h - a player for games of two: minimax search with alpha-beta pruning, for the bots of environments.
//
// An environment includes it after it has defined what the search knows of the game:
//
//     SearchPosition   all that decides how the game goes on, who is to move included; a small struct
//     SearchMove       one move; an integer or a small struct
//     SearchMoves      the moves of a position that were not tried yet, in an order, the likely best first
//     SEARCH_MAX_MOVES, SEARCH_MAX_PLIES   most moves of a position; most moves in a row from where a search begins
//
//     SearchMoves search_moves(const SearchPosition*)           all moves
//     bool search_next(SearchMoves*, SearchMove*)               takes the next one out; false when there is none
//     SearchPosition search_play(const SearchPosition*, SearchMove)   what a move leads to
//     bool search_keeps_turn(const SearchPosition* before, const SearchPosition* after)   the same player goes on
//     bool search_settles(const SearchPosition*, int depth, SearchMoves*, int* value)
//
// The last one either gives the position's value for the player to move and returns true, or its moves, one or more;
// moves that cannot change the value may be missing among them. It must settle where the game is over, and sooner or
// later where depth is 0 or less: a game may follow captures beyond it. Values are less than SEARCH_INFINITY either
// way. Depth is what is left of it: added to the value of a win, it has the bot win early and lose late.
//
// The value of a position at a depth is that of plain minimax, in negamax form (Knuth and Moore 1975): the settled one,
// or else the greatest of the values that its moves lead to, negated and at depth - 1 if the turn passes, as they are
// and at the same depth if it does not. Pruning saves work; it changes no value and no choice.
#pragma once

#include "puffer_env.h"

enum { SEARCH_INFINITY = 1 << 24 };

typedef struct {
    SearchPosition position;
    SearchMoves moves;  // still to be tried
    int depth;
    int alpha, beta;      // values in between matter, for the player to move
    int best;             // value of the moves tried
    bool is_same_player;  // as in the position before it
} AlphabetaNode;

// Makes `child` what a move leads to; returns whether its value is settled.
PUFFER_FN bool alphabeta_descend(const AlphabetaNode* node, SearchMove move, AlphabetaNode* child, int* value) {
    int alpha = node->best > node->alpha ? node->best : node->alpha;
    child->position = search_play(&node->position, move);
    child->is_same_player = search_keeps_turn(&node->position, &child->position);
    child->depth = child->is_same_player ? node->depth : node->depth - 1;
    child->alpha = child->is_same_player ? alpha : -node->beta;
    child->beta = child->is_same_player ? node->beta : -alpha;
    child->best = -SEARCH_INFINITY;
    return search_settles(&child->position, child->depth, &child->moves, value);
}

PUFFER_FN void alphabeta_raise(AlphabetaNode* node, int value, bool is_same_player) {
    int gain = is_same_player ? value : -value;
    if (gain > node->best) node->best = gain;
}

// The value of a position at a depth, if it lies between alpha and beta; else one that lies beyond the same of them.
PUFFER_FN int alphabeta_value(const SearchPosition* position, int depth, int alpha, int beta) {
    AlphabetaNode nodes[SEARCH_MAX_PLIES + 1];  // from the position down to what is looked at
    int level = 0, value = 0;
    nodes[0].position = *position;
    nodes[0].depth = depth;
    nodes[0].alpha = alpha;
    nodes[0].beta = beta;
    nodes[0].best = -SEARCH_INFINITY;
    if (search_settles(position, depth, &nodes[0].moves, &value)) return value;
    for (;;) {
        AlphabetaNode* node = &nodes[level];
        SearchMove move;
        if (node->best >= node->beta || !search_next(&node->moves, &move)) {
            if (level == 0) return node->best;
            alphabeta_raise(&nodes[--level], node->best, node->is_same_player);
        } else if (alphabeta_descend(node, move, node + 1, &value)) {
            alphabeta_raise(node, value, node[1].is_same_player);
        } else {
            level++;
        }
    }
}

// The value at a depth of a move, for the player who makes it, if it is greater than alpha; else one up to alpha.
PUFFER_FN int alphabeta_gain(const SearchPosition* position, SearchMove move, int depth, int alpha) {
    SearchPosition next = search_play(position, move);
    if (search_keeps_turn(position, &next)) return alphabeta_value(&next, depth, alpha, SEARCH_INFINITY);
    return -alphabeta_value(&next, depth - 1, -SEARCH_INFINITY, -alpha);
}

// Writes all moves of a position to [SEARCH_MAX_MOVES]; returns how many there are.
PUFFER_FN int alphabeta_list(const SearchPosition* position, SearchMove* list) {
    SearchMoves moves = search_moves(position);
    int count = 0;
    while (count < SEARCH_MAX_MOVES && search_next(&moves, &list[count])) count++;
    return count;
}

// The best move of a position that has one, looking `depth` turns ahead, its own included, at least 1. Of several that
// are equally good each is as likely: they are tried in a random order, and the first one stays.
PUFFER_FN SearchMove alphabeta_best(const SearchPosition* position, int depth, Rng* rng) {
    SearchMove moves[SEARCH_MAX_MOVES];
    int count = alphabeta_list(position, moves), best = -SEARCH_INFINITY;
    SearchMove chosen;
    memset(&chosen, 0, sizeof(chosen));
    if (count == 1) return moves[0];
    for (int left = count; left > 0; left--) {
        int drawn = rng_below(rng, left);
        SearchMove move = moves[drawn];
        moves[drawn] = moves[left - 1];
        int value = alphabeta_gain(position, move, depth, best);
        if (value > best) {
            best = value;
            chosen = move;
        }
    }
    return chosen;
}

// The move of a bot, in a position that has one. Its strength is its depth, 0 for moves by chance alone, and the
// percentage of its moves that are drawn by chance nonetheless, so that its games differ.
PUFFER_FN SearchMove alphabeta_move(const SearchPosition* position, int depth, int random_percent, Rng* rng) {
    bool is_drawn = depth == 0 || (random_percent > 0 && rng_below(rng, 100) < random_percent);
    if (!is_drawn) return alphabeta_best(position, depth, rng);
    SearchMove moves[SEARCH_MAX_MOVES];
    int count = alphabeta_list(position, moves);
    return moves[rng_below(rng, count)];
}
