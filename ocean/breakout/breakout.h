// breakout.h - knock down a wall of bricks with a ball and a paddle.
//
// The field is 576 x 330 pixels, y grows downwards, 60 frames a second, `frameskip` frames a step. Left, right and back
// wall reflect the ball, the floor takes it. The ball is a square, as are its collisions.
//
// Observation float[118], [0, 1] but for the velocities in [-1, 1]: paddle left / 576, paddle top / 330, ball left /
// 576, ball top / 330, velocity x and y (pixels a second) / 512, balls served / 5, score / 864, balls left / 5 (the one
// in play counts), paddle width / 62, then one number per brick, row by row from the top left: 1 where it is broken.
// Action: 0 stay, 1 left, 2 right, anything else stays; or, `continuous`, one float in [-1, 1], the paddle's speed.
// Reward: the points of the bricks broken in the step. Terminal: five balls lost, or both walls cleared (864 points).
// Score is the points, perf that over 864.
//
// A ball starts at rest in the middle with the paddle brought back under it, and is served downwards on its first
// frame. The paddle is met by falling balls only, by its top or its side, also when it moves into the ball; the ball
// leaves it upwards at an angle that grows evenly from -45 degrees (ball centre at the left end or beyond) to 45 (right
// end). Every ball begins with the slow speed and the wide paddle. The paddle shrinks around its centre. Within a frame
// the paddle moves first. Then the ball follows its path from contact to contact: the earliest counts, of several
// bricks met at once only the one with the greatest overlap, and whatever breaks or reflects, the ball goes on.
#pragma once

#include "puffer_env.h"

enum { BREAKOUT_STAY, BREAKOUT_LEFT, BREAKOUT_RIGHT, BREAKOUT_NUM_ACTIONS };
enum { BREAKOUT_ROWS = 6, BREAKOUT_COLUMNS = 18, BREAKOUT_BRICKS = BREAKOUT_ROWS * BREAKOUT_COLUMNS };
enum { BREAKOUT_STATE_SIZE = 10, BREAKOUT_OBSERVATION_SIZE = BREAKOUT_STATE_SIZE + BREAKOUT_BRICKS };
enum { BREAKOUT_WALL_SCORE = 432, BREAKOUT_MAX_SCORE = 2 * BREAKOUT_WALL_SCORE };
enum { BREAKOUT_FRAME_RATE = 60, BREAKOUT_MAX_FRAMESKIP = 64, BREAKOUT_BALLS = 5 };
enum { BREAKOUT_FAST_ROWS = 3, BREAKOUT_HITS_PER_SPEED_UP = 4 };
enum { BREAKOUT_MAX_CONTACTS = 8 };  // in one frame; a ball that meets more rests until the next

// Integers, because the lattice of brick edges is walked in integers; pixels.
enum { BREAKOUT_BRICK_WIDTH = 32, BREAKOUT_BRICK_HEIGHT = 12, BREAKOUT_BRICKS_TOP = 50 };
enum { BREAKOUT_BRICKS_BOTTOM = BREAKOUT_BRICKS_TOP + BREAKOUT_ROWS * BREAKOUT_BRICK_HEIGHT };
enum { BREAKOUT_BALL_SIZE = 32 };  // as wide as a brick: both sides of the ball meet column lines at the same x

#define BREAKOUT_WIDTH (576.0f)  // pixels, as all lengths below
#define BREAKOUT_HEIGHT (330.0f)
#define BREAKOUT_PADDLE_WIDTH (62.0f)
#define BREAKOUT_SMALL_PADDLE_WIDTH (31.0f)
#define BREAKOUT_PADDLE_HEIGHT (8.0f)
#define BREAKOUT_PADDLE_TOP (BREAKOUT_HEIGHT - 10.0f - BREAKOUT_PADDLE_HEIGHT)
#define BREAKOUT_BALL (32.0f)
#define BREAKOUT_BALL_START (BREAKOUT_HEIGHT / 2.0f - 30.0f)
#define BREAKOUT_BALL_MAX_X (BREAKOUT_WIDTH - BREAKOUT_BALL)
#define BREAKOUT_BALL_MAX_Y (BREAKOUT_HEIGHT - BREAKOUT_BALL)
#define BREAKOUT_BALL_ON_PADDLE (BREAKOUT_PADDLE_TOP - BREAKOUT_BALL)
#define BREAKOUT_CORNER (1.0f / 256.0f)  // how near to a brick's corner a passing ball is taken to meet it
#define BREAKOUT_NEVER (1e9f)            // frames
#define BREAKOUT_PADDLE_SPEED (620.0f)   // pixels a second, as the speeds below
#define BREAKOUT_MIN_SPEED (256.0f)
#define BREAKOUT_MAX_SPEED (448.0f)
#define BREAKOUT_SPEED_UP (64.0f)
#define BREAKOUT_SPEED_SCALE (512.0f)
#define BREAKOUT_FRAME_SECONDS (1.0f / 60.0f)
#define BREAKOUT_SERVE_SIN (0.82298386f)  // of pi / 3.25, the angle of the serve from the vertical
#define BREAKOUT_SERVE_COS (0.56806475f)

