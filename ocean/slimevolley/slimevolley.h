// slimevolley.h - two slimes play volleyball over a net: the ball must not touch the floor on the own side.
//
// The court is 48 wide, 24 on either side of a net 3.5 high. A slime is the upper half of a disc of radius 1.5, the
// ball a disc of radius 0.5. Slimes run and jump, on their own side; the ball flies without losing speed, off walls,
// net and slimes. A slime that moves passes its motion on. A step is 1/30 of a second.
//
// Each side has five lives, and loses one when the ball touches its floor. Then the ball hangs above the net for a
// second, and is thrown at a random slant to either side. The game ends when a side has no life left, or after 3,000
// steps.
//
// The agent is on the right. With `opponent` "self" a second one is on the left, who sees the court mirrored: what both
// see, do and get is alike, to the bit. With "bot" the other slime plays by `bot_strength`: 0 at random, 1 runs below
// the ball, 2 runs to where it will come down and gets behind it; `bot_random` percent of its steps are random. Of two
// agents, PUFFER_BOT_MOVES of puffer_bot.h has it play for one.
//
// Observation float[12], positions in tens and velocities in tens a second, the net at 0 and the own side positive:
//   0-3 x and y of the own slime, and its velocities; 4-7 those of the ball; 8-11 those of the other slime.
// Action [2, 2, 2]: 1 runs forward, to the net; 1 runs backward; 1 jumps, from the floor alone. Forward and backward at
// once stand still; any number but 1 is 0.
// Reward: +1 when the other side loses a life, -1 for one's own. Terminal when a side has no life left, truncation
// after 3,000 steps. Score is lives taken less lives lost, perf 0.5 + 0.1 * score.
#pragma once

#include "puffer_bot.h"
#include "puffer_env.h"

enum { SLIMEVOLLEY_RIGHT, SLIMEVOLLEY_LEFT, SLIMEVOLLEY_SIDES };
enum { SLIMEVOLLEY_FORWARD, SLIMEVOLLEY_BACKWARD, SLIMEVOLLEY_JUMP, SLIMEVOLLEY_ACTIONS };
enum { SLIMEVOLLEY_AT_RANDOM, SLIMEVOLLEY_FOLLOWS, SLIMEVOLLEY_FORESEES };  // bot_strength
enum { SLIMEVOLLEY_OBSERVATIONS = 12, SLIMEVOLLEY_LIVES = 5, SLIMEVOLLEY_MAX_STEPS = 3000, SLIMEVOLLEY_PAUSE = 30 };

#define SLIMEVOLLEY_STEP (1.0f / 30.0f)  // seconds; all below in units of length and seconds
#define SLIMEVOLLEY_GRAVITY (29.4f)
#define SLIMEVOLLEY_WALL (24.0f)  // from the net
#define SLIMEVOLLEY_NET_HEIGHT (3.5f)
#define SLIMEVOLLEY_NET_RADIUS (0.5f)  // half its width, and of its round top
#define SLIMEVOLLEY_RADIUS (1.5f)      // of a slime
#define SLIMEVOLLEY_BALL_RADIUS (0.5f)
#define SLIMEVOLLEY_REACH (SLIMEVOLLEY_RADIUS + SLIMEVOLLEY_BALL_RADIUS)
#define SLIMEVOLLEY_NET_REACH (SLIMEVOLLEY_NET_RADIUS + SLIMEVOLLEY_BALL_RADIUS)
#define SLIMEVOLLEY_SPEED (17.5f)
#define SLIMEVOLLEY_JUMP_SPEED (13.5f)
#define SLIMEVOLLEY_BALL_SPEED (22.5f)                                     // the most that it has as it leaves a slime
#define SLIMEVOLLEY_NEAREST (SLIMEVOLLEY_NET_RADIUS + SLIMEVOLLEY_RADIUS)  // of a slime, to the net
#define SLIMEVOLLEY_FARTHEST (SLIMEVOLLEY_WALL - SLIMEVOLLEY_RADIUS)
#define SLIMEVOLLEY_BALL_WALL (SLIMEVOLLEY_WALL - SLIMEVOLLEY_BALL_RADIUS)
#define SLIMEVOLLEY_SERVE_HEIGHT (12.0f)
// More than the square of the speed, and of what falling would add to it, that any ball has.
#define SLIMEVOLLEY_MAX_ENERGY (1400.0f)
#define SLIMEVOLLEY_BEHIND (0.5f)  // how far behind the ball a bot that foresees stands, so as to send it forward
#define SLIMEVOLLEY_NEAR (3.5f)    // a ball that is so near is jumped at

