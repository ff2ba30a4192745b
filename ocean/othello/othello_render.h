// othello_render.h - the board from above: the agent's discs cyan, the other's red. A disc that is placed grows, those
// that it encloses turn over one after the other, outwards. The newest disc has a dot, and small rings show where the
// agent may place its next one; above the board each side's discs.
#pragma once

#include "othello.h"
#include "puffer_turns_render.h"

typedef Othello Env;

enum { OTHELLO_CELL = 82, OTHELLO_FRAME = 10, OTHELLO_MARGIN = 46, OTHELLO_HEADER = 96 };
enum { OTHELLO_LEFT = OTHELLO_MARGIN + OTHELLO_FRAME, OTHELLO_TOP = OTHELLO_HEADER + OTHELLO_FRAME };

#define OTHELLO_RADIUS (33.0f)
#define OTHELLO_PLACED (0.3f)  // share of a turn until the new disc lies there

static const Color OTHELLO_SURFACE = {9, 40, 40, 255};
static const Color OTHELLO_LINES = {24, 66, 66, 255};

typedef struct {
    uint64_t mark;  // the newest disc, 0 where it is not known
    TurnsTally tally;
} Client;

static PufferPicture c_open_client(Client* client, const Othello* env) {
    (void)client, (void)env;
    const int side = OTHELLO_SIDE * OTHELLO_CELL;
    PufferPicture picture = {side + 2 * OTHELLO_LEFT, OTHELLO_TOP + side + OTHELLO_FRAME + OTHELLO_MARGIN, 1.0f,
                             "PufferLib othello"};
    return picture;
}

static Vector2 othello_middle(int cell) {
    Vector2 middle = {(float)OTHELLO_LEFT + OTHELLO_CELL * ((float)(cell % OTHELLO_SIDE) + 0.5f),
                      (float)OTHELLO_TOP + OTHELLO_CELL * ((float)(cell / OTHELLO_SIDE) + 0.5f)};
    return middle;
}

// ---------------------------------------------------------------------------------------------------------- one step

static uint64_t othello_discs(const Othello* env, int seat) {
    return seat == turns_seat(env) ? env->board.own : env->board.other;
}

static uint64_t othello_all(const Othello* env) { return env->board.own | env->board.other; }

// --------------------------------------------------------------------------------------------------------- drawing

static void othello_draw_board(void) {
    const float side = OTHELLO_SIDE * OTHELLO_CELL;
    puffer_rounded(OTHELLO_LEFT - OTHELLO_FRAME, OTHELLO_TOP - OTHELLO_FRAME, side + 2.0f * OTHELLO_FRAME,
                   side + 2.0f * OTHELLO_FRAME, 16.0f, PUFFER_EDGE);
    puffer_rounded(OTHELLO_LEFT, OTHELLO_TOP, side, side, 8.0f, OTHELLO_SURFACE);
    for (int i = 0; i < OTHELLO_SIDE; i++) {
        float offset = OTHELLO_CELL * (float)i, middle = offset + 0.5f * OTHELLO_CELL;
        if (i > 0) puffer_rectangle(OTHELLO_LEFT + offset - 1.0f, OTHELLO_TOP, 2.0f, side, OTHELLO_LINES);
        if (i > 0) puffer_rectangle(OTHELLO_LEFT, OTHELLO_TOP + offset - 1.0f, side, 2.0f, OTHELLO_LINES);
        puffer_text(TextFormat("%c", 'A' + i), OTHELLO_LEFT + middle,
                    OTHELLO_TOP + side + OTHELLO_FRAME + 0.5f * OTHELLO_MARGIN, 20.0f, PUFFER_CENTER, PUFFER_MUTED);
        puffer_text(TextFormat("%d", i + 1), 0.5f * OTHELLO_MARGIN, OTHELLO_TOP + middle, 20.0f, PUFFER_CENTER,
                    PUFFER_MUTED);
    }
    for (int i = 0; i < 4; i++) {
        float x = OTHELLO_CELL * (i % 2 ? 6.0f : 2.0f), y = OTHELLO_CELL * (i / 2 ? 6.0f : 2.0f);
        puffer_disc(OTHELLO_LEFT + x, OTHELLO_TOP + y, 5.0f, OTHELLO_LINES);
    }
}

// A disc seen at a slant as it turns over: `width` from 1, flat, to 0, on its edge.
static void othello_draw_disc(int cell, Color color, float width, float size) {
    Vector2 middle = othello_middle(cell);
    const float radius = OTHELLO_RADIUS * size;
    Color dark = puffer_mix(color, PUFFER_BACKGROUND, 0.45f);
    puffer_disc(middle.x, middle.y + 5.0f, radius * (0.75f + 0.25f * width),
                puffer_fade(PUFFER_BACKGROUND, 0.6f * size));
    puffer_disc(middle.x, middle.y + 2.0f, radius * (0.7f + 0.3f * width), dark);
    puffer_disc(middle.x, middle.y - 1.0f, radius * (0.62f + 0.38f * width),
                puffer_mix(dark, color, 0.3f + 0.7f * width));
    puffer_ring(middle.x, middle.y - 1.0f, radius * (0.42f + 0.3f * width), 3.0f,
                puffer_fade(puffer_mix(color, PUFFER_WHITE, 0.3f), 0.5f * width));
}

