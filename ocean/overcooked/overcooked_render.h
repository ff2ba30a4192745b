// overcooked_render.h - the kitchen from above: the first agent's cook cyan, the other red, both in white hats and with
// what they carry before them. Pots show their onions and fill a ring while they cook. Above it the soups that were
// served.
#pragma once

#include "overcooked.h"
#include "puffer_render.h"

typedef Overcooked Env;

enum { OVERCOOKED_MARGIN = 30, OVERCOOKED_HEADER = 80, OVERCOOKED_ROOM_WIDTH = 864, OVERCOOKED_ROOM_HEIGHT = 480 };

#define OVERCOOKED_FLASH_STEPS (3.0f)

static const Color OVERCOOKED_AMBER = {255, 178, 62, 255};
static const Color OVERCOOKED_BROTH = {214, 120, 34, 255};

typedef struct {
    float time;    // steps since the episode began, when it was last drawn
    int soups;     // then
    float served;  // when one last was, steps
} Client;

// Where the kitchen lies in the picture.
typedef struct {
    float x, y, pixels;  // of the left top corner; of a cell's side
    int columns, rows;
} OvercookedRoom;

static PufferPicture c_open_client(Client* client, const Overcooked* env) {
    (void)env;
    PufferPicture picture = {OVERCOOKED_ROOM_WIDTH + 2 * OVERCOOKED_MARGIN,
                             OVERCOOKED_HEADER + OVERCOOKED_ROOM_HEIGHT + OVERCOOKED_MARGIN, 6.0f,
                             "PufferLib overcooked"};
    client->time = INFINITY;  // nothing was drawn yet
    return picture;
}

static uint64_t overcooked_all_cells(const OvercookedKitchen* kitchen) {
    return kitchen->floor | kitchen->counters | kitchen->onions | kitchen->dishes | kitchen->pots | kitchen->windows;
}

static OvercookedRoom overcooked_room(const Overcooked* env) {
    uint64_t cells = overcooked_all_cells(overcooked_kitchen(env));
    OvercookedRoom room = {.columns = 1};
    while (room.columns < OVERCOOKED_WIDTH && cells >> room.columns & 1) room.columns += 1;
    room.rows = 1 + bits_highest(cells) / OVERCOOKED_WIDTH;
    room.pixels = fminf(OVERCOOKED_ROOM_WIDTH / (float)room.columns, OVERCOOKED_ROOM_HEIGHT / (float)room.rows);
    room.x = OVERCOOKED_MARGIN + 0.5f * (OVERCOOKED_ROOM_WIDTH - room.pixels * (float)room.columns);
    room.y = OVERCOOKED_HEADER + 0.5f * (OVERCOOKED_ROOM_HEIGHT - room.pixels * (float)room.rows);
    return room;
}

// The middle of a cell.
static Vector2 overcooked_middle(const OvercookedRoom* room, int cell) {
    Vector2 middle = {room->x + room->pixels * ((float)(cell % OVERCOOKED_WIDTH) + 0.5f),
                      room->y + room->pixels * ((float)(cell / OVERCOOKED_WIDTH) + 0.5f)};
    return middle;
}

// ---------------------------------------------------------------------------------------------------------- things

static void overcooked_draw_onion(float x, float y, float size) {
    puffer_line(x, y - 0.6f * size, x, y - 0.95f * size, 0.3f * size, puffer_mix(OVERCOOKED_AMBER, PUFFER_CYAN, 0.45f));
    puffer_disc(x, y, 0.7f * size, OVERCOOKED_AMBER);
    puffer_disc(x - 0.2f * size, y - 0.2f * size, 0.2f * size, puffer_mix(OVERCOOKED_AMBER, PUFFER_WHITE, 0.6f));
}

static void overcooked_draw_dish(float x, float y, float size) {
    puffer_disc(x, y, size, PUFFER_WHITE);
    puffer_ring(x, y, 0.65f * size, 0.12f * size, puffer_mix(PUFFER_WHITE, PUFFER_MUTED, 0.5f));
}

static void overcooked_draw_thing(int thing, float x, float y, float size) {
    if (thing == OVERCOOKED_ONION) overcooked_draw_onion(x, y, size);
    if (thing == OVERCOOKED_DISH || thing == OVERCOOKED_SOUP) overcooked_draw_dish(x, y, size);
    if (thing == OVERCOOKED_SOUP) puffer_disc(x, y, 0.68f * size, OVERCOOKED_BROTH);
}

// ------------------------------------------------------------------------------------------------------ the kitchen

static void overcooked_draw_top(Vector2 middle, float pixels, Color color) {
    float side = 0.94f * pixels;
    puffer_rounded(middle.x - 0.5f * side, middle.y - 0.5f * side, side, side, 0.1f * pixels, color);
}

