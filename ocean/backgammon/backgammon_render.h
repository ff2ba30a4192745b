// backgammon_render.h - the board from above, seen from the agent's side: its checkers are cyan and go home to the
// lower right, the other's are red. Dice that are played grow dark; beside the board stand the checkers that are borne
// off.
#pragma once

#include "backgammon.h"
#include "puffer_render.h"

typedef Backgammon Env;

enum { BACKGAMMON_MARGIN = 30, BACKGAMMON_HEADER = 84, BACKGAMMON_PIXELS = 58, BACKGAMMON_MIDDLE = 64 };
enum { BACKGAMMON_HEIGHT = 640, BACKGAMMON_TRAY = 64, BACKGAMMON_FOOTER = 20, BACKGAMMON_STACK = 5 };
enum { BACKGAMMON_LEFT = BACKGAMMON_MARGIN + 10, BACKGAMMON_TOP = BACKGAMMON_HEADER + 30 };
enum { BACKGAMMON_WIDTH = 12 * BACKGAMMON_PIXELS + BACKGAMMON_MIDDLE };

#define BACKGAMMON_RADIUS (25.0f)

typedef struct {
    uint64_t
        ended_before;  // state of the random numbers before the step that ended the last game: it tells games apart
    int points[2];     // won by each player
} Client;

static PufferPicture c_open_client(Client* client, const Backgammon* env) {
    (void)client, (void)env;
    PufferPicture picture = {2 * BACKGAMMON_LEFT + BACKGAMMON_WIDTH + BACKGAMMON_TRAY,
                             BACKGAMMON_TOP + BACKGAMMON_HEIGHT + BACKGAMMON_FOOTER + 40, 2.0f, "PufferLib backgammon"};
    return picture;
}

static Color backgammon_color(int player) { return player == 0 ? PUFFER_CYAN : PUFFER_RED; }

// Where the lowest checker of a place lies, the others towards the middle of the board. Points are numbered from player
// 0's side: its home is at the lower right.
static Vector2 backgammon_place(int player, int place, int height) {
    int point = player == 0 ? place : BACKGAMMON_POINTS - 1 - place;
    bool is_below = place >= BACKGAMMON_BAR ? player == 0 : point < 12;
    int stacked = height % BACKGAMMON_STACK;
    float y = 30.0f + 2.0f * BACKGAMMON_RADIUS * (float)stacked - 8.0f * (float)(height / BACKGAMMON_STACK);
    float x;
    if (place == BACKGAMMON_OFF) {
        x = BACKGAMMON_WIDTH + 10.0f + 0.5f * BACKGAMMON_TRAY;
        y = 22.0f + 17.0f * (float)height;
    } else if (place == BACKGAMMON_BAR) {
        x = 0.5f * BACKGAMMON_WIDTH;
        y = 0.5f * BACKGAMMON_HEIGHT - 60.0f - 34.0f * (float)height;
    } else {
        int column = point < 12 ? 11 - point : point - 12;
        x = BACKGAMMON_PIXELS * ((float)column + 0.5f) + (column >= 6 ? BACKGAMMON_MIDDLE : 0.0f);
    }
    return (Vector2){BACKGAMMON_LEFT + x, BACKGAMMON_TOP + (is_below ? BACKGAMMON_HEIGHT - y : y)};
}

static void backgammon_draw_board(void) {
    const float reach = 250.0f, half = 0.5f * BACKGAMMON_PIXELS;
    const Color board = puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.6f);
    puffer_rounded(BACKGAMMON_LEFT - 12.0f, BACKGAMMON_TOP - 12.0f, BACKGAMMON_WIDTH + BACKGAMMON_TRAY + 34.0f,
                   BACKGAMMON_HEIGHT + 24.0f, 16.0f, PUFFER_EDGE);
    puffer_rectangle(BACKGAMMON_LEFT, BACKGAMMON_TOP, 6 * BACKGAMMON_PIXELS, BACKGAMMON_HEIGHT, board);
    puffer_rectangle(BACKGAMMON_LEFT + 6 * BACKGAMMON_PIXELS + BACKGAMMON_MIDDLE, BACKGAMMON_TOP, 6 * BACKGAMMON_PIXELS,
                     BACKGAMMON_HEIGHT, board);
    puffer_rectangle(BACKGAMMON_LEFT + BACKGAMMON_WIDTH + 10.0f, BACKGAMMON_TOP, BACKGAMMON_TRAY, BACKGAMMON_HEIGHT,
                     board);
    for (int point = 0; point < BACKGAMMON_POINTS; point++) {
        float x = backgammon_place(0, point, 0).x,
              foot = point < 12 ? BACKGAMMON_TOP + BACKGAMMON_HEIGHT : BACKGAMMON_TOP;
        float tip = point < 12 ? foot - reach : foot + reach;
        Color color =
            point % 2 ? puffer_mix(PUFFER_EDGE, PUFFER_CYAN, 0.22f) : puffer_mix(PUFFER_EDGE, PUFFER_PANEL, 0.3f);
        Vector2 upright[3] = {{x - half + 2.0f, foot}, {x + half - 2.0f, foot}, {x, tip}};
        Vector2 hanging[3] = {{x + half - 2.0f, foot}, {x - half + 2.0f, foot}, {x, tip}};
        puffer_polygon(point < 12 ? upright : hanging, 3, color);
        const char* letter = TextFormat("%c", 'a' + point);
        puffer_text(letter, x, point < 12 ? foot + 26.0f : foot - 26.0f, 20.0f, PUFFER_CENTER, PUFFER_MUTED);
    }
}

