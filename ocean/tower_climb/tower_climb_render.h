// tower_climb_render.h - the tower as seen from the south-east and above, in parallel projection: the terraces rise to
// the back, loose blocks glow, the climber is a puffer ball with an eye for where it faces.
//
// Blocks are drawn from the back to the front and from below to above, so that what is nearer covers what is farther.
// The eye rises with the climber.
#pragma once

#include "puffer_render.h"
#include "tower_climb.h"

typedef TowerClimb Env;

enum { TOWER_PICTURE_WIDTH = 720, TOWER_PICTURE_HEIGHT = 640, TOWER_HEADER = 80 };
enum { TOWER_ROWS_BELOW = 6, TOWER_ROWS_ABOVE = 9 };  // of the climber's row, that are drawn

#define TOWER_EAST_X (44.0f)   // pixels to the right for a column to the east
#define TOWER_EAST_Y (13.0f)   // and down
#define TOWER_NORTH_X (27.0f)  // pixels to the right for a row to the north
#define TOWER_NORTH_Y (23.0f)  // and up
#define TOWER_UP (38.0f)       // pixels up for a block
#define TOWER_BALL (16.0f)     // radius of the climber

// A place in the tower, in columns, rows and blocks.
typedef struct {
    float column, row, height;
} TowerPlace;

typedef struct {
    TowerPlace eye;
} Client;

static PufferPicture c_open_client(Client* client, const TowerClimb* env) {
    PufferPicture picture = {TOWER_PICTURE_WIDTH, TOWER_PICTURE_HEIGHT, 6.0f, "PufferLib tower climb"};
    return picture;
}

static Vector2 tower_point(const TowerPlace* eye, float column, float row, float height) {
    float east = column - eye->column, north = row - eye->row, up = height - eye->height;
    return (Vector2){0.5f * TOWER_PICTURE_WIDTH - 60.0f + east * TOWER_EAST_X + north * TOWER_NORTH_X,
                     0.62f * TOWER_PICTURE_HEIGHT + east * TOWER_EAST_Y - north * TOWER_NORTH_Y - up * TOWER_UP};
}

static TowerPlace tower_place(const TowerClimb* env) {
    float lean = env->posture == TOWER_HANGS ? 0.28f : 0.0f;  // towards what it hangs from
    return (TowerPlace){(float)env->column + lean * (float)TOWER_COLUMNS[env->facing],
                        (float)env->row + lean * (float)TOWER_ROWS[env->facing], (float)tower_feet(env)};
}

// ----------------------------------------------------------------------------------------------------------- blocks

// A block from a corner, the sides that are seen: top, south, east.
static void tower_draw_block(const TowerPlace* eye, TowerPlace at, float height, Color color) {
    float west = at.column - 0.5f, east = at.column + 0.5f, south = at.row - 0.5f, north = at.row + 0.5f;
    float top = at.height + height;
    Vector2 roof[4] = {tower_point(eye, west, south, top), tower_point(eye, east, south, top),
                       tower_point(eye, east, north, top), tower_point(eye, west, north, top)};
    Vector2 front[4] = {tower_point(eye, west, south, at.height), tower_point(eye, east, south, at.height), roof[1],
                        roof[0]};
    Vector2 side[4] = {front[1], tower_point(eye, east, north, at.height), roof[2], roof[1]};
    puffer_polygon(side, 4, puffer_mix(color, PUFFER_BACKGROUND, 0.62f));
    puffer_polygon(front, 4, puffer_mix(color, PUFFER_BACKGROUND, 0.38f));
    puffer_polygon(roof, 4, color);
}

// Terraces are lighter the higher they are; the last one is the goal. A checkerboard tells the cells apart.
static Color tower_floor_color(const TowerClimb* env, int row, int column) {
    int terrace = env->terrace_of[row];
    float share = (float)terrace / (float)env->terraces;
    Color color = terrace == env->terraces ? (Color){206, 214, 212, 255}
                                           : puffer_mix((Color){34, 86, 88, 255}, (Color){88, 156, 154, 255}, share);
    return (row + column) % 2 ? puffer_mix(color, PUFFER_BACKGROUND, 0.12f) : color;
}

// What moved in the step: a block from one column to another.
typedef struct {
    bool is_moving;
    TowerPlace from, to;
} TowerSlide;

// The direction in which a block lies from the agent.
static int tower_pushed_to(const TowerClimb* before, int row, int column) {
    int direction = 0;
    while (direction < TOWER_WEST &&
           (before->row + TOWER_ROWS[direction] != row || before->column + TOWER_COLUMNS[direction] != column)) {
        direction++;
    }
    return direction;
}

