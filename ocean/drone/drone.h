// drone.h - fly a quadrotor through one target after another, by its four motors.
//
// A rigid body of 1 kg, integrated by one Runge-Kutta step of fourth order every 0.02 s. World: x and y level, z up,
// metres, the floor at 0; the flight space is 16 x 16 x 8. Body: x ahead, y to the left, z up, where the motors push.
// The air slows it: by 0.3 of its velocity a second, and by 2 of its angular momentum, which therefore keeps its
// direction and shrinks by exp(-2 t) while the motors push alike.
//
// Observation float[16] in [-1, 1], in the body's frame; a vector v is v / (|v| + half), so that it tells most of what
// is near:
//     [0..2]  to the target, half = 2 m           [3..5]  to the one after it, 0 if there is none
//     [6..8]  velocity, half = 4 m/s              [9..11] spin, rad/s, half = 4
//     [12..14] where up is, a unit vector         [15] height, -1 at the floor and 1 at the ceiling
// Action float[4] in [-1, 1]: what the motors push, from nothing to twice a quarter of its weight, 0 to hover; front
// left, front right, back left, back right. The first and the last turn one way, the others the other way.
// Reward: 0.1 for each metre nearer to the target, +1 for reaching it (0.5 m), -1 for leaving the flight space.
// Terminal when it leaves that, or when `targets` were reached; truncation after 1,000 steps.
// score is the number of targets that were reached, perf the share of all.
#pragma once

#include "puffer_env.h"

// The numbers of a moving body: place, velocity, rotation to the world (a unit quaternion, w first), spin in its own
// frame. The last three are 0: sixteen are summed at once.
enum { DRONE_PLACE = 0, DRONE_VELOCITY = 3, DRONE_ROTATION = 6, DRONE_SPIN = 10, DRONE_NUMBERS = 16 };
enum { DRONE_MOTORS = 4, DRONE_OBSERVATIONS = 16, DRONE_MAX_STEPS = 1000 };
enum { DRONE_MIN_TARGETS = 1, DRONE_MAX_TARGETS = 100 };

#define DRONE_STEP (0.02f)        // seconds
#define DRONE_GRAVITY (9.81f)     // m/s^2, and newtons of its weight
#define DRONE_DRAG (0.3f)         // 1/s, of velocity
#define DRONE_SPIN_DRAG (2.0f)    // 1/s, of angular momentum
#define DRONE_INERTIA (0.06f)     // kg m^2, about x and y
#define DRONE_YAW_INERTIA (0.1f)  // about z
#define DRONE_LEVER (0.2f)        // metres, from a motor to the axes x and y
#define DRONE_YAW_LEVER (0.05f)   // newton metres about z for each newton of push
#define DRONE_HALF_WIDTH (8.0f)   // metres; of the flight space
#define DRONE_HEIGHT (8.0f)
#define DRONE_TARGET_HALF_WIDTH (5.0f)  // where targets are
#define DRONE_TARGET_LOW (1.5f)
#define DRONE_TARGET_HIGH (6.5f)
#define DRONE_APART (3.0f)  // metres, at least, from one target to the next
#define DRONE_REACH (0.5f)
#define DRONE_MAX_SPEED (100.0f)  // m/s; drag keeps it below 10 / 0.3
#define DRONE_MAX_SPIN (100.0f)   // rad/s; drag keeps it below 33 / 2

typedef struct {
    float numbers[DRONE_NUMBERS];
} DroneMotion;

typedef struct {
    float* observations;        // [16]  these six are borrowed from the caller
    const void* actions;        // float[4]
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]
    uint8_t* truncations;       // [1]
    float* final_observations;  // [16] or NULL
    Rng rng;
    DroneMotion motion;
    float target[3], next_target[3];  // metres
    float episode_return;
    int targets;  // of a course
    int num_reached, steps;
    Log log;  // summed at episode end, cleared by the reader
} Drone;

PUFFER_FN PufferLayout c_layout(const Drone* env) {
    return puffer_layout(1, DRONE_OBSERVATIONS, PUFFER_FLOAT32, DRONE_MOTORS, PUFFER_FLOAT32);
}

// --------------------------------------------------------------------------------------------------------- physics

// What the motors do: push along z, newtons, and torques about x, y and z, newton metres.
typedef struct {
    float push, torque_x, torque_y, torque_z;
} DroneForces;

