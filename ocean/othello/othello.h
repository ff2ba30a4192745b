// othello.h - Othello, also known as Reversi, against a bot that looks ahead or between two agents who take turns.
//
// A disc goes where it encloses discs of the other's in a straight line, and turns over all that it encloses. Who can
// place none passes; where neither can, the game is over, and who has more discs wins. Colours are drawn for each game.
//
// Observation uint8[64], row by row: 0 empty, 1 the agent's disc, 2 the other's, 3 where the agent may place one now.
// Action: a cell, row by row, 0 to 63, or 64 to pass. Masks allow the legal ones; another action stands for the next
// number that is legal, the lowest after the highest.
// Reward: +1 for a win, -1 for a loss, 0 for a draw, each terminal, and 0 for all other steps.
// Score is 1 for a win, 0 for a draw, -1 for a loss; perf is 1, 0.5 and 0.
//
// The bot looks `bot_depth` turns ahead, to corners, what lies beside them, and how many moves each side has; at 0 it
// moves by chance. `bot_random` percent of its moves are drawn by chance. Of two agents, PUFFER_BOT_MOVES of
// puffer_bot.h has it move for one.
#pragma once

#include "puffer_bits.h"

enum { OTHELLO_SIDE = 8, OTHELLO_CELLS = 64, OTHELLO_PASS = 64, OTHELLO_NUM_ACTIONS = 65, OTHELLO_MAX_TURNS = 128 };
enum { OTHELLO_NUM_DIRECTIONS = 4, OTHELLO_MAX_DEPTH = 8, OTHELLO_VALUE_DISC = 1000 };

#define OTHELLO_CORNERS (0x8100000000000081ull)
#define OTHELLO_BEFORE_CORNERS (0x0042000000004200ull)  // where a disc lets the other take a corner
#define OTHELLO_CORNERED (0x42C300000000C342ull)        // all neighbours of corners

// -------------------------------------------------------------------------------------------------------------- rules

typedef struct {
    uint64_t own, other;  // discs of the player to move, and of the opponent
} OthelloBoard;

// Cells from one to the next, and the cells that a line may cross without coming back at the other side.
PUFFER_TABLE int OTHELLO_STEPS[OTHELLO_NUM_DIRECTIONS] = {1, 7, 8, 9};
PUFFER_TABLE uint64_t OTHELLO_INNER[OTHELLO_NUM_DIRECTIONS] = {0x7E7E7E7E7E7E7E7Eull, 0x7E7E7E7E7E7E7E7Eull, ~0ull,
                                                               0x7E7E7E7E7E7E7E7Eull};

PUFFER_FN OthelloBoard othello_opening(void) {
    OthelloBoard board;
    board.own = 0x0000000810000000ull;
    board.other = 0x0000001008000000ull;
    return board;
}

// Cells where a disc encloses others: at the far end of lines of the other's discs that begin beside one's own.
PUFFER_FN uint64_t othello_cells(uint64_t own, uint64_t other) {
    uint64_t cells = 0;
    for (int i = 0; i < OTHELLO_NUM_DIRECTIONS; i++) {
        int step = OTHELLO_STEPS[i];
        uint64_t crossed = other & OTHELLO_INNER[i], up = crossed & (own << step), down = crossed & (own >> step);
        for (int length = 1; length < OTHELLO_SIDE - 2; length++) {
            up |= crossed & (up << step);
            down |= crossed & (down >> step);
        }
        cells |= up << step | down >> step;
    }
    return cells & ~(own | other);
}

// The discs that a new one turns over.
PUFFER_FN uint64_t othello_turned(uint64_t own, uint64_t other, uint64_t cell) {
    uint64_t turned = 0;
    for (int i = 0; i < OTHELLO_NUM_DIRECTIONS; i++) {
        int step = OTHELLO_STEPS[i];
        uint64_t crossed = other & OTHELLO_INNER[i], up = crossed & (cell << step), down = crossed & (cell >> step);
        for (int length = 1; length < OTHELLO_SIDE - 2; length++) {
            up |= crossed & (up << step);
            down |= crossed & (down >> step);
        }
        turned |= (own & up << step) ? up : 0;
        turned |= (own & down >> step) ? down : 0;
    }
    return turned;
}

// The board after a legal move, with the other player to move.
PUFFER_FN OthelloBoard othello_play(const OthelloBoard* board, int move) {
    uint64_t cell = move == OTHELLO_PASS ? 0 : 1ull << move;
    uint64_t turned = othello_turned(board->own, board->other, cell);
    OthelloBoard next;
    next.own = board->other & ~turned;
    next.other = board->own | turned | cell;
    return next;
}

// ------------------------------------------------------------------------------------------------------------- search

typedef OthelloBoard SearchPosition;
typedef int SearchMove;
typedef struct {
    uint64_t cells;
    bool is_pass;
} SearchMoves;
enum { SEARCH_MAX_MOVES = OTHELLO_CELLS, SEARCH_MAX_PLIES = OTHELLO_MAX_DEPTH };

PUFFER_FN SearchMoves search_moves(const SearchPosition* board) {
    SearchMoves moves;
    moves.cells = othello_cells(board->own, board->other);
    moves.is_pass = moves.cells == 0 && othello_cells(board->other, board->own) != 0;
    return moves;
}

// Corners first, what lies beside them last.
PUFFER_FN bool search_next(SearchMoves* moves, SearchMove* move) {
    uint64_t cells = moves->cells, good = cells & OTHELLO_CORNERS, fair = cells & ~OTHELLO_CORNERED;
    if (moves->is_pass) {
        moves->is_pass = false;
        *move = OTHELLO_PASS;
        return true;
    }
    if (cells == 0) return false;
    *move = bits_lowest(good ? good : fair ? fair : cells);
    moves->cells ^= 1ull << *move;
    return true;
}

