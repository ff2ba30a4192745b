// chess.h - chess by the complete rules, against a bot that looks ahead or between two agents who take turns.
//
// Castling, en passant and promotion to all four pieces; a game is drawn by stalemate, when a position comes up for the
// third time, after a hundred turns without a capture or a move of a pawn, and when neither side can mate. Draws that
// players would have to claim come by themselves. Colours are drawn for each game.
//
// Each side sees the board from its own side, the rank of its king first, files from a to h; actions are numbered the
// same way, so that black's moves are those of white upside down.
// Observation uint8[130]. 64 squares: 0 empty, then pawn, knight, bishop, rook, queen, king: 1 to 6 the agent's, 7 to
// 12 the other's; 13 and 14 are a rook of the agent's and of the other's that may still castle, 15 is an empty square
// on which a pawn may be taken en passant. Once more 64: what attacks each square, whoever stands there, three times
// the least of the other's pieces (0 none, 1 a pawn, 2 a knight or a bishop, 3 a rook, 4 a queen or the king) and one
// for each of the agent's pieces, at most two. Then the turns without a capture or a move of a pawn, in tens, and
// whether the position has been there before.
// Action: a move, 0 to 1857: of the 1,792 pairs of squares that a queen or a knight may go between, from the lowest
// square to the highest and for each of them to the lowest first; a pawn that reaches the last rank becomes a queen.
// Then 22 pairs for the other promotions, by the pawn's file and then where it goes to, each as a knight, a bishop, a
// rook. No number stands for what no piece could do on any board, which makes a policy's last layer as small as it can
// be. The king castles by its own two steps. Masks allow the legal moves. Another action stands for one of them: those
// of the other promotions for as many legal moves in turn, as a person's keys do, and all others for the next number
// that is legal, the lowest after the highest.
// Reward: +1 for a win, -1 for a loss, -`draw_penalty` for a draw, each terminal, and in every step `piece_reward` for
// each pawn's worth that the agent's pieces have gained over the other's, as the bot counts them; of a side's pieces no
// more counts than it begins with, or a player who wins collects queens in place of the mate, and gives stalemate.
// Score is 1 for a win, 0 for a draw, -1 for a loss; perf is 1, 0.5, 0.
//
// The bot looks `bot_depth` turns ahead, to what pieces are worth and how far they stand to the middle; at 0 it moves
// by chance, at 1 it takes what it can; at 5 one of 0, 1 and 2 is drawn for each game, but it is 0 in `chance_games`
// percent of them. `bot_random` percent of its moves are drawn by chance. Of two agents, PUFFER_BOT_MOVES of
// puffer_bot.h has it move for one.
#pragma once

#include "puffer_bits.h"

enum { CHESS_SQUARES = 64, CHESS_OBSERVATION = 130, CHESS_NUM_ACTIONS = 1858, CHESS_PROMOTIONS = 1792 };
enum { CHESS_PAWN, CHESS_KNIGHT, CHESS_BISHOP, CHESS_ROOK, CHESS_QUEEN, CHESS_KING, CHESS_KINDS };
enum { CHESS_OTHERS = CHESS_KINDS, CHESS_CASTLING_ROOK = 13, CHESS_PASSED = 15 };  // in an observation
enum {
    CHESS_KINGSIDE = 1,
    CHESS_QUEENSIDE = 2,
    CHESS_BOTH_SIDES = 3
};  // rights to castle; the other's two bits higher
enum { CHESS_QUIET_TURNS = 100, CHESS_MAX_MOVES = 218, CHESS_MAX_DEPTH = 4, CHESS_DRAWN_DEPTH = 5 };
enum { CHESS_UNDRAWN = -1, CHESS_DRAWS = 3 };  // the depth of a game before its bot moves; depths that are drawn
enum { CHESS_VALUE_WON = 100000 };

// Sets of squares are the bits of a number, 8 * rank + file.
#define CHESS_A_FILE (0x0101010101010101ull)
#define CHESS_H_FILE (CHESS_A_FILE << 7)
#define CHESS_FIRST_RANK (0xFFull)
#define CHESS_THIRD_RANK (CHESS_FIRST_RANK << 16)
#define CHESS_LAST_RANK (CHESS_FIRST_RANK << 56)
#define CHESS_DIAGONAL (0x8040201008040201ull)
#define CHESS_ANTIDIAGONAL (0x0102040810204080ull)
#define CHESS_MIDDLE (0x00003C3C3C3C0000ull)
#define CHESS_HEART (0x0000001818000000ull)
#define CHESS_DARK (0xAA55AA55AA55AA55ull)

// -------------------------------------------------------------------------------------------------------------- rules

// All that the next moves depend on, as the player to move sees it. A knight is what is nothing else.
typedef struct {
    uint64_t own, other;
    uint64_t pawns, straight, slanted, kings;  // of both; a queen goes straight and slanted
    int castling;                              // rights
    int passed;  // the square behind a pawn that can be taken en passant, legally; 0 for none
} ChessBoard;

typedef uint16_t ChessMove;  // from + 64 * to + 4096 * what a pawn becomes, 0 for a queen or where it becomes nothing

