// target_render.h - the arena from above: agents as cyan darts with a wake, goals as red rings that glow. A ring of
// light stays for a moment where a goal was reached, and "+1" rises from it.
#pragma once

#include "puffer_render.h"
#include "target.h"

typedef Target Env;

enum { TARGET_MARGIN = 30, TARGET_HEADER = 84, TARGET_BAR_HEIGHT = 10, TARGET_GRID = 80, TARGET_MAX_FLASHES = 8 };

#define TARGET_STEPS_PER_SECOND (30.0f)
#define TARGET_WAKE_STEPS (14.0f)
#define TARGET_FLASH_STEPS (18.0f)
#define TARGET_MAX_PAUSE (4.0f)  // steps without a picture after which nothing is remembered

typedef struct {
    Vector2 place;
    float time;  // steps of the episode when it began
} TargetFlash;

typedef struct {
    float time;  // steps since the episode began, when it was last drawn
    PufferTail wakes[TARGET_AGENTS];
    TargetFlash flashes[TARGET_MAX_FLASHES];  // the newest ones, in a circle
    int step;                                 // the last one whose goals were looked at
    int num_flashes;                          // all that there were
} Client;

static PufferPicture c_open_client(Client* client, const Target* env) {
    (void)env;
    PufferPicture picture = {(int)TARGET_WIDTH + 2 * TARGET_MARGIN,
                             TARGET_HEADER + (int)TARGET_HEIGHT + 2 * TARGET_MARGIN + TARGET_BAR_HEIGHT,
                             TARGET_STEPS_PER_SECOND, "PufferLib target"};
    client->time = INFINITY;  // nothing was drawn yet
    return picture;
}

static Vector2 target_place(float x, float y) { return (Vector2){TARGET_MARGIN + x, TARGET_HEADER + y}; }

// --------------------------------------------------------------------------------------------------------- memory

static Vector2 target_agent_between(const Target* before, const Target* now, int agent, float share) {
    return target_place(puffer_lerp(before->x[agent], now->x[agent], share),
                        puffer_lerp(before->y[agent], now->y[agent], share));
}

static bool target_has_jumped(const Target* before, const Target* now, int goal) {
    return hypotf(now->goal_x[goal] - before->goal_x[goal], now->goal_y[goal] - before->goal_y[goal]) >
           1.5f * TARGET_GOAL_SPEED;
}

// The goals that are reached in the step that begins; they flash when it is over.
static void target_remember_goals(Client* client, const Target* before, const Target* now) {
    if (before == now || before->steps == client->step) return;
    client->step = before->steps;
    for (int goal = 0; goal < TARGET_GOALS; goal++) {
        if (!target_has_jumped(before, now, goal)) continue;
        client->flashes[client->num_flashes++ % TARGET_MAX_FLASHES] =
            (TargetFlash){target_place(before->goal_x[goal], before->goal_y[goal]), (float)before->steps + 1.0f};
    }
}

static void target_remember(Client* client, const Target* before, const Target* now, float time, float share) {
    if (time < client->time || time > client->time + TARGET_MAX_PAUSE) {
        client->num_flashes = 0;
        client->step = -1;
        for (int agent = 0; agent < TARGET_AGENTS; agent++) client->wakes[agent].length = 0;
    }
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        Vector2 place = target_agent_between(before, now, agent, share);
        puffer_tail_add(&client->wakes[agent], place.x, place.y, floorf(time));  // one place for a step
    }
    target_remember_goals(client, before, now);
    client->time = time;
}

// -------------------------------------------------------------------------------------------------------- drawing

static void target_draw_arena(void) {
    puffer_rounded(TARGET_MARGIN - 6.0f, TARGET_HEADER - 6.0f, TARGET_WIDTH + 12.0f, TARGET_HEIGHT + 12.0f, 16.0f,
                   PUFFER_PANEL);
    Color dot = puffer_mix(PUFFER_PANEL, PUFFER_EDGE, 0.8f);
    for (int y = TARGET_GRID / 2; y < (int)TARGET_HEIGHT; y += TARGET_GRID) {
        for (int x = TARGET_GRID / 2; x < (int)TARGET_WIDTH; x += TARGET_GRID) {
            puffer_disc((float)(TARGET_MARGIN + x), (float)(TARGET_HEADER + y), 2.5f, dot);
        }
    }
}

static void target_draw_goal(Vector2 place, float pulse) {
    puffer_glow(place.x, place.y, 46.0f + 5.0f * pulse, puffer_fade(PUFFER_RED, 0.65f));
    puffer_ring(place.x, place.y, TARGET_GOAL_RADIUS - 3.0f, 5.0f, PUFFER_RED);
    puffer_disc(place.x, place.y, 5.0f, PUFFER_RED);
}

