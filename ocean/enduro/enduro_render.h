// enduro_render.h - the race from behind the car: the road winds to the horizon, the sky tells the weather.
//
// A point `depth` in front of the eye lies ENDURO_EYE / depth below the horizon. The eye is ENDURO_BEHIND behind the
// car and goes along with it sideways, half as far. Curves bend what lies ahead by the square of its depth.
#pragma once

#include "enduro.h"
#include "puffer_render.h"

typedef Enduro Env;

enum { ENDURO_WIDTH = 800, ENDURO_HEIGHT = 560, ENDURO_HEADER = 76, ENDURO_HORIZON = 210, ENDURO_STRIP = 5 };
enum { ENDURO_STARS = 40, ENDURO_PEAKS = 9 };

#define ENDURO_BEHIND (3.0f)
#define ENDURO_EYE (800.0f)        // pixels below the horizon at depth 1
#define ENDURO_ROAD (820.0f)       // pixels of half the road at depth 1
#define ENDURO_BEND (0.0055f)      // half roads aside per squared depth in the sharpest curve
#define ENDURO_DASHES (5.0f)       // lengths of road from one dash between the lanes to the next
#define ENDURO_STRIPES (6.0f)      // lengths of road in a stripe of the verge
#define ENDURO_CAR_PIXELS (0.36f)  // width of a car in half roads
#define ENDURO_DUSK (0.02f)        // of a day, from one weather to the next
#define ENDURO_MIDDLE (0.5f * (float)ENDURO_WIDTH)

typedef struct {
    Color zenith, haze, ground, verge, road;
    float dark, fog;  // 0 to 1
} EnduroScenery;

static const EnduroScenery ENDURO_SCENERIES[ENDURO_NUM_WEATHERS] = {
    {{10, 70, 84, 255}, {124, 196, 196, 255}, {12, 66, 56, 255}, {18, 84, 70, 255}, {46, 58, 60, 255}, 0.0f, 0.0f},
    {{96, 128, 136, 255},
     {214, 226, 228, 255},
     {196, 210, 212, 255},
     {222, 232, 233, 255},
     {104, 122, 126, 255},
     0.0f,
     0.0f},
    {{3, 10, 14, 255}, {8, 40, 48, 255}, {5, 20, 20, 255}, {7, 26, 26, 255}, {14, 22, 24, 255}, 1.0f, 0.0f},
    {{44, 56, 58, 255}, {92, 106, 108, 255}, {24, 46, 44, 255}, {28, 52, 50, 255}, {38, 48, 50, 255}, 0.35f, 1.0f},
};

typedef struct {
    EnduroScenery scenery;
    float eye;  // x of the eye
    const Enduro* env;
} EnduroView;

typedef struct {
    char unused;
} Client;

static PufferPicture c_open_client(Client* client, const Enduro* env) {
    PufferPicture picture = {ENDURO_WIDTH, ENDURO_HEIGHT, 60.0f / (float)env->frameskip, "PufferLib enduro"};
    return picture;
}

// ---------------------------------------------------------------------------------------------------------- motion

// The race `frames` after `before`, driven again. An episode that ends stays at its last frame.
static Enduro enduro_moment(const Enduro* before, float frames) {
    Enduro moment = *before;
    moment.frameskip = 1;
    for (; frames > 0.0f; frames -= 1.0f) {
        Enduro next = moment;
        c_step(&next);
        if (next.terminals[0] || next.truncations[0]) break;
        if (frames < 1.0f) {
            next.x = puffer_lerp(moment.x, next.x, frames);
            next.distance = puffer_lerp(moment.distance, next.distance, frames);
            next.place = puffer_lerp(moment.place, next.place, frames);
            next.speed = puffer_lerp(moment.speed, next.speed, frames);
        }
        moment = next;
    }
    return moment;
}

// --------------------------------------------------------------------------------------------------------- weather

static EnduroScenery enduro_mixed(const EnduroScenery* a, const EnduroScenery* b, float share) {
    EnduroScenery mixed = {
        puffer_mix(a->zenith, b->zenith, share), puffer_mix(a->haze, b->haze, share),
        puffer_mix(a->ground, b->ground, share), puffer_mix(a->verge, b->verge, share),
        puffer_mix(a->road, b->road, share),     puffer_lerp(a->dark, b->dark, share),
        puffer_lerp(a->fog, b->fog, share),
    };
    return mixed;
}

