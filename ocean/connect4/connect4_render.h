// connect4_render.h - the board from the front, its discs falling behind it: the agent's cyan, the other's red, the
// last one of each marked. Four in a line light up before the board is cleared; above it the score and the last game.
#pragma once

#include "connect4.h"
#include "puffer_render.h"

typedef Connect4 Env;

enum { CONNECT4_CELL = 92, CONNECT4_FRAME = 12, CONNECT4_MARGIN = 30, CONNECT4_HEADER = 120, CONNECT4_ENTRY = 76 };
enum { CONNECT4_LEFT = CONNECT4_MARGIN + CONNECT4_FRAME, CONNECT4_TOP = CONNECT4_HEADER + CONNECT4_ENTRY };
enum { CONNECT4_FOOTER = 54, CONNECT4_DOT = 13, CONNECT4_HOLE_POINTS = 48 };

#define CONNECT4_RADIUS (37.0f)
#define CONNECT4_HOLE (39.0f)
#define CONNECT4_AGENT_FALLEN (0.4f)  // shares of a step: when the agent's disc rests, and the bot's
#define CONNECT4_BOT_FALLEN (0.85f)

typedef struct {
    uint64_t marks[2];  // the last disc of the agent and of the bot, 0 where it is not known
    uint64_t
        ended_before;   // state of the random numbers before the step that ended the last game: it tells games apart
    uint64_t discs[2];  // of the last game
    int num_won, num_drawn, num_lost;
} Client;

static PufferPicture c_open_client(Client* client, const Connect4* env) {
    (void)client, (void)env;
    PufferPicture picture = {CONNECT4_COLUMNS * CONNECT4_CELL + 2 * CONNECT4_LEFT,
                             CONNECT4_TOP + CONNECT4_ROWS * CONNECT4_CELL + CONNECT4_FRAME + CONNECT4_FOOTER, 1.25f,
                             "PufferLib connect4"};
    return picture;
}

static Color connect4_color(int player) { return player == CONNECT4_AGENT ? PUFFER_CYAN : PUFFER_RED; }

// The middle of a cell, by its number on the board; one row above the board for a column that is full.
static Vector2 connect4_middle(int cell) {
    int column = cell / CONNECT4_STRIDE, row = cell % CONNECT4_STRIDE;
    Vector2 middle = {(float)CONNECT4_LEFT + CONNECT4_CELL * ((float)column + 0.5f),
                      (float)CONNECT4_TOP + CONNECT4_CELL * ((float)(CONNECT4_ROWS - row) - 0.5f)};
    return middle;
}

// All discs that are part of four in a line.
static uint64_t connect4_winning(uint64_t discs) {
    uint64_t winning = 0;
    for (int i = 0; i < CONNECT4_NUM_DIRECTIONS; i++) {
        int step = CONNECT4_DIRECTIONS[i];
        uint64_t firsts = discs & (discs >> step) & (discs >> 2 * step) & (discs >> 3 * step);
        winning |= firsts | (firsts << step) | (firsts << 2 * step) | (firsts << 3 * step);
    }
    return winning;
}

// ---------------------------------------------------------------------------------------------------------- one step

// A step played again: where its discs come to rest, 0 for none, and the board that they lead to.
typedef struct {
    uint64_t cells[2];  // of the agent, of the bot
    uint64_t discs[2];
} Connect4Turn;

static Connect4Turn connect4_turn(const Connect4* before) {
    Connect4 moment = *before;
    uint64_t cell = connect4_agent_cell(&moment, before->mover);
    Connect4Turn turn = {.cells = {before->mover == CONNECT4_AGENT ? cell : 0, 0}};
    if (cell) {
        connect4_drop(&moment, before->mover, cell);
        bool is_over = connect4_has_four(moment.discs[before->mover]) || connect4_is_full(&moment);
        if (!is_over && before->agents == 1) connect4_answer(&moment);
    }
    turn.cells[CONNECT4_BOT] = moment.discs[CONNECT4_BOT] ^ before->discs[CONNECT4_BOT];
    turn.discs[CONNECT4_AGENT] = moment.discs[CONNECT4_AGENT];
    turn.discs[CONNECT4_BOT] = moment.discs[CONNECT4_BOT];
    return turn;
}

static void connect4_remember_end(Client* client, const Connect4* before, const Connect4* now) {
    if (client->ended_before == before->rng.state) return;
    Connect4Turn turn = connect4_turn(before);
    client->ended_before = before->rng.state;
    client->discs[CONNECT4_AGENT] = turn.discs[CONNECT4_AGENT];
    client->discs[CONNECT4_BOT] = turn.discs[CONNECT4_BOT];
    client->num_won += now->rewards[0] > 0.0f;
    client->num_drawn += now->rewards[0] == 0.0f;
    client->num_lost += now->rewards[0] < 0.0f;
}

// How far a disc has come, 0 to 1, after a share of its time: faster and faster, then a small bounce.
static float connect4_fallen(float share) {
    const float impact = 0.72f;
    if (share <= 0.0f) return 0.0f;
    if (share >= 1.0f) return 1.0f;
    if (share < impact) return share * share / (impact * impact);
    float bounce = (share - impact) / (1.0f - impact);
    return 1.0f - 0.16f * bounce * (1.0f - bounce);
}

