// drone_render.h - the flight space in perspective: the drone with its four rotors, its shadow and its wake, the target
// as a red ring on a thread above the floor, the next one dim. What was reached flashes up.
#pragma once

#include "drone.h"
#include "puffer_render.h"

typedef Drone Env;

enum { DRONE_PICTURE_WIDTH = 960, DRONE_PICTURE_HEIGHT = 720, DRONE_MARGIN = 30, DRONE_HEADER = 84 };
enum { DRONE_BAR_HEIGHT = 10, DRONE_CIRCLE_POINTS = 20 };

#define DRONE_FOCAL_PIXELS (1000.0f)
#define DRONE_EYE_Y (-24.0f)  // metres; the eye looks along y, a little down
#define DRONE_EYE_Z (14.0f)
#define DRONE_EYE_SLOPE (0.45f)        // metres down for each ahead
#define DRONE_HORIZON_PIXELS (345.0f)  // from the top: where the eye looks at
#define DRONE_GRID (2.0f)              // metres
#define DRONE_ARM (0.55f)              // metres; drawn larger than it is, to be seen
#define DRONE_ROTOR (0.36f)
#define DRONE_WAKE_STEPS (60.0f)
#define DRONE_WAKE_PITCH (3.0f)  // steps from one place that is kept to the next
#define DRONE_FLASH_STEPS (30.0f)
#define DRONE_MAX_PAUSE (8.0f)  // steps without a picture after which nothing is remembered

typedef struct {
    float time;  // steps since the episode began, when it was last drawn
    PufferTail wake;
    float reached[3];    // the last target that was, metres
    float reached_time;  // steps
} Client;

static PufferPicture c_open_client(Client* client, const Drone* env) {
    (void)env;
    PufferPicture picture = {DRONE_PICTURE_WIDTH, DRONE_PICTURE_HEIGHT, 1.0f / DRONE_STEP, "PufferLib drone"};
    client->time = INFINITY;  // nothing was drawn yet
    return picture;
}

// ----------------------------------------------------------------------------------------------------- perspective

// A place in the picture, and how many pixels a metre has there.
typedef struct {
    float x, y, scale;
} DronePixel;

static DronePixel drone_project(float x, float y, float z) {
    float length = sqrtf(1.0f + DRONE_EYE_SLOPE * DRONE_EYE_SLOPE);
    float ahead_y = 1.0f / length, ahead_z = -DRONE_EYE_SLOPE / length;
    float depth = (y - DRONE_EYE_Y) * ahead_y + (z - DRONE_EYE_Z) * ahead_z;
    float above = (z - DRONE_EYE_Z) * ahead_y - (y - DRONE_EYE_Y) * ahead_z;
    float scale = DRONE_FOCAL_PIXELS / depth;
    return (DronePixel){0.5f * DRONE_PICTURE_WIDTH + scale * x, DRONE_HORIZON_PIXELS - scale * above, scale};
}

static DronePixel drone_project_place(const float* place) { return drone_project(place[0], place[1], place[2]); }

// A straight stroke from one place to another, `width` metres wide.
static void drone_draw_line(const float* from, const float* to, float width, Color color) {
    DronePixel begin = drone_project_place(from), end = drone_project_place(to);
    puffer_line(begin.x, begin.y, end.x, end.y, fmaxf(1.2f, 0.5f * width * (begin.scale + end.scale)), color);
}

// A filled circle around a place, spanned by two axes of length 1; seen from the edge it is a line.
static void drone_draw_circle(const float* middle, const float* right, const float* up, float radius, Color color) {
    Vector2 corners[DRONE_CIRCLE_POINTS];
    float area = 0.0f;  // twice that of the picture, negative where the corners run counterclockwise, as y is down
    for (int i = 0; i < DRONE_CIRCLE_POINTS; i++) {
        float angle = 2.0f * PUFFER_PI * (float)i / (float)DRONE_CIRCLE_POINTS;
        float x = radius * cosf(angle), y = radius * sinf(angle);
        DronePixel pixel = drone_project(middle[0] + x * right[0] + y * up[0], middle[1] + x * right[1] + y * up[1],
                                         middle[2] + x * right[2] + y * up[2]);
        corners[i] = (Vector2){pixel.x, pixel.y};
        if (i == 0) continue;
        Vector2 first = corners[0], last = corners[i - 1];
        area += (last.x - first.x) * (pixel.y - first.y) - (pixel.x - first.x) * (last.y - first.y);
    }
    if (fabsf(area) < 60.0f) {
        Vector2 one = corners[0], other = corners[DRONE_CIRCLE_POINTS / 2];
        puffer_line(one.x, one.y, other.x, other.y, 3.0f, color);
        return;
    }
    for (int i = 0; area > 0.0f && i < DRONE_CIRCLE_POINTS / 2; i++) {
        Vector2 corner = corners[i];
        corners[i] = corners[DRONE_CIRCLE_POINTS - 1 - i];
        corners[DRONE_CIRCLE_POINTS - 1 - i] = corner;
    }
    puffer_polygon(corners, DRONE_CIRCLE_POINTS, color);
}

