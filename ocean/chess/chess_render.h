// chess_render.h - the board from the side of the agent of the first row: its pieces cyan, the other's red. Pieces
// slide, what is taken fades, and the squares of the last turn of each are tinted; a king in check stands in a glow.
// Small signs beside the squares are the keys for the moves that lead there, on the side that they come from.
#pragma once

#include "chess.h"
#include "puffer_turns_render.h"

typedef Chess Env;

enum { CHESS_CELL = 82, CHESS_FRAME = 10, CHESS_MARGIN = 46, CHESS_HEADER = 96 };
enum { CHESS_LEFT = CHESS_MARGIN + CHESS_FRAME, CHESS_TOP = CHESS_HEADER + CHESS_FRAME, CHESS_MAX_CORNERS = 8 };

static const Color CHESS_LIGHT_SQUARE = {27, 70, 70, 255};
static const Color CHESS_DARK_SQUARE = {10, 38, 38, 255};

typedef struct {
    uint64_t touched[2];  // squares of the last turn of each seat, as seat 0 sees them
    TurnsTally tally;
} Client;

static PufferPicture c_open_client(Client* client, const Chess* env) {
    (void)client, (void)env;
    const int side = 8 * CHESS_CELL;
    PufferPicture picture = {side + 2 * CHESS_LEFT, CHESS_TOP + side + CHESS_FRAME + CHESS_MARGIN, 1.0f,
                             "PufferLib chess"};
    return picture;
}

// The board as seat 0 sees it, whosever turn it is.
static ChessBoard chess_seen(const Chess* env) { return turns_seat(env) == 0 ? env->board : chess_turned(&env->board); }

static int chess_seen_square(const Chess* env, int square) { return turns_seat(env) == 0 ? square : square ^ 56; }

static Vector2 chess_middle(int square) {
    Vector2 middle = {(float)CHESS_LEFT + CHESS_CELL * ((float)(square & 7) + 0.5f),
                      (float)CHESS_TOP + CHESS_CELL * ((float)(7 - (square >> 3)) + 0.5f)};
    return middle;
}

// -------------------------------------------------------------------------------------------------------------- pieces

// Where a piece is drawn: coordinates are parts of a square from its middle, x to the right and y down.
typedef struct {
    Vector2 middle;
    float size;  // pixels of a square
    Color color, detail;
} ChessPen;

static void chess_fill(const ChessPen* pen, const float (*points)[2], int count) {
    Vector2 corners[CHESS_MAX_CORNERS];
    for (int i = 0; i < count; i++) {
        corners[i].x = pen->middle.x + pen->size * points[i][0];
        corners[i].y = pen->middle.y + pen->size * points[i][1];
    }
    puffer_polygon(corners, count, pen->color);
}

// A part that is the same to both sides: half as wide as given, above and below.
static void chess_block(const ChessPen* pen, float top, float above, float bottom, float below) {
    const float points[4][2] = {{-above, top}, {-below, bottom}, {below, bottom}, {above, top}};
    chess_fill(pen, points, 4);
}

static void chess_ball(const ChessPen* pen, float x, float y, float radius) {
    puffer_disc(pen->middle.x + pen->size * x, pen->middle.y + pen->size * y, pen->size * radius, pen->color);
}

static void chess_stroke(const ChessPen* pen, float from_x, float from_y, float to_x, float to_y, float width,
                         Color color) {
    puffer_line(pen->middle.x + pen->size * from_x, pen->middle.y + pen->size * from_y,
                pen->middle.x + pen->size * to_x, pen->middle.y + pen->size * to_y, pen->size * width, color);
}

static void chess_draw_base(const ChessPen* pen, float half) {
    const float size = pen->size;
    puffer_rounded(pen->middle.x - size * half, pen->middle.y + 0.27f * size, 2.0f * half * size, 0.1f * size,
                   0.04f * size, pen->color);
}

static void chess_draw_pawn(const ChessPen* pen) {
    chess_block(pen, -0.02f, 0.06f, 0.29f, 0.17f);
    chess_block(pen, -0.05f, 0.14f, 0.01f, 0.11f);
    chess_ball(pen, 0.0f, -0.15f, 0.12f);
    chess_draw_base(pen, 0.22f);
}

static void chess_draw_knight(const ChessPen* pen) {
    static const float neck[6][2] = {{0.02f, -0.3f}, {-0.06f, -0.06f}, {-0.17f, 0.29f},
                                     {0.2f, 0.29f},  {0.22f, -0.02f},  {0.15f, -0.22f}};
    static const float head[5][2] = {
        {0.03f, -0.31f}, {-0.26f, -0.07f}, {-0.23f, 0.05f}, {-0.15f, 0.06f}, {0.1f, -0.08f}};
    static const float ear[3][2] = {{0.06f, -0.42f}, {0.0f, -0.28f}, {0.14f, -0.22f}};
    chess_fill(pen, neck, 6);
    chess_fill(pen, head, 5);
    chess_fill(pen, ear, 3);
    chess_stroke(pen, -0.05f, -0.17f, -0.04f, -0.17f, 0.045f, pen->detail);
    chess_stroke(pen, 0.16f, -0.12f, 0.16f, 0.14f, 0.03f, pen->detail);
    chess_draw_base(pen, 0.26f);
}

