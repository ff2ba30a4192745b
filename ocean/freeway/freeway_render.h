// freeway_render.h - the road from above: cars of several shapes and colours with their lights on, trucks among them,
// and a chicken whose wings flap as it walks and whose feathers fly when it is hit. The time runs off below.
#pragma once

#include "freeway.h"
#include "puffer_render.h"

typedef Freeway Env;

enum { FREEWAY_SCALE = 4 };  // pixels of the picture in one of the game
enum { FREEWAY_MARGIN = 20, FREEWAY_HEADER = 68, FREEWAY_FOOTER = 30 };
enum { FREEWAY_FRAMES_PER_SECOND = 60, FREEWAY_FEATHERS = 9 };
enum { FREEWAY_TRUCK = 20 };  // pixels of the game from which on a vehicle is drawn as one

#define FREEWAY_CHICKEN_X (44.0f)  // left side, pixels of the game
#define FREEWAY_FLASH_FRAMES (30.0f)
#define FREEWAY_MAX_PAUSE (128.0f)  // frames without a picture after which nothing is remembered

typedef struct {
    float time;  // frames since the episode began, when it was last drawn
    int score, throw_left;
    float crossed, hit;  // when, frames
    float hit_y;         // where, pixels of the picture
} Client;

static PufferPicture c_open_client(Client* client, const Freeway* env) {
    PufferPicture picture = {160 * FREEWAY_SCALE + 2 * FREEWAY_MARGIN,
                             180 * FREEWAY_SCALE + FREEWAY_HEADER + FREEWAY_FOOTER,
                             (float)FREEWAY_FRAMES_PER_SECOND / (float)env->frameskip, "PufferLib freeway"};
    client->time = INFINITY;  // nothing was drawn yet
    return picture;
}

// From the game's 60ths of a pixel to the picture; y grows upwards in the game.
static float freeway_x(float x) { return FREEWAY_MARGIN + (float)FREEWAY_SCALE / (float)FREEWAY_PIXEL * x; }
static float freeway_y(float y) {
    return FREEWAY_HEADER + (float)FREEWAY_SCALE / (float)FREEWAY_PIXEL * ((float)FREEWAY_HEIGHT - y);
}

// ---------------------------------------------------------------------------------------------------------- motion

typedef struct {
    Freeway game;  // after the last whole frame
    float y;       // of the chicken, between two frames
    float frames;  // since the episode began
    float part;    // of the next frame that is over
} FreewayMoment;

// The game `frames` after `before`, played again, never into the next episode.
static FreewayMoment freeway_moment(const Freeway* before, float frames) {
    int whole = (int)frames;
    FreewayMoment moment = {*before, 0.0f, 0.0f, frames - (float)whole};
    freeway_play(&moment.game, whole);
    Freeway next = moment.game;
    freeway_play(&next, 1);
    bool is_same = next.score == moment.game.score && next.frames > moment.game.frames;
    moment.y = is_same ? puffer_lerp(moment.game.y, next.y, moment.part) : (float)moment.game.y;
    moment.part = next.frames > moment.game.frames ? moment.part : 0.0f;
    moment.frames = (float)moment.game.frames + moment.part;
    return moment;
}

static void freeway_remember(Client* client, const FreewayMoment* moment) {
    const Freeway* game = &moment->game;
    if (moment->frames < client->time || moment->frames > client->time + FREEWAY_MAX_PAUSE) {
        client->crossed = client->hit = -FREEWAY_FLASH_FRAMES;
        client->score = game->score;
        client->throw_left = game->throw_left;
    }
    if (game->score > client->score) client->crossed = moment->frames;
    if (game->throw_left > client->throw_left) {
        client->hit = moment->frames;
        client->hit_y = freeway_y(moment->y + 0.5f * FREEWAY_CHICKEN_HEIGHT);
    }
    client->score = game->score;
    client->throw_left = game->throw_left;
    client->time = moment->frames;
}

// ------------------------------------------------------------------------------------------------------------ road

