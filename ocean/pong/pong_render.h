// pong_render.h - the field from above: the agent's paddle cyan, the other red, the ball white with a tail. A point
// lights up its number, and the end of the field where it was lost.
#pragma once

#include "pong.h"
#include "puffer_render.h"

typedef Pong Env;

enum { PONG_MARGIN = 30, PONG_HEADER = 110, PONG_FRAMES_PER_SECOND = 60 };

#define PONG_TAIL_FRAMES (10.0f)
#define PONG_FLASH_FRAMES (30.0f)
#define PONG_MAX_PAUSE (128.0f)  // frames without a picture after which nothing is remembered

typedef struct {
    float time;  // frames since the episode began, when it was last drawn
    PufferTail tail;
    int score_left, score_right;
    float point_left, point_right;  // when the last one was made, frames
    float ball_vx;
    float hit_left, hit_right;  // when a paddle last met the ball, frames
} Client;

static PufferPicture c_open_client(Client* client, const Pong* env) {
    PufferPicture picture = {(int)PONG_WIDTH + 2 * PONG_MARGIN, (int)PONG_HEIGHT + PONG_MARGIN + PONG_HEADER,
                             (float)PONG_FRAMES_PER_SECOND / (float)env->frameskip, "PufferLib pong"};
    client->time = INFINITY;  // nothing was drawn yet
    return picture;
}

// The centre of the ball in the picture.
static float pong_ball_x(const Pong* env) { return PONG_MARGIN + env->ball_x + 0.5f * PONG_BALL_SIZE; }
static float pong_ball_y(const Pong* env) { return PONG_HEADER + env->ball_y + 0.5f * PONG_BALL_SIZE; }

// ---------------------------------------------------------------------------------------------------------- motion

// The game `frames` after `before`, played again. An episode that ends stays at its last frame.
static Pong pong_moment(const Pong* before, float frames) {
    Pong moment = *before;
    moment.frameskip = 1;
    for (; frames > 0.0f; frames -= 1.0f) {
        Pong next = moment;
        c_step(&next);
        if (next.terminals[0]) break;
        bool is_same_ball = next.score_left == moment.score_left && next.score_right == moment.score_right;
        if (frames < 1.0f && is_same_ball) {
            next.ball_x = puffer_lerp(moment.ball_x, next.ball_x, frames);
            next.ball_y = puffer_lerp(moment.ball_y, next.ball_y, frames);
            next.paddle_left = puffer_lerp(moment.paddle_left, next.paddle_left, frames);
            next.paddle_right = puffer_lerp(moment.paddle_right, next.paddle_right, frames);
        }
        moment = next;
    }
    return moment;
}

static void pong_forget(Client* client, const Pong* env) {
    client->tail.length = 0;
    client->score_left = env->score_left;
    client->score_right = env->score_right;
    client->ball_vx = env->ball_vx;
    client->point_left = client->point_right = client->hit_left = client->hit_right = -PONG_FLASH_FRAMES;
}

static void pong_remember_events(Client* client, const Pong* env, float time) {
    bool is_point = env->score_left != client->score_left || env->score_right != client->score_right;
    if (env->score_left != client->score_left) client->point_left = time;
    if (env->score_right != client->score_right) client->point_right = time;
    if (!is_point && client->ball_vx > 0.0f && env->ball_vx < 0.0f) client->hit_right = time;
    if (!is_point && client->ball_vx < 0.0f && env->ball_vx > 0.0f) client->hit_left = time;
    if (is_point) client->tail.length = 0;
    client->score_left = env->score_left;
    client->score_right = env->score_right;
    client->ball_vx = env->ball_vx;
}

static void pong_remember(Client* client, const Pong* env, float time) {
    if (time < client->time || time > client->time + PONG_MAX_PAUSE) pong_forget(client, env);
    pong_remember_events(client, env, time);
    puffer_tail_add(&client->tail, pong_ball_x(env), pong_ball_y(env), time);
    client->time = time;
}

// --------------------------------------------------------------------------------------------------------- drawing