PUFFER_TABLE int BREAKOUT_POINTS[BREAKOUT_ROWS] = {7, 7, 4, 4, 1, 1};

typedef struct {
    float* observations;        // [118]  these six are borrowed from the caller
    const void* actions;        // int32_t[1], or float[1] if continuous
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]
    uint8_t* truncations;       // [1]  never set: there is no time limit
    float* final_observations;  // [118] or NULL
    float ball_x, ball_y;       // its left top corner
    float velocity_x, velocity_y;
    float paddle_x, paddle_width;
    float speed;    // of the ball in play
    int frameskip;  // frames in a step
    int steps;      // in this episode
    int score;
    uint32_t bricks[BREAKOUT_ROWS];  // bit `column` is set while the brick stands
    uint8_t balls_served, balls_left, paddle_hits;
    bool is_continuous, is_served, is_second_wall;
    Rng rng;
    Log log;  // summed at episode end, cleared by the reader
} Breakout;

PUFFER_FN PufferLayout c_layout(const Breakout* env) {
    return puffer_layout(1, BREAKOUT_OBSERVATION_SIZE, PUFFER_FLOAT32, 1,
                         env->is_continuous ? PUFFER_FLOAT32 : PUFFER_INT32);
}

// ---------------------------------------------------------------------------------------------------- observations

// What changes at every step.
PUFFER_FN void breakout_write_motion(Breakout* env) {
    float* observations = env->observations;
    observations[0] = env->paddle_x * (1.0f / BREAKOUT_WIDTH);
    observations[2] = env->ball_x * (1.0f / BREAKOUT_WIDTH);
    observations[3] = env->ball_y * (1.0f / BREAKOUT_HEIGHT);
    observations[4] = env->velocity_x * (1.0f / BREAKOUT_SPEED_SCALE);
    observations[5] = env->velocity_y * (1.0f / BREAKOUT_SPEED_SCALE);
}

// What changes when something is hit, served or lost.
PUFFER_FN void breakout_write_status(Breakout* env) {
    float* observations = env->observations;
    observations[1] = BREAKOUT_PADDLE_TOP / BREAKOUT_HEIGHT;
    observations[6] = (float)env->balls_served / (float)BREAKOUT_BALLS;
    observations[7] = (float)env->score / (float)BREAKOUT_MAX_SCORE;
    observations[8] = (float)env->balls_left / (float)BREAKOUT_BALLS;
    observations[9] = env->paddle_width / BREAKOUT_PADDLE_WIDTH;
}

// ---------------------------------------------------------------------------------------------- balls and episodes

PUFFER_FN void breakout_build_wall(Breakout* env) {
    for (int row = 0; row < BREAKOUT_ROWS; row++) env->bricks[row] = (1u << BREAKOUT_COLUMNS) - 1u;
    memset(env->observations + BREAKOUT_STATE_SIZE, 0, BREAKOUT_BRICKS * sizeof(float));
}

PUFFER_FN void breakout_place_ball(Breakout* env) {
    env->paddle_width = BREAKOUT_PADDLE_WIDTH;
    env->paddle_x = (BREAKOUT_WIDTH - BREAKOUT_PADDLE_WIDTH) / 2.0f;
    env->ball_x = BREAKOUT_BALL_MAX_X / 2.0f;
    env->ball_y = BREAKOUT_BALL_START;
    env->velocity_x = env->velocity_y = 0.0f;
    env->speed = BREAKOUT_MIN_SPEED;
    env->paddle_hits = 0;
    env->is_served = false;
}

