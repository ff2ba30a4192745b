// puffer_render.h - what every `<name>_render.h` stands on: the contract, and shapes, colours and text to draw with.
//
// A render header says `typedef Squared Env;`, defines a struct `Client` with whatever drawing needs to remember
// (trails, textures), and
//
//     c_open_client(Client*, const Env*)   fills the zeroed client, returns the picture it wants; before any screen
//     c_render(Client*, const Env* before, const Env* now, float progress)   draws one moment of the last step
//     c_close_client(Client*)              unloads what c_render loaded; the screen is still there
//
// A client belongs to one environment. The picture is drawn in its own pixels, from (0, 0) to the width and height that
// c_open_client asked for, on the background colour. Where on the screen it lies, and how large, is the caller's
// affair: all that is drawn follows, raylib's own shapes too.
//
// `before` and `now` are copies of the environment, arrays included: before and after one c_step. `progress` is the
// part of that step that is over, 0 to 1. A picture must follow it: at 0 it shows `before`, at 1 `now`, and what moved
// lies in between at 0.5; the tests compare the three. Two ways:
//
// - Where a step is one move, slide: puffer_lerp from the old place to the new one.
// - Where a step is several frames, play the first of them again. `before` has arrays of its own, with the actions that
//   led to `now`, so that a copy of it can be stepped:
//
//       Pong moment = *before;
//       moment.frameskip = (int)(progress * (float)before->frameskip);
//       if (moment.frameskip > 0) c_step(&moment);
//
// When the episode ended in this step, a flag in `now->terminals` or `now->truncations` is set, and `now` is already
// the first state of the next one: nothing slides from one to the other. Show the old one until progress is 1. Where no
// step came in between, `before` is `now` and progress is 1. Drawing never writes to `now`.
#pragma once

#include "puffer_shapes.h"

static const Color PUFFER_EDGE = {30, 66, 66, 255};      // lines on the background or a panel: walls, grids
static const Color PUFFER_MUTED = {124, 140, 140, 255};  // labels, what matters less

typedef struct {
    int width, height;       // pixels
    float steps_per_second;  // that look natural to a person
    const char* title;       // a constant, PufferLib and the game in small letters, digits, spaces: "PufferLib my game"
} PufferPicture;

// From 0 to 1 like its argument, but starting and stopping gently.
static inline float puffer_ease(float share) { return share * share * (3.0f - 2.0f * share); }

// What is left of a flash that lasts `duration`, from 1 at once to 0; 0 before it as well.
static inline float puffer_flash(float age, float duration) {
    return age >= 0.0f && age < duration ? 1.0f - age / duration : 0.0f;
}

// A word in small capitals and its number beside it, larger; x is the left end of both or, aligned right, their right
// end, y the middle of the line.
static inline void puffer_counter(const char* label, const char* number, float x, float y, PufferAlign align) {
    const float label_size = 20.0f, number_size = 44.0f, gap = puffer_is_legible(label_size) ? 12.0f : 0.0f;
    float label_width = puffer_text_width(label, label_size), number_width = puffer_text_width(number, number_size);
    float left = align == PUFFER_LEFT ? x : x - label_width - gap - number_width;
    puffer_text(label, left, y + 7.0f, label_size, PUFFER_LEFT, PUFFER_MUTED);
    puffer_text(number, left + label_width + gap, y, number_size, PUFFER_LEFT, PUFFER_WHITE);
}

// A round bar of which `share`, 0 to 1, is filled.
static inline void puffer_bar(float x, float y, float width, float height, float share, Color color) {
    puffer_rounded(x, y, width, height, 0.5f * height, PUFFER_PANEL);
    float filled = share * width;
    if (filled > 0.0f) puffer_rounded(x, y, filled > height ? filled : height, height, 0.5f * height, color);
}

// The tail of something round that moves: where its centre was lately, newest first. Zeroed it is empty.
enum { PUFFER_TAIL_PLACES = 24, PUFFER_TAIL_MAX_DOTS = 16 };  // dots from one place to the next
typedef struct {
    Vector2 places[PUFFER_TAIL_PLACES];  // pixels of the picture
    float times[PUFFER_TAIL_PLACES];
    int length;
} PufferTail;

// Adds where it is now; a time that is no later than the newest replaces that.
static inline void puffer_tail_add(PufferTail* tail, float x, float y, float time) {
    if (tail->length == 0 || time > tail->times[0]) {
        memmove(tail->places + 1, tail->places, sizeof(tail->places) - sizeof(tail->places[0]));
        memmove(tail->times + 1, tail->times, sizeof(tail->times) - sizeof(tail->times[0]));
        if (tail->length < PUFFER_TAIL_PLACES) tail->length += 1;
    }
    tail->places[0] = (Vector2){x, y};
    tail->times[0] = time;
}

// Draws what is younger than `duration`, ever thinner and fading from `color` into `ground`.
static inline void puffer_tail_draw(const PufferTail* tail, float radius, float duration, Color color, Color ground) {
    for (int i = tail->length - 2; i >= 0; i--) {
        Vector2 from = tail->places[i + 1], to = tail->places[i];
        float distance = sqrtf((to.x - from.x) * (to.x - from.x) + (to.y - from.y) * (to.y - from.y));
        int dots = 2 + (int)fminf(distance / (0.3f * radius), (float)PUFFER_TAIL_MAX_DOTS - 2.0f);
        for (int dot = 1; dot <= dots; dot++) {
            float share = (float)dot / (float)dots;
            float age = tail->times[0] - puffer_lerp(tail->times[i + 1], tail->times[i], share);
            float left = puffer_flash(age, duration);
            if (left <= 0.0f || left >= 1.0f) continue;
            puffer_disc(puffer_lerp(from.x, to.x, share), puffer_lerp(from.y, to.y, share),
                        radius * (0.35f + 0.6f * left), puffer_mix(ground, color, left * left));
        }
    }
}
