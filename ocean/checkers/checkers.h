// checkers.h - English draughts on 64 squares: jump over all of the other's pieces, or leave them no move.
//
// Observation uint8[64], row by row from the top: 0 empty, 1 the agent's man, 2 its king, 3 the other's man, 4 its
// king; 5 a man and 6 a king of the agent's that may move now, 7 an empty square to which one may. The agent moves up.
// Action: square * 8 + direction * 2 + jump; directions 0 up left, 1 up right, 2 down left, 3 down right; jump is 1 for
// two squares over a piece, 0 for one square. Of 512 actions about eight are legal at a time, which the masks allow;
// another one stands for the next that is, counting up and from 511 on from 0. So that a person can choose by number,
// square * 8 + 7 of a light square, where no piece stands, is legal move square / 2, modulo their count, as
// checkers_next counts them. Reward: +1 for a win, -1 for a loss, 0 for a draw, each terminal; and against the bot in
// every step 0.05 for each man and 0.075 for each king that the agent took, and 0.025 for a man that it crowned, less
// as much for what it lost and the bot crowned. Score is 1 for a win, 0 for a draw, -1 for a loss; perf is 1, 0.5 and
// 0.
//
// Men go up, kings all four ways. Who can jump must; a piece that jumped and can jump again does so in the same turn,
// one step each, while the bot waits. A man that reaches the last row becomes a king and its turn ends. Who has no move
// loses. After 80 turns, 40 of each side, in which only kings moved and nothing was taken the game is a draw.
// Each step but those between two jumps is a turn of the agent and one of the bot; who begins is drawn by chance.
//
// With two agents each step is a move of one of them, and the log has the game of each; who begins is drawn. The second
// sees the board turned around, so that it moves up too. PUFFER_BOT_MOVES of puffer_bot.h has the bot move for one.
//
// The bot looks `bot_depth` turns ahead, and on until there is nothing to jump over; it counts pieces, and men that
// have crossed the middle. Of moves that are equally good it takes any. `bot_random` percent of its moves are drawn by
// chance.
#pragma once

#include "puffer_bits.h"
#include "puffer_bot.h"

enum { CHECKERS_SIDE = 8, CHECKERS_SQUARES = 64, CHECKERS_NUM_DIRECTIONS = 4, CHECKERS_NUM_ACTIONS = 512 };
enum { CHECKERS_MAX_PIECES = 12, CHECKERS_QUIET_TURNS = 80, CHECKERS_MAX_DEPTH = 8 };
enum { CHECKERS_AGENT, CHECKERS_BOT };
enum {
    CHECKERS_EMPTY,
    CHECKERS_MAN,
    CHECKERS_OTHER_MAN = 3,
    CHECKERS_MOVABLE_MAN = 5,
    CHECKERS_REACHABLE = 7
};  // a king is one more
enum { CHECKERS_VALUE_PIECE = 100, CHECKERS_VALUE_CROWN = 50, CHECKERS_VALUE_CROSSED = 4, CHECKERS_VALUE_WON = 100000 };

// Sets of squares are the bits of a number, the lowest the left top corner. Pieces stand on the dark half.
#define CHECKERS_DARK (0x55AA55AA55AA55AAull)
#define CHECKERS_TOP_ROW (0xFFull)
#define CHECKERS_BOTTOM_ROW (CHECKERS_TOP_ROW << 56)
#define CHECKERS_TOP_HALF (0xFFFFFFFFull)

#define CHECKERS_CROWN_REWARD (0.025f)  // half of a piece's

// -------------------------------------------------------------------------------------------------------------- rules

typedef struct {
    uint64_t pieces[2];  // of the agent, of the bot
    uint64_t kings;      // of both
    uint64_t jumper;     // the piece of the player to move that must jump on, or 0
    int player;          // to move
} CheckersBoard;

// Squares from which a piece may go in each direction: steps or jumps, never both.
typedef struct {
    uint64_t origins[CHECKERS_NUM_DIRECTIONS];
    bool is_jump;
} CheckersMoves;

PUFFER_TABLE int CHECKERS_STEPS[CHECKERS_NUM_DIRECTIONS] = {-9, -7, 7, 9};  // squares, by direction