// A block was pushed the way that the agent faces, or pulled the other way to where the agent stood.
static TowerSlide tower_slide(const TowerClimb* before, const TowerClimb* now) {
    TowerSlide slide = {.is_moving = false};
    for (int row = 0; row < before->rows; row++) {
        for (int column = 0; column < TOWER_WIDTH; column++) {
            if (now->loose[row][column] >= before->loose[row][column]) continue;
            slide.is_moving = true;
            slide.from = (TowerPlace){(float)column, (float)row, (float)tower_height(now, row, column)};
            bool is_pulled = tower_is_on(now, before->row, before->column) &&
                             now->loose[before->row][before->column] > before->loose[before->row][before->column];
            int direction = is_pulled ? before->facing ^ 2 : tower_pushed_to(before, row, column);
            int to_row = row + TOWER_ROWS[direction], to_column = column + TOWER_COLUMNS[direction];
            bool is_kept = tower_is_on(now, to_row, to_column);
            float height = is_kept ? (float)tower_height(now, to_row, to_column) - 1.0f : slide.from.height - 8.0f;
            slide.to = (TowerPlace){(float)to_column, (float)to_row, height};
        }
    }
    return slide;
}

// Over the edge first, then down.
static TowerPlace tower_between(TowerPlace from, TowerPlace to, float share) {
    bool rises = to.height > from.height;
    float along = puffer_ease(fminf(rises ? 2.0f * share - 0.8f : 1.5f * share, 1.0f));
    float up = puffer_ease(fminf(rises ? 1.8f * share : fmaxf(2.5f * share - 1.5f, 0.0f), 1.0f));
    along = fmaxf(along, 0.0f);
    return (TowerPlace){puffer_lerp(from.column, to.column, along), puffer_lerp(from.row, to.row, along),
                        puffer_lerp(from.height, to.height, up)};
}

// ---------------------------------------------------------------------------------------------------------- drawing

static void tower_draw_climber(const TowerPlace* eye, TowerPlace at, int facing, bool has_ground) {
    Vector2 feet = tower_point(eye, at.column, at.row, at.height);
    Vector2 ahead = tower_point(eye, at.column + 0.3f * (float)TOWER_COLUMNS[facing],
                                at.row + 0.3f * (float)TOWER_ROWS[facing], at.height);
    float x = feet.x, y = feet.y - TOWER_BALL;
    if (has_ground) puffer_disc(x, feet.y, 0.8f * TOWER_BALL, (Color){0, 0, 0, 80});
    puffer_glow(x, y, 2.2f * TOWER_BALL, puffer_fade(PUFFER_CYAN, 0.4f));
    puffer_disc(x, y, TOWER_BALL, PUFFER_CYAN);
    float look_x = x + 0.8f * (ahead.x - feet.x), look_y = y + 0.8f * (ahead.y - feet.y);
    puffer_disc(look_x, look_y - 2.0f, 0.42f * TOWER_BALL, PUFFER_WHITE);
    puffer_disc(look_x + 0.15f * (ahead.x - feet.x), look_y - 2.0f + 0.15f * (ahead.y - feet.y), 0.2f * TOWER_BALL,
                PUFFER_BACKGROUND);
}

// Its hands: on the edge that it hangs from, or on the block that it holds; over all else, so that they are seen where
// the climber is behind a block, too.
static void tower_draw_hands(const TowerPlace* eye, const TowerClimb* env, TowerPlace at) {
    if (env->posture == TOWER_STANDS) return;
    Vector2 feet = tower_point(eye, at.column, at.row, at.height);
    if (env->posture == TOWER_HANGS)
        puffer_disc(feet.x, feet.y - TOWER_BALL, TOWER_BALL, puffer_fade(PUFFER_CYAN, 0.4f));
    float down = (float)TOWER_ROWS[env->facing], right = (float)TOWER_COLUMNS[env->facing];
    float reach = env->posture == TOWER_HANGS ? 0.3f : 0.55f, height = env->posture == TOWER_HANGS ? 1.0f : 0.6f;
    for (int side = -1; side <= 1; side += 2) {
        float column = at.column + reach * right + 0.2f * (float)side * down;
        float row = at.row + reach * down + 0.2f * (float)side * right;
        Vector2 shoulder = tower_point(eye, column - reach * right, row - reach * down, at.height + 0.5f);
        Vector2 hand = tower_point(eye, column, row, at.height + height);
        puffer_line(shoulder.x, shoulder.y, hand.x, hand.y, 5.0f, PUFFER_CYAN);
        puffer_disc(hand.x, hand.y, 4.5f, PUFFER_WHITE);
    }
}