// --------------------------------------------------------------------------------------------------------- drawing

static void connect4_draw_disc(Vector2 middle, Color color, bool is_marked, float light) {
    puffer_disc(middle.x, middle.y, CONNECT4_RADIUS, puffer_mix(color, PUFFER_WHITE, 0.25f * light));
    puffer_ring(middle.x, middle.y, 0.7f * CONNECT4_RADIUS, 5.0f,
                puffer_mix(puffer_mix(color, PUFFER_BACKGROUND, 0.3f), PUFFER_WHITE, light));
    if (is_marked) puffer_disc(middle.x, middle.y, 7.0f, PUFFER_WHITE);
}

// The board around a hole: a square with a round opening, so that what is behind shows through it.
static void connect4_draw_opening(Vector2 middle) {
    const float half = 0.5f / puffer_view.scale, side = 0.5f * CONNECT4_CELL;
    PufferOutline edge = {.count = 0}, square = {.count = 0};
    for (int i = 0; i < CONNECT4_HOLE_POINTS; i++) {
        float angle = -2.0f * PUFFER_PI * (float)i / (float)CONNECT4_HOLE_POINTS;
        Vector2 outward = {cosf(angle), sinf(angle)};
        float reach = side / fmaxf(fabsf(outward.x), fabsf(outward.y));
        Vector2 point = {middle.x + CONNECT4_HOLE * outward.x, middle.y + CONNECT4_HOLE * outward.y};
        Vector2 to_side = {(reach - CONNECT4_HOLE) * outward.x, (reach - CONNECT4_HOLE) * outward.y};
        puffer_add_point(&edge, point, outward);
        puffer_add_point(&square, point, to_side);
    }
    puffer_begin_triangles();
    puffer_fill_band(&edge, -half, half, puffer_fade(PUFFER_PANEL, 0.0f), PUFFER_PANEL);
    puffer_fill_band(&square, half / (side - CONNECT4_HOLE), 1.0f, PUFFER_PANEL, PUFFER_PANEL);
    rlEnd();
}

static void connect4_draw_board(void) {
    const float width = CONNECT4_COLUMNS * CONNECT4_CELL, height = CONNECT4_ROWS * CONNECT4_CELL;
    puffer_rounded(CONNECT4_LEFT - CONNECT4_FRAME, CONNECT4_TOP - CONNECT4_FRAME, width + 2.0f * CONNECT4_FRAME,
                   height + 2.0f * CONNECT4_FRAME, 26.0f, PUFFER_PANEL);
    for (int column = 0; column < CONNECT4_COLUMNS; column++) {
        for (int row = 0; row < CONNECT4_ROWS; row++) {
            Vector2 middle = connect4_middle(column * CONNECT4_STRIDE + row);
            puffer_disc(middle.x, middle.y, CONNECT4_HOLE, PUFFER_BACKGROUND);
        }
        puffer_text(TextFormat("%d", column + 1), connect4_middle(column * CONNECT4_STRIDE).x,
                    CONNECT4_TOP + height + CONNECT4_FRAME + 0.5f * CONNECT4_FOOTER, 22.0f, PUFFER_CENTER,
                    PUFFER_MUTED);
    }
}

// The discs that lie on the board; `lit` are those of four in a line, by `light` from 0 to 1, which dims the others.
static void connect4_draw_discs(const uint64_t* discs, const uint64_t* marks, uint64_t lit, float light) {
    for (int player = 0; player < 2; player++) {
        for (uint64_t left = discs[player]; left; left &= left - 1) {
            uint64_t cell = left & (0 - left);
            bool is_lit = (lit & cell) != 0;
            Color dim = puffer_mix(connect4_color(player), PUFFER_BACKGROUND, lit && !is_lit ? 0.3f * light : 0.0f);
            connect4_draw_disc(connect4_middle(bits_lowest(cell)), dim, (marks[player] & cell) != 0,
                               is_lit ? light : 0.0f);
        }
    }
}

// A disc on its way from above the board to its cell, behind the board.
static void connect4_draw_falling(int player, uint64_t cell, float share) {
    int index = bits_lowest(cell), column = index / CONNECT4_STRIDE;
    Vector2 rest = connect4_middle(index);
    float above = CONNECT4_TOP - 0.5f * CONNECT4_ENTRY;
    Vector2 middle = {rest.x, puffer_lerp(above, rest.y, connect4_fallen(share))};
    connect4_draw_disc(middle, connect4_color(player), true, 0.0f);
    for (int row = 0; row < CONNECT4_ROWS; row++) {
        Vector2 opening = connect4_middle(column * CONNECT4_STRIDE + row);
        if (fabsf(opening.y - middle.y) < CONNECT4_CELL) connect4_draw_opening(opening);
    }
    puffer_rectangle(rest.x - 0.5f * CONNECT4_CELL, CONNECT4_TOP - CONNECT4_FRAME, CONNECT4_CELL, CONNECT4_FRAME,
                     PUFFER_PANEL);
}