static void target_draw_goals(const Target* before, const Target* now, float share, float time) {
    for (int goal = 0; goal < TARGET_GOALS; goal++) {
        float along = target_has_jumped(before, now, goal) ? floorf(share) : share;
        Vector2 place = target_place(puffer_lerp(before->goal_x[goal], now->goal_x[goal], along),
                                     puffer_lerp(before->goal_y[goal], now->goal_y[goal], along));
        target_draw_goal(place, sinf(0.25f * time + 1.6f * (float)goal));
    }
}

// A dart with its nose ahead: two flat sides, the right one darker.
static void target_draw_dart(Vector2 place, float heading_x, float heading_y, Color color) {
    const float nose = 17.0f, tail = 13.0f, half_width = 11.0f, notch = 6.0f;
    Vector2 front = {place.x + nose * heading_x, place.y + nose * heading_y};
    Vector2 back = {place.x - notch * heading_x, place.y - notch * heading_y};
    Vector2 foot = {place.x - tail * heading_x, place.y - tail * heading_y};
    Vector2 left = {foot.x + half_width * heading_y, foot.y - half_width * heading_x};
    Vector2 right = {foot.x - half_width * heading_y, foot.y + half_width * heading_x};
    Vector2 lighter[3] = {front, left, back}, darker[3] = {front, back, right};
    puffer_polygon(lighter, 3, color);
    puffer_polygon(darker, 3, puffer_mix(PUFFER_BACKGROUND, color, 0.72f));
}

// Strokes from place to place, ever thinner: there are too many wakes for dots.
static void target_draw_wake(const PufferTail* wake, float time) {
    for (int i = wake->length - 2; i >= 0; i--) {
        Vector2 from = wake->places[i + 1], to = wake->places[i];
        float left = puffer_flash(time - wake->times[i + 1], TARGET_WAKE_STEPS);
        Color color = puffer_mix(PUFFER_PANEL, PUFFER_CYAN, 0.5f * left * left);
        if (left > 0.0f) puffer_line(from.x, from.y, to.x, to.y, 5.0f + 9.0f * left, color);
    }
}

static void target_draw_agents(const Client* client, const Target* before, const Target* now, float share) {
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        target_draw_wake(&client->wakes[agent], client->time);
    }
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        float x = puffer_lerp(before->heading_x[agent], now->heading_x[agent], share);
        float y = puffer_lerp(before->heading_y[agent], now->heading_y[agent], share), length = hypotf(x, y);
        target_draw_dart(target_agent_between(before, now, agent, share), x / length, y / length, PUFFER_CYAN);
    }
}

static void target_draw_flashes(const Client* client) {
    int first = client->num_flashes > TARGET_MAX_FLASHES ? client->num_flashes - TARGET_MAX_FLASHES : 0;
    for (int i = first; i < client->num_flashes; i++) {
        TargetFlash flash = client->flashes[i % TARGET_MAX_FLASHES];
        float left = puffer_flash(client->time - flash.time, TARGET_FLASH_STEPS), grown = 1.0f - left * left;
        if (left <= 0.0f) continue;
        Color color = puffer_fade(PUFFER_WHITE, left);
        puffer_ring(flash.place.x, flash.place.y, 16.0f + 30.0f * grown, 5.0f * left, color);
        puffer_text("+1", flash.place.x, flash.place.y - 34.0f * grown, 26.0f, PUFFER_CENTER, color);
    }
}

static void target_draw_header(const Target* env, float steps) {
    int team = 0, best = 0;
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        team += env->reached[agent];
        best = env->reached[agent] > best ? env->reached[agent] : best;
    }
    puffer_counter("GOALS", TextFormat("%d", team), TARGET_MARGIN, 0.5f * TARGET_HEADER, PUFFER_LEFT);
    puffer_counter("BEST AGENT", TextFormat("%d", best), TARGET_MARGIN + TARGET_WIDTH, 0.5f * TARGET_HEADER,
                   PUFFER_RIGHT);
    puffer_bar(TARGET_MARGIN, TARGET_HEADER + TARGET_HEIGHT + TARGET_MARGIN, TARGET_WIDTH, TARGET_BAR_HEIGHT,
               1.0f - steps / (float)env->horizon, PUFFER_CYAN);
}

static void c_render(Client* client, const Target* before, const Target* now, float progress) {
    bool is_between = progress < 1.0f, has_ended = now->truncations[0];
    const Target* to = is_between && has_ended ? before : now;  // nothing slides into the next episode
    const Target* from = has_ended && !is_between ? now : before;
    float time = is_between ? (float)before->steps + progress : (float)now->steps;
    target_remember(client, from, to, time, progress);
    target_draw_header(is_between ? before : now, time);
    target_draw_arena();
    target_draw_goals(from, to, progress, time);
    target_draw_agents(client, from, to, progress);
    target_draw_flashes(client);
}

static void c_close_client(Client* client) { (void)client; }
