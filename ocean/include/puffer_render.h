// puffer_render.h - what every `<name>_render.h` stands on: raylib, the palette, shapes with soft edges, text, and the
// contract.
//
// A render header says `typedef Squared Env;`, defines a struct `Client` with whatever drawing needs to remember
// (trails, textures), and
//
//     c_open_client(Client*, const Env*)    fills the zeroed client, returns the picture it wants; no screen is open
//     yet c_render(Client*, const Env* before, const Env* now, float progress)   draws one moment of the last step
//     c_close_client(Client*)               unloads what c_render loaded; the screen is still there
//
// A client belongs to one environment. The picture is drawn in its own pixels, from (0, 0) to the width and height that
// c_open_client asked for; where on the screen it lies, and how large, is the caller's affair, and everything below and
// raylib's own shapes follow it.
//
// `before` and `now` are copies of the environment, arrays included: before and after one c_step. `progress` is the
// part of that step that has passed, 0 to 1. Draw what lies in between, and at 1 draw `now`. Two ways:
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
// the first state of the next one: nothing slides from one to the other; show the old one until progress is 1. Where no
// step came in between (after a reset, on a picture that stands still), `before` is `now`. Drawing never writes to
// `now`.
#pragma once

#include "puffer_shapes.h"

typedef struct {
    int width, height;       // pixels
    float steps_per_second;  // that look natural to a person
    const char* title;       // a constant
} PufferPicture;
