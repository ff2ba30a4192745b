// screen.h - what pictures are drawn with in a page: the functions of raylib that puffer_shapes.h is made of, as a
// rasterizer of triangles and letters into memory, which a canvas shows. It stands in for raylib.h.
//
// A pixel belongs to a triangle when its middle does; an edge that two triangles share is computed the same for both,
// so that they neither overlap nor part. Nothing outside of the clip is written.
#pragma once

#include <stdbool.h>

#include "libc.h"

typedef struct {
    float x, y;
} Vector2;

typedef struct {
    float x, y, z;
} Vector3;

typedef struct {
    unsigned char r, g, b, a;
} Color;

typedef struct {
    float x, y, width, height;
} Rectangle;

// A letter as the page has drawn it: how much of each pixel it covers, 0 to 255. The page fills these in.
typedef struct {
    int code;           // of Unicode
    int advance;        // pixels to the next letter
    int left, top;      // of its box, pixels from where it is written
    int width, height;  // pixels
    const uint8_t* coverage;
} Glyph;

typedef struct {
    int baseSize;    // pixels from line to line
    int glyphCount;  // 0 where the page has no font
    const Glyph* glyphs;
} Font;

enum { SCREEN_MAX_PIXELS = 1 << 21, SCREEN_NUM_GLYPHS = 101 };

typedef float Channels __attribute__((vector_size(16)));  // red, green, blue, alpha

typedef struct {
    float x, y;
    uint32_t color;  // red in the lowest byte, as a canvas has it
} Corner;

static struct {
    uint32_t pixels[SCREEN_MAX_PIXELS];
    int width, height;
    int left, top, right, bottom;  // the clip
    float x, y, scale;             // where (0, 0) of what is drawn lies, and its size
    uint32_t color;
    Corner corners[3];  // of the next triangle
    int num_corners;
} screen;

// ----------------------------------------------------------------------------------------------------------- pixels

static inline Channels channels_of(uint32_t color) {
    return (Channels){(float)(color & 255), (float)(color >> 8 & 255), (float)(color >> 16 & 255),
                      (float)(color >> 24)};
}

// `color` over a pixel, with an alpha of 0 to 256.
static inline uint32_t blended(uint32_t pixel, uint32_t color, uint32_t alpha) {
    uint32_t rest = 256 - alpha;
    uint32_t odd = ((pixel & 0xFF00FF) * rest + (color & 0xFF00FF) * alpha) >> 8 & 0xFF00FF;
    uint32_t even = ((pixel & 0xFF00) * rest + (color & 0xFF00) * alpha) >> 8 & 0xFF00;
    return odd | even | 0xFF000000u;
}

static void fill_span(uint32_t* pixels, int count, uint32_t color) {
    uint32_t alpha = (color >> 24) + (color >> 31);
    if (alpha == 256) {
        for (int i = 0; i < count; i++) pixels[i] = color;
    } else {
        for (int i = 0; i < count; i++) pixels[i] = blended(pixels[i], color, alpha);
    }
}

// From `begin` on, `slope` more with every pixel.
static void shade_span(uint32_t* pixels, int count, Channels begin, Channels slope) {
    for (int i = 0; i < count; i++, begin += slope) {
        float parts[4];
        for (int channel = 0; channel < 4; channel++) parts[channel] = fminf(fmaxf(begin[channel], 0.0f), 255.0f);
        uint32_t color = (uint32_t)parts[0] | (uint32_t)parts[1] << 8 | (uint32_t)parts[2] << 16;
        uint32_t alpha = (uint32_t)(parts[3] + 0.5f);
        pixels[i] = blended(pixels[i], color, alpha + (alpha >> 7));
    }
}

// -------------------------------------------------------------------------------------------------------- triangles

static inline bool is_above(const Corner* one, const Corner* other) {
    return one->y < other->y || (one->y == other->y && one->x < other->x);
}

static inline float edge_at(const Corner* upper, const Corner* lower, float y) {
    return upper->x + (lower->x - upper->x) * ((y - upper->y) / (lower->y - upper->y));
}

static inline int pixel_from(float place, int low, int high) {
    float first = ceilf(place - 0.5f);
    return first > (float)low ? first < (float)high ? (int)first : high : low;  // low where it is not a number
}