// ----------------------------------------------------------------------------------------------------------- memory

static void drone_remember(Client* client, const Drone* before, const Drone* now, const float* place, float time) {
    if (time < client->time || time > client->time + DRONE_MAX_PAUSE) {
        client->wake.length = 0;
        client->reached_time = -DRONE_FLASH_STEPS;
    }
    if (now->num_reached > before->num_reached) {
        memcpy(client->reached, before->target, sizeof(client->reached));
        client->reached_time = (float)now->steps;
    }
    DronePixel pixel = drone_project_place(place);
    puffer_tail_add(&client->wake, pixel.x, pixel.y, DRONE_WAKE_PITCH * floorf(time / DRONE_WAKE_PITCH));
    client->time = time;
}

// ---------------------------------------------------------------------------------------------------------- drawing

static void drone_draw_space(void) {
    const float reach = DRONE_HALF_WIDTH;
    Vector2 corners[4];
    const float ends[4][2] = {{-reach, -reach}, {reach, -reach}, {reach, reach}, {-reach, reach}};
    for (int i = 0; i < 4; i++) {
        DronePixel pixel = drone_project(ends[i][0], ends[i][1], 0.0f);
        corners[i] = (Vector2){pixel.x, pixel.y};
    }
    puffer_polygon(corners, 4, PUFFER_PANEL);
    for (float at = -reach; at <= reach; at += DRONE_GRID) {
        bool is_edge = fabsf(at) == reach;
        Color color = is_edge ? PUFFER_EDGE : puffer_mix(PUFFER_PANEL, PUFFER_EDGE, 0.55f);
        drone_draw_line((float[3]){at, -reach, 0.0f}, (float[3]){at, reach, 0.0f}, 0.02f, color);
        drone_draw_line((float[3]){-reach, at, 0.0f}, (float[3]){reach, at, 0.0f}, 0.02f, color);
    }
    for (int i = 0; i < 4; i++) {
        const float *from = ends[i], *to = ends[(i + 1) % 4];
        Color color = puffer_mix(PUFFER_BACKGROUND, PUFFER_EDGE, 0.6f);
        drone_draw_line((float[3]){from[0], from[1], 0.0f}, (float[3]){from[0], from[1], DRONE_HEIGHT}, 0.02f, color);
        drone_draw_line((float[3]){from[0], from[1], DRONE_HEIGHT}, (float[3]){to[0], to[1], DRONE_HEIGHT}, 0.02f,
                        color);
    }
}

static void drone_draw_shadow(const float* place, float radius, float darkness) {
    const float right[3] = {1.0f, 0.0f, 0.0f}, up[3] = {0.0f, 1.0f, 0.0f}, middle[3] = {place[0], place[1], 0.0f};
    drone_draw_circle(middle, right, up, radius, puffer_mix(PUFFER_PANEL, PUFFER_BACKGROUND, darkness));
}

// A ring over its shadow, joined by a thread; `light` is 1 for the one to fly to.
static void drone_draw_target(const float* place, float light, float pulse) {
    DronePixel pixel = drone_project_place(place);
    Color color = puffer_mix(PUFFER_PANEL, PUFFER_RED, light);
    drone_draw_line((float[3]){place[0], place[1], 0.0f}, (float[3]){place[0], place[1], place[2] - DRONE_REACH},
                    0.015f, puffer_mix(PUFFER_PANEL, PUFFER_RED, 0.5f * light));
    if (light == 1.0f) {
        puffer_glow(pixel.x, pixel.y, pixel.scale * (1.1f + 0.08f * pulse), puffer_fade(PUFFER_RED, 0.6f));
        puffer_disc(pixel.x, pixel.y, 0.12f * pixel.scale, color);
    }
    puffer_ring(pixel.x, pixel.y, DRONE_REACH * pixel.scale, 0.12f * pixel.scale, color);
}

// The point of the body that is `x` ahead and `y` to the left of its middle.
static void drone_point(const DroneMotion* motion, const DroneAxes* axes, float x, float y, float* point) {
    for (int i = 0; i < 3; i++) point[i] = motion->numbers[DRONE_PLACE + i] + x * axes->ahead[i] + y * axes->left[i];
}

