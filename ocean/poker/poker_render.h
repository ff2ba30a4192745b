// poker_render.h - the table: the agent's cards below, the other's above, face down while a bot holds them, and the
// board between them with the chips that each has put in. What a player does stands beside its cards.
#pragma once

#include "poker.h"
#include "puffer_render.h"

typedef Poker Env;

enum { POKER_WIDTH = 860, POKER_HEIGHT = 640, POKER_HEADER = 80, POKER_MARGIN = 30, POKER_MAX_STAGES = 8 };
enum { POKER_CARD_WIDTH = 84, POKER_CARD_HEIGHT = 120, POKER_CARD_GAP = 12, POKER_PILE = 8 };

static const Color POKER_CARD_COLOR = {241, 241, 241, 255};
static const Color POKER_INK = {6, 24, 24, 255};

typedef struct {
    uint64_t
        ended_before;    // state of the random numbers before the step that ended the last hand: it tells hands apart
    int num_hands, won;  // chips of the agent
} Client;

static PufferPicture c_open_client(Client* client, const Poker* env) {
    (void)client;
    const char* titles[POKER_NUM_GAMES] = {"PufferLib kuhn poker", "PufferLib leduc poker", "PufferLib limit holdem"};
    PufferPicture picture = {POKER_WIDTH, POKER_HEIGHT, 1.0f, titles[env->game]};
    return picture;
}

static Color poker_color(int player) { return player == 0 ? PUFFER_CYAN : PUFFER_RED; }

// --------------------------------------------------------------------------------------------------------- cards

static void poker_draw_heart(float x, float y, float size, float up, Color color) {
    float lobe = 0.27f * size;
    puffer_disc(x, y, 0.12f * size, color);
    puffer_disc(x - lobe * 0.95f, y - up * 0.16f * size, lobe, color);
    puffer_disc(x + lobe * 0.95f, y - up * 0.16f * size, lobe, color);
    Vector2 below[3] = {
        {x - 0.49f * size, y - 0.02f * size}, {x, y + 0.5f * size}, {x + 0.49f * size, y - 0.02f * size}};
    Vector2 above[3] = {
        {x + 0.49f * size, y + 0.02f * size}, {x, y - 0.5f * size}, {x - 0.49f * size, y + 0.02f * size}};
    puffer_polygon(up > 0.0f ? below : above, 3, color);
}

static void poker_draw_stem(float x, float y, float size, Color color) {
    Vector2 stem[3] = {{x, y + 0.05f * size}, {x - 0.2f * size, y + 0.52f * size}, {x + 0.2f * size, y + 0.52f * size}};
    puffer_polygon(stem, 3, color);
}

// Spades, hearts, clubs, diamonds, by the number of the suit.
static void poker_draw_suit(int suit, float x, float y, float size) {
    Color color = suit % 2 ? PUFFER_RED : POKER_INK;
    if (suit == 0) {
        poker_draw_heart(x, y, size, -1.0f, color);
        poker_draw_stem(x, y, size, color);
    } else if (suit == 1) {
        poker_draw_heart(x, y, size, 1.0f, color);
    } else if (suit == 2) {
        puffer_disc(x, y, 0.12f * size, color);
        puffer_disc(x, y - 0.22f * size, 0.24f * size, color);
        puffer_disc(x - 0.25f * size, y + 0.12f * size, 0.24f * size, color);
        puffer_disc(x + 0.25f * size, y + 0.12f * size, 0.24f * size, color);
        poker_draw_stem(x, y, size, color);
    } else {
        Vector2 corners[4] = {{x, y - 0.52f * size}, {x - 0.4f * size, y}, {x, y + 0.52f * size}, {x + 0.4f * size, y}};
        puffer_polygon(corners, 4, color);
    }
}

// A card whose middle is at a place, turned over by `open`, 0 to 1.
static void poker_draw_card(const Poker* env, int card, float x, float y, float open) {
    const PokerRules* rules = poker_rules(env);
    float width = POKER_CARD_WIDTH * fmaxf(fabsf(2.0f * open - 1.0f), 0.04f), left = x - 0.5f * width;
    float top = y - 0.5f * POKER_CARD_HEIGHT;
    puffer_rounded(left - 2.0f, top - 2.0f, width + 4.0f, POKER_CARD_HEIGHT + 4.0f, 12.0f, PUFFER_BACKGROUND);
    if (open < 0.5f) {
        puffer_rounded(left, top, width, POKER_CARD_HEIGHT, 10.0f, puffer_mix(PUFFER_RED, PUFFER_BACKGROUND, 0.35f));
        puffer_rounded(left + 0.1f * width, top + 9.0f, 0.8f * width, POKER_CARD_HEIGHT - 18.0f, 6.0f,
                       puffer_mix(PUFFER_RED, PUFFER_BACKGROUND, 0.6f));
        return;
    }
    puffer_rounded(left, top, width, POKER_CARD_HEIGHT, 10.0f, POKER_CARD_COLOR);
    if (open < 1.0f) return;
    int suit = card / rules->num_ranks, rank = card % rules->num_ranks + (rules->num_ranks < 13 ? 9 : 0);
    puffer_text(TextFormat("%c", "23456789TJQKA"[rank]), x - 24.0f, top + 24.0f, 38.0f, PUFFER_CENTER,
                suit % 2 ? PUFFER_RED : POKER_INK);
    poker_draw_suit(suit, x + 6.0f, y + 18.0f, 46.0f);
}

