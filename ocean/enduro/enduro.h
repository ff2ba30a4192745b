// enduro.h - the endurance race: overtake enough cars before the day is over, day after day, through curves and
// weather.
//
// The first day asks for 200 cars, every other one for 300. A day lasts 100 seconds: clear, then ice, then clear again,
// then night, then fog. On ice the car steers half as well; at night and in fog it sees less far. Curves push outwards,
// faster cars more. Running into a car costs nearly all speed, touching the edge of the road some of it. A car that is
// faster and comes from behind pushes. The agent starts at rest as the last of an endless field.
//
// Observation float[68] in [-1, 1]: own x, speed / top speed, steering (change of x in the last frame / that of full
// steering), crashed (0 or 1, fading); the edge curvature of the road here and 15, 30, 60, 100 ahead, positive to the
// right; the part of the day that is over, the part of its cars that are left, all overtaken (0 or 1), day / days;
// weather, one of four; ten cars, the last two behind first, then eight ahead: lane, one of three, x - own x over 2,
// distance / 60, zeros where it is out of sight.
//
// Action: 0 cruise, 1 accelerate, 2 right, 3 left, 4 brake, 5 brake right, 6 brake left, 7 accelerate right,
// 8 accelerate left; anything else cruise. Speed is kept while neither pedal is used. Reward: +1 for each car
// overtaken, -1 for each that overtakes, of those that count: no more than the day asks for, no fewer than none.
// Terminal when a day ends with cars left; truncation after `days` days.
// Score is the return, perf that over the cars that all days ask for.
//
// Units are lengths of a car along the road, half widths of the road across it, and frames, 60 a second.
#pragma once

#include "puffer_env.h"

enum { ENDURO_CRUISE, ENDURO_NUM_ACTIONS = 9 };
enum { ENDURO_CLEAR, ENDURO_ICE, ENDURO_NIGHT, ENDURO_FOG, ENDURO_NUM_WEATHERS };
enum { ENDURO_MIN_FRAMESKIP = 1, ENDURO_MAX_FRAMESKIP = 16, ENDURO_MIN_DAYS = 1, ENDURO_MAX_DAYS = 100 };
enum { ENDURO_FIRST_QUOTA = 200, ENDURO_QUOTA = 300 };  // cars to overtake in a day
enum { ENDURO_DAY_FRAMES = 6000, ENDURO_CRASH_FRAMES = 30 };
enum { ENDURO_LANES = 3, ENDURO_CARS_BEHIND = 2, ENDURO_CARS_AHEAD = 8, ENDURO_CURVES_SEEN = 5 };
enum { ENDURO_CAR_FEATURES = ENDURO_LANES + 2, ENDURO_OWN_FEATURES = 5, ENDURO_DAY_FEATURES = 4 + ENDURO_NUM_WEATHERS };
enum {
    ENDURO_OBSERVATION_SIZE = ENDURO_OWN_FEATURES + ENDURO_CURVES_SEEN + ENDURO_DAY_FEATURES +
    (ENDURO_CARS_BEHIND + ENDURO_CARS_AHEAD) * ENDURO_CAR_FEATURES
};

#define ENDURO_TOP_SPEED (0.8f)      // lengths a frame
#define ENDURO_TRAFFIC_SPEED (0.3f)  // of all other cars
#define ENDURO_CRASH_SPEED (0.12f)
#define ENDURO_ACCELERATION (0.0034f)  // to top speed in four seconds
#define ENDURO_BRAKES (0.012f)
#define ENDURO_EDGE_FRICTION (0.006f)  // speed lost in a frame at the edge, down to that of the traffic
#define ENDURO_EDGE (0.85f)            // how far from the middle a car can be
#define ENDURO_STEERING (0.035f)       // change of x in a frame at top speed; at rest none
#define ENDURO_ICE_GRIP (0.5f)         // steering on ice
#define ENDURO_CENTRIFUGAL (0.016f)    // change of x in a frame at top speed in the sharpest curve
#define ENDURO_LANE_WIDTH (0.6f)
#define ENDURO_CAR_LENGTH (1.0f)
#define ENDURO_CAR_WIDTH (0.35f)
#define ENDURO_GAP (7.5f)             // from car to car, on average
#define ENDURO_SPREAD (0.5f)          // of a gap, in which a car lies
#define ENDURO_SIGHT (60.0f)          // how far one sees on a clear day
#define ENDURO_CURVE_LENGTH (300.0f)  // of the road from one curvature to the next