// Dusk is at the end of each weather: the next one comes in.
static EnduroScenery enduro_scenery(const Enduro* env) {
    const int dusk = (int)(ENDURO_DUSK * ENDURO_DAY_FRAMES);
    Enduro later = *env;
    int weather = enduro_weather(env), left = 0;
    while (left < dusk) {
        later.frame = (env->frame + left) % ENDURO_DAY_FRAMES;
        if (enduro_weather(&later) != weather) break;
        left += 1;
    }
    return enduro_mixed(&ENDURO_SCENERIES[weather], &ENDURO_SCENERIES[enduro_weather(&later)],
                        1.0f - (float)left / (float)dusk);
}

// ------------------------------------------------------------------------------------------------------ perspective

static float enduro_y(float depth) { return ENDURO_HORIZON + ENDURO_EYE / depth; }

// How far the road is bent aside, in pixels: what is so many half roads aside looks smaller by its depth.
static float enduro_bend(const EnduroView* view, float depth) {
    float curvature = enduro_curvature(view->env, view->env->distance + 0.5f * depth);
    return ENDURO_BEND * curvature * ENDURO_ROAD * depth;
}

static float enduro_x(const EnduroView* view, float x, float depth) {
    return ENDURO_MIDDLE + (x - view->eye) * ENDURO_ROAD / depth + enduro_bend(view, depth);
}

static Color enduro_hazy(const EnduroView* view, Color color, float depth) {
    float far = fminf(depth / 26.0f, 1.0f);
    return puffer_mix(color, view->scenery.haze, view->scenery.fog * far * (2.0f - far) * 0.97f);
}

// ------------------------------------------------------------------------------------------------------------ drawing

static void enduro_draw_sky(const EnduroView* view) {
    const EnduroScenery* scenery = &view->scenery;
    float height = ENDURO_HORIZON - ENDURO_HEADER;
    puffer_shaded_rectangle(0, ENDURO_HEADER, ENDURO_WIDTH, height, scenery->zenith, scenery->haze);
    float shift = -0.04f * view->env->distance;
    for (int i = 0; i < ENDURO_STARS && scenery->dark > 0.5f; i++) {
        uint64_t random = rng_mix((uint64_t)i);
        float x = (float)(random % ENDURO_WIDTH), y = (float)(random >> 32 & 0x7Fu) * 0.7f;
        puffer_disc(x, ENDURO_HEADER + 8.0f + y, 0.8f + 0.8f * (float)(random >> 60) / 15.0f,
                    puffer_fade(PUFFER_WHITE, 0.7f * (2.0f * scenery->dark - 1.0f)));
    }
    for (int i = 0; i < ENDURO_PEAKS; i++) {
        float spacing = (float)ENDURO_WIDTH / (float)(ENDURO_PEAKS - 2);
        float x = fmodf((float)i * spacing + shift, spacing * (float)ENDURO_PEAKS);
        x = (x < 0.0f ? x + spacing * (float)ENDURO_PEAKS : x) - spacing;
        float tall = 26.0f + (float)(rng_mix((uint64_t)i + 99u) & 31u), wide = 1.1f * spacing;
        Vector2 corners[3] = {{x - wide, ENDURO_HORIZON}, {x + wide, ENDURO_HORIZON}, {x, ENDURO_HORIZON - tall}};
        Color color = puffer_mix(scenery->ground, scenery->haze, 0.45f + 0.5f * scenery->fog);
        puffer_polygon(corners, 3, puffer_mix(color, scenery->zenith, i % 2 ? 0.25f : 0.1f));
    }
}

// A piece of a strip between two heights, from left to right at each; its neighbours join without a seam.
static void enduro_fill_strip(const float* left, const float* right, float top, float bottom, Color color) {
    puffer_set_color(color);
    rlVertex2f(left[0], top);
    rlVertex2f(left[1], bottom);
    rlVertex2f(right[1], bottom);
    rlVertex2f(right[1], bottom);
    rlVertex2f(right[0], top);
    rlVertex2f(left[0], top);
}