// Where the squares' neighbours are. What leaves the board at a side comes back on light squares.
PUFFER_FN uint64_t checkers_neighbours(uint64_t squares, int direction) {
    int step = CHECKERS_STEPS[direction];
    return step < 0 ? squares >> -step : squares << step;
}

// The player's pieces that may go in a direction, jumpers alone while there is one.
PUFFER_FN uint64_t checkers_movers(const CheckersBoard* board, int direction) {
    uint64_t movers = board->jumper ? board->jumper : board->pieces[board->player];
    return direction / 2 == board->player ? movers : movers & board->kings;  // men go forward
}

PUFFER_FN uint64_t checkers_empty(const CheckersBoard* board) {
    return CHECKERS_DARK & ~(board->pieces[0] | board->pieces[1]);
}

PUFFER_FN bool checkers_has_moves(const CheckersMoves* moves) {
    return (moves->origins[0] | moves->origins[1] | moves->origins[2] | moves->origins[3]) != 0;
}

PUFFER_FN CheckersMoves checkers_jumps(const CheckersBoard* board) {
    uint64_t empty = checkers_empty(board), others = board->pieces[!board->player];
    CheckersMoves moves;
    for (int i = 0; i < CHECKERS_NUM_DIRECTIONS; i++) {
        int back = CHECKERS_NUM_DIRECTIONS - 1 - i;
        uint64_t over = others & checkers_neighbours(empty, back);
        moves.origins[i] = checkers_movers(board, i) & checkers_neighbours(over, back);
    }
    moves.is_jump = true;
    return moves;
}

PUFFER_FN CheckersMoves checkers_steps(const CheckersBoard* board) {
    uint64_t empty = checkers_empty(board);
    CheckersMoves moves;
    for (int i = 0; i < CHECKERS_NUM_DIRECTIONS; i++) {
        uint64_t beside = checkers_neighbours(empty, CHECKERS_NUM_DIRECTIONS - 1 - i);
        moves.origins[i] = checkers_movers(board, i) & beside;
    }
    moves.is_jump = false;
    return moves;
}

PUFFER_FN CheckersMoves checkers_moves(const CheckersBoard* board) {
    CheckersMoves jumps = checkers_jumps(board);
    return checkers_has_moves(&jumps) ? jumps : checkers_steps(board);
}

// Takes the next move out, a number as in the actions: those up left first, in each direction row by row from the top.
PUFFER_FN bool checkers_next(CheckersMoves* moves, int* move) {
    for (int i = 0; i < CHECKERS_NUM_DIRECTIONS; i++) {
        if (moves->origins[i] == 0) continue;
        *move = bits_lowest(moves->origins[i]) * 8 + i * 2 + moves->is_jump;
        moves->origins[i] &= moves->origins[i] - 1;
        return true;
    }
    return false;
}

// The board after a legal move. The turn passes, unless the piece jumped, was not crowned and can jump again.
PUFFER_FN CheckersBoard checkers_play(const CheckersBoard* board, int move) {
    int player = board->player, square = move / 8, step = CHECKERS_STEPS[move / 2 % 4];
    bool is_jump = move % 2, is_king = (board->kings >> square) & 1;
    uint64_t from = 1ull << square, to = 1ull << (square + (is_jump ? 2 : 1) * step);
    uint64_t over = is_jump ? 1ull << (square + step) : 0;
    bool is_crowned = !is_king && (to & (player == CHECKERS_AGENT ? CHECKERS_TOP_ROW : CHECKERS_BOTTOM_ROW));
    CheckersBoard next = *board;
    next.pieces[player] ^= from | to;
    next.pieces[!player] &= ~over;
    next.kings = (board->kings & ~(from | over)) | (is_king || is_crowned ? to : 0);
    next.jumper = is_jump && !is_crowned ? to : 0;
    if (next.jumper) {
        CheckersMoves jumps = checkers_jumps(&next);
        if (checkers_has_moves(&jumps)) return next;
    }
    next.jumper = 0;
    next.player = !player;
    return next;
}

// ------------------------------------------------------------------------------------------------------------- search

