// stochastic_render.h - a glass for each colour that fills with every call. The wide mark is where it is to stand at
// the end, the thin one where it should be now; a lamp above burns for the colour that is called.
#pragma once

#include "puffer_lights.h"
#include "stochastic.h"

typedef Stochastic Env;

enum { STOCHASTIC_WIDTH = 720, STOCHASTIC_HEIGHT = 560, STOCHASTIC_MARGIN = 40, STOCHASTIC_HEADER = 84 };
enum { STOCHASTIC_GLASS_Y = 170, STOCHASTIC_GLASS_WIDTH = 130, STOCHASTIC_GLASS_HEIGHT = 290, STOCHASTIC_PITCH = 210 };
enum { STOCHASTIC_BAR_HEIGHT = 10 };

#define STOCHASTIC_FULL (0.75f)  // of all calls: what fills a glass

typedef struct {
    PufferTally episodes;  // perf of those that were shown
} Client;

static PufferPicture c_open_client(Client* client, const Stochastic* env) {
    (void)client, (void)env;
    PufferPicture picture = {STOCHASTIC_WIDTH, STOCHASTIC_HEIGHT, 20.0f, "PufferLib stochastic"};
    return picture;
}

static Color stochastic_paint(int color) { return color == 0 ? PUFFER_CYAN : color == 1 ? PUFFER_WHITE : PUFFER_RED; }

static void stochastic_remember(Client* client, const Stochastic* before, const Stochastic* now) {
    Stochastic end = *before;
    end.counts[stochastic_color(before)] += 1;
    end.num_called += 1;
    float share = stochastic_distance(&end) / (STOCHASTIC_PURE_DISTANCE * (float)end.steps);
    puffer_tally_add(&client->episodes, &now->rng, clampf(1.0f - share, 0.0f, 1.0f));
}

// ---------------------------------------------------------------------------------------------------------- drawing

// `count` calls of this colour, `called` of all, whole numbers or in between; `light` of its lamp, 0 to 1.
static void stochastic_draw_glass(const Stochastic* env, int color, float count, float called, float light) {
    const float centre = 0.5f * STOCHASTIC_WIDTH + (float)((color - 1) * STOCHASTIC_PITCH);
    const float left = centre - 0.5f * STOCHASTIC_GLASS_WIDTH, bottom = STOCHASTIC_GLASS_Y + STOCHASTIC_GLASS_HEIGHT;
    const float per_call = STOCHASTIC_GLASS_HEIGHT / (STOCHASTIC_FULL * (float)env->steps);
    const float share = STOCHASTIC_SHARES[env->mixture][color];
    puffer_lamp(centre, STOCHASTIC_GLASS_Y - 42.0f, 22.0f, stochastic_paint(color), light);
    puffer_rounded(left, STOCHASTIC_GLASS_Y, STOCHASTIC_GLASS_WIDTH, STOCHASTIC_GLASS_HEIGHT, 14.0f, PUFFER_PANEL);
    float height = fminf(count * per_call, STOCHASTIC_GLASS_HEIGHT);
    if (height > 0.0f) {
        puffer_rounded(left, bottom - height, STOCHASTIC_GLASS_WIDTH, height, 14.0f,
                       puffer_mix(PUFFER_PANEL, stochastic_paint(color), 0.85f));
    }
    float now = bottom - share * called * per_call, end = bottom - share * (float)env->steps * per_call;
    puffer_line(left - 8.0f, now, left + STOCHASTIC_GLASS_WIDTH + 8.0f, now, 2.0f, PUFFER_MUTED);
    puffer_line(left - 14.0f, end, left + STOCHASTIC_GLASS_WIDTH + 14.0f, end, 5.0f, PUFFER_EDGE);
    puffer_text(TextFormat("%.0f %%", (double)(100.0f * share)), left + STOCHASTIC_GLASS_WIDTH + 20.0f, end, 18.0f,
                PUFFER_LEFT, PUFFER_MUTED);
    puffer_text(TextFormat("%d", (int)count), centre, bottom + 26.0f, 26.0f, PUFFER_CENTER, PUFFER_WHITE);
}

static void c_render(Client* client, const Stochastic* before, const Stochastic* now, float progress) {
    bool has_ended = before != now && now->truncations[0], shows_old = has_ended && progress < 1.0f;
    if (has_ended) stochastic_remember(client, before, now);
    const Stochastic* shown = progress < 1.0f ? before : now;
    int color = before == now ? -1 : stochastic_color(before);
    float share = before == now || (!shows_old && progress >= 1.0f) ? 0.0f : puffer_ease(progress);
    float called = (float)shown->num_called + share;
    for (int i = 0; i < STOCHASTIC_NUM_COLORS; i++) {
        float light = i == color && progress < 1.0f ? sqrtf(sinf(PUFFER_PI * progress)) : 0.0f;
        stochastic_draw_glass(shown, i, (float)shown->counts[i] + (i == color ? share : 0.0f), called, light);
    }
    int episodes = client->episodes.count;
    puffer_counter("MIXED", episodes > 0 ? TextFormat("%.0f %%", (double)(100.0f * client->episodes.newest)) : "-",
                   STOCHASTIC_MARGIN, 0.5f * STOCHASTIC_HEADER, PUFFER_LEFT);
    puffer_counter("OFF BY", TextFormat("%.0f", (double)stochastic_distance(shown)),
                   STOCHASTIC_WIDTH - STOCHASTIC_MARGIN, 0.5f * STOCHASTIC_HEADER, PUFFER_RIGHT);
    puffer_bar(STOCHASTIC_MARGIN, STOCHASTIC_HEIGHT - 36.0f, STOCHASTIC_WIDTH - 2 * STOCHASTIC_MARGIN,
               STOCHASTIC_BAR_HEIGHT, called / (float)shown->steps, PUFFER_CYAN);
}

static void c_close_client(Client* client) { (void)client; }