static void backgammon_draw_checker(Vector2 middle, int player) {
    Color color = backgammon_color(player);
    puffer_disc(middle.x, middle.y, BACKGAMMON_RADIUS, puffer_mix(color, PUFFER_BACKGROUND, 0.45f));
    puffer_disc(middle.x, middle.y, BACKGAMMON_RADIUS - 3.0f, color);
    puffer_ring(middle.x, middle.y, 0.6f * BACKGAMMON_RADIUS, 3.0f, puffer_mix(color, PUFFER_WHITE, 0.35f));
}

// A checker that is borne off, seen from its edge.
static void backgammon_draw_edge(Vector2 middle, int player) {
    puffer_rounded(middle.x - 24.0f, middle.y - 7.0f, 48.0f, 14.0f, 4.0f, backgammon_color(player));
}

// All checkers of a player at one place, but for those that are on their way.
static void backgammon_draw_stack(const Backgammon* env, int player, int place, int count) {
    for (int height = 0; height < count; height++) {
        Vector2 middle = backgammon_place(player, place, height);
        if (place == BACKGAMMON_OFF) {
            backgammon_draw_edge(middle, player);
        } else {
            backgammon_draw_checker(middle, player);
        }
    }
    (void)env;
}

static void backgammon_draw_die(float x, float y, int pips, Color color, Color ground) {
    const float side = 46.0f, apart = 13.0f;
    puffer_rounded(x - 0.5f * side, y - 0.5f * side, side, side, 9.0f, ground);
    bool has_middle = pips % 2 == 1, has_corners = pips > 1, has_others = pips > 3, has_sides = pips == 6;
    if (has_middle) puffer_disc(x, y, 4.5f, color);
    for (int sign = -1; sign <= 1; sign += 2) {
        float to = apart * (float)sign;
        if (has_corners) puffer_disc(x + to, y + to, 4.5f, color);
        if (has_others) puffer_disc(x + to, y - to, 4.5f, color);
        if (has_sides) puffer_disc(x + to, y, 4.5f, color);
    }
}

// In the half of the board that is to the right of who has the turn.
static void backgammon_draw_dice(const Backgammon* env) {
    bool is_double = env->dice[0] == env->dice[1];
    int num_dice = is_double ? 4 : 2;
    float middle =
        BACKGAMMON_LEFT + (env->turn == 0 ? 9.0f * BACKGAMMON_PIXELS + BACKGAMMON_MIDDLE : 3.0f * BACKGAMMON_PIXELS);
    for (int i = 0; i < num_dice; i++) {
        bool is_left = is_double ? i < env->left[0] : env->left[i] > 0;
        Color ground = is_left ? backgammon_color(env->turn) : puffer_mix(PUFFER_EDGE, PUFFER_PANEL, 0.4f);
        float x = middle + 60.0f * ((float)i - 0.5f * (float)(num_dice - 1));
        backgammon_draw_die(x, BACKGAMMON_TOP + 0.5f * BACKGAMMON_HEIGHT, env->dice[is_double ? 0 : i],
                            is_left ? PUFFER_WHITE : PUFFER_MUTED, ground);
    }
}

static void backgammon_draw_header(const Client* client) {
    const float y = 0.5f * BACKGAMMON_HEADER - 6.0f;
    puffer_counter("WON", TextFormat("%d", client->points[0]), BACKGAMMON_LEFT, y, PUFFER_LEFT);
    puffer_counter("LOST", TextFormat("%d", client->points[1]), BACKGAMMON_LEFT + BACKGAMMON_WIDTH + BACKGAMMON_TRAY, y,
                   PUFFER_RIGHT);
}

// ---------------------------------------------------------------------------------------------------------- one step

// A checker that moves during the step, and when: shares of it.
typedef struct {
    int player, from, to;
    float begin, end;
} BackgammonMove;