static void freeway_draw_header(const Client* client, const Freeway* game) {
    const float right = FREEWAY_MARGIN + 160.0f * FREEWAY_SCALE, y = 0.5f * FREEWAY_HEADER;
    float flash = puffer_flash(client->time - client->crossed, FREEWAY_FLASH_FRAMES);
    int seconds = (FREEWAY_FRAMES - game->frames + FREEWAY_FRAMES_PER_SECOND - 1) / FREEWAY_FRAMES_PER_SECOND;
    puffer_counter("CROSSINGS", TextFormat("%d", game->score), FREEWAY_MARGIN, y, PUFFER_LEFT);
    puffer_text(TextFormat("LEVEL %d", game->level), 0.5f * (FREEWAY_MARGIN + right), y + 7.0f, 20.0f, PUFFER_CENTER,
                puffer_mix(PUFFER_MUTED, PUFFER_CYAN, flash));
    puffer_counter("TIME", TextFormat("%d:%02d", seconds / 60, seconds % 60), right, y, PUFFER_RIGHT);
}

static void freeway_draw_kerb(float bottom, float top, float flash) {
    Color color = puffer_mix(PUFFER_PANEL, PUFFER_CYAN, 0.7f * flash);
    puffer_rectangle(FREEWAY_MARGIN, freeway_y(top), 160.0f * FREEWAY_SCALE, freeway_y(bottom) - freeway_y(top), color);
}

static void freeway_draw_road(const Client* client) {
    const float left = freeway_x(0.0f), right = freeway_x(FREEWAY_ROAD), dash = 34.0f;
    const float bottom = FREEWAY_KERB, top = FREEWAY_HEIGHT - FREEWAY_KERB;
    puffer_rectangle(left, freeway_y(top), right - left, freeway_y(bottom) - freeway_y(top), (Color){17, 30, 32, 255});
    freeway_draw_kerb(0.0f, bottom, 0.0f);
    freeway_draw_kerb(top, FREEWAY_HEIGHT, puffer_flash(client->time - client->crossed, FREEWAY_FLASH_FRAMES));
    puffer_rectangle(left, freeway_y(bottom), right - left, 3.0f, PUFFER_MUTED);
    puffer_rectangle(left, freeway_y(top) - 3.0f, right - left, 3.0f, PUFFER_MUTED);
    for (int lane = 1; lane < FREEWAY_LANES; lane++) {
        float y = freeway_y(bottom + (float)(lane * FREEWAY_LANE));
        if (lane == FREEWAY_LANES / 2) {  // between the two directions
            puffer_rectangle(left, y - 4.0f, right - left, 2.0f, PUFFER_CYAN);
            puffer_rectangle(left, y + 2.0f, right - left, 2.0f, PUFFER_CYAN);
            continue;
        }
        for (float x = left + 0.5f * dash; x < right - dash; x += 2.0f * dash) {
            puffer_rectangle(x, y - 1.0f, dash, 2.0f, PUFFER_EDGE);
        }
    }
}

// -------------------------------------------------------------------------------------------------------- vehicles

// What a vehicle looks like; `forward` is 1 to the right, -1 to the left, and lengths are pixels of the picture.
typedef struct {
    float rear, y, length, forward;
    Color color;
} FreewayLook;

// A part of it, from a share of its length from the rear to another, `inset` pixels narrower on either side.
static void freeway_draw_part(const FreewayLook* look, float from, float to, float inset, float round, Color color) {
    const float width = (float)FREEWAY_CAR_HEIGHT / (float)FREEWAY_PIXEL * (float)FREEWAY_SCALE - 3.2f;
    float begin = look->rear + look->forward * from * look->length,
          end = look->rear + look->forward * to * look->length;
    puffer_rounded(fminf(begin, end), look->y - 0.5f * width + inset, fabsf(end - begin), width - 2.0f * inset, round,
                   color);
}

static void freeway_draw_lights(const FreewayLook* look) {
    float front = look->rear + look->forward * look->length;
    for (int side = -1; side <= 1; side += 2) {
        float y = look->y + 12.0f * (float)side;
        puffer_glow(front + 6.4f * look->forward, y, 17.6f, puffer_fade(PUFFER_WHITE, 0.28f));
        puffer_disc(front - 2.4f * look->forward, y, 2.8f, PUFFER_WHITE);
        puffer_disc(look->rear + 2.4f * look->forward, y, 2.4f, (Color){235, 40, 40, 255});
    }
}

