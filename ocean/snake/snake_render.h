// snake_render.h - a part of the arena from above, around the first snake: that one glows in cyan, the others have
// shades of their own, food is white and corpses are dull red. A map in the corner shows the whole arena.
#pragma once

#include "puffer_render.h"
#include "snake.h"

typedef Snake Env;

enum { SNAKE_BOARD_WIDTH = 1140, SNAKE_BOARD_HEIGHT = 648, SNAKE_MARGIN = 30, SNAKE_HEADER = 84 };
enum { SNAKE_NUM_SHADES = 6, SNAKE_FLOOR_CELLS = 4 };

#define SNAKE_CELL (17.5f)        // pixels
#define SNAKE_THICKNESS (0.7f)    // of a body, cells
#define SNAKE_MAP_WIDTH (220.0f)  // pixels
#define SNAKE_STEPS_PER_SECOND (10.0f)

typedef struct {
    Vector2 origin;  // of the arena in the picture: where the upper left corner of its first cell is, pixels
    bool is_between;
    float progress;
} SnakeView;

typedef struct {
    int best;  // length of the first snake since the first picture
} Client;

static PufferPicture c_open_client(Client* client, const Snake* env) {
    (void)client, (void)env;
    PufferPicture picture = {SNAKE_BOARD_WIDTH + 2 * SNAKE_MARGIN, SNAKE_HEADER + SNAKE_BOARD_HEIGHT + SNAKE_MARGIN,
                             SNAKE_STEPS_PER_SECOND, "PufferLib snake"};
    return picture;
}

// ---------------------------------------------------------------------------------------------------------- places

// Middle of a cell, in cells from the upper left corner of the arena.
static Vector2 snake_place(const Snake* env, int cell) {
    Grid grid = snake_grid(env);
    return (Vector2){(float)grid_column(&grid, cell) + 0.5f, (float)grid_row(&grid, cell) + 0.5f};
}

static Vector2 snake_between(Vector2 from, Vector2 to, float share) {
    return (Vector2){puffer_lerp(from.x, to.x, share), puffer_lerp(from.y, to.y, share)};
}

// Whether a step moves a snake on: it is the same one afterwards.
static bool snake_lives_on(const Snake* now, int row) { return !now->terminals[row] && !now->truncations[row]; }

static Vector2 snake_head_place(const Snake* before, const Snake* now, int row, const SnakeView* view) {
    if (!view->is_between) return snake_place(now, now->snakes[row].head);
    Vector2 from = snake_place(before, before->snakes[row].head);
    if (!snake_lives_on(now, row)) return from;
    return snake_between(from, snake_place(now, now->snakes[row].head), view->progress);
}

// Where an end of the arena lies when `focus` shall be in the middle of a side of the board, but nothing beyond the
// arena be seen as long as it is larger.
static float snake_origin(float focus, float arena, float board) {
    if (arena <= board) return 0.5f * (board - arena);
    return fminf(0.0f, fmaxf(board - arena, 0.5f * board - focus));
}

static SnakeView snake_view(const Snake* before, const Snake* now, float progress) {
    SnakeView view = {.is_between = progress < 1.0f, .progress = progress};
    Vector2 focus = snake_head_place(before, now, 0, &view);
    view.origin.x =
        SNAKE_MARGIN + snake_origin(SNAKE_CELL * focus.x, SNAKE_CELL * (float)now->width, SNAKE_BOARD_WIDTH);
    view.origin.y =
        SNAKE_HEADER + snake_origin(SNAKE_CELL * focus.y, SNAKE_CELL * (float)now->height, SNAKE_BOARD_HEIGHT);
    return view;
}

static Vector2 snake_pixel(const SnakeView* view, Vector2 place) {
    return (Vector2){view->origin.x + SNAKE_CELL * place.x, view->origin.y + SNAKE_CELL * place.y};
}

// Whether something of a cell's size is to be seen at a place on the picture.
static bool snake_is_visible(Vector2 pixel) {
    return pixel.x > SNAKE_MARGIN - SNAKE_CELL && pixel.x < SNAKE_MARGIN + SNAKE_BOARD_WIDTH + SNAKE_CELL &&
           pixel.y > SNAKE_HEADER - SNAKE_CELL && pixel.y < SNAKE_HEADER + SNAKE_BOARD_HEIGHT + SNAKE_CELL;
}

// --------------------------------------------------------------------------------------------------------- drawing