static void chess_draw_bishop(const ChessPen* pen) {
    static const float cap[5][2] = {
        {0.0f, -0.34f}, {-0.12f, -0.16f}, {-0.08f, -0.02f}, {0.08f, -0.02f}, {0.12f, -0.16f}};
    chess_block(pen, 0.02f, 0.07f, 0.29f, 0.16f);
    chess_block(pen, -0.02f, 0.15f, 0.05f, 0.11f);
    chess_ball(pen, 0.0f, -0.13f, 0.128f);
    chess_fill(pen, cap, 5);
    chess_ball(pen, 0.0f, -0.37f, 0.045f);
    chess_stroke(pen, 0.02f, -0.13f, 0.09f, -0.22f, 0.035f, pen->detail);
    chess_draw_base(pen, 0.24f);
}

static void chess_draw_rook(const ChessPen* pen) {
    chess_block(pen, -0.16f, 0.14f, 0.29f, 0.19f);
    chess_block(pen, -0.26f, 0.21f, -0.13f, 0.18f);
    for (int i = -1; i <= 1; i++) {
        const float x = 0.16f * (float)i, half = 0.05f;
        const float points[4][2] = {{x - half, -0.36f}, {x - half, -0.24f}, {x + half, -0.24f}, {x + half, -0.36f}};
        chess_fill(pen, points, 4);
    }
    chess_stroke(pen, -0.13f, -0.09f, 0.13f, -0.09f, 0.025f, pen->detail);
    chess_draw_base(pen, 0.26f);
}

static void chess_draw_queen(const ChessPen* pen) {
    for (int i = -2; i <= 2; i++) {
        const float tip = 0.15f * (float)i, foot = 0.075f * (float)i;
        const float top = i == 0 ? -0.32f : i == 1 || i == -1 ? -0.29f : -0.22f;
        const float points[3][2] = {{tip, top}, {foot - 0.07f, 0.08f}, {foot + 0.07f, 0.08f}};
        chess_fill(pen, points, 3);
        chess_ball(pen, tip, top - 0.02f, 0.042f);
    }
    chess_block(pen, 0.02f, 0.2f, 0.16f, 0.15f);
    chess_block(pen, 0.14f, 0.15f, 0.29f, 0.19f);
    chess_stroke(pen, -0.14f, 0.15f, 0.14f, 0.15f, 0.025f, pen->detail);
    chess_draw_base(pen, 0.26f);
}

static void chess_draw_king(const ChessPen* pen) {
    chess_stroke(pen, 0.0f, -0.39f, 0.0f, -0.16f, 0.06f, pen->color);
    chess_stroke(pen, -0.075f, -0.31f, 0.075f, -0.31f, 0.06f, pen->color);
    chess_ball(pen, -0.115f, -0.06f, 0.125f);
    chess_ball(pen, 0.115f, -0.06f, 0.125f);
    chess_block(pen, -0.1f, 0.21f, 0.16f, 0.14f);
    chess_block(pen, -0.21f, 0.05f, 0.1f, 0.15f);
    chess_block(pen, 0.14f, 0.15f, 0.29f, 0.19f);
    chess_stroke(pen, -0.14f, 0.15f, 0.14f, 0.15f, 0.025f, pen->detail);
    chess_draw_base(pen, 0.26f);
}

static void chess_draw_shape(const ChessPen* pen, int kind) {
    static void (*const shapes[CHESS_KINDS])(const ChessPen*) = {chess_draw_pawn, chess_draw_knight, chess_draw_bishop,
                                                                 chess_draw_rook, chess_draw_queen,  chess_draw_king};
    shapes[kind](pen);
}

// `presence` from 1 to 0 for a piece that is taken.
static void chess_draw_piece(Vector2 middle, int kind, int seat, float presence) {
    Color color = puffer_mix(turns_color(seat), PUFFER_WHITE, 0.1f), dark = puffer_mix(color, PUFFER_BACKGROUND, 0.8f);
    if (presence <= 0.02f) return;
    const float size = CHESS_CELL * (0.7f + 0.3f * presence);
    ChessPen shadow = {{middle.x + 2.0f, middle.y + 4.0f},
                       size,
                       puffer_fade(PUFFER_BACKGROUND, 0.75f * presence),
                       puffer_fade(PUFFER_BACKGROUND, 0.0f)};
    ChessPen pen = {middle, size, puffer_fade(color, presence), puffer_fade(dark, presence)};
    chess_draw_shape(&shadow, kind);
    chess_draw_shape(&pen, kind);
}

