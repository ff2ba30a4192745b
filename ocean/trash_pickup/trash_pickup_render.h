// trash_pickup_render.h - the yard from above: sweepers are cyan, trash is red, bins are white rings that fill up. Who
// carries holds the piece up on its back, and a bin flashes when it takes one.
#pragma once

#include "puffer_render.h"
#include "trash_pickup.h"

typedef TrashPickup Env;

enum { TRASH_CELL_PIXELS = 33, TRASH_BOARD = TRASH_SIDE * TRASH_CELL_PIXELS, TRASH_MARGIN = 30, TRASH_HEADER = 84 };
enum { TRASH_BAR_HEIGHT = 10 };

#define TRASH_CELL ((float)TRASH_CELL_PIXELS)

typedef struct {
    float turned[TRASH_NUM_AGENTS];  // direction that each looks in, radians
} Client;

static PufferPicture c_open_client(Client* client, const TrashPickup* env) {
    (void)client, (void)env;
    PufferPicture picture = {TRASH_BOARD + 2 * TRASH_MARGIN,
                             TRASH_HEADER + TRASH_BOARD + 2 * TRASH_MARGIN + TRASH_BAR_HEIGHT, 6.0f,
                             "PufferLib trash pickup"};
    return picture;
}

static Vector2 trash_middle(int cell) {
    Grid grid = trash_grid();
    return (Vector2){TRASH_MARGIN + TRASH_CELL * ((float)grid_column(&grid, cell) + 0.5f),
                     TRASH_HEADER + TRASH_CELL * ((float)grid_row(&grid, cell) + 0.5f)};
}

// Whether the step from `before` to `now` stayed within one episode.
static bool trash_goes_on(const TrashPickup* now) { return !now->terminals[0] && !now->truncations[0]; }

// The last step of an episode played again, because `now` is already the next one; elsewhere `now` itself. Nothing of
// it is written back: the arrays of `before` are its own.
static TrashPickup trash_after(const TrashPickup* before, const TrashPickup* now) {
    if (before == now || trash_goes_on(now)) return *now;
    TrashPickup after = *before;
    for (int i = 0; i < TRASH_NUM_AGENTS; i++) trash_move(&after, (after.steps + i) % TRASH_NUM_AGENTS);
    return after;
}

// --------------------------------------------------------------------------------------------------------- drawing

static void trash_draw_floor(void) {
    const Color light = puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.85f);
    puffer_rounded(TRASH_MARGIN - 8.0f, TRASH_HEADER - 8.0f, TRASH_BOARD + 16.0f, TRASH_BOARD + 16.0f, 14.0f,
                   PUFFER_EDGE);
    puffer_rounded(TRASH_MARGIN - 4.0f, TRASH_HEADER - 4.0f, TRASH_BOARD + 8.0f, TRASH_BOARD + 8.0f, 10.0f,
                   puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.6f));
    for (int cell = 0; cell < TRASH_SIDE * TRASH_SIDE; cell += 2) {
        int row = cell / TRASH_SIDE, column = cell % TRASH_SIDE + row % 2;
        puffer_rectangle(TRASH_MARGIN + TRASH_CELL * (float)column, TRASH_HEADER + TRASH_CELL * (float)row, TRASH_CELL,
                         TRASH_CELL, light);
    }
}

// A crumpled piece: the same in every picture, but not the same everywhere.
static void trash_draw_piece(float x, float y, float size, int kind) {
    const Color color = puffer_mix(PUFFER_RED, PUFFER_WHITE, 0.1f + 0.1f * (float)(kind % 3));
    const float angle = 0.7f * (float)(kind % 9);
    Vector2 corners[5];
    for (int i = 0; i < 5; i++) {
        float turn = angle - 2.0f * PUFFER_PI * (float)i / 5.0f,
              reach = size * (0.8f + 0.2f * sinf((float)(kind + 3 * i)));
        corners[i] = (Vector2){x + reach * cosf(turn), y + reach * sinf(turn)};
    }
    puffer_polygon(corners, 5, color);
    puffer_line(x - 0.3f * size, y - 0.1f * size, x + 0.25f * size, y + 0.2f * size, 0.16f * size,
                puffer_mix(color, PUFFER_BACKGROUND, 0.45f));
}

static void trash_draw_bin(Vector2 middle, float flash) {
    const float size = 0.4f * TRASH_CELL;
    if (flash > 0.0f) puffer_glow(middle.x, middle.y, TRASH_CELL * 1.3f, puffer_fade(PUFFER_WHITE, 0.6f * flash));
    puffer_rounded(middle.x - size, middle.y - size, 2.0f * size, 2.0f * size, 0.45f * size, PUFFER_WHITE);
    puffer_rounded(middle.x - 0.78f * size, middle.y - 0.78f * size, 1.56f * size, 1.56f * size, 0.35f * size,
                   PUFFER_BACKGROUND);
    puffer_disc(middle.x, middle.y, 0.42f * size, puffer_mix(PUFFER_EDGE, PUFFER_WHITE, flash));
}

