// tetris_render.h - the field with what is held on its left and what comes next on its right. The piece glides, its
// landing place is outlined; a hard drop leaves a trail, full lines flash, and a lost game lights up the field's edge.
#pragma once

#include "puffer_render.h"
#include "tetris.h"

typedef Tetris Env;

enum { TETRIS_CELL = 34, TETRIS_MARGIN = 30, TETRIS_HEADER = 92, TETRIS_SIDE = 144, TETRIS_GAP = 26 };  // pixels
enum { TETRIS_FIELD_X = TETRIS_MARGIN + TETRIS_SIDE + TETRIS_GAP, TETRIS_FIELD_WIDTH = TETRIS_WIDTH * TETRIS_CELL };
enum { TETRIS_FIELD_HEIGHT = TETRIS_HEIGHT * TETRIS_CELL, TETRIS_STEPS_PER_SECOND = 10 };
enum { TETRIS_NEXT_X = TETRIS_FIELD_X + TETRIS_FIELD_WIDTH + TETRIS_GAP };

#define TETRIS_FLASH_STEPS (4.0f)
#define TETRIS_LOSS_STEPS (12.0f)

// As bright as the palette's cyan and red, and as far from each other as seven can be.
static const Color TETRIS_COLORS[TETRIS_KINDS] = {{0, 187, 187, 255}, {196, 160, 20, 255}, {134, 72, 190, 255},
                                                  {30, 160, 88, 255}, {187, 0, 0, 255},    {44, 104, 196, 255},
                                                  {204, 112, 20, 255}};

typedef struct {
    int steps;         // of the game, after the step that was looked at last
    uint32_t cleared;  // bit 1 << row of the lines that went last
    float cleared_at;  // steps
    Tetris dropped;    // the piece in the place where it was dropped hard
    int dropped_from;  // row
    float dropped_at;  // steps
    bool has_lost;     // a game, since the first picture
} Client;

static PufferPicture c_open_client(Client* client, const Tetris* env) {
    (void)env;
    client->cleared_at = client->dropped_at = -INFINITY;
    PufferPicture picture = {TETRIS_NEXT_X + TETRIS_SIDE + TETRIS_MARGIN,
                             TETRIS_HEADER + TETRIS_FIELD_HEIGHT + TETRIS_MARGIN, (float)TETRIS_STEPS_PER_SECOND,
                             "PufferLib tetris"};
    return picture;
}

// -------------------------------------------------------------------------------------------------------------- memory

// What became of the piece in the step, before it locks; says whether it does.
static bool tetris_moment(Tetris* moment) {
    if (tetris_act(moment)) return true;
    return !moment->is_topped_out && tetris_fall(moment);
}

static bool tetris_is_locked(const Tetris* env, int column, int row) {
    return (env->rows[row + TETRIS_SOLID_ROWS] >> (column + TETRIS_WALL) & 1) != 0;
}

// Bit 1 << row of the lines that are full once the piece locks.
static uint32_t tetris_full_rows(const Tetris* moment) {
    uint64_t mask = tetris_mask(tetris_shape(moment), moment->column);
    uint32_t full = 0;
    for (int row = 0; row < 4; row++) {
        int index = moment->row + row + TETRIS_SOLID_ROWS;
        bool is_field = index >= TETRIS_SOLID_ROWS && index < TETRIS_SOLID_ROWS + TETRIS_CEILING;
        int bits = moment->rows[index] | (int)(mask >> 16 * row & TETRIS_FULL_ROW);
        if (is_field && bits == TETRIS_FULL_ROW) full |= 1u << (moment->row + row);
    }
    return full;
}

// What of a step is to be seen afterwards.
static void tetris_remember_step(Client* client, const Tetris* before, const Tetris* moment, bool is_locking,
                                 const Tetris* now) {
    float time = (float)before->steps + 1.0f;
    if (time < client->cleared_at) client->cleared_at = -INFINITY;
    if (time < client->dropped_at) client->dropped_at = -INFINITY;
    client->steps = now->steps;
    if (now->terminals[0] || now->truncations[0]) {
        client->has_lost = now->terminals[0] != 0;
        client->cleared_at = client->dropped_at = -INFINITY;
        return;
    }
    uint32_t cleared = is_locking ? tetris_full_rows(moment) : 0;
    if (cleared != 0) client->cleared = cleared, client->cleared_at = time;
    if (((const int32_t*)before->actions)[0] == TETRIS_HARD) {
        client->dropped = *moment;
        client->dropped_from = before->row;
        client->dropped_at = time;
    }
}

// ------------------------------------------------------------------------------------------------------------- drawing

static float tetris_x(float column) { return TETRIS_FIELD_X + TETRIS_CELL * column; }