typedef struct {
    ChessMove list[CHESS_MAX_MOVES];  // captures first
    int num_captures, count;
    int next;  // the first that a search has not tried
} ChessMoves;

// Upside down.
PUFFER_FN uint64_t chess_flip(uint64_t squares) {
    squares = ((squares >> 8) & 0x00FF00FF00FF00FFull) | ((squares & 0x00FF00FF00FF00FFull) << 8);
    squares = ((squares >> 16) & 0x0000FFFF0000FFFFull) | ((squares & 0x0000FFFF0000FFFFull) << 16);
    return (squares >> 32) | (squares << 32);
}

// What the other player sees.
PUFFER_FN ChessBoard chess_turned(const ChessBoard* board) {
    ChessBoard turned;
    turned.own = chess_flip(board->other);
    turned.other = chess_flip(board->own);
    turned.pawns = chess_flip(board->pawns);
    turned.straight = chess_flip(board->straight);
    turned.slanted = chess_flip(board->slanted);
    turned.kings = chess_flip(board->kings);
    turned.castling = (board->castling >> 2) | ((board->castling & CHESS_BOTH_SIDES) << 2);
    turned.passed = board->passed ? board->passed ^ 56 : 0;
    return turned;
}

PUFFER_FN ChessBoard chess_opening(void) {
    ChessBoard board;
    board.own = 0xFFFFull;
    board.other = board.own << 48;
    board.pawns = 0x00FF00000000FF00ull;
    board.straight = 0x8900000000000089ull;
    board.slanted = 0x2C0000000000002Cull;
    board.kings = 0x1000000000000010ull;
    board.castling = CHESS_BOTH_SIDES | CHESS_BOTH_SIDES << 2;
    board.passed = 0;
    return board;
}

PUFFER_FN uint64_t chess_knights(const ChessBoard* board) {
    return (board->own | board->other) & ~(board->pawns | board->straight | board->slanted | board->kings);
}

// The rank, the file, the diagonal or the antidiagonal through a square, which is not in it.
PUFFER_FN uint64_t chess_line(int square, int direction) {
    int rank = square >> 3, file = square & 7, rise = rank - file, sum = rank + file - 7;
    uint64_t line = 0;
    if (direction == 0) line = CHESS_FIRST_RANK << (8 * rank);
    if (direction == 1) line = CHESS_A_FILE << file;
    if (direction == 2) line = rise >= 0 ? CHESS_DIAGONAL << (8 * rise) : CHESS_DIAGONAL >> (-8 * rise);
    if (direction == 3) line = sum >= 0 ? CHESS_ANTIDIAGONAL << (8 * sum) : CHESS_ANTIDIAGONAL >> (-8 * sum);
    return line & ~(1ull << square);
}

// How far a piece sees along a line, up to the first piece either way and that one too. Taking the nearest piece below
// away from those above borrows up to the nearest above (Isenberg's obstruction difference, chessprogramming.org).
PUFFER_FN uint64_t chess_sight(int square, uint64_t line, uint64_t occupied) {
    uint64_t below = (1ull << square) - 1, upper = line & occupied & ~below;
    uint64_t nearest = 1ull << bits_highest((line & occupied & below) | 1);
    return line & (upper ^ (upper - nearest));
}

PUFFER_FN uint64_t chess_straight(int square, uint64_t occupied) {
    return chess_sight(square, chess_line(square, 0), occupied) | chess_sight(square, chess_line(square, 1), occupied);
}

PUFFER_FN uint64_t chess_slanted(int square, uint64_t occupied) {
    return chess_sight(square, chess_line(square, 2), occupied) | chess_sight(square, chess_line(square, 3), occupied);
}

PUFFER_FN uint64_t chess_knight_jumps(uint64_t from) {
    uint64_t near_left = (from >> 1) & ~CHESS_H_FILE, far_left = (from >> 2) & ~(CHESS_H_FILE | CHESS_H_FILE >> 1);
    uint64_t near_right = (from << 1) & ~CHESS_A_FILE, far_right = (from << 2) & ~(CHESS_A_FILE | CHESS_A_FILE << 1);
    uint64_t near = near_left | near_right, far = far_left | far_right;
    return near << 16 | near >> 16 | far << 8 | far >> 8;
}

PUFFER_FN uint64_t chess_king_steps(uint64_t from) {
    uint64_t beside = ((from >> 1) & ~CHESS_H_FILE) | ((from << 1) & ~CHESS_A_FILE), row = from | beside;
    return beside | row << 8 | row >> 8;
}

// What pawns of the player to move attack, from below.
PUFFER_FN uint64_t chess_pawn_attacks(uint64_t from) {
    return ((from << 7) & ~CHESS_H_FILE) | ((from << 9) & ~CHESS_A_FILE);
}

PUFFER_FN uint64_t chess_other_pawn_attacks(uint64_t from) {
    return ((from >> 9) & ~CHESS_H_FILE) | ((from >> 7) & ~CHESS_A_FILE);
}

