// maze_render.h - the maze from above, as far as the agent has seen it: what it sees now is lit, where it walked is a
// cyan trail, the goal a red ring. A bar shows the time left, and what the last maze came to flashes where it ended.
#pragma once

#include "maze.h"
#include "puffer_render.h"

typedef Maze Env;

enum { MAZE_BOARD = 660, MAZE_MARGIN = 30, MAZE_HEADER = 84, MAZE_BAR_HEIGHT = 10, MAZE_FLASH_STEPS = 6 };
enum { MAZE_IS_SEEN = 1, MAZE_WALKED_RIGHT = 2, MAZE_WALKED_DOWN = 4 };

#define MAZE_TAIL_STEPS (9.0f)
#define MAZE_WALL_WIDTH (0.36f)  // cells

static const Color MAZE_SEEN_WALL = {58, 112, 112, 255};
static const Color MAZE_LIT_FLOOR = {21, 62, 62, 255};

typedef struct {
    uint8_t marks[MAZE_MAX_SIDE * MAZE_MAX_SIDE];  // of cells without the border: seen, walked from and to
    int steps;                                     // in the episode, when it was last drawn
    int place;                                     // of the agent then, as an index of marks
    PufferTail tail;
    int num_mazes, num_solved;  // since the first picture
    bool is_reached;            // the goal, in the episode that is drawn
    bool has_ended;             // an episode
    bool was_reached;           // the goal of the last one
    Vector2 end;                // where that ended
} Client;

static int maze_side(const Maze* env) { return 2 * env->rooms + 1; }

static PufferPicture c_open_client(Client* client, const Maze* env) {
    client->steps = -1;
    PufferPicture picture = {MAZE_BOARD + 2 * MAZE_MARGIN, MAZE_HEADER + MAZE_BOARD + 2 * MAZE_MARGIN + MAZE_BAR_HEIGHT,
                             fmaxf(8.0f, (float)env->rooms), "PufferLib maze"};
    return picture;
}

// The outer walls, thinner than their cells, are the edges of the board.
static float maze_cell_size(const Maze* env) { return (float)MAZE_BOARD / ((float)(2 * env->rooms) + MAZE_WALL_WIDTH); }

// Middle of a place, which may lie between two cells.
static Vector2 maze_middle(const Maze* env, float column, float row) {
    float cell = maze_cell_size(env), half = 0.5f * MAZE_WALL_WIDTH;
    return (Vector2){MAZE_MARGIN + cell * (column + half), MAZE_HEADER + cell * (row + half)};
}

static bool maze_is_wall(const Maze* env, int column, int row) {
    Grid grid = maze_grid(env);
    return env->cells[grid_cell(&grid, column, row)] == MAZE_WALL;
}

// ---------------------------------------------------------------------------------------------------------- memory

static void maze_forget(Client* client, const Maze* shown, int place) {
    if (client->steps >= 0) {
        client->has_ended = true;
        client->was_reached = client->is_reached;
        client->end = client->tail.places[0];
        client->num_mazes += 1;
        client->num_solved += client->is_reached;
    }
    memset(client->marks, 0, sizeof(client->marks));
    client->tail.length = 0;
    client->steps = shown->steps;
    client->place = place;
}

static void maze_mark_walk(Client* client, int side, int place) {
    int from = client->place < place ? client->place : place, distance = abs(client->place - place);
    if (distance == 1) client->marks[from] |= MAZE_WALKED_RIGHT;
    if (distance == side) client->marks[from] |= MAZE_WALKED_DOWN;
    client->place = place;
}

static void maze_remember(Client* client, const Maze* shown, bool is_reached) {
    Grid grid = maze_grid(shown);
    int side = grid.width, column = grid_column(&grid, shown->agent), row = grid_row(&grid, shown->agent);
    if (shown->steps < client->steps || client->steps < 0) maze_forget(client, shown, row * side + column);
    maze_mark_walk(client, side, row * side + column);
    for (int y = row - MAZE_BORDER; y <= row + MAZE_BORDER; y++) {
        for (int x = column - MAZE_BORDER; x <= column + MAZE_BORDER; x++) {
            if (x >= 0 && x < side && y >= 0 && y < side) client->marks[y * side + x] |= MAZE_IS_SEEN;
        }
    }
    client->steps = shown->steps;
    client->is_reached = is_reached;
}