// The direction of a sweeper's action; it keeps looking there while it stands.
static float trash_turned(const TrashPickup* before, int row, float last) {
    int action = ((const int32_t*)before->actions)[row];
    const float directions[TRASH_NUM_ACTIONS] = {0.5f * PUFFER_PI, -0.5f * PUFFER_PI, PUFFER_PI, 0.0f};
    return action >= 0 && action < TRASH_NUM_ACTIONS ? directions[action] : last;
}

static void trash_draw_agent(Vector2 middle, float direction, float carried, int kind) {
    const float radius = 0.37f * TRASH_CELL, ahead_x = cosf(direction), ahead_y = sinf(direction);
    float brush_x = middle.x + 1.02f * radius * ahead_x, brush_y = middle.y + 1.02f * radius * ahead_y;
    puffer_line(brush_x - 0.62f * radius * ahead_y, brush_y + 0.62f * radius * ahead_x,
                brush_x + 0.62f * radius * ahead_y, brush_y - 0.62f * radius * ahead_x, 0.3f * radius,
                puffer_mix(PUFFER_CYAN, PUFFER_WHITE, 0.6f));
    puffer_disc(middle.x, middle.y, radius, PUFFER_CYAN);
    puffer_disc(middle.x, middle.y, 0.66f * radius, puffer_mix(PUFFER_CYAN, PUFFER_BACKGROUND, 0.55f));
    if (carried > 0.0f) trash_draw_piece(middle.x, middle.y, 0.62f * radius * carried, kind);
}

// A sweeper within a step: on its way, or, with a bin ahead, leaning there and back.
static void trash_draw_moving(Client* client, const TrashPickup* before, const TrashPickup* after, int row,
                              float progress) {
    const TrashAgent *one = &before->agents[row], *other = &after->agents[row];
    bool is_emptied = one->is_carrying && !other->is_carrying;
    Vector2 from = trash_middle(one->cell), to = trash_middle(other->cell);
    float share = puffer_ease(progress);
    client->turned[row] = trash_turned(before, row, client->turned[row]);
    Vector2 middle = {puffer_lerp(from.x, to.x, share), puffer_lerp(from.y, to.y, share)};
    if (is_emptied) {
        float lean = 0.35f * TRASH_CELL * sinf(PUFFER_PI * progress);
        middle.x += lean * cosf(client->turned[row]);
        middle.y += lean * sinf(client->turned[row]);
    }
    float carried = puffer_lerp(one->is_carrying ? 1.0f : 0.0f, other->is_carrying ? 1.0f : 0.0f, share);
    trash_draw_agent(middle, client->turned[row], carried, 7 * row + 1);
}

// How bright a bin is while somebody empties the hands in it.
static float trash_bin_flash(const TrashPickup* before, const TrashPickup* after, int bin, float progress) {
    for (int row = 0; row < TRASH_NUM_AGENTS; row++) {
        int action = ((const int32_t*)before->actions)[row];
        if (!before->agents[row].is_carrying || after->agents[row].is_carrying) continue;
        if (before->agents[row].cell + TRASH_MOVES[action] == bin) return sinf(PUFFER_PI * progress);
    }
    return 0.0f;
}

// What lies and stands in the yard; a piece that is being picked up shrinks away.
static void trash_draw_things(const TrashPickup* before, const TrashPickup* after, float progress) {
    for (int cell = 0; cell < TRASH_CELLS; cell++) {
        Vector2 middle = trash_middle(cell);
        bool is_there = before->cells[cell] & TRASH_PIECE, stays = after->cells[cell] & TRASH_PIECE;
        float size = 0.33f * TRASH_CELL * (stays ? 1.0f : 1.0f - puffer_ease(progress));
        if (is_there && size > 1.0f) trash_draw_piece(middle.x, middle.y, size, cell);
        if (before->cells[cell] & TRASH_BIN) {
            trash_draw_bin(middle, trash_bin_flash(before, after, cell, progress));
        }
    }
}

static void trash_draw_header(const TrashPickup* shown, float steps) {
    const float y = 0.5f * TRASH_HEADER, left = 1.0f - steps / (float)TRASH_MAX_STEPS;
    puffer_counter("BINNED", TextFormat("%d / %d", shown->num_trash - shown->num_left, shown->num_trash), TRASH_MARGIN,
                   y, PUFFER_LEFT);
    puffer_counter("STEPS LEFT", TextFormat("%d", TRASH_MAX_STEPS - (int)steps), TRASH_MARGIN + TRASH_BOARD, y,
                   PUFFER_RIGHT);
    puffer_bar(TRASH_MARGIN, TRASH_HEADER + TRASH_BOARD + TRASH_MARGIN, TRASH_BOARD, TRASH_BAR_HEIGHT, left,
               left < 0.25f ? PUFFER_RED : PUFFER_CYAN);
}

static void c_render(Client* client, const TrashPickup* before, const TrashPickup* now, float progress) {
    bool is_between = progress < 1.0f;
    const TrashPickup* from = is_between ? before : now;
    TrashPickup after = is_between ? trash_after(before, now) : *now;
    float part = is_between ? progress : 0.0f;
    trash_draw_header(from, (float)from->steps + part);
    trash_draw_floor();
    trash_draw_things(from, &after, part);
    for (int row = 0; row < TRASH_NUM_AGENTS; row++) trash_draw_moving(client, from, &after, row, part);
}

static void c_close_client(Client* client) { (void)client; }
