// puffer_shapes.h - shapes with soft edges and text, for puffer_render.h and the screen's own module.
//
// An edge fades out over one pixel of the screen, which is what makes slanted lines smooth and slow motion steady. All
// is drawn as plain triangles: raylib's own shapes carry a texture, which its software renderer takes twenty times as
// long to fill. Coordinates and sizes are pixels of the picture; an alpha below 255 lets through what lies below.
#pragma once

#include "puffer_raylib.h"

// Where the picture lies on the screen.
typedef struct {
    float x, y;   // of its left top corner, pixels of the screen
    float scale;  // pixels of the screen in one of the picture
    Font (*font)(int pixels);
} PufferView;

static PufferView puffer_view;  // set by the module before it draws

// ---------------------------------------------------------------------------------------------------------- colours

static inline float puffer_lerp(float a, float b, float share_of_b) { return a + share_of_b * (b - a); }

static inline unsigned char puffer_mix_part(unsigned char a, unsigned char b, float share_of_b) {
    return (unsigned char)(puffer_lerp((float)a, (float)b, share_of_b) + 0.5f);
}

// The colour between two; share_of_b from 0 to 1.
static inline Color puffer_mix(Color a, Color b, float share_of_b) {
    Color mixed = {puffer_mix_part(a.r, b.r, share_of_b), puffer_mix_part(a.g, b.g, share_of_b),
                   puffer_mix_part(a.b, b.b, share_of_b), puffer_mix_part(a.a, b.a, share_of_b)};
    return mixed;
}

// The colour with its alpha times `share`, 0 to 1.
static inline Color puffer_fade(Color color, float share) {
    color.a = (unsigned char)((float)color.a * share + 0.5f);
    return color;
}

// ------------------------------------------------------------------------------------------------------- the outline

// Points around a convex shape, counterclockwise as seen, each with the direction in which its edge fades.
enum { PUFFER_MAX_POINTS = 192 };

typedef struct {
    Vector2 points[PUFFER_MAX_POINTS];
    Vector2 outward[PUFFER_MAX_POINTS];  // of length 1, at sharp corners more
    int count;
} PufferOutline;

static inline void puffer_add_point(PufferOutline* outline, Vector2 point, Vector2 outward) {
    if (outline->count == PUFFER_MAX_POINTS) return;
    outline->points[outline->count] = point;
    outline->outward[outline->count++] = outward;
}

// Chords in a quarter of a circle: so many that none is a third of a pixel of the screen off the arc.
static inline int puffer_chords(float radius) {
    float chords = 1.3f * sqrtf(fmaxf(radius * puffer_view.scale, 0.0f));
    return chords < 2.0f ? 2 : chords < 40.0f ? (int)chords : 40;
}

// An arc around a centre, from one angle to a smaller one (radians, 0 right, half pi down): counterclockwise as seen.
static inline void puffer_add_arc(PufferOutline* outline, Vector2 center, float radius, float from, float to) {
    int chords = (int)ceilf((float)puffer_chords(radius) * (from - to) / (0.5f * PUFFER_PI));
    for (int i = 0; i <= chords; i++) {
        float angle = puffer_lerp(from, to, (float)i / (float)chords);
        Vector2 outward = {cosf(angle), sinf(angle)};
        Vector2 point = {center.x + radius * outward.x, center.y + radius * outward.y};
        puffer_add_point(outline, point, outward);
    }
}

static inline void puffer_set_color(Color color) { rlColor4ub(color.r, color.g, color.b, color.a); }

static inline void puffer_vertex(const PufferOutline* outline, int index, float offset) {
    Vector2 point = outline->points[index], outward = outline->outward[index];
    rlVertex2f(point.x + offset * outward.x, point.y + offset * outward.y);
}

// Fills between two offsets from the outline, from one colour to the other.
static inline void puffer_fill_band(const PufferOutline* outline, float inner, float outer, Color inside,
                                    Color outside) {
    for (int i = 0; i < outline->count; i++) {
        int next = i + 1 < outline->count ? i + 1 : 0;
        puffer_set_color(inside);
        puffer_vertex(outline, i, inner);
        puffer_set_color(outside);
        puffer_vertex(outline, i, outer);
        puffer_vertex(outline, next, outer);
        puffer_vertex(outline, next, outer);
        puffer_set_color(inside);
        puffer_vertex(outline, next, inner);
        puffer_vertex(outline, i, inner);
    }
}

static inline void puffer_begin_triangles(void) {
    rlSetTexture(0);
    rlBegin(PUFFER_TRIANGLES);
}

