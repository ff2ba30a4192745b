// cartpole.h - balance a pole on a cart that rolls on a track. The physics of Gymnasium's CartPole-v1.
//
// Observation float[4]: cart position (m), its velocity (m/s), pole angle (rad, 0 upright), its velocity (rad/s).
// Action: discrete, 0 pushes left and 1 right (below is left, above is right); or, with `continuous`, one float in
// [-1, 1], the fraction of the full force, clamped. Reward: 1 each step.
// Terminal when the cart leaves +-2.4 m or the pole +-12 degrees; truncation after 500 steps. Both at once: terminal.
// Score is the steps of the episode, perf that over 500.
#pragma once

#include "puffer_env.h"

enum { CARTPOLE_MAX_STEPS = 500 };

#define CARTPOLE_GRAVITY (9.8f)             // m/s^2
#define CARTPOLE_POLE_MASS (0.1f)           // kg
#define CARTPOLE_TOTAL_MASS (1.1f)          // kg, cart and pole
#define CARTPOLE_HALF_LENGTH (0.5f)         // m, of the pole
#define CARTPOLE_FORCE (10.0f)              // N
#define CARTPOLE_TAU (0.02f)                // s, one step
#define CARTPOLE_X_LIMIT (2.4f)             // m
#define CARTPOLE_THETA_LIMIT (0.20943951f)  // rad, 12 degrees
#define CARTPOLE_START (0.05f)              // all four numbers begin uniform in +- this
#define CARTPOLE_MAX_SPEED (1000.0f)        // m/s, rad/s; to cross the whole range in one step takes 240 and 21

// What moves, in the order of the observation.
typedef struct {
    float x, x_dot, theta, theta_dot;  // m, m/s, rad, rad/s
} CartpoleMotion;

typedef struct {
    float* observations;        // [4]  these six are borrowed from the caller
    const void* actions;        // int32_t[1], or float[1] when continuous
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]
    uint8_t* truncations;       // [1]
    float* final_observations;  // [4] or NULL
    Rng rng;
    CartpoleMotion motion;
    int steps;  // of this episode
    bool is_continuous;
    Log log;  // summed at episode end, cleared by the reader
} Cartpole;

PUFFER_FN PufferLayout c_layout(const Cartpole* env) {
    return puffer_layout(1, 4, PUFFER_FLOAT32, 1, env->is_continuous ? PUFFER_FLOAT32 : PUFFER_INT32);
}

// Taylor series. Within 12 degrees the terms left out are below 4e-9 and 1e-10, less than float rounding, at a fifth of
// the time of sinf and cosf.
PUFFER_FN float cartpole_sin(float angle) {
    float square = angle * angle;
    return angle * (1.0f - square * (1.0f / 6.0f - square * (1.0f / 120.0f)));
}

PUFFER_FN float cartpole_cos(float angle) {
    float square = angle * angle;
    return 1.0f - square * (0.5f - square * (1.0f / 24.0f - square * (1.0f / 720.0f)));
}

PUFFER_FN void cartpole_write_observations(Cartpole* env) {
    memcpy(env->observations, &env->motion, sizeof(env->motion));
}

PUFFER_FN void c_reset(Cartpole* env) {
    env->motion.x = rng_uniform(&env->rng, -CARTPOLE_START, CARTPOLE_START);
    env->motion.x_dot = rng_uniform(&env->rng, -CARTPOLE_START, CARTPOLE_START);
    env->motion.theta = rng_uniform(&env->rng, -CARTPOLE_START, CARTPOLE_START);
    env->motion.theta_dot = rng_uniform(&env->rng, -CARTPOLE_START, CARTPOLE_START);
    env->steps = 0;
    cartpole_write_observations(env);
}

// Newtons, by action: a branch on what the policy samples would be guessed wrong half the time.
PUFFER_TABLE float CARTPOLE_FORCES[2] = {-CARTPOLE_FORCE, CARTPOLE_FORCE};

// Newtons, positive to the right.
PUFFER_FN float cartpole_force(const Cartpole* env) {
    if (env->is_continuous) return CARTPOLE_FORCE * clampf(((const float*)env->actions)[0], -1.0f, 1.0f);
    return CARTPOLE_FORCES[((const int32_t*)env->actions)[0] > 0];
}

// One Euler step of the equations of motion (Barto, Sutton and Anderson 1983; corrected by Florian 2007, eq. 23, 24).
PUFFER_FN void cartpole_move(CartpoleMotion* motion, float force) {
    const float pole = CARTPOLE_POLE_MASS * CARTPOLE_HALF_LENGTH;
    float sine = cartpole_sin(motion->theta), cosine = cartpole_cos(motion->theta);
    float thrust = (force + pole * motion->theta_dot * motion->theta_dot * sine) * (1.0f / CARTPOLE_TOTAL_MASS);
    float inertia = CARTPOLE_HALF_LENGTH * (4.0f / 3.0f - CARTPOLE_POLE_MASS / CARTPOLE_TOTAL_MASS * cosine * cosine);
    float theta_acceleration = (CARTPOLE_GRAVITY * sine - cosine * thrust) / inertia;
    float x_acceleration = thrust - pole / CARTPOLE_TOTAL_MASS * theta_acceleration * cosine;

    motion->x += CARTPOLE_TAU * motion->x_dot;
    motion->x_dot += CARTPOLE_TAU * x_acceleration;
    motion->theta += CARTPOLE_TAU * motion->theta_dot;
    motion->theta_dot += CARTPOLE_TAU * theta_acceleration;
}

PUFFER_FN void cartpole_finish_episode(Cartpole* env) {
    env->log.perf += (float)env->steps * (1.0f / CARTPOLE_MAX_STEPS);
    env->log.score += (float)env->steps;
    env->log.episode_return += (float)env->steps;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, &env->motion, sizeof(env->motion));
    c_reset(env);
}

PUFFER_FN void c_step(Cartpole* env) {
    cartpole_move(&env->motion, cartpole_force(env));
    env->steps += 1;
    bool has_failed = fabsf(env->motion.x) > CARTPOLE_X_LIMIT || fabsf(env->motion.theta) > CARTPOLE_THETA_LIMIT;
    bool is_cut = !has_failed && env->steps >= CARTPOLE_MAX_STEPS;
    env->rewards[0] = 1.0f;
    env->terminals[0] = has_failed;
    env->truncations[0] = is_cut;
    if (has_failed || is_cut) {
        cartpole_finish_episode(env);
    } else {
        cartpole_write_observations(env);
    }
}

PUFFER_FN bool c_accepts(const Cartpole* env, const Cartpole* saved) {
    const CartpoleMotion* motion = &saved->motion;
    return is_bool(&saved->is_continuous) && saved->is_continuous == env->is_continuous &&
           is_within(saved->steps, 0, CARTPOLE_MAX_STEPS - 1) &&
           is_withinf(motion->x, -CARTPOLE_X_LIMIT, CARTPOLE_X_LIMIT) &&
           is_withinf(motion->theta, -CARTPOLE_THETA_LIMIT, CARTPOLE_THETA_LIMIT) &&
           is_withinf(motion->x_dot, -CARTPOLE_MAX_SPEED, CARTPOLE_MAX_SPEED) &&
           is_withinf(motion->theta_dot, -CARTPOLE_MAX_SPEED, CARTPOLE_MAX_SPEED);
}