static void othello_draw_mark(uint64_t mark) {
    if (mark == 0) return;
    Vector2 middle = othello_middle(bits_lowest(mark));
    puffer_disc(middle.x, middle.y - 1.0f, 7.0f, PUFFER_WHITE);
}

static void othello_draw_position(const Othello* env, uint64_t absent) {
    for (int seat = 0; seat < 2; seat++) {
        for (uint64_t left = othello_discs(env, seat) & ~absent; left; left &= left - 1)
            othello_draw_disc(bits_lowest(left), turns_color(seat), 1.0f, 1.0f);
    }
}

// Where seat 0 may place a disc, as the keys for it are its column and row.
static void othello_draw_choices(const Othello* env) {
    int seat = turns_seat(env);
    for (uint64_t left = env->cells; left; left &= left - 1) {
        Vector2 middle = othello_middle(bits_lowest(left));
        puffer_ring(middle.x, middle.y, 9.0f, 3.0f, puffer_mix(OTHELLO_SURFACE, turns_color(seat), 0.55f));
    }
}

// How many cells lie between two, along a line.
static int othello_distance(int one, int other) {
    int rows = one / OTHELLO_SIDE - other / OTHELLO_SIDE, columns = one % OTHELLO_SIDE - other % OTHELLO_SIDE;
    rows = rows < 0 ? -rows : rows;
    columns = columns < 0 ? -columns : columns;
    return rows > columns ? rows : columns;
}

// One turn: `from` becomes `to` as `share` goes from 0 to 1.
static void othello_draw_turn(Client* client, const Othello* from, const Othello* to, float share) {
    int seat = turns_seat(from);
    uint64_t placed = othello_all(to) ^ othello_all(from);
    uint64_t turned = othello_discs(to, seat) & othello_discs(from, !seat);
    othello_draw_position(from, turned);
    if (placed == 0) {
        puffer_text("PASS", OTHELLO_LEFT + 0.5f * OTHELLO_SIDE * OTHELLO_CELL, 0.5f * OTHELLO_HEADER, 24.0f,
                    PUFFER_CENTER, turns_color(seat));
        return;
    }
    int cell = bits_lowest(placed);
    for (; turned; turned &= turned - 1) {
        int at = bits_lowest(turned), distance = othello_distance(cell, at);
        float begin = OTHELLO_PLACED + 0.07f * (float)(distance - 1);
        float part = clampf((share - begin) / 0.25f, 0.0f, 1.0f);
        bool is_over = part > 0.5f;
        othello_draw_disc(at, turns_color(is_over ? seat : !seat), fabsf(1.0f - 2.0f * part), 1.0f);
    }
    float size = puffer_ease(clampf(share / OTHELLO_PLACED, 0.0f, 1.0f));
    if (size > 0.02f) othello_draw_disc(cell, turns_color(seat), 1.0f, size);
    client->mark = share >= OTHELLO_PLACED ? placed : client->mark;
    othello_draw_mark(client->mark);
}

static void othello_draw_header(const Client* client, const Othello* env) {
    const float y = 0.5f * OTHELLO_HEADER, side = OTHELLO_SIDE * OTHELLO_CELL, middle = OTHELLO_LEFT + 0.5f * side;
    turns_draw_tally(&client->tally, OTHELLO_LEFT, OTHELLO_LEFT + side, y);
    for (int seat = 0; seat < 2; seat++) {
        float x = middle + (seat ? 92.0f : -92.0f);
        puffer_disc(x, y, 13.0f, turns_color(seat));
        puffer_text(TextFormat("%d", bits_count(othello_discs(env, seat))), x + (seat ? -40.0f : 40.0f), y, 36.0f,
                    PUFFER_CENTER, PUFFER_WHITE);
    }
}

static void c_render(Client* client, const Othello* before, const Othello* now, float progress) {
    bool has_ended = before != now && now->terminals[0];
    if (has_ended && progress >= 1.0f) {
        turns_count(&client->tally, before, now);
        client->mark = 0;
    }
    if (progress >= 1.0f) {
        othello_draw_header(client, now);
        othello_draw_board();
        othello_draw_position(now, 0);
        othello_draw_mark(client->mark);
        othello_draw_choices(now);
        return;
    }
    TurnsStep step = turns_step(before);
    float segment = progress * (float)(step.count + has_ended);  // where it ends the game, a part to look at that
    int index = (int)segment < step.count ? (int)segment : step.count;
    othello_draw_header(client, &step.moments[index]);
    othello_draw_board();
    if (index < step.count) {
        othello_draw_turn(client, &step.moments[index], &step.moments[index + 1], segment - (float)index);
    } else {
        othello_draw_position(&step.moments[index], 0);
        othello_draw_mark(client->mark);
    }
}

static void c_close_client(Client* client) { (void)client; }
