// checkers_render.h - the board from above: the agent's pieces cyan, the other's red, kings with a crown. Pieces slide
// and jump one after the other; the squares of both last turns are tinted. Small signs beside the agent's pieces are
// the keys for its moves.
#pragma once

#include "checkers.h"
#include "puffer_render.h"

typedef Checkers Env;

enum { CHECKERS_CELL = 84, CHECKERS_FRAME = 10, CHECKERS_MARGIN = 28, CHECKERS_HEADER = 96 };
enum { CHECKERS_LEFT = CHECKERS_MARGIN + CHECKERS_FRAME, CHECKERS_TOP = CHECKERS_HEADER + CHECKERS_FRAME };
enum {
    CHECKERS_MAX_SEGMENTS = 2 + CHECKERS_MAX_PIECES
};  // of a step: a move, a turn of jumps, and one to look at the end

#define CHECKERS_RADIUS (33.0f)

static const Color CHECKERS_LIGHT_SQUARE = {21, 58, 58, 255};
static const Color CHECKERS_DARK_SQUARE = {9, 33, 33, 255};

typedef struct {
    uint64_t touched[2];  // squares of the agent's last turn and of the bot's
    uint64_t
        ended_before;  // state of the random numbers before the step that ended the last game: it tells games apart
    int num_won, num_drawn, num_lost;
} Client;

static PufferPicture c_open_client(Client* client, const Checkers* env) {
    (void)client, (void)env;
    const int side = CHECKERS_SIDE * CHECKERS_CELL;
    PufferPicture picture = {side + 2 * CHECKERS_LEFT, CHECKERS_TOP + side + CHECKERS_FRAME + CHECKERS_MARGIN, 1.0f,
                             "PufferLib checkers"};
    return picture;
}

static Color checkers_color(int player) { return player == CHECKERS_AGENT ? PUFFER_CYAN : PUFFER_RED; }

static Vector2 checkers_middle(int square) {
    Vector2 middle = {(float)CHECKERS_LEFT + CHECKERS_CELL * ((float)(square % CHECKERS_SIDE) + 0.5f),
                      (float)CHECKERS_TOP + CHECKERS_CELL * ((float)(square / CHECKERS_SIDE) + 0.5f)};
    return middle;
}

static int checkers_target(int move) { return move / 8 + (1 + move % 2) * CHECKERS_STEPS[move / 2 % 4]; }

// ---------------------------------------------------------------------------------------------------------- one step

// A step played again, move by move.
typedef struct {
    CheckersBoard boards[CHECKERS_MAX_SEGMENTS + 1];  // before each move, and after the last
    int moves[CHECKERS_MAX_SEGMENTS];
    int count;
} CheckersTurns;

static void checkers_add_move(CheckersTurns* turns, Checkers* moment, int move) {
    turns->moves[turns->count++] = move;
    checkers_move(moment, move);
    turns->boards[turns->count] = moment->board;
}

static CheckersTurns checkers_turns(const Checkers* before) {
    Checkers moment = *before;
    CheckersTurns turns = {.boards = {before->board}, .count = 0};
    checkers_add_move(&turns, &moment, checkers_next_move(&moment));
    bool is_over = checkers_is_stuck(&moment) || moment.quiet_turns == CHECKERS_QUIET_TURNS;
    bool has_bot = before->agents == 1;
    while (has_bot && !is_over && moment.board.player == CHECKERS_BOT && turns.count < CHECKERS_MAX_SEGMENTS) {
        checkers_add_move(&turns, &moment, checkers_bot_move(&moment));
    }
    return turns;
}

static void checkers_remember_turn(Client* client, const CheckersBoard* board, int move) {
    uint64_t squares = (1ull << move / 8) | (1ull << checkers_target(move));
    bool goes_on = (client->touched[board->player] >> move / 8) & 1 && board->jumper;
    client->touched[board->player] = goes_on ? client->touched[board->player] | squares : squares;
}

static void checkers_remember_end(Client* client, const Checkers* before, const Checkers* now) {
    memset(client->touched, 0, sizeof(client->touched));
    if (client->ended_before == before->rng.state) return;
    client->ended_before = before->rng.state;
    int outcome = (int)roundf(now->rewards[0]);  // what the last pieces were worth is less than half
    client->num_won += outcome > 0;
    client->num_drawn += outcome == 0;
    client->num_lost += outcome < 0;
}

// --------------------------------------------------------------------------------------------------------- drawing