static Color snake_color(int row) {
    if (row == 0) return PUFFER_CYAN;
    const Color shades[SNAKE_NUM_SHADES] = {
        puffer_mix(PUFFER_PANEL, PUFFER_CYAN, 0.45f), puffer_mix(PUFFER_CYAN, PUFFER_WHITE, 0.55f),
        puffer_mix(PUFFER_RED, PUFFER_WHITE, 0.12f),  puffer_mix(PUFFER_RED, PUFFER_WHITE, 0.5f),
        puffer_mix(PUFFER_PANEL, PUFFER_WHITE, 0.4f), puffer_mix(PUFFER_PANEL, PUFFER_RED, 0.6f)};
    return shades[row % SNAKE_NUM_SHADES];
}

// The floor moves with the arena: lines at every few cells.
static void snake_draw_floor(const Snake* env, const SnakeView* view) {
    const Color floor = puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.4f);
    const Color line = puffer_mix(PUFFER_BACKGROUND, PUFFER_PANEL, 0.75f);
    float width = SNAKE_CELL * (float)env->width, height = SNAKE_CELL * (float)env->height;
    float left = fmaxf(view->origin.x, SNAKE_MARGIN), top = fmaxf(view->origin.y, SNAKE_HEADER);
    float right = fminf(view->origin.x + width, SNAKE_MARGIN + SNAKE_BOARD_WIDTH);
    float bottom = fminf(view->origin.y + height, SNAKE_HEADER + SNAKE_BOARD_HEIGHT);
    puffer_rectangle(left, top, right - left, bottom - top, floor);
    for (int column = 0; column <= env->width; column += SNAKE_FLOOR_CELLS) {
        float x = view->origin.x + SNAKE_CELL * (float)column - 1.0f;
        if (x > left && x < right - 2.0f) puffer_rectangle(x, top, 2.0f, bottom - top, line);
    }
    for (int row = 0; row <= env->height; row += SNAKE_FLOOR_CELLS) {
        float y = view->origin.y + SNAKE_CELL * (float)row - 1.0f;
        if (y > top && y < bottom - 2.0f) puffer_rectangle(left, y, right - left, 2.0f, line);
    }
}

static void snake_draw_food(const Snake* env, const SnakeView* view) {
    const Color corpse = puffer_mix(PUFFER_PANEL, PUFFER_RED, 0.75f);
    // Of a large arena only what the board shows is looked at.
    int left = (int)fmaxf(0.0f, (SNAKE_MARGIN - view->origin.x) / SNAKE_CELL - 1.0f);
    int top = (int)fmaxf(0.0f, (SNAKE_HEADER - view->origin.y) / SNAKE_CELL - 1.0f);
    int right = left + (int)(SNAKE_BOARD_WIDTH / SNAKE_CELL) + 4,
        bottom = top + (int)(SNAKE_BOARD_HEIGHT / SNAKE_CELL) + 4;
    for (int row = top; row < env->height && row < bottom; row++) {
        for (int column = left; column < env->width && column < right; column++) {
            Vector2 pixel = snake_pixel(view, (Vector2){(float)column + 0.5f, (float)row + 0.5f});
            if (!snake_is_visible(pixel)) continue;
            Grid grid = snake_grid(env);
            int content = env->cells[grid_cell(&grid, column, row)];
            if (content == SNAKE_FOOD) puffer_disc(pixel.x, pixel.y, 0.17f * SNAKE_CELL, PUFFER_WHITE);
            if (content == SNAKE_CORPSE) puffer_disc(pixel.x, pixel.y, 0.25f * SNAKE_CELL, corpse);
        }
    }
}

// The place nearest to a pixel that is on the board or just beyond its edge.
static Vector2 snake_clipped(Vector2 pixel) {
    const float reach = 0.5f * SNAKE_CELL;
    return (Vector2){clampf(pixel.x, SNAKE_MARGIN - reach, SNAKE_MARGIN + SNAKE_BOARD_WIDTH + reach),
                     clampf(pixel.y, SNAKE_HEADER - reach, SNAKE_HEADER + SNAKE_BOARD_HEIGHT + reach)};
}

// A straight stroke with round ends along a row or a column; what is not on the board ends up below the frame.
static void snake_draw_stroke(const SnakeView* view, Vector2 from, Vector2 to, Color color) {
    const float width = SNAKE_THICKNESS * SNAKE_CELL;
    Vector2 one = snake_clipped(snake_pixel(view, from)), other = snake_clipped(snake_pixel(view, to));
    bool is_beyond = snake_pixel(view, from).x != one.x && snake_pixel(view, to).x != other.x && one.x == other.x;
    is_beyond |= snake_pixel(view, from).y != one.y && snake_pixel(view, to).y != other.y && one.y == other.y;
    if (is_beyond) return;
    float left = fminf(one.x, other.x), top = fminf(one.y, other.y);
    puffer_rounded(left - 0.5f * width, top - 0.5f * width, fabsf(one.x - other.x) + width,
                   fabsf(one.y - other.y) + width, 0.5f * width, color);
}