PUFFER_TABLE float ENDURO_PEDALS[ENDURO_NUM_ACTIONS] = {0,
                                                        ENDURO_ACCELERATION,
                                                        0,
                                                        0,
                                                        -ENDURO_BRAKES,
                                                        -ENDURO_BRAKES,
                                                        -ENDURO_BRAKES,
                                                        ENDURO_ACCELERATION,
                                                        ENDURO_ACCELERATION};
PUFFER_TABLE float ENDURO_WHEEL[ENDURO_NUM_ACTIONS] = {0, 0, 1, -1, 0, 1, -1, 1, -1};
PUFFER_TABLE float ENDURO_CURVES[8] = {-1.0f, -0.7f, -0.4f, 0.0f, 0.0f, 0.4f, 0.7f, 1.0f};
PUFFER_TABLE float ENDURO_LOOKS_AHEAD[ENDURO_CURVES_SEEN] = {0.0f, 15.0f, 30.0f, 60.0f, 100.0f};
PUFFER_TABLE float ENDURO_SIGHTS[ENDURO_NUM_WEATHERS] = {ENDURO_SIGHT, ENDURO_SIGHT, 40.0f, 20.0f};

typedef struct {
    float* observations;        // [68]  these six are borrowed from the caller
    const void* actions;        // int32_t[1]
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]
    uint8_t* truncations;       // [1]
    float* final_observations;  // [68] or NULL
    Rng rng;
    int frameskip, days;  // keyword arguments
    uint64_t road;        // what all cars and curves of the episode follow from
    float x, speed, steering;
    float distance;        // along the road
    float place;           // in the field: distance relative to the traffic, which stands still in it
    int next_car;          // the first one ahead; those from 0 on exist
    int crash_frames;      // until the engine runs again
    int day, frame;        // the day of the race, and how far it has come
    int overtaken, total;  // cars that count, of this day and of the episode
    int steps;
    Log log;  // summed at episode end, cleared by the reader
} Enduro;

// A car of the field: cars are not kept, they follow from their number.
typedef struct {
    int lane;
    float x, place;
} EnduroCar;

PUFFER_FN PufferLayout c_layout(const Enduro* env) {
    return puffer_layout(1, ENDURO_OBSERVATION_SIZE, PUFFER_FLOAT32, 1, PUFFER_INT32);
}

// ------------------------------------------------------------------------------------------------ the road, the day

PUFFER_FN EnduroCar enduro_car(const Enduro* env, int index) {
    uint64_t random = rng_mix(env->road + (uint64_t)index);
    EnduroCar car;
    car.lane = (int)((random >> 32) % ENDURO_LANES);
    car.x = ENDURO_LANE_WIDTH * (float)(car.lane - 1);
    float share = (float)(random & 0xFFFFu) * (1.0f / 65536.0f);
    car.place = ENDURO_GAP * ((float)index + 1.0f + ENDURO_SPREAD * (share - 0.5f));
    return car;
}

PUFFER_FN float enduro_curve_knot(const Enduro* env, int index) {
    return index == 0 ? 0.0f : ENDURO_CURVES[rng_mix(~env->road + (uint64_t)index) & 7u];  // it starts straight
}

// From -1, to the left, to 1; it changes evenly from one knot to the next.
PUFFER_FN float enduro_curvature(const Enduro* env, float distance) {
    float knots = distance / ENDURO_CURVE_LENGTH;
    int index = (int)knots;
    float here = enduro_curve_knot(env, index), next = enduro_curve_knot(env, index + 1);
    return here + (next - here) * (knots - (float)index);
}

PUFFER_FN int enduro_weather(const Enduro* env) {
    int part = 20 * env->frame / ENDURO_DAY_FRAMES;
    if (part >= 16) return ENDURO_FOG;
    if (part >= 11) return ENDURO_NIGHT;
    return part >= 5 && part < 9 ? ENDURO_ICE : ENDURO_CLEAR;
}

PUFFER_FN int enduro_quota(int day) { return day == 0 ? ENDURO_FIRST_QUOTA : ENDURO_QUOTA; }

// ------------------------------------------------------------------------------------------------- the observation

PUFFER_FN float* enduro_write_own(const Enduro* env, float* at) {
    bool is_at_edge = fabsf(env->x) == ENDURO_EDGE;
    *at++ = env->x;
    *at++ = env->speed / ENDURO_TOP_SPEED;
    *at++ = env->steering;
    *at++ = (float)env->crash_frames / (float)ENDURO_CRASH_FRAMES;
    *at++ = is_at_edge ? 1.0f : 0.0f;
    for (int i = 0; i < ENDURO_CURVES_SEEN; i++) {
        *at++ = enduro_curvature(env, env->distance + ENDURO_LOOKS_AHEAD[i]);
    }
    return at;
}

