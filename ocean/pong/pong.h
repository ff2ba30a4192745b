// pong.h - the table tennis of the arcades: the agent is the right paddle, the left one follows the ball.
//
// Observation float[8] in [0, 1]: paddle y left, paddle y right (0 top of its range, 1 bottom), ball x / width,
// ball y / height, (vx + 10) / 20, (vy + 13) / 26, score left / 21, score right / 21.
// Action: discrete, 0 still, 1 up, 2 down, anything else still; or, with `continuous`, one float in [-1, 1], the
// fraction of the paddle's speed, positive downwards as y is, clamped.
// Reward, summed over the frames of a step: +1 point, -1 lost point, +0.1 bounce off the own paddle.
// Terminal when one side has 21 points; the frames of that step which were left are not played.
// Score is the agent's points less the opponent's, perf the agent's share of all points.
//
// Units are pixels and frames; y points down; positions are left top corners. In one frame the paddles move (staying in
// the field whole), then the ball, which the walls reflect like a mirror. A ball that reaches the column of a paddle is
// thrown back if it overlaps the paddle, else it flies on and may still be caught until it leaves the field. The
// agent's bounce adds 3 * its direction to vy. After a point the ball is served from the left, the paddles stay where
// they are.
#pragma once

#include "puffer_env.h"

enum { PONG_STILL, PONG_UP, PONG_DOWN, PONG_NUM_ACTIONS };
enum { PONG_MIN_FRAMESKIP = 1, PONG_MAX_FRAMESKIP = 64, PONG_WINNING_SCORE = 21 };
enum { PONG_OBSERVATION_SIZE = 8 };

#define PONG_WIDTH (500.0f)
#define PONG_HEIGHT (640.0f)
#define PONG_PADDLE_WIDTH (20.0f)
#define PONG_PADDLE_HEIGHT (70.0f)
#define PONG_PADDLE_SPEED (8.0f)
#define PONG_BALL_SIZE (32.0f)
#define PONG_BALL_SPEED (10.0f)   // along x, always
#define PONG_BALL_MAX_VY (13.0f)  // along y
#define PONG_SPIN (3.0f)          // vy that a moving paddle adds
#define PONG_PADDLE_RANGE (PONG_HEIGHT - PONG_PADDLE_HEIGHT)
#define PONG_BALL_RANGE (PONG_HEIGHT - PONG_BALL_SIZE)
#define PONG_LEFT_CONTACT (PONG_PADDLE_WIDTH)                                 // ball x at or below: in the left column
#define PONG_RIGHT_CONTACT (PONG_WIDTH - PONG_PADDLE_WIDTH - PONG_BALL_SIZE)  // at or above: in the right one
#define PONG_BOUNCE_REWARD (0.1f)

typedef struct {
    float* observations;        // [8]  these six are borrowed from the caller
    const void* actions;        // int32_t[1], or float[1] when continuous
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]
    uint8_t* truncations;       // [1]  never set
    float* final_observations;  // [8] or NULL
    Rng rng;
    float paddle_left, paddle_right;  // y
    float ball_x, ball_y, ball_vx, ball_vy;
    int score_left, score_right;
    int frameskip;  // frames in a step
    bool is_continuous;
    int episode_length;
    float episode_return;
    Log log;  // summed at episode end, cleared by the reader
} Pong;

PUFFER_FN PufferLayout c_layout(const Pong* env) {
    return puffer_layout(1, PONG_OBSERVATION_SIZE, PUFFER_FLOAT32, 1,
                         env->is_continuous ? PUFFER_FLOAT32 : PUFFER_INT32);
}

PUFFER_FN void pong_write_observations(Pong* env) {
    env->observations[0] = env->paddle_left / PONG_PADDLE_RANGE;
    env->observations[1] = env->paddle_right / PONG_PADDLE_RANGE;
    env->observations[2] = env->ball_x / PONG_WIDTH;
    env->observations[3] = env->ball_y / PONG_HEIGHT;
    env->observations[4] = (env->ball_vx + PONG_BALL_SPEED) / (2.0f * PONG_BALL_SPEED);
    env->observations[5] = (env->ball_vy + PONG_BALL_MAX_VY) / (2.0f * PONG_BALL_MAX_VY);
    env->observations[6] = (float)env->score_left / (float)PONG_WINNING_SCORE;
    env->observations[7] = (float)env->score_right / (float)PONG_WINNING_SCORE;
}