static void freeway_draw_car(const FreewayLook* look, int shape) {
    const Color glass = {10, 40, 46, 255}, roof = puffer_mix(look->color, PUFFER_WHITE, 0.18f);
    const float roof_from = shape == 0 ? 0.26f : shape == 1 ? 0.06f : 0.34f;  // a saloon, an estate, a coupe
    const float roof_to = shape == 2 ? 0.58f : 0.62f;
    for (int wheel = 0; wheel < 2; wheel++) {
        float from = wheel == 0 ? 0.14f : 0.66f;
        freeway_draw_part(look, from, from + 0.2f, -2.4f, 2.0f, PUFFER_BACKGROUND);
    }
    freeway_draw_part(look, 0.0f, 1.0f, shape == 2 ? 2.4f : 0.0f, 9.6f, look->color);
    freeway_draw_part(look, roof_from - 0.05f, roof_to + 0.14f, 4.8f, 5.6f, glass);
    freeway_draw_part(look, roof_from + 0.05f, roof_to, 5.6f, 4.8f, roof);
    if (shape == 2) freeway_draw_part(look, 0.0f, 1.0f, 16.0f, 1.0f, puffer_fade(PUFFER_WHITE, 0.5f));  // a stripe
}

static void freeway_draw_truck(const FreewayLook* look) {
    const Color load = puffer_mix(PUFFER_WHITE, PUFFER_BACKGROUND, 0.12f), glass = {10, 40, 46, 255};
    freeway_draw_part(look, 0.04f, 0.94f, 3.2f, 2.4f, PUFFER_BACKGROUND);
    freeway_draw_part(look, 0.76f, 1.0f, 1.0f, 6.4f, look->color);
    freeway_draw_part(look, 0.86f, 0.94f, 4.0f, 3.2f, glass);
    freeway_draw_part(look, 0.0f, 0.73f, -1.0f, 3.2f, load);
    for (int i = 1; i < 4; i++) {
        freeway_draw_part(look, 0.18f * (float)i, 0.18f * (float)i + 0.012f, 2.4f, 0.0f, PUFFER_MUTED);
    }
}

// The look of a lane's vehicle whose front is `beyond` the chicken's nearer side.
static FreewayLook freeway_look_of(int lane, int index, float length, float beyond) {
    static const Color paints[5] = {
        {187, 0, 0, 255}, {0, 140, 150, 255}, {214, 150, 52, 255}, {196, 204, 204, 255}, {92, 110, 190, 255}};
    const float chicken = FREEWAY_CHICKEN_X * FREEWAY_PIXEL, to_picture = (float)FREEWAY_SCALE / (float)FREEWAY_PIXEL;
    bool is_right = lane < FREEWAY_LANES / 2;
    float front = is_right ? chicken + beyond : chicken + (float)FREEWAY_CHICKEN_WIDTH - beyond;
    front = fmodf(front + 4.0f * FREEWAY_LOOP, FREEWAY_LOOP);
    if (!is_right && front > (float)FREEWAY_ROAD) front -= (float)FREEWAY_LOOP;  // it has left, or is yet to come
    FreewayLook look = {freeway_x(is_right ? front - length : front + length),
                        freeway_y(FREEWAY_KERB + ((float)lane + 0.5f) * FREEWAY_LANE), to_picture * length,
                        is_right ? 1.0f : -1.0f, paints[(3 * lane + 2 * index) % 5]};
    return look;
}

static void freeway_draw_vehicles(const FreewayMoment* moment) {
    const FreewayTraffic* traffic = freeway_traffic(&moment->game);
    for (int lane = 0; lane < FREEWAY_LANES; lane++) {
        float passed = (float)moment->game.passed[lane] + moment->part * (float)moment->game.speeds[lane];
        float length = (float)(traffic->lengths[lane] * FREEWAY_PIXEL);
        for (int i = 0; i < FREEWAY_VEHICLES; i++) {
            if (i > 0 && traffic->behind[i][lane] == 0) continue;
            float beyond = passed - (float)(traffic->behind[i][lane] * FREEWAY_PIXEL);
            FreewayLook look = freeway_look_of(lane, i, length, beyond);
            if (traffic->lengths[lane] >= FREEWAY_TRUCK) {
                freeway_draw_truck(&look);
            } else {
                freeway_draw_car(&look, (lane + i) % 3);
            }
            freeway_draw_lights(&look);
        }
    }
}

