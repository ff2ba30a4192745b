// tron_render.h - the arena from above: each rider with a bright head and the wall that it left behind it, the agent's
// cyan. Walls of riders that are out grow dark. Above it who rides, and how many games the first one has won.
#pragma once

#include "puffer_render.h"
#include "tron.h"

typedef Tron Env;

enum { TRON_MARGIN = 30, TRON_HEADER = 90, TRON_SIDE = 672 };  // pixels

typedef struct {
    uint64_t
        ended_before;  // state of the random numbers before the step that ended the last game: it tells games apart
    int num_games, num_won;
} Client;

static PufferPicture c_open_client(Client* client, const Tron* env) {
    (void)client, (void)env;
    PufferPicture picture = {TRON_SIDE + 2 * TRON_MARGIN, TRON_HEADER + TRON_SIDE + TRON_MARGIN, 12.0f,
                             "PufferLib tron"};
    return picture;
}

static Color tron_color(int rider) {
    const Color amber = {255, 178, 62, 255}, violet = {158, 112, 236, 255};
    const Color colors[TRON_MAX_RIDERS] = {PUFFER_CYAN,
                                           PUFFER_RED,
                                           PUFFER_WHITE,
                                           amber,
                                           violet,
                                           puffer_mix(PUFFER_CYAN, PUFFER_WHITE, 0.6f),
                                           puffer_mix(PUFFER_RED, PUFFER_WHITE, 0.55f),
                                           puffer_mix(PUFFER_CYAN, PUFFER_BACKGROUND, 0.45f)};
    return colors[rider];
}

static float tron_pixels(const Tron* env) { return (float)TRON_SIDE / (float)env->size; }

static Vector2 tron_middle(const Tron* env, float column, float row) {
    float pixels = tron_pixels(env);
    return (Vector2){TRON_MARGIN + pixels * (column + 0.5f), TRON_HEADER + pixels * (row + 0.5f)};
}

static void tron_draw_arena(const Tron* env) {
    float pixels = tron_pixels(env);
    puffer_rounded(TRON_MARGIN - 6.0f, TRON_HEADER - 6.0f, TRON_SIDE + 12.0f, TRON_SIDE + 12.0f, 10.0f, PUFFER_EDGE);
    puffer_rectangle(TRON_MARGIN, TRON_HEADER, TRON_SIDE, TRON_SIDE, PUFFER_BACKGROUND);
    for (int i = 4; i < env->size; i += 4) {
        puffer_rectangle(TRON_MARGIN + pixels * (float)i - 0.5f, TRON_HEADER, 1.0f, TRON_SIDE, PUFFER_PANEL);
        puffer_rectangle(TRON_MARGIN, TRON_HEADER + pixels * (float)i - 0.5f, TRON_SIDE, 1.0f, PUFFER_PANEL);
    }
}

// The walls that riders left, without the cells in which they are.
static void tron_draw_walls(const Tron* env) {
    float pixels = tron_pixels(env), inset = 0.08f * pixels;
    for (int row = 0; row < env->size; row++) {
        for (int column = 0; column < env->size; column++) {
            if (!tron_is_wall(env, column, row)) continue;
            int rider = tron_owner(env, column, row);
            Color color =
                puffer_mix(tron_color(rider), PUFFER_BACKGROUND, env->riders[rider].is_riding ? 0.42f : 0.78f);
            puffer_rounded(TRON_MARGIN + pixels * (float)column + inset, TRON_HEADER + pixels * (float)row + inset,
                           pixels - 2.0f * inset, pixels - 2.0f * inset, 0.22f * pixels, color);
        }
    }
}

static void tron_draw_rider(const Tron* env, int index, float column, float row, bool is_crashed, float progress) {
    float pixels = tron_pixels(env);
    Vector2 middle = tron_middle(env, column, row);
    Color color = tron_color(index);
    if (is_crashed) {
        float light = puffer_flash(progress - 0.4f, 0.6f);
        if (light > 0.0f)
            puffer_glow(middle.x, middle.y, (1.0f + 2.0f * light) * pixels, puffer_fade(PUFFER_WHITE, light));
    } else {
        puffer_glow(middle.x, middle.y, 1.5f * pixels, puffer_fade(color, 0.5f));
    }
    puffer_disc(middle.x, middle.y, 0.42f * pixels, color);
    puffer_disc(middle.x, middle.y, 0.2f * pixels, puffer_mix(color, PUFFER_WHITE, 0.8f));
}

// Riders on their way from a moment to the next, which `after` is: the same step played again.
static void tron_draw_riders(const Tron* before, const Tron* after, int crashed, float progress) {
    float pixels = tron_pixels(before);
    for (int i = 0; i < before->num_riders; i++) {
        const TronRider *from = &before->riders[i], *to = &after->riders[i];
        if (!from->is_riding) continue;
        bool is_crashed = crashed >> i & 1;
        float share = is_crashed ? fminf(progress, 0.45f) : progress;  // up to the wall, not into it
        float column = puffer_lerp(from->column, to->column, share), row = puffer_lerp(from->row, to->row, share);
        Vector2 begin = tron_middle(before, from->column, from->row), end = tron_middle(before, column, row);
        puffer_line(begin.x, begin.y, end.x, end.y, 0.84f * pixels,
                    puffer_mix(tron_color(i), PUFFER_BACKGROUND, 0.42f));
        tron_draw_rider(before, i, column, row, is_crashed, progress);
    }
}

static void tron_draw_header(const Client* client, const Tron* env) {
    const float y = 0.5f * TRON_HEADER - 4.0f, right = TRON_MARGIN + TRON_SIDE;
    float x = TRON_MARGIN + 12.0f;
    for (int i = 0; i < env->num_riders; i++, x += 36.0f) {
        Color color = tron_color(i);
        if (env->riders[i].is_riding) {
            puffer_disc(x, y, 12.0f, color);
        } else {
            puffer_ring(x, y, 10.0f, 3.0f, puffer_mix(color, PUFFER_BACKGROUND, 0.6f));
        }
    }
    puffer_counter("WON", TextFormat("%d/%d", client->num_won, client->num_games), right, y, PUFFER_RIGHT);
}

static void c_render(Client* client, const Tron* before, const Tron* now, float progress) {
    bool has_ended = before != now && now->terminals[0];
    if (has_ended && progress >= 1.0f && client->ended_before != before->rng.state) {
        client->ended_before = before->rng.state;
        client->num_games += 1;
        client->num_won += now->rewards[0] == 1.0f;
    }
    const Tron* shown = progress < 1.0f ? before : now;
    tron_draw_header(client, shown);
    tron_draw_arena(shown);
    tron_draw_walls(shown);
    if (progress >= 1.0f) {
        tron_draw_riders(now, now, 0, 1.0f);
        return;
    }
    Tron after = *before;
    int crashed = tron_ride(&after);
    tron_draw_riders(before, &after, crashed, progress);
}

static void c_close_client(Client* client) { (void)client; }
