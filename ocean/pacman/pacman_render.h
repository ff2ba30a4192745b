// pacman_render.h - the maze in lines that glow: Pac-Man cyan, ghosts that look where they go, dark ones when they are
// frightened, eyes alone when they were eaten. Points of ghosts and fruit rise from where they were made.
#pragma once

#include "pacman.h"
#include "puffer_render.h"

typedef Pacman Env;

enum { PACMAN_PIXELS = 22, PACMAN_MARGIN = 12, PACMAN_HEADER = 72, PACMAN_FOOTER = 36 };  // of a tile; around the maze
enum { PACMAN_MAX_STROKES = 256, PACMAN_MAX_CORNERS = 256 };

#define PACMAN_STEPS_PER_SECOND (7.6f)
#define PACMAN_POPUP_STEPS (7.0f)
#define PACMAN_FLASH_STEPS (5.0f)
#define PACMAN_WARNING_STEPS (14.0f)  // so long before it ends the fright blinks

// By ghost: Blinky, Pinky, Inky, Clyde; then of one that is frightened.
static const Color PACMAN_COLORS[PACMAN_GHOSTS + 1] = {
    {205, 22, 22, 255}, {230, 128, 140, 255}, {140, 215, 235, 255}, {222, 132, 44, 255}, {24, 84, 110, 255}};

typedef struct {
    Vector2 from, to;  // pixels; along a row or a column, `to` is the farther from the origin
} PacmanStroke;

typedef struct {
    Vector2 center;  // pixels
    float from;      // radians, of the larger angle: it is a quarter of a circle
} PacmanCorner;

typedef struct {
    PacmanStroke strokes[PACMAN_MAX_STROKES];  // the walls
    int num_strokes;
    PacmanCorner corners[PACMAN_MAX_CORNERS];
    int num_corners;
    float time;    // steps since the episode began, when it was last drawn
    int score;     // then
    int gain;      // of the last ghost or fruit
    float gained;  // when
    Vector2 gain_at;
    bool has_ended, was_caught;  // the last episode
    Vector2 end_at;
} Client;

// The middle of a tile; row and column may lie between two.
static Vector2 pacman_middle(float row, float column) {
    Vector2 middle = {PACMAN_MARGIN + PACMAN_PIXELS * (column + 0.5f), PACMAN_HEADER + PACMAN_PIXELS * (row + 0.5f)};
    return middle;
}

// ----------------------------------------------------------------------------------------------------------- walls

static bool pacman_is_wall(int row, int column) {
    bool is_inside = is_within(row, 0, PACMAN_ROWS - 1) && is_within(column, 0, PACMAN_COLUMNS - 1);
    return !is_inside || PACMAN_MAZE[row][column] == '#';
}

// Whether a wall's edge runs from the middle of a tile to that of its neighbour: both are walls, and on one side not.
static bool pacman_has_edge(int row, int column, int direction) {
    int down = PATHS_DOWNWARDS[direction], right = PATHS_RIGHTWARDS[direction], side_down = right, side_right = down;
    int next_row = row + down, next_column = column + right;
    bool is_inside = is_within(next_row, 0, PACMAN_ROWS - 1) && is_within(next_column, 0, PACMAN_COLUMNS - 1);
    if (!is_inside || !pacman_is_wall(row, column) || !pacman_is_wall(next_row, next_column)) return false;
    for (int side = -1; side <= 1; side += 2) {
        int beside_row = row + side * side_down, beside_column = column + side * side_right;
        if (!pacman_is_wall(beside_row, beside_column)) return true;
        if (!pacman_is_wall(beside_row + down, beside_column + right)) return true;
    }
    return false;
}

static bool pacman_is_corner(int row, int column) {
    bool is_across = pacman_has_edge(row, column, PATHS_LEFT) != pacman_has_edge(row, column, PATHS_RIGHT);
    bool is_along = pacman_has_edge(row, column, PATHS_UP) != pacman_has_edge(row, column, PATHS_DOWN);
    return is_across && is_along;
}

