// rware_render.h - the warehouse from above: robots are cyan, shelves dark, those that are requested red until they are
// delivered at a station, a white frame at the right edge, which flashes then.
#pragma once

#include "puffer_render.h"
#include "rware.h"

typedef Rware Env;

enum { RWARE_MARGIN = 30, RWARE_HEADER = 84, RWARE_BAR_HEIGHT = 10 };

static const Color RWARE_SHELF_COLOR = {44, 92, 92, 255};

typedef struct {
    float time;                              // steps since the episode began, when it was last drawn
    float delivered_at[RWARE_NUM_STATIONS];  // the last time there
} Client;

// Pixels of a cell, so that each warehouse fills the picture and fits on a screen.
static int rware_cell(const Rware* env) { return env->size == RWARE_TINY ? 64 : env->size == RWARE_SMALL ? 56 : 46; }

static float rware_board_width(const Rware* env) { return (float)(env->width * rware_cell(env)); }
static float rware_board_height(const Rware* env) { return (float)(env->height * rware_cell(env)); }

static PufferPicture c_open_client(Client* client, const Rware* env) {
    client->time = INFINITY;  // nothing was drawn yet
    PufferPicture picture = {(int)rware_board_width(env) + 2 * RWARE_MARGIN,
                             RWARE_HEADER + (int)rware_board_height(env) + 2 * RWARE_MARGIN + RWARE_BAR_HEIGHT, 6.0f,
                             "PufferLib robotic warehouse"};
    return picture;
}

static Vector2 rware_middle(const Rware* env, int cell) {
    float pixels = (float)rware_cell(env);
    return (Vector2){RWARE_MARGIN + pixels * ((float)rware_column(cell) + 0.5f),
                     RWARE_HEADER + pixels * ((float)rware_row(cell) + 0.5f)};
}

// The last step of an episode played again, because `now` is already the next one; elsewhere `now` itself.
static Rware rware_after(const Rware* before, const Rware* now) {
    if (before == now || !now->truncations[0]) return *now;
    Rware after = *before;
    for (int i = 0; i < after.num_robots; i++) rware_act(&after, (after.steps + i) % after.num_robots);
    return after;
}

static void rware_remember(Client* client, const Rware* before, const Rware* after, float time) {
    for (int station = 0; station < RWARE_NUM_STATIONS; station++) {
        if (time < client->time) client->delivered_at[station] = -INFINITY;
        for (int row = 0; row < after->num_robots; row++) {
            bool is_delivered = after->robots[row].num_deliveries > before->robots[row].num_deliveries;
            bool is_here = after->robots[row].cell == rware_station(after, station);
            if (is_delivered && is_here) client->delivered_at[station] = (float)before->steps + 0.6f;
        }
    }
    client->time = time;
}

// --------------------------------------------------------------------------------------------------------- drawing

static void rware_draw_floor(const Rware* env) {
    const Color place = puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.95f);
    const float width = rware_board_width(env), height = rware_board_height(env), pixels = (float)rware_cell(env);
    Grid grid = rware_grid(env);
    puffer_rounded(RWARE_MARGIN - 8.0f, RWARE_HEADER - 8.0f, width + 16.0f, height + 16.0f, 14.0f, PUFFER_EDGE);
    puffer_rounded(RWARE_MARGIN - 4.0f, RWARE_HEADER - 4.0f, width + 8.0f, height + 8.0f, 10.0f,
                   puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.45f));
    for (int row = 0; row < env->height; row++) {
        for (int column = 0; column < env->width; column++) {
            if (!rware_is_place(env, column, row)) continue;
            Vector2 middle = rware_middle(env, grid_cell(&grid, column, row));
            puffer_rectangle(middle.x - 0.5f * pixels + 1.0f, middle.y - 0.5f * pixels + 1.0f, pixels - 2.0f,
                             pixels - 2.0f, place);
        }
    }
}

static void rware_draw_station(const Rware* env, int station, float flash) {
    const float half = 0.5f * (float)rware_cell(env) - 3.0f;
    const Color floor = puffer_mix(PUFFER_PANEL, PUFFER_WHITE, 0.12f + 0.6f * flash);
    Vector2 middle = rware_middle(env, rware_station(env, station));
    if (flash > 0.0f) puffer_glow(middle.x, middle.y, 3.2f * half, puffer_fade(PUFFER_WHITE, 0.5f * flash));
    puffer_rounded(middle.x - half, middle.y - half, 2.0f * half, 2.0f * half, 10.0f, PUFFER_WHITE);
    puffer_rounded(middle.x - half + 4.0f, middle.y - half + 4.0f, 2.0f * half - 8.0f, 2.0f * half - 8.0f, 7.0f, floor);
    for (int arm = -1; arm <= 1; arm += 2) {
        puffer_line(middle.x - 6.0f, middle.y + 11.0f * (float)arm, middle.x + 6.0f, middle.y, 4.0f, PUFFER_WHITE);
    }
}