static void overcooked_draw_crate(Vector2 middle, float pixels) {
    puffer_rounded(middle.x - 0.34f * pixels, middle.y - 0.34f * pixels, 0.68f * pixels, 0.68f * pixels, 0.08f * pixels,
                   puffer_mix(PUFFER_BACKGROUND, OVERCOOKED_BROTH, 0.4f));
    for (int i = 0; i < 4; i++) {
        float x = middle.x + (i % 2 ? 0.15f : -0.15f) * pixels, y = middle.y + (i / 2 ? 0.17f : -0.13f) * pixels;
        overcooked_draw_onion(x, y, 0.17f * pixels);
    }
}

static void overcooked_draw_dishes(Vector2 middle, float pixels) {
    for (int i = 0; i < 3; i++) {
        float y = middle.y + 0.1f * pixels * (float)(1 - i);
        puffer_disc(middle.x, y + 0.03f * pixels, 0.27f * pixels, PUFFER_EDGE);
        overcooked_draw_dish(middle.x, y, 0.26f * pixels);
    }
}

static void overcooked_draw_window(Vector2 middle, float pixels, float flash) {
    puffer_rounded(middle.x - 0.38f * pixels, middle.y - 0.38f * pixels, 0.76f * pixels, 0.76f * pixels, 0.1f * pixels,
                   puffer_mix(puffer_mix(PUFFER_BACKGROUND, PUFFER_CYAN, 0.35f), PUFFER_WHITE, 0.7f * flash));
    for (int i = -1; i <= 1; i += 2) {  // an arrow out of the kitchen
        puffer_line(middle.x, middle.y - 0.2f * pixels, middle.x + 0.17f * pixels * (float)i, middle.y, 0.07f * pixels,
                    PUFFER_WHITE);
    }
    puffer_line(middle.x, middle.y - 0.2f * pixels, middle.x, middle.y + 0.22f * pixels, 0.07f * pixels, PUFFER_WHITE);
}

// A ring around the pot's upper half, filled from the left by the share of the time that it has cooked.
static void overcooked_draw_cooked(Vector2 middle, float radius, float share) {
    enum { DOTS = 24 };
    for (int i = 0; i < DOTS; i++) {
        float part = ((float)i + 0.5f) / DOTS, angle = PUFFER_PI * (1.0f + 2.0f * part);
        Color color = part <= share ? PUFFER_CYAN : PUFFER_EDGE;
        puffer_disc(middle.x + radius * cosf(angle), middle.y + radius * sinf(angle), 0.075f * radius, color);
    }
}

static void overcooked_draw_pot(Vector2 middle, float pixels, const OvercookedPot* pot, float progress) {
    bool is_full = pot->onions == OVERCOOKED_FULL, is_ready = overcooked_is_ready(pot);
    float left = fmaxf((float)pot->left - progress, 0.0f);
    if (is_ready) puffer_glow(middle.x, middle.y, 0.75f * pixels, puffer_fade(OVERCOOKED_AMBER, 0.8f));
    puffer_disc(middle.x, middle.y, 0.36f * pixels, PUFFER_MUTED);
    puffer_disc(middle.x, middle.y, 0.29f * pixels, is_full ? OVERCOOKED_BROTH : PUFFER_BACKGROUND);
    for (int i = 0; i < pot->onions && !is_ready; i++) {
        float angle = 2.0f * PUFFER_PI * ((float)i / 3.0f - 0.25f);
        overcooked_draw_onion(middle.x + 0.14f * pixels * cosf(angle), middle.y + 0.14f * pixels * sinf(angle),
                              0.13f * pixels);
    }
    if (is_full) overcooked_draw_cooked(middle, 0.43f * pixels, is_ready ? 1.0f : 1.0f - left / OVERCOOKED_COOKING);
}

static void overcooked_draw_cell(const Overcooked* env, const OvercookedRoom* room, int cell, float progress,
                                 float flash) {
    const OvercookedKitchen* kitchen = overcooked_kitchen(env);
    Vector2 middle = overcooked_middle(room, cell);
    uint64_t bit = overcooked_bit(cell);
    float pixels = room->pixels;
    if (kitchen->floor & bit) {
        bool is_dark = (cell % OVERCOOKED_WIDTH + cell / OVERCOOKED_WIDTH) % 2;
        puffer_rectangle(middle.x - 0.5f * pixels, middle.y - 0.5f * pixels, pixels, pixels,
                         puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, is_dark ? 0.35f : 0.6f));
        return;
    }
    overcooked_draw_top(middle, pixels, PUFFER_EDGE);
    if (kitchen->onions & bit) overcooked_draw_crate(middle, pixels);
    if (kitchen->dishes & bit) overcooked_draw_dishes(middle, pixels);
    if (kitchen->windows & bit) overcooked_draw_window(middle, pixels, flash);
    if (kitchen->pots & bit) {
        overcooked_draw_pot(middle, pixels, &env->pots[overcooked_pot(kitchen, cell)], progress);
    }
    overcooked_draw_thing(overcooked_lying(env, bit), middle.x, middle.y, 0.25f * pixels);
}