typedef CheckersBoard SearchPosition;
typedef CheckersMoves SearchMoves;
typedef int SearchMove;  // numbered as the actions
enum { SEARCH_MAX_MOVES = CHECKERS_MAX_PIECES * CHECKERS_NUM_DIRECTIONS };
enum { SEARCH_MAX_PLIES = CHECKERS_MAX_DEPTH + 2 * CHECKERS_MAX_PIECES };  // beyond the depth each takes a piece

PUFFER_FN SearchMoves search_moves(const SearchPosition* board) { return checkers_moves(board); }
PUFFER_FN bool search_next(SearchMoves* moves, SearchMove* move) { return checkers_next(moves, move); }
PUFFER_FN SearchPosition search_play(const SearchPosition* board, SearchMove move) {
    return checkers_play(board, move);
}
PUFFER_FN bool search_keeps_turn(const SearchPosition* before, const SearchPosition* after) {
    return before->player == after->player;
}

PUFFER_FN int checkers_value(const CheckersBoard* board, int player) {
    uint64_t pieces = board->pieces[player], far = player == CHECKERS_AGENT ? CHECKERS_TOP_HALF : ~CHECKERS_TOP_HALF;
    return CHECKERS_VALUE_PIECE * bits_count(pieces) + CHECKERS_VALUE_CROWN * bits_count(pieces & board->kings) +
           CHECKERS_VALUE_CROSSED * bits_count(pieces & far & ~board->kings);
}

PUFFER_FN bool search_settles(const SearchPosition* board, int depth, SearchMoves* moves, int* value) {
    *value = 0;
    *moves = checkers_jumps(board);
    if (checkers_has_moves(moves)) return false;
    if (depth <= 0) {
        *value = checkers_value(board, board->player) - checkers_value(board, !board->player);
        return true;
    }
    *moves = checkers_steps(board);
    bool is_lost = !checkers_has_moves(moves);
    if (is_lost) *value = -(CHECKERS_VALUE_WON + depth);
    return is_lost;
}

#include "puffer_alphabeta.h"

// ---------------------------------------------------------------------------------------------------- the environment

typedef struct {
    uint8_t* observations;        // [64] an agent  these eight are borrowed from the caller
    const void* actions;          // int32_t[1] an agent
    float* rewards;               // [1] an agent
    uint8_t* terminals;           // [1] an agent
    uint8_t* truncations;         // [1] an agent, never set
    uint8_t* action_masks;        // [512] an agent
    uint8_t* masks;               // [1] an agent
    uint8_t* final_observations;  // [64] an agent, or NULL
    Rng rng;
    CheckersBoard board;  // an agent is to move: the bot's is 1, or the second agent
    int agents;           // 1 against the bot, 2 by turns
    int quiet_turns;      // since a man moved or a piece was taken
    int bot_depth;        // turns that it looks ahead, 0 to 8
    int bot_random;       // percent of its moves
    int episode_length;   // steps
    float episode_return;
    Log log;  // summed at episode end, cleared by the reader
} Checkers;

PUFFER_FN PufferLayout c_layout(const Checkers* env) {
    return puffer_masked_layout(env->agents, CHECKERS_SQUARES, PUFFER_UINT8, 1, CHECKERS_NUM_ACTIONS);
}

// -------------------------------------------------------------------------------------------------- the board of each

PUFFER_FN uint64_t checkers_turned(uint64_t squares) {  // by half a turn: the last square becomes the first
    uint64_t turned = 0;
    for (; squares; squares &= squares - 1) turned |= 1ull << (CHECKERS_SQUARES - 1 - bits_lowest(squares));
    return turned;
}

// The board as an agent sees it, who moves up and is CHECKERS_AGENT there.
PUFFER_FN CheckersBoard checkers_seen_by(const CheckersBoard* board, int agent) {
    if (agent == CHECKERS_AGENT) return *board;
    CheckersBoard seen;
    seen.pieces[CHECKERS_AGENT] = checkers_turned(board->pieces[CHECKERS_BOT]);
    seen.pieces[CHECKERS_BOT] = checkers_turned(board->pieces[CHECKERS_AGENT]);
    seen.kings = checkers_turned(board->kings);
    seen.jumper = checkers_turned(board->jumper);
    seen.player = !board->player;
    return seen;
}

