// puffer_render.h - what every `<name>_render.h` stands on: raylib, the palette, and the contract.
//
// A render header defines a struct `Client` with whatever drawing needs to remember (trails, textures), and
//
//     c_open_client(Client*, const Env*)   fills the zeroed client, returns the window it wants; there may be none yet
//     c_render(const Env*, Client*)        draws one frame of that environment
//     c_close_client(Client*)              unloads what c_render loaded; the window still exists
//
// A client belongs to one environment: when another one is drawn, it is closed and opened anew.
// Drawing reads the environment's struct only: never its arrays, which may be gone, and never writes to it.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "raylib.h.modified"

static const Color PUFFER_BACKGROUND = {6, 24, 24, 255};
static const Color PUFFER_PANEL = {12, 44, 44, 255};  // a shade above the background: cells, tracks, walls
static const Color PUFFER_CYAN = {0, 187, 187, 255};
static const Color PUFFER_RED = {187, 0, 0, 255};
static const Color PUFFER_WHITE = {241, 241, 241, 255};

typedef struct {
    int width, height;  // pixels
    int fps;            // frames a second that look natural to a person
    const char* title;
} PufferWindow;
