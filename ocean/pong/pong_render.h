// pong_render.h - the field from above: the agent's paddle cyan, the other red, the ball white with a fading trail.
#pragma once

#include "pong.h"
#include "puffer_render.h"

enum { PONG_MARGIN = 30, PONG_HEADER = 90, PONG_TRAIL_LENGTH = 4, PONG_FRAMES_PER_SECOND = 60 };

typedef Pong Env;

typedef struct {
    Vector2 trail[PONG_TRAIL_LENGTH];  // centres of the ball, newest first
    int trail_length;
    int points;  // played when the newest was drawn
} Client;

static PufferPicture c_open_client(Client* client, const Pong* env) {
    int fps = PONG_FRAMES_PER_SECOND / env->frameskip;
    PufferPicture picture = {(int)PONG_WIDTH + 2 * PONG_MARGIN, (int)PONG_HEIGHT + PONG_MARGIN + PONG_HEADER,
                             fps > 1 ? fps : 1, "PufferLib pong"};
    return picture;
}

static void pong_draw_field(void) {
    DrawRectangle(PONG_MARGIN, PONG_HEADER, (int)PONG_WIDTH, (int)PONG_HEIGHT, PUFFER_PANEL);
    for (int y = 0; y < (int)PONG_HEIGHT; y += 40) {
        DrawRectangle(PONG_MARGIN + (int)PONG_WIDTH / 2 - 2, PONG_HEADER + y + 10, 4, 20, PUFFER_BACKGROUND);
    }
}

static void pong_draw_score(int score, int centre, Color color) {
    const int font_size = 50;
    const char* text = TextFormat("%d", score);
    DrawText(text, centre - MeasureText(text, font_size) / 2, (PONG_HEADER - font_size) / 2, font_size, color);
}

static void pong_draw_paddle(float x, float y, Color color) {
    Rectangle paddle = {PONG_MARGIN + x, PONG_HEADER + y, PONG_PADDLE_WIDTH, PONG_PADDLE_HEIGHT};
    DrawRectangleRec(paddle, color);
}

// Remembers where the ball is; a served ball begins a new trail.
static void pong_remember_ball(Client* client, const Pong* env) {
    int points = env->score_left + env->score_right;
    if (points != client->points) client->trail_length = 0;
    client->points = points;
    for (int i = PONG_TRAIL_LENGTH - 1; i > 0; i--) client->trail[i] = client->trail[i - 1];
    client->trail[0].x = PONG_MARGIN + env->ball_x + 0.5f * PONG_BALL_SIZE;
    client->trail[0].y = PONG_HEADER + env->ball_y + 0.5f * PONG_BALL_SIZE;
    if (client->trail_length < PONG_TRAIL_LENGTH) client->trail_length += 1;
}

static void pong_draw_ball(const Client* client) {
    for (int i = client->trail_length - 1; i >= 0; i--) {
        float size = PONG_BALL_SIZE * (1.0f - (float)i / (float)(PONG_TRAIL_LENGTH + 1));
        Rectangle ball = {client->trail[i].x - 0.5f * size, client->trail[i].y - 0.5f * size, size, size};
        Color color = PUFFER_WHITE;
        color.a = (unsigned char)(i == 0 ? 255 : 60 / i);
        DrawRectangleRec(ball, color);
    }
}

static void c_render(Client* client, const Pong* before, const Pong* env, float progress) {
    pong_draw_field();
    pong_draw_score(env->score_left, PONG_MARGIN + (int)PONG_WIDTH / 4, PUFFER_RED);
    pong_draw_score(env->score_right, PONG_MARGIN + (int)PONG_WIDTH * 3 / 4, PUFFER_CYAN);
    pong_draw_paddle(0.0f, env->paddle_left, PUFFER_RED);
    pong_draw_paddle(PONG_WIDTH - PONG_PADDLE_WIDTH, env->paddle_right, PUFFER_CYAN);
    pong_remember_ball(client, env);
    pong_draw_ball(client);
}

static void c_close_client(Client* client) { (void)client; }