// --------------------------------------------------------------------------------------------------------- drawing

static void maze_draw_floor(const Maze* env) {
    puffer_rounded(MAZE_MARGIN, MAZE_HEADER, MAZE_BOARD, MAZE_BOARD, 0.2f * maze_cell_size(env),
                   puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.45f));
}

// What the agent sees now, as far as it lies on the board.
static void maze_draw_light(const Maze* env, Vector2 middle) {
    float reach = maze_cell_size(env) * (0.5f + (float)MAZE_BORDER);
    float left = fmaxf(middle.x - reach, MAZE_MARGIN), top = fmaxf(middle.y - reach, MAZE_HEADER);
    float right = fminf(middle.x + reach, MAZE_MARGIN + MAZE_BOARD);
    float bottom = fminf(middle.y + reach, MAZE_HEADER + MAZE_BOARD);
    puffer_rounded(left, top, right - left, bottom - top, fmaxf(10.0f, 0.2f * maze_cell_size(env)), MAZE_LIT_FLOOR);
}

static bool maze_is_drawn(const Client* client, const Maze* env, int column, int row, bool is_seen_only) {
    int side = maze_side(env);
    return column < side && row < side && maze_is_wall(env, column, row) &&
           (!is_seen_only || (client->marks[row * side + column] & MAZE_IS_SEEN));
}

// Walls are strokes along the middles of their cells, one for all that are in a line.
static void maze_draw_walls(const Client* client, const Maze* env, bool is_seen_only, Color color) {
    const int side = maze_side(env);
    const float width = MAZE_WALL_WIDTH * maze_cell_size(env);
    for (int line = 0; line < side; line++) {
        for (int is_column = 0; is_column < 2; is_column++) {
            for (int begin = 0, end = 0; begin < side; begin = end + 1) {
                for (end = begin;; end++) {
                    int column = is_column ? line : end, row = is_column ? end : line;
                    if (!maze_is_drawn(client, env, column, row, is_seen_only)) break;
                }
                if (end - begin < 2) continue;
                float first = (float)begin, last = (float)(end - 1), across = (float)line;
                Vector2 from = is_column ? maze_middle(env, across, first) : maze_middle(env, first, across);
                Vector2 to = is_column ? maze_middle(env, across, last) : maze_middle(env, last, across);
                puffer_rounded(from.x - 0.5f * width, from.y - 0.5f * width, to.x - from.x + width,
                               to.y - from.y + width, 0.5f * width, color);
            }
        }
    }
}

static void maze_draw_walk(const Client* client, const Maze* env) {
    const int side = maze_side(env);
    const float width = 0.16f * maze_cell_size(env);
    const Color color = puffer_mix(MAZE_LIT_FLOOR, PUFFER_CYAN, 0.45f);
    for (int place = 0; place < side * side; place++) {
        Vector2 middle = maze_middle(env, (float)(place % side), (float)(place / side));
        float length = maze_cell_size(env) + width;
        float left = middle.x - 0.5f * width, top = middle.y - 0.5f * width;
        if (client->marks[place] & MAZE_WALKED_RIGHT) puffer_rounded(left, top, length, width, 0.5f * width, color);
        if (client->marks[place] & MAZE_WALKED_DOWN) puffer_rounded(left, top, width, length, 0.5f * width, color);
    }
}

static void maze_draw_goal(const Client* client, const Maze* env, float pulse) {
    const int last = maze_side(env) - 2;
    const float cell = maze_cell_size(env);
    Vector2 middle = maze_middle(env, (float)last, (float)last);
    bool is_seen = client->marks[last * maze_side(env) + last] & MAZE_IS_SEEN;
    Color color = is_seen ? PUFFER_RED : puffer_mix(PUFFER_BACKGROUND, PUFFER_RED, 0.5f);
    if (is_seen) puffer_glow(middle.x, middle.y, cell * (0.85f + 0.1f * pulse), puffer_fade(color, 0.7f));
    puffer_ring(middle.x, middle.y, 0.26f * cell, 0.1f * cell, color);
    puffer_disc(middle.x, middle.y, 0.1f * cell, color);
}