// Covers what stands out beside the road, where vehicles come from and go to.
static void freeway_draw_edges(void) {
    const float top = FREEWAY_HEADER, height = 180.0f * FREEWAY_SCALE, right = freeway_x(FREEWAY_ROAD);
    puffer_rectangle(-200.0f, top, 200.0f + FREEWAY_MARGIN, height, PUFFER_BACKGROUND);
    puffer_rectangle(right, top, 200.0f + FREEWAY_MARGIN, height, PUFFER_BACKGROUND);
}

// ----------------------------------------------------------------------------------------------------- the chicken

static void freeway_draw_chicken(const FreewayMoment* moment) {
    const float x = freeway_x(FREEWAY_CHICKEN_X * FREEWAY_PIXEL + 0.5f * FREEWAY_CHICKEN_WIDTH);
    const float y = freeway_y(moment->y + 0.5f * FREEWAY_CHICKEN_HEIGHT);
    bool is_thrown = moment->game.throw_left > 0;
    float flap = is_thrown ? 4.8f : 2.0f * sinf(0.6f * moment->y / (float)FREEWAY_STEP);
    Color body = is_thrown ? puffer_mix(PUFFER_WHITE, PUFFER_RED, 0.35f) : PUFFER_WHITE;
    puffer_glow(x, y, 27.2f, puffer_fade(PUFFER_CYAN, 0.4f));
    for (int side = -1; side <= 1; side += 2) {
        puffer_line(x + 3.2f * (float)side, y + 6.4f, x + (6.4f + flap) * (float)side, y + 9.6f, 5.6f,
                    puffer_mix(body, PUFFER_MUTED, 0.35f));
        puffer_line(x + 4.0f * (float)side, y + 13.6f, x + 4.0f * (float)side, y + 16.8f + 0.6f * flap * (float)side,
                    2.4f, (Color){222, 150, 44, 255});
    }
    puffer_disc(x, y + 4.8f, 10.0f, body);
    puffer_disc(x, y - 7.2f, 6.8f, body);
    puffer_line(x, y - 15.2f, x, y - 12.0f, 4.0f, PUFFER_RED);
    puffer_disc(x - 2.8f, y - 8.8f, 1.4f, PUFFER_BACKGROUND);
    puffer_disc(x + 2.8f, y - 8.8f, 1.4f, PUFFER_BACKGROUND);
    puffer_disc(x, y - 5.6f, 2.2f, (Color){222, 150, 44, 255});
}

static void freeway_draw_feathers(const Client* client) {
    float left = puffer_flash(client->time - client->hit, FREEWAY_FLASH_FRAMES), gone = 1.0f - left;
    if (left <= 0.0f) return;
    const float x = freeway_x(FREEWAY_CHICKEN_X * FREEWAY_PIXEL + 0.5f * FREEWAY_CHICKEN_WIDTH);
    for (int i = 0; i < FREEWAY_FEATHERS; i++) {
        float angle = 2.0f * PUFFER_PI * (float)i / (float)FREEWAY_FEATHERS + 0.4f;
        float reach = (14.4f + 7.2f * (float)(i % 3)) * (1.0f + 1.6f * sqrtf(gone));
        puffer_disc(x + reach * cosf(angle), client->hit_y + reach * sinf(angle), 3.2f * left + 1.0f,
                    puffer_fade(PUFFER_WHITE, left));
    }
}

static void c_render(Client* client, const Freeway* before, const Freeway* now, float progress) {
    bool is_between = progress < 1.0f;
    FreewayMoment moment = {*now, (float)now->y, (float)now->frames, 0.0f};
    if (is_between) moment = freeway_moment(before, progress * (float)before->frameskip);
    freeway_remember(client, &moment);
    freeway_draw_road(client);
    freeway_draw_vehicles(&moment);
    freeway_draw_chicken(&moment);
    freeway_draw_feathers(client);
    freeway_draw_edges();
    freeway_draw_header(client, &moment.game);
    puffer_bar(FREEWAY_MARGIN, FREEWAY_HEADER + 180.0f * FREEWAY_SCALE + 16.0f, 160.0f * FREEWAY_SCALE, 8.0f,
               1.0f - moment.frames / (float)FREEWAY_FRAMES, PUFFER_CYAN);
}

static void c_close_client(Client* client) { (void)client; }