// What an observation shows: sets of squares.
typedef struct {
    uint64_t agent, bot, kings;
    uint64_t movable, reachable;  // squares from which and to which the agent may move now
} CheckersView;

PUFFER_FN CheckersView checkers_view(const CheckersBoard* board) {
    CheckersView view = {board->pieces[CHECKERS_AGENT], board->pieces[CHECKERS_BOT], board->kings, 0, 0};
    if (board->player != CHECKERS_AGENT) return view;
    CheckersMoves moves = checkers_moves(board);
    for (int i = 0; i < CHECKERS_NUM_DIRECTIONS; i++) {
        uint64_t beside = checkers_neighbours(moves.origins[i], i);
        view.movable |= moves.origins[i];
        view.reachable |= moves.is_jump ? checkers_neighbours(beside, i) : beside;
    }
    return view;
}

PUFFER_FN uint8_t checkers_kind(const CheckersView* view, uint64_t square) {
    int is_king = (view->kings & square) != 0;
    if (view->movable & square) return (uint8_t)(CHECKERS_MOVABLE_MAN + is_king);
    if (view->agent & square) return (uint8_t)(CHECKERS_MAN + is_king);
    if (view->bot & square) return (uint8_t)(CHECKERS_OTHER_MAN + is_king);
    return view->reachable & square ? (uint8_t)CHECKERS_REACHABLE : (uint8_t)CHECKERS_EMPTY;
}

// Allows the legal moves of the agent to move; one that waits may do anything, which means nothing.
PUFFER_FN void checkers_write_masks(Checkers* env, int agent, const CheckersBoard* seen) {
    uint8_t* allowed = env->action_masks + agent * CHECKERS_NUM_ACTIONS;
    bool is_to_move = seen->player == CHECKERS_AGENT;
    env->masks[agent] = is_to_move;
    memset(allowed, !is_to_move, CHECKERS_NUM_ACTIONS);
    if (!is_to_move) return;
    CheckersMoves moves = checkers_moves(seen);
    for (int move = 0; checkers_next(&moves, &move);) allowed[move] = 1;
}

PUFFER_FN void checkers_write_rows(Checkers* env, int agent) {
    CheckersBoard seen = checkers_seen_by(&env->board, agent);
    CheckersView view = checkers_view(&seen);
    uint8_t* observation = env->observations + agent * CHECKERS_SQUARES;
    for (int square = 0; square < CHECKERS_SQUARES; square++)
        observation[square] = checkers_kind(&view, 1ull << square);
    checkers_write_masks(env, agent, &seen);
}

// Rewrites what differs from the board that was observed before.
PUFFER_FN void checkers_write_changes(Checkers* env, const CheckersBoard* before) {
    if (env->agents == 2) {
        for (int agent = 0; agent < 2; agent++) checkers_write_rows(env, agent);
        return;
    }
    checkers_write_masks(env, CHECKERS_AGENT, &env->board);
    CheckersView old = checkers_view(before), now = checkers_view(&env->board);
    uint64_t changed = (old.agent ^ now.agent) | (old.bot ^ now.bot) | (old.kings ^ now.kings) |
                       (old.movable ^ now.movable) | (old.reachable ^ now.reachable);
    for (; changed; changed &= changed - 1) {
        env->observations[bits_lowest(changed)] = checkers_kind(&now, changed & (0 - changed));
    }
}

PUFFER_FN bool checkers_is_stuck(const Checkers* env) {
    CheckersMoves moves = checkers_moves(&env->board);
    return !checkers_has_moves(&moves);
}

PUFFER_FN void checkers_move(Checkers* env, int move) {
    bool is_quiet = move % 2 == 0 && ((env->board.kings >> move / 8) & 1);
    env->quiet_turns = is_quiet ? env->quiet_turns + 1 : 0;
    env->board = checkers_play(&env->board, move);
}

// The move that the bot chooses for the player to move.
PUFFER_FN int checkers_bot_move(Checkers* env) {
    return alphabeta_move(&env->board, env->bot_depth, env->bot_random, &env->rng);
}

PUFFER_FN void checkers_answer(Checkers* env) {
    while (env->board.player == CHECKERS_BOT) checkers_move(env, checkers_bot_move(env));
}

