// puffer_lights.h - lamps, keys and marks: what the pictures of the diagnostic environments are made of; after
// puffer_render.h.
#pragma once

#include "puffer_env.h"
#include "puffer_render.h"

// A lamp of glass, from dark to burning with `share`, 0 to 1.
static inline void puffer_lamp(float x, float y, float radius, Color color, float share) {
    Color glass = puffer_mix(PUFFER_PANEL, color, 0.08f + 0.92f * share);
    if (share > 0.0f) puffer_glow(x, y, 2.1f * radius, puffer_fade(color, 0.55f * share));
    puffer_disc(x, y, radius, glass);
    puffer_ring(x, y, radius, 0.08f * radius, puffer_mix(PUFFER_EDGE, PUFFER_WHITE, 0.6f * share));
    puffer_disc(x - 0.32f * radius, y - 0.36f * radius, 0.16f * radius,
                puffer_fade(PUFFER_WHITE, 0.10f + 0.5f * share));
}

// A key with a word on it, from at rest to pressed with `share`, 0 to 1: it sinks and takes the colour.
static inline void puffer_key(float x, float y, float width, float height, const char* word, Color color, float share) {
    const float travel = 5.0f;  // pixels
    puffer_rounded(x, y + travel, width, height, 12.0f, puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.5f));
    puffer_rounded(x, y + travel * share, width, height, 12.0f, puffer_mix(PUFFER_PANEL, color, share));
    puffer_text(word, x + 0.5f * width, y + travel * share + 0.5f * height, 0.42f * height, PUFFER_CENTER,
                puffer_mix(PUFFER_MUTED, PUFFER_WHITE, share));
}

// A tick or a cross, `size` from side to side.
static inline void puffer_mark(float x, float y, float size, bool is_right, float share) {
    const float half = 0.5f * size, width = 0.16f * size;
    Color color = puffer_fade(is_right ? PUFFER_CYAN : PUFFER_RED, share);
    if (is_right) {
        puffer_line(x - half, y, x - 0.15f * size, y + 0.7f * half, width, color);
        puffer_line(x - 0.15f * size, y + 0.7f * half, x + half, y - 0.8f * half, width, color);
    } else {
        puffer_line(x - 0.8f * half, y - 0.8f * half, x + 0.8f * half, y + 0.8f * half, width, color);
        puffer_line(x - 0.8f * half, y + 0.8f * half, x + 0.8f * half, y - 0.8f * half, width, color);
    }
}

// What was shown of steps that count, such as the ends of episodes; zeroed it is nothing yet. The generator of the
// state that such a step leads to tells it from others, so that it counts once in however many pictures it is seen.
typedef struct {
    uint64_t last;  // that generator's
    int count;      // steps
    float sum;      // of what each was worth
    float newest;   // what the last one was worth
} PufferTally;

// Counts a step unless it was the last one; says whether it did.
static inline bool puffer_tally_add(PufferTally* tally, const Rng* rng, float worth) {
    if (tally->count > 0 && tally->last == rng->state) return false;
    tally->last = rng->state;
    tally->count += 1;
    tally->sum += worth;
    tally->newest = worth;
    return true;
}
