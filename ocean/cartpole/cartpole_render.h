// cartpole_render.h - the cart from the side, on its track between two posts: leaving them ends the episode, as does a
// pole outside of the fan above the cart. An arrow shows the push, the bar below the time survived.
#pragma once

#include "cartpole.h"
#include "puffer_render.h"

typedef Cartpole Env;

enum {
    CARTPOLE_WIDTH = 800,
    CARTPOLE_HEIGHT = 480,
    CARTPOLE_MARGIN = 40,
    CARTPOLE_HEADER = 84,
    CARTPOLE_TRACK_Y = 390
};
enum { CARTPOLE_CART_WIDTH = 104, CARTPOLE_CART_HEIGHT = 42, CARTPOLE_WHEEL = 14, CARTPOLE_BAR_HEIGHT = 10 };
enum { CARTPOLE_FLASH_STEPS = 20 };

#define CARTPOLE_PIXELS_PER_METRE (140.0f)
#define CARTPOLE_POLE_PIXELS (210.0f)
#define CARTPOLE_STEPS_PER_SECOND (1.0f / CARTPOLE_TAU)

typedef struct {
    bool has_failed;  // the last episode: the posts glow while the next one begins
} Client;

static PufferPicture c_open_client(Client* client, const Cartpole* env) {
    (void)client, (void)env;
    PufferPicture picture = {CARTPOLE_WIDTH, CARTPOLE_HEIGHT, CARTPOLE_STEPS_PER_SECOND, "PufferLib cartpole"};
    return picture;
}

// Where the step leads to, also when it ends the episode and `now` begins another.
static CartpoleMotion cartpole_motion(const Cartpole* before, const Cartpole* now, float progress) {
    if (progress >= 1.0f) return now->motion;
    CartpoleMotion from = before->motion, to = before->motion;
    cartpole_move(&to, cartpole_force(before));
    CartpoleMotion between = {puffer_lerp(from.x, to.x, progress), puffer_lerp(from.x_dot, to.x_dot, progress),
                              puffer_lerp(from.theta, to.theta, progress),
                              puffer_lerp(from.theta_dot, to.theta_dot, progress)};
    return between;
}

// From 0, far from a limit, to 1, at it: what is in danger turns red.
static Color cartpole_warn(Color color, float value, float limit) {
    float share = clampf((fabsf(value) / limit - 0.5f) * 2.0f, 0.0f, 1.0f);
    return puffer_mix(color, PUFFER_RED, share * share);
}

static void cartpole_draw_track(float flash) {
    const float centre = 0.5f * CARTPOLE_WIDTH, half = CARTPOLE_X_LIMIT * CARTPOLE_PIXELS_PER_METRE;
    Color post = puffer_mix(PUFFER_RED, PUFFER_WHITE, flash);
    for (int side = -1; side <= 1; side += 2) {
        float x = centre + (float)side * half;
        if (flash > 0.0f) puffer_glow(x, CARTPOLE_TRACK_Y - 16.0f, 60.0f, puffer_fade(PUFFER_RED, flash));
        puffer_line(x, CARTPOLE_TRACK_Y, x, CARTPOLE_TRACK_Y - 36.0f, 6.0f, post);
    }
    puffer_line(CARTPOLE_MARGIN, CARTPOLE_TRACK_Y, CARTPOLE_WIDTH - CARTPOLE_MARGIN, CARTPOLE_TRACK_Y, 4.0f,
                PUFFER_EDGE);
    for (int metre = -2; metre <= 2; metre++) {
        float x = centre + (float)metre * CARTPOLE_PIXELS_PER_METRE;
        puffer_line(x, CARTPOLE_TRACK_Y, x, CARTPOLE_TRACK_Y + 8.0f, 2.0f, PUFFER_EDGE);
        puffer_text(TextFormat("%d m", metre), x, CARTPOLE_TRACK_Y + 20.0f, 15.0f, PUFFER_CENTER, PUFFER_MUTED);
    }
}

// What the pole may lean.
static void cartpole_draw_limits(float x, float y) {
    const float reach = CARTPOLE_POLE_PIXELS + 24.0f, sine = sinf(CARTPOLE_THETA_LIMIT);
    const float cosine = cosf(CARTPOLE_THETA_LIMIT);
    for (int side = -1; side <= 1; side += 2) {
        puffer_line(x, y, x + (float)side * reach * sine, y - reach * cosine, 2.0f, PUFFER_EDGE);
    }
    enum { CHORDS = 12 };
    for (int i = 0; i < CHORDS; i++) {
        float from = CARTPOLE_THETA_LIMIT * (2.0f * (float)i / CHORDS - 1.0f);
        float to = from + CARTPOLE_THETA_LIMIT * 2.0f / CHORDS;
        puffer_line(x + reach * sinf(from), y - reach * cosf(from), x + reach * sinf(to), y - reach * cosf(to), 2.0f,
                    PUFFER_EDGE);
    }
}

