// template_render.h - the four questions in a row: the one that is asked cyan, a bar for the right answers.
//
// Drawing reads the struct and never writes to it. Keep what it must remember between frames in Client.
#pragma once

#include "puffer_render.h"
#include "template.h"

enum { TEMPLATE_CARD = 120, TEMPLATE_GAP = 20, TEMPLATE_MARGIN = 30, TEMPLATE_BAR_HEIGHT = 12, TEMPLATE_FONT = 60 };
enum { TEMPLATE_WIDTH = TEMPLATE_NUM_QUESTIONS * (TEMPLATE_CARD + TEMPLATE_GAP) - TEMPLATE_GAP + 2 * TEMPLATE_MARGIN };
enum { TEMPLATE_HEIGHT = TEMPLATE_CARD + TEMPLATE_BAR_HEIGHT + 3 * TEMPLATE_MARGIN };

typedef Template Env;

typedef struct {
    char unused;  // nothing to remember between frames
} Client;

static PufferPicture c_open_client(Client* client, const Template* env) {
    PufferPicture picture = {TEMPLATE_WIDTH, TEMPLATE_HEIGHT, 5, "PufferLib template"};
    return picture;
}

static void template_draw_card(int question, bool is_asked) {
    int x = TEMPLATE_MARGIN + question * (TEMPLATE_CARD + TEMPLATE_GAP);
    const char* text = TextFormat("%d", question);
    DrawRectangle(x, TEMPLATE_MARGIN, TEMPLATE_CARD, TEMPLATE_CARD, is_asked ? PUFFER_CYAN : PUFFER_PANEL);
    DrawText(text, x + (TEMPLATE_CARD - MeasureText(text, TEMPLATE_FONT)) / 2,
             TEMPLATE_MARGIN + (TEMPLATE_CARD - TEMPLATE_FONT) / 2, TEMPLATE_FONT, PUFFER_WHITE);
}

static void c_render(Client* client, const Template* before, const Template* env, float progress) {
    for (int question = 0; question < TEMPLATE_NUM_QUESTIONS; question++) {
        template_draw_card(question, question == env->question);
    }
    int bar_y = TEMPLATE_CARD + 2 * TEMPLATE_MARGIN, bar_width = TEMPLATE_WIDTH - 2 * TEMPLATE_MARGIN;
    DrawRectangle(TEMPLATE_MARGIN, bar_y, bar_width, TEMPLATE_BAR_HEIGHT, PUFFER_PANEL);
    DrawRectangle(TEMPLATE_MARGIN, bar_y, bar_width * env->num_right / env->rounds, TEMPLATE_BAR_HEIGHT, PUFFER_WHITE);
}

static void c_close_client(Client* client) { (void)client; }
