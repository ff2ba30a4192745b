// password_render.h - two doors of which one is lit, a slot for each key of its password, and the four keys. A door
// that opens shines; a wrong password turns the slots red.
#pragma once

#include "password.h"
#include "puffer_lights.h"

typedef Password Env;

enum { PASSWORD_WIDTH = 720, PASSWORD_HEIGHT = 540, PASSWORD_MARGIN = 40, PASSWORD_HEADER = 84 };
enum { PASSWORD_DOOR_Y = 104, PASSWORD_DOOR_WIDTH = 120, PASSWORD_DOOR_HEIGHT = 180, PASSWORD_DOOR_PITCH = 260 };
enum { PASSWORD_SLOT_Y = 360, PASSWORD_SLOT_SIZE = 56, PASSWORD_SLOT_GAP = 12 };
enum { PASSWORD_KEY_Y = 430, PASSWORD_KEY_WIDTH = 142, PASSWORD_KEY_HEIGHT = 64, PASSWORD_KEY_GAP = 24 };

typedef struct {
    PufferTally tries;
    Password last;  // the state that the last of them ended in
} Client;

static PufferPicture c_open_client(Client* client, const Password* env) {
    (void)client, (void)env;
    PufferPicture picture = {PASSWORD_WIDTH, PASSWORD_HEIGHT, 5.0f, "PufferLib password"};
    return picture;
}

// What the step leads to, also when `now` is the next episode already.
static Password password_after(const Password* before) {
    Password after = *before;
    password_type(&after);
    return after;
}

// ---------------------------------------------------------------------------------------------------------- drawing

// `light` says how much it is this door's turn, `open` how far it is open, both 0 to 1.
static void password_draw_door(int door, float light, float open) {
    const float centre = 0.5f * PASSWORD_WIDTH + ((float)door - 0.5f) * PASSWORD_DOOR_PITCH;
    const float left = centre - 0.5f * PASSWORD_DOOR_WIDTH, frame = 8.0f,
                bottom = PASSWORD_DOOR_Y + PASSWORD_DOOR_HEIGHT;
    if (open > 0.0f) {
        puffer_glow(centre, PASSWORD_DOOR_Y + 0.5f * PASSWORD_DOOR_HEIGHT, 190.0f,
                    puffer_fade(PUFFER_CYAN, 0.6f * open));
    }
    puffer_rounded(left - frame, PASSWORD_DOOR_Y - frame, PASSWORD_DOOR_WIDTH + 2.0f * frame,
                   PASSWORD_DOOR_HEIGHT + frame, 12.0f, puffer_mix(PUFFER_EDGE, PUFFER_CYAN, light));
    puffer_rounded(left, PASSWORD_DOOR_Y, PASSWORD_DOOR_WIDTH, PASSWORD_DOOR_HEIGHT, 6.0f,
                   puffer_mix(PUFFER_BACKGROUND, PUFFER_WHITE, open));
    // The leaf turns on its left hinge: seen from the front it grows narrow, and its free edge comes nearer.
    float width = PASSWORD_DOOR_WIDTH * (1.0f - 0.78f * open), near = 14.0f * open;
    Vector2 leaf[4] = {
        {left, PASSWORD_DOOR_Y}, {left, bottom}, {left + width, bottom + near}, {left + width, PASSWORD_DOOR_Y - near}};
    puffer_polygon(leaf, 4, puffer_mix(PUFFER_PANEL, PUFFER_CYAN, 0.25f * light));
    puffer_disc(left + 0.84f * width, PASSWORD_DOOR_Y + 0.55f * PASSWORD_DOOR_HEIGHT, 6.0f * (1.0f - 0.5f * open),
                puffer_mix(PUFFER_MUTED, PUFFER_WHITE, light));
    puffer_line(left - 60.0f, bottom, left + PASSWORD_DOOR_WIDTH + 60.0f, bottom, 4.0f, PUFFER_EDGE);
}

// `newest`, 0 to 1, of the key that was typed last is there; `verdict`, 0 to 1, tells what all of them led to.
static void password_draw_slots(const Password* env, float newest, float verdict, bool has_opened) {
    const int length = env->length, count = env->position;
    float size = fminf(PASSWORD_SLOT_SIZE, (PASSWORD_WIDTH - 2.0f * PASSWORD_MARGIN) / (float)length - 6.0f);
    float pitch = size + fminf(PASSWORD_SLOT_GAP, 6.0f + size * 0.1f);
    float left = 0.5f * (PASSWORD_WIDTH - pitch * (float)length + pitch - size);
    Color color = puffer_mix(PUFFER_PANEL, has_opened ? PUFFER_CYAN : PUFFER_RED, verdict);
    for (int i = 0; i < length; i++, left += pitch) {
        float share = i < count - 1 ? 1.0f : i == count - 1 ? newest : 0.0f;
        puffer_rounded(left, PASSWORD_SLOT_Y - 0.5f * size, size, size, 0.2f * size, color);
        if (i == count)
            puffer_rectangle(left + 0.3f * size, PASSWORD_SLOT_Y + 0.28f * size, 0.4f * size, 3.0f, PUFFER_MUTED);
        if (share > 0.0f) {
            puffer_text(env->typed[i] < 0 ? "-" : TextFormat("%d", env->typed[i]), left + 0.5f * size, PASSWORD_SLOT_Y,
                        0.62f * size, PUFFER_CENTER, puffer_fade(PUFFER_WHITE, share));
        }
    }
}

static void password_draw_keys(int key, float share) {
    for (int i = 0; i < PASSWORD_NUM_KEYS; i++) {
        puffer_key((float)(PASSWORD_MARGIN + i * (PASSWORD_KEY_WIDTH + PASSWORD_KEY_GAP)), PASSWORD_KEY_Y,
                   PASSWORD_KEY_WIDTH, PASSWORD_KEY_HEIGHT, TextFormat("%d", i), PUFFER_CYAN, i == key ? share : 0.0f);
    }
}

static void c_render(Client* client, const Password* before, const Password* now, float progress) {
    bool is_between = progress < 1.0f, has_ended = before != now && now->terminals[0];
    if (has_ended && progress >= 0.5f && puffer_tally_add(&client->tries, &now->rng, now->rewards[0])) {
        client->last = password_after(before);
    }
    // The end is seen in the second half of its step, and fades while the next episode begins.
    bool is_after = !has_ended && before->position == 0 && client->tries.count > 0;
    float verdict = has_ended ? puffer_ease(clampf(2.0f * progress - 1.0f, 0.0f, 1.0f)) : 0.0f;
    if (is_after) verdict = puffer_flash(progress, 0.5f);
    bool has_opened = verdict > 0.0f && client->tries.newest > 0.0f;
    Password shown = verdict > 0.0f ? client->last : is_between ? password_after(before) : *now;

    puffer_counter("OPENED", TextFormat("%d / %d", (int)client->tries.sum, client->tries.count), PASSWORD_MARGIN,
                   0.5f * PASSWORD_HEADER, PUFFER_LEFT);
    for (int i = 0; i < PASSWORD_NUM_DOORS; i++) {
        password_draw_door(i, i == shown.door ? 1.0f : 0.0f, i == shown.door && has_opened ? verdict : 0.0f);
    }
    float newest = is_between && !is_after ? puffer_ease(fminf(2.0f * progress, 1.0f)) : 1.0f;
    password_draw_slots(&shown, newest, verdict, has_opened);
    password_draw_keys(((const int32_t*)before->actions)[0], is_between ? sinf(PUFFER_PI * progress) : 0.0f);
}

static void c_close_client(Client* client) { (void)client; }
