// squared_render.h - the grid from above: the agent a cyan square with dots where it came along, the target a red ring,
// a bar for the time left. What the last episode came to flashes up while the next one begins.
#pragma once

#include "puffer_render.h"
#include "squared.h"

typedef Squared Env;

enum { SQUARED_BOARD = 660, SQUARED_MARGIN = 30, SQUARED_HEADER = 84, SQUARED_BAR_HEIGHT = 10 };
enum { SQUARED_MAX_STEPS = SQUARED_STEPS_PER_SIZE * SQUARED_MAX_SIZE, SQUARED_FLASH_STEPS = 3 };

typedef struct {
    int16_t path[SQUARED_MAX_STEPS + 1];  // cells of this episode by the steps that were left
    bool is_known[SQUARED_MAX_STEPS + 1];
    int steps_left;   // when it was last drawn
    bool has_ended;   // an episode, since the first picture
    bool is_reached;  // its target
    int last_cell;    // where it ended
} Client;

static PufferPicture c_open_client(Client* client, const Squared* env) {
    (void)client, (void)env;
    PufferPicture picture = {SQUARED_BOARD + 2 * SQUARED_MARGIN,
                             SQUARED_HEADER + SQUARED_BOARD + 2 * SQUARED_MARGIN + SQUARED_BAR_HEIGHT, 8.0f,
                             "PufferLib squared"};
    return picture;
}

static float squared_cell_size(const Squared* env) { return (float)SQUARED_BOARD / (float)env->size; }

// Middle of a cell; `column` and `row` may lie between two.
static Vector2 squared_middle(const Squared* env, float column, float row) {
    float cell = squared_cell_size(env);
    Vector2 middle = {SQUARED_MARGIN + cell * (column + 0.5f), SQUARED_HEADER + cell * (row + 0.5f)};
    return middle;
}

static Vector2 squared_middle_of(const Squared* env, int cell) {
    return squared_middle(env, (float)(cell % env->size), (float)(cell / env->size));
}

// --------------------------------------------------------------------------------------------------------- memory

static void squared_remember_outcome(Client* client, const Squared* before, bool is_reached) {
    SquaredMove move = squared_move(before);
    client->has_ended = true;
    client->is_reached = is_reached;
    client->last_cell = is_reached ? before->agent + move.down * before->size + move.right : before->agent;
}

static void squared_remember_cell(Client* client, const Squared* shown) {
    if (shown->steps_left > client->steps_left) memset(client->is_known, 0, sizeof(client->is_known));
    client->steps_left = shown->steps_left;
    client->path[shown->steps_left] = shown->agent;
    client->is_known[shown->steps_left] = true;
}

// --------------------------------------------------------------------------------------------------------- drawing

static void squared_draw_grid(const Squared* env) {
    const float smallest = 6.0f, cell = squared_cell_size(env);  // pixels; closer lines would hide the rest
    puffer_rounded(SQUARED_MARGIN - 6.0f, SQUARED_HEADER - 6.0f, SQUARED_BOARD + 12.0f, SQUARED_BOARD + 12.0f, 12.0f,
                   PUFFER_PANEL);
    if (cell * puffer_view.scale < smallest) return;
    for (int i = 1; i < env->size; i++) {
        float offset = cell * (float)i - 1.0f;
        puffer_rectangle(SQUARED_MARGIN + offset, SQUARED_HEADER, 2.0f, SQUARED_BOARD, PUFFER_BACKGROUND);
        puffer_rectangle(SQUARED_MARGIN, SQUARED_HEADER + offset, SQUARED_BOARD, 2.0f, PUFFER_BACKGROUND);
    }
}

static void squared_draw_path(const Client* client, const Squared* env) {
    const float cell = squared_cell_size(env);
    for (int left = env->steps_left; left <= SQUARED_STEPS_PER_SIZE * env->size; left++) {
        if (!client->is_known[left]) continue;
        Vector2 middle = squared_middle_of(env, client->path[left]);
        float fade = fmaxf(0.25f, 1.0f - 0.06f * (float)(left - env->steps_left));
        puffer_disc(middle.x, middle.y, 0.1f * cell, puffer_mix(PUFFER_PANEL, PUFFER_CYAN, 0.7f * fade));
    }
}

static void squared_draw_target(const Squared* env, float pulse) {
    const float cell = squared_cell_size(env);
    Vector2 middle = squared_middle_of(env, env->target);
    puffer_glow(middle.x, middle.y, cell * (0.75f + 0.1f * pulse), puffer_fade(PUFFER_RED, 0.7f));
    puffer_ring(middle.x, middle.y, 0.28f * cell, 0.1f * cell, PUFFER_RED);
    puffer_disc(middle.x, middle.y, 0.11f * cell, PUFFER_RED);
}

static void squared_draw_agent(const Squared* env, Vector2 middle) {
    const float side = 0.68f * squared_cell_size(env);
    puffer_rounded(middle.x - 0.5f * side, middle.y - 0.5f * side, side, side, 0.24f * side, PUFFER_CYAN);
}

// A ring that grows where the last episode ended: white for the target, red for the rest.
static void squared_draw_outcome(const Client* client, const Squared* env, float steps) {
    float flash = client->has_ended ? puffer_flash(steps, SQUARED_FLASH_STEPS) : 0.0f;
    if (flash <= 0.0f) return;
    Vector2 middle = squared_middle_of(env, client->last_cell);
    float cell = squared_cell_size(env), grown = 1.0f - flash * flash;
    puffer_ring(middle.x, middle.y, cell * (0.3f + 0.7f * grown), 0.12f * cell,
                puffer_fade(client->is_reached ? PUFFER_WHITE : PUFFER_RED, flash));
}

static void squared_draw_time(const Squared* env, float steps_left) {
    float share = steps_left / (float)(SQUARED_STEPS_PER_SIZE * env->size);
    puffer_counter("STEPS LEFT", TextFormat("%d", (int)ceilf(steps_left)), SQUARED_MARGIN, 0.5f * SQUARED_HEADER,
                   PUFFER_LEFT);
    puffer_bar(SQUARED_MARGIN, SQUARED_HEADER + SQUARED_BOARD + SQUARED_MARGIN, SQUARED_BOARD, SQUARED_BAR_HEIGHT,
               share, share < 0.25f ? PUFFER_RED : PUFFER_CYAN);
}

// Where the agent is in the step, a step out of the grid included.
static Vector2 squared_agent(const Squared* before, float progress) {
    SquaredMove move = squared_move(before);
    float share = puffer_ease(progress);
    return squared_middle(before, (float)before->column + share * (float)move.right,
                          (float)(before->agent / before->size) + share * (float)move.down);
}

static void c_render(Client* client, const Squared* before, const Squared* now, float progress) {
    bool is_between = progress < 1.0f;
    const Squared* shown = is_between ? before : now;
    if (before != now && now->terminals[0]) squared_remember_outcome(client, before, now->rewards[0] > 0.0f);
    squared_remember_cell(client, shown);
    float steps = (float)(SQUARED_STEPS_PER_SIZE * shown->size - shown->steps_left) + (is_between ? progress : 0.0f);
    squared_draw_time(shown, (float)shown->steps_left - (is_between ? progress : 0.0f));
    squared_draw_grid(shown);
    squared_draw_path(client, shown);
    squared_draw_target(shown, sinf(steps));
    squared_draw_agent(shown, is_between ? squared_agent(before, progress) : squared_middle_of(now, now->agent));
    squared_draw_outcome(client, shown, steps);
}

static void c_close_client(Client* client) { (void)client; }
