// hex_render.h - the rhombus from above as the agent of the first row sees it: it joins top and bottom in cyan, the
// other one left and right in red. A stone grows where it is placed, the newest has a dot, and the chain that wins
// lights up.
#pragma once

#include "hex.h"
#include "puffer_turns_render.h"

typedef Hex Env;

enum { HEX_MARGIN = 56, HEX_HEADER = 96, HEX_BORDER = 30, HEX_CORNERS = 6 };

#define HEX_WIDTH (52.0f)                     // of a cell, pixels
#define HEX_RADIUS (HEX_WIDTH * 0.57735027f)  // from its middle to a corner
#define HEX_PITCH (HEX_RADIUS * 1.5f)         // from row to row

static const Color HEX_CELL_COLOR = {11, 46, 46, 255};

typedef struct {
    TurnsTally tally;
} Client;

static PufferPicture c_open_client(Client* client, const Hex* env) {
    (void)client, (void)env;
    PufferPicture picture = {(int)(HEX_WIDTH * 16.0f) + 2 * HEX_MARGIN,
                             HEX_HEADER + (int)(10.0f * HEX_PITCH + 2.0f * HEX_RADIUS) + 2 * HEX_BORDER + 18, 1.5f,
                             "PufferLib hex"};
    return picture;
}

// The middle of a row and a column as seat 0 sees them; those beyond the board are where they would be.
static Vector2 hex_middle(int row, int column) {
    Vector2 middle = {HEX_MARGIN + HEX_WIDTH * ((float)column + 0.5f * (float)row + 0.5f),
                      HEX_HEADER + HEX_BORDER + HEX_RADIUS + HEX_PITCH * (float)row};
    return middle;
}

// Of a cell as the first player sees it.
static Vector2 hex_place_of(const Hex* env, int cell) {
    int seen = env->first == 0 ? cell : hex_mirrored(cell);
    return hex_middle(seen / HEX_SIDE, seen % HEX_SIDE);
}

static int hex_owner(const Hex* env, int cell) { return env->cells[cell] == HEX_FIRST ? env->first : !env->first; }

// --------------------------------------------------------------------------------------------------------- drawing

static void hex_draw_cell(Vector2 middle, float radius, Color color) {
    Vector2 corners[HEX_CORNERS];
    for (int i = 0; i < HEX_CORNERS; i++) {
        float angle = -PUFFER_PI * ((float)i / 3.0f + 1.0f / 6.0f);
        corners[i].x = middle.x + radius * cosf(angle);
        corners[i].y = middle.y + radius * sinf(angle);
    }
    puffer_polygon(corners, HEX_CORNERS, color);
}

// The sides, as cells of their colour that show from behind the outermost.
static void hex_draw_sides(void) {
    const float shift = 0.34f * HEX_RADIUS;
    for (int i = 0; i < HEX_SIDE; i++) {
        Vector2 left = hex_middle(i, 0), right = hex_middle(i, HEX_SIDE - 1);
        left.x -= 1.2f * shift, right.x += 1.2f * shift;
        hex_draw_cell(left, HEX_RADIUS, puffer_mix(PUFFER_BACKGROUND, PUFFER_RED, 0.8f));
        hex_draw_cell(right, HEX_RADIUS, puffer_mix(PUFFER_BACKGROUND, PUFFER_RED, 0.8f));
    }
    for (int i = 0; i < HEX_SIDE; i++) {
        Vector2 top = hex_middle(0, i), bottom = hex_middle(HEX_SIDE - 1, i);
        top.y -= shift, bottom.y += shift;
        hex_draw_cell(top, HEX_RADIUS, puffer_mix(PUFFER_BACKGROUND, PUFFER_CYAN, 0.8f));
        hex_draw_cell(bottom, HEX_RADIUS, puffer_mix(PUFFER_BACKGROUND, PUFFER_CYAN, 0.8f));
    }
}

static void hex_draw_board(void) {
    hex_draw_sides();
    for (int row = 0; row < HEX_SIDE; row++) {
        for (int column = 0; column < HEX_SIDE; column++) {
            hex_draw_cell(hex_middle(row, column), HEX_RADIUS, PUFFER_BACKGROUND);
            hex_draw_cell(hex_middle(row, column), HEX_RADIUS - 2.5f, HEX_CELL_COLOR);
        }
        static const char* const signs[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "0", "-"};
        Vector2 left = hex_middle(row, 0), top = hex_middle(0, row);
        puffer_text(signs[row], left.x - 0.5f * HEX_WIDTH - 24.0f, left.y, 19.0f, PUFFER_CENTER, PUFFER_MUTED);
        puffer_text(TextFormat("%c", 'A' + row), top.x, top.y - HEX_RADIUS - 22.0f, 19.0f, PUFFER_CENTER, PUFFER_MUTED);
    }
}