PUFFER_FN void c_reset(Breakout* env) {
    env->steps = env->score = 0;
    env->balls_served = 0;
    env->balls_left = BREAKOUT_BALLS;
    env->is_second_wall = false;
    breakout_build_wall(env);
    breakout_place_ball(env);
    breakout_write_status(env);
    breakout_write_motion(env);
}

PUFFER_FN void breakout_finish_episode(Breakout* env) {
    env->terminals[0] = 1;
    env->log.perf += (float)env->score / (float)BREAKOUT_MAX_SCORE;
    env->log.score += (float)env->score;
    env->log.episode_return += (float)env->score;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    breakout_write_status(env);
    breakout_write_motion(env);
    keep_final(env->final_observations, env->observations, BREAKOUT_OBSERVATION_SIZE * sizeof(float));
    c_reset(env);
}

PUFFER_FN void breakout_serve(Breakout* env) {
    float side = rng_below(&env->rng, 2) ? 1.0f : -1.0f;
    env->velocity_x = side * BREAKOUT_SERVE_SIN * env->speed;
    env->velocity_y = BREAKOUT_SERVE_COS * env->speed;
    env->is_served = true;
    env->balls_served += 1;
    breakout_write_status(env);
}

// Returns whether the episode is over.
PUFFER_FN bool breakout_lose_ball(Breakout* env) {
    env->balls_left -= 1;
    if (env->balls_left == 0) {
        breakout_finish_episode(env);
        return true;
    }
    breakout_place_ball(env);
    breakout_write_status(env);
    return false;
}

// -------------------------------------------------------------------------------------------------------- contacts

typedef enum {
    BREAKOUT_NOTHING,
    BREAKOUT_SIDE_WALL,
    BREAKOUT_BACK_WALL,
    BREAKOUT_FLOOR,
    BREAKOUT_PADDLE,
    BREAKOUT_BRICK_SIDE,  // left or right face
    BREAKOUT_BRICK_FACE,  // top or bottom face
} BreakoutObstacle;

typedef struct {
    BreakoutObstacle obstacle;
    float time;     // frames from now
    float overlap;  // pixels, of the ball with the face that it meets
    int row, column;
} BreakoutContact;

// The ball's way along one axis in what is left of the frame. A ball moves less than a brick's height in a frame, so of
// the lattice of brick edges it can cross one line in x and one in y: the next ones ahead. Lines are compared with the
// ball's left top corner and are whole pixels, hence exact; a ball on a line has not crossed it.
typedef struct {
    float start;
    float velocity;  // pixels a frame
    float end;       // where the ball comes to if it meets nothing
    float line;
    float crossing;  // frames until the line is reached, BREAKOUT_NEVER if it is not crossed in this frame
} BreakoutAxis;

typedef struct {
    float time;  // frames left
    BreakoutAxis x, y;
    int column;  // of the bricks behind the line in x; outside of [0, 18): a side wall
    int row;     // of the bricks behind the line in y; -1: back wall or floor
} BreakoutPath;

PUFFER_FN int breakout_ceil(float value) {
    int whole = (int)value;
    return whole + ((float)whole < value);
}

PUFFER_FN void breakout_find_column(BreakoutPath* path) {
    float columns = path->x.start * (1.0f / (float)BREAKOUT_BRICK_WIDTH);
    int line = path->x.velocity > 0.0f ? breakout_ceil(columns) : (int)columns;
    path->x.line = (float)(line * BREAKOUT_BRICK_WIDTH);
    path->column = path->x.velocity > 0.0f ? line + 1 : line - 1;
}