static void checkers_draw_squares(const Client* client) {
    const float side = CHECKERS_SIDE * CHECKERS_CELL;
    puffer_rounded(CHECKERS_LEFT - CHECKERS_FRAME, CHECKERS_TOP - CHECKERS_FRAME, side + 2.0f * CHECKERS_FRAME,
                   side + 2.0f * CHECKERS_FRAME, 14.0f, PUFFER_EDGE);
    puffer_rectangle(CHECKERS_LEFT, CHECKERS_TOP, side, side, CHECKERS_LIGHT_SQUARE);
    for (uint64_t left = CHECKERS_DARK; left; left &= left - 1) {
        uint64_t square = left & (0 - left);
        Vector2 middle = checkers_middle(bits_lowest(left));
        Color color = CHECKERS_DARK_SQUARE;
        for (int player = 0; player < 2; player++) {
            if (client->touched[player] & square) color = puffer_mix(color, checkers_color(player), 0.22f);
        }
        puffer_rectangle(middle.x - 0.5f * CHECKERS_CELL, middle.y - 0.5f * CHECKERS_CELL, CHECKERS_CELL, CHECKERS_CELL,
                         color);
    }
}

// Three points over a band, half as high as wide.
static void checkers_draw_crown(Vector2 middle, float width, Color color) {
    const float left = middle.x - 0.5f * width, top = middle.y - 0.28f * width, bottom = middle.y + 0.28f * width;
    for (int i = 0; i < 3; i++) {
        float tip = left + 0.5f * width * (float)i, inner = puffer_lerp(tip, middle.x, 0.2f);
        float height = i == 1 ? top - 0.08f * width : top;
        Vector2 corners[3] = {{tip, height}, {inner - 0.2f * width, bottom}, {inner + 0.2f * width, bottom}};
        corners[1].x = fmaxf(corners[1].x, left + 0.08f * width);
        corners[2].x = fminf(corners[2].x, left + 0.92f * width);
        puffer_polygon(corners, 3, color);
        puffer_disc(tip, height, 0.07f * width, color);
    }
    puffer_rounded(left + 0.08f * width, bottom - 0.04f * width, 0.84f * width, 0.14f * width, 2.0f, color);
}

// `lift` from 0, on the board, to 1, in the middle of a jump; `presence` from 1 to 0 for a piece that is taken.
static void checkers_draw_piece(Vector2 middle, int player, bool is_king, float lift, float presence) {
    const float radius = CHECKERS_RADIUS * (1.0f + 0.16f * lift) * (0.6f + 0.4f * presence);
    Color color = checkers_color(player), ground = CHECKERS_DARK_SQUARE;
    Color dark = puffer_mix(color, PUFFER_BACKGROUND, 0.45f);
    puffer_disc(middle.x, middle.y + 4.0f + 8.0f * lift, radius, puffer_fade(PUFFER_BACKGROUND, 0.7f * presence));
    puffer_disc(middle.x, middle.y + 2.0f, radius, puffer_fade(dark, presence));
    puffer_disc(middle.x, middle.y - 2.0f, radius,
                puffer_fade(puffer_mix(ground, color, 0.2f + 0.8f * presence), presence));
    puffer_ring(middle.x, middle.y - 2.0f, 0.76f * radius, 4.0f, puffer_fade(puffer_mix(color, dark, 0.6f), presence));
    if (is_king) {
        Vector2 raised = {middle.x, middle.y - 2.0f};
        checkers_draw_crown(raised, 0.8f * radius, puffer_fade(PUFFER_WHITE, presence));
    }
}

// All pieces but those of `absent`.
static void checkers_draw_pieces(const CheckersBoard* board, uint64_t absent) {
    for (int player = 0; player < 2; player++) {
        for (uint64_t left = board->pieces[player] & ~absent; left; left &= left - 1) {
            int square = bits_lowest(left);
            checkers_draw_piece(checkers_middle(square), player, (board->kings >> square) & 1, 0.0f, 1.0f);
        }
    }
    if (board->jumper) {
        Vector2 middle = checkers_middle(bits_lowest(board->jumper));
        puffer_ring(middle.x, middle.y - 2.0f, CHECKERS_RADIUS + 3.0f, 3.0f, PUFFER_WHITE);
    }
}