typedef struct {
    float x, y, vx, vy;  // from the middle of the net's foot, to the right and up; of a slime, the middle of its base
} SlimevolleyBody;

typedef struct {
    float* observations;        // [agents, 12]  these seven are borrowed from the caller
    const void* actions;        // int32_t[agents, 3]
    float* rewards;             // [agents]
    uint8_t* terminals;         // [agents]
    uint8_t* truncations;       // [agents]
    uint8_t* masks;             // [agents]  always set: both act at once
    float* final_observations;  // [agents, 12] or NULL
    Rng rng;
    int num_agents, bot_strength, bot_random;  // keyword arguments
    SlimevolleyBody slimes[SLIMEVOLLEY_SIDES], ball;
    int lives[SLIMEVOLLEY_SIDES];
    int pause;  // steps for which the ball still hangs
    int steps;  // of the game
    Log log;    // summed at the end of games, cleared by the reader
} Slimevolley;

PUFFER_FN PufferLayout c_layout(const Slimevolley* env) {
    return puffer_layout(env->num_agents, SLIMEVOLLEY_OBSERVATIONS, PUFFER_FLOAT32, SLIMEVOLLEY_ACTIONS, PUFFER_INT32);
}

// 1 on the right, where a slime's own side is that of positive x, -1 on the left.
PUFFER_FN float slimevolley_sign(int side) { return side == SLIMEVOLLEY_RIGHT ? 1.0f : -1.0f; }

PUFFER_FN void slimevolley_write_body(float* row, const SlimevolleyBody* body, float sign) {
    row[0] = 0.1f * sign * body->x;
    row[1] = 0.1f * body->y;
    row[2] = 0.1f * sign * body->vx;
    row[3] = 0.1f * body->vy;
}

PUFFER_FN void slimevolley_write(Slimevolley* env) {
    for (int i = 0; i < env->num_agents; i++) {
        float* row = env->observations + i * SLIMEVOLLEY_OBSERVATIONS;
        float sign = slimevolley_sign(i);
        env->masks[i] = 1;
        slimevolley_write_body(row, &env->slimes[i], sign);
        slimevolley_write_body(row + 4, &env->ball, sign);
        slimevolley_write_body(row + 8, &env->slimes[1 - i], sign);
    }
}

// ------------------------------------------------------------------------------------------------------------- the bot

// Where the ball comes down to a slime's height, seen from a side, the walls reckoned with and the net not.
PUFFER_FN float slimevolley_landing(const Slimevolley* env, float sign) {
    const SlimevolleyBody* ball = &env->ball;
    float above = ball->y - SLIMEVOLLEY_RADIUS, square = ball->vy * ball->vy + 2.0f * SLIMEVOLLEY_GRAVITY * above;
    float seconds = (ball->vy + sqrtf(square > 0.0f ? square : 0.0f)) * (1.0f / SLIMEVOLLEY_GRAVITY);
    float x = sign * (ball->x + ball->vx * seconds);
    if (x > SLIMEVOLLEY_BALL_WALL) return 2.0f * SLIMEVOLLEY_BALL_WALL - x;
    if (x < -SLIMEVOLLEY_BALL_WALL) return -2.0f * SLIMEVOLLEY_BALL_WALL - x;
    return x;
}