PUFFER_FN void breakout_find_row(BreakoutPath* path) {
    bool is_falling = path->y.velocity > 0.0f;
    int edge = is_falling ? breakout_ceil(path->y.start) + BREAKOUT_BALL_SIZE : (int)path->y.start;
    int depth = edge - BREAKOUT_BRICKS_TOP;  // of the ball's leading edge in the wall
    if (is_falling) {
        int line = depth > 0 ? (depth + BREAKOUT_BRICK_HEIGHT - 1) / BREAKOUT_BRICK_HEIGHT : 0;
        path->row = line < BREAKOUT_ROWS ? line : -1;
        path->y.line = (float)(BREAKOUT_BRICKS_TOP + line * BREAKOUT_BRICK_HEIGHT) - BREAKOUT_BALL;
        if (path->row < 0) path->y.line = BREAKOUT_BALL_MAX_Y;
    } else {
        int line = depth > 0 ? depth / BREAKOUT_BRICK_HEIGHT : 0;
        line = line < BREAKOUT_ROWS ? line : BREAKOUT_ROWS;
        path->row = line - 1;
        path->y.line = line > 0 ? (float)(BREAKOUT_BRICKS_TOP + line * BREAKOUT_BRICK_HEIGHT) : 0.0f;
    }
}

PUFFER_FN BreakoutAxis breakout_axis(float start, float speed, float time) {
    BreakoutAxis axis;
    axis.start = start;
    axis.velocity = speed * BREAKOUT_FRAME_SECONDS;
    axis.end = start + axis.velocity * time;
    return axis;
}

PUFFER_FN void breakout_find_crossing(BreakoutAxis* axis, float time) {
    bool is_crossing = axis->velocity > 0.0f ? axis->end > axis->line : axis->end < axis->line;
    axis->crossing = BREAKOUT_NEVER;
    if (!is_crossing) return;
    axis->crossing = (axis->line - axis->start) / axis->velocity;
    if (axis->crossing > time) axis->crossing = time;
}

PUFFER_FN BreakoutPath breakout_path(const Breakout* env, float time) {
    BreakoutPath path;
    path.time = time;
    path.x = breakout_axis(env->ball_x, env->velocity_x, time);
    path.y = breakout_axis(env->ball_y, env->velocity_y, time);
    breakout_find_column(&path);
    breakout_find_row(&path);
    breakout_find_crossing(&path.x, time);
    breakout_find_crossing(&path.y, time);
    return path;
}

// Where the ball is after `time`. Before the crossing it is never beyond the line: rounding must not carry it over.
PUFFER_FN float breakout_at(const BreakoutAxis* axis, float time) {
    float position = axis->start + axis->velocity * time;
    bool is_beyond = axis->velocity > 0.0f ? position > axis->line : position < axis->line;
    return is_beyond && time <= axis->crossing ? axis->line : position;
}

// Keeps the earlier of two contacts, of simultaneous ones that with the greater overlap.
PUFFER_FN void breakout_offer(BreakoutContact* best, BreakoutObstacle obstacle, float time, float overlap, int row,
                              int column) {
    if (time > best->time || (time == best->time && overlap <= best->overlap)) return;
    best->obstacle = obstacle;
    best->time = time;
    best->overlap = overlap;
    best->row = row;
    best->column = column;
}

// Greatest overlap is least distance of centres; of rows that overlap fully the middle one is taken.
PUFFER_FN void breakout_meet_column(const Breakout* env, const BreakoutPath* path, BreakoutContact* best) {
    const float reach = (BREAKOUT_BALL + (float)BREAKOUT_BRICK_HEIGHT) / 2.0f;
    float ball_middle = breakout_at(&path->y, path->x.crossing) + BREAKOUT_BALL / 2.0f;
    float nearest = reach;
    int nearest_row = -1;
    for (int row = 0; row < BREAKOUT_ROWS; row++) {
        float middle = (float)(BREAKOUT_BRICKS_TOP + row * BREAKOUT_BRICK_HEIGHT + BREAKOUT_BRICK_HEIGHT / 2);
        float distance = fabsf(middle - ball_middle);
        if (distance >= nearest || !(env->bricks[row] >> path->column & 1u)) continue;
        nearest = distance;
        nearest_row = row;
    }
    if (nearest_row < 0) return;
    float overlap = reach - nearest;
    if (overlap > (float)BREAKOUT_BRICK_HEIGHT) overlap = (float)BREAKOUT_BRICK_HEIGHT;
    breakout_offer(best, BREAKOUT_BRICK_SIDE, path->x.crossing, overlap, nearest_row, path->column);
}