static void fill_triangle(const Corner* one, const Corner* two, const Corner* three) {
    const Corner *a = one, *b = two, *c = three, *swap;
    if (is_above(b, a)) swap = a, a = b, b = swap;
    if (is_above(c, b)) swap = b, b = c, c = swap;
    if (is_above(b, a)) swap = a, a = b, b = swap;
    bool is_plain = a->color == b->color && b->color == c->color;
    if (is_plain && a->color >> 24 == 0) return;
    float area = (b->x - a->x) * (c->y - a->y) - (c->x - a->x) * (b->y - a->y);
    if (!(fabsf(area) > 1e-6f)) return;
    Channels base = channels_of(a->color), across = {0}, down = {0};
    if (!is_plain) {
        Channels to_b = channels_of(b->color) - base, to_c = channels_of(c->color) - base;
        across = (to_b * (c->y - a->y) - to_c * (b->y - a->y)) / area;
        down = (to_c * (b->x - a->x) - to_b * (c->x - a->x)) / area;
    }
    int first = pixel_from(a->y, screen.top, screen.bottom), end = pixel_from(c->y, screen.top, screen.bottom);
    for (int row = first; row < end; row++) {
        float y = (float)row + 0.5f, there = edge_at(a, c, y);
        float here = y < b->y ? edge_at(a, b, y) : edge_at(b, c, y);
        int left = pixel_from(fminf(here, there), screen.left, screen.right);
        int right = pixel_from(fmaxf(here, there), screen.left, screen.right);
        if (left >= right) continue;
        uint32_t* pixels = screen.pixels + row * screen.width + left;
        if (is_plain) {
            fill_span(pixels, right - left, a->color);
        } else {
            shade_span(pixels, right - left, base + across * ((float)left + 0.5f - a->x) + down * (y - a->y), across);
        }
    }
}

static inline void rlSetTexture(unsigned int id) {}
static inline void rlBegin(int mode) { screen.num_corners = 0; }
static inline void rlEnd(void) {}

static inline void rlColor4ub(unsigned char r, unsigned char g, unsigned char b, unsigned char a) {
    screen.color = (uint32_t)r | (uint32_t)g << 8 | (uint32_t)b << 16 | (uint32_t)a << 24;
}

static inline void rlVertex2f(float x, float y) {
    Corner* corners = screen.corners;
    corners[screen.num_corners++] = (Corner){screen.x + screen.scale * x, screen.y + screen.scale * y, screen.color};
    if (screen.num_corners < 3) return;
    screen.num_corners = 0;
    fill_triangle(&corners[0], &corners[1], &corners[2]);
}

// ------------------------------------------------------------------------------------------------------------- text

// Has the page write a text into `size` bytes, by C's format and arguments.
JS("page", "format") void page_format(char* text, size_t size, const char* format, va_list arguments);

static const char* TextFormat(const char* format, ...) __attribute__((unused));
static const char* TextFormat(const char* format, ...) {
    static char texts[4][256];
    static int last;
    last = (last + 1) % 4;
    va_list arguments;
    va_start(arguments, format);
    page_format(texts[last], sizeof(texts[last]), format, arguments);
    va_end(arguments);
    return texts[last];
}

static inline unsigned int TextLength(const char* text) { return (unsigned int)strlen(text); }

// The glyph of the letter that the text begins with, which becomes the rest; `?` for one that the font lacks.
static const Glyph* next_glyph(const Font* font, const char** text) {
    const unsigned char* bytes = (const unsigned char*)*text;
    int code = bytes[0], more = code < 0xC0 ? 0 : code < 0xE0 ? 1 : code < 0xF0 ? 2 : 3, length = 1;
    if (more > 0) code &= 0x3F >> more;
    for (; length <= more && (bytes[length] & 0xC0) == 0x80; length++) code = code << 6 | (bytes[length] & 0x3F);
    *text += length;
    const Glyph* found = &font->glyphs['?' - ' '];
    for (int i = 0; i < font->glyphCount; i++) {
        if (font->glyphs[i].code == code) return &font->glyphs[i];
    }
    return found;
}

static inline Vector2 MeasureTextEx(Font font, const char* text, float size, float spacing) {
    float width = 0.0f;
    while (font.glyphCount > 0 && *text != '\0') {
        width += (float)next_glyph(&font, &text)->advance + spacing;
    }
    return (Vector2){fmaxf(width - spacing, 0.0f), size};
}

static void draw_glyph(const Glyph* glyph, int x, int y, Color color) {
    uint32_t solid = (uint32_t)color.r | (uint32_t)color.g << 8 | (uint32_t)color.b << 16;
    for (int row = 0; row < glyph->height; row++) {
        for (int column = 0; column < glyph->width; column++) {
            int there = x + glyph->left + column, below = y + glyph->top + row;
            uint32_t covered = glyph->coverage[row * glyph->width + column] * (uint32_t)color.a / 255;
            bool is_inside =
                there >= screen.left && there < screen.right && below >= screen.top && below < screen.bottom;
            if (!is_inside || covered == 0) continue;
            uint32_t* pixel = &screen.pixels[below * screen.width + there];
            *pixel = blended(*pixel, solid, covered + (covered >> 7));
        }
    }
}

// In the size that the font has, whatever is asked for: puffer_text takes the right one.
static inline void DrawTextEx(Font font, const char* text, Vector2 place, float size, float spacing, Color color) {
    float x = roundf(screen.x + screen.scale * place.x), y = roundf(screen.y + screen.scale * place.y);
    while (font.glyphCount > 0 && *text != '\0') {
        const Glyph* glyph = next_glyph(&font, &text);
        draw_glyph(glyph, (int)x, (int)y, color);
        x += (float)glyph->advance + roundf(spacing * screen.scale);
    }
}