static float poker_card_x(int index, int count) {
    return 0.5f * POKER_WIDTH + (POKER_CARD_WIDTH + POKER_CARD_GAP) * ((float)index - 0.5f * (float)(count - 1));
}

static float poker_hand_y(int player) {
    return player == 0 ? POKER_HEIGHT - POKER_MARGIN - 0.5f * POKER_CARD_HEIGHT - 6.0f
                       : POKER_HEADER + 0.5f * POKER_CARD_HEIGHT + 6.0f;
}

static float poker_middle_y(void) { return 0.5f * (poker_hand_y(0) + poker_hand_y(1)); }

static void poker_draw_hand(const Poker* env, int player, float open) {
    int count = poker_rules(env)->num_hole;
    for (int i = 0; i < count; i++) {
        poker_draw_card(env, env->holes[player][i], poker_card_x(i, count), poker_hand_y(player), open);
    }
}

// Places for all cards of the board, and those that are there; the last `num_new` slide in.
static void poker_draw_board(const Poker* env, int num_new, float share) {
    int count = 0;
    for (int i = 0; i < POKER_MAX_ROUNDS; i++) count += poker_rules(env)->num_dealt[i];
    for (int i = 0; i < count; i++) {
        float x = poker_card_x(i, count), y = poker_middle_y();
        puffer_rounded(x - 0.5f * POKER_CARD_WIDTH, y - 0.5f * POKER_CARD_HEIGHT, POKER_CARD_WIDTH, POKER_CARD_HEIGHT,
                       10.0f, puffer_mix(PUFFER_PANEL, PUFFER_EDGE, 0.35f));
        bool is_new = i >= env->num_board - num_new;
        if (i < env->num_board) poker_draw_card(env, env->board[i], x, y, is_new ? share : 1.0f);
    }
}

// --------------------------------------------------------------------------------------------------------- chips

static Vector2 poker_chip(int player, int index) {
    float x = 66.0f + 36.0f * (float)(index / POKER_PILE);
    float y = poker_middle_y() + (player == 0 ? 92.0f : -28.0f) - 8.0f * (float)(index % POKER_PILE);
    return (Vector2){POKER_MARGIN + x, y};
}

// The chips of a player, those from `num_before` on still on their way, and how many there are.
static void poker_draw_chips(int player, int num_before, int count, float share) {
    for (int i = 0; i < count; i++) {
        Vector2 place = poker_chip(player, i);
        float y = i < num_before ? place.y : puffer_lerp(poker_hand_y(player), place.y, share);
        puffer_rounded(place.x - 16.0f, y - 5.0f, 32.0f, 10.0f, 4.0f,
                       puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.3f));
        puffer_rounded(place.x - 15.0f, y - 4.0f, 30.0f, 7.0f, 3.0f, poker_color(player));
    }
    puffer_text(TextFormat("%d", share < 0.5f ? num_before : count), POKER_MARGIN + 24.0f, poker_chip(player, 3).y,
                30.0f, PUFFER_CENTER, PUFFER_WHITE);
}

static void poker_draw_label(int player, const char* text, Color color) {
    puffer_text(text, POKER_WIDTH - POKER_MARGIN - 180.0f, poker_hand_y(player) + (player == 0 ? -58.0f : 58.0f), 34.0f,
                PUFFER_CENTER, color);
}

// ---------------------------------------------------------------------------------------------------------- one step

// What happens in a step, one action after another: the hand before each, and at the end.
typedef struct {
    Poker moments[POKER_MAX_STAGES + 1];
    int actions[POKER_MAX_STAGES];
    int count;     // of actions
    bool is_over;  // the hand is
    int won;       // chips of player 0 then
} PokerScript;

static void poker_script(PokerScript* script, const Poker* before) {
    uint8_t observations[2 * 257];
    Poker moment = *before;
    moment.observations = observations;
    script->count = script->won = 0;
    script->is_over = false;
    script->moments[0] = moment;
    int action = poker_agent_action(&moment);
    moment.num_steps += 1;
    do {
        script->actions[script->count++] = action;
        script->is_over = poker_play(&moment, action, &script->won);
        script->moments[script->count] = moment;
        if (script->is_over || moment.num_agents == 2 || moment.turn == 0) break;
        action = poker_bot_action(&moment);
    } while (script->count < POKER_MAX_STAGES);
}