// What a bot presses, as bits.
PUFFER_FN int slimevolley_think(const Slimevolley* env, int side) {
    float sign = slimevolley_sign(side), x = sign * env->slimes[side].x;
    bool foresees = env->bot_strength == SLIMEVOLLEY_FORESEES;
    float ball_x = sign * env->ball.x, place = foresees ? slimevolley_landing(env, sign) : ball_x;
    bool is_own = place > 0.0f;  // else it runs back to the middle of its side
    place = !is_own ? 0.5f * SLIMEVOLLEY_WALL : foresees ? place + SLIMEVOLLEY_BEHIND : place;
    float away = ball_x - x, up = env->ball.y - env->slimes[side].y;
    bool is_near = away * away + up * up < SLIMEVOLLEY_NEAR * SLIMEVOLLEY_NEAR;
    bool jumps = is_near && away < 0.0f && up > SLIMEVOLLEY_RADIUS;
    const float still = 0.3f;
    return (place < x - still) << SLIMEVOLLEY_FORWARD | (place > x + still) << SLIMEVOLLEY_BACKWARD |
           (int)jumps << SLIMEVOLLEY_JUMP;
}

PUFFER_FN int slimevolley_bot(Slimevolley* env, int side) {
    int drawn = rng_below(&env->rng, 100 << SLIMEVOLLEY_ACTIONS);  // whether it is random, and what that is
    bool is_random = env->bot_strength == SLIMEVOLLEY_AT_RANDOM || drawn >> SLIMEVOLLEY_ACTIONS < env->bot_random;
    return is_random ? drawn & ((1 << SLIMEVOLLEY_ACTIONS) - 1) : slimevolley_think(env, side);
}

// -------------------------------------------------------------------------------------------------------------- motion

PUFFER_FN int slimevolley_pressed(const Slimevolley* env, int agent) {
    const int32_t* row = (const int32_t*)env->actions + agent * SLIMEVOLLEY_ACTIONS;
    return (row[0] == 1) << SLIMEVOLLEY_FORWARD | (row[1] == 1) << SLIMEVOLLEY_BACKWARD |
           (row[2] == 1) << SLIMEVOLLEY_JUMP;
}

// Whether the bot plays a side: that of no agent, or of one of two whose action is PUFFER_BOT_MOVES.
PUFFER_FN bool slimevolley_is_bot(const Slimevolley* env, int side) {
    if (side >= env->num_agents) return true;
    return env->num_agents == 2 && ((const int32_t*)env->actions)[side * SLIMEVOLLEY_ACTIONS] == PUFFER_BOT_MOVES;
}

PUFFER_FN void slimevolley_move(SlimevolleyBody* slime, int pressed, float sign) {
    int backward = (pressed >> SLIMEVOLLEY_BACKWARD & 1) - (pressed >> SLIMEVOLLEY_FORWARD & 1);
    bool jumps = pressed >> SLIMEVOLLEY_JUMP & 1 && slime->y <= 0.0f;
    float vx = SLIMEVOLLEY_SPEED * (float)backward;
    float vy = (jumps ? SLIMEVOLLEY_JUMP_SPEED : slime->vy) - SLIMEVOLLEY_GRAVITY * SLIMEVOLLEY_STEP;
    float y = slime->y + vy * SLIMEVOLLEY_STEP;
    float wanted = sign * slime->x + vx * SLIMEVOLLEY_STEP;
    float x = clampf(wanted, SLIMEVOLLEY_NEAREST, SLIMEVOLLEY_FARTHEST);
    bool is_down = y <= 0.0f;
    slime->x = sign * x;
    slime->y = is_down ? 0.0f : y;
    slime->vx = x == wanted ? sign * vx : 0.0f;
    slime->vy = is_down ? 0.0f : vy;
}

// Reflects the ball off a disc that it overlaps, as seen by that disc, which may move.
PUFFER_FN bool slimevolley_bounce(SlimevolleyBody* ball, const SlimevolleyBody* disc, float reach) {
    float x = ball->x - disc->x, y = ball->y - disc->y, square = x * x + y * y;
    if (square >= reach * reach) return false;
    float distance = sqrtf(square);
    bool is_apart = distance > 0.001f;
    float scale = 1.0f / (is_apart ? distance : 1.0f);
    x = is_apart ? x * scale : 0.0f;
    y = is_apart ? y * scale : 1.0f;
    ball->x = disc->x + reach * x;
    ball->y = disc->y + reach * y;
    float approach = (ball->vx - disc->vx) * x + (ball->vy - disc->vy) * y;
    float change = approach < 0.0f ? -2.0f * approach : 0.0f;
    ball->vx += change * x;
    ball->vy += change * y;
    return true;
}