static void enduro_draw_strip(const EnduroView* view, float top) {
    float bottom = fminf(top + ENDURO_STRIP, ENDURO_HEIGHT);
    float far = ENDURO_EYE / fmaxf(top - ENDURO_HORIZON, 1.0f), near = ENDURO_EYE / (bottom - ENDURO_HORIZON);
    float from[2] = {0, 0}, to[2] = {ENDURO_WIDTH, ENDURO_WIDTH};
    bool is_odd = (int)((view->env->distance + near) / ENDURO_STRIPES) & 1;
    const EnduroScenery* scenery = &view->scenery;
    float blend = fminf(near / 40.0f, 1.0f);  // far stripes would flicker
    Color verge = puffer_mix(is_odd ? scenery->verge : scenery->ground, scenery->ground, blend);
    enduro_fill_strip(from, to, top, bottom, enduro_hazy(view, verge, near));
    float left[2] = {enduro_x(view, -1.0f, far), enduro_x(view, -1.0f, near)};
    float right[2] = {enduro_x(view, 1.0f, far), enduro_x(view, 1.0f, near)};
    enduro_fill_strip(left, right, top, bottom, enduro_hazy(view, scenery->road, near));
}

// Between two depths, `width` half roads wide.
static void enduro_draw_mark(const EnduroView* view, float x, float near, float far, float width) {
    Color white = puffer_mix(PUFFER_WHITE, view->scenery.road, 0.25f + 0.4f * view->scenery.dark);
    puffer_line(enduro_x(view, x, near), enduro_y(near), enduro_x(view, x, far), enduro_y(far),
                fmaxf(width * ENDURO_ROAD / near, 0.8f), enduro_hazy(view, white, near));
}

static void enduro_draw_markings(const EnduroView* view) {
    for (float y = ENDURO_HEIGHT; y > ENDURO_HORIZON + 2 * ENDURO_STRIP; y -= 2 * ENDURO_STRIP) {
        float near = ENDURO_EYE / (y - ENDURO_HORIZON);
        float far = ENDURO_EYE / (fmaxf(y - 2 * ENDURO_STRIP, ENDURO_HORIZON + 2 * ENDURO_STRIP) - ENDURO_HORIZON);
        for (int side = -1; side <= 1; side += 2) enduro_draw_mark(view, (float)side, near, far, 0.03f);
    }
    float first = ENDURO_DASHES * ceilf(view->env->distance / ENDURO_DASHES) - view->env->distance;
    for (float near = first - ENDURO_DASHES; near < ENDURO_SIGHT; near += ENDURO_DASHES) {
        float begin = fmaxf(near, 0.8f * ENDURO_BEHIND), end = near + 0.4f * ENDURO_DASHES;
        if (end <= begin) continue;
        for (int side = -1; side <= 1; side += 2) {
            enduro_draw_mark(view, 0.5f * (float)side * ENDURO_LANE_WIDTH, begin, end, 0.012f);
        }
    }
}

static void enduro_draw_body(float x, float y, float size, Color color, bool is_own) {
    float height = 0.5f * size, left = x - 0.5f * size;
    puffer_rounded(left - 0.04f * size, y - 0.06f * size, 1.08f * size, 0.12f * size, 0.06f * size,
                   (Color){0, 0, 0, 90});
    puffer_rounded(left, y - 0.24f * size, 0.24f * size, 0.26f * size, 0.05f * size, (Color){12, 16, 17, 255});
    puffer_rounded(left + 0.76f * size, y - 0.24f * size, 0.24f * size, 0.26f * size, 0.05f * size,
                   (Color){12, 16, 17, 255});
    puffer_rounded(left + 0.16f * size, y - height, 0.68f * size, 0.34f * size, 0.12f * size, color);
    puffer_rounded(left + 0.23f * size, y - 0.92f * height, 0.54f * size, 0.16f * size, 0.07f * size,
                   puffer_mix(color, (Color){8, 30, 34, 255}, 0.8f));
    puffer_rounded(left + 0.02f * size, y - 0.33f * size, 0.96f * size, 0.24f * size, 0.08f * size,
                   puffer_mix(color, PUFFER_BACKGROUND, is_own ? 0.0f : 0.12f));
}