static void pacman_add_stroke(Client* client, Vector2 from, Vector2 to) {
    if (client->num_strokes == PACMAN_MAX_STROKES) return;
    client->strokes[client->num_strokes++] = (PacmanStroke){from, to};
}

// A quarter of a circle from the middle of one side of the tile to that of another.
static void pacman_add_corner(Client* client, int row, int column) {
    if (client->num_corners == PACMAN_MAX_CORNERS) return;
    bool is_down = pacman_has_edge(row, column, PATHS_DOWN), is_right = pacman_has_edge(row, column, PATHS_RIGHT);
    float quarters = is_right ? (is_down ? 3.0f : 2.0f) : (is_down ? 0.0f : 1.0f);
    PacmanCorner corner = {
        pacman_middle((float)row + (is_down ? 0.5f : -0.5f), (float)column + (is_right ? 0.5f : -0.5f)),
        0.5f * PUFFER_PI * quarters};
    client->corners[client->num_corners++] = corner;
}

// Straight edges along a row (direction right) or a column (down), as long as they go on.
static void pacman_add_run(Client* client, int row, int column, int direction) {
    int down = PATHS_DOWNWARDS[direction], right = PATHS_RIGHTWARDS[direction], length = 0;
    if (!pacman_has_edge(row, column, direction) || pacman_has_edge(row, column, (direction + 2) % 4)) return;
    while (pacman_has_edge(row + length * down, column + length * right, direction)) length++;
    float begin = pacman_is_corner(row, column) ? 0.5f : 0.0f;
    float end = (float)length - (pacman_is_corner(row + length * down, column + length * right) ? 0.5f : 0.0f);
    if (end <= begin) return;
    pacman_add_stroke(client, pacman_middle((float)row + begin * (float)down, (float)column + begin * (float)right),
                      pacman_middle((float)row + end * (float)down, (float)column + end * (float)right));
}

static PufferPicture c_open_client(Client* client, const Pacman* env) {
    (void)env;
    PufferPicture picture = {PACMAN_PIXELS * PACMAN_COLUMNS + 2 * PACMAN_MARGIN,
                             PACMAN_PIXELS * PACMAN_ROWS + PACMAN_HEADER + PACMAN_FOOTER, PACMAN_STEPS_PER_SECOND,
                             "PufferLib pacman"};
    for (int cell = 0; cell < PACMAN_ROWS * PACMAN_COLUMNS; cell++) {
        int row = cell / PACMAN_COLUMNS, column = cell % PACMAN_COLUMNS;
        pacman_add_run(client, row, column, PATHS_RIGHT);
        pacman_add_run(client, row, column, PATHS_DOWN);
        if (pacman_is_corner(row, column)) pacman_add_corner(client, row, column);
    }
    client->time = INFINITY;  // nothing was drawn yet
    return picture;
}

// Fills between two offsets from an arc, from one colour to the other.
static void pacman_fill_arc(const PufferOutline* arc, float inner, float outer, Color inside, Color outside) {
    for (int i = 0; i + 1 < arc->count; i++) {
        puffer_set_color(inside);
        puffer_vertex(arc, i, inner);
        puffer_set_color(outside);
        puffer_vertex(arc, i, outer);
        puffer_vertex(arc, i + 1, outer);
        puffer_vertex(arc, i + 1, outer);
        puffer_set_color(inside);
        puffer_vertex(arc, i + 1, inner);
        puffer_vertex(arc, i, inner);
    }
}

static void pacman_draw_corner(const PacmanCorner* corner, float width, Color color) {
    const float half = 0.5f / puffer_view.scale, reach = 0.5f * width;
    const Color clear = puffer_fade(color, 0.0f);
    PufferOutline arc = {.count = 0};
    puffer_add_arc(&arc, corner->center, 0.5f * PACMAN_PIXELS, corner->from, corner->from - 0.5f * PUFFER_PI);
    puffer_begin_triangles();
    pacman_fill_arc(&arc, -reach - half, -reach + half, clear, color);
    pacman_fill_arc(&arc, -reach + half, reach - half, color, color);
    pacman_fill_arc(&arc, reach - half, reach + half, color, clear);
    rlEnd();
}

