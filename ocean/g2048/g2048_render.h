// g2048_render.h - the board from above: tiles from deep teal over cyan and white to red as they grow. They slide,
// merged ones swell for a moment, and the new one grows out of its cell; when the game is over the frame turns red.
#pragma once

#include "g2048.h"
#include "puffer_render.h"

typedef G2048 Env;

enum { G2048_CELL = 156, G2048_GAP = 14, G2048_MARGIN = 30, G2048_HEADER = 84 };  // pixels
enum { G2048_BOARD = G2048_SIDE * (G2048_CELL + G2048_GAP) + G2048_GAP };
#define G2048_SLIDING 0.55f  // the part of a step in which tiles slide; then they merge and appear

typedef struct {
    int best;  // score of an episode since the first picture
} Client;

static PufferPicture c_open_client(Client* client, const G2048* env) {
    (void)client, (void)env;
    PufferPicture picture = {G2048_BOARD + 2 * G2048_MARGIN, G2048_HEADER + G2048_BOARD + G2048_MARGIN, 6.0f,
                             "PufferLib g2048"};
    return picture;
}

// A cell of a line along the move, whose first place is where tiles go.
static int g2048_line_cell(int action, int line, int place) {
    int along = action == G2048_DOWN || action == G2048_RIGHT ? G2048_SIDE - 1 - place : place;
    return action < G2048_LEFT ? along * G2048_SIDE + line : line * G2048_SIDE + along;
}

typedef struct {
    int targets[G2048_CELLS];     // where the tile of each cell goes
    bool is_merged[G2048_CELLS];  // of a target: two tiles arrive
} G2048Paths;

// The rules of g2048_slide_row once more, tile by tile.
static G2048Paths g2048_paths(uint64_t board, int action) {
    G2048Paths paths = {{0}, {false}};
    for (int line = 0; line < G2048_SIDE; line++) {
        int filled = 0, last = 0;
        for (int place = 0; place < G2048_SIDE; place++) {
            int cell = g2048_line_cell(action, line, place), exponent = g2048_cell(board, cell);
            if (exponent == 0) continue;
            bool is_merged = exponent == last && exponent < G2048_MAX_EXPONENT;
            filled += !is_merged;
            last = is_merged ? 0 : exponent;
            int target = g2048_line_cell(action, line, filled - 1);
            paths.targets[cell] = target;
            paths.is_merged[target] |= is_merged;
        }
    }
    return paths;
}

// ----------------------------------------------------------------------------------------------------------- drawing

static Vector2 g2048_middle(float column, float row) {
    const float pitch = G2048_CELL + G2048_GAP;
    Vector2 middle = {G2048_MARGIN + G2048_GAP + 0.5f * G2048_CELL + pitch * column,
                      G2048_HEADER + G2048_GAP + 0.5f * G2048_CELL + pitch * row};
    return middle;
}

static Vector2 g2048_middle_of(int cell) {
    return g2048_middle((float)(cell % G2048_SIDE), (float)(cell / G2048_SIDE));
}

static Color g2048_color(int exponent) {
    const Color deep = {12, 66, 68, 255}, dark_red = {110, 0, 20, 255};
    if (exponent <= 5) return puffer_mix(deep, PUFFER_CYAN, (float)(exponent - 1) / 4.0f);
    if (exponent <= 8) return puffer_mix(PUFFER_CYAN, PUFFER_WHITE, (float)(exponent - 5) / 3.0f);
    if (exponent <= 11) return puffer_mix(PUFFER_WHITE, PUFFER_RED, (float)(exponent - 8) / 3.0f);
    return puffer_mix(PUFFER_RED, dark_red, (float)(exponent - 11) / 4.0f);
}

// The number keeps its size, as letters are made for each size anew: a tile that grows gets it when it is wide enough.
static void g2048_draw_tile(Vector2 middle, int exponent, float scale) {
    const float sizes[] = {74.0f, 74.0f, 64.0f, 52.0f, 42.0f};  // of one to five digits
    float side = scale * G2048_CELL;
    Color color = g2048_color(exponent);
    if (exponent >= 11) puffer_glow(middle.x, middle.y, 1.05f * side, puffer_fade(PUFFER_RED, 0.5f));
    puffer_rounded(middle.x - 0.5f * side, middle.y - 0.5f * side, side, side, 0.12f * side, color);
    const char* number = TextFormat("%d", 1 << exponent);
    bool is_light = exponent >= 4 && exponent <= 9;
    Color ink = is_light ? PUFFER_BACKGROUND : PUFFER_WHITE;
    float shown = puffer_ease(fminf(fmaxf(3.0f * scale - 2.0f, 0.0f), 1.0f));
    if (shown == 0.0f) return;
    puffer_text(number, middle.x, middle.y, sizes[TextLength(number) - 1], PUFFER_CENTER,
                puffer_mix(color, ink, shown));
}