// Fills an outline; its edge fades out across it.
static inline void puffer_fill(const PufferOutline* outline, Color color) {
    float half = 0.5f / puffer_view.scale;
    puffer_begin_triangles();
    puffer_set_color(color);
    for (int i = 1; i + 1 < outline->count; i++) {
        puffer_vertex(outline, 0, -half);
        puffer_vertex(outline, i, -half);
        puffer_vertex(outline, i + 1, -half);
    }
    puffer_fill_band(outline, -half, half, color, puffer_fade(color, 0.0f));
    rlEnd();
}

// ----------------------------------------------------------------------------------------------------------- shapes

static inline void puffer_disc(float x, float y, float radius, Color color) {
    PufferOutline outline = {.count = 0};
    puffer_add_arc(&outline, (Vector2){x, y}, radius, 2.0f * PUFFER_PI, 0.0f);
    puffer_fill(&outline, color);
}

// A circle of some width around the radius.
static inline void puffer_ring(float x, float y, float radius, float width, Color color) {
    PufferOutline outline = {.count = 0};
    float half = 0.5f / puffer_view.scale, reach = 0.5f * width;
    puffer_add_arc(&outline, (Vector2){x, y}, radius, 2.0f * PUFFER_PI, 0.0f);
    puffer_begin_triangles();
    puffer_fill_band(&outline, -reach - half, -reach + half, puffer_fade(color, 0.0f), color);
    puffer_fill_band(&outline, -reach + half, reach - half, color, color);
    puffer_fill_band(&outline, reach - half, reach + half, color, puffer_fade(color, 0.0f));
    rlEnd();
}

// Light around a point: `color` in the middle, nothing at the radius, fading faster at first.
static inline void puffer_glow(float x, float y, float radius, Color color) {
    PufferOutline outline = {.count = 0};
    puffer_add_arc(&outline, (Vector2){x, y}, radius, 2.0f * PUFFER_PI, 0.0f);
    Color middle = puffer_fade(color, 0.3f);
    puffer_begin_triangles();
    puffer_fill_band(&outline, -radius, -0.55f * radius, color, middle);
    puffer_fill_band(&outline, -0.55f * radius, 0.0f, middle, puffer_fade(color, 0.0f));
    rlEnd();
}

// A straight stroke with round ends.
static inline void puffer_line(float from_x, float from_y, float to_x, float to_y, float width, Color color) {
    PufferOutline outline = {.count = 0};
    float angle = atan2f(to_y - from_y, to_x - from_x), quarter = 0.5f * PUFFER_PI;
    puffer_add_arc(&outline, (Vector2){to_x, to_y}, 0.5f * width, angle + quarter, angle - quarter);
    puffer_add_arc(&outline, (Vector2){from_x, from_y}, 0.5f * width, angle - quarter, angle - 3.0f * quarter);
    puffer_fill(&outline, color);
}

// A convex polygon with sharp corners, counterclockwise as seen, no two of them at the same place.
static inline void puffer_polygon(const Vector2* corners, int count, Color color) {
    PufferOutline outline = {.count = 0};
    for (int i = 0; i < count; i++) {
        Vector2 last = corners[(i + count - 1) % count], corner = corners[i], next = corners[(i + 1) % count];
        float before_x = corner.x - last.x, before_y = corner.y - last.y;
        float after_x = next.x - corner.x, after_y = next.y - corner.y;
        float before = hypotf(before_x, before_y), after = hypotf(after_x, after_y);
        // The sum of the two edges' normals, made so long that its foot on either is 1.
        float x = -before_y / before - after_y / after, y = before_x / before + after_x / after;
        float scale = 2.0f / fmaxf(x * x + y * y, 0.25f);
        puffer_add_point(&outline, corner, (Vector2){scale * x, scale * y});
    }
    puffer_fill(&outline, color);
}

static inline void puffer_quad(float left, float top, float right, float bottom, Color upper, Color lower) {
    puffer_set_color(upper);
    rlVertex2f(left, top);
    puffer_set_color(lower);
    rlVertex2f(left, bottom);
    rlVertex2f(right, bottom);
    rlVertex2f(right, bottom);
    puffer_set_color(upper);
    rlVertex2f(right, top);
    rlVertex2f(left, top);
}

// A side of a rectangle, cut where the screen's pixels begin: the part of the first, whole pixels, the part of the
// last.
typedef struct {
    float edges[4];
    float shares[3];  // of a pixel that are covered, 0 to 1
} PufferCut;