static void pacman_draw_stroke(const PacmanStroke* stroke, float width, Color color) {
    Vector2 from = stroke->from, to = stroke->to;
    bool is_across = from.y == to.y;
    puffer_rectangle(from.x - (is_across ? 0.0f : 0.5f * width), from.y - (is_across ? 0.5f * width : 0.0f),
                     is_across ? to.x - from.x : width, is_across ? width : to.y - from.y, color);
}

static void pacman_draw_walls(const Client* client) {
    const Color color = puffer_mix(PUFFER_EDGE, PUFFER_CYAN, 0.75f), glow = puffer_mix(PUFFER_BACKGROUND, color, 0.28f);
    const float door = PACMAN_EXIT_ROW + 1.0f;
    for (int pass = 0; pass < 2; pass++) {
        float width = pass == 0 ? 10.0f : 2.0f;  // even, so that edges are those of pixels
        Color shade = pass == 0 ? glow : color;
        for (int i = 0; i < client->num_strokes; i++) pacman_draw_stroke(&client->strokes[i], width, shade);
        for (int i = 0; i < client->num_corners; i++) pacman_draw_corner(&client->corners[i], width, shade);
    }
    Vector2 left = pacman_middle(door, PACMAN_MIDDLE - 0.8f), right = pacman_middle(door, PACMAN_MIDDLE + 0.8f);
    puffer_line(left.x, left.y, right.x, right.y, 4.0f, PUFFER_MUTED);
}

// ---------------------------------------------------------------------------------------------------------- places

// Moves a point on by a direction; the tunnel's ends lie beside each other.
static Vector2 pacman_shifted(const PacmanMaze* maze, int place, int heading, float tiles) {
    return pacman_middle((float)maze->rows[place] + tiles * (float)PATHS_DOWNWARDS[heading],
                         (float)maze->columns[place] + tiles * (float)PATHS_RIGHTWARDS[heading]);
}

static Vector2 pacman_mix_points(Vector2 a, Vector2 b, float share_of_b) {
    if (fabsf(a.x - b.x) > 0.5f * PACMAN_PIXELS * PACMAN_COLUMNS) return share_of_b < 0.5f ? a : b;
    return (Vector2){puffer_lerp(a.x, b.x, share_of_b), puffer_lerp(a.y, b.y, share_of_b)};
}

static Vector2 pacman_player_at(const Pacman* before, const Pacman* after, float progress) {
    const PacmanMaze* maze = before->shared;
    if (before->place == after->place) return pacman_shifted(maze, after->place, 0, 0.0f);
    return progress < 0.5f ? pacman_shifted(maze, before->place, after->heading, progress)
                           : pacman_shifted(maze, after->place, after->heading, progress - 1.0f);
}

// A ghost in the house has its side of it, and rocks while it waits.
static Vector2 pacman_inside_at(const PacmanGhost* ghost, int index, float time) {
    float side = index == PACMAN_INKY ? -1.6f : index == PACMAN_CLYDE ? 1.6f : 0.0f;
    float depth = (float)ghost->progress / (float)PACMAN_TILE;
    float rocking = ghost->mode == PACMAN_WAITING ? 0.15f * sinf(1.4f * time + (float)index) : 0.0f;
    return pacman_middle(PACMAN_EXIT_ROW + depth + rocking,
                         PACMAN_MIDDLE + side * fminf(fmaxf((depth - 1.5f) / 1.5f, 0.0f), 1.0f));
}

static Vector2 pacman_rest_at(const Pacman* env, int index, float time) {
    const PacmanGhost* ghost = &env->ghosts[index];
    bool is_out = ghost->mode == PACMAN_OUTSIDE || ghost->mode == PACMAN_EYES;
    if (!is_out) return pacman_inside_at(ghost, index, time);
    return pacman_shifted(env->shared, ghost->place, ghost->heading, (float)ghost->progress / (float)PACMAN_TILE);
}