// Pieces of the other player that attack a square.
PUFFER_FN uint64_t chess_attackers(const ChessBoard* board, int square, uint64_t occupied) {
    uint64_t from = 1ull << square;
    uint64_t near = (chess_knight_jumps(from) & chess_knights(board)) | (chess_king_steps(from) & board->kings) |
                    (chess_pawn_attacks(from) & board->pawns);
    uint64_t far =
        (chess_straight(square, occupied) & board->straight) | (chess_slanted(square, occupied) & board->slanted);
    return board->other & (near | far);
}

// All squares that the other player attacks, seen through the king, which cannot hide behind itself.
PUFFER_FN uint64_t chess_danger(const ChessBoard* board) {
    uint64_t occupied = (board->own | board->other) & ~(board->own & board->kings), other = board->other;
    uint64_t danger = chess_other_pawn_attacks(other & board->pawns) |
                      chess_knight_jumps(other & chess_knights(board)) | chess_king_steps(other & board->kings);
    for (uint64_t left = other & board->straight; left; left &= left - 1)
        danger |= chess_straight(bits_lowest(left), occupied);
    for (uint64_t left = other & board->slanted; left; left &= left - 1)
        danger |= chess_slanted(bits_lowest(left), occupied);
    return danger;
}

// What attacks each square: the other's pieces by kind, and so many of the own at least.
typedef struct {
    uint64_t pawns, pieces, rooks, queens, one, two;
} ChessAttacks;

PUFFER_FN void chess_count_attack(ChessAttacks* attacks, uint64_t squares) {
    attacks->two |= attacks->one & squares;
    attacks->one |= squares;
}

PUFFER_FN ChessAttacks chess_attacks(const ChessBoard* board) {
    uint64_t occupied = board->own | board->other, queens = board->straight & board->slanted, own = board->own;
    uint64_t others = board->other, left_pawns = (own & board->pawns) << 7, right_pawns = (own & board->pawns) << 9;
    ChessAttacks attacks;
    memset(&attacks, 0, sizeof(attacks));
    attacks.pawns = chess_other_pawn_attacks(others & board->pawns);
    attacks.pieces = chess_knight_jumps(others & chess_knights(board));
    attacks.queens = chess_king_steps(others & board->kings);
    chess_count_attack(&attacks, left_pawns & ~CHESS_H_FILE);
    chess_count_attack(&attacks, right_pawns & ~CHESS_A_FILE);
    chess_count_attack(&attacks, chess_king_steps(own & board->kings));
    for (uint64_t left = own & chess_knights(board); left; left &= left - 1)
        chess_count_attack(&attacks, chess_knight_jumps(left & (0 - left)));
    for (uint64_t left = board->straight | board->slanted; left; left &= left - 1) {
        uint64_t piece = left & (0 - left), seen = 0;
        if (piece & board->straight) seen |= chess_straight(bits_lowest(left), occupied);
        if (piece & board->slanted) seen |= chess_slanted(bits_lowest(left), occupied);
        if (piece & own) {
            chess_count_attack(&attacks, seen);
        } else {
            uint64_t* kind = piece & queens            ? &attacks.queens
                             : piece & board->straight ? &attacks.rooks
                                                       : &attacks.pieces;
            *kind |= seen;
        }
    }
    return attacks;
}

// What guards the own king: the squares where a check can be met, and the pieces that may move along their line alone.
typedef struct {
    int king;
    uint64_t targets, pinned;
} ChessGuard;

PUFFER_FN ChessGuard chess_guard(const ChessBoard* board) {
    uint64_t occupied = board->own | board->other;
    ChessGuard guard;
    guard.king = bits_lowest(board->own & board->kings);
    guard.pinned = 0;
    uint64_t checkers = chess_attackers(board, guard.king, occupied);
    guard.targets = checkers == 0 ? ~0ull : (checkers & (checkers - 1)) ? 0 : checkers;  // two checks: none
    for (int i = 0; i < 4; i++) {
        uint64_t line = chess_line(guard.king, i),
                 attackers = board->other & (i < 2 ? board->straight : board->slanted);
        if ((line & attackers) == 0) continue;
        uint64_t seen = chess_sight(guard.king, line, occupied);
        uint64_t beyond = chess_sight(guard.king, line, occupied & ~(seen & board->own)) & attackers;
        for (uint64_t left = beyond; left; left &= left - 1) {
            int square = bits_lowest(left);
            uint64_t below = (1ull << guard.king) - 1, side = square < guard.king ? below : ~below;
            uint64_t between = chess_sight(guard.king, line, 1ull << square) & side & ~(1ull << square);
            if ((seen >> square) & 1) {
                if (guard.targets) guard.targets |= between;
            } else {
                guard.pinned |= between & board->own;
            }
        }
    }
    return guard;
}

// The whole line through the king and a square that lies on one with it.
PUFFER_FN uint64_t chess_pin_line(int king, int square) {
    for (int i = 0; i < 3; i++) {
        uint64_t line = chess_line(king, i);
        if ((line >> square) & 1) return line;
    }
    return chess_line(king, 3);
}