// The upper edge of a row.
static float tetris_y(float row) { return TETRIS_HEADER + TETRIS_CELL * ((float)TETRIS_HEIGHT - 1.0f - row); }

static void tetris_draw_block(float x, float y, float size, Color color) {
    const float inset = 0.03f * size, shine = 0.13f * size;
    puffer_rounded(x + inset, y + inset, size - 2.0f * inset, size - 2.0f * inset, 0.16f * size,
                   puffer_mix(color, PUFFER_WHITE, 0.22f));
    puffer_rounded(x + inset, y + inset + shine, size - 2.0f * inset, size - 2.0f * inset - shine, 0.16f * size, color);
}

static void tetris_draw_shape(const TetrisShape* shape, float x, float y, float size, Color color) {
    for (int i = 0; i < 16; i++) {
        int column = i % 4, row = i / 4;
        if (shape->mask & TETRIS_BIT(column, row)) {
            tetris_draw_block(x + size * (float)column, y - size * (float)row, size, color);
        }
    }
}

static void tetris_draw_field(float loss) {
    const float line = 2.0f;
    float x = TETRIS_FIELD_X - 6.0f, y = TETRIS_HEADER - 6.0f;
    float width = TETRIS_FIELD_WIDTH + 12.0f, height = TETRIS_FIELD_HEIGHT + 12.0f;
    puffer_rounded(x - 3.0f, y - 3.0f, width + 6.0f, height + 6.0f, 13.0f, puffer_mix(PUFFER_EDGE, PUFFER_RED, loss));
    puffer_rounded(x, y, width, height, 10.0f, PUFFER_PANEL);
    Color grid = puffer_mix(PUFFER_PANEL, PUFFER_BACKGROUND, 0.6f);
    for (int i = 1; i < TETRIS_WIDTH; i++) {
        puffer_rectangle(tetris_x((float)i) - 0.5f * line, TETRIS_HEADER, line, TETRIS_FIELD_HEIGHT, grid);
    }
    for (int i = 0; i < TETRIS_HEIGHT - 1; i++) {
        puffer_rectangle(TETRIS_FIELD_X, tetris_y((float)i) - 0.5f * line, TETRIS_FIELD_WIDTH, line, grid);
    }
}

static void tetris_draw_cells(const Tetris* env) {
    for (int row = 0; row < env->height; row++) {
        for (int column = 0; column < TETRIS_WIDTH; column++) {
            if (!tetris_is_locked(env, column, row)) continue;
            int kind = env->kinds[(TETRIS_CEILING - 1 - row) * TETRIS_WIDTH + column];
            tetris_draw_block(tetris_x((float)column), tetris_y((float)row), TETRIS_CELL,
                              puffer_mix(TETRIS_COLORS[kind], PUFFER_PANEL, 0.25f));
        }
    }
}

// Where the piece would land: the outline of its cells.
static void tetris_draw_ghost(const Tetris* env) {
    const TetrisShape* shape = tetris_shape(env);
    Color edge = puffer_mix(PUFFER_PANEL, TETRIS_COLORS[env->kind], 0.7f);
    for (int i = 0; i < 16; i++) {
        int column = i % 4, row = i / 4;
        if ((shape->mask & TETRIS_BIT(column, row)) == 0) continue;
        float x = tetris_x((float)(env->column + column)), y = tetris_y((float)(env->landing_row + row));
        puffer_rounded(x + 2.0f, y + 2.0f, TETRIS_CELL - 4.0f, TETRIS_CELL - 4.0f, 6.0f, edge);
        puffer_rounded(x + 5.0f, y + 5.0f, TETRIS_CELL - 10.0f, TETRIS_CELL - 10.0f, 4.0f, PUFFER_PANEL);
    }
}

// Light in every column that a piece fell through, from where it was to where it lies.
static void tetris_draw_trail(const Tetris* dropped, int from, float flash) {
    const TetrisShape* shape = tetris_shape(dropped);
    Color color = puffer_fade(puffer_mix(TETRIS_COLORS[dropped->kind], PUFFER_WHITE, 0.3f), 0.5f * flash);
    for (int column = 0; column < 4; column++) {
        int top = 3;
        while (top >= 0 && (shape->mask & TETRIS_BIT(column, top)) == 0) top--;
        if (top < 0 || from <= dropped->row) continue;
        float x = tetris_x((float)(dropped->column + column)), y = tetris_y((float)(from + top));
        float length = tetris_y((float)(dropped->row + top)) - y;
        puffer_shaded_rectangle(x + 4.0f, y, TETRIS_CELL - 8.0f, length, puffer_fade(color, 0.0f), color);
    }
}

