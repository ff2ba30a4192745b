// slimevolley_render.h - the court from the side: the agent's slime cyan on the right, the other red, each with an eye
// on the ball, which has a tail and a shadow. Above it the lives that are left, below it how much of the time.
#pragma once

#include "puffer_render.h"
#include "slimevolley.h"

typedef Slimevolley Env;

enum { SLIMEVOLLEY_MARGIN = 30, SLIMEVOLLEY_HEADER = 80, SLIMEVOLLEY_SKY = 440, SLIMEVOLLEY_SAND = 44 };  // pixels
enum { SLIMEVOLLEY_PIXELS = 20, SLIMEVOLLEY_COURT = 2 * 24 * SLIMEVOLLEY_PIXELS };  // in 1; of the court's width

#define SLIMEVOLLEY_TAIL_STEPS (10.0f)
#define SLIMEVOLLEY_FLASH_STEPS (20.0f)
#define SLIMEVOLLEY_MAX_PAUSE (60.0f)  // steps without a picture after which nothing is remembered

typedef struct {
    float time;  // steps since the game began, when it was last drawn
    PufferTail tail;
    int lives[SLIMEVOLLEY_SIDES];
    float lost[SLIMEVOLLEY_SIDES];  // when a side last lost a life, steps
} Client;

static PufferPicture c_open_client(Client* client, const Slimevolley* env) {
    (void)env;
    PufferPicture picture = {SLIMEVOLLEY_COURT + 2 * SLIMEVOLLEY_MARGIN,
                             SLIMEVOLLEY_HEADER + SLIMEVOLLEY_SKY + SLIMEVOLLEY_SAND + SLIMEVOLLEY_MARGIN, 30.0f,
                             "PufferLib slimevolley"};
    client->time = INFINITY;  // nothing was drawn yet
    return picture;
}

static float slimevolley_x(float x) { return SLIMEVOLLEY_MARGIN + SLIMEVOLLEY_PIXELS * (SLIMEVOLLEY_WALL + x); }
static float slimevolley_y(float y) { return SLIMEVOLLEY_HEADER + SLIMEVOLLEY_SKY - SLIMEVOLLEY_PIXELS * y; }
static Color slimevolley_color(int side) { return side == SLIMEVOLLEY_RIGHT ? PUFFER_CYAN : PUFFER_RED; }

// ---------------------------------------------------------------------------------------------------------- motion

static void slimevolley_slide(SlimevolleyBody* body, const SlimevolleyBody* to, float share) {
    body->x = puffer_lerp(body->x, to->x, share);
    body->y = puffer_lerp(body->y, to->y, share);
}

// The game between two steps. A ball that touches the floor, or a game that ends, goes on as if it had not.
static Slimevolley slimevolley_moment(const Slimevolley* before, float progress) {
    Slimevolley moment = *before, after = *before;
    slimevolley_move_slimes(&after);
    if (after.pause == 0) slimevolley_fly(&after);
    if (after.ball.y < SLIMEVOLLEY_BALL_RADIUS) after.ball.y = SLIMEVOLLEY_BALL_RADIUS;
    for (int i = 0; i < SLIMEVOLLEY_SIDES; i++) slimevolley_slide(&moment.slimes[i], &after.slimes[i], progress);
    slimevolley_slide(&moment.ball, &after.ball, progress);
    return moment;
}

static void slimevolley_remember(Client* client, const Slimevolley* env, float time) {
    bool is_new = time < client->time || time > client->time + SLIMEVOLLEY_MAX_PAUSE;
    bool is_served = is_new;
    for (int i = 0; i < SLIMEVOLLEY_SIDES; i++) {
        if (is_new) client->lost[i] = -SLIMEVOLLEY_FLASH_STEPS;
        if (!is_new && env->lives[i] < client->lives[i]) client->lost[i] = time;
        is_served = is_served || env->lives[i] != client->lives[i];
        client->lives[i] = env->lives[i];
    }
    if (is_served) client->tail.length = 0;
    puffer_tail_add(&client->tail, slimevolley_x(env->ball.x), slimevolley_y(env->ball.y), time);
    client->time = time;
}

// --------------------------------------------------------------------------------------------------------- drawing

// The lives of a side, from its wall inward.
static void slimevolley_draw_lives(const Slimevolley* env, int side) {
    float sign = slimevolley_sign(side), x = slimevolley_x(sign * (SLIMEVOLLEY_WALL - 1.0f));
    const float y = 0.5f * SLIMEVOLLEY_HEADER, radius = 12.0f;
    Color color = slimevolley_color(side);
    for (int i = 0; i < SLIMEVOLLEY_LIVES; i++, x -= sign * 3.0f * radius) {
        if (i < env->lives[side]) {
            puffer_disc(x, y, radius, color);
        } else {
            puffer_ring(x, y, radius - 2.0f, 3.0f, puffer_mix(color, PUFFER_BACKGROUND, 0.65f));
        }
    }
}