// Where a ghost is in the step: on the way from tile to tile, around corners.
static Vector2 pacman_ghost_at(const Pacman* before, const Pacman* after, int index, float progress, float time) {
    const PacmanGhost *from = &before->ghosts[index], *to = &after->ghosts[index];
    Vector2 begin = pacman_rest_at(before, index, time), end = pacman_rest_at(after, index, time);
    bool is_out = from->mode == PACMAN_OUTSIDE || from->mode == PACMAN_EYES;
    if (!is_out || from->place == to->place) return pacman_mix_points(begin, end, progress);
    int next = before->shared->neighbours[from->place][from->heading];
    Vector2 tile = pacman_shifted(before->shared, next, 0, 0.0f);
    float first = (float)(PACMAN_TILE - from->progress),
          second = (float)to->progress + (next == to->place ? 0.0f : 64.0f);
    float way = progress * (first + second);
    return way < first ? pacman_mix_points(begin, tile, way / first)
                       : pacman_mix_points(tile, end, (way - first) / second);
}

// ---------------------------------------------------------------------------------------------------------- memory

static void pacman_remember_end(Client* client, const Pacman* after, bool is_caught) {
    client->has_ended = true;
    client->was_caught = is_caught;
    client->end_at = pacman_shifted(after->shared, after->place, 0, 0.0f);
}

static void pacman_remember(Client* client, const Pacman* shown, float time) {
    if (time < client->time || time > client->time + 8.0f) {
        client->score = shown->score;
        client->gained = -PACMAN_POPUP_STEPS;
    }
    int gain = (shown->score - client->score) / 100 * 100;  // what is below are dots
    if (gain > 0) {
        client->gain = gain;
        client->gained = time;
        client->gain_at = pacman_shifted(shown->shared, shown->place, 0, 0.0f);
    }
    client->score = shown->score;
    client->time = time;
}

// --------------------------------------------------------------------------------------------------------- drawing

static void pacman_draw_header(const Pacman* env) {
    const float right = PACMAN_MARGIN + PACMAN_PIXELS * PACMAN_COLUMNS, y = 0.5f * PACMAN_HEADER;
    puffer_counter("SCORE", TextFormat("%d", env->score), PACMAN_MARGIN, y, PUFFER_LEFT);
    puffer_counter("DOTS", TextFormat("%d", env->dots_left), right, y, PUFFER_RIGHT);
}

// The time that the ghosts stay frightened, below the maze.
static void pacman_draw_fright(float steps_left) {
    const float width = PACMAN_PIXELS * PACMAN_COLUMNS, y = PACMAN_HEADER + PACMAN_PIXELS * PACMAN_ROWS + 14.0f;
    puffer_bar(PACMAN_MARGIN, y, width, 8.0f, fmaxf(steps_left, 0.0f) / (float)PACMAN_FRIGHT_STEPS, PUFFER_CYAN);
}

static void pacman_draw_dots(const Pacman* env, float time) {
    for (int dot = 0; dot < PACMAN_DOTS; dot++) {
        if (env->eaten[dot] != 0) continue;
        Vector2 at = pacman_shifted(env->shared, dot, 0, 0.0f);
        if (dot >= PACMAN_PILLS) {
            puffer_rectangle(at.x - 2.0f, at.y - 2.0f, 4.0f, 4.0f, PUFFER_WHITE);  // square, as the arcade's are
            continue;
        }
        float pulse = 0.5f + 0.5f * sinf(1.2f * time);
        puffer_glow(at.x, at.y, 20.0f + 4.0f * pulse, puffer_fade(PUFFER_WHITE, 0.35f));
        puffer_disc(at.x, at.y, 7.5f + 1.5f * pulse, PUFFER_WHITE);
    }
}

