// multiagent_render.h - a card for each agent: the number that it sees, what it must add, its answer, and whether that
// was right. Below are the right ones of all in its own episode, whose time is the bar.
#pragma once

#include "multiagent.h"
#include "puffer_lights.h"

typedef Multiagent Env;

enum { MULTIAGENT_WIDTH = 800, MULTIAGENT_HEIGHT = 520, MULTIAGENT_MARGIN = 34, MULTIAGENT_HEADER = 84 };
enum { MULTIAGENT_CARD_WIDTH = 165, MULTIAGENT_CARD_GAP = 24, MULTIAGENT_CARD_Y = 100, MULTIAGENT_CARD_HEIGHT = 380 };
enum { MULTIAGENT_BAR_HEIGHT = 10 };

typedef struct {
    char unused;
} Client;

static PufferPicture c_open_client(Client* client, const Multiagent* env) {
    (void)client, (void)env;
    PufferPicture picture = {MULTIAGENT_WIDTH, MULTIAGENT_HEIGHT, 2.5f, "PufferLib multiagent"};
    return picture;
}

// ---------------------------------------------------------------------------------------------------------- drawing

// The lamp with the number, and how it comes to the answer; `share`, 0 to 1, of the answer is there.
static void multiagent_draw_answer(const Multiagent* before, const Multiagent* now, int index, float x, float share) {
    const float centre = x + 0.5f * MULTIAGENT_CARD_WIDTH, lamp_y = MULTIAGENT_CARD_Y + 84.0f, low_y = lamp_y + 128.0f;
    const Multiagent* shown = share < 1.0f ? before : now;
    puffer_lamp(centre, lamp_y, 40.0f, PUFFER_CYAN, 0.35f);
    puffer_text(TextFormat("%d", shown->agents[index].number), centre, lamp_y, 48.0f, PUFFER_CENTER, PUFFER_WHITE);
    puffer_text(TextFormat("+ %d", index), centre, lamp_y + 66.0f, 24.0f, PUFFER_CENTER, PUFFER_MUTED);
    bool is_right = before != now && now->rewards[index] > 0.0f;
    float there = shown == now ? 0.0f : clampf(2.0f * share, 0.0f, 1.0f);  // none yet to the number of `now`
    puffer_rounded(centre - 34.0f, low_y - 34.0f, 68.0f, 68.0f, 14.0f,
                   puffer_mix(PUFFER_BACKGROUND, is_right ? PUFFER_CYAN : PUFFER_RED, there));
    puffer_text(TextFormat("%d", ((const int32_t*)before->actions)[index]), centre, low_y, 44.0f, PUFFER_CENTER,
                puffer_fade(PUFFER_WHITE, there));
}

static void multiagent_draw_card(const Multiagent* before, const Multiagent* now, int index, float progress) {
    const float x = (float)(MULTIAGENT_MARGIN + index * (MULTIAGENT_CARD_WIDTH + MULTIAGENT_CARD_GAP));
    const float centre = x + 0.5f * MULTIAGENT_CARD_WIDTH, width = MULTIAGENT_CARD_WIDTH - 40.0f;
    const MultiagentAgent* agent = &(progress < 1.0f ? before : now)->agents[index];
    puffer_rounded(x, MULTIAGENT_CARD_Y, MULTIAGENT_CARD_WIDTH, MULTIAGENT_CARD_HEIGHT, 18.0f, PUFFER_PANEL);
    puffer_text(TextFormat("AGENT %d", index), centre, MULTIAGENT_CARD_Y + 24.0f, 18.0f, PUFFER_CENTER, PUFFER_MUTED);
    multiagent_draw_answer(before, now, index, x, puffer_ease(progress));
    puffer_text(TextFormat("%d of %d right", agent->num_right, agent->num_steps), centre, MULTIAGENT_CARD_Y + 308.0f,
                20.0f, PUFFER_CENTER, PUFFER_MUTED);
    float steps = (float)agent->num_steps + (progress < 1.0f ? progress : 0.0f);
    float filled = width * steps / (float)multiagent_episode_length(now, index);
    puffer_rounded(x + 20.0f, MULTIAGENT_CARD_Y + 344.0f, width, MULTIAGENT_BAR_HEIGHT, 5.0f, PUFFER_BACKGROUND);
    if (filled > 0.0f) {
        puffer_rounded(x + 20.0f, MULTIAGENT_CARD_Y + 344.0f, fmaxf(filled, MULTIAGENT_BAR_HEIGHT),
                       MULTIAGENT_BAR_HEIGHT, 5.0f, PUFFER_CYAN);
    }
}

static void c_render(Client* client, const Multiagent* before, const Multiagent* now, float progress) {
    (void)client;
    int right = 0, steps = 0;
    for (int i = 0; i < MULTIAGENT_NUM_AGENTS; i++) {
        const MultiagentAgent* agent = &(progress < 1.0f ? before : now)->agents[i];
        right += agent->num_right;
        steps += agent->num_steps;
        multiagent_draw_card(before, now, i, progress);
    }
    puffer_counter("RIGHT", TextFormat("%d / %d", right, steps), MULTIAGENT_MARGIN, 0.5f * MULTIAGENT_HEADER,
                   PUFFER_LEFT);
}

static void c_close_client(Client* client) { (void)client; }