static const char* poker_word(const Poker* moment, int action) {
    bool is_facing = poker_can_fold(moment);
    if (action == POKER_FOLD) return "FOLDS";
    if (action == POKER_CALL) return is_facing ? "CALLS" : "CHECKS";
    return is_facing ? "RAISES" : "BETS";
}

static void poker_draw_table(const Client* client, const Poker* env) {
    const float top = poker_hand_y(1), height = poker_hand_y(0) - top;
    puffer_rounded(POKER_MARGIN, top - 8.0f, POKER_WIDTH - 2.0f * POKER_MARGIN, height + 16.0f, 150.0f, PUFFER_EDGE);
    puffer_rounded(POKER_MARGIN + 6.0f, top - 2.0f, POKER_WIDTH - 2.0f * POKER_MARGIN - 12.0f, height + 4.0f, 144.0f,
                   puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.75f));
    float y = 0.5f * POKER_HEADER - 8.0f;
    puffer_counter("HANDS", TextFormat("%d", client->num_hands), POKER_MARGIN, y, PUFFER_LEFT);
    puffer_counter("CHIPS", TextFormat("%+d", client->won), POKER_WIDTH - POKER_MARGIN, y, PUFFER_RIGHT);
    float button = poker_hand_y(env->first), x = 0.5f * POKER_WIDTH - 150.0f;
    puffer_disc(x, button, 15.0f, PUFFER_WHITE);
    puffer_text("1", x, button, 20.0f, PUFFER_CENTER, POKER_INK);
}

// A moment between two, of which the first action's player acts; `share` of it is over.
static void poker_draw_stage(const PokerScript* script, int stage, float share) {
    const Poker *from = &script->moments[stage], *to = &script->moments[stage + 1];
    float ease = puffer_ease(fminf(1.4f * share, 1.0f));
    for (int player = 0; player < 2; player++) {
        poker_draw_hand(from, player, player == 0 || from->num_agents == 2 ? 1.0f : 0.0f);
        poker_draw_chips(player, from->chips[player], to->chips[player], ease);
    }
    poker_draw_board(to, to->num_board - from->num_board, share);
    float light = puffer_ease(fminf(4.0f * share, 1.0f));
    poker_draw_label(from->turn, poker_word(from, script->actions[stage]),
                     puffer_mix(puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.75f), PUFFER_WHITE, light));
}

// The end of a hand: what the other one held, unless one folded, and who wins.
static void poker_draw_end(const PokerScript* script, float share) {
    const Poker* end = &script->moments[script->count];
    bool is_shown = end->num_agents == 2 || script->actions[script->count - 1] != POKER_FOLD;
    poker_draw_hand(end, 0, 1.0f);
    poker_draw_hand(end, 1, end->num_agents == 2 ? 1.0f : is_shown ? fminf(2.0f * share, 1.0f) : 0.0f);
    for (int player = 0; player < 2; player++) poker_draw_chips(player, end->chips[player], end->chips[player], 1.0f);
    poker_draw_board(end, 0, 1.0f);
    int chips = script->won < 0 ? -script->won : script->won;
    for (int player = 0; player < 2; player++) {
        bool is_winner = script->won != 0 && (script->won > 0) == (player == 0);
        if (script->won == 0 || is_winner) {
            poker_draw_label(player, script->won ? TextFormat("WINS %d", chips) : "SHARES",
                             puffer_mix(poker_color(player), PUFFER_WHITE, 0.35f + 0.3f * share));
        }
    }
}

static void c_render(Client* client, const Poker* before, const Poker* now, float progress) {
    bool has_ended = before != now && now->terminals[0];
    if (has_ended && progress >= 1.0f && client->ended_before != before->rng.state) {
        client->ended_before = before->rng.state;
        client->num_hands += 1;
        client->won += (int)roundf(now->rewards[0] * (float)poker_rules(now)->stake);
    }
    poker_draw_table(client, progress < 1.0f ? before : now);
    if (progress >= 1.0f) {
        for (int player = 0; player < 2; player++) {
            poker_draw_hand(now, player, player == 0 || now->num_agents == 2 ? 1.0f : 0.0f);
            poker_draw_chips(player, now->chips[player], now->chips[player], 1.0f);
        }
        poker_draw_board(now, 0, 1.0f);
        return;
    }
    PokerScript script;
    poker_script(&script, before);
    float at = progress * (float)(script.count + script.is_over);
    int stage = (int)at;
    if (stage < script.count) {
        poker_draw_stage(&script, stage, at - (float)stage);
    } else {
        poker_draw_end(&script, at - (float)stage);
    }
}

static void c_close_client(Client* client) { (void)client; }