static void g2048_draw_board(Color frame) {
    puffer_rounded(G2048_MARGIN, G2048_HEADER, G2048_BOARD, G2048_BOARD, 18.0f, frame);
    for (int cell = 0; cell < G2048_CELLS; cell++) {
        Vector2 middle = g2048_middle_of(cell);
        puffer_rounded(middle.x - 0.5f * G2048_CELL, middle.y - 0.5f * G2048_CELL, G2048_CELL, G2048_CELL, 19.0f,
                       PUFFER_BACKGROUND);
    }
}

static void g2048_draw_tiles(uint64_t board) {
    for (int cell = 0; cell < G2048_CELLS; cell++) {
        if (g2048_cell(board, cell) > 0) g2048_draw_tile(g2048_middle_of(cell), g2048_cell(board, cell), 1.0f);
    }
}

// Tiles on their way, `share` of it; the last of a line first, so that it goes below the one that it meets.
static void g2048_draw_sliding(uint64_t board, const G2048Paths* paths, int action, float share) {
    for (int i = G2048_CELLS - 1; i >= 0; i--) {
        int cell = g2048_line_cell(action, i / G2048_SIDE, i % G2048_SIDE), exponent = g2048_cell(board, cell);
        if (exponent == 0) continue;
        Vector2 from = g2048_middle_of(cell), to = g2048_middle_of(paths->targets[cell]);
        Vector2 middle = {puffer_lerp(from.x, to.x, share), puffer_lerp(from.y, to.y, share)};
        g2048_draw_tile(middle, exponent, 1.0f);
    }
}

// Tiles that have arrived: those that merged swell and shrink, the new one grows.
static void g2048_draw_arrived(uint64_t slid, uint64_t board, const G2048Paths* paths, float share) {
    for (int cell = 0; cell < G2048_CELLS; cell++) {
        int exponent = g2048_cell(board, cell);
        if (exponent == 0) continue;
        float swollen = paths->is_merged[cell] ? 0.14f * sinf(PUFFER_PI * share) : 0.0f;
        float scale = g2048_cell(slid, cell) == 0 ? puffer_ease(share) : 1.0f + swollen;
        if (scale > 0.05f) g2048_draw_tile(g2048_middle_of(cell), exponent, scale);
    }
}

// The step again, on a copy: what it led to is seen even where it was the last of its episode.
static void g2048_draw_step(const G2048* before, float progress) {
    int action = ((const int32_t*)before->actions)[0];
    G2048 moment = *before;
    if (is_within(action, 0, G2048_NUM_ACTIONS - 1)) {
        moment.board = g2048_slide(before->shared, before->board, action).board;
    }
    uint64_t slid = moment.board;
    if (slid == before->board) {
        g2048_draw_tiles(slid);
    } else if (progress < G2048_SLIDING) {
        G2048Paths paths = g2048_paths(before->board, action);
        g2048_draw_sliding(before->board, &paths, action, puffer_ease(progress / G2048_SLIDING));
    } else {
        G2048Paths paths = g2048_paths(before->board, action);
        g2048_add_tile(&moment);
        g2048_draw_arrived(slid, moment.board, &paths, (progress - G2048_SLIDING) / (1.0f - G2048_SLIDING));
    }
}

static void c_render(Client* client, const G2048* before, const G2048* now, float progress) {
    bool is_between = before != now && progress < 1.0f, has_ended = now->terminals[0] || now->truncations[0];
    int score = g2048_score(is_between ? before : now);
    client->best = score > client->best ? score : client->best;
    puffer_counter("SCORE", TextFormat("%d", score), G2048_MARGIN, 0.5f * G2048_HEADER, PUFFER_LEFT);
    puffer_counter("BEST", TextFormat("%d", client->best), G2048_MARGIN + G2048_BOARD, 0.5f * G2048_HEADER,
                   PUFFER_RIGHT);
    float over = is_between && has_ended ? fmaxf(progress - G2048_SLIDING, 0.0f) / (1.0f - G2048_SLIDING) : 0.0f;
    g2048_draw_board(puffer_mix(PUFFER_PANEL, PUFFER_RED, over));
    if (is_between) {
        g2048_draw_step(before, progress);
    } else {
        g2048_draw_tiles(now->board);
    }
}

static void c_close_client(Client* client) { (void)client; }