static void tower_draw_column(const TowerPlace* eye, const TowerClimb* env, int row, int column) {
    if (tower_height(env, row, column) == 0) return;  // a trench
    const Color loose = {226, 150, 52, 255};
    float fixed = (float)env->fixed[row][column], base = fmaxf(fixed - 4.0f, -2.0f);
    bool is_edge = row == 0 || column == TOWER_WIDTH - 1 || env->fixed[row - 1][column] == 0;
    if (is_edge || env->fixed[row][column + 1] == 0) base = -2.0f;
    TowerPlace at = {(float)column, (float)row, base};
    tower_draw_block(eye, at, fixed - base, tower_floor_color(env, row, column));
    for (int i = 0; i < env->loose[row][column]; i++) {
        at.height = fixed + (float)i;
        tower_draw_block(eye, at, 1.0f, loose);
    }
}

// The rows from the back, the columns from the west; what moves when its own column is reached.
static void tower_draw(const TowerPlace* eye, const TowerClimb* env, TowerPlace climber, const TowerSlide* slide,
                       float share) {
    TowerPlace block = tower_between(slide->from, slide->to, share);
    int climber_row = (int)ceilf(climber.row - 0.3f), block_row = (int)ceilf(block.row - 0.001f);
    climber_row = climber_row < env->rows - 1 ? climber_row : env->rows - 1;
    int highest = env->row + TOWER_ROWS_ABOVE, lowest = env->row - TOWER_ROWS_BELOW;
    bool is_climber_drawn = false, is_block_drawn = !slide->is_moving, stands = env->posture != TOWER_HANGS;
    for (int row = highest < env->rows ? highest : env->rows - 1; row >= (lowest > 0 ? lowest : 0); row--) {
        for (int column = 0; column < TOWER_WIDTH; column++) {
            if (!is_climber_drawn && row <= climber_row && climber.column < -0.5f) {
                tower_draw_climber(eye, climber, env->facing, stands);
                is_climber_drawn = true;
            }
            tower_draw_column(eye, env, row, column);
            if (!is_block_drawn && row <= block_row && (float)column >= block.column - 0.001f) {
                tower_draw_block(eye, block, 1.0f, (Color){246, 184, 96, 255});
                is_block_drawn = true;
            }
            if (!is_climber_drawn && row <= climber_row && (float)column >= climber.column - 0.001f) {
                tower_draw_climber(eye, climber, env->facing, stands);
                is_climber_drawn = true;
            }
        }
    }
    if (!is_block_drawn) tower_draw_block(eye, block, 1.0f, (Color){246, 184, 96, 255});
    if (!is_climber_drawn) tower_draw_climber(eye, climber, env->facing, stands);
    tower_draw_hands(eye, env, climber);
}

static void tower_draw_header(const TowerClimb* env) {
    const float y = 0.5f * TOWER_HEADER, margin = 28.0f;
    int limit = TOWER_STEPS * env->terraces;
    puffer_rectangle(0.0f, 0.0f, TOWER_PICTURE_WIDTH, TOWER_HEADER, puffer_fade(PUFFER_BACKGROUND, 0.85f));
    puffer_counter("TERRACE", TextFormat("%d / %d", env->highest, env->terraces), margin, y, PUFFER_LEFT);
    puffer_counter("STEPS LEFT", TextFormat("%d", limit - env->steps), TOWER_PICTURE_WIDTH - margin, y, PUFFER_RIGHT);
    puffer_bar(margin, TOWER_PICTURE_HEIGHT - margin, TOWER_PICTURE_WIDTH - 2.0f * margin, 8.0f,
               1.0f - (float)env->steps / (float)limit, PUFFER_CYAN);
}

static void c_render(Client* client, const TowerClimb* before, const TowerClimb* now, float progress) {
    bool has_ended = now->terminals[0] || now->truncations[0];
    const TowerClimb* env = has_ended && progress < 1.0f ? before : now;
    TowerSlide slide = {.is_moving = false};
    TowerPlace climber = tower_place(env);
    if (progress < 1.0f && !has_ended) {
        slide = tower_slide(before, now);
        climber = tower_between(tower_place(before), climber, progress);
    }
    TowerClimb standing = *env;
    if (slide.is_moving && tower_is_on(env, (int)slide.to.row, (int)slide.to.column)) {
        standing.loose[(int)slide.to.row][(int)slide.to.column] -= 1;  // it is drawn where it slides
    }
    TowerPlace eye = climber;
    eye.column = 0.5f * (float)(TOWER_WIDTH - 1);
    tower_draw(&eye, &standing, climber, &slide, progress);
    tower_draw_header(env);
}

static void c_close_client(Client* client) { (void)client; }