static void pong_draw_score(int score, float x, Color color, float flash) {
    puffer_text(TextFormat("%d", score), x, 0.5f * PONG_HEADER, 84.0f + 16.0f * flash, PUFFER_CENTER,
                puffer_mix(color, PUFFER_WHITE, flash));
}

static void pong_draw_header(const Client* client, const Pong* env) {
    const float middle = PONG_MARGIN + 0.5f * PONG_WIDTH, y = 0.5f * PONG_HEADER;
    float left = puffer_flash(client->time - client->point_left, PONG_FLASH_FRAMES);
    float right = puffer_flash(client->time - client->point_right, PONG_FLASH_FRAMES);
    pong_draw_score(env->score_left, middle - 0.25f * PONG_WIDTH, PUFFER_RED, left);
    pong_draw_score(env->score_right, middle + 0.25f * PONG_WIDTH, PUFFER_CYAN, right);
    puffer_text(TextFormat("FIRST TO %d", PONG_WINNING_SCORE), middle, y, 18.0f, PUFFER_CENTER, PUFFER_MUTED);
}

// An end of the field; it lights up in the colour of who made a point there.
static void pong_draw_end(float x, Color color, float flash) {
    puffer_line(x, PONG_HEADER, x, PONG_HEADER + PONG_HEIGHT, 6.0f, puffer_mix(PUFFER_EDGE, color, flash));
}

static void pong_draw_field(const Client* client) {
    const float left = PONG_MARGIN - 6.0f, right = PONG_MARGIN + PONG_WIDTH + 6.0f, middle = 0.5f * (left + right);
    const float top = PONG_HEADER - 3.0f, bottom = PONG_HEADER + PONG_HEIGHT + 3.0f, dash = 20.0f;
    puffer_rounded(left, top, right - left, bottom - top, 8.0f, puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.5f));
    for (float y = top + dash; y < bottom - dash; y += 2.0f * dash) {
        puffer_line(middle, y, middle, y + 0.6f * dash, 4.0f, PUFFER_EDGE);
    }
    puffer_line(left, top, right, top, 6.0f, PUFFER_EDGE);
    puffer_line(left, bottom, right, bottom, 6.0f, PUFFER_EDGE);
    pong_draw_end(left, PUFFER_CYAN, puffer_flash(client->time - client->point_right, PONG_FLASH_FRAMES));
    pong_draw_end(right, PUFFER_RED, puffer_flash(client->time - client->point_left, PONG_FLASH_FRAMES));
}

static void pong_draw_paddle(float x, float y, Color color, float hit_age) {
    puffer_rounded(PONG_MARGIN + x, PONG_HEADER + y, PONG_PADDLE_WIDTH, PONG_PADDLE_HEIGHT, 8.0f,
                   puffer_mix(color, PUFFER_WHITE, 0.8f * puffer_flash(hit_age, 0.5f * PONG_FLASH_FRAMES)));
}

static void c_render(Client* client, const Pong* before, const Pong* now, float progress) {
    float frames = progress * (float)before->frameskip;
    bool is_between = progress < 1.0f;
    Pong moment = is_between ? pong_moment(before, frames) : *now;
    const Pong* since = is_between ? before : now;
    float time = (float)(since->episode_length * since->frameskip) + (is_between ? frames : 0.0f);
    pong_remember(client, &moment, time);
    pong_draw_header(client, &moment);
    pong_draw_field(client);
    pong_draw_paddle(0.0f, moment.paddle_left, PUFFER_RED, time - client->hit_left);
    pong_draw_paddle(PONG_WIDTH - PONG_PADDLE_WIDTH, moment.paddle_right, PUFFER_CYAN, time - client->hit_right);
    puffer_tail_draw(&client->tail, 0.5f * PONG_BALL_SIZE, PONG_TAIL_FRAMES,
                     puffer_mix(PUFFER_PANEL, PUFFER_WHITE, 0.35f), PUFFER_PANEL);
    puffer_disc(pong_ball_x(&moment), pong_ball_y(&moment), 0.5f * PONG_BALL_SIZE, PUFFER_WHITE);
}

static void c_close_client(Client* client) { (void)client; }