// A disc that finds no room: it waits above its column and fades.
static void connect4_draw_refused(const Connect4* before, float progress) {
    int column = ((const int32_t*)before->actions)[before->mover];
    if (!is_within(column, 0, CONNECT4_COLUMNS - 1)) return;
    puffer_disc(connect4_middle(column * CONNECT4_STRIDE).x, CONNECT4_TOP - 0.5f * CONNECT4_ENTRY - 6.0f,
                CONNECT4_RADIUS - 6.0f, puffer_fade(connect4_color(before->mover), 1.0f - progress));
}

static void connect4_draw_last_game(const Client* client) {
    const float left =
        CONNECT4_LEFT + 0.5f * (CONNECT4_COLUMNS * CONNECT4_CELL - (CONNECT4_COLUMNS - 1) * CONNECT4_DOT);
    const float bottom = 0.5f * CONNECT4_HEADER + 2.5f * CONNECT4_DOT;
    for (int column = 0; column < CONNECT4_COLUMNS; column++) {
        for (int row = 0; row < CONNECT4_ROWS; row++) {
            uint64_t cell = 1ull << (column * CONNECT4_STRIDE + row);
            int player = (client->discs[CONNECT4_BOT] & cell) != 0;
            bool is_lit = (connect4_winning(client->discs[player]) & cell) != 0;
            Color color = client->discs[player] & cell ? connect4_color(player) : PUFFER_PANEL;
            puffer_disc(left + CONNECT4_DOT * (float)column, bottom - CONNECT4_DOT * (float)row, 5.0f,
                        is_lit ? PUFFER_WHITE : puffer_mix(color, PUFFER_BACKGROUND, 0.35f));
        }
    }
}

static void connect4_draw_header(const Client* client) {
    const float y = 0.5f * CONNECT4_HEADER, right = CONNECT4_LEFT + CONNECT4_COLUMNS * CONNECT4_CELL;
    puffer_counter("WON", TextFormat("%d", client->num_won), CONNECT4_LEFT, y - (client->num_drawn ? 20.0f : 0.0f),
                   PUFFER_LEFT);
    if (client->num_drawn) {
        puffer_text(TextFormat("%d DRAWN", client->num_drawn), CONNECT4_LEFT, y + 28.0f, 20.0f, PUFFER_LEFT,
                    PUFFER_MUTED);
    }
    puffer_counter("LOST", TextFormat("%d", client->num_lost), right, y, PUFFER_RIGHT);
    connect4_draw_last_game(client);
}

// A step: the agent's disc falls, then the bot's, then four in a line light up.
static void connect4_draw_step(Client* client, const Connect4* before, float progress) {
    Connect4Turn turn = connect4_turn(before);
    uint64_t discs[2] = {before->discs[CONNECT4_AGENT], before->discs[CONNECT4_BOT]};
    bool has_agent_fallen = progress >= CONNECT4_AGENT_FALLEN, has_bot_fallen = progress >= CONNECT4_BOT_FALLEN;
    if (has_agent_fallen) discs[CONNECT4_AGENT] = turn.discs[CONNECT4_AGENT];
    if (has_bot_fallen) discs[CONNECT4_BOT] = turn.discs[CONNECT4_BOT];
    if (has_agent_fallen) client->marks[CONNECT4_AGENT] = turn.cells[CONNECT4_AGENT];
    if (has_bot_fallen) client->marks[CONNECT4_BOT] = turn.cells[CONNECT4_BOT];

    uint64_t lit = connect4_winning(discs[CONNECT4_AGENT]) | connect4_winning(discs[CONNECT4_BOT]);
    float since = progress - (turn.cells[CONNECT4_BOT] ? CONNECT4_BOT_FALLEN : CONNECT4_AGENT_FALLEN);
    connect4_draw_discs(discs, client->marks, lit, lit ? puffer_ease(fminf(since / 0.1f, 1.0f)) : 0.0f);
    if (turn.cells[before->mover] == 0) connect4_draw_refused(before, progress);
    if (turn.cells[CONNECT4_AGENT] && !has_agent_fallen) {
        connect4_draw_falling(CONNECT4_AGENT, turn.cells[CONNECT4_AGENT], progress / CONNECT4_AGENT_FALLEN);
    } else if (turn.cells[CONNECT4_BOT] && !has_bot_fallen) {
        float share = (progress - CONNECT4_AGENT_FALLEN) / (CONNECT4_BOT_FALLEN - CONNECT4_AGENT_FALLEN);
        connect4_draw_falling(CONNECT4_BOT, turn.cells[CONNECT4_BOT], share);
    }
}

static void c_render(Client* client, const Connect4* before, const Connect4* now, float progress) {
    bool has_ended = before != now && now->terminals[0];
    if (has_ended && progress >= 1.0f) {
        connect4_remember_end(client, before, now);
        memset(client->marks, 0, sizeof(client->marks));
    }
    connect4_draw_header(client);
    connect4_draw_board();
    if (progress < 1.0f) {
        connect4_draw_step(client, before, progress);
    } else {
        connect4_draw_discs(now->discs, client->marks, 0, 0.0f);
    }
}

static void c_close_client(Client* client) { (void)client; }
