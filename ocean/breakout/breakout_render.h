// breakout_render.h - the field at twice its size in its walls, above it the score and the balls that are left. The
// ball has a tail, a brick flashes as it breaks, the paddle as it is hit.
#pragma once

#include "breakout.h"
#include "puffer_render.h"

typedef Breakout Env;

enum { BREAKOUT_PIXELS = 2 };  // of the picture per pixel of the game
enum { BREAKOUT_WALL = 16, BREAKOUT_HEADER = 84, BREAKOUT_FOOTER = 16 };

#define BREAKOUT_TAIL_FRAMES (9.0f)
#define BREAKOUT_FLASH_FRAMES (16.0f)
#define BREAKOUT_MAX_PAUSE (64.0f)  // frames without a picture after which nothing is remembered

typedef struct {
    float time;  // frames since the episode began, when it was last drawn
    PufferTail tail;
    int balls_served;                               // a tail belongs to one ball
    float velocity_y;                               // turns up when the paddle is hit
    uint32_t bricks[BREAKOUT_ROWS];                 // those that stood
    float broken[BREAKOUT_ROWS][BREAKOUT_COLUMNS];  // when they broke, frames
    float paddle_hit;                               // when, frames
} Client;

static PufferPicture c_open_client(Client* client, const Breakout* env) {
    PufferPicture picture = {BREAKOUT_PIXELS * (int)BREAKOUT_WIDTH + 2 * BREAKOUT_WALL,
                             BREAKOUT_PIXELS * (int)BREAKOUT_HEIGHT + BREAKOUT_HEADER + BREAKOUT_WALL + BREAKOUT_FOOTER,
                             (float)BREAKOUT_FRAME_RATE / (float)env->frameskip, "PufferLib breakout"};
    client->time = INFINITY;  // nothing was drawn yet
    return picture;
}

// From the field to the picture.
static float breakout_x(float x) { return BREAKOUT_WALL + BREAKOUT_PIXELS * x; }
static float breakout_y(float y) { return BREAKOUT_HEADER + BREAKOUT_WALL + BREAKOUT_PIXELS * y; }

// ---------------------------------------------------------------------------------------------------------- motion

// The game `frames` after `before`, played again. An episode that ends stays at its last frame.
static Breakout breakout_moment(const Breakout* before, float frames) {
    Breakout moment = *before;
    moment.frameskip = 1;
    for (; frames > 0.0f; frames -= 1.0f) {
        Breakout next = moment;
        c_step(&next);
        if (next.terminals[0]) break;
        bool is_same_ball = next.balls_left == moment.balls_left;
        if (frames < 1.0f && is_same_ball) {
            next.ball_x = puffer_lerp(moment.ball_x, next.ball_x, frames);
            next.ball_y = puffer_lerp(moment.ball_y, next.ball_y, frames);
            next.paddle_x = puffer_lerp(moment.paddle_x, next.paddle_x, frames);
        }
        moment = next;
    }
    return moment;
}

static void breakout_forget(Client* client, const Breakout* env) {
    client->tail.length = 0;
    client->paddle_hit = -BREAKOUT_FLASH_FRAMES;
    memcpy(client->bricks, env->bricks, sizeof(client->bricks));
    for (int row = 0; row < BREAKOUT_ROWS; row++) {
        for (int column = 0; column < BREAKOUT_COLUMNS; column++) client->broken[row][column] = -BREAKOUT_FLASH_FRAMES;
    }
}

static void breakout_remember_bricks(Client* client, const Breakout* env, float time) {
    for (int row = 0; row < BREAKOUT_ROWS; row++) {
        uint32_t gone = client->bricks[row] & ~env->bricks[row];
        for (int column = 0; column < BREAKOUT_COLUMNS; column++) {
            if (gone >> column & 1u) client->broken[row][column] = time;
        }
        client->bricks[row] = env->bricks[row];
    }
}

static void breakout_remember(Client* client, const Breakout* env, float time) {
    if (time < client->time || time > client->time + BREAKOUT_MAX_PAUSE) breakout_forget(client, env);
    const float half = 0.5f * BREAKOUT_BALL;
    bool is_low = env->ball_y > 0.5f * BREAKOUT_HEIGHT;
    if (is_low && client->velocity_y > 0.0f && env->velocity_y < 0.0f) client->paddle_hit = time;
    client->velocity_y = env->velocity_y;
    breakout_remember_bricks(client, env, time);
    if (!env->is_served || client->balls_served != env->balls_served) client->tail.length = 0;
    client->balls_served = env->balls_served;
    puffer_tail_add(&client->tail, breakout_x(env->ball_x + half), breakout_y(env->ball_y + half), time);
    client->time = time;
}

// --------------------------------------------------------------------------------------------------------- drawing