PUFFER_FN SearchPosition search_play(const SearchPosition* board, SearchMove move) { return othello_play(board, move); }

PUFFER_FN bool search_keeps_turn(const SearchPosition* before, const SearchPosition* after) {
    (void)before, (void)after;
    return false;
}

// What one's discs are worth by where they lie, and by the moves that they leave.
PUFFER_FN int othello_worth(uint64_t own, uint64_t other, uint64_t cells) {
    return 60 * bits_count(own & OTHELLO_CORNERS) - 20 * bits_count(own & OTHELLO_BEFORE_CORNERS) +
           5 * bits_count(cells) - bits_count(own) * (bits_count(own | other) < 40);
}

PUFFER_FN bool search_settles(const SearchPosition* board, int depth, SearchMoves* moves, int* value) {
    uint64_t own = board->own, other = board->other, cells = othello_cells(own, other);
    uint64_t others = depth > 0 && cells ? 0 : othello_cells(other, own);
    moves->cells = cells;
    moves->is_pass = cells == 0;
    *value = 0;
    if (cells == 0 && others == 0) {
        *value = OTHELLO_VALUE_DISC * (bits_count(own) - bits_count(other));
        return true;
    }
    if (depth <= 0) *value = othello_worth(own, other, cells) - othello_worth(other, own, others);
    return depth <= 0;
}

#include "puffer_alphabeta.h"

// ---------------------------------------------------------------------------------------------------- the environment

typedef struct {
    uint8_t* observations;        // [64] an agent; these eight are borrowed from the caller
    const void* actions;          // int32_t[1] an agent
    float* rewards;               // [1] an agent
    uint8_t* terminals;           // [1] an agent
    uint8_t* truncations;         // [1] an agent, never set
    uint8_t* final_observations;  // like observations, or NULL
    uint8_t* action_masks;        // [65] an agent
    uint8_t* masks;               // [1] an agent
    Rng rng;
    OthelloBoard board;
    uint64_t cells;  // where the player to move may place a disc
    bool has_bot;
    int first;  // the seat that has the black discs
    int num_turns, num_steps;
    int bot_depth;   // turns that it looks ahead, 0 to 8
    int bot_random;  // percent of its moves
    Log log;         // summed at episode end, cleared by the reader
} Othello;

typedef Othello TurnsEnv;

PUFFER_FN PufferLayout c_layout(const Othello* env) {
    return puffer_masked_layout(env->has_bot ? 1 : 2, OTHELLO_CELLS, PUFFER_UINT8, 1, OTHELLO_NUM_ACTIONS);
}

#include "puffer_turns.h"

PUFFER_FN void turns_begin(Othello* env) {
    env->board = othello_opening();
    env->cells = othello_cells(env->board.own, env->board.other);
}

PUFFER_FN void othello_move(Othello* env, int move) {
    env->board = othello_play(&env->board, move);
    env->cells = othello_cells(env->board.own, env->board.other);
}

// The legal move that an action stands for.
PUFFER_FN int othello_move_of(const Othello* env, int action) {
    int least = (int)((uint32_t)action % OTHELLO_NUM_ACTIONS);
    uint64_t later = least == OTHELLO_PASS ? 0 : env->cells >> least << least;
    if (env->cells == 0) return OTHELLO_PASS;
    return bits_lowest(later ? later : env->cells);
}

PUFFER_FN void turns_play(Othello* env, int action) { othello_move(env, othello_move_of(env, action)); }

PUFFER_FN void turns_answer(Othello* env) {
    othello_move(env, alphabeta_move(&env->board, env->bot_depth, env->bot_random, &env->rng));
}

PUFFER_FN TurnsResult turns_result(const Othello* env) {
    if (env->cells || othello_cells(env->board.other, env->board.own)) return TURNS_UNDECIDED;
    int lead = bits_count(env->board.other) - bits_count(env->board.own);
    return lead > 0 ? TURNS_WON : lead < 0 ? TURNS_LOST : TURNS_DRAWN;
}

PUFFER_FN void turns_write(Othello* env, int seat, bool is_to_move) {
    bool is_turn = seat == turns_seat(env);
    uint64_t own = is_turn ? env->board.own : env->board.other, cells = is_to_move ? env->cells : 0;
    uint64_t other = is_turn ? env->board.other : env->board.own;
    uint8_t *row = env->observations + seat * OTHELLO_CELLS, *mask = env->action_masks + seat * OTHELLO_NUM_ACTIONS;
    for (int i = 0; i < OTHELLO_CELLS; i += OTHELLO_SIDE) {
        uint64_t allowed = bits_spread(cells >> i, 1);
        uint64_t kinds = bits_spread(own >> i, 1) | bits_spread(other >> i, 2) | 3 * allowed;
        memcpy(row + i, &kinds, sizeof(kinds));
        memcpy(mask + i, &allowed, sizeof(allowed));
    }
    mask[OTHELLO_PASS] = cells == 0;
}

// Discs lie apart, and there is a move.
PUFFER_FN bool c_accepts(const Othello* env, const Othello* saved) {
    uint64_t own = saved->board.own, other = saved->board.other, cells = othello_cells(own, other);
    return saved->bot_depth == env->bot_depth && saved->bot_random == env->bot_random &&
           turns_are_sound(env, saved, OTHELLO_MAX_TURNS) && (own & other) == 0 && saved->cells == cells &&
           (cells || othello_cells(other, own));
}