PUFFER_FN void chess_add(ChessMoves* moves, ChessMove move, bool is_capture) {
    if (moves->count == CHESS_MAX_MOVES) return;  // no position has more; a forged one may
    moves->list[moves->count++] = move;
    if (!is_capture) return;
    moves->list[moves->count - 1] = moves->list[moves->num_captures];
    moves->list[moves->num_captures++] = move;
}

PUFFER_FN void chess_add_all(const ChessBoard* board, ChessMoves* moves, int from, uint64_t targets) {
    bool is_pawn = (board->pawns >> from) & 1;
    for (; targets; targets &= targets - 1) {
        int to = bits_lowest(targets);
        bool is_capture = (board->other >> to) & 1;
        chess_add(moves, (ChessMove)(from | to << 6), is_capture);
        if (!is_pawn || to < 56) continue;
        for (int kind = CHESS_KNIGHT; kind <= CHESS_ROOK; kind++)
            chess_add(moves, (ChessMove)(from | to << 6 | kind << 12), is_capture);
    }
}

// Whether a pawn may take another en passant: both leave their rank, which may open it to the king.
PUFFER_FN bool chess_may_pass(const ChessBoard* board, uint64_t from) {
    uint64_t to = 1ull << board->passed, taken = to >> 8;
    ChessBoard after = *board;
    after.own = (board->own & ~from) | to;
    after.other = board->other & ~taken;
    after.pawns = (board->pawns & ~(from | taken)) | to;
    return chess_attackers(&after, bits_lowest(after.own & after.kings), after.own | after.other) == 0;
}

// Pawns that may take en passant.
PUFFER_FN uint64_t chess_passers(const ChessBoard* board) {
    uint64_t found = 0, pawns = board->pawns & board->own & chess_other_pawn_attacks(1ull << board->passed);
    if (board->passed == 0) return 0;
    for (; pawns; pawns &= pawns - 1) {
        uint64_t from = pawns & (0 - pawns);
        if (chess_may_pass(board, from)) found |= from;
    }
    return found;
}

PUFFER_FN void chess_add_king(const ChessBoard* board, ChessMoves* moves, const ChessGuard* guard) {
    uint64_t danger = chess_danger(board), occupied = board->own | board->other, king = 1ull << guard->king;
    uint64_t targets = chess_king_steps(king) & ~(danger | board->own);
    bool is_kingside = (board->castling & CHESS_KINGSIDE) && (occupied & 0x60ull) == 0 && (danger & 0x70ull) == 0;
    bool is_queenside = (board->castling & CHESS_QUEENSIDE) && (occupied & 0x0Eull) == 0 && (danger & 0x1Cull) == 0;
    if (is_kingside) targets |= king << 2;
    if (is_queenside) targets |= king >> 2;
    chess_add_all(board, moves, guard->king, targets);
}

// Where a piece other than the king could go if nothing pinned it and no check had to be met.
PUFFER_FN uint64_t chess_targets(const ChessBoard* board, int from) {
    uint64_t occupied = board->own | board->other, piece = 1ull << from, targets = 0;
    if (board->pawns & piece) {
        uint64_t one = (piece << 8) & ~occupied, two = ((one & CHESS_THIRD_RANK) << 8) & ~occupied;
        return one | two | (chess_pawn_attacks(piece) & board->other);
    }
    if (board->straight & piece) targets |= chess_straight(from, occupied);
    if (board->slanted & piece) targets |= chess_slanted(from, occupied);
    if (!((board->straight | board->slanted) & piece)) targets = chess_knight_jumps(piece);
    return targets & ~board->own;
}

// All legal moves.
PUFFER_FN void chess_list(const ChessBoard* board, ChessMoves* moves) {
    ChessGuard guard = chess_guard(board);
    moves->num_captures = moves->count = moves->next = 0;
    for (uint64_t left = guard.targets ? board->own & ~board->kings : 0; left; left &= left - 1) {
        int from = bits_lowest(left);
        uint64_t targets = chess_targets(board, from) & guard.targets;
        if ((guard.pinned >> from) & 1) targets &= chess_pin_line(guard.king, from);
        chess_add_all(board, moves, from, targets);
    }
    for (uint64_t left = chess_passers(board); left; left &= left - 1)
        chess_add(moves, (ChessMove)(bits_lowest(left) | board->passed << 6), true);
    chess_add_king(board, moves, &guard);
}

PUFFER_FN bool chess_is_check(const ChessBoard* board) {
    return chess_attackers(board, bits_lowest(board->own & board->kings), board->own | board->other) != 0;
}

// Rights to castle that are lost when pieces leave these squares or are taken on them.
PUFFER_FN int chess_rights_lost(uint64_t squares) {
    int lost = 0;
    if (squares & 0x90ull) lost |= CHESS_KINGSIDE;
    if (squares & 0x11ull) lost |= CHESS_QUEENSIDE;
    if (squares & (0x90ull << 56)) lost |= CHESS_KINGSIDE << 2;
    if (squares & (0x11ull << 56)) lost |= CHESS_QUEENSIDE << 2;
    return lost;
}