PUFFER_FN DroneForces drone_forces(const float* commands) {
    const float quarter = 0.25f * DRONE_GRAVITY;
    float front_left = quarter * (1.0f + clampf(commands[0], -1.0f, 1.0f));
    float front_right = quarter * (1.0f + clampf(commands[1], -1.0f, 1.0f));
    float back_left = quarter * (1.0f + clampf(commands[2], -1.0f, 1.0f));
    float back_right = quarter * (1.0f + clampf(commands[3], -1.0f, 1.0f));
    DroneForces forces;
    forces.push = front_left + front_right + back_left + back_right;
    forces.torque_x = DRONE_LEVER * (front_left + back_left - front_right - back_right);
    forces.torque_y = DRONE_LEVER * (back_left + back_right - front_left - front_right);
    forces.torque_z = DRONE_YAW_LEVER * (front_right + back_left - front_left - back_right);
    return forces;
}

// How fast every number of the motion changes.
PUFFER_FN DroneMotion drone_rates(const DroneMotion* motion, DroneForces forces) {
    const float* v = motion->numbers + DRONE_VELOCITY;
    const float* q = motion->numbers + DRONE_ROTATION;
    const float* s = motion->numbers + DRONE_SPIN;
    // Euler's equations of a body whose moments about x and y are the same: the gyroscopic torque about z is 0.
    const float gyroscopic = DRONE_INERTIA - DRONE_YAW_INERTIA;
    DroneMotion rates = {{
        v[0],
        v[1],
        v[2],
        forces.push * 2.0f * (q[1] * q[3] + q[0] * q[2]) - DRONE_DRAG * v[0],
        forces.push * 2.0f * (q[2] * q[3] - q[0] * q[1]) - DRONE_DRAG * v[1],
        forces.push * (1.0f - 2.0f * (q[1] * q[1] + q[2] * q[2])) - DRONE_DRAG * v[2] - DRONE_GRAVITY,
        -0.5f * (q[1] * s[0] + q[2] * s[1] + q[3] * s[2]),
        0.5f * (q[0] * s[0] + q[2] * s[2] - q[3] * s[1]),
        0.5f * (q[0] * s[1] + q[3] * s[0] - q[1] * s[2]),
        0.5f * (q[0] * s[2] + q[1] * s[1] - q[2] * s[0]),
        (forces.torque_x + gyroscopic * s[1] * s[2]) * (1.0f / DRONE_INERTIA) - DRONE_SPIN_DRAG * s[0],
        (forces.torque_y - gyroscopic * s[0] * s[2]) * (1.0f / DRONE_INERTIA) - DRONE_SPIN_DRAG * s[1],
        forces.torque_z * (1.0f / DRONE_YAW_INERTIA) - DRONE_SPIN_DRAG * s[2],
        0.0f,
        0.0f,
        0.0f,
    }};
    return rates;
}

PUFFER_FN DroneMotion drone_after(const DroneMotion* motion, const DroneMotion* rates, float seconds) {
    DroneMotion after;
    for (int i = 0; i < DRONE_NUMBERS; i++) after.numbers[i] = motion->numbers[i] + seconds * rates->numbers[i];
    return after;
}

// One step of the classic Runge-Kutta method, and the quaternion back to length 1.
PUFFER_FN void drone_move(DroneMotion* motion, DroneForces forces) {
    DroneMotion first = drone_rates(motion, forces);
    DroneMotion middle = drone_after(motion, &first, 0.5f * DRONE_STEP);
    DroneMotion second = drone_rates(&middle, forces);
    middle = drone_after(motion, &second, 0.5f * DRONE_STEP);
    DroneMotion third = drone_rates(&middle, forces);
    middle = drone_after(motion, &third, DRONE_STEP);
    DroneMotion fourth = drone_rates(&middle, forces);
    for (int i = 0; i < DRONE_NUMBERS; i++) {
        float sum = first.numbers[i] + 2.0f * (second.numbers[i] + third.numbers[i]) + fourth.numbers[i];
        motion->numbers[i] += DRONE_STEP / 6.0f * sum;
    }
    float* q = motion->numbers + DRONE_ROTATION;
    float scale = 1.0f / sqrtf(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++) q[i] *= scale;
}

PUFFER_FN float drone_distance(const Drone* env) {
    const float* place = env->motion.numbers + DRONE_PLACE;
    float x = env->target[0] - place[0], y = env->target[1] - place[1], z = env->target[2] - place[2];
    return sqrtf(x * x + y * y + z * z);
}