// Two cherries.
static void pacman_draw_fruit(const Pacman* env) {
    if (env->fruit_left == 0) return;
    Vector2 at = pacman_shifted(env->shared, env->shared->fruit, 0, 0.0f);
    puffer_line(at.x - 5.0f, at.y + 3.0f, at.x + 5.0f, at.y - 11.0f, 2.0f, PUFFER_MUTED);
    puffer_line(at.x + 6.0f, at.y + 4.0f, at.x + 5.0f, at.y - 11.0f, 2.0f, PUFFER_MUTED);
    puffer_disc(at.x - 6.0f, at.y + 4.0f, 6.5f, PUFFER_RED);
    puffer_disc(at.x + 7.0f, at.y + 6.0f, 6.5f, puffer_mix(PUFFER_RED, PUFFER_WHITE, 0.12f));
    puffer_disc(at.x - 8.0f, at.y + 2.0f, 1.6f, PUFFER_WHITE);
}

// A disc without the wedge of the mouth, `open` radians on each side of where it looks.
static void pacman_draw_player(Vector2 at, int heading, float open) {
    static const float angles[PATHS_NUM_DIRECTIONS] = {-0.5f, 1.0f, 0.5f, 0.0f};  // of pi: up, left, down, right
    const float radius = 0.72f * PACMAN_PIXELS, look = PUFFER_PI * angles[heading];
    puffer_glow(at.x, at.y, 2.0f * radius, puffer_fade(PUFFER_CYAN, 0.3f));
    for (int half = 0; half < 2; half++) {  // two parts, each of them convex
        float begin = half == 0 ? look + PUFFER_PI : look + 2.0f * PUFFER_PI - open;
        float end = half == 0 ? look + open : look + PUFFER_PI;
        PufferOutline outline = {.count = 0};
        puffer_add_arc(&outline, at, radius, begin, end);
        puffer_add_point(&outline, at, (Vector2){0.0f, 0.0f});
        puffer_fill(&outline, PUFFER_CYAN);
    }
}

static void pacman_draw_eyes(Vector2 at, int heading, Color white, Color pupil) {
    const float radius = 0.2f * PACMAN_PIXELS, down = (float)PATHS_DOWNWARDS[heading];
    const float right = (float)PATHS_RIGHTWARDS[heading];
    for (int side = -1; side <= 1; side += 2) {
        float x = at.x + (float)side * 6.0f + 1.5f * right, y = at.y - 3.5f + 1.5f * down;
        puffer_disc(x, y, radius, white);
        puffer_disc(x + 2.2f * right, y + 2.2f * down, 0.5f * radius, pupil);
    }
}

// A dome over a skirt whose folds swing.
static void pacman_draw_body(Vector2 at, Color color, float time) {
    const float radius = 0.68f * PACMAN_PIXELS, fold = radius / 3.0f, hem = at.y + radius - fold;
    PufferOutline dome = {.count = 0};
    puffer_add_arc(&dome, (Vector2){at.x, at.y - 1.0f}, radius, 0.0f, -PUFFER_PI);
    puffer_add_point(&dome, (Vector2){at.x - radius, hem}, (Vector2){-1.0f, 0.0f});
    puffer_add_point(&dome, (Vector2){at.x + radius, hem}, (Vector2){1.0f, 0.0f});
    puffer_fill(&dome, color);
    for (int i = -1; i <= 1; i++) {
        float swing = 1.6f * sinf(3.0f * time + 2.0f * (float)i);
        puffer_disc(at.x + 2.0f * fold * (float)i, hem + swing, fold, color);
    }
}

static void pacman_draw_fear(Vector2 at, Color color) {
    puffer_disc(at.x - 5.5f, at.y - 4.0f, 2.6f, color);
    puffer_disc(at.x + 5.5f, at.y - 4.0f, 2.6f, color);
    for (int i = 0; i < 4; i++) {
        float x = at.x - 9.0f + 4.5f * (float)i, low = at.y + 7.0f, high = at.y + 4.0f;
        puffer_line(x, i % 2 ? high : low, x + 4.5f, i % 2 ? low : high, 2.0f, color);
    }
}