PUFFER_FN void checkers_begin_episode(Checkers* env) {
    memset(&env->board, 0, sizeof(env->board));
    env->board.pieces[CHECKERS_AGENT] = CHECKERS_DARK & 0xFFFFFF0000000000ull;
    env->board.pieces[CHECKERS_BOT] = CHECKERS_DARK & 0x0000000000FFFFFFull;
    env->quiet_turns = env->episode_length = 0;
    env->episode_return = 0.0f;
    env->board.player = rng_below(&env->rng, 2) ? CHECKERS_BOT : CHECKERS_AGENT;
    if (env->agents == 1) checkers_answer(env);
}

PUFFER_FN void c_reset(Checkers* env) {
    CheckersBoard empty;
    memset(&empty, 0, sizeof(empty));
    memset(env->observations, CHECKERS_EMPTY, (size_t)env->agents * CHECKERS_SQUARES);
    checkers_begin_episode(env);
    checkers_write_changes(env, &empty);
}

// The legal move with the lowest number that is `least` or more; one lower than all if there is none.
PUFFER_FN int checkers_next_legal(const CheckersMoves* moves, int least) {
    const uint64_t* origins = moves->origins;
    uint64_t all = origins[0] | origins[1] | origins[2] | origins[3], here = 1ull << least / 8;
    for (int i = 0; i < CHECKERS_NUM_DIRECTIONS; i++) {
        int move = least / 8 * 8 + i * 2 + moves->is_jump;
        if ((origins[i] & here) && move >= least) return move;
    }
    uint64_t later = all & ~(here | (here - 1));
    int square = bits_lowest(later ? later : all), direction = 0;
    while (!((origins[direction] >> square) & 1)) direction++;
    return square * 8 + direction * 2 + moves->is_jump;
}

// The legal move that an action stands for, on the board as who moves sees it.
PUFFER_FN int checkers_move_of(const CheckersBoard* seen, uint32_t number) {
    int action = (int)(number % CHECKERS_NUM_ACTIONS), count = 0, move = 0;
    CheckersMoves moves = checkers_moves(seen);
    bool is_number = action % 8 == 7 && !((CHECKERS_DARK >> action / 8) & 1);
    if (!is_number) return checkers_next_legal(&moves, action);
    for (int i = 0; i < CHECKERS_NUM_DIRECTIONS; i++) count += bits_count(moves.origins[i]);
    for (int left = action / 16 % count; left >= 0; left--) checkers_next(&moves, &move);
    return move;
}

// The move of the agent to move, on the board as it is.
PUFFER_FN int checkers_agent_move(const Checkers* env) {
    int agent = env->board.player;
    CheckersBoard seen = checkers_seen_by(&env->board, agent);
    int move = checkers_move_of(&seen, ((const uint32_t*)env->actions)[agent]);
    if (agent == CHECKERS_AGENT) return move;
    return (CHECKERS_SQUARES - 1 - move / 8) * 8 + (CHECKERS_NUM_DIRECTIONS - 1 - move / 2 % 4) * 2 + move % 2;
}

// What the agent has more than the bot: men count two, kings three.
PUFFER_FN int checkers_lead(const CheckersBoard* board) {
    uint64_t agent = board->pieces[CHECKERS_AGENT], bot = board->pieces[CHECKERS_BOT], kings = board->kings;
    return 2 * (bits_count(agent) - bits_count(bot)) + bits_count(agent & kings) - bits_count(bot & kings);
}

// Plays the agent's move and the bot's turn; returns whether the game is over, and how.
PUFFER_FN bool checkers_take_turns(Checkers* env, float* outcome) {
    checkers_move(env, checkers_agent_move(env));
    *outcome = 0.0f;
    if (env->board.player == CHECKERS_AGENT) return false;  // it must jump on
    *outcome = 1.0f;
    if (checkers_is_stuck(env)) return true;
    *outcome = 0.0f;
    if (env->quiet_turns == CHECKERS_QUIET_TURNS) return true;
    checkers_answer(env);
    *outcome = -1.0f;
    if (checkers_is_stuck(env)) return true;
    *outcome = 0.0f;
    return env->quiet_turns == CHECKERS_QUIET_TURNS;
}

