// cartpole_render.h - the cart from the side: a cyan cart on its track, a white pole, red posts where the track ends,
// a bar for the time survived.
#pragma once

#include "cartpole.h"
#include "puffer_render.h"

enum { CARTPOLE_WIDTH = 800, CARTPOLE_HEIGHT = 440, CARTPOLE_MARGIN = 30, CARTPOLE_TRACK_Y = 330 };
enum { CARTPOLE_CART_WIDTH = 96, CARTPOLE_CART_HEIGHT = 44, CARTPOLE_WHEEL = 10, CARTPOLE_BAR_HEIGHT = 12 };

#define CARTPOLE_PIXELS_PER_METRE (140.0f)
#define CARTPOLE_POLE_PIXELS (220.0f)

typedef Cartpole Env;

typedef struct {
    char unused;  // nothing to remember between frames
} Client;

static PufferPicture c_open_client(Client* client, const Cartpole* env) {
    PufferPicture picture = {CARTPOLE_WIDTH, CARTPOLE_HEIGHT, 50, "PufferLib cartpole"};
    return picture;
}

static void cartpole_draw_track(void) {
    int half = (int)(CARTPOLE_X_LIMIT * CARTPOLE_PIXELS_PER_METRE), centre = CARTPOLE_WIDTH / 2;
    DrawRectangle(0, CARTPOLE_TRACK_Y, CARTPOLE_WIDTH, 4, PUFFER_PANEL);
    DrawRectangle(centre - half, CARTPOLE_TRACK_Y, 2 * half, 4, PUFFER_WHITE);
    DrawRectangle(centre - half - 4, CARTPOLE_TRACK_Y - 24, 4, 52, PUFFER_RED);
    DrawRectangle(centre + half, CARTPOLE_TRACK_Y - 24, 4, 52, PUFFER_RED);
}

static void cartpole_draw_cart(float x) {
    float top = (float)(CARTPOLE_TRACK_Y - CARTPOLE_WHEEL - CARTPOLE_CART_HEIGHT);
    Rectangle body = {x - 0.5f * CARTPOLE_CART_WIDTH, top, CARTPOLE_CART_WIDTH, CARTPOLE_CART_HEIGHT};
    DrawRectangleRec(body, PUFFER_CYAN);
    for (int side = -1; side <= 1; side += 2) {
        Vector2 hub = {x + 0.3f * (float)(side * CARTPOLE_CART_WIDTH), (float)(CARTPOLE_TRACK_Y - CARTPOLE_WHEEL)};
        DrawCircleV(hub, CARTPOLE_WHEEL, PUFFER_WHITE);
        DrawCircleV(hub, 0.4f * CARTPOLE_WHEEL, PUFFER_BACKGROUND);
    }
}

static void cartpole_draw_pole(float x, float theta) {
    Vector2 hinge = {x, (float)(CARTPOLE_TRACK_Y - CARTPOLE_WHEEL - CARTPOLE_CART_HEIGHT)};
    Vector2 tip = {x + CARTPOLE_POLE_PIXELS * sinf(theta), hinge.y - CARTPOLE_POLE_PIXELS * cosf(theta)};
    DrawLineEx(hinge, tip, 12.0f, PUFFER_WHITE);
    DrawCircleV(tip, 6.0f, PUFFER_WHITE);
    DrawCircleV(hinge, 9.0f, PUFFER_RED);
}

static void c_render(Client* client, const Cartpole* before, const Cartpole* env, float progress) {
    float x = 0.5f * CARTPOLE_WIDTH + env->motion.x * CARTPOLE_PIXELS_PER_METRE;
    cartpole_draw_track();
    cartpole_draw_cart(x);
    cartpole_draw_pole(x, env->motion.theta);

    int bar_y = CARTPOLE_HEIGHT - CARTPOLE_MARGIN - CARTPOLE_BAR_HEIGHT;
    int bar_width = CARTPOLE_WIDTH - 2 * CARTPOLE_MARGIN;
    DrawRectangle(CARTPOLE_MARGIN, bar_y, bar_width, CARTPOLE_BAR_HEIGHT, PUFFER_PANEL);
    DrawRectangle(CARTPOLE_MARGIN, bar_y, bar_width * env->steps / CARTPOLE_MAX_STEPS, CARTPOLE_BAR_HEIGHT,
                  PUFFER_WHITE);
    DrawText(TextFormat("%d steps", env->steps), CARTPOLE_MARGIN, CARTPOLE_MARGIN, 20, PUFFER_WHITE);
}

static void c_close_client(Client* client) { (void)client; }