static void cartpole_draw_wheel(float x, float turn) {
    const float y = CARTPOLE_TRACK_Y - CARTPOLE_WHEEL, spoke = 0.62f * CARTPOLE_WHEEL;
    puffer_disc(x, y, CARTPOLE_WHEEL, PUFFER_WHITE);
    puffer_disc(x, y, 0.7f * CARTPOLE_WHEEL, PUFFER_BACKGROUND);
    for (int i = 0; i < 3; i++) {
        float angle = turn + (float)i * PUFFER_PI / 3.0f, dx = spoke * cosf(angle), dy = spoke * sinf(angle);
        puffer_line(x - dx, y - dy, x + dx, y + dy, 2.0f, PUFFER_MUTED);
    }
}

static void cartpole_draw_cart(float x, float metres) {
    const float top = CARTPOLE_TRACK_Y - CARTPOLE_WHEEL - CARTPOLE_CART_HEIGHT;
    const float turn = metres * CARTPOLE_PIXELS_PER_METRE / CARTPOLE_WHEEL;  // radians: it rolls
    puffer_rounded(x - 0.5f * CARTPOLE_CART_WIDTH, top, CARTPOLE_CART_WIDTH, CARTPOLE_CART_HEIGHT, 10.0f,
                   cartpole_warn(PUFFER_CYAN, metres, CARTPOLE_X_LIMIT));
    for (int side = -1; side <= 1; side += 2) cartpole_draw_wheel(x + 0.3f * (float)(side * CARTPOLE_CART_WIDTH), turn);
}

// `push` from -1, to the left, to 1: an arrow on the side that it comes from.
static void cartpole_draw_push(float x, float push) {
    const float y = CARTPOLE_TRACK_Y - CARTPOLE_WHEEL - 0.5f * CARTPOLE_CART_HEIGHT, head = 9.0f;
    if (fabsf(push) < 0.05f) return;
    float side = push > 0.0f ? 1.0f : -1.0f, tip = x - side * (0.5f * CARTPOLE_CART_WIDTH + 10.0f);
    float tail = tip - 36.0f * push;
    puffer_line(tail, y, tip, y, 4.0f, PUFFER_MUTED);
    puffer_line(tip - side * head, y - head, tip, y, 4.0f, PUFFER_MUTED);
    puffer_line(tip - side * head, y + head, tip, y, 4.0f, PUFFER_MUTED);
}

static void cartpole_draw_pole(float x, float y, float theta) {
    Vector2 tip = {x + CARTPOLE_POLE_PIXELS * sinf(theta), y - CARTPOLE_POLE_PIXELS * cosf(theta)};
    puffer_line(x, y, tip.x, tip.y, 14.0f, cartpole_warn(PUFFER_WHITE, theta, CARTPOLE_THETA_LIMIT));
    puffer_disc(x, y, 10.0f, PUFFER_BACKGROUND);
    puffer_disc(x, y, 6.0f, PUFFER_WHITE);
}

static void c_render(Client* client, const Cartpole* before, const Cartpole* now, float progress) {
    CartpoleMotion motion = cartpole_motion(before, now, progress);
    int steps = progress < 1.0f ? before->steps : now->steps;
    if (before != now && steps == 0) client->has_failed = now->terminals[0];
    float flash = client->has_failed ? puffer_flash((float)steps, CARTPOLE_FLASH_STEPS) : 0.0f;
    float x = 0.5f * CARTPOLE_WIDTH + motion.x * CARTPOLE_PIXELS_PER_METRE;
    float hinge_y = CARTPOLE_TRACK_Y - CARTPOLE_WHEEL - CARTPOLE_CART_HEIGHT;

    puffer_counter("STEPS", TextFormat("%d", steps), CARTPOLE_MARGIN, 0.5f * CARTPOLE_HEADER, PUFFER_LEFT);
    puffer_text(TextFormat("%+.1f°", (double)(motion.theta * 180.0f / PUFFER_PI)), CARTPOLE_WIDTH - CARTPOLE_MARGIN,
                0.5f * CARTPOLE_HEADER, 44.0f, PUFFER_RIGHT, PUFFER_WHITE);
    cartpole_draw_track(flash);
    cartpole_draw_limits(x, hinge_y);
    cartpole_draw_push(x, cartpole_force(before) / CARTPOLE_FORCE);
    cartpole_draw_cart(x, motion.x);
    cartpole_draw_pole(x, hinge_y, motion.theta);
    puffer_bar(CARTPOLE_MARGIN, CARTPOLE_HEIGHT - 30.0f, CARTPOLE_WIDTH - 2 * CARTPOLE_MARGIN, CARTPOLE_BAR_HEIGHT,
               (float)steps / (float)CARTPOLE_MAX_STEPS, PUFFER_CYAN);
}

static void c_close_client(Client* client) { (void)client; }