// A set of pieces after one that may be in it has moved, onto another that may be, too.
PUFFER_FN uint64_t chess_moved(uint64_t squares, uint64_t from, uint64_t to) {
    return (squares & ~(from | to)) | (squares & from ? to : 0);
}

PUFFER_FN void chess_promote(ChessBoard* board, uint64_t square, int kind) {
    board->pawns &= ~square;
    if (kind == 0 || kind == CHESS_ROOK) board->straight |= square;
    if (kind == 0 || kind == CHESS_BISHOP) board->slanted |= square;
}

// The board after a legal move, as the other player sees it.
PUFFER_FN ChessBoard chess_play(const ChessBoard* board, ChessMove move) {
    int from_square = move & 63, to_square = (move >> 6) & 63;
    uint64_t from = 1ull << from_square, to = 1ull << to_square;
    bool is_pawn = (board->pawns & from) != 0, is_king = (board->kings & from) != 0;
    ChessBoard next = *board;
    next.own ^= from | to;
    next.other &= ~to;
    next.pawns = chess_moved(board->pawns, from, to);
    next.straight = chess_moved(board->straight, from, to);
    next.slanted = chess_moved(board->slanted, from, to);
    next.kings = chess_moved(board->kings, from, to);
    next.castling = board->castling & ~chess_rights_lost(from | to);
    next.passed = 0;
    if (is_pawn && (to & CHESS_LAST_RANK)) chess_promote(&next, to, move >> 12);
    if (is_pawn && to_square == board->passed && board->passed) {
        next.other &= ~(to >> 8);
        next.pawns &= ~(to >> 8);
    }
    if (is_king && (to_square - from_square == 2 || from_square - to_square == 2)) {
        uint64_t rook = to_square > from_square ? 0xA0ull : 0x09ull;  // both squares of it
        next.own ^= rook;
        next.straight ^= rook;
    }
    ChessBoard turned = chess_turned(&next);
    if (is_pawn && to_square - from_square == 16) {
        turned.passed = (from_square + 8) ^ 56;
        if (chess_passers(&turned) == 0) turned.passed = 0;
    }
    return turned;
}

// Whether no moves could lead to a mate: a lone knight, or bishops that all stand on squares of one colour.
PUFFER_FN bool chess_is_dead(const ChessBoard* board) {
    uint64_t all = board->own | board->other, knights = chess_knights(board), bishops = board->slanted;
    if (board->pawns | board->straight) return false;
    if (knights) return bits_count(all) == 3;
    return (bishops & CHESS_DARK) == 0 || (bishops & ~CHESS_DARK) == 0;
}

// ------------------------------------------------------------------------------------------------------------- search

typedef ChessBoard SearchPosition;
typedef ChessMove SearchMove;
typedef ChessMoves SearchMoves;
enum { SEARCH_MAX_MOVES = CHESS_MAX_MOVES, SEARCH_MAX_PLIES = CHESS_MAX_DEPTH };

PUFFER_FN SearchMoves search_moves(const SearchPosition* board) {
    ChessMoves moves;
    chess_list(board, &moves);
    return moves;
}

PUFFER_FN bool search_next(SearchMoves* moves, SearchMove* move) {
    if (moves->next == moves->count) return false;
    *move = moves->list[moves->next++];
    return true;
}

PUFFER_FN SearchPosition search_play(const SearchPosition* board, SearchMove move) { return chess_play(board, move); }

PUFFER_FN bool search_keeps_turn(const SearchPosition* before, const SearchPosition* after) {
    (void)before, (void)after;
    return false;
}

// What a side's pieces are worth, in hundredths of a pawn: more in the middle, for pawns and knights above all, and for
// pawns that have gone far.
PUFFER_FN int chess_worth(const ChessBoard* board, uint64_t side) {
    uint64_t pawns = board->pawns & side, knights = chess_knights(board) & side,
             queens = board->straight & board->slanted;
    int bishops = bits_count(board->slanted & ~queens & side), rooks = bits_count(board->straight & ~queens & side);
    int worth = 100 * bits_count(pawns) + 310 * bits_count(knights) + 330 * bishops + 500 * rooks;
    worth += 900 * bits_count(queens & side) + 10 * bits_count((knights | pawns) & CHESS_MIDDLE);
    return worth + 6 * bits_count(side & ~board->kings & CHESS_MIDDLE) + 12 * bits_count(pawns & CHESS_HEART);
}

PUFFER_FN int chess_value(const ChessBoard* board) {
    uint64_t far = 0xFFFFFFull << 40, near = 0xFFFFFFull;
    int advance = bits_count(board->pawns & board->own & far) - bits_count(board->pawns & board->other & near);
    return chess_worth(board, board->own) - chess_worth(board, board->other) + 25 * advance;
}

PUFFER_FN bool search_settles(const SearchPosition* board, int depth, SearchMoves* moves, int* value) {
    bool is_deep = depth > 0, is_check = chess_is_check(board);
    *value = 0;
    if (chess_is_dead(board)) return true;
    if (is_deep || is_check) {
        chess_list(board, moves);
        if (moves->count == 0) {
            *value = is_check ? -(CHESS_VALUE_WON + depth) : 0;
            return true;
        }
    }
    if (!is_deep) *value = chess_value(board);
    return !is_deep;
}

