// go_render.h - the board from above, the agent's stones first in a step, then the opponent's. What is captured fades,
// the newest stone has a ring, cyan for the agent and red for the opponent; after a pass small squares show whose the
// empty points are.
#pragma once

#include "go.h"
#include "puffer_render.h"

typedef Go Env;

enum { GO_BOARD = 616, GO_MARGIN = 52, GO_HEADER = 96, GO_FOOTER = 78 };  // pixels
enum { GO_PICTURE_WIDTH = GO_BOARD + 2 * GO_MARGIN, GO_OUTCOME_STEPS = 8 };

static const Color GO_SURFACE = {14, 78, 78, 255};
static const Color GO_LINES = {7, 46, 46, 255};

typedef struct {
    bool has_ended;  // a game, since the first picture
    float margin;    // of the agent in it
} Client;

static PufferPicture c_open_client(Client* client, const Go* env) {
    (void)client, (void)env;
    PufferPicture picture = {GO_PICTURE_WIDTH, GO_HEADER + GO_BOARD + GO_FOOTER, 2.5f, "PufferLib go"};
    return picture;
}

static float go_cell(const Go* env) { return (float)GO_BOARD / (float)env->size; }

static float go_x(const Go* env, int point) { return GO_MARGIN + go_cell(env) * ((float)(point % GO_ROW) + 0.5f); }

static float go_y(const Go* env, int point) { return GO_HEADER + go_cell(env) * ((float)(point / GO_ROW) + 0.5f); }

// ----------------------------------------------------------------------------------------------------------- the board

static void go_draw_board(const Go* env) {
    const float cell = go_cell(env), line = 2.0f, last = cell * (float)(env->size - 1);
    const float left = GO_MARGIN + 0.5f * cell, top = GO_HEADER + 0.5f * cell;
    puffer_rounded(GO_MARGIN - 8.0f, GO_HEADER - 8.0f, GO_BOARD + 16.0f, GO_BOARD + 16.0f, 16.0f, PUFFER_PANEL);
    puffer_rounded(GO_MARGIN, GO_HEADER, GO_BOARD, GO_BOARD, 10.0f, GO_SURFACE);
    for (int i = 0; i < env->size; i++) {
        float offset = cell * (float)i;
        puffer_rectangle(left + offset - 0.5f * line, top, line, last, GO_LINES);
        puffer_rectangle(left, top + offset - 0.5f * line, last, line, GO_LINES);
        puffer_text(TextFormat("%c", 'A' + i), left + offset, GO_HEADER + GO_BOARD + 25.0f, 20.0f, PUFFER_CENTER,
                    PUFFER_MUTED);
        puffer_text(TextFormat("%d", env->size - i), 0.5f * (GO_MARGIN - 8.0f), top + offset, 20.0f, PUFFER_CENTER,
                    PUFFER_MUTED);
    }
    if (env->size % 2 == 1) {
        int middle = env->size / 2 * (GO_ROW + 1);
        puffer_disc(go_x(env, middle), go_y(env, middle), 5.0f, GO_LINES);
    }
}

static void go_draw_stone(float x, float y, float radius, int color, float alpha) {
    Color edge = color == GO_BLACK ? (Color){3, 10, 10, 255} : (Color){178, 190, 190, 255};
    Color face = color == GO_BLACK ? (Color){16, 28, 28, 255} : PUFFER_WHITE;
    Color shine = color == GO_BLACK ? (Color){52, 70, 70, 255} : (Color){255, 255, 255, 255};
    puffer_disc(x + 0.03f * radius, y + 0.1f * radius, 1.02f * radius, puffer_fade(PUFFER_BACKGROUND, 0.4f * alpha));
    puffer_disc(x, y, radius, puffer_fade(edge, alpha));
    puffer_disc(x - 0.03f * radius, y - 0.05f * radius, 0.92f * radius, puffer_fade(face, alpha));
    puffer_disc(x - 0.34f * radius, y - 0.38f * radius, 0.22f * radius, puffer_fade(shine, 0.5f * alpha));
}

// Stones of a colour, as large as `grown` of their size and as solid as `alpha`.
static void go_draw_stones(const Go* env, int color, uint64_t stones, float grown, float alpha) {
    for (; stones != 0; stones &= stones - 1) {
        int point = bits_lowest(stones);
        go_draw_stone(go_x(env, point), go_y(env, point), 0.46f * go_cell(env) * grown, color, alpha);
    }
}

static Color go_owner_color(const Go* env, int color) { return color == env->agent_color ? PUFFER_CYAN : PUFFER_RED; }

static void go_draw_last(const Go* env, int color, int point) {
    if (point == GO_PASS) return;
    puffer_ring(go_x(env, point), go_y(env, point), 0.22f * go_cell(env), 0.06f * go_cell(env),
                go_owner_color(env, color));
}

// Small squares on the empty points that reach one colour alone.
static void go_draw_area(const Go* env, float alpha) {
    const float side = 0.24f * go_cell(env);
    uint64_t empty = go_empty(env);
    for (int color = 0; color < GO_COLORS; color++) {
        uint64_t own = go_reach(env->stones[color], empty) & ~go_reach(env->stones[!color], empty) & empty;
        for (; own != 0; own &= own - 1) {
            int point = bits_lowest(own);
            puffer_rounded(go_x(env, point) - 0.5f * side, go_y(env, point) - 0.5f * side, side, side, 0.25f * side,
                           puffer_fade(go_owner_color(env, color), 0.9f * alpha));
        }
    }
}