PUFFER_FN void pong_serve(Pong* env) {
    env->ball_x = PONG_WIDTH / 5.0f;
    env->ball_y = 0.5f * PONG_BALL_RANGE;
    env->ball_vx = PONG_BALL_SPEED;
    env->ball_vy = (float)(rng_below(&env->rng, 3) - 1);
}

PUFFER_FN void c_reset(Pong* env) {
    env->paddle_left = env->paddle_right = 0.5f * PONG_PADDLE_RANGE;
    env->score_left = env->score_right = 0;
    env->episode_length = 0;
    env->episode_return = 0.0f;
    pong_serve(env);
    pong_write_observations(env);
}

// Where the agent's paddle goes: -1 up to 1 down.
PUFFER_FN float pong_direction(const Pong* env) {
    if (env->is_continuous) return clampf(((const float*)env->actions)[0], -1.0f, 1.0f);
    int action = ((const int32_t*)env->actions)[0];
    return (float)((action == PONG_DOWN) - (action == PONG_UP));
}

// Where the left paddle wants to be when the ball is at ball_y: centre at centre, in the field whole.
PUFFER_FN float pong_aim(float ball_y) {
    return clampf(ball_y + 0.5f * (PONG_BALL_SIZE - PONG_PADDLE_HEIGHT), 0.0f, PONG_PADDLE_RANGE);
}

// Plays all frames of the step at once if the ball meets nothing in them and the left paddle keeps up with it; returns
// whether it did. One by one, each frame would wait for the paddle's place in the frame before.
PUFFER_FN bool pong_glide(Pong* env, float direction) {
    float frames = (float)env->frameskip;
    float x = env->ball_x + env->ball_vx * frames, y = env->ball_y + env->ball_vy * frames;
    if (x <= PONG_LEFT_CONTACT || x >= PONG_RIGHT_CONTACT || y < 0.0f || y > PONG_BALL_RANGE) return false;
    float gap = fabsf(pong_aim(env->ball_y) - env->paddle_left);
    if (gap > PONG_PADDLE_SPEED || fabsf(env->ball_vy) > PONG_PADDLE_SPEED) return false;
    env->ball_x = x;
    env->ball_y = y;
    env->paddle_left = pong_aim(y - env->ball_vy);
    env->paddle_right = clampf(env->paddle_right + PONG_PADDLE_SPEED * frames * direction, 0.0f, PONG_PADDLE_RANGE);
    return true;
}

// Plays up to max_frames frames and stops after one that leaves the ball in a paddle's column; returns their number.
// Works on copies, which the compiler keeps in registers.
PUFFER_FN int pong_fly(Pong* env, float direction, int max_frames) {
    float x = env->ball_x, y = env->ball_y, vy = env->ball_vy, vx = env->ball_vx;
    float left = env->paddle_left, right = env->paddle_right;
    int frames = 0;
    do {
        float aim = pong_aim(y);
        left = clampf(aim, left - PONG_PADDLE_SPEED, left + PONG_PADDLE_SPEED);
        right = clampf(right + PONG_PADDLE_SPEED * direction, 0.0f, PONG_PADDLE_RANGE);
        x += vx;
        y += vy;
        if (y < 0.0f || y > PONG_BALL_RANGE) {
            y = (y < 0.0f ? 0.0f : 2.0f * PONG_BALL_RANGE) - y;
            vy = -vy;
        }
        frames++;
    } while (frames < max_frames && x > PONG_LEFT_CONTACT && x < PONG_RIGHT_CONTACT);
    env->ball_x = x, env->ball_y = y, env->ball_vy = vy;
    env->paddle_left = left, env->paddle_right = right;
    return frames;
}

