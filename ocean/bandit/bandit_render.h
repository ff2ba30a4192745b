// bandit_render.h - the purse and four machines with a lamp each, which burns when the machine pays. Under a machine is
// how often it paid and was pulled in this episode; the bar below is what is left of the pulls.
#pragma once

#include "bandit.h"
#include "puffer_lights.h"

typedef Bandit Env;

enum { BANDIT_WIDTH = 800, BANDIT_HEIGHT = 500, BANDIT_MARGIN = 40, BANDIT_HEADER = 84 };
enum { BANDIT_CARD_WIDTH = 124, BANDIT_CARD_HEIGHT = 300, BANDIT_CARD_GAP = 25, BANDIT_CARD_Y = 100 };
enum { BANDIT_BAR_HEIGHT = 10 };

typedef struct {
    char unused;
} Client;

static PufferPicture c_open_client(Client* client, const Bandit* env) {
    (void)client, (void)env;
    PufferPicture picture = {BANDIT_WIDTH, BANDIT_HEIGHT, 4.0f, "PufferLib bandit"};
    return picture;
}

static int bandit_coins(const Bandit* env) {
    int coins = 0;
    for (int i = 0; i < BANDIT_NUM_ACTIONS; i++) coins += env->paid[i];
    return coins;
}

// ---------------------------------------------------------------------------------------------------------- drawing

static float bandit_card_x(int action) {
    return (float)(BANDIT_MARGIN + action * (BANDIT_CARD_WIDTH + BANDIT_CARD_GAP));
}

static void bandit_draw_card(float x, float share, const char* name, const char* number) {
    const float centre = x + 0.5f * BANDIT_CARD_WIDTH, bottom = BANDIT_CARD_Y + BANDIT_CARD_HEIGHT;
    puffer_rounded(x - 3.0f, BANDIT_CARD_Y - 3.0f, BANDIT_CARD_WIDTH + 6.0f, BANDIT_CARD_HEIGHT + 6.0f, 18.0f,
                   puffer_mix(PUFFER_BACKGROUND, PUFFER_CYAN, share));
    puffer_rounded(x, BANDIT_CARD_Y, BANDIT_CARD_WIDTH, BANDIT_CARD_HEIGHT, 16.0f, PUFFER_PANEL);
    puffer_text(name, centre, bottom - 62.0f, 34.0f, PUFFER_CENTER, PUFFER_WHITE);
    puffer_text(number, centre, bottom - 26.0f, 20.0f, PUFFER_CENTER, PUFFER_MUTED);
}

// A bag with a knot; full, and with nothing in it once it was `taken`, 0 to 1.
static void bandit_draw_purse(float share, float taken) {
    const float x = bandit_card_x(BANDIT_PURSE), centre = x + 0.5f * BANDIT_CARD_WIDTH, y = BANDIT_CARD_Y + 92.0f;
    bandit_draw_card(x, share, "TAKE", "and go");
    float size = 1.0f - 0.35f * taken;
    Vector2 neck[3] = {{centre, y - 14.0f * size},
                       {centre + 24.0f * size, y - 52.0f * size},
                       {centre - 24.0f * size, y - 52.0f * size}};
    puffer_polygon(neck, 3, PUFFER_RED);
    puffer_disc(centre, y + 8.0f, 38.0f * size, PUFFER_RED);
    puffer_line(centre - 14.0f * size, y - 26.0f * size, centre + 14.0f * size, y - 26.0f * size, 7.0f, PUFFER_WHITE);
    puffer_text("+1", centre, y + 10.0f, 30.0f * size, PUFFER_CENTER, PUFFER_WHITE);
}

// `pull` moves the lever, `paid` lights the lamp, both 0 to 1.
static void bandit_draw_machine(const Bandit* env, int machine, float pull, float paid) {
    const float x = bandit_card_x(machine), centre = x + 0.5f * BANDIT_CARD_WIDTH, y = BANDIT_CARD_Y + 70.0f;
    int pulls = env->pulled[machine];
    const char* number = pulls > 0 ? TextFormat("%d of %d", env->paid[machine], pulls) : "";
    bandit_draw_card(x, pull, TextFormat("%d", machine), number);
    puffer_lamp(centre, y, 32.0f, PUFFER_CYAN, paid);
    const float hinge = BANDIT_CARD_Y + 168.0f, reach = 50.0f;
    float angle = puffer_lerp(-0.2f, 0.2f, pull) * PUFFER_PI;  // the lever points up, then down
    Vector2 knob = {centre - 26.0f + reach * cosf(angle), hinge + reach * sinf(angle)};
    puffer_line(centre - 26.0f, hinge, knob.x, knob.y, 7.0f, PUFFER_MUTED);
    puffer_disc(centre - 26.0f, hinge, 8.0f, PUFFER_EDGE);
    puffer_disc(knob.x, knob.y, 12.0f, PUFFER_RED);
}

static void c_render(Client* client, const Bandit* before, const Bandit* now, float progress) {
    (void)client;
    bool is_between = progress < 1.0f;
    const Bandit* shown = is_between ? before : now;
    int action = is_between ? ((const int32_t*)before->actions)[0] : -1;
    float pull = sinf(PUFFER_PI * progress), paid = now->rewards[0] > 0.0f ? sqrtf(pull) : 0.0f;
    int coins = bandit_coins(shown), left = shown->pulls - shown->num_pulled;

    puffer_counter("COINS", TextFormat("%d", coins), BANDIT_MARGIN, 0.5f * BANDIT_HEADER, PUFFER_LEFT);
    puffer_counter("PULLS LEFT", TextFormat("%d", left), BANDIT_WIDTH - BANDIT_MARGIN, 0.5f * BANDIT_HEADER,
                   PUFFER_RIGHT);
    bandit_draw_purse(action == BANDIT_PURSE ? pull : 0.0f, action == BANDIT_PURSE ? paid : 0.0f);
    for (int machine = 1; machine <= BANDIT_NUM_MACHINES; machine++) {
        bool is_pulled = machine == action;
        bandit_draw_machine(shown, machine, is_pulled ? pull : 0.0f, is_pulled ? paid : 0.0f);
    }
    float share = ((float)left - (is_between ? progress : 0.0f)) / (float)shown->pulls;
    puffer_bar(BANDIT_MARGIN, BANDIT_HEIGHT - 50.0f, BANDIT_WIDTH - 2 * BANDIT_MARGIN, BANDIT_BAR_HEIGHT, share,
               PUFFER_CYAN);
}

static void c_close_client(Client* client) { (void)client; }