// The move of the agent to move, or of the bot in its place.
PUFFER_FN int checkers_next_move(Checkers* env) {
    bool asks_bot = env->agents == 2 && ((const int32_t*)env->actions)[env->board.player] == PUFFER_BOT_MOVES;
    return asks_bot ? checkers_bot_move(env) : checkers_agent_move(env);
}

// Plays a move of the agent to move; returns whether the game is over, and how for the first one.
PUFFER_FN bool checkers_take_turn(Checkers* env, float* outcome) {
    int mover = env->board.player;
    checkers_move(env, checkers_next_move(env));
    *outcome = 0.0f;
    if (env->board.player == mover) return false;  // it must jump on
    bool is_won = checkers_is_stuck(env);
    if (is_won) *outcome = mover == CHECKERS_AGENT ? 1.0f : -1.0f;
    return is_won || env->quiet_turns == CHECKERS_QUIET_TURNS;
}

// `outcome` is 1 for a win, 0 for a draw, -1 for a loss.
PUFFER_FN void checkers_finish_episode(Checkers* env, float outcome) {
    for (int agent = 0; agent < env->agents; agent++) {
        float sign = agent == CHECKERS_AGENT ? 1.0f : -1.0f;
        env->terminals[agent] = 1;
        env->log.perf += 0.5f * (sign * outcome + 1.0f);
        env->log.score += sign * outcome;
        env->log.episode_return += sign * env->episode_return;
        env->log.episode_length += (float)env->episode_length;
        env->log.n += 1.0f;
    }
    keep_final(env->final_observations, env->observations, (size_t)env->agents * CHECKERS_SQUARES);
    c_reset(env);
}

PUFFER_FN void c_step(Checkers* env) {
    CheckersBoard before = env->board;
    float outcome = 0.0f;
    bool is_over = env->agents == 2 ? checkers_take_turn(env, &outcome) : checkers_take_turns(env, &outcome);
    memset(env->terminals, 0, (size_t)env->agents);
    memset(env->truncations, 0, (size_t)env->agents);
    env->rewards[0] = outcome;
    if (env->agents == 2) {
        env->rewards[1] = -outcome;
    } else {
        env->rewards[0] += CHECKERS_CROWN_REWARD * (float)(checkers_lead(&env->board) - checkers_lead(&before));
    }
    env->episode_return += env->rewards[0];
    env->episode_length += 1;
    checkers_write_changes(env, &before);
    if (is_over) checkers_finish_episode(env, outcome);
}

// Pieces stand apart on dark squares, men not where they are crowned, and the agent has a move.
PUFFER_FN bool checkers_board_is_sound(const CheckersBoard* board) {
    uint64_t agent = board->pieces[CHECKERS_AGENT], bot = board->pieces[CHECKERS_BOT], men = ~board->kings;
    if (board->player != CHECKERS_AGENT || (agent & bot) || ((agent | bot) & ~CHECKERS_DARK)) return false;
    if ((agent & men & CHECKERS_TOP_ROW) || (bot & men & CHECKERS_BOTTOM_ROW)) return false;
    if (bits_count(agent) > CHECKERS_MAX_PIECES || bits_count(bot) > CHECKERS_MAX_PIECES) return false;
    if ((board->kings & ~(agent | bot)) || (board->jumper & (~agent | (board->jumper - 1)))) return false;
    CheckersMoves moves = board->jumper ? checkers_jumps(board) : checkers_moves(board);
    return checkers_has_moves(&moves);
}

PUFFER_FN bool c_accepts(const Checkers* env, const Checkers* saved) {
    if (saved->agents != env->agents || !is_within(saved->board.player, 0, env->agents - 1)) return false;
    CheckersBoard seen = checkers_seen_by(&saved->board, saved->board.player);
    return saved->bot_depth == env->bot_depth && saved->bot_random == env->bot_random &&
           is_within(saved->quiet_turns, 0, CHECKERS_QUIET_TURNS - 1) &&
           is_within(saved->episode_length, 0, PUFFER_MAX_STEPS) && checkers_board_is_sound(&seen);
}