PUFFER_FN void slimevolley_limit_speed(SlimevolleyBody* ball) {
    float square = ball->vx * ball->vx + ball->vy * ball->vy;
    if (square <= SLIMEVOLLEY_BALL_SPEED * SLIMEVOLLEY_BALL_SPEED) return;
    float scale = SLIMEVOLLEY_BALL_SPEED / sqrtf(square);
    ball->vx *= scale;
    ball->vy *= scale;
}

// The ball near the net: off its round top, or off the side of it on which the ball is.
PUFFER_FN void slimevolley_meet_net(SlimevolleyBody* ball) {
    if (ball->y >= SLIMEVOLLEY_NET_HEIGHT) {
        SlimevolleyBody top = {0.0f, SLIMEVOLLEY_NET_HEIGHT, 0.0f, 0.0f};
        slimevolley_bounce(ball, &top, SLIMEVOLLEY_NET_REACH);
        return;
    }
    bool is_right = ball->x > 0.0f;
    bool comes = is_right ? ball->vx < 0.0f : ball->vx > 0.0f;
    ball->x = is_right ? SLIMEVOLLEY_NET_REACH : -SLIMEVOLLEY_NET_REACH;
    if (comes) ball->vx = -ball->vx;
}

PUFFER_FN void slimevolley_meet_wall(SlimevolleyBody* ball) {
    bool is_right = ball->x > 0.0f;
    bool comes = is_right ? ball->vx > 0.0f : ball->vx < 0.0f;
    ball->x = is_right ? SLIMEVOLLEY_BALL_WALL : -SLIMEVOLLEY_BALL_WALL;
    if (comes) ball->vx = -ball->vx;
}

PUFFER_FN void slimevolley_fly(Slimevolley* env) {
    SlimevolleyBody ball = env->ball;
    ball.vy -= SLIMEVOLLEY_GRAVITY * SLIMEVOLLEY_STEP;
    ball.x += ball.vx * SLIMEVOLLEY_STEP;
    ball.y += ball.vy * SLIMEVOLLEY_STEP;
    int side = ball.x > 0.0f ? SLIMEVOLLEY_RIGHT : SLIMEVOLLEY_LEFT;  // the slime that it can touch
    if (slimevolley_bounce(&ball, &env->slimes[side], SLIMEVOLLEY_REACH)) slimevolley_limit_speed(&ball);
    float aside = fabsf(ball.x);
    if (aside > SLIMEVOLLEY_BALL_WALL) slimevolley_meet_wall(&ball);
    bool is_at_net = aside < SLIMEVOLLEY_NET_REACH && ball.y < SLIMEVOLLEY_NET_HEIGHT + SLIMEVOLLEY_NET_REACH;
    if (is_at_net) slimevolley_meet_net(&ball);
    env->ball = ball;
}

// -------------------------------------------------------------------------------------------------------------- a game

PUFFER_FN void slimevolley_serve(Slimevolley* env) {
    SlimevolleyBody ball = {0.0f, SLIMEVOLLEY_SERVE_HEIGHT, 0.0f, 0.0f};
    env->ball = ball;
    env->pause = SLIMEVOLLEY_PAUSE;
}

PUFFER_FN void slimevolley_throw(Slimevolley* env) {
    env->ball.vx = rng_uniform(&env->rng, -16.0f, 16.0f);
    env->ball.vy = rng_uniform(&env->rng, 5.0f, 15.0f);
}

PUFFER_FN void c_reset(Slimevolley* env) {
    for (int side = 0; side < SLIMEVOLLEY_SIDES; side++) {
        SlimevolleyBody slime = {0.5f * SLIMEVOLLEY_WALL * slimevolley_sign(side), 0.0f, 0.0f, 0.0f};
        env->slimes[side] = slime;
        env->lives[side] = SLIMEVOLLEY_LIVES;
    }
    env->steps = 0;
    slimevolley_serve(env);
    slimevolley_write(env);
}

// Takes a life from the side on whose floor the ball is.
PUFFER_FN void slimevolley_take_life(Slimevolley* env) {
    int loser = env->ball.x > 0.0f ? SLIMEVOLLEY_RIGHT : SLIMEVOLLEY_LEFT;
    env->lives[loser] -= 1;
    for (int i = 0; i < env->num_agents; i++) env->rewards[i] = i == loser ? -1.0f : 1.0f;
    if (env->lives[loser] > 0) slimevolley_serve(env);
}

