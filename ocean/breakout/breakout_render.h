// breakout_render.h - the field at twice its size, walls around it, score and spare balls above.
#pragma once

#include "breakout.h"
#include "puffer_render.h"

enum { BREAKOUT_PIXELS = 2 };  // screen pixels per pixel of the game
enum { BREAKOUT_FRAME_WIDTH = 20, BREAKOUT_HEADER_HEIGHT = 76, BREAKOUT_TEXT_SIZE = 40, BREAKOUT_TRAIL = 8 };
enum { BREAKOUT_TRAIL_DOTS = 6 };  // between two remembered places

typedef Breakout Env;

typedef struct {
    Vector2 trail[BREAKOUT_TRAIL];   // ball centres on the screen, newest first
    int trail_length, balls_served;  // a trail belongs to one ball
} Client;

static PufferPicture c_open_client(Client* client, const Breakout* env) {
    (void)client;
    int width = BREAKOUT_PIXELS * (int)BREAKOUT_WIDTH + 2 * BREAKOUT_FRAME_WIDTH;
    int height = BREAKOUT_PIXELS * (int)BREAKOUT_HEIGHT + BREAKOUT_HEADER_HEIGHT + BREAKOUT_FRAME_WIDTH;
    int steps_per_second = BREAKOUT_FRAME_RATE / env->frameskip;
    PufferPicture picture = {width, height, steps_per_second > 0 ? steps_per_second : 1, "PufferLib breakout"};
    return picture;
}

static Rectangle breakout_on_screen(float x, float y, float width, float height) {
    const float scale = (float)BREAKOUT_PIXELS;
    Rectangle rectangle = {BREAKOUT_FRAME_WIDTH + scale * x, BREAKOUT_HEADER_HEIGHT + BREAKOUT_FRAME_WIDTH + scale * y,
                           scale * width, scale * height};
    return rectangle;
}

static Color breakout_mix(Color a, Color b, float share_of_b) {
    Color mixed = {(unsigned char)((float)a.r + share_of_b * ((float)b.r - (float)a.r)),
                   (unsigned char)((float)a.g + share_of_b * ((float)b.g - (float)a.g)),
                   (unsigned char)((float)a.b + share_of_b * ((float)b.b - (float)a.b)), 255};
    return mixed;
}

// Red for 7 points, a pale red for 4, cyan for 1; the lower row of a pair is a shade darker.
static Color breakout_brick_color(int row) {
    Color color = BREAKOUT_POINTS[row] == 7   ? PUFFER_RED
                  : BREAKOUT_POINTS[row] == 4 ? breakout_mix(PUFFER_RED, PUFFER_WHITE, 0.6f)
                                              : PUFFER_CYAN;
    return row % 2 ? breakout_mix(color, PUFFER_BACKGROUND, 0.2f) : color;
}

static void breakout_draw_walls(void) {
    int width = BREAKOUT_PIXELS * (int)BREAKOUT_WIDTH + 2 * BREAKOUT_FRAME_WIDTH;
    int height = BREAKOUT_PIXELS * (int)BREAKOUT_HEIGHT + BREAKOUT_FRAME_WIDTH;
    DrawRectangle(0, BREAKOUT_HEADER_HEIGHT, width, BREAKOUT_FRAME_WIDTH, PUFFER_PANEL);
    DrawRectangle(0, BREAKOUT_HEADER_HEIGHT, BREAKOUT_FRAME_WIDTH, height, PUFFER_PANEL);
    DrawRectangle(width - BREAKOUT_FRAME_WIDTH, BREAKOUT_HEADER_HEIGHT, BREAKOUT_FRAME_WIDTH, height, PUFFER_PANEL);
}

static void breakout_draw_bricks(const Breakout* env) {
    for (int row = 0; row < BREAKOUT_ROWS; row++) {
        for (int column = 0; column < BREAKOUT_COLUMNS; column++) {
            if (!(env->bricks[row] >> column & 1u)) continue;
            float x = (float)(column * BREAKOUT_BRICK_WIDTH) + 1.0f;
            float y = (float)(BREAKOUT_BRICKS_TOP + row * BREAKOUT_BRICK_HEIGHT) + 1.0f;
            DrawRectangleRec(breakout_on_screen(x, y, BREAKOUT_BRICK_WIDTH - 2.0f, BREAKOUT_BRICK_HEIGHT - 2.0f),
                             breakout_brick_color(row));
        }
    }
}

static void breakout_remember_ball(const Breakout* env, Client* client, Vector2 center) {
    if (!env->is_served || client->balls_served != env->balls_served) client->trail_length = 0;
    client->balls_served = env->balls_served;
    for (int i = BREAKOUT_TRAIL - 1; i > 0; i--) client->trail[i] = client->trail[i - 1];
    client->trail[0] = center;
    if (client->trail_length < BREAKOUT_TRAIL) client->trail_length++;
}

static void breakout_draw_trail(const Client* client, float radius) {
    for (int i = (client->trail_length - 1) * BREAKOUT_TRAIL_DOTS; i > 0; i--) {
        float place = (float)i / (float)BREAKOUT_TRAIL_DOTS, age = place / (float)BREAKOUT_TRAIL;
        int older = (i - 1) / BREAKOUT_TRAIL_DOTS + 1;
        Vector2 a = client->trail[older - 1], b = client->trail[older];
        float share = place - (float)(older - 1);
        Vector2 dot = {a.x + share * (b.x - a.x), a.y + share * (b.y - a.y)};
        DrawCircleV(dot, radius * (1.0f - age), breakout_mix(PUFFER_CYAN, PUFFER_BACKGROUND, 0.7f + 0.3f * age));
    }
}

static void breakout_draw_ball(const Breakout* env, Client* client) {
    Rectangle ball = breakout_on_screen(env->ball_x, env->ball_y, BREAKOUT_BALL, BREAKOUT_BALL);
    float radius = ball.width / 2.0f;
    Vector2 center = {ball.x + radius, ball.y + radius};
    breakout_remember_ball(env, client, center);
    breakout_draw_trail(client, radius);
    DrawCircleV(center, radius, PUFFER_WHITE);
    DrawCircleV(center, radius - 5.0f, PUFFER_CYAN);
}

static void breakout_draw_header(const Breakout* env) {
    const int y = (BREAKOUT_HEADER_HEIGHT - BREAKOUT_TEXT_SIZE) / 2,
              right = BREAKOUT_FRAME_WIDTH + BREAKOUT_PIXELS * (int)BREAKOUT_WIDTH;
    DrawText(TextFormat("SCORE %d", env->score), BREAKOUT_FRAME_WIDTH, y, BREAKOUT_TEXT_SIZE, PUFFER_WHITE);
    const char* balls = TextFormat("BALLS %d", env->balls_left);
    DrawText(balls, right - MeasureText(balls, BREAKOUT_TEXT_SIZE), y, BREAKOUT_TEXT_SIZE, PUFFER_CYAN);
}

static void c_render(Client* client, const Breakout* before, const Breakout* env, float progress) {
    breakout_draw_header(env);
    breakout_draw_walls();
    breakout_draw_bricks(env);
    breakout_draw_ball(env, client);
    Rectangle paddle =
        breakout_on_screen(env->paddle_x, BREAKOUT_PADDLE_TOP, env->paddle_width, BREAKOUT_PADDLE_HEIGHT);
    DrawRectangleRounded(paddle, 1.0f, 8, PUFFER_WHITE);
}

static void c_close_client(Client* client) { (void)client; }