static void snake_draw_head(const SnakeView* view, const SnakeAgent* snake, Vector2 head, Color color) {
    SnakeMove ahead = SNAKE_MOVES[snake->heading];
    Vector2 pixel = snake_pixel(view, head);
    puffer_disc(pixel.x, pixel.y, 0.44f * SNAKE_CELL, color);
    for (int side = -1; side <= 1; side += 2) {
        float x = pixel.x + SNAKE_CELL * (0.12f * (float)ahead.right + 0.19f * (float)(side * ahead.down));
        float y = pixel.y + SNAKE_CELL * (0.12f * (float)ahead.down + 0.19f * (float)(side * ahead.right));
        puffer_disc(x, y, 0.1f * SNAKE_CELL, PUFFER_BACKGROUND);
    }
}

// A body as strokes from corner to corner: from the tail, which is on its way to the next cell if it leaves its own.
static void snake_draw_body(const Snake* shown, const Snake* now, int row, const SnakeView* view, Vector2 head,
                            Color color) {
    const SnakeAgent* snake = &shown->snakes[row];
    const Grid grid = snake_grid(shown);
    int cell = snake->tail;
    Vector2 begin = snake_place(shown, cell), end = begin;
    bool is_leaving =
        view->is_between && snake_lives_on(now, row) && snake->num_cells > 1 && now->snakes[row].tail != snake->tail;
    for (int i = 1; i <= snake->num_cells; i++) {
        cell = snake_ahead(&grid, cell, snake_move(snake, i - 1));
        Vector2 next = i < snake->num_cells ? snake_place(shown, cell) : head;
        if (i == 1 && is_leaving) begin = snake_between(begin, next, view->progress);
        bool is_straight = (begin.x == next.x && end.x == next.x) || (begin.y == next.y && end.y == next.y);
        if (!is_straight) {
            snake_draw_stroke(view, begin, end, color);
            begin = end;
        }
        end = next;
    }
    snake_draw_stroke(view, begin, end, color);
}

static void snake_draw(const Snake* before, const Snake* now, int row, const SnakeView* view) {
    const Snake* shown = view->is_between ? before : now;
    Vector2 head = snake_head_place(before, now, row, view), pixel = snake_pixel(view, head);
    bool is_dying = view->is_between && now->terminals[row];
    Color color = is_dying ? puffer_mix(snake_color(row), PUFFER_PANEL, 0.7f * view->progress) : snake_color(row);
    if (row == 0) puffer_glow(pixel.x, pixel.y, 2.2f * SNAKE_CELL, puffer_fade(PUFFER_CYAN, 0.55f));
    snake_draw_body(shown, now, row, view, head, color);
    if (!snake_is_visible(pixel)) return;
    snake_draw_head(view, view->is_between && snake_lives_on(now, row) ? &now->snakes[row] : &shown->snakes[row], head,
                    color);
    if (is_dying) {
        puffer_ring(pixel.x, pixel.y, SNAKE_CELL * (0.5f + view->progress), 0.2f * SNAKE_CELL,
                    puffer_fade(PUFFER_WHITE, 1.0f - view->progress));
    }
}