PUFFER_FN void slimevolley_finish_game(Slimevolley* env, bool is_over) {
    for (int i = 0; i < env->num_agents; i++) {
        float score = (float)(env->lives[i] - env->lives[1 - i]);
        env->terminals[i] = is_over;
        env->truncations[i] = !is_over;
        env->log.perf += 0.5f + (0.5f / (float)SLIMEVOLLEY_LIVES) * score;
        env->log.score += score;
        env->log.episode_return += score;
        env->log.episode_length += (float)env->steps;
        env->log.n += 1.0f;
    }
    size_t bytes = (size_t)(env->num_agents * SLIMEVOLLEY_OBSERVATIONS) * sizeof(float);
    keep_final(env->final_observations, env->observations, bytes);
    c_reset(env);
}

PUFFER_FN void slimevolley_move_slimes(Slimevolley* env) {
    for (int side = 0; side < SLIMEVOLLEY_SIDES; side++) {
        int pressed = slimevolley_is_bot(env, side) ? slimevolley_bot(env, side) : slimevolley_pressed(env, side);
        slimevolley_move(&env->slimes[side], pressed, slimevolley_sign(side));
    }
}

PUFFER_FN void c_step(Slimevolley* env) {
    for (int i = 0; i < env->num_agents; i++) {
        env->rewards[i] = 0.0f;
        env->terminals[i] = env->truncations[i] = 0;
    }
    env->steps += 1;
    slimevolley_move_slimes(env);
    if (env->pause == 0) {
        slimevolley_fly(env);
        if (env->ball.y <= SLIMEVOLLEY_BALL_RADIUS) slimevolley_take_life(env);
    } else if (--env->pause == 0) {
        slimevolley_throw(env);
    }
    slimevolley_write(env);
    bool is_over = env->lives[SLIMEVOLLEY_RIGHT] == 0 || env->lives[SLIMEVOLLEY_LEFT] == 0;
    if (is_over || env->steps == SLIMEVOLLEY_MAX_STEPS) slimevolley_finish_game(env, is_over);
}

PUFFER_FN bool slimevolley_stands(const SlimevolleyBody* slime, float sign) {
    return is_withinf(sign * slime->x, SLIMEVOLLEY_NEAREST, SLIMEVOLLEY_FARTHEST) &&
           is_withinf(slime->y, 0.0f, SLIMEVOLLEY_NET_HEIGHT) &&
           is_withinf(slime->vx, -SLIMEVOLLEY_SPEED, SLIMEVOLLEY_SPEED) &&
           is_withinf(slime->vy, -SLIMEVOLLEY_JUMP_SPEED, SLIMEVOLLEY_JUMP_SPEED);
}

// Slimes on their sides, a ball in the court that is no faster and no higher than play makes it, a game that is not
// over.
PUFFER_FN bool c_accepts(const Slimevolley* env, const Slimevolley* saved) {
    bool is_alike = saved->num_agents == env->num_agents && saved->bot_strength == env->bot_strength &&
                    saved->bot_random == env->bot_random;
    const SlimevolleyBody* ball = &saved->ball;
    float energy = ball->vx * ball->vx + ball->vy * ball->vy + 2.0f * SLIMEVOLLEY_GRAVITY * ball->y;
    return is_alike && slimevolley_stands(&saved->slimes[0], 1.0f) && slimevolley_stands(&saved->slimes[1], -1.0f) &&
           is_withinf(ball->x, -SLIMEVOLLEY_WALL, SLIMEVOLLEY_WALL) && is_withinf(ball->y, 0.0f, SLIMEVOLLEY_WALL) &&
           is_withinf(energy, 0.0f, SLIMEVOLLEY_MAX_ENERGY) && is_within(saved->lives[0], 1, SLIMEVOLLEY_LIVES) &&
           is_within(saved->lives[1], 1, SLIMEVOLLEY_LIVES) && is_within(saved->pause, 0, SLIMEVOLLEY_PAUSE) &&
           is_within(saved->steps, 0, SLIMEVOLLEY_MAX_STEPS - 1);
}