static int chess_kind(const ChessBoard* board, int square) {
    bool is_straight = (board->straight >> square) & 1, is_slanted = (board->slanted >> square) & 1;
    if ((board->pawns >> square) & 1) return CHESS_PAWN;
    if ((board->kings >> square) & 1) return CHESS_KING;
    if (is_straight) return is_slanted ? CHESS_QUEEN : CHESS_ROOK;
    return is_slanted ? CHESS_BISHOP : CHESS_KNIGHT;
}

// ----------------------------------------------------------------------------------------------------------- the board

static void chess_draw_board(const Client* client) {
    const float side = 8 * CHESS_CELL;
    puffer_rounded(CHESS_LEFT - CHESS_FRAME, CHESS_TOP - CHESS_FRAME, side + 2.0f * CHESS_FRAME,
                   side + 2.0f * CHESS_FRAME, 14.0f, PUFFER_EDGE);
    for (int square = 0; square < CHESS_SQUARES; square++) {
        Vector2 middle = chess_middle(square);
        Color color = (CHESS_DARK >> square) & 1 ? CHESS_DARK_SQUARE : CHESS_LIGHT_SQUARE;
        for (int seat = 0; seat < 2; seat++) {
            if ((client->touched[seat] >> square) & 1) color = puffer_mix(color, turns_color(seat), 0.24f);
        }
        puffer_rectangle(middle.x - 0.5f * CHESS_CELL, middle.y - 0.5f * CHESS_CELL, CHESS_CELL, CHESS_CELL, color);
    }
    for (int i = 0; i < 8; i++) {
        float middle = CHESS_CELL * ((float)i + 0.5f);
        puffer_text(TextFormat("%c", 'a' + i), CHESS_LEFT + middle,
                    CHESS_TOP + side + CHESS_FRAME + 0.5f * CHESS_MARGIN, 20.0f, PUFFER_CENTER, PUFFER_MUTED);
        puffer_text(TextFormat("%d", 8 - i), 0.5f * CHESS_MARGIN, CHESS_TOP + middle, 20.0f, PUFFER_CENTER,
                    PUFFER_MUTED);
    }
}

// All pieces but those on `absent` squares, as seat 0 sees them; a king in check glows.
static void chess_draw_pieces(const Chess* env, uint64_t absent) {
    ChessBoard board = chess_seen(env);
    if (chess_is_check(&env->board)) {
        Vector2 king = chess_middle(chess_seen_square(env, bits_lowest(env->board.own & env->board.kings)));
        puffer_glow(king.x, king.y, 0.62f * CHESS_CELL, puffer_fade(PUFFER_WHITE, 0.75f));
    }
    for (uint64_t left = (board.own | board.other) & ~absent; left; left &= left - 1) {
        int square = bits_lowest(left);
        chess_draw_piece(chess_middle(square), chess_kind(&board, square), !((board.own >> square) & 1), 1.0f);
    }
}

// The keys of the moves, each beside the square that it leads to, on the side of the piece; past 36 of them with space.
static void chess_draw_keys(const Chess* env) {
    static const char keys[] = "1234567890QWERTYUIOPASDFGHJKLZXCVBNM";
    const int num_keys = (int)sizeof(keys) - 1;
    ChessMoves moves;
    chess_list(&env->board, &moves);
    for (int i = 0; i < moves.count && i < CHESS_NUM_ACTIONS - CHESS_PROMOTIONS; i++) {
        Vector2 from = chess_middle(chess_seen_square(env, moves.list[i] & 63));
        Vector2 to = chess_middle(chess_seen_square(env, (moves.list[i] >> 6) & 63));
        float x = from.x - to.x, y = from.y - to.y, reach = 0.39f * CHESS_CELL / fmaxf(fabsf(x), fabsf(y));
        if (moves.list[i] >> 12) reach *= 0.7f - 0.3f * (float)(moves.list[i] >> 12);
        const char* text = TextFormat(i < num_keys ? "%c" : "_%c", keys[i % num_keys]);
        puffer_text(text, to.x + reach * x, to.y + reach * y, 17.0f, PUFFER_CENTER, PUFFER_MUTED);
    }
}

// What the pieces of a seat are worth, as players count: pawns.
static int chess_points(const Chess* env, int seat) {
    static const int points[CHESS_KINDS] = {1, 3, 3, 5, 9, 0};
    ChessBoard board = chess_seen(env);
    int sum = 0;
    for (uint64_t left = seat ? board.other : board.own; left; left &= left - 1)
        sum += points[chess_kind(&board, bits_lowest(left))];
    return sum;
}