static void drone_draw_rotor(const DroneMotion* motion, const DroneAxes* axes, float x, float y) {
    float hub[3];
    Color color = x > 0.0f ? PUFFER_WHITE : PUFFER_CYAN;  // white ones are in front
    drone_point(motion, axes, x, y, hub);
    drone_draw_line(motion->numbers + DRONE_PLACE, hub, 0.1f, puffer_mix(PUFFER_PANEL, PUFFER_CYAN, 0.7f));
    drone_draw_circle(hub, axes->ahead, axes->left, DRONE_ROTOR, puffer_fade(color, 0.75f));
}

static void drone_draw_body(const DroneMotion* motion) {
    const float* place = motion->numbers + DRONE_PLACE;
    DroneAxes axes = drone_axes(motion);
    bool is_right_nearer = axes.left[1] > 0.0f, is_back_nearer = axes.ahead[1] > 0.0f;
    for (int side = 0; side < 2; side++) {  // the farther rotors first
        for (int end = 0; end < 2; end++) {
            float y = (side == 0) == is_right_nearer ? DRONE_ARM : -DRONE_ARM;
            float x = (end == 0) == is_back_nearer ? DRONE_ARM : -DRONE_ARM;
            drone_draw_rotor(motion, &axes, x, y);
        }
    }
    DronePixel pixel = drone_project_place(place);
    puffer_disc(pixel.x, pixel.y, 0.2f * pixel.scale, PUFFER_CYAN);
    puffer_disc(pixel.x, pixel.y, 0.09f * pixel.scale, PUFFER_WHITE);
}

static void drone_draw_flash(const Client* client) {
    float left = puffer_flash(client->time - client->reached_time, DRONE_FLASH_STEPS), grown = 1.0f - left * left;
    if (left <= 0.0f) return;
    DronePixel pixel = drone_project_place(client->reached);
    Color color = puffer_fade(PUFFER_WHITE, left);
    puffer_ring(pixel.x, pixel.y, pixel.scale * (0.5f + grown), 6.0f * left, color);
    puffer_text("+1", pixel.x, pixel.y - pixel.scale * (0.8f + grown), 30.0f, PUFFER_CENTER, color);
}

static void drone_draw_header(const Drone* env, const DroneMotion* motion, float time) {
    const float* v = motion->numbers + DRONE_VELOCITY;
    float speed = sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    puffer_counter("TARGETS", TextFormat("%d / %d", env->num_reached, env->targets), DRONE_MARGIN, 0.5f * DRONE_HEADER,
                   PUFFER_LEFT);
    puffer_counter("M/S", TextFormat("%.1f", (double)speed), DRONE_PICTURE_WIDTH - DRONE_MARGIN, 0.5f * DRONE_HEADER,
                   PUFFER_RIGHT);
    puffer_bar(DRONE_MARGIN, DRONE_PICTURE_HEIGHT - DRONE_MARGIN - DRONE_BAR_HEIGHT,
               DRONE_PICTURE_WIDTH - 2 * DRONE_MARGIN, DRONE_BAR_HEIGHT, 1.0f - time / (float)DRONE_MAX_STEPS,
               PUFFER_CYAN);
}

static void c_render(Client* client, const Drone* before, const Drone* now, float progress) {
    bool is_between = progress < 1.0f, has_ended = now->terminals[0] || now->truncations[0];
    const Drone* shown = is_between ? before : now;
    DroneMotion motion = shown->motion;
    for (int i = 0; is_between && !has_ended && i < DRONE_NUMBERS; i++) {
        motion.numbers[i] = puffer_lerp(before->motion.numbers[i], now->motion.numbers[i], progress);
    }
    const float* place = motion.numbers + DRONE_PLACE;
    float time = (float)shown->steps + (is_between ? progress : 0.0f);
    drone_remember(client, has_ended ? shown : before, has_ended ? shown : now, place, time);
    drone_draw_space();
    drone_draw_shadow(shown->target, DRONE_REACH, 0.6f);
    drone_draw_shadow(place, DRONE_ARM + DRONE_ROTOR, 0.85f);
    bool is_in_front = place[1] < shown->target[1];
    if (shown->num_reached + 1 < shown->targets) drone_draw_target(shown->next_target, 0.35f, 0.0f);
    if (is_in_front) drone_draw_target(shown->target, 1.0f, sinf(0.12f * time));
    puffer_tail_draw(&client->wake, 6.0f, DRONE_WAKE_STEPS, puffer_mix(PUFFER_PANEL, PUFFER_CYAN, 0.6f),
                     puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.6f));
    drone_draw_body(&motion);
    if (!is_in_front) drone_draw_target(shown->target, 1.0f, sinf(0.12f * time));
    drone_draw_flash(client);
    drone_draw_header(shown, &motion, time);
}

static void c_close_client(Client* client) { (void)client; }