// `fright_left` in steps.
static void pacman_draw_ghost(const PacmanGhost* ghost, Color color, Vector2 at, float time, float fright_left) {
    bool is_eyes = ghost->mode == PACMAN_EYES || ghost->mode == PACMAN_ENTERING;
    if (ghost->is_frightened) {
        bool is_pale = fright_left < PACMAN_WARNING_STEPS && sinf(3.0f * fright_left) > 0.0f;
        pacman_draw_body(at, is_pale ? PUFFER_WHITE : PACMAN_COLORS[PACMAN_GHOSTS], time);
        pacman_draw_fear(at, is_pale ? PUFFER_RED : PUFFER_WHITE);
        return;
    }
    if (!is_eyes) {
        puffer_glow(at.x, at.y, 1.5f * PACMAN_PIXELS, puffer_fade(color, 0.25f));
        pacman_draw_body(at, color, time);
    }
    pacman_draw_eyes(at, ghost->heading, PUFFER_WHITE, PUFFER_BACKGROUND);
}

static void pacman_draw_gain(const Client* client, float time) {
    float left = puffer_flash(time - client->gained, PACMAN_POPUP_STEPS);
    if (left <= 0.0f) return;
    puffer_text(TextFormat("%d", client->gain), client->gain_at.x, client->gain_at.y - 26.0f * (1.0f - left) - 8.0f,
                26.0f, PUFFER_CENTER, puffer_fade(PUFFER_WHITE, fminf(2.0f * left, 1.0f)));
}

// A ring where the last episode ended: red where Pac-Man was caught, white where the maze was cleared.
static void pacman_draw_end(const Client* client, float time) {
    float left = client->has_ended ? puffer_flash(time, PACMAN_FLASH_STEPS) : 0.0f;
    if (left <= 0.0f) return;
    puffer_ring(client->end_at.x, client->end_at.y, PACMAN_PIXELS * (0.6f + 2.0f * (1.0f - left * left)), 5.0f,
                puffer_fade(client->was_caught ? PUFFER_RED : PUFFER_WHITE, left));
}

// The mouth snaps while Pac-Man walks.
static float pacman_mouth(const Pacman* since, const Pacman* after, float time) {
    bool is_stuck = since != after && since->place == after->place;
    return is_stuck ? 0.6f : 0.08f + 0.62f * fabsf(cosf(PUFFER_PI * time));
}

static void c_render(Client* client, const Pacman* before, const Pacman* now, float progress) {
    bool is_between = progress < 1.0f;
    Pacman after = *now;
    if (before != now) {  // the step once more, up to the end of the episode and not beyond
        Pacman end = *before;
        bool is_caught = pacman_play(&end);
        if (now->terminals[0]) pacman_remember_end(client, &end, is_caught);
        if (is_between) after = end;
    }
    const Pacman *since = is_between ? before : &after, *shown = progress < 0.5f ? before : &after;
    float time = (float)since->steps + (is_between ? progress : 0.0f);
    pacman_remember(client, shown, time);
    pacman_draw_header(shown);
    pacman_draw_walls(client);
    pacman_draw_dots(shown, time);
    pacman_draw_fruit(shown);
    pacman_draw_player(pacman_player_at(since, &after, progress), after.heading, pacman_mouth(since, &after, time));
    float fright_left = (float)since->fright_left - (is_between ? progress : 0.0f);
    for (int i = 0; i < PACMAN_GHOSTS; i++) {
        Vector2 at = pacman_ghost_at(since, &after, i, progress, time);
        pacman_draw_ghost(&shown->ghosts[i], PACMAN_COLORS[i], at, time, fright_left);
    }
    pacman_draw_gain(client, time);
    pacman_draw_end(client, time);
    pacman_draw_fright(fright_left);
}

static void c_close_client(Client* client) { (void)client; }