// A ball that comes exactly, or by rounding nearly, on a corner overlaps no face yet: it is looked at a hair further on
// in x, so that it cannot slip in between the column and the row test.
PUFFER_FN void breakout_meet_row(const Breakout* env, const BreakoutPath* path, BreakoutContact* best) {
    float time = path->y.crossing;
    float hair = path->x.velocity > 0.0f ? BREAKOUT_CORNER : path->x.velocity < 0.0f ? -BREAKOUT_CORNER : 0.0f;
    float x = clampf(breakout_at(&path->x, time) + hair, 0.0f, BREAKOUT_BALL_MAX_X);
    int left = (int)(x * (1.0f / (float)BREAKOUT_BRICK_WIDTH));
    float right_overlap = x - (float)(left * BREAKOUT_BRICK_WIDTH);
    float left_overlap = BREAKOUT_BALL - right_overlap;
    uint32_t pair = env->bricks[path->row] >> left;
    bool has_left = pair & 1u, has_right = (pair & 2u) && right_overlap > 0.0f;
    if (has_left && (!has_right || left_overlap >= right_overlap)) {
        breakout_offer(best, BREAKOUT_BRICK_FACE, time, left_overlap, path->row, left);
    } else if (has_right) {
        breakout_offer(best, BREAKOUT_BRICK_FACE, time, right_overlap, path->row, left + 1);
    }
}

PUFFER_FN void breakout_meet_in_x(const Breakout* env, const BreakoutPath* path, BreakoutContact* best) {
    if (path->x.crossing == BREAKOUT_NEVER) return;
    if ((unsigned)path->column < (unsigned)BREAKOUT_COLUMNS) {
        breakout_meet_column(env, path, best);
    } else {
        breakout_offer(best, BREAKOUT_SIDE_WALL, path->x.crossing, BREAKOUT_BALL, -1, -1);
    }
}

PUFFER_FN void breakout_meet_in_y(const Breakout* env, const BreakoutPath* path, BreakoutContact* best) {
    if (path->y.crossing == BREAKOUT_NEVER) return;
    if (path->row >= 0) {
        breakout_meet_row(env, path, best);
    } else {
        BreakoutObstacle obstacle = path->y.velocity > 0.0f ? BREAKOUT_FLOOR : BREAKOUT_BACK_WALL;
        breakout_offer(best, obstacle, path->y.crossing, BREAKOUT_BALL, -1, -1);
    }
}

PUFFER_FN void breakout_meet_paddle(const Breakout* env, const BreakoutPath* path, BreakoutContact* best) {
    const BreakoutAxis *x = &path->x, *y = &path->y;
    if (y->velocity <= 0.0f || y->end <= BREAKOUT_BALL_ON_PADDLE) return;
    float time = y->start < BREAKOUT_BALL_ON_PADDLE ? (BREAKOUT_BALL_ON_PADDLE - y->start) / y->velocity : 0.0f;
    float position = x->start + x->velocity * time;
    float left = env->paddle_x - BREAKOUT_BALL, right = env->paddle_x + env->paddle_width;  // where the ball touches it
    if (x->velocity > 0.0f && position < left) time = (left - x->start) / x->velocity;
    if (x->velocity < 0.0f && position > right) time = (right - x->start) / x->velocity;
    bool is_ahead_or_over = (position < right || x->velocity < 0.0f) && (position > left || x->velocity > 0.0f);
    if (is_ahead_or_over && time <= path->time) breakout_offer(best, BREAKOUT_PADDLE, time, BREAKOUT_BALL, -1, -1);
}

// ------------------------------------------------------------------------------------------------- what a hit does

PUFFER_FN void breakout_hit_back_wall(Breakout* env) {
    env->velocity_y = -env->velocity_y;
    env->paddle_x += (env->paddle_width - BREAKOUT_SMALL_PADDLE_WIDTH) / 2.0f;
    env->paddle_width = BREAKOUT_SMALL_PADDLE_WIDTH;
    breakout_write_status(env);
}

// With t the tangent of half the angle, (2t, 1 - t^2) / (1 + t^2) is a unit vector whatever t is. The tangent is its
// [3/2] Pade approximant, off by less than 2e-6 up to 45 / 2 degrees.
PUFFER_FN void breakout_aim(Breakout* env) {
    float offset = (env->ball_x + BREAKOUT_BALL / 2.0f - env->paddle_x) / env->paddle_width;
    float half_angle = 0.39269908f * clampf(2.0f * offset - 1.0f, -1.0f, 1.0f);
    float square = half_angle * half_angle;
    float tangent = half_angle * (15.0f - square) / (15.0f - 6.0f * square);
    float scale = env->speed / (1.0f + tangent * tangent);
    env->velocity_x = scale * 2.0f * tangent;
    env->velocity_y = -scale * (1.0f - tangent * tangent);
}

