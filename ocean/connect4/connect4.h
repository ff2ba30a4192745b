// connect4.h - Connect Four: drop discs into seven columns of six cells; four of your own in a line win.
//
// Observation uint8[42], a kind for each cell, row by row from the bottom:
//     1 the agent's disc, 2 the other's
//     0 empty, or 3 where a disc of the agent would make four, 4 where one of the other would, 5 where either would
//
// Action: the column, 0 to 6 from the left. Masks allow those with room; a column that is full, or a number that is
// none, loses.
// Reward: +1 for a win, -1 for a loss, 0 for a draw, each terminal, and 0 for all other steps.
// Score is 1 for a win, 0 for a draw, -1 for a loss; perf is 1, 0.5 and 0.
//
// With one agent each step is one disc of the agent and the answer of the bot; who begins is drawn by chance. The bot
// looks `bot_depth` discs ahead and sees nothing but four in a line: of the moves that are equally good it takes any.
// `bot_random` percent of its discs fall by chance.
//
// With two agents each step is one disc of one of them, by turns, and the log has the game of each; who begins is
// drawn. PUFFER_BOT_MOVES of puffer_bot.h has the bot move for one of them.
//
// Boards are sets of cells, the bits of a number: column * 7 + row from the bottom. The seventh row stays empty, so
// that no line runs from one column into the next.
#pragma once

#include "puffer_bits.h"
#include "puffer_bot.h"

enum { CONNECT4_COLUMNS = 7, CONNECT4_ROWS = 6, CONNECT4_CELLS = 42, CONNECT4_STRIDE = 7, CONNECT4_NUM_DIRECTIONS = 4 };
enum { CONNECT4_MAX_DEPTH = 8, CONNECT4_WON = 1000 };
enum { CONNECT4_AGENT, CONNECT4_BOT };  // or the first agent and the second
enum { CONNECT4_OWN_DISC = 1, CONNECT4_OTHER_DISC, CONNECT4_OWN_FOUR, CONNECT4_OTHER_FOUR, CONNECT4_EITHER_FOUR };

#define CONNECT4_BOTTOM (0x40810204081ull)          // the lowest cell of every column
#define CONNECT4_BOARD (CONNECT4_BOTTOM * 0x3Full)  // all cells
#define CONNECT4_COLUMN(column) (0x3Full << (CONNECT4_STRIDE * (column)))

// -------------------------------------------------------------------------------------------------------------- rules

typedef struct {
    uint64_t own, other;  // discs of the player to move, and of the opponent
} Connect4Board;

// Steps between neighbours: up, and to the right falling, level and rising.
PUFFER_TABLE int CONNECT4_DIRECTIONS[CONNECT4_NUM_DIRECTIONS] = {1, CONNECT4_STRIDE - 1, CONNECT4_STRIDE,
                                                                 CONNECT4_STRIDE + 1};

PUFFER_FN bool connect4_has_four(uint64_t discs) {
    for (int i = 0; i < CONNECT4_NUM_DIRECTIONS; i++) {
        uint64_t pairs = discs & (discs >> CONNECT4_DIRECTIONS[i]);
        if (pairs & (pairs >> 2 * CONNECT4_DIRECTIONS[i])) return true;
    }
    return false;
}

// Cells, taken ones among them, that make four with three discs: at either end of three, or in the gap of two and one.
PUFFER_FN uint64_t connect4_completing(uint64_t discs) {
    uint64_t cells = (discs << 1) & (discs << 2) & (discs << 3);  // above three
    for (int i = 1; i < CONNECT4_NUM_DIRECTIONS; i++) {
        int step = CONNECT4_DIRECTIONS[i];
        uint64_t left = discs << step, right = discs >> step;  // cells with a disc to their left, to their right
        uint64_t two_left = left & (left << step), two_right = right & (right >> step);
        cells |= two_left & ((left << 2 * step) | right);
        cells |= two_right & ((right >> 2 * step) | left);
    }
    return cells & CONNECT4_BOARD;
}

// The cells that a disc would come to rest in, one of each column that is not full.
PUFFER_FN uint64_t connect4_landings(uint64_t discs) { return (discs + CONNECT4_BOTTOM) & CONNECT4_BOARD; }

// ------------------------------------------------------------------------------------------------------------- search

typedef Connect4Board SearchPosition;
typedef uint64_t SearchMove;   // the cell where the disc comes to rest
typedef uint64_t SearchMoves;  // cells, at most one of a column
enum { SEARCH_MAX_MOVES = CONNECT4_COLUMNS, SEARCH_MAX_PLIES = CONNECT4_MAX_DEPTH };

PUFFER_TABLE int CONNECT4_ORDER[CONNECT4_COLUMNS] = {3, 2, 4, 1, 5, 0, 6};  // most lines cross the middle

PUFFER_FN SearchMoves search_moves(const SearchPosition* board) {
    return connect4_has_four(board->other) ? 0 : connect4_landings(board->own | board->other);
}