enum { BACKGAMMON_MAX_SHOWN = 64 };

typedef struct {
    BackgammonMove moves[BACKGAMMON_MAX_SHOWN];
    int count, num_turns;
} BackgammonScript;

static void backgammon_add_move(BackgammonScript* script, int player, int from, int to) {
    if (script->count == BACKGAMMON_MAX_SHOWN) return;
    BackgammonMove* move = &script->moves[script->count++];
    move->player = player;
    move->from = from;
    move->to = to;
    move->begin = (float)script->num_turns;
}

// Plays one action of a step again and notes what it moves. `moment` has arrays of its own, which are written to.
static bool backgammon_replay(BackgammonScript* script, Backgammon* moment, int action) {
    int player = moment->turn, die = action >= BACKGAMMON_NUM_SOURCES, source = action - die * BACKGAMMON_NUM_SOURCES;
    int bar = moment->counts[1 - player][BACKGAMMON_BAR], target = source - moment->dice[die];
    bool is_over = backgammon_play(moment, action);
    if (action == BACKGAMMON_PASS) return is_over;
    backgammon_add_move(script, player, source, target < 0 ? BACKGAMMON_OFF : target);
    if (moment->counts[1 - player][BACKGAMMON_BAR] > bar) {
        backgammon_add_move(script, 1 - player, BACKGAMMON_POINTS - 1 - target, BACKGAMMON_BAR);
    }
    script->num_turns += 1;
    return is_over;
}

// All that moves from `before` on: the agent's checker and the bot's turn.
static BackgammonScript backgammon_script(const Backgammon* before) {
    BackgammonScript script;
    memset(&script, 0, sizeof(script));
    uint8_t observations[2 * BACKGAMMON_OBSERVATION];
    Backgammon moment = *before;
    moment.observations = observations;
    bool is_over = backgammon_replay(&script, &moment, backgammon_agent_action(&moment));
    while (!is_over && moment.turn == moment.num_agents) {
        is_over = backgammon_replay(&script, &moment, backgammon_bot_action(&moment));
    }
    for (int i = 0; i < script.count; i++) {
        script.moves[i].begin /= (float)script.num_turns;
        script.moves[i].end = script.moves[i].begin + 1.0f / (float)script.num_turns;
    }
    return script;
}

// The board at a moment of the step: checkers that have moved lie where they go, one on its way above all others.
static void backgammon_draw_step(const Backgammon* before, float progress) {
    BackgammonScript script = backgammon_script(before);
    int counts[2][BACKGAMMON_PLACES];
    Vector2 moving[2];
    int players[2], num_moving = 0;
    for (int player = 0; player < 2; player++) {
        for (int place = 0; place < BACKGAMMON_PLACES; place++) counts[player][place] = before->counts[player][place];
    }
    for (int i = 0; i < script.count && script.moves[i].begin <= progress; i++) {
        const BackgammonMove* move = &script.moves[i];
        Vector2 from = backgammon_place(move->player, move->from, --counts[move->player][move->from]);
        Vector2 to = backgammon_place(move->player, move->to, counts[move->player][move->to]);
        if (progress >= move->end || num_moving == 2) {
            counts[move->player][move->to] += 1;
            continue;
        }
        float share = puffer_ease((progress - move->begin) / (move->end - move->begin));
        moving[num_moving] = (Vector2){puffer_lerp(from.x, to.x, share), puffer_lerp(from.y, to.y, share)};
        players[num_moving++] = move->player;
    }
    for (int player = 0; player < 2; player++) {
        for (int place = 0; place < BACKGAMMON_PLACES; place++) {
            backgammon_draw_stack(before, player, place, counts[player][place]);
        }
    }
    for (int i = num_moving - 1; i >= 0; i--) backgammon_draw_checker(moving[i], players[i]);
}

static void c_render(Client* client, const Backgammon* before, const Backgammon* now, float progress) {
    bool has_ended = before != now && now->terminals[0];
    if (has_ended && progress >= 1.0f && client->ended_before != before->rng.state) {
        client->ended_before = before->rng.state;
        int points = (int)now->rewards[0];
        client->points[points < 0] += points < 0 ? -points : points;
    }
    backgammon_draw_header(client);
    backgammon_draw_board();
    backgammon_draw_dice(progress < 1.0f ? before : now);
    if (progress < 1.0f) {
        backgammon_draw_step(before, progress);
        return;
    }
    for (int player = 0; player < 2; player++) {
        for (int place = 0; place < BACKGAMMON_PLACES; place++) {
            backgammon_draw_stack(now, player, place, now->counts[player][place]);
        }
    }
}

static void c_close_client(Client* client) { (void)client; }