PUFFER_FN float* enduro_write_day(const Enduro* env, float* at) {
    int quota = enduro_quota(env->day), weather = enduro_weather(env);
    *at++ = (float)env->frame / (float)ENDURO_DAY_FRAMES;
    *at++ = (float)(quota - env->overtaken) / (float)quota;
    *at++ = env->overtaken == quota ? 1.0f : 0.0f;
    *at++ = (float)env->day / (float)env->days;
    for (int i = 0; i < ENDURO_NUM_WEATHERS; i++) *at++ = weather == i ? 1.0f : 0.0f;
    return at;
}

PUFFER_FN void enduro_write_car(const Enduro* env, int index, float sight, float* at) {
    EnduroCar car = enduro_car(env, index);
    float ahead = car.place - env->place;
    bool is_seen = index >= 0 && fabsf(ahead) <= sight;
    for (int lane = 0; lane < ENDURO_LANES; lane++) at[lane] = is_seen && car.lane == lane ? 1.0f : 0.0f;
    at[ENDURO_LANES] = is_seen ? 0.5f * (car.x - env->x) : 0.0f;
    at[ENDURO_LANES + 1] = is_seen ? ahead / ENDURO_SIGHT : 0.0f;
}

PUFFER_FN void enduro_write_observations(Enduro* env) {
    float* at = enduro_write_day(env, enduro_write_own(env, env->observations));
    float sight = ENDURO_SIGHTS[enduro_weather(env)];
    for (int i = -ENDURO_CARS_BEHIND; i < ENDURO_CARS_AHEAD; i++) {
        enduro_write_car(env, env->next_car + i, sight, at);
        at += ENDURO_CAR_FEATURES;
    }
}

// ----------------------------------------------------------------------------------------------------- the episode

PUFFER_FN void c_reset(Enduro* env) {
    env->road = (uint64_t)rng_next(&env->rng) << 32;
    env->road |= rng_next(&env->rng);
    env->x = env->speed = env->steering = env->distance = env->place = 0.0f;
    env->next_car = env->crash_frames = env->day = env->frame = 0;
    env->overtaken = env->total = env->steps = 0;
    enduro_write_observations(env);
}

PUFFER_FN void enduro_finish_episode(Enduro* env) {
    env->log.perf += (float)env->total / (float)(ENDURO_FIRST_QUOTA + ENDURO_QUOTA * (env->days - 1));
    env->log.score += (float)env->total;
    env->log.episode_return += (float)env->total;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, ENDURO_OBSERVATION_SIZE * sizeof(float));
    c_reset(env);
}

// The engine, the brakes, the edge of the road.
PUFFER_FN void enduro_change_speed(Enduro* env, float pedal) {
    if (env->crash_frames > 0) {
        env->crash_frames -= 1;
    } else {
        env->speed = clampf(env->speed + pedal, 0.0f, ENDURO_TOP_SPEED);
    }
    bool is_rubbing = fabsf(env->x) == ENDURO_EDGE && env->speed > ENDURO_TRAFFIC_SPEED;
    if (is_rubbing) env->speed = fmaxf(env->speed - ENDURO_EDGE_FRICTION, ENDURO_TRAFFIC_SPEED);
}

// The wheel against the curve.
PUFFER_FN void enduro_move_sideways(Enduro* env, float wheel, float curvature) {
    float share = env->speed / ENDURO_TOP_SPEED;
    float grip = enduro_weather(env) == ENDURO_ICE ? ENDURO_ICE_GRIP : 1.0f;
    float turn =
        ENDURO_STEERING * grip * wheel * share * (2.0f - share) - ENDURO_CENTRIFUGAL * curvature * share * share;
    float x = clampf(env->x + turn, -ENDURO_EDGE, ENDURO_EDGE);
    env->steering = clampf((x - env->x) / ENDURO_STEERING, -1.0f, 1.0f);
    env->x = x;
}

// The car that was overtaken, or overtook, counts within what the day asks for; returns the reward.
PUFFER_FN int enduro_count(Enduro* env, int change) {
    int quota = enduro_quota(env->day), overtaken = env->overtaken + change;
    bool counts = env->overtaken < quota && overtaken >= 0;
    if (!counts) return 0;
    env->overtaken = overtaken;
    env->total += change;
    return change;
}