PUFFER_FN bool search_next(SearchMoves* cells, SearchMove* cell) {
    for (int i = 0; i < CONNECT4_COLUMNS; i++) {
        *cell = *cells & CONNECT4_COLUMN(CONNECT4_ORDER[i]);
        if (*cell == 0) continue;
        *cells ^= *cell;
        return true;
    }
    return false;
}

PUFFER_FN SearchPosition search_play(const SearchPosition* board, SearchMove cell) {
    SearchPosition next;
    next.own = board->other;
    next.other = board->own | cell;
    return next;
}

PUFFER_FN bool search_keeps_turn(const SearchPosition* before, const SearchPosition* after) {
    (void)before, (void)after;
    return false;
}

// Sees what the next two discs can do without playing them: who has three in a line takes the fourth, or the other
// must be kept from it.
PUFFER_FN bool search_settles(const SearchPosition* board, int depth, SearchMoves* moves, int* value) {
    uint64_t landings = connect4_landings(board->own | board->other);
    bool is_over = connect4_has_four(board->other);
    *value = is_over ? -(CONNECT4_WON + depth) : 0;
    if (is_over || depth == 0 || landings == 0) return true;
    bool is_won = (landings & connect4_completing(board->own)) != 0;
    if (is_won) *value = CONNECT4_WON + depth - 1;
    if (is_won || depth == 1) return true;
    uint64_t threats = connect4_completing(board->other), forced = landings & threats;
    // A disc below a cell that the other needs would let it in there.
    *moves = (forced ? forced : landings) & ~(threats >> 1);
    bool is_lost = (forced & (forced - 1)) || *moves == 0;
    if (is_lost) *value = -(CONNECT4_WON + depth - 2);
    return is_lost || depth == 2;
}

#include "puffer_alphabeta.h"

// ---------------------------------------------------------------------------------------------------- the environment

typedef struct {
    uint8_t* observations;        // [42] an agent  these eight are borrowed from the caller
    const void* actions;          // int32_t[1] an agent
    float* rewards;               // [1] an agent
    uint8_t* terminals;           // [1] an agent
    uint8_t* truncations;         // [1] an agent, never set
    uint8_t* action_masks;        // [7] an agent
    uint8_t* masks;               // [1] an agent
    uint8_t* final_observations;  // [42] an agent, or NULL
    Rng rng;
    uint64_t discs[2];  // of the agent, of the bot or the second agent
    int agents;         // 1 against the bot, 2 by turns
    int mover;          // the agent to move
    int bot_depth;      // discs that it looks ahead, 0 to 8
    int bot_random;     // percent of its discs
    Log log;            // summed at episode end, cleared by the reader
} Connect4;

PUFFER_FN PufferLayout c_layout(const Connect4* env) {
    return puffer_masked_layout(env->agents, CONNECT4_CELLS, PUFFER_UINT8, 1, CONNECT4_COLUMNS);
}

PUFFER_FN void connect4_drop(Connect4* env, int player, uint64_t cell) { env->discs[player] |= cell; }

PUFFER_FN void connect4_mark(uint8_t* observation, uint64_t cells, uint8_t kind) {
    for (; cells; cells &= cells - 1) {
        int bit = bits_lowest(cells), column = bit / CONNECT4_STRIDE, row = bit % CONNECT4_STRIDE;
        observation[row * CONNECT4_COLUMNS + column] = kind;
    }
}

PUFFER_FN void connect4_write_observations(Connect4* env) {
    uint64_t empty = CONNECT4_BOARD & ~(env->discs[CONNECT4_AGENT] | env->discs[CONNECT4_BOT]);
    memset(env->observations, 0, (size_t)env->agents * CONNECT4_CELLS);
    for (int agent = 0; agent < env->agents; agent++) {
        uint8_t* observation = env->observations + agent * CONNECT4_CELLS;
        uint64_t own = empty & connect4_completing(env->discs[agent]);
        uint64_t other = empty & connect4_completing(env->discs[!agent]);
        connect4_mark(observation, env->discs[agent], CONNECT4_OWN_DISC);
        connect4_mark(observation, env->discs[!agent], CONNECT4_OTHER_DISC);
        connect4_mark(observation, own & ~other, CONNECT4_OWN_FOUR);
        connect4_mark(observation, other & ~own, CONNECT4_OTHER_FOUR);
        connect4_mark(observation, own & other, CONNECT4_EITHER_FOUR);
    }
}

// The cell that the bot chooses for a player, on a board that is not full.
PUFFER_FN uint64_t connect4_bot_cell(Connect4* env, int player) {
    Connect4Board board;
    board.own = env->discs[player];
    board.other = env->discs[!player];
    return alphabeta_move(&board, env->bot_depth, env->bot_random, &env->rng);
}

PUFFER_FN void connect4_answer(Connect4* env) {
    connect4_drop(env, CONNECT4_BOT, connect4_bot_cell(env, CONNECT4_BOT));
}

// The cell that the action of an agent stands for, 0 if it is none.
PUFFER_FN uint64_t connect4_agent_cell(Connect4* env, int agent) {
    int column = ((const int32_t*)env->actions)[agent];
    if (column == PUFFER_BOT_MOVES && env->agents == 2) return connect4_bot_cell(env, agent);
    if (!is_within(column, 0, CONNECT4_COLUMNS - 1)) return 0;
    return connect4_landings(env->discs[CONNECT4_AGENT] | env->discs[CONNECT4_BOT]) & CONNECT4_COLUMN(column);
}