#include "puffer_alphabeta.h"

// ---------------------------------------------------------------------------------------------------- the environment

typedef struct {
    uint8_t* observations;        // [130] an agent; these eight are borrowed from the caller
    const void* actions;          // int32_t[1] an agent
    float* rewards;               // [1] an agent
    uint8_t* terminals;           // [1] an agent
    uint8_t* truncations;         // [1] an agent, never set
    uint8_t* final_observations;  // like observations, or NULL
    uint8_t* action_masks;        // [1858] an agent
    uint8_t* masks;               // [1] an agent
    Rng rng;
    ChessBoard board;
    uint64_t hashes[CHESS_QUIET_TURNS + 1];  // of the positions since quiet_turns was 0, this one the last
    int quiet_turns;                         // since a capture or a move of a pawn
    bool has_bot;
    int first;  // the seat that is white
    int num_turns, num_steps;
    int value;         // of the board as seat 0 sees it, where pieces are rewarded
    float returns[2];  // of the rewards beside those for the end
    int bot_depth;     // turns that it looks ahead in this game, 0 to 4, or CHESS_UNDRAWN
    bool draws_depth;  // for each game
    int chance_games;  // percent of them
    int bot_random;    // percent of its moves
    float draw_penalty, piece_reward;
    Log log;  // summed at episode end, cleared by the reader
} Chess;

typedef Chess TurnsEnv;

PUFFER_FN PufferLayout c_layout(const Chess* env) {
    return puffer_masked_layout(env->has_bot ? 1 : 2, CHESS_OBSERVATION, PUFFER_UINT8, 1, CHESS_NUM_ACTIONS);
}

#define TURNS_HAS_REWARDS
#include "puffer_turns.h"

PUFFER_FN uint64_t chess_hash(const ChessBoard* board) {
    uint64_t hash = rng_mix(board->own + 0x9E3779B97F4A7C15ull);
    hash = rng_mix(hash ^ board->other);
    hash = rng_mix(hash ^ board->pawns);
    hash = rng_mix(hash ^ board->straight);
    hash = rng_mix(hash ^ board->slanted);
    hash = rng_mix(hash ^ board->kings);
    return rng_mix(hash ^ ((uint64_t)board->castling << 8 | (uint64_t)board->passed));
}

// How often the position has been there before, with the same player to move.
PUFFER_FN int chess_repetitions(const Chess* env) {
    int count = 0;
    for (int i = env->quiet_turns - 4; i >= 0; i -= 2) count += env->hashes[i] == env->hashes[env->quiet_turns];
    return count;
}

PUFFER_FN void turns_begin(Chess* env) {
    env->board = chess_opening();
    env->quiet_turns = 0;
    env->hashes[0] = chess_hash(&env->board);
    if (env->draws_depth) env->bot_depth = CHESS_UNDRAWN;
    env->value = 0;
    env->returns[0] = env->returns[1] = 0.0f;
}

PUFFER_FN void chess_move(Chess* env, ChessMove move) {
    uint64_t from = 1ull << (move & 63), to = 1ull << ((move >> 6) & 63);
    bool is_quiet = !(env->board.pawns & from) && !(env->board.other & to);
    env->board = chess_play(&env->board, move);
    env->quiet_turns = is_quiet ? env->quiet_turns + 1 : 0;
    env->hashes[env->quiet_turns] = chess_hash(&env->board);
}

// Where a queen or a knight could go on an empty board.
PUFFER_FN uint64_t chess_reach(int square) {
    uint64_t reach = chess_knight_jumps(1ull << square);
    for (int i = 0; i < 4; i++) reach |= chess_line(square, i);
    return reach;
}

PUFFER_TABLE int16_t CHESS_FIRST_ACTIONS[CHESS_SQUARES] = {
    0,    23,   47,   72,   97,   122,  147,  171,  194,  218,  245,  274,  303,  332,  361,  388,
    412,  437,  466,  499,  532,  565,  598,  627,  652,  677,  706,  739,  774,  809,  842,  871,
    896,  921,  950,  983,  1018, 1053, 1086, 1115, 1140, 1165, 1194, 1227, 1260, 1293, 1326, 1355,
    1380, 1404, 1431, 1460, 1489, 1518, 1547, 1574, 1598, 1621, 1645, 1670, 1695, 1720, 1745, 1769,
};

// The action that stands for a move, of a piece whose reach is known.
PUFFER_FN int chess_action(ChessMove move, uint64_t reach) {
    int from = move & 63, to = (move >> 6) & 63, kind = move >> 12;
    if (kind) return CHESS_PROMOTIONS + 3 * (3 * (from & 7) + (to & 7) - (from & 7)) + kind - CHESS_KNIGHT;
    return CHESS_FIRST_ACTIONS[from] + bits_count(reach & ((1ull << to) - 1));
}