static void maze_draw_outcome(const Client* client, const Maze* env, float steps) {
    float flash = client->has_ended ? puffer_flash(steps, MAZE_FLASH_STEPS) : 0.0f;
    if (flash <= 0.0f) return;
    float cell = maze_cell_size(env), grown = 1.0f - flash * flash;
    puffer_ring(client->end.x, client->end.y, cell * (0.4f + 1.6f * grown), 0.2f * cell,
                puffer_fade(client->was_reached ? PUFFER_WHITE : PUFFER_RED, flash));
}

static void maze_draw_header(const Client* client, const Maze* env, float steps) {
    const float y = 0.5f * MAZE_HEADER, share = 1.0f - steps / (float)maze_max_steps(env);
    puffer_counter("STEPS", TextFormat("%d", (int)steps), MAZE_MARGIN, y, PUFFER_LEFT);
    puffer_counter("SHORTEST WAY", TextFormat("%d", env->way_steps), MAZE_MARGIN + 0.5f * MAZE_BOARD - 80.0f, y,
                   PUFFER_LEFT);
    puffer_counter("SOLVED", TextFormat("%d / %d", client->num_solved, client->num_mazes), MAZE_MARGIN + MAZE_BOARD, y,
                   PUFFER_RIGHT);
    puffer_bar(MAZE_MARGIN, MAZE_HEADER + MAZE_BOARD + MAZE_MARGIN, MAZE_BOARD, MAZE_BAR_HEIGHT, share,
               share < 0.25f ? PUFFER_RED : PUFFER_CYAN);
}

// The agent between two steps; who walks into a wall leans towards it and comes back.
static Vector2 maze_agent(const Maze* before, float progress) {
    Grid grid = maze_grid(before);
    MazeMove move = maze_move(before);
    int column = grid_column(&grid, before->agent), row = grid_row(&grid, before->agent);
    bool is_blocked = maze_is_wall(before, column + move.right, row + move.down);
    float share = is_blocked ? 0.2f * sinf(PUFFER_PI * progress) : puffer_ease(progress);
    return maze_middle(before, (float)column + share * (float)move.right, (float)row + share * (float)move.down);
}

static void c_render(Client* client, const Maze* before, const Maze* now, float progress) {
    bool is_between = progress < 1.0f;
    const Maze* shown = is_between ? before : now;
    const float cell = maze_cell_size(shown), steps = (float)shown->steps + (is_between ? progress : 0.0f);
    maze_remember(client, shown, is_between && now->terminals[0]);
    Grid grid = maze_grid(shown);
    float column = (float)grid_column(&grid, shown->agent), row = (float)grid_row(&grid, shown->agent);
    Vector2 agent = is_between ? maze_agent(before, progress) : maze_middle(now, column, row);
    puffer_tail_add(&client->tail, agent.x, agent.y, steps);
    maze_draw_header(client, shown, steps);
    maze_draw_floor(shown);
    maze_draw_light(shown, agent);
    maze_draw_walls(client, shown, false, puffer_mix(PUFFER_BACKGROUND, PUFFER_EDGE, 0.7f));
    maze_draw_walls(client, shown, true, MAZE_SEEN_WALL);
    maze_draw_walk(client, shown);
    maze_draw_goal(client, shown, sinf(steps));
    puffer_tail_draw(&client->tail, 0.22f * cell, MAZE_TAIL_STEPS, PUFFER_CYAN,
                     puffer_mix(MAZE_LIT_FLOOR, PUFFER_CYAN, 0.45f));
    puffer_glow(agent.x, agent.y, 0.9f * cell, puffer_fade(PUFFER_CYAN, 0.5f));
    puffer_disc(agent.x, agent.y, 0.32f * cell, PUFFER_CYAN);
    maze_draw_outcome(client, shown, steps);
}

static void c_close_client(Client* client) { (void)client; }