// Who is beside the car ahead and too near runs into it.
PUFFER_FN bool enduro_touches(const Enduro* env, EnduroCar car) {
    return fabsf(car.place - env->place) < ENDURO_CAR_LENGTH && fabsf(car.x - env->x) < ENDURO_CAR_WIDTH;
}

// One frame of driving among the two nearest cars; returns the reward. The car moves past no more than one of them.
PUFFER_FN int enduro_drive(Enduro* env, EnduroCar* behind, EnduroCar* ahead) {
    env->distance += env->speed;
    env->place += env->speed - ENDURO_TRAFFIC_SPEED;
    if (enduro_touches(env, *ahead)) {
        env->place = ahead->place - ENDURO_CAR_LENGTH;
        env->speed = ENDURO_CRASH_SPEED;
        env->crash_frames = ENDURO_CRASH_FRAMES;
    } else if (env->next_car > 0 && enduro_touches(env, *behind)) {
        env->place = behind->place + ENDURO_CAR_LENGTH;
        env->speed = fmaxf(env->speed, ENDURO_TRAFFIC_SPEED);
    }
    if (env->place > ahead->place) {
        env->next_car += 1;
        *behind = *ahead;
        *ahead = enduro_car(env, env->next_car);
        return enduro_count(env, 1);
    }
    if (env->next_car > 0 && env->place < behind->place) {
        env->next_car -= 1;
        *ahead = *behind;
        *behind = enduro_car(env, env->next_car - 1);
        return enduro_count(env, -1);
    }
    return 0;
}

// Ends a day that is over: sets a flag where the episode is, too.
PUFFER_FN void enduro_end_day(Enduro* env) {
    env->terminals[0] = env->overtaken < enduro_quota(env->day);
    env->truncations[0] = !env->terminals[0] && env->day + 1 == env->days;
    if (env->terminals[0] || env->truncations[0]) return;
    env->day += 1;
    env->frame = env->overtaken = 0;
}

PUFFER_FN void c_step(Enduro* env) {
    int action = ((const int32_t*)env->actions)[0];
    action = is_within(action, 0, ENDURO_NUM_ACTIONS - 1) ? action : ENDURO_CRUISE;
    EnduroCar behind = enduro_car(env, env->next_car - 1), ahead = enduro_car(env, env->next_car);
    float curvature = enduro_curvature(env, env->distance);
    int reward = 0;
    env->terminals[0] = env->truncations[0] = 0;
    for (int i = 0; i < env->frameskip && env->frame < ENDURO_DAY_FRAMES; i++, env->frame++) {
        enduro_change_speed(env, ENDURO_PEDALS[action]);
        enduro_move_sideways(env, ENDURO_WHEEL[action], curvature);
        reward += enduro_drive(env, &behind, &ahead);
    }
    env->steps += 1;
    env->rewards[0] = (float)reward;
    if (env->frame == ENDURO_DAY_FRAMES) enduro_end_day(env);
    enduro_write_observations(env);
    if (env->terminals[0] || env->truncations[0]) enduro_finish_episode(env);
}

// A place in the field and the number of the next car need not belong together: a frame passes one car at most.
PUFFER_FN bool c_accepts(const Enduro* env, const Enduro* saved) {
    const float farthest = ENDURO_TOP_SPEED * (float)ENDURO_DAY_FRAMES * (float)ENDURO_MAX_DAYS;
    const int last_car = (int)(farthest / ENDURO_GAP);
    return saved->frameskip == env->frameskip && saved->days == env->days &&
           is_withinf(saved->x, -ENDURO_EDGE, ENDURO_EDGE) && is_withinf(saved->speed, 0.0f, ENDURO_TOP_SPEED) &&
           is_withinf(saved->steering, -1.0f, 1.0f) && is_withinf(saved->distance, 0.0f, farthest) &&
           is_withinf(saved->place, -farthest, farthest) && is_within(saved->next_car, 0, last_car) &&
           is_within(saved->crash_frames, 0, ENDURO_CRASH_FRAMES) && is_within(saved->day, 0, env->days - 1) &&
           is_within(saved->frame, 0, ENDURO_DAY_FRAMES - 1) &&
           is_within(saved->overtaken, 0, enduro_quota(saved->day)) && is_within(saved->total, 0, PUFFER_MAX_STEPS) &&
           is_within(saved->steps, 0, PUFFER_MAX_STEPS);
}