static void slimevolley_draw_court(const Client* client) {
    const float left = slimevolley_x(-SLIMEVOLLEY_WALL), floor = slimevolley_y(0.0f);
    puffer_rounded(left - 6.0f, SLIMEVOLLEY_HEADER - 6.0f, SLIMEVOLLEY_COURT + 12.0f,
                   SLIMEVOLLEY_SKY + SLIMEVOLLEY_SAND + 12.0f, 10.0f, PUFFER_EDGE);
    puffer_rectangle(left, SLIMEVOLLEY_HEADER, SLIMEVOLLEY_COURT, SLIMEVOLLEY_SKY,
                     puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.5f));
    for (int side = 0; side < SLIMEVOLLEY_SIDES; side++) {
        float flash = puffer_flash(client->time - client->lost[side], SLIMEVOLLEY_FLASH_STEPS);
        puffer_rectangle(side == SLIMEVOLLEY_RIGHT ? slimevolley_x(0.0f) : left, floor, 0.5f * SLIMEVOLLEY_COURT,
                         SLIMEVOLLEY_SAND, puffer_mix(PUFFER_EDGE, slimevolley_color(side), 0.15f + 0.7f * flash));
    }
}

static void slimevolley_draw_net(void) {
    float left = slimevolley_x(-SLIMEVOLLEY_NET_RADIUS), width = 2.0f * SLIMEVOLLEY_NET_RADIUS * SLIMEVOLLEY_PIXELS;
    float top = slimevolley_y(SLIMEVOLLEY_NET_HEIGHT);
    Color color = puffer_mix(PUFFER_MUTED, PUFFER_WHITE, 0.4f);
    puffer_disc(left + 0.5f * width, top, 0.5f * width, color);
    puffer_rectangle(left, top, width, slimevolley_y(0.0f) - top, color);
}

static void slimevolley_draw_shadow(float x, float radius, float height) {
    float half = SLIMEVOLLEY_PIXELS * radius * fmaxf(0.4f, 1.0f - 0.04f * height);
    puffer_rounded(slimevolley_x(x) - half, slimevolley_y(0.0f) + 5.0f, 2.0f * half, 9.0f, 4.5f,
                   puffer_fade(PUFFER_BACKGROUND, 0.6f));
}

// A slime whose eye, on the side of the net, looks at the ball.
static void slimevolley_draw_slime(const Slimevolley* env, int side) {
    const SlimevolleyBody* slime = &env->slimes[side];
    const float radius = SLIMEVOLLEY_PIXELS * SLIMEVOLLEY_RADIUS, eye = 0.22f * radius;
    Vector2 middle = {slimevolley_x(slime->x), slimevolley_y(slime->y)};
    slimevolley_draw_shadow(slime->x, SLIMEVOLLEY_RADIUS, slime->y);
    PufferOutline outline = {.count = 0};
    puffer_add_arc(&outline, middle, radius, 0.0f, -PUFFER_PI);
    puffer_fill(&outline, slimevolley_color(side));
    float x = middle.x - 0.42f * radius * slimevolley_sign(side), y = middle.y - 0.55f * radius;
    float to_x = slimevolley_x(env->ball.x) - x, to_y = slimevolley_y(env->ball.y) - y;
    float scale = 0.45f * eye / fmaxf(sqrtf(to_x * to_x + to_y * to_y), 1.0f);
    puffer_disc(x, y, eye, PUFFER_WHITE);
    puffer_disc(x + scale * to_x, y + scale * to_y, 0.5f * eye, PUFFER_BACKGROUND);
}

static void slimevolley_draw_ball(const Client* client, const Slimevolley* env) {
    const float radius = SLIMEVOLLEY_PIXELS * SLIMEVOLLEY_BALL_RADIUS;
    float x = slimevolley_x(env->ball.x), y = slimevolley_y(env->ball.y);
    slimevolley_draw_shadow(env->ball.x, SLIMEVOLLEY_BALL_RADIUS, env->ball.y);
    puffer_tail_draw(&client->tail, radius, SLIMEVOLLEY_TAIL_STEPS, puffer_mix(PUFFER_PANEL, PUFFER_WHITE, 0.35f),
                     PUFFER_PANEL);
    if (env->pause > 0) {  // it is about to be thrown
        float share = (float)env->pause / (float)SLIMEVOLLEY_PAUSE;
        puffer_ring(x, y, radius * (1.4f + 1.6f * share), 3.0f, puffer_fade(PUFFER_WHITE, 0.6f * (1.0f - share)));
    }
    puffer_disc(x, y, radius, PUFFER_WHITE);
}

static void c_render(Client* client, const Slimevolley* before, const Slimevolley* now, float progress) {
    bool is_between = progress < 1.0f;
    Slimevolley moment = is_between ? slimevolley_moment(before, progress) : *now;
    float time = is_between ? (float)before->steps + progress : (float)now->steps;
    slimevolley_remember(client, &moment, time);
    slimevolley_draw_court(client);
    slimevolley_draw_net();
    for (int side = 0; side < SLIMEVOLLEY_SIDES; side++) {
        slimevolley_draw_lives(&moment, side);
        slimevolley_draw_slime(&moment, side);
    }
    slimevolley_draw_ball(client, &moment);
    puffer_bar(SLIMEVOLLEY_MARGIN, SLIMEVOLLEY_HEADER + SLIMEVOLLEY_SKY + SLIMEVOLLEY_SAND + 13.0f, SLIMEVOLLEY_COURT,
               6.0f, 1.0f - time / (float)SLIMEVOLLEY_MAX_STEPS, PUFFER_MUTED);
}

static void c_close_client(Client* client) { (void)client; }