// ----------------------------------------------------------------------------------------------------- above and below

static float go_points(const Go* env, int color) {
    uint64_t empty = go_empty(env), near_other = go_reach(env->stones[!color], empty);
    int area = bits_count(go_reach(env->stones[color], empty) & ~near_other);
    return (float)area + (color == GO_WHITE ? GO_KOMI : 0.0f);
}

// A player's stone, name and points, from the left end or to the right one.
static void go_draw_player(const Go* env, int color, float x, PufferAlign align) {
    const float y = 0.5f * (GO_HEADER - 8.0f), radius = 19.0f, side = align == PUFFER_LEFT ? 1.0f : -1.0f;
    bool is_agent = color == env->agent_color;
    puffer_disc(x + side * radius, y, radius + 4.0f, go_owner_color(env, color));
    go_draw_stone(x + side * radius, y, radius, color, 1.0f);
    puffer_counter(is_agent ? "AGENT" : "OPPONENT", TextFormat("%g", (double)go_points(env, color)),
                   x + side * (2.0f * radius + 18.0f), y, align);
}

static void go_draw_footer(const Client* client, const Go* env, bool is_over) {
    const float y = GO_HEADER + GO_BOARD + 54.0f;
    float margin = is_over ? go_margin(env, env->agent_color) : client->margin;
    if (is_over || (client->has_ended && env->steps < GO_OUTCOME_STEPS)) {
        const char* result = TextFormat("%s BY %g", margin > 0.0f ? "WON" : "LOST", (double)fabsf(margin));
        puffer_text(
            is_over ? result : TextFormat("LAST GAME %s BY %g", margin > 0.0f ? "WON" : "LOST", (double)fabsf(margin)),
            0.5f * GO_PICTURE_WIDTH, y, 22.0f, PUFFER_CENTER, margin > 0.0f ? PUFFER_CYAN : PUFFER_RED);
    } else if (env->has_passed) {
        puffer_text("PASS", 0.5f * GO_PICTURE_WIDTH, y, 22.0f, PUFFER_CENTER, PUFFER_MUTED);
    }
}

// --------------------------------------------------------------------------------------------------------- the moments

// One turn: `from` becomes `to` as `share` goes from 0 to 1.
static void go_draw_turn(const Go* from, const Go* to, int color, float share) {
    uint64_t placed = to->stones[color] & ~from->stones[color];
    for (int each = 0; each < GO_COLORS; each++) {
        go_draw_stones(from, each, from->stones[each] & ~to->stones[each], 1.0f, 1.0f - share);
        go_draw_stones(from, each, from->stones[each] & to->stones[each], 1.0f, 1.0f);
    }
    go_draw_stones(from, color, placed, 0.6f + 0.4f * share, share);
    if (placed != 0 && share > 0.5f) go_draw_last(from, color, bits_lowest(placed));
    if (to->has_passed) go_draw_area(to, share);
}

static void go_draw_position(const Client* client, const Go* env) {
    for (int color = 0; color < GO_COLORS; color++) go_draw_stones(env, color, env->stones[color], 1.0f, 1.0f);
    go_draw_last(env, !go_color(env, go_mover(env)), env->last_move);
    if (env->has_passed) go_draw_area(env, 1.0f);
    go_draw_footer(client, env, false);
}

// Plays the step again: the agent's turn in its first half, the bot's in its second; or one turn of two agents.
static void go_draw_step(Client* client, const Go* before, const Go* now, float progress) {
    Go first = *before;
    int color = go_color(before, go_mover(before));
    bool has_bot = before->agents == 1;
    bool is_over = go_asks_bot(before) ? go_reply(&first) : go_take_turn(&first, color, go_action(&first));
    Go second = first;
    if (has_bot && !is_over && !go_is_cut(&first)) go_reply(&second);
    bool is_second = has_bot && progress >= 0.5f;
    float share = puffer_ease(!has_bot ? progress : is_second ? 2.0f * progress - 1.0f : 2.0f * progress);
    if (is_second)
        go_draw_turn(&first, &second, !color, share);
    else
        go_draw_turn(before, &first, color, share);
    bool has_ended = now->terminals[0] || now->truncations[0];
    if (has_ended) client->has_ended = true, client->margin = go_margin(&second, before->agent_color);
    bool is_last = is_second || !has_bot;
    if (has_ended && is_last) go_draw_area(&second, share);
    go_draw_footer(client, is_second ? &second : &first, has_ended && is_last);
}

static void c_render(Client* client, const Go* before, const Go* now, float progress) {
    bool is_between = progress < 1.0f;
    const Go* shown = is_between ? before : now;
    go_draw_player(shown, shown->agent_color, GO_MARGIN, PUFFER_LEFT);
    go_draw_player(shown, !shown->agent_color, GO_MARGIN + GO_BOARD, PUFFER_RIGHT);
    go_draw_board(shown);
    if (is_between)
        go_draw_step(client, before, now, progress);
    else
        go_draw_position(client, now);
}

static void c_close_client(Client* client) { (void)client; }