static void tetris_draw_cleared(uint32_t rows, float flash) {
    for (int row = 0; row < TETRIS_HEIGHT; row++) {
        if ((rows >> row & 1) == 0) continue;
        float shrink = 0.5f * TETRIS_CELL * (1.0f - flash);
        puffer_rounded(TETRIS_FIELD_X, tetris_y((float)row) + shrink, TETRIS_FIELD_WIDTH, TETRIS_CELL - 2.0f * shrink,
                       6.0f, puffer_fade(PUFFER_WHITE, 0.9f * flash));
    }
}

// A piece in a box of its own at the side, in the middle; `y` is the box's upper edge.
static void tetris_draw_boxed(int kind, float x, float y, float height, float strength) {
    const float size = 27.0f;
    puffer_rounded(x, y, TETRIS_SIDE, height, 12.0f, PUFFER_PANEL);
    if (kind == TETRIS_NONE) return;
    const TetrisShape* shape = &TETRIS_SHAPES[kind][0];
    float columns = kind == TETRIS_I || kind == TETRIS_O ? 4.0f : 3.0f;
    float rows = 0.5f * (float)(shape->bottom + shape->top + 1);  // from the box's floor to the middle of the cells
    tetris_draw_shape(shape, x + 0.5f * (TETRIS_SIDE - columns * size), y + 0.5f * height + (rows - 1.0f) * size, size,
                      puffer_mix(PUFFER_PANEL, TETRIS_COLORS[kind], strength));
}

static void tetris_draw_label(const char* text, float x, float y) {
    puffer_text(text, x + 0.5f * TETRIS_SIDE, y, 20.0f, PUFFER_CENTER, PUFFER_MUTED);
}

static void tetris_draw_number(const char* label, int number, float y) {
    tetris_draw_label(label, TETRIS_MARGIN, y);
    puffer_text(TextFormat("%d", number), TETRIS_MARGIN + 0.5f * TETRIS_SIDE, y + 40.0f, 54.0f, PUFFER_CENTER,
                PUFFER_WHITE);
}

static void tetris_draw_sides(const Tetris* env) {
    const float box = 108.0f, label = TETRIS_HEADER + 4.0f, top = TETRIS_HEADER + 24.0f;
    tetris_draw_label("HOLD", TETRIS_MARGIN, label);
    tetris_draw_boxed(env->held, TETRIS_MARGIN, top, box, env->may_hold ? 1.0f : 0.35f);
    tetris_draw_number("LINES", env->lines, top + box + 56.0f);
    tetris_draw_number("LEVEL", tetris_level(env), top + box + 168.0f);
    tetris_draw_label("NEXT", TETRIS_NEXT_X, label);
    for (int i = 0; i < TETRIS_NEXT; i++) {
        tetris_draw_boxed(env->next[i], TETRIS_NEXT_X, top + (box + 12.0f) * (float)i, box, 1.0f);
    }
}

// The piece on its way from where it was to where the step takes it; one that has just come appears.
static void tetris_draw_piece(const Tetris* before, const Tetris* moment, float share) {
    bool is_same = before->kind == moment->kind && before->may_hold == moment->may_hold;
    float column = is_same ? puffer_lerp(before->column, moment->column, share) : (float)moment->column;
    float row = is_same ? puffer_lerp(before->row, moment->row, share) : (float)moment->row;
    tetris_draw_shape(tetris_shape(moment), tetris_x(column), tetris_y(row), TETRIS_CELL, TETRIS_COLORS[moment->kind]);
}

static void c_render(Client* client, const Tetris* before, const Tetris* now, float progress) {
    bool is_between = progress < 1.0f;
    Tetris moment = *before;
    bool is_locking = is_between && tetris_moment(&moment);
    if (is_between && client->steps != now->steps) tetris_remember_step(client, before, &moment, is_locking, now);
    const Tetris* shown = is_between ? before : now;
    float time = (float)shown->steps + (is_between ? progress : 0.0f);
    tetris_draw_sides(shown);
    tetris_draw_field(client->has_lost ? puffer_flash(time, TETRIS_LOSS_STEPS) : 0.0f);
    tetris_draw_cells(shown);
    tetris_draw_trail(&client->dropped, client->dropped_from,
                      puffer_flash(time - client->dropped_at, TETRIS_FLASH_STEPS));
    tetris_draw_ghost(is_between ? &moment : now);
    tetris_draw_piece(shown, is_between ? &moment : now, puffer_ease(progress));
    tetris_draw_cleared(client->cleared, puffer_flash(time - client->cleared_at, TETRIS_FLASH_STEPS));
}

static void c_close_client(Client* client) { (void)client; }