PUFFER_FN bool pong_overlaps(float ball_y, float paddle) {
    return ball_y < paddle + PONG_PADDLE_HEIGHT && paddle < ball_y + PONG_BALL_SIZE;
}

// Settles what happens at the agent's end of the field; returns the reward.
PUFFER_FN float pong_meet_right(Pong* env, float direction) {
    if (env->ball_x + PONG_BALL_SIZE > PONG_WIDTH) {
        env->score_left += 1;
        pong_serve(env);
        return -1.0f;
    }
    if (!pong_overlaps(env->ball_y, env->paddle_right)) return 0.0f;
    float vy = clampf(env->ball_vy + PONG_SPIN * direction, -PONG_BALL_MAX_VY, PONG_BALL_MAX_VY);
    env->ball_vy = vy == 0.0f ? PONG_SPIN : vy;  // a flat ball would go to and fro forever
    env->ball_vx = -PONG_BALL_SPEED;
    return PONG_BOUNCE_REWARD;
}

PUFFER_FN float pong_meet_left(Pong* env) {
    if (env->ball_x < 0.0f) {
        env->score_right += 1;
        pong_serve(env);
        return 1.0f;
    }
    if (pong_overlaps(env->ball_y, env->paddle_left)) env->ball_vx = PONG_BALL_SPEED;
    return 0.0f;
}

PUFFER_FN void pong_finish_episode(Pong* env) {
    int points = env->score_left + env->score_right;
    env->terminals[0] = 1;
    env->log.perf += (float)env->score_right / (float)points;
    env->log.score += (float)(env->score_right - env->score_left);
    env->log.episode_return += env->episode_return;
    env->log.episode_length += (float)env->episode_length;
    env->log.n += 1.0f;
    pong_write_observations(env);
    keep_final(env->final_observations, env->observations, PONG_OBSERVATION_SIZE * sizeof(float));
    c_reset(env);
}

// Plays the frames of one step; returns the reward.
PUFFER_FN float pong_play(Pong* env, float direction) {
    float reward = 0.0f;
    if (pong_glide(env, direction)) return reward;
    for (int frames = env->frameskip; frames > 0;) {
        frames -= pong_fly(env, direction, frames);
        if (env->ball_x >= PONG_RIGHT_CONTACT && env->ball_vx > 0.0f) {
            reward += pong_meet_right(env, direction);
        } else if (env->ball_x <= PONG_LEFT_CONTACT && env->ball_vx < 0.0f) {
            reward += pong_meet_left(env);
        }
        if (env->score_left == PONG_WINNING_SCORE || env->score_right == PONG_WINNING_SCORE) break;
    }
    return reward;
}

PUFFER_FN void c_step(Pong* env) {
    float reward = pong_play(env, pong_direction(env));
    env->rewards[0] = reward;
    env->terminals[0] = env->truncations[0] = 0;
    env->episode_return += reward;
    env->episode_length += 1;
    if (env->score_left == PONG_WINNING_SCORE || env->score_right == PONG_WINNING_SCORE) {
        pong_finish_episode(env);
    } else {
        pong_write_observations(env);
    }
}

PUFFER_FN bool c_accepts(const Pong* env, const Pong* saved) {
    return is_bool(&saved->is_continuous) && saved->is_continuous == env->is_continuous &&
           saved->frameskip == env->frameskip && is_within(saved->score_left, 0, PONG_WINNING_SCORE - 1) &&
           is_within(saved->score_right, 0, PONG_WINNING_SCORE - 1) &&
           is_within(saved->episode_length, 0, PUFFER_MAX_STEPS) &&
           is_withinf(saved->paddle_left, 0.0f, PONG_PADDLE_RANGE) &&
           is_withinf(saved->paddle_right, 0.0f, PONG_PADDLE_RANGE) &&
           is_withinf(saved->ball_x, 0.0f, PONG_WIDTH - PONG_BALL_SIZE) &&
           is_withinf(saved->ball_y, 0.0f, PONG_BALL_RANGE) && fabsf(saved->ball_vx) == PONG_BALL_SPEED &&
           is_withinf(saved->ball_vy, -PONG_BALL_MAX_VY, PONG_BALL_MAX_VY);
}