static void enduro_draw_lights(float x, float y, float size, float dark) {
    for (int side = -1; side <= 1; side += 2) {
        float at = x + (float)side * 0.36f * size, high = y - 0.22f * size;
        if (dark > 0.0f) puffer_glow(at, high, 0.4f * size, puffer_fade((Color){255, 60, 50, 255}, 0.6f * dark));
        puffer_rounded(at - 0.08f * size, high - 0.035f * size, 0.16f * size, 0.07f * size, 0.03f * size,
                       (Color){235, 48, 44, 255});
    }
}

static void enduro_draw_car(const EnduroView* view, float x, float ahead, Color color, bool is_own) {
    float depth = ahead + ENDURO_BEHIND;
    float size = ENDURO_CAR_PIXELS * ENDURO_ROAD / depth, dark = view->scenery.dark;
    float at = enduro_x(view, x, depth), y = enduro_y(depth);
    float shade = dark * fminf(depth / 8.0f, 1.0f);
    enduro_draw_body(at, y, size, enduro_hazy(view, puffer_mix(color, view->scenery.road, 0.85f * shade), depth),
                     is_own);
    if (view->scenery.fog * depth < 30.0f) enduro_draw_lights(at, y, size, dark);
}

static void enduro_draw_traffic(const EnduroView* view) {
    static const Color colors[4] = {{187, 0, 0, 255}, {241, 241, 241, 255}, {212, 132, 36, 255}, {64, 110, 168, 255}};
    const Enduro* env = view->env;
    float sight = puffer_lerp(ENDURO_SIGHT, 24.0f, view->scenery.fog);
    bool is_own_drawn = false;
    for (int i = ENDURO_CARS_AHEAD; i >= -1; i--) {
        int index = env->next_car + i;
        EnduroCar car = enduro_car(env, index);
        float ahead = car.place - env->place;
        if (!is_own_drawn && ahead < 0.0f) {
            enduro_draw_car(view, env->x, 0.0f, PUFFER_CYAN, true);
            is_own_drawn = true;
        }
        if (index < 0 || ahead > sight || ahead < -0.6f * ENDURO_BEHIND) continue;
        enduro_draw_car(view, car.x, ahead, colors[rng_mix((uint64_t)index) & 3u], false);
    }
    if (!is_own_drawn) enduro_draw_car(view, env->x, 0.0f, PUFFER_CYAN, true);
}

static void enduro_draw_header(const Enduro* env) {
    const float y = 0.5f * ENDURO_HEADER, margin = 24.0f;
    int left = enduro_quota(env->day) - env->overtaken;
    puffer_rectangle(0, 0, ENDURO_WIDTH, ENDURO_HEADER, PUFFER_BACKGROUND);
    puffer_counter(left > 0 ? "CARS TO GO" : "DAY WON", TextFormat("%d", left), margin, y, PUFFER_LEFT);
    puffer_counter("SPEED", TextFormat("%d", (int)(250.0f * env->speed)), ENDURO_WIDTH - margin, y, PUFFER_RIGHT);
    puffer_text(TextFormat("DAY %d", env->day + 1), ENDURO_MIDDLE, y - 8.0f, 22.0f, PUFFER_CENTER, PUFFER_WHITE);
    puffer_bar(ENDURO_MIDDLE - 90.0f, y + 10.0f, 180.0f, 8.0f, (float)env->frame / (float)ENDURO_DAY_FRAMES,
               left > 0 ? PUFFER_CYAN : PUFFER_WHITE);
}

static void c_render(Client* client, const Enduro* before, const Enduro* now, float progress) {
    Enduro moment = progress < 1.0f ? enduro_moment(before, progress * (float)before->frameskip) : *now;
    EnduroView view = {enduro_scenery(&moment), 0.5f * moment.x, &moment};
    enduro_draw_sky(&view);
    puffer_begin_triangles();
    for (float y = ENDURO_HORIZON; y < ENDURO_HEIGHT; y += ENDURO_STRIP) enduro_draw_strip(&view, y);
    rlEnd();
    enduro_draw_markings(&view);
    enduro_draw_traffic(&view);
    if (moment.crash_frames > 0) {
        float flash = (float)moment.crash_frames / (float)ENDURO_CRASH_FRAMES;
        puffer_rectangle(0, ENDURO_HEADER, ENDURO_WIDTH, ENDURO_HEIGHT - ENDURO_HEADER,
                         puffer_fade(PUFFER_RED, 0.3f * flash));
    }
    enduro_draw_header(&moment);
}

static void c_close_client(Client* client) { (void)client; }