// A piece on its way from one square to another; what it jumps over fades as it comes down.
static void checkers_draw_move(const CheckersBoard* board, int move, float share) {
    int player = board->player, square = move / 8, over = square + CHECKERS_STEPS[move / 2 % 4];
    Vector2 from = checkers_middle(square), to = checkers_middle(checkers_target(move));
    float eased = puffer_ease(share), lift = move % 2 ? 4.0f * eased * (1.0f - eased) : 0.0f;
    uint64_t absent = 1ull << square | (move % 2 ? 1ull << over : 0);
    CheckersBoard resting = *board;
    resting.jumper = 0;
    checkers_draw_pieces(&resting, absent);
    if (move % 2) {
        float presence = 1.0f - puffer_ease(clampf(2.0f * share - 1.0f, 0.0f, 1.0f));
        checkers_draw_piece(checkers_middle(over), !player, (board->kings >> over) & 1, 0.0f, presence);
    }
    Vector2 middle = {puffer_lerp(from.x, to.x, eased), puffer_lerp(from.y, to.y, eased)};
    checkers_draw_piece(middle, player, (board->kings >> square) & 1, lift, 1.0f);
}

// The keys of the moves, each beside the square that it leads to, on the way there.
static void checkers_draw_keys(const CheckersBoard* board) {
    static const char* const keys[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "0",
                                       "Q", "W", "E", "R", "T", "Y", "U", "I", "O", "P"};
    const int num_keys = (int)(sizeof(keys) / sizeof(keys[0]));
    CheckersMoves moves = checkers_moves(board);
    int move = 0;
    for (int i = 0; i < num_keys && checkers_next(&moves, &move); i++) {
        Vector2 to = checkers_middle(checkers_target(move));
        float right = move / 2 % 2 ? 1.0f : -1.0f, down = move / 2 % 4 > 1 ? 1.0f : -1.0f;
        puffer_text(keys[i], to.x - 0.3f * CHECKERS_CELL * right, to.y - 0.3f * CHECKERS_CELL * down, 22.0f,
                    PUFFER_CENTER, PUFFER_MUTED);
    }
}

static void checkers_draw_count(const CheckersBoard* board, int player, float x, float y) {
    float side = player == CHECKERS_AGENT ? -1.0f : 1.0f;
    puffer_disc(x + 24.0f * side, y, 11.0f, checkers_color(player));
    puffer_text(TextFormat("%d", bits_count(board->pieces[player])), x + 62.0f * side, y, 34.0f, PUFFER_CENTER,
                PUFFER_WHITE);
}

static void checkers_draw_header(const Client* client, const CheckersBoard* board) {
    const float y = 0.5f * CHECKERS_HEADER, side = CHECKERS_SIDE * CHECKERS_CELL, middle = CHECKERS_LEFT + 0.5f * side;
    puffer_counter("WON", TextFormat("%d", client->num_won), CHECKERS_LEFT, y, PUFFER_LEFT);
    puffer_counter("LOST", TextFormat("%d", client->num_lost), CHECKERS_LEFT + side, y, PUFFER_RIGHT);
    checkers_draw_count(board, CHECKERS_AGENT, middle, y);
    checkers_draw_count(board, CHECKERS_BOT, middle, y);
    if (client->num_drawn == 0) return;
    puffer_text(TextFormat("%d DRAWN", client->num_drawn), CHECKERS_LEFT + 0.25f * side, y + 7.0f, 20.0f, PUFFER_CENTER,
                PUFFER_MUTED);
}

// The moves of a step one after the other, in equal parts of it; where it ends the game, one part to look at that.
static void checkers_draw_step(Client* client, const Checkers* before, bool has_ended, float progress) {
    CheckersTurns turns = checkers_turns(before);
    float segment = progress * (float)(turns.count + has_ended);
    int index = (int)segment < turns.count ? (int)segment : turns.count;
    for (int i = 0; i <= index && i < turns.count; i++)
        checkers_remember_turn(client, &turns.boards[i], turns.moves[i]);
    checkers_draw_header(client, &turns.boards[index]);
    checkers_draw_squares(client);
    if (index < turns.count) {
        checkers_draw_move(&turns.boards[index], turns.moves[index], segment - (float)index);
    } else {
        checkers_draw_pieces(&turns.boards[index], 0);
    }
}

static void c_render(Client* client, const Checkers* before, const Checkers* now, float progress) {
    bool has_ended = before != now && now->terminals[0];
    if (progress < 1.0f) {
        checkers_draw_step(client, before, has_ended, progress);
        return;
    }
    if (has_ended) checkers_remember_end(client, before, now);
    checkers_draw_header(client, &now->board);
    checkers_draw_squares(client);
    checkers_draw_pieces(&now->board, 0);
    checkers_draw_keys(&now->board);
}

static void c_close_client(Client* client) { (void)client; }
