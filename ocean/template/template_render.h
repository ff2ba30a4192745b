// template_render.h - the four questions in a row: the one that is asked cyan, a bar for the right answers.
//
// A picture is drawn from two copies of the environment, before and after the last step, and the share of the step that
// is over: so it moves between the steps. puffer_render.h has the rules, the palette, and the shapes to draw with.
#pragma once

#include "puffer_render.h"
#include "template.h"

typedef Template Env;

// Sizes are pixels of the picture; it is scaled to wherever it is shown.
enum { TEMPLATE_CARD = 120, TEMPLATE_GAP = 20, TEMPLATE_MARGIN = 30, TEMPLATE_HEADER = 84, TEMPLATE_BAR_HEIGHT = 10 };
enum { TEMPLATE_WIDTH = TEMPLATE_NUM_QUESTIONS * (TEMPLATE_CARD + TEMPLATE_GAP) - TEMPLATE_GAP + 2 * TEMPLATE_MARGIN };
enum { TEMPLATE_HEIGHT = TEMPLATE_HEADER + TEMPLATE_CARD + TEMPLATE_BAR_HEIGHT + 2 * TEMPLATE_MARGIN };

// What drawing needs to remember between pictures, such as the places of a trail.
typedef struct {
    char unused;
} Client;

// The title of the window must be PufferLib and the name in small letters, digits and spaces.
static PufferPicture c_open_client(Client* client, const Template* env) {
    PufferPicture picture = {TEMPLATE_WIDTH, TEMPLATE_HEIGHT, 3.0f, "PufferLib template"};
    return picture;
}

// `light` from 0, not asked, to 1, asked.
static void template_draw_card(int question, float light) {
    float x = (float)(TEMPLATE_MARGIN + question * (TEMPLATE_CARD + TEMPLATE_GAP));
    puffer_rounded(x, TEMPLATE_HEADER, TEMPLATE_CARD, TEMPLATE_CARD, 16.0f,
                   puffer_mix(PUFFER_PANEL, PUFFER_CYAN, light));
    puffer_text(TextFormat("%d", question), x + 0.5f * TEMPLATE_CARD, TEMPLATE_HEADER + 0.5f * TEMPLATE_CARD, 72.0f,
                PUFFER_CENTER, puffer_mix(PUFFER_MUTED, PUFFER_WHITE, light));
}

// Draws the moment at which `progress`, 0 to 1, of the step from `before` to `now` is over: what moves must follow it.
static void c_render(Client* client, const Template* before, const Template* now, float progress) {
    bool has_ended = now->terminals[0] || now->truncations[0];  // then `now` is the next episode's first state
    float share = has_ended && progress < 1.0f ? 0.0f : puffer_ease(progress);
    for (int question = 0; question < TEMPLATE_NUM_QUESTIONS; question++) {
        template_draw_card(question, puffer_lerp(question == before->question, question == now->question, share));
    }
    float right = puffer_lerp((float)before->num_right, (float)now->num_right, share);
    puffer_counter("RIGHT ANSWERS", TextFormat("%d", (int)right), TEMPLATE_MARGIN, 0.5f * TEMPLATE_HEADER, PUFFER_LEFT);
    puffer_bar(TEMPLATE_MARGIN, TEMPLATE_HEADER + TEMPLATE_CARD + TEMPLATE_MARGIN, TEMPLATE_WIDTH - 2 * TEMPLATE_MARGIN,
               TEMPLATE_BAR_HEIGHT, right / (float)now->rounds, PUFFER_CYAN);
}

// Unloads what c_render loaded, such as textures.
static void c_close_client(Client* client) { (void)client; }