// ---------------------------------------------------------------------------------------------------- observations

// The axes of the body in the world, unit vectors.
typedef struct {
    float ahead[3], left[3], up[3];
} DroneAxes;

PUFFER_FN DroneAxes drone_axes(const DroneMotion* motion) {
    const float* q = motion->numbers + DRONE_ROTATION;
    DroneAxes axes = {{1.0f - 2.0f * (q[2] * q[2] + q[3] * q[3]), 2.0f * (q[1] * q[2] + q[0] * q[3]),
                       2.0f * (q[1] * q[3] - q[0] * q[2])},
                      {2.0f * (q[1] * q[2] - q[0] * q[3]), 1.0f - 2.0f * (q[1] * q[1] + q[3] * q[3]),
                       2.0f * (q[2] * q[3] + q[0] * q[1])},
                      {2.0f * (q[1] * q[3] + q[0] * q[2]), 2.0f * (q[2] * q[3] - q[0] * q[1]),
                       1.0f - 2.0f * (q[1] * q[1] + q[2] * q[2])}};
    return axes;
}

PUFFER_FN void drone_write_shortened(float* row, float x, float y, float z, float half) {
    float scale = 1.0f / (sqrtf(x * x + y * y + z * z) + half);
    row[0] = scale * x;
    row[1] = scale * y;
    row[2] = scale * z;
}

// Writes a vector of the world as the body sees it.
PUFFER_FN void drone_write_seen(float* row, const DroneAxes* axes, float x, float y, float z, float half) {
    drone_write_shortened(row, axes->ahead[0] * x + axes->ahead[1] * y + axes->ahead[2] * z,
                          axes->left[0] * x + axes->left[1] * y + axes->left[2] * z,
                          axes->up[0] * x + axes->up[1] * y + axes->up[2] * z, half);
}

PUFFER_FN void drone_observe(Drone* env) {
    const float *place = env->motion.numbers + DRONE_PLACE, *velocity = env->motion.numbers + DRONE_VELOCITY;
    const float* spin = env->motion.numbers + DRONE_SPIN;
    float* row = env->observations;
    DroneAxes axes = drone_axes(&env->motion);
    drone_write_seen(row, &axes, env->target[0] - place[0], env->target[1] - place[1], env->target[2] - place[2], 2.0f);
    if (env->num_reached + 1 < env->targets) {
        drone_write_seen(row + 3, &axes, env->next_target[0] - place[0], env->next_target[1] - place[1],
                         env->next_target[2] - place[2], 2.0f);
    } else {
        row[3] = row[4] = row[5] = 0.0f;
    }
    drone_write_seen(row + 6, &axes, velocity[0], velocity[1], velocity[2], 4.0f);
    drone_write_shortened(row + 9, spin[0], spin[1], spin[2], 4.0f);
    row[12] = clampf(axes.ahead[2], -1.0f, 1.0f);
    row[13] = clampf(axes.left[2], -1.0f, 1.0f);
    row[14] = clampf(axes.up[2], -1.0f, 1.0f);
    row[15] = clampf(place[2] * (2.0f / DRONE_HEIGHT) - 1.0f, -1.0f, 1.0f);
}

// -------------------------------------------------------------------------------------------------------- episodes

// Chooses a target that is apart from another place.
PUFFER_FN void drone_choose_target(Rng* rng, float* target, const float* other) {
    float square;
    do {
        square = 0.0f;
        for (int i = 0; i < 3; i++) {
            float low = i < 2 ? -DRONE_TARGET_HALF_WIDTH : DRONE_TARGET_LOW;
            float high = i < 2 ? DRONE_TARGET_HALF_WIDTH : DRONE_TARGET_HIGH;
            target[i] = rng_uniform(rng, low, high);
            square += (target[i] - other[i]) * (target[i] - other[i]);
        }
    } while (square < DRONE_APART * DRONE_APART);
}

// The quaternion of a turn about z, every one as likely: a point of the unit disc that is not too near its middle.
PUFFER_FN void drone_choose_yaw(Rng* rng, float* rotation) {
    float w, z, square;
    do {
        w = rng_uniform(rng, -1.0f, 1.0f);
        z = rng_uniform(rng, -1.0f, 1.0f);
        square = w * w + z * z;
    } while (square > 1.0f || square < 0.01f);
    float scale = 1.0f / sqrtf(square);
    rotation[0] = w * scale;
    rotation[1] = rotation[2] = 0.0f;
    rotation[3] = z * scale;
}