static void hex_draw_stone(Vector2 middle, Color color, float size, float light) {
    const float radius = 0.4f * HEX_WIDTH * size;
    Color dark = puffer_mix(color, PUFFER_BACKGROUND, 0.45f), bright = puffer_mix(color, PUFFER_WHITE, 0.35f * light);
    puffer_disc(middle.x + 1.0f, middle.y + 4.0f, radius, puffer_fade(PUFFER_BACKGROUND, 0.6f * size));
    puffer_disc(middle.x, middle.y + 1.5f, radius, dark);
    puffer_disc(middle.x, middle.y - 0.5f, 0.95f * radius, bright);
    puffer_disc(middle.x - 0.3f * radius, middle.y - 0.35f * radius, 0.2f * radius,
                puffer_fade(PUFFER_WHITE, 0.25f + 0.4f * light));
}

// All stones but one; `light` from 0 to 1 is what the winning chain has more, and the others less.
static void hex_draw_stones(const Hex* env, int absent, float light) {
    int winner = turns_result(env) == TURNS_WON ? hex_chain(env, env->last) : -1;
    for (int cell = 0; cell < HEX_CELLS; cell++) {
        if (env->cells[cell] == HEX_FREE || cell == absent) continue;
        bool is_lit = winner >= 0 && hex_chain(env, cell) == winner;
        Color color =
            puffer_mix(turns_color(hex_owner(env, cell)), HEX_CELL_COLOR, winner >= 0 && !is_lit ? 0.5f * light : 0.0f);
        hex_draw_stone(hex_place_of(env, cell), color, 1.0f, is_lit ? light : 0.0f);
    }
}

static void hex_draw_mark(const Hex* env) {
    if (env->num_turns == 0) return;
    Vector2 middle = hex_place_of(env, env->last);
    puffer_disc(middle.x, middle.y - 0.5f, 5.0f, PUFFER_WHITE);
}

// One turn: the new stone of `to` grows as `share` goes from 0 to 1.
static void hex_draw_turn(const Hex* from, const Hex* to, float share) {
    float size = puffer_ease(clampf(share / 0.6f, 0.0f, 1.0f));
    bool is_swap = from->num_turns == 1 && to->cells[from->last] != from->cells[from->last];
    hex_draw_stones(from, is_swap ? from->last : -1, 0.0f);
    if (is_swap) {  // the stone goes to where it is the other's
        Vector2 begin = hex_place_of(from, from->last), end = hex_place_of(to, to->last);
        Vector2 middle = {puffer_lerp(begin.x, end.x, size), puffer_lerp(begin.y, end.y, size)};
        hex_draw_stone(middle, puffer_mix(turns_color(from->first), turns_color(!from->first), size), 1.0f, 0.0f);
    } else if (size > 0.02f) {
        hex_draw_stone(hex_place_of(to, to->last), turns_color(hex_owner(to, to->last)), size, 0.0f);
    }
    hex_draw_mark(size >= 1.0f ? to : from);
}

static void hex_draw_header(const Client* client, const Hex* env) {
    const float y = 0.5f * HEX_HEADER - 6.0f, right = HEX_MARGIN + 16.0f * HEX_WIDTH;
    turns_draw_tally(&client->tally, HEX_MARGIN, right, y);
    if (!hex_may_swap(env)) return;
    puffer_text("SWAP: PLAY ON THE STONE", 0.5f * (HEX_MARGIN + right), y + 7.0f, 18.0f, PUFFER_CENTER, PUFFER_MUTED);
}

static void c_render(Client* client, const Hex* before, const Hex* now, float progress) {
    bool has_ended = before != now && now->terminals[0];
    if (has_ended && progress >= 1.0f) turns_count(&client->tally, before, now);
    if (progress >= 1.0f) {
        hex_draw_header(client, now);
        hex_draw_board();
        hex_draw_stones(now, -1, 0.0f);
        hex_draw_mark(now);
        return;
    }
    TurnsStep step = turns_step(before);
    float segment = progress * (float)(step.count + has_ended);  // where it ends the game, a part to look at that
    int index = (int)segment < step.count ? (int)segment : step.count;
    hex_draw_header(client, &step.moments[index]);
    hex_draw_board();
    if (index < step.count) {
        hex_draw_turn(&step.moments[index], &step.moments[index + 1], segment - (float)index);
    } else {
        hex_draw_stones(&step.moments[index], -1, puffer_ease(fminf(4.0f * (segment - (float)index), 1.0f)));
    }
}

static void c_close_client(Client* client) { (void)client; }
