// squared_render.h - the grid from above: the agent a cyan square, the target a red one, a bar for the time left.
#pragma once

#include "puffer_render.h"
#include "squared.h"

enum { SQUARED_BOARD_PIXELS = 660, SQUARED_MARGIN = 30, SQUARED_BAR_HEIGHT = 12 };

typedef Squared Env;

typedef struct {
    float cell;  // pixels along one side
} Client;

static PufferPicture c_open_client(Client* client, const Squared* env) {
    client->cell = (float)SQUARED_BOARD_PIXELS / (float)env->size;
    PufferPicture picture = {SQUARED_BOARD_PIXELS + 2 * SQUARED_MARGIN,
                             SQUARED_BOARD_PIXELS + 3 * SQUARED_MARGIN + SQUARED_BAR_HEIGHT, 10, "PufferLib squared"};
    return picture;
}

static void squared_draw_cell(const Squared* env, const Client* client, int cell, float inset, Color color) {
    Rectangle square = {SQUARED_MARGIN + client->cell * (float)(cell % env->size) + inset,
                        SQUARED_MARGIN + client->cell * (float)(cell / env->size) + inset, client->cell - 2.0f * inset,
                        client->cell - 2.0f * inset};
    DrawRectangleRec(square, color);
}

static void c_render(Client* client, const Squared* before, const Squared* env, float progress) {
    for (int cell = 0; cell < env->size * env->size; cell++) squared_draw_cell(env, client, cell, 1.0f, PUFFER_PANEL);
    squared_draw_cell(env, client, env->target, 0.15f * client->cell, PUFFER_RED);
    squared_draw_cell(env, client, env->agent, 0.15f * client->cell, PUFFER_CYAN);

    int bar_y = SQUARED_BOARD_PIXELS + 2 * SQUARED_MARGIN;
    int left = SQUARED_BOARD_PIXELS * env->steps_left / (SQUARED_STEPS_PER_SIZE * env->size);
    DrawRectangle(SQUARED_MARGIN, bar_y, SQUARED_BOARD_PIXELS, SQUARED_BAR_HEIGHT, PUFFER_PANEL);
    DrawRectangle(SQUARED_MARGIN, bar_y, left, SQUARED_BAR_HEIGHT, PUFFER_WHITE);
}

static void c_close_client(Client* client) { (void)client; }