// It begins at rest in the middle of the flight space, level, headed anywhere.
PUFFER_FN void c_reset(Drone* env) {
    memset(&env->motion, 0, sizeof(env->motion));
    env->motion.numbers[DRONE_PLACE + 2] = 0.5f * DRONE_HEIGHT;
    drone_choose_yaw(&env->rng, env->motion.numbers + DRONE_ROTATION);
    drone_choose_target(&env->rng, env->target, env->motion.numbers + DRONE_PLACE);
    drone_choose_target(&env->rng, env->next_target, env->target);
    env->num_reached = env->steps = 0;
    env->episode_return = 0.0f;
    drone_observe(env);
}

PUFFER_FN void drone_finish_episode(Drone* env) {
    env->log.perf += (float)env->num_reached / (float)env->targets;
    env->log.score += (float)env->num_reached;
    env->log.episode_return += env->episode_return;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, sizeof(float[DRONE_OBSERVATIONS]));
    c_reset(env);
}

PUFFER_FN bool drone_is_outside(const float* place) {
    return !(is_withinf(place[0], -DRONE_HALF_WIDTH, DRONE_HALF_WIDTH) &&
             is_withinf(place[1], -DRONE_HALF_WIDTH, DRONE_HALF_WIDTH) && is_withinf(place[2], 0.0f, DRONE_HEIGHT));
}

PUFFER_FN void drone_reach_target(Drone* env) {
    env->num_reached += 1;
    memcpy(env->target, env->next_target, sizeof(env->target));
    drone_choose_target(&env->rng, env->next_target, env->target);
}

PUFFER_FN void c_step(Drone* env) {
    float before = drone_distance(env);
    drone_move(&env->motion, drone_forces((const float*)env->actions));
    env->steps += 1;
    float after = drone_distance(env);
    bool is_outside = drone_is_outside(env->motion.numbers + DRONE_PLACE),
         is_reached = !is_outside && after < DRONE_REACH;
    float reward = 0.1f * (before - after) + (is_reached ? 1.0f : 0.0f) - (is_outside ? 1.0f : 0.0f);
    if (is_reached) drone_reach_target(env);
    bool is_over = is_outside || env->num_reached == env->targets;
    bool is_late = !is_over && env->steps == DRONE_MAX_STEPS;
    env->episode_return += reward;
    env->rewards[0] = reward;
    env->terminals[0] = is_over;
    env->truncations[0] = is_late;
    drone_observe(env);
    if (is_over || is_late) drone_finish_episode(env);
}

// ------------------------------------------------------------------------------------------------------- snapshots

PUFFER_FN bool drone_is_target(const float* place) {
    return is_withinf(place[0], -DRONE_TARGET_HALF_WIDTH, DRONE_TARGET_HALF_WIDTH) &&
           is_withinf(place[1], -DRONE_TARGET_HALF_WIDTH, DRONE_TARGET_HALF_WIDTH) &&
           is_withinf(place[2], DRONE_TARGET_LOW, DRONE_TARGET_HIGH);
}

PUFFER_FN bool drone_is_possible(const DroneMotion* motion) {
    const float* q = motion->numbers + DRONE_ROTATION;
    float square = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    bool is_possible = !drone_is_outside(motion->numbers + DRONE_PLACE) && is_withinf(square, 0.999f, 1.001f);
    for (int i = 0; i < 3; i++) {
        is_possible = is_possible &&
                      is_withinf(motion->numbers[DRONE_VELOCITY + i], -DRONE_MAX_SPEED, DRONE_MAX_SPEED) &&
                      is_withinf(motion->numbers[DRONE_SPIN + i], -DRONE_MAX_SPIN, DRONE_MAX_SPIN) &&
                      motion->numbers[DRONE_SPIN + 3 + i] == 0.0f;
    }
    return is_possible;
}

PUFFER_FN bool c_accepts(const Drone* env, const Drone* saved) {
    return saved->targets == env->targets && is_within(saved->num_reached, 0, env->targets - 1) &&
           is_within(saved->steps, 0, DRONE_MAX_STEPS - 1) && drone_is_possible(&saved->motion) &&
           drone_is_target(saved->target) && drone_is_target(saved->next_target) &&
           is_withinf(saved->episode_return, -1e4f, 1e4f);
}
