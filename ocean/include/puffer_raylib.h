// puffer_raylib.h - raylib, the palette, and the C interface between the screen and the render modules: the one font.
#pragma once

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "raylib.h.modified"

// rlgl, which raylib itself draws with. Its header brings OpenGL's along; these are all that is needed.
void rlDrawRenderBatchActive(void);
void rlPushMatrix(void);
void rlPopMatrix(void);
void rlTranslatef(float x, float y, float z);
void rlScalef(float x, float y, float z);
void rlSetTexture(unsigned int id);
void rlBegin(int mode);
void rlEnd(void);
void rlVertex2f(float x, float y);
void rlColor4ub(unsigned char r, unsigned char g, unsigned char b, unsigned char a);

enum { PUFFER_TRIANGLES = 4 };  // for rlBegin

#define PUFFER_PI (3.14159265f)

static const Color PUFFER_BACKGROUND = {6, 24, 24, 255};
static const Color PUFFER_PANEL = {12, 44, 44, 255};  // a shade above the background: cells, tracks, walls
static const Color PUFFER_CYAN = {0, 187, 187, 255};
static const Color PUFFER_RED = {187, 0, 0, 255};
static const Color PUFFER_WHITE = {241, 241, 241, 255};

// The screen's module has a PyCapsule of this name that points at a PufferFonts. Each size is baked once.
#define PUFFER_FONTS_CAPSULE "pufferlib.ocean.fonts"
#define PUFFER_FONTS_VERSION 1u

typedef struct {
    uint32_t version;          // PUFFER_FONTS_VERSION of the module that made it; check before anything else
    Font (*font)(int pixels);  // of lines that high; valid until the next call, and only while a screen is open
} PufferFonts;