// Lists the legal moves, and the action that stands for each.
PUFFER_FN void chess_list_actions(const ChessBoard* board, ChessMoves* moves, int actions[CHESS_MAX_MOVES]) {
    uint64_t reach = 0;
    int from = -1;
    chess_list(board, moves);
    for (int i = 0; i < moves->count; i++) {
        ChessMove move = moves->list[i];
        if ((move & 63) != from) {
            from = move & 63;
            reach = chess_reach(from);
        }
        actions[i] = chess_action(move, reach);
    }
}

// The legal move that an action stands for.
PUFFER_FN ChessMove chess_move_of(const ChessBoard* board, int action) {
    int least = (int)((uint32_t)action % CHESS_NUM_ACTIONS), nearest = CHESS_NUM_ACTIONS;
    int actions[CHESS_MAX_MOVES];
    ChessMoves moves;
    ChessMove found = 0;
    chess_list_actions(board, &moves, actions);
    for (int i = 0; i < moves.count; i++) {
        int distance = actions[i] - least;
        if (distance < 0) distance += CHESS_NUM_ACTIONS;
        if (distance >= nearest) continue;
        nearest = distance;
        found = moves.list[i];
    }
    bool is_number = nearest > 0 && least >= CHESS_PROMOTIONS;
    return is_number ? moves.list[(least - CHESS_PROMOTIONS) % moves.count] : found;
}

PUFFER_FN void turns_play(Chess* env, int action) { chess_move(env, chess_move_of(&env->board, action)); }

PUFFER_FN void turns_answer(Chess* env) {
    if (env->bot_depth == CHESS_UNDRAWN) {
        bool is_chance = env->chance_games > 0 && rng_below(&env->rng, 100) < env->chance_games;
        env->bot_depth = is_chance ? 0 : rng_below(&env->rng, CHESS_DRAWS);
    }
    chess_move(env, alphabeta_move(&env->board, env->bot_depth, env->bot_random, &env->rng));
}

PUFFER_FN TurnsResult turns_result(const Chess* env) {
    ChessMoves moves;
    chess_list(&env->board, &moves);
    if (moves.count == 0) return chess_is_check(&env->board) ? TURNS_WON : TURNS_DRAWN;
    bool is_drawn = env->quiet_turns == CHESS_QUIET_TURNS || chess_is_dead(&env->board) || chess_repetitions(env) >= 2;
    return is_drawn ? TURNS_DRAWN : TURNS_UNDECIDED;
}

enum { CHESS_ARMY = 3980 };  // what a side begins with is worth

PUFFER_FN int chess_counted(const ChessBoard* board, uint64_t side) {
    int worth = chess_worth(board, side);
    return worth < CHESS_ARMY ? worth : CHESS_ARMY;
}

// As seat 0 sees it.
PUFFER_FN int chess_seat_value(const Chess* env) {
    const ChessBoard* board = &env->board;
    int value = chess_counted(board, board->own) - chess_counted(board, board->other);
    return turns_seat(env) == 0 ? value : -value;
}

PUFFER_FN void turns_reward(Chess* env, TurnsResult result) {
    float drawn = result == TURNS_DRAWN ? -env->draw_penalty : 0.0f, gained = 0.0f;
    if (env->piece_reward != 0.0f) {
        int value = chess_seat_value(env);
        gained = 0.01f * env->piece_reward * (float)(value - env->value);
        env->value = value;
    }
    for (int seat = 0; seat < turns_seats(env); seat++) {
        float reward = drawn + (seat ? -gained : gained);
        env->rewards[seat] += reward;
        env->returns[seat] += reward;
    }
}

PUFFER_FN void chess_write_squares(uint8_t* row, uint64_t squares, int kind) {
    for (; squares; squares &= squares - 1) row[bits_lowest(squares)] = (uint8_t)kind;
}

// The pieces of one side, whose first kind has a number.
PUFFER_FN void chess_write_side(const ChessBoard* board, uint64_t side, int pawn, uint8_t* row) {
    uint64_t queens = board->straight & board->slanted;
    chess_write_squares(row, side & board->pawns, pawn + CHESS_PAWN);
    chess_write_squares(row, side & chess_knights(board), pawn + CHESS_KNIGHT);
    chess_write_squares(row, side & board->slanted & ~queens, pawn + CHESS_BISHOP);
    chess_write_squares(row, side & board->straight & ~queens, pawn + CHESS_ROOK);
    chess_write_squares(row, side & queens, pawn + CHESS_QUEEN);
    chess_write_squares(row, side & board->kings, pawn + CHESS_KING);
}

// Rooks that may still castle.
PUFFER_FN uint64_t chess_castling_rooks(int rights) {
    return (rights & CHESS_KINGSIDE ? 0x80ull : 0) | (rights & CHESS_QUEENSIDE ? 0x01ull : 0);
}