static inline PufferCut puffer_cut(float begin, float length, float offset) {
    const float scale = puffer_view.scale, hair = 1.0f / 64.0f;
    float low = offset + scale * begin, high = low + scale * length;
    float first = ceilf(low - hair), last = floorf(high + hair);
    PufferCut cut;
    cut.shares[1] = 1.0f;
    if (first <= last) {
        cut.shares[0] = first - low > hair ? first - low : 0.0f;
        cut.shares[2] = high - last > hair ? high - last : 0.0f;
    } else {  // within one pixel
        last = first;
        cut.shares[0] = high - low;
        cut.shares[2] = 0.0f;
    }
    float edges[4] = {first - 1.0f, first, last, last + 1.0f};
    for (int i = 0; i < 4; i++) cut.edges[i] = (edges[i] - offset) / scale;
    return cut;
}

// An upright rectangle, in one colour above and another below: sharp where its edges are those of the screen's pixels.
static inline void puffer_shaded_rectangle(float x, float y, float width, float height, Color upper, Color lower) {
    PufferCut columns = puffer_cut(x, width, puffer_view.x), rows = puffer_cut(y, height, puffer_view.y);
    puffer_begin_triangles();
    for (int row = 0; row < 3; row++) {
        Color above = row == 2 ? lower : upper, below = row == 0 ? upper : lower;
        for (int column = 0; column < 3; column++) {
            float share = rows.shares[row] * columns.shares[column];
            if (share <= 0.0f) continue;
            puffer_quad(columns.edges[column], rows.edges[row], columns.edges[column + 1], rows.edges[row + 1],
                        puffer_fade(above, share), puffer_fade(below, share));
        }
    }
    rlEnd();
}

static inline void puffer_rectangle(float x, float y, float width, float height, Color color) {
    puffer_shaded_rectangle(x, y, width, height, color, color);
}

// An upright rectangle with round corners; sharp ones where they would be smaller than a pixel of the screen.
static inline void puffer_rounded(float x, float y, float width, float height, float radius, Color color) {
    if (radius * puffer_view.scale < 1.0f) {
        puffer_rectangle(x, y, width, height, color);
        return;
    }
    float most = 0.5f * fminf(width, height), r = radius < most ? radius : most, quarter = 0.5f * PUFFER_PI;
    PufferOutline outline = {.count = 0};
    puffer_add_arc(&outline, (Vector2){x + width - r, y + height - r}, r, quarter, 0.0f);
    puffer_add_arc(&outline, (Vector2){x + width - r, y + r}, r, 0.0f, -quarter);
    puffer_add_arc(&outline, (Vector2){x + r, y + r}, r, -quarter, -2.0f * quarter);
    puffer_add_arc(&outline, (Vector2){x + r, y + height - r}, r, -2.0f * quarter, -3.0f * quarter);
    puffer_fill(&outline, color);
}

// ------------------------------------------------------------------------------------------------------------- text

typedef enum { PUFFER_LEFT, PUFFER_CENTER, PUFFER_RIGHT } PufferAlign;

// The font's size on the screen, whole pixels: letters are drawn as they were baked.
static inline Font puffer_font(float size) { return puffer_view.font((int)(size * puffer_view.scale + 0.5f)); }

// raylib cuts the width of a letter to whole pixels, half a pixel on average: small ones would stand too close.
static inline float puffer_spacing(Font font) { return font.baseSize < 18 ? 1.0f : 0.0f; }

// Of a line as the screen shows it, pixels of the screen.
static inline float puffer_font_width(Font font, const char* text) {
    return MeasureTextEx(font, text, (float)font.baseSize, puffer_spacing(font)).x;
}

// Whether letters of that size can be read on the screen; puffer_text leaves others out.
static inline bool puffer_is_legible(float size) { return size * puffer_view.scale >= 5.0f; }

// How wide puffer_text writes a line.
static inline float puffer_text_width(const char* text, float size) {
    if (!puffer_is_legible(size)) return 0.0f;
    return puffer_font_width(puffer_font(size), text) / puffer_view.scale;
}

// One line: x is its left end, its middle or its right end, y the middle of its capitals, which are 0.6 of the size
// high.
static inline void puffer_text(const char* text, float x, float y, float size, PufferAlign align, Color color) {
    const float scale = puffer_view.scale;
    if (!puffer_is_legible(size)) return;
    Font font = puffer_font(size);
    float left = puffer_view.x + scale * x - 0.5f * (float)align * puffer_font_width(font, text);
    float top = puffer_view.y + scale * y - 0.5f * (float)font.baseSize;
    Vector2 place = {(roundf(left) - puffer_view.x) / scale, (roundf(top) - puffer_view.y) / scale};
    DrawTextEx(font, text, place, (float)font.baseSize / scale, puffer_spacing(font) / scale, color);
}
