// pendulum.h - swing a rod up and hold it there, with a motor too weak to lift it at once. The Pendulum-v1 of
// Gymnasium.
//
// Observation float[3]: cosine and sine of the angle from upright (positive is to the left), angular speed in rad/s
// within +-8. Action: one float in [-2, 2], the torque in N m, positive turns to the left; clamped.
// Reward: minus (angle^2 + 0.1 * speed^2 + 0.001 * torque^2), the angle within +-pi rad, both as they were before the
// step: between -16.28 and 0. Truncation after 200 steps; there is no other end.
//
// Score is the return. Perf is 1 - cost / (200 pi^2), at least 0: who lets the rod hang has 0, and 1 would be to stand
// still from the first step. As episodes begin at any angle, the best play has a mean perf of 0.930.
#pragma once

#include "puffer_env.h"

enum { PENDULUM_MAX_STEPS = 200 };

#define PENDULUM_PI (3.14159265f)
#define PENDULUM_GRAVITY (10.0f)   // m/s^2
#define PENDULUM_MASS (1.0f)       // kg
#define PENDULUM_LENGTH (1.0f)     // m
#define PENDULUM_TAU (0.05f)       // s, one step
#define PENDULUM_MAX_SPEED (8.0f)  // rad/s
#define PENDULUM_MAX_TORQUE (2.0f)
#define PENDULUM_START_SPEED (1.0f)  // rad/s, episodes begin within +- this
#define PENDULUM_HANGING_COST (PENDULUM_PI * PENDULUM_PI * (float)PENDULUM_MAX_STEPS)  // of an episode

typedef struct {
    float angle;  // rad, within +-pi
    float speed;  // rad/s
} PendulumMotion;

typedef struct {
    float* observations;        // [3]  these six are borrowed from the caller
    const void* actions;        // float[1]
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]  never set
    uint8_t* truncations;       // [1]
    float* final_observations;  // [3] or NULL
    Rng rng;
    PendulumMotion motion;
    int steps;             // of this episode
    float episode_return;  // so far
    Log log;               // summed at episode end, cleared by the reader
} Pendulum;

PUFFER_FN PufferLayout c_layout(const Pendulum* env) {
    (void)env;
    return puffer_layout(1, 3, PUFFER_FLOAT32, 1, PUFFER_FLOAT32);
}

// Taylor series, of an angle within a quarter turn: the terms left out are below 6e-8, which is float rounding, at a
// third of the time of sinf, and the same on every machine.
PUFFER_FN float pendulum_quarter_sin(float angle) {
    float s = angle * angle;
    return angle *
           (1.0f - s * (1.0f / 6.0f - s * (1.0f / 120.0f -
                                           s * (1.0f / 5040.0f - s * (1.0f / 362880.0f - s * (1.0f / 39916800.0f))))));
}

// Of an angle within +-pi.
PUFFER_FN float pendulum_sin(float angle) {
    float size = fabsf(angle);
    return copysignf(pendulum_quarter_sin(fminf(size, PENDULUM_PI - size)), angle);
}

PUFFER_FN float pendulum_cos(float angle) { return pendulum_quarter_sin(0.5f * PENDULUM_PI - fabsf(angle)); }

PUFFER_FN void pendulum_write_observations(Pendulum* env) {
    env->observations[0] = clampf(pendulum_cos(env->motion.angle), -1.0f, 1.0f);
    env->observations[1] = clampf(pendulum_sin(env->motion.angle), -1.0f, 1.0f);
    env->observations[2] = env->motion.speed;
}

PUFFER_FN void c_reset(Pendulum* env) {
    env->motion.angle = rng_uniform(&env->rng, -PENDULUM_PI, PENDULUM_PI);
    env->motion.speed = rng_uniform(&env->rng, -PENDULUM_START_SPEED, PENDULUM_START_SPEED);
    env->steps = 0;
    env->episode_return = 0.0f;
    pendulum_write_observations(env);
}

// N m.
PUFFER_FN float pendulum_torque(const Pendulum* env) {
    return clampf(((const float*)env->actions)[0], -PENDULUM_MAX_TORQUE, PENDULUM_MAX_TORQUE);
}

PUFFER_FN float pendulum_cost(const PendulumMotion* motion, float torque) {
    return motion->angle * motion->angle + 0.1f * motion->speed * motion->speed + 0.001f * torque * torque;
}

// The angle is that of a rod which turns about its end, its moment of inertia m l^2 / 3.
PUFFER_FN void pendulum_move(PendulumMotion* motion, float torque) {
    const float weight = 1.5f * PENDULUM_GRAVITY / PENDULUM_LENGTH;
    const float drive = 3.0f / (PENDULUM_MASS * PENDULUM_LENGTH * PENDULUM_LENGTH);
    float acceleration = weight * pendulum_sin(motion->angle) + drive * torque;
    motion->speed = clampf(motion->speed + PENDULUM_TAU * acceleration, -PENDULUM_MAX_SPEED, PENDULUM_MAX_SPEED);
    float angle = motion->angle + PENDULUM_TAU * motion->speed;
    if (angle > PENDULUM_PI) angle -= 2.0f * PENDULUM_PI;
    if (angle < -PENDULUM_PI) angle += 2.0f * PENDULUM_PI;
    motion->angle = angle;
}

PUFFER_FN void pendulum_finish_episode(Pendulum* env) {
    env->truncations[0] = 1;
    env->log.perf += clampf(1.0f + env->episode_return / PENDULUM_HANGING_COST, 0.0f, 1.0f);
    env->log.score += env->episode_return;
    env->log.episode_return += env->episode_return;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, 3 * sizeof(float));
    c_reset(env);
}

PUFFER_FN void c_step(Pendulum* env) {
    float torque = pendulum_torque(env);
    env->rewards[0] = -pendulum_cost(&env->motion, torque);
    env->terminals[0] = env->truncations[0] = 0;
    pendulum_move(&env->motion, torque);
    pendulum_write_observations(env);
    env->episode_return += env->rewards[0];
    env->steps += 1;
    if (env->steps == PENDULUM_MAX_STEPS) pendulum_finish_episode(env);
}

PUFFER_FN bool c_accepts(const Pendulum* env, const Pendulum* saved) {
    (void)env;
    return is_withinf(saved->motion.angle, -PENDULUM_PI, PENDULUM_PI) &&
           is_withinf(saved->motion.speed, -PENDULUM_MAX_SPEED, PENDULUM_MAX_SPEED) &&
           is_within(saved->steps, 0, PENDULUM_MAX_STEPS - 1) &&
           is_withinf(saved->episode_return, -17.0f * PENDULUM_MAX_STEPS, 0.0f);
}