PUFFER_FN void chess_write_attacks(const ChessBoard* board, uint8_t* row) {
    ChessAttacks attacks = chess_attacks(board);
    uint64_t rooks = attacks.rooks & ~(attacks.pawns | attacks.pieces), pieces = attacks.pieces & ~attacks.pawns;
    uint64_t queens = attacks.queens & ~(attacks.pawns | attacks.pieces | attacks.rooks);
    for (int square = 0; square < CHESS_SQUARES; square++) {
        int least = (int)(attacks.pawns >> square & 1) + 2 * (int)(pieces >> square & 1) +
                    3 * (int)(rooks >> square & 1) + 4 * (int)(queens >> square & 1);
        row[square] = (uint8_t)(3 * least + (int)(attacks.one >> square & 1) + (int)(attacks.two >> square & 1));
    }
}

PUFFER_FN void chess_write_observation(const Chess* env, const ChessBoard* board, uint8_t* row) {
    memset(row, 0, CHESS_SQUARES);
    chess_write_side(board, board->own, 1, row);
    chess_write_side(board, board->other, 1 + CHESS_OTHERS, row);
    chess_write_squares(row, chess_castling_rooks(board->castling), CHESS_CASTLING_ROOK);
    chess_write_squares(row, chess_castling_rooks(board->castling >> 2) << 56, CHESS_CASTLING_ROOK + 1);
    if (board->passed) row[board->passed] = CHESS_PASSED;
    chess_write_attacks(board, row + CHESS_SQUARES);
    row[2 * CHESS_SQUARES] = (uint8_t)(env->quiet_turns / 10);
    row[2 * CHESS_SQUARES + 1] = chess_repetitions(env) > 0;
}

PUFFER_FN void chess_write_moves(const ChessBoard* board, uint8_t* row) {
    int actions[CHESS_MAX_MOVES];
    ChessMoves moves;
    chess_list_actions(board, &moves, actions);
    for (int i = 0; i < moves.count; i++) row[actions[i]] = 1;
}

PUFFER_FN void turns_write(Chess* env, int seat, bool is_to_move) {
    ChessBoard turned = chess_turned(&env->board);
    const ChessBoard* board = seat == turns_seat(env) ? &env->board : &turned;
    uint8_t* mask = env->action_masks + seat * CHESS_NUM_ACTIONS;
    chess_write_observation(env, board, env->observations + seat * CHESS_OBSERVATION);
    memset(mask, 0, CHESS_NUM_ACTIONS);
    if (is_to_move) {
        chess_write_moves(board, mask);
    } else {
        mask[0] = 1;
    }
}

PUFFER_FN bool chess_castling_is_sound(const ChessBoard* board) {
    uint64_t own = chess_castling_rooks(board->castling), others = chess_castling_rooks(board->castling >> 2) << 56;
    uint64_t rooks = board->straight & ~board->slanted;
    return is_within(board->castling, 0, 15) && (own & ~(rooks & board->own)) == 0 &&
           (others & ~(rooks & board->other)) == 0 && (own == 0 || (board->own & board->kings & 0x10ull)) &&
           (others == 0 || (board->other & board->kings & 0x10ull << 56));
}

// Pieces stand apart, each side has a king, the one that is not to move cannot be taken, and there is a move.
PUFFER_FN bool chess_board_is_sound(const ChessBoard* board) {
    uint64_t all = board->own | board->other, pieces = board->straight | board->slanted, kings = board->kings;
    if ((board->own & board->other) || ((board->pawns | pieces | kings) & ~all)) return false;
    if ((board->pawns & (pieces | kings)) || (pieces & kings) || bits_count(board->own) > 16) return false;
    if (bits_count(kings & board->own) != 1 || bits_count(kings & board->other) != 1) return false;
    if ((board->pawns & (CHESS_FIRST_RANK | CHESS_LAST_RANK)) || bits_count(board->other) > 16) return false;
    if (!chess_castling_is_sound(board) || (board->passed && !is_within(board->passed, 40, 47))) return false;
    uint64_t pushed = board->passed ? 1ull << (board->passed - 8) : 0;
    if ((pushed & ~(board->pawns & board->other)) || (pushed && chess_passers(board) == 0)) return false;
    if (board->passed && (all & (pushed << 8 | pushed << 16))) return false;
    ChessBoard turned = chess_turned(board);
    ChessMoves moves;
    chess_list(board, &moves);
    return !chess_is_check(&turned) && moves.count > 0 && !chess_is_dead(board);
}

PUFFER_FN bool c_accepts(const Chess* env, const Chess* saved) {
    if (!is_bool(&saved->draws_depth) || saved->draws_depth != env->draws_depth) return false;
    bool is_drawn = env->draws_depth && is_within(saved->bot_depth, CHESS_UNDRAWN, CHESS_DRAWS - 1);
    bool is_depth = is_drawn || (!env->draws_depth && saved->bot_depth == env->bot_depth);
    return is_depth && saved->chance_games == env->chance_games && saved->bot_random == env->bot_random &&
           saved->draw_penalty == env->draw_penalty && saved->piece_reward == env->piece_reward &&
           turns_are_sound(env, saved, PUFFER_MAX_STEPS) &&
           is_within(saved->value, -CHESS_VALUE_WON, CHESS_VALUE_WON) &&
           is_within(saved->quiet_turns, 0, CHESS_QUIET_TURNS - 1) && chess_board_is_sound(&saved->board);
}