static void overcooked_draw_room(const Overcooked* env, const OvercookedRoom* room, float progress, float flash) {
    uint64_t cells = overcooked_all_cells(overcooked_kitchen(env));
    puffer_rounded(room->x - 8.0f, room->y - 8.0f, room->pixels * (float)room->columns + 16.0f,
                   room->pixels * (float)room->rows + 16.0f, 14.0f, PUFFER_PANEL);
    for (; cells != 0; cells &= cells - 1) overcooked_draw_cell(env, room, bits_lowest(cells), progress, flash);
}

// -------------------------------------------------------------------------------------------------------- the cooks

static Vector2 overcooked_looks(const OvercookedCook* cook) {
    const Vector2 directions[OVERCOOKED_DIRECTIONS] = {{0.0f, -1.0f}, {0.0f, 1.0f}, {1.0f, 0.0f}, {-1.0f, 0.0f}};
    return directions[cook->facing];
}

static void overcooked_draw_cook(const OvercookedRoom* room, const OvercookedCook* before, const OvercookedCook* now,
                                 Color color, float progress) {
    Vector2 from = overcooked_middle(room, before->cell), to = overcooked_middle(room, now->cell);
    Vector2 looked = overcooked_looks(before), looks = overcooked_looks(now);
    float pixels = room->pixels, share = puffer_ease(progress);
    float x = puffer_lerp(from.x, to.x, share), y = puffer_lerp(from.y, to.y, share);
    float right = puffer_lerp(looked.x, looks.x, share), down = puffer_lerp(looked.y, looks.y, share);
    puffer_disc(x, y + 0.05f * pixels, 0.36f * pixels, puffer_fade(PUFFER_BACKGROUND, 0.5f));
    puffer_disc(x, y, 0.34f * pixels, color);
    for (int i = -1; i <= 1; i += 2) {  // hands
        float hand_x = x + pixels * (0.3f * right - 0.24f * (float)i * down);
        float hand_y = y + pixels * (0.3f * down + 0.24f * (float)i * right);
        puffer_disc(hand_x, hand_y, 0.1f * pixels, puffer_mix(color, PUFFER_WHITE, 0.35f));
    }
    puffer_disc(x - 0.06f * pixels * right, y - 0.06f * pixels * down, 0.21f * pixels, PUFFER_WHITE);
    puffer_ring(x - 0.06f * pixels * right, y - 0.06f * pixels * down, 0.13f * pixels, 0.03f * pixels,
                puffer_mix(PUFFER_WHITE, PUFFER_MUTED, 0.5f));
    int held = progress < 1.0f ? before->held : now->held;
    overcooked_draw_thing(held, x + 0.4f * pixels * right, y + 0.4f * pixels * down, 0.2f * pixels);
}

static void overcooked_remember(Client* client, const Overcooked* env, float time) {
    bool is_new = time < client->time || time > client->time + 2.0f * OVERCOOKED_FLASH_STEPS;
    if (is_new) client->served = -OVERCOOKED_FLASH_STEPS;
    if (!is_new && env->soups > client->soups) client->served = time;
    client->soups = env->soups;
    client->time = time;
}

static void c_render(Client* client, const Overcooked* before, const Overcooked* now, float progress) {
    bool has_ended = before != now && now->truncations[0];
    const Overcooked* shown = progress < 1.0f ? before : now;
    const Overcooked* after = has_ended && progress < 1.0f ? before : now;  // nothing slides into the next episode
    float time = (float)shown->steps + (progress < 1.0f ? progress : 0.0f);
    OvercookedRoom room = overcooked_room(shown);
    overcooked_remember(client, shown, time);
    overcooked_draw_room(shown, &room, progress < 1.0f ? progress : 0.0f,
                         puffer_flash(time - client->served, OVERCOOKED_FLASH_STEPS));
    for (int i = 0; i < OVERCOOKED_COOKS; i++) {
        const OvercookedCook* from = progress < 1.0f ? &before->cooks[i] : &now->cooks[i];
        overcooked_draw_cook(&room, from, &after->cooks[i], i == shown->seat ? PUFFER_CYAN : PUFFER_RED, progress);
    }
    const float y = 0.5f * OVERCOOKED_HEADER, right = OVERCOOKED_MARGIN + OVERCOOKED_ROOM_WIDTH;
    puffer_counter("SOUPS", TextFormat("%d", shown->soups), OVERCOOKED_MARGIN, y, PUFFER_LEFT);
    puffer_counter("SCORE", TextFormat("%d", 20 * shown->soups), right, y, PUFFER_RIGHT);
    puffer_bar(OVERCOOKED_MARGIN, OVERCOOKED_HEADER + OVERCOOKED_ROOM_HEIGHT + 17.0f, OVERCOOKED_ROOM_WIDTH, 6.0f,
               1.0f - time / (float)OVERCOOKED_STEPS, PUFFER_MUTED);
}

static void c_close_client(Client* client) { (void)client; }