// A shelf from above: a box with boards; carried it is smaller, so that the robot shows around it.
static void rware_draw_shelf(Vector2 middle, float pixels, bool is_requested) {
    const float half = 0.43f * pixels;
    const Color color = is_requested ? PUFFER_RED : RWARE_SHELF_COLOR;
    const Color inner = puffer_mix(color, is_requested ? PUFFER_WHITE : PUFFER_BACKGROUND, is_requested ? 0.22f : 0.4f);
    if (is_requested) puffer_glow(middle.x, middle.y, 1.8f * half, puffer_fade(PUFFER_RED, 0.6f));
    puffer_rounded(middle.x - half, middle.y - half, 2.0f * half, 2.0f * half, 0.28f * half, color);
    for (int i = -1; i <= 1; i += 2) {
        float top = middle.y + (float)i * 0.42f * half - 0.3f * half;
        puffer_rectangle(middle.x - 0.76f * half, top, 1.52f * half, 0.6f * half, inner);
    }
}

static void rware_draw_robot(Vector2 middle, float pixels, float angle) {
    const float radius = 0.4f * pixels, ahead_x = cosf(angle), ahead_y = sinf(angle);
    puffer_disc(middle.x, middle.y, radius, PUFFER_CYAN);
    puffer_disc(middle.x, middle.y, 0.74f * radius, puffer_mix(PUFFER_CYAN, PUFFER_BACKGROUND, 0.6f));
    puffer_line(middle.x + 0.35f * radius * ahead_x, middle.y + 0.35f * radius * ahead_y,
                middle.x + 0.85f * radius * ahead_x, middle.y + 0.85f * radius * ahead_y, 0.3f * radius, PUFFER_WHITE);
}

// Which shelves are drawn with a robot, because it carries them before or after the step.
static int rware_shelf_of(const Rware* before, const Rware* after, int row) {
    const RwareRobot *one = &before->robots[row], *other = &after->robots[row];
    if (one->carried != RWARE_NOTHING) return one->carried;
    return other->carried != RWARE_NOTHING ? before->shelves_at[one->cell] : RWARE_NOTHING;
}

// A robot on its way, in a turn, or lifting; what it carries covers it but for its rim.
static void rware_draw_moving(const Rware* before, const Rware* after, int row, float progress) {
    const RwareRobot *one = &before->robots[row], *other = &after->robots[row];
    const float share = puffer_ease(progress), quarter = 0.5f * PUFFER_PI, pixels = (float)rware_cell(before);
    Vector2 from = rware_middle(before, one->cell), to = rware_middle(before, other->cell);
    Vector2 middle = {puffer_lerp(from.x, to.x, share), puffer_lerp(from.y, to.y, share)};
    int turned = (other->heading - one->heading + RWARE_NUM_HEADINGS + 1) % RWARE_NUM_HEADINGS - 1;
    rware_draw_robot(middle, pixels, quarter * ((float)one->heading + share * (float)turned));
    int shelf = rware_shelf_of(before, after, row);
    if (shelf == RWARE_NOTHING) return;
    float lifted =
        puffer_lerp(one->carried != RWARE_NOTHING ? 1.0f : 0.0f, other->carried != RWARE_NOTHING ? 1.0f : 0.0f, share);
    bool is_delivered = other->num_deliveries > one->num_deliveries && progress > 0.6f;
    rware_draw_shelf(middle, pixels * puffer_lerp(1.0f, 0.62f, lifted), shelf == RWARE_REQUESTED && !is_delivered);
}

// The shelves that nobody lifts. Robots are drawn over them, so that those below a shelf are seen, too.
static void rware_draw_standing(const Rware* before, const Rware* after) {
    for (int cell = 0; cell < RWARE_CELLS; cell++) {
        bool is_standing = before->shelves_at[cell] != RWARE_NOTHING && after->shelves_at[cell] != RWARE_NOTHING;
        if (!is_standing) continue;
        rware_draw_shelf(rware_middle(before, cell), (float)rware_cell(before),
                         before->shelves_at[cell] == RWARE_REQUESTED);
    }
}

static void rware_draw_header(const Rware* shown, float time) {
    const float y = 0.5f * RWARE_HEADER, left = 1.0f - time / (float)RWARE_MAX_STEPS;
    int num_deliveries = 0;
    for (int row = 0; row < shown->num_robots; row++) num_deliveries += shown->robots[row].num_deliveries;
    puffer_counter("DELIVERED", TextFormat("%d", num_deliveries), RWARE_MARGIN, y, PUFFER_LEFT);
    puffer_counter("STEPS LEFT", TextFormat("%d", RWARE_MAX_STEPS - (int)time), RWARE_MARGIN + rware_board_width(shown),
                   y, PUFFER_RIGHT);
    puffer_bar(RWARE_MARGIN, RWARE_HEADER + rware_board_height(shown) + RWARE_MARGIN, rware_board_width(shown),
               RWARE_BAR_HEIGHT, left, left < 0.25f ? PUFFER_RED : PUFFER_CYAN);
}

static void c_render(Client* client, const Rware* before, const Rware* now, float progress) {
    bool is_between = progress < 1.0f;
    const Rware* from = is_between ? before : now;
    Rware after = is_between ? rware_after(before, now) : *now;
    float part = is_between ? progress : 0.0f, time = (float)from->steps + part;
    rware_remember(client, from, &after, time);
    rware_draw_header(from, time);
    rware_draw_floor(from);
    for (int i = 0; i < RWARE_NUM_STATIONS; i++) {
        rware_draw_station(from, i, puffer_flash(time - client->delivered_at[i], 3.0f));
    }
    rware_draw_standing(from, &after);
    for (int row = 0; row < from->num_robots; row++) rware_draw_moving(from, &after, row, part);
}

static void c_close_client(Client* client) { (void)client; }