PUFFER_FN void breakout_hit_paddle(Breakout* env) {
    env->paddle_hits += 1;
    if (env->paddle_hits == BREAKOUT_HITS_PER_SPEED_UP) {
        env->paddle_hits = 0;
        env->speed = clampf(env->speed + BREAKOUT_SPEED_UP, BREAKOUT_MIN_SPEED, BREAKOUT_MAX_SPEED);
    }
    breakout_aim(env);
    if (env->score == BREAKOUT_WALL_SCORE && !env->is_second_wall) {
        env->is_second_wall = true;
        breakout_build_wall(env);
    }
}

// Returns whether the episode is over.
PUFFER_FN bool breakout_break_brick(Breakout* env, int row, int column) {
    env->bricks[row] &= ~(1u << column);
    env->observations[BREAKOUT_STATE_SIZE + row * BREAKOUT_COLUMNS + column] = 1.0f;
    env->score += BREAKOUT_POINTS[row];
    env->rewards[0] += (float)BREAKOUT_POINTS[row];
    if (row < BREAKOUT_FAST_ROWS) {
        env->velocity_x *= BREAKOUT_MAX_SPEED / env->speed;
        env->velocity_y *= BREAKOUT_MAX_SPEED / env->speed;
        env->speed = BREAKOUT_MAX_SPEED;
    }
    breakout_write_status(env);
    if (env->score < BREAKOUT_MAX_SCORE) return false;
    breakout_finish_episode(env);
    return true;
}

// Returns whether the episode is over.
PUFFER_FN bool breakout_hit(Breakout* env, const BreakoutContact* contact) {
    switch (contact->obstacle) {
        case BREAKOUT_NOTHING:
            return false;
        case BREAKOUT_SIDE_WALL:
            env->velocity_x = -env->velocity_x;
            return false;
        case BREAKOUT_BACK_WALL:
            breakout_hit_back_wall(env);
            return false;
        case BREAKOUT_FLOOR:
            return breakout_lose_ball(env);
        case BREAKOUT_PADDLE:
            breakout_hit_paddle(env);
            return false;
        case BREAKOUT_BRICK_SIDE:
            env->velocity_x = -env->velocity_x;
            return breakout_break_brick(env, contact->row, contact->column);
        case BREAKOUT_BRICK_FACE:
            env->velocity_y = -env->velocity_y;
            return breakout_break_brick(env, contact->row, contact->column);
    }
    return false;
}

// ---------------------------------------------------------------------------------------------------------- motion

// The paddle's way in one frame, pixels; not a number stays.
PUFFER_FN float breakout_paddle_step(const Breakout* env) {
    const float reach = BREAKOUT_PADDLE_SPEED * BREAKOUT_FRAME_SECONDS;
    if (env->is_continuous) {
        float action = ((const float*)env->actions)[0];
        return action == action ? reach * clampf(action, -1.0f, 1.0f) : 0.0f;
    }
    int action = ((const int32_t*)env->actions)[0];
    return reach * (float)((action == BREAKOUT_RIGHT) - (action == BREAKOUT_LEFT));
}

PUFFER_FN void breakout_move_paddle(Breakout* env, float way) {
    env->paddle_x = clampf(env->paddle_x + way, 0.0f, BREAKOUT_WIDTH - env->paddle_width);
}

// Moves the ball for some frames if it stays in the empty space between wall and paddle; returns whether it did.
PUFFER_FN bool breakout_glide(Breakout* env, float frames) {
    float x = env->ball_x + env->velocity_x * (frames * BREAKOUT_FRAME_SECONDS);
    float y = env->ball_y + env->velocity_y * (frames * BREAKOUT_FRAME_SECONDS);
    float top = y < env->ball_y ? y : env->ball_y;
    bool is_free =
        x >= 0.0f && x <= BREAKOUT_BALL_MAX_X && top >= (float)BREAKOUT_BRICKS_BOTTOM && y <= BREAKOUT_BALL_ON_PADDLE;
    if (!is_free) return false;
    env->ball_x = x;
    env->ball_y = y;
    return true;
}