static void breakout_draw_header(const Breakout* env) {
    const float y = 0.5f * BREAKOUT_HEADER, right = breakout_x(BREAKOUT_WIDTH), radius = 11.0f;
    puffer_counter("SCORE", TextFormat("%d", env->score), BREAKOUT_WALL, y, PUFFER_LEFT);
    puffer_text(env->is_second_wall ? "WALL 2 OF 2" : "WALL 1 OF 2", 0.5f * (BREAKOUT_WALL + right), y + 7.0f, 20.0f,
                PUFFER_CENTER, PUFFER_MUTED);
    for (int ball = 0; ball < BREAKOUT_BALLS; ball++) {
        float x = right - radius - (float)ball * 3.0f * radius;
        puffer_disc(x, y, radius, ball < env->balls_left ? PUFFER_CYAN : PUFFER_PANEL);
    }
}

static void breakout_draw_walls(void) {
    const float left = 0.5f * BREAKOUT_WALL, right = breakout_x(BREAKOUT_WIDTH) + left, top = BREAKOUT_HEADER + left;
    const float bottom = breakout_y(BREAKOUT_HEIGHT), width = 0.5f * BREAKOUT_WALL;
    puffer_line(left, bottom, left, top, width, PUFFER_EDGE);
    puffer_line(left, top, right, top, width, PUFFER_EDGE);
    puffer_line(right, top, right, bottom, width, PUFFER_EDGE);
}

// Red for 7 points, white for 4, cyan for 1; the lower row of a pair is a shade darker.
static Color breakout_brick_color(int row) {
    Color color = BREAKOUT_POINTS[row] == 7 ? PUFFER_RED : BREAKOUT_POINTS[row] == 4 ? PUFFER_WHITE : PUFFER_CYAN;
    float shade = (BREAKOUT_POINTS[row] == 4 ? 0.08f : 0.0f) + (row % 2 ? 0.18f : 0.0f);
    return puffer_mix(color, PUFFER_BACKGROUND, shade);
}

// `grown` pixels of the game larger on every side than it is.
static void breakout_draw_brick(int row, int column, float grown, Color color) {
    float x = (float)(column * BREAKOUT_BRICK_WIDTH) + 1.0f - grown;
    float y = (float)(BREAKOUT_BRICKS_TOP + row * BREAKOUT_BRICK_HEIGHT) + 1.0f - grown;
    float width = BREAKOUT_BRICK_WIDTH - 2.0f + 2.0f * grown, height = BREAKOUT_BRICK_HEIGHT - 2.0f + 2.0f * grown;
    puffer_rounded(breakout_x(x), breakout_y(y), BREAKOUT_PIXELS * width, BREAKOUT_PIXELS * height, 4.0f, color);
}

static void breakout_draw_bricks(const Client* client, const Breakout* env) {
    for (int row = 0; row < BREAKOUT_ROWS; row++) {
        Color color = breakout_brick_color(row);
        for (int column = 0; column < BREAKOUT_COLUMNS; column++) {
            float flash = puffer_flash(client->time - client->broken[row][column], BREAKOUT_FLASH_FRAMES);
            if (env->bricks[row] >> column & 1u) {
                breakout_draw_brick(row, column, 0.0f, color);
            } else if (flash > 0.0f) {
                Color glow = puffer_mix(color, PUFFER_WHITE, flash * flash);
                breakout_draw_brick(row, column, 3.0f * (1.0f - flash) * (1.0f - flash), puffer_fade(glow, flash));
            }
        }
    }
}

static void breakout_draw_ball(const Breakout* env) {
    float radius = BREAKOUT_PIXELS * 0.5f * BREAKOUT_BALL;
    float x = breakout_x(env->ball_x) + radius, y = breakout_y(env->ball_y) + radius;
    puffer_glow(x, y, 1.9f * radius, puffer_fade(PUFFER_CYAN, 0.5f));
    puffer_disc(x, y, radius, PUFFER_WHITE);
}

static void breakout_draw_paddle(const Client* client, const Breakout* env) {
    float flash = puffer_flash(client->time - client->paddle_hit, BREAKOUT_FLASH_FRAMES);
    float height = BREAKOUT_PIXELS * BREAKOUT_PADDLE_HEIGHT;
    puffer_rounded(breakout_x(env->paddle_x), breakout_y(BREAKOUT_PADDLE_TOP), BREAKOUT_PIXELS * env->paddle_width,
                   height, 0.5f * height, puffer_mix(PUFFER_CYAN, PUFFER_WHITE, flash));
}

static void c_render(Client* client, const Breakout* before, const Breakout* now, float progress) {
    float frames = progress * (float)before->frameskip;
    bool is_between = progress < 1.0f;
    Breakout moment = is_between ? breakout_moment(before, frames) : *now;
    const Breakout* since = is_between ? before : now;
    breakout_remember(client, &moment, (float)(since->steps * since->frameskip) + (is_between ? frames : 0.0f));
    breakout_draw_header(&moment);
    breakout_draw_walls();
    puffer_tail_draw(&client->tail, BREAKOUT_PIXELS * 0.5f * BREAKOUT_BALL, BREAKOUT_TAIL_FRAMES,
                     puffer_mix(PUFFER_BACKGROUND, PUFFER_CYAN, 0.45f), PUFFER_BACKGROUND);
    breakout_draw_bricks(client, &moment);
    breakout_draw_ball(&moment);
    breakout_draw_paddle(client, &moment);
}

static void c_close_client(Client* client) { (void)client; }
