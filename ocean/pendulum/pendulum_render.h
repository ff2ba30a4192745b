// pendulum_render.h - the rod on its motor, red where it hangs and cyan where it stands. A tail shows how fast the end
// of it moves, an arrow around the motor the torque, the dial above where upright is, the bar below the time.
#pragma once

#include "pendulum.h"
#include "puffer_render.h"

typedef Pendulum Env;

enum { PENDULUM_WIDTH = 640, PENDULUM_HEIGHT = 700, PENDULUM_MARGIN = 40, PENDULUM_HEADER = 84 };
enum { PENDULUM_ROD = 200, PENDULUM_ROD_WIDTH = 30, PENDULUM_CENTRE_Y = 368, PENDULUM_BAR_HEIGHT = 10 };

#define PENDULUM_TAIL_SECONDS (0.6f)
#define PENDULUM_DIAL (238.0f)      // pixels from the centre to the marks
#define PENDULUM_ARROW_TURN (1.6f)  // rad, of the arrow at full torque

typedef struct {
    PufferTail tail;
    float time;  // s, of the picture that was drawn last
} Client;

static PufferPicture c_open_client(Client* client, const Pendulum* env) {
    (void)client, (void)env;
    PufferPicture picture = {PENDULUM_WIDTH, PENDULUM_HEIGHT, 1.0f / PENDULUM_TAU, "PufferLib pendulum"};
    return picture;
}

// A place so far from the centre, the angle from upright to the left.
static Vector2 pendulum_place(float angle, float distance) {
    Vector2 place = {0.5f * PENDULUM_WIDTH - distance * sinf(angle), PENDULUM_CENTRE_Y - distance * cosf(angle)};
    return place;
}

// The angle between the two states, also when the step ends the episode and `now` begins another.
static float pendulum_angle(const Pendulum* before, const Pendulum* now, float progress) {
    if (progress >= 1.0f) return now->motion.angle;
    PendulumMotion end = before->motion;
    pendulum_move(&end, pendulum_torque(before));
    return before->motion.angle + progress * PENDULUM_TAU * end.speed;  // beyond pi it goes on
}

// ---------------------------------------------------------------------------------------------------------- drawing

// From 0, hanging, through white to 1, standing.
static Color pendulum_paint(float upright) {
    if (upright < 0.5f) return puffer_mix(PUFFER_RED, PUFFER_WHITE, 2.0f * upright);
    return puffer_mix(PUFFER_WHITE, PUFFER_CYAN, 2.0f * upright - 1.0f);
}

static void pendulum_draw_dial(float upright) {
    enum { MARKS = 48 };
    for (int i = 0; i < MARKS; i++) {
        float angle = 2.0f * PUFFER_PI * (float)i / MARKS, length = i % 12 == 0 ? 12.0f : i % 4 == 0 ? 7.0f : 3.0f;
        Vector2 inner = pendulum_place(angle, PENDULUM_DIAL), outer = pendulum_place(angle, PENDULUM_DIAL + length);
        puffer_line(inner.x, inner.y, outer.x, outer.y, 2.5f, PUFFER_EDGE);
    }
    Vector2 top = pendulum_place(0.0f, PENDULUM_DIAL + 6.0f);
    puffer_glow(top.x, top.y, 46.0f, puffer_fade(PUFFER_CYAN, 0.7f * upright));
    puffer_disc(top.x, top.y, 6.0f, puffer_mix(PUFFER_MUTED, PUFFER_CYAN, upright));
}

// An arc around the motor with a head in the direction of the torque.
static void pendulum_draw_torque(float torque) {
    enum { CHORDS = 16 };
    const float radius = 66.0f, turn = PENDULUM_ARROW_TURN * torque / PENDULUM_MAX_TORQUE, head = 0.24f;
    if (fabsf(torque) < 0.05f * PENDULUM_MAX_TORQUE) return;
    Vector2 last = pendulum_place(PUFFER_PI - turn, radius);
    for (int i = 1; i <= CHORDS; i++) {  // below the motor, as long to either side
        Vector2 next = pendulum_place(PUFFER_PI + turn * (2.0f * (float)i / CHORDS - 1.0f), radius);
        puffer_line(last.x, last.y, next.x, next.y, 5.0f, PUFFER_MUTED);
        last = next;
    }
    float back = PUFFER_PI + turn - copysignf(head, torque);
    for (int side = -1; side <= 1; side += 2) {
        Vector2 barb = pendulum_place(back, radius + 13.0f * (float)side);
        puffer_line(last.x, last.y, barb.x, barb.y, 5.0f, PUFFER_MUTED);
    }
}

static void pendulum_draw_rod(float angle, Color color) {
    Vector2 centre = pendulum_place(0.0f, 0.0f), end = pendulum_place(angle, PENDULUM_ROD);
    puffer_line(centre.x, centre.y, end.x, end.y, PENDULUM_ROD_WIDTH, color);
    puffer_disc(centre.x, centre.y, 26.0f, PUFFER_BACKGROUND);
    puffer_disc(centre.x, centre.y, 20.0f, PUFFER_PANEL);
    puffer_disc(centre.x, centre.y, 8.0f, PUFFER_WHITE);
}

// Where the end of the rod was lately; empty after a jump, such as that to another episode.
static void pendulum_remember(Client* client, float angle, float time) {
    Vector2 end = pendulum_place(angle, PENDULUM_ROD);
    if (time < client->time) client->tail.length = 0;
    client->time = time;
    puffer_tail_add(&client->tail, end.x, end.y, time);
}

static void c_render(Client* client, const Pendulum* before, const Pendulum* now, float progress) {
    bool is_between = progress < 1.0f;
    const Pendulum* shown = is_between ? before : now;
    float angle = pendulum_angle(before, now, progress), steps = (float)shown->steps + (is_between ? progress : 0.0f);
    float upright = 0.5f + 0.5f * cosf(angle);
    Color color = pendulum_paint(upright);

    puffer_counter("RETURN", TextFormat("%.0f", (double)shown->episode_return), PENDULUM_MARGIN, 0.5f * PENDULUM_HEADER,
                   PUFFER_LEFT);
    puffer_counter("RAD / S", TextFormat("%+.1f", (double)shown->motion.speed), PENDULUM_WIDTH - PENDULUM_MARGIN,
                   0.5f * PENDULUM_HEADER, PUFFER_RIGHT);
    pendulum_draw_dial(clampf(8.0f * upright - 7.0f, 0.0f, 1.0f));
    pendulum_remember(client, angle, steps * PENDULUM_TAU);
    puffer_tail_draw(&client->tail, 0.5f * PENDULUM_ROD_WIDTH, PENDULUM_TAIL_SECONDS, color, PUFFER_BACKGROUND);
    pendulum_draw_torque(pendulum_torque(before));
    pendulum_draw_rod(angle, color);
    puffer_bar(PENDULUM_MARGIN, PENDULUM_HEIGHT - 40.0f, PENDULUM_WIDTH - 2 * PENDULUM_MARGIN, PENDULUM_BAR_HEIGHT,
               steps / (float)PENDULUM_MAX_STEPS, PUFFER_CYAN);
}

static void c_close_client(Client* client) { (void)client; }