PUFFER_FN bool connect4_is_full(const Connect4* env) {
    return (env->discs[CONNECT4_AGENT] | env->discs[CONNECT4_BOT]) == CONNECT4_BOARD;
}

PUFFER_FN void connect4_write_masks(Connect4* env) {
    uint64_t landings = connect4_landings(env->discs[CONNECT4_AGENT] | env->discs[CONNECT4_BOT]);
    for (int agent = 0; agent < env->agents; agent++) {
        env->masks[agent] = agent == env->mover;
        for (int column = 0; column < CONNECT4_COLUMNS; column++) {
            env->action_masks[agent * CONNECT4_COLUMNS + column] = (landings & CONNECT4_COLUMN(column)) != 0;
        }
    }
}

PUFFER_FN void c_reset(Connect4* env) {
    env->discs[CONNECT4_AGENT] = env->discs[CONNECT4_BOT] = 0;
    bool is_second = rng_below(&env->rng, 2);
    env->mover = is_second && env->agents == 2 ? CONNECT4_BOT : CONNECT4_AGENT;
    if (is_second && env->agents == 1) connect4_answer(env);
    connect4_write_observations(env);
    connect4_write_masks(env);
}

// `outcome` is 1 for a win, 0 for a draw, -1 for a loss, and the first agent's reward.
PUFFER_FN void connect4_finish_episode(Connect4* env, float outcome, int num_steps) {
    for (int agent = 0; agent < env->agents; agent++) {
        float result = agent == CONNECT4_AGENT ? outcome : -outcome;
        env->rewards[agent] = result;
        env->terminals[agent] = 1;
        env->log.perf += 0.5f * (result + 1.0f);
        env->log.score += result;
        env->log.episode_return += result;
        env->log.episode_length += (float)num_steps;
        env->log.n += 1.0f;
    }
    connect4_write_observations(env);
    keep_final(env->final_observations, env->observations, (size_t)env->agents * CONNECT4_CELLS);
    c_reset(env);
}

// Plays the agent's disc, which rests in `cell`, and the bot's; returns whether the game is over, and how.
PUFFER_FN bool connect4_play(Connect4* env, uint64_t cell, float* outcome) {
    connect4_drop(env, CONNECT4_AGENT, cell);
    *outcome = 1.0f;
    if (connect4_has_four(env->discs[CONNECT4_AGENT])) return true;
    *outcome = 0.0f;
    if (connect4_is_full(env)) return true;
    connect4_answer(env);
    bool is_lost = connect4_has_four(env->discs[CONNECT4_BOT]);
    *outcome = is_lost ? -1.0f : 0.0f;
    return is_lost || connect4_is_full(env);
}

// Plays the disc of the agent to move; returns whether the game is over, and how for the first agent.
PUFFER_FN bool connect4_take_turn(Connect4* env, uint64_t cell, float* outcome) {
    int mover = env->mover;
    float won = mover == CONNECT4_AGENT ? 1.0f : -1.0f;
    *outcome = -won;
    if (cell == 0) return true;
    connect4_drop(env, mover, cell);
    env->mover = !mover;
    bool is_won = connect4_has_four(env->discs[mover]);
    *outcome = is_won ? won : 0.0f;
    return is_won || connect4_is_full(env);
}

PUFFER_FN void c_step(Connect4* env) {
    uint64_t cell = connect4_agent_cell(env, env->mover);
    int num_steps = bits_count(env->discs[CONNECT4_AGENT]) + 1;
    if (env->agents == 2) num_steps += bits_count(env->discs[CONNECT4_BOT]);
    float outcome = -1.0f;
    memset(env->rewards, 0, (size_t)env->agents * sizeof(float));
    memset(env->terminals, 0, (size_t)env->agents);
    memset(env->truncations, 0, (size_t)env->agents);
    bool is_over = env->agents == 2 ? connect4_take_turn(env, cell, &outcome)
                   : cell == 0      ? true
                                    : connect4_play(env, cell, &outcome);
    if (is_over) {
        connect4_finish_episode(env, outcome, num_steps);
    } else {
        connect4_write_observations(env);
        connect4_write_masks(env);
    }
}

// Discs lie on discs, and nobody has won.
PUFFER_FN bool c_accepts(const Connect4* env, const Connect4* saved) {
    uint64_t agent = saved->discs[CONNECT4_AGENT], bot = saved->discs[CONNECT4_BOT], all = agent | bot;
    return saved->bot_depth == env->bot_depth && saved->bot_random == env->bot_random && saved->agents == env->agents &&
           is_within(saved->mover, 0, env->agents - 1) && (agent & bot) == 0 && (all & ~CONNECT4_BOARD) == 0 &&
           all != CONNECT4_BOARD && (all & ~(all << 1) & ~CONNECT4_BOTTOM) == 0 && !connect4_has_four(agent) &&
           !connect4_has_four(bot);
}