// Covers what was drawn over the edges of the board.
static void snake_draw_frame(const Snake* env, const SnakeView* view) {
    const float reach = SNAKE_MARGIN - 1.0f, right = SNAKE_MARGIN + SNAKE_BOARD_WIDTH;
    const float bottom = SNAKE_HEADER + SNAKE_BOARD_HEIGHT, height = SNAKE_BOARD_HEIGHT + 2.0f * reach;
    puffer_rectangle(SNAKE_MARGIN - reach, SNAKE_HEADER - reach, reach, height, PUFFER_BACKGROUND);
    puffer_rectangle(right, SNAKE_HEADER - reach, reach, height, PUFFER_BACKGROUND);
    puffer_rectangle(SNAKE_MARGIN, SNAKE_HEADER - reach, SNAKE_BOARD_WIDTH, reach, PUFFER_BACKGROUND);
    puffer_rectangle(SNAKE_MARGIN, bottom, SNAKE_BOARD_WIDTH, reach, PUFFER_BACKGROUND);
    const float wall = 4.0f, arena_right = view->origin.x + SNAKE_CELL * (float)env->width;
    const float arena_bottom = view->origin.y + SNAKE_CELL * (float)env->height;
    float left = fmaxf(view->origin.x, SNAKE_MARGIN), top = fmaxf(view->origin.y, SNAKE_HEADER);
    float width = fminf(arena_right, right) - left, tall = fminf(arena_bottom, bottom) - top;
    if (view->origin.x >= SNAKE_MARGIN) puffer_rectangle(left - wall, top, wall, tall, PUFFER_EDGE);
    if (arena_right <= right) puffer_rectangle(arena_right, top, wall, tall, PUFFER_EDGE);
    if (view->origin.y >= SNAKE_HEADER) puffer_rectangle(left, top - wall, width, wall, PUFFER_EDGE);
    if (arena_bottom <= bottom) puffer_rectangle(left, arena_bottom, width, wall, PUFFER_EDGE);
}

// The whole arena with a dot for each head, and a frame around what the board shows.
static void snake_draw_map(const Snake* before, const Snake* now, const SnakeView* view) {
    const float scale = SNAKE_MAP_WIDTH / (float)now->width, height = scale * (float)now->height, gap = 12.0f;
    const float left = SNAKE_MARGIN + SNAKE_BOARD_WIDTH - SNAKE_MAP_WIDTH - gap;
    const float top = SNAKE_HEADER + SNAKE_BOARD_HEIGHT - height - gap, line = 1.5f;
    puffer_rounded(left - 5.0f, top - 5.0f, SNAKE_MAP_WIDTH + 10.0f, height + 10.0f, 6.0f,
                   puffer_fade(PUFFER_BACKGROUND, 0.85f));
    for (int row = now->num_snakes - 1; row >= 0; row--) {
        Vector2 head = snake_head_place(before, now, row, view);
        float size = row == 0 ? 6.0f : 2.0f;
        puffer_rectangle(left + scale * head.x - 0.5f * size, top + scale * head.y - 0.5f * size, size, size,
                         snake_color(row));
    }
    float zoom = scale / SNAKE_CELL, width = fminf(SNAKE_MAP_WIDTH, zoom * SNAKE_BOARD_WIDTH);
    float tall = fminf(height, zoom * SNAKE_BOARD_HEIGHT);
    float x = left + fmaxf(0.0f, zoom * (SNAKE_MARGIN - view->origin.x));
    float y = top + fmaxf(0.0f, zoom * (SNAKE_HEADER - view->origin.y));
    puffer_rectangle(x, y, width, line, PUFFER_MUTED);
    puffer_rectangle(x, y + tall - line, width, line, PUFFER_MUTED);
    puffer_rectangle(x, y, line, tall, PUFFER_MUTED);
    puffer_rectangle(x + width - line, y, line, tall, PUFFER_MUTED);
}

static void snake_draw_header(const Client* client, const Snake* shown) {
    const float y = 0.5f * SNAKE_HEADER, middle = SNAKE_MARGIN + 0.5f * SNAKE_BOARD_WIDTH;
    int longest = 0;
    for (int row = 0; row < shown->num_snakes; row++) {
        if (shown->snakes[row].length > longest) longest = shown->snakes[row].length;
    }
    puffer_counter("LENGTH", TextFormat("%d", shown->snakes[0].length), SNAKE_MARGIN, y, PUFFER_LEFT);
    puffer_counter("BEST", TextFormat("%d", client->best), middle - 60.0f, y, PUFFER_LEFT);
    if (shown->num_snakes == 1) return;
    puffer_counter("LONGEST OF ALL", TextFormat("%d", longest), SNAKE_MARGIN + SNAKE_BOARD_WIDTH, y, PUFFER_RIGHT);
}

static void c_render(Client* client, const Snake* before, const Snake* now, float progress) {
    SnakeView view = snake_view(before, now, progress);
    const Snake* shown = view.is_between ? before : now;
    if (shown->snakes[0].length > client->best) client->best = shown->snakes[0].length;
    snake_draw_floor(shown, &view);
    snake_draw_food(shown, &view);
    for (int row = shown->num_snakes - 1; row >= 0; row--) snake_draw(before, now, row, &view);
    snake_draw_frame(shown, &view);
    if (shown->num_snakes > 1) snake_draw_map(before, now, &view);
    snake_draw_header(client, shown);
}

static void c_close_client(Client* client) { (void)client; }