static void chess_draw_header(const Client* client, const Chess* env) {
    const float y = 0.5f * CHESS_HEADER, right = CHESS_LEFT + 8 * CHESS_CELL, middle = CHESS_LEFT + 4 * CHESS_CELL;
    turns_draw_tally(&client->tally, CHESS_LEFT, right, y);
    for (int seat = 0; seat < 2; seat++) {
        float x = middle + (seat ? 78.0f : -78.0f);
        ChessPen pen = {{x, y - 2.0f}, 52.0f, turns_color(seat), PUFFER_BACKGROUND};
        chess_draw_king(&pen);
        puffer_text(TextFormat("%d", chess_points(env, seat)), x + (seat ? -40.0f : 40.0f), y, 34.0f, PUFFER_CENTER,
                    PUFFER_WHITE);
    }
}

// --------------------------------------------------------------------------------------------------------- the moments

static uint64_t chess_squares_touched(const Chess* env, ChessMove move) {
    return 1ull << chess_seen_square(env, move & 63) | 1ull << chess_seen_square(env, (move >> 6) & 63);
}

// The move that leads from one position to the next.
static ChessMove chess_move_between(const Chess* from, const Chess* to) {
    ChessMoves moves;
    chess_list(&from->board, &moves);
    for (int i = 0; i < moves.count; i++) {
        ChessBoard next = chess_play(&from->board, moves.list[i]);
        if (chess_hash(&next) == chess_hash(&to->board)) return moves.list[i];
    }
    return 0;
}

// One turn: what stands elsewhere afterwards slides there, and what is gone fades.
static void chess_draw_turn(const Chess* from, const Chess* to, float share) {
    ChessMove move = chess_move_between(from, to);
    ChessBoard before = chess_seen(from), after = chess_seen(to);
    int origin = chess_seen_square(from, move & 63), target = chess_seen_square(from, (move >> 6) & 63);
    int seat = turns_seat(from);
    uint64_t own = seat ? before.other : before.own, own_after = seat ? after.other : after.own;
    uint64_t taken = (seat ? before.own : before.other) & ~(seat ? after.own : after.other);
    uint64_t rook = own & ~own_after & ~(1ull << origin), rook_after = own_after & ~own & ~(1ull << target);
    float eased = puffer_ease(share);
    chess_draw_pieces(from, taken | rook | 1ull << origin);
    for (; taken; taken &= taken - 1) {
        int square = bits_lowest(taken);
        chess_draw_piece(chess_middle(square), chess_kind(&before, square), !seat,
                         1.0f - puffer_ease(clampf(2.0f * share - 1.0f, 0.0f, 1.0f)));
    }
    if (rook && rook_after) {
        Vector2 begin = chess_middle(bits_lowest(rook)), end = chess_middle(bits_lowest(rook_after));
        Vector2 middle = {puffer_lerp(begin.x, end.x, eased), begin.y};
        chess_draw_piece(middle, CHESS_ROOK, seat, 1.0f);
    }
    Vector2 begin = chess_middle(origin), end = chess_middle(target);
    Vector2 middle = {puffer_lerp(begin.x, end.x, eased), puffer_lerp(begin.y, end.y, eased)};
    chess_draw_piece(middle, chess_kind(share < 0.9f ? &before : &after, share < 0.9f ? origin : target), seat, 1.0f);
}

static void chess_draw_step(Client* client, const Chess* before, bool has_ended, float progress) {
    TurnsStep step = turns_step(before);
    float segment = progress * (float)(step.count + has_ended);  // where it ends the game, a part to look at that
    int index = (int)segment < step.count ? (int)segment : step.count;
    for (int i = 0; i <= index && i < step.count; i++) {
        const Chess* from = &step.moments[i];
        client->touched[turns_seat(from)] = chess_squares_touched(from, chess_move_between(from, from + 1));
    }
    chess_draw_header(client, &step.moments[index]);
    chess_draw_board(client);
    if (index < step.count) {
        chess_draw_turn(&step.moments[index], &step.moments[index + 1], segment - (float)index);
    } else {
        chess_draw_pieces(&step.moments[index], 0);
    }
}

static void c_render(Client* client, const Chess* before, const Chess* now, float progress) {
    bool has_ended = before != now && now->terminals[0];
    if (progress < 1.0f) {
        chess_draw_step(client, before, has_ended, progress);
        return;
    }
    if (has_ended) {
        turns_count(&client->tally, before, now);
        memset(client->touched, 0, sizeof(client->touched));
    }
    chess_draw_header(client, now);
    chess_draw_board(client);
    chess_draw_pieces(now, 0);
    chess_draw_keys(now);
}

static void c_close_client(Client* client) { (void)client; }