// Moves the ball for one frame; returns whether the episode is over.
PUFFER_FN bool breakout_move_ball(Breakout* env) {
    float time = 1.0f;
    for (int i = 0; i < BREAKOUT_MAX_CONTACTS; i++) {
        BreakoutPath path = breakout_path(env, time);
        BreakoutContact contact = {BREAKOUT_NOTHING, time, -1.0f, -1, -1};
        breakout_meet_in_x(env, &path, &contact);
        breakout_meet_in_y(env, &path, &contact);
        breakout_meet_paddle(env, &path, &contact);
        if (contact.obstacle == BREAKOUT_NOTHING) {
            env->ball_x = path.x.end;
            env->ball_y = path.y.end;
            return false;
        }
        env->ball_x = breakout_at(&path.x, contact.time);
        env->ball_y = breakout_at(&path.y, contact.time);
        time -= contact.time;
        if (breakout_hit(env, &contact)) return true;
        if (contact.obstacle == BREAKOUT_FLOOR) return false;
    }
    return false;
}

// Plays the frames of a step one by one, up to the end of the episode.
PUFFER_FN void breakout_play_frames(Breakout* env, float paddle_step) {
    for (int frame = 0; frame < env->frameskip; frame++) {
        if (!env->is_served) breakout_serve(env);
        breakout_move_paddle(env, paddle_step);
        if (!breakout_glide(env, 1.0f) && breakout_move_ball(env)) return;
    }
}

PUFFER_FN void c_step(Breakout* env) {
    float paddle_step = breakout_paddle_step(env);
    env->rewards[0] = 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    env->steps += 1;
    if (env->is_served && breakout_glide(env, (float)env->frameskip)) {
        breakout_move_paddle(env, paddle_step * (float)env->frameskip);
    } else {
        breakout_play_frames(env, paddle_step);
    }
    breakout_write_motion(env);
}

// ------------------------------------------------------------------------------------------------------- snapshots

PUFFER_FN bool breakout_accepts_arguments(const Breakout* env, const Breakout* saved) {
    return is_bool(&saved->is_continuous) && saved->is_continuous == env->is_continuous &&
           saved->frameskip == env->frameskip;
}

PUFFER_FN bool breakout_accepts_counts(const Breakout* saved) {
    return is_bool(&saved->is_served) && is_bool(&saved->is_second_wall) &&
           is_within(saved->steps, 0, PUFFER_MAX_STEPS) && is_within(saved->score, 0, BREAKOUT_MAX_SCORE - 1) &&
           is_within(saved->balls_left, 1, BREAKOUT_BALLS) &&
           saved->balls_served + saved->balls_left == BREAKOUT_BALLS + saved->is_served &&
           is_within(saved->paddle_hits, 0, BREAKOUT_HITS_PER_SPEED_UP - 1);
}

PUFFER_FN bool breakout_accepts_motion(const Breakout* saved) {
    bool is_wide = saved->paddle_width == BREAKOUT_PADDLE_WIDTH;
    float reach = 1.001f * saved->speed;  // of either component, rounding included
    return (is_wide || saved->paddle_width == BREAKOUT_SMALL_PADDLE_WIDTH) &&
           is_withinf(saved->paddle_x, 0.0f, BREAKOUT_WIDTH - saved->paddle_width) &&
           is_withinf(saved->ball_x, 0.0f, BREAKOUT_BALL_MAX_X) &&
           is_withinf(saved->ball_y, 0.0f, BREAKOUT_BALL_MAX_Y) &&
           is_withinf(saved->speed, BREAKOUT_MIN_SPEED, BREAKOUT_MAX_SPEED) &&
           is_withinf(saved->velocity_x, -reach, reach) && is_withinf(saved->velocity_y, -reach, reach);
}

PUFFER_FN bool c_accepts(const Breakout* env, const Breakout* saved) {
    for (int row = 0; row < BREAKOUT_ROWS; row++) {
        if (saved->bricks[row] >> BREAKOUT_COLUMNS != 0) return false;
    }
    return breakout_accepts_arguments(env, saved) && breakout_accepts_counts(saved) && breakout_accepts_motion(saved);
}
