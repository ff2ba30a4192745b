// freeway.h - lead a chicken over ten lanes of traffic, again and again.
//
// The road is 160 pixels wide and its lanes 16 high, 10 pixels of kerb below and above. The chicken walks up or down at
// 3/4 pixel a frame, 60 frames a second, so that a crossing takes 4 seconds when nothing is in the way. Having crossed
// it is back at the start, one point richer. A vehicle that touches it throws it one lane back, in 16 frames in which
// it can do nothing and nothing can happen to it; or, with `to_kerb`, all the way back. Vehicles do not brake.
//
// The five lower lanes drive to the right, the upper ones to the left. From the kerbs inwards a lane moves one pixel in
// 5, 4, 3, 2 and 1 frames. The levels are in the manner of the cartridge's eight games: 1 one car a lane, 2 pairs among
// them, 3 more of both, 4 trucks too; 5 to 8 the same with lanes that change their speed every 1 to 4 seconds. Level 0
// is another one in every episode. Where the vehicles are in the beginning is left to chance.
//
// Observation float[34] in [-1, 1]: how far the chicken has come, how far it is still thrown back over a lane's height,
// the time left, the level / 8. Then, for the ten lanes in the order in which it meets them, beginning with the one
// that it is about to leave, what it would find there if it walked on and nothing stopped it: ten times the frames
// until a vehicle is in its way (0 when one is), ten times the frames until that vehicle is past, both over 60 and 1 if
// more; and ten times the speed, pixels a frame, positive to the right. Action: 0 stay, 1 up, 2 down, anything else
// stays. Reward: 1 for a crossing, half of it at its end and half along the way, which is taken back when the chicken
// is. Truncation after 8,160 frames (136 seconds), which are 2,040 steps of 4 frames. There is no terminal.
// Score is the crossings, perf that over the 34 of a chicken that nothing is in the way of. Who knew all traffic in
// advance could make 27, 24, 16, 12, 26, 23, 18 and 16 crossings in levels 1 to 8 (bench/freeway_bound.py).
#pragma once

#include "puffer_env.h"

enum { FREEWAY_STAY, FREEWAY_UP, FREEWAY_DOWN };
enum { FREEWAY_LANES = 10, FREEWAY_LEVELS = 8, FREEWAY_TRAFFICS = 4, FREEWAY_VEHICLES = 3, FREEWAY_SPEEDS = 5 };
enum { FREEWAY_OBSERVATION_SIZE = 4 + 3 * FREEWAY_LANES };
enum { FREEWAY_MAX_FRAMESKIP = 64, FREEWAY_FRAMES = 8160, FREEWAY_CROSSING_FRAMES = 240 };
enum { FREEWAY_BEST_SCORE = FREEWAY_FRAMES / FREEWAY_CROSSING_FRAMES };  // of a chicken that is never in anybody's way

// Lengths in 60ths of a pixel, a number that all speeds divide.
enum {
    FREEWAY_PIXEL = 60,
    FREEWAY_KERB = 10 * FREEWAY_PIXEL,
    FREEWAY_LANE = 16 * FREEWAY_PIXEL,
    FREEWAY_HEIGHT = 2 * FREEWAY_KERB + FREEWAY_LANES * FREEWAY_LANE,  // what the chicken walks
    FREEWAY_STEP = 45,                                                 // in a frame
    FREEWAY_THROW = 60,                                                // in a frame, when thrown one lane back
    FREEWAY_FAR_THROW = 240,                                           // when thrown to the kerb
    FREEWAY_CHICKEN_WIDTH = 6 * FREEWAY_PIXEL,
    FREEWAY_CHICKEN_HEIGHT = 8 * FREEWAY_PIXEL,
    FREEWAY_CAR_HEIGHT = 10 * FREEWAY_PIXEL,
    FREEWAY_ROAD = 160 * FREEWAY_PIXEL,
    FREEWAY_LOOP = 184 * FREEWAY_PIXEL  // after which a vehicle comes again: the road, and a truck out of sight
};

#define FREEWAY_SIGHT (60.0f)  // frames that the observation looks ahead in a lane

PUFFER_TABLE int16_t FREEWAY_LANE_SPEEDS[FREEWAY_LANES] = {12, 15, 20, 30, 60, 60, 30, 20, 15, 12};  // from below
PUFFER_TABLE int16_t FREEWAY_RANDOM_SPEEDS[FREEWAY_SPEEDS] = {12, 15, 20, 30, 60};

// How far behind the first one the vehicles of a lane are, pixels; those that are missing lie on the first.
typedef struct {
    int16_t behind[FREEWAY_VEHICLES][FREEWAY_LANES];
    int16_t lengths[FREEWAY_LANES];  // pixels: 12 of a car, 22 of a truck
} FreewayTraffic;

PUFFER_TABLE FreewayTraffic FREEWAY_TRAFFIC[FREEWAY_TRAFFICS] = {
    {{{0}}, {12, 12, 12, 12, 12, 12, 12, 12, 12, 12}},
    {{{0}, {0, 24, 0, 70, 0, 0, 70, 0, 24, 0}}, {12, 12, 12, 12, 12, 12, 12, 12, 12, 12}},
    {{{0}, {60, 24, 60, 20, 70, 70, 20, 60, 24, 60}, {0, 90, 0, 40, 0, 0, 40, 0, 90, 0}},
     {12, 12, 12, 12, 12, 12, 12, 12, 12, 12}},
    {{{0}, {70, 20, 0, 30, 50, 50, 30, 0, 20, 70}, {0, 40, 0, 90, 100, 100, 90, 0, 40, 0}},
     {22, 12, 22, 12, 12, 12, 12, 22, 12, 22}},
};

typedef struct {
    float* observations;        // [34]  these six are borrowed from the caller
    const void* actions;        // int32_t[1]
    float* rewards;             // [1]
    uint8_t* terminals;         // [1]  never set: only time ends an episode
    uint8_t* truncations;       // [1]
    float* final_observations;  // [34] or NULL
    Rng rng;
    int16_t passed[FREEWAY_LANES];  // from the chicken's nearer side to the front of the first vehicle, within a loop
    int16_t speeds[FREEWAY_LANES];  // in a frame
    int16_t frames_to_change[FREEWAY_LANES];  // of the speed, in levels 5 to 8
    int16_t y;                                // of the chicken's feet, from its start
    int16_t throw_left;                       // how far it is still thrown back
    int16_t frames;                           // of this episode
    int16_t score;                            // crossings
    int16_t level;                            // 1 to 8
    int16_t chosen_level;                     // the keyword argument: 0 to 8
    int16_t frameskip;                        // frames in a step
    bool to_kerb;
    float episode_return;
    Log log;  // summed at episode end, cleared by the reader
} Freeway;

PUFFER_FN PufferLayout c_layout(const Freeway* env) {
    return puffer_layout(1, FREEWAY_OBSERVATION_SIZE, PUFFER_FLOAT32, 1, PUFFER_INT32);
}

PUFFER_FN const FreewayTraffic* freeway_traffic(const Freeway* env) {
    return &FREEWAY_TRAFFIC[(env->level - 1) % FREEWAY_TRAFFICS];
}

// ---------------------------------------------------------------------------------------------------- observations

// How far a vehicle's front is beyond the chicken's nearer side.
PUFFER_FN int freeway_beyond(int passed, int pixels_behind) {
    int beyond = passed - pixels_behind * FREEWAY_PIXEL;
    return beyond < 0 ? beyond + FREEWAY_LOOP : beyond;
}

// How far a vehicle's front goes from one side of the chicken to where its rear leaves the other.
PUFFER_FN int freeway_span(int pixels_long) { return pixels_long * FREEWAY_PIXEL + FREEWAY_CHICKEN_WIDTH; }

// The lane in whose vehicles' way the chicken's feet are, or the next one up; FREEWAY_LANES above them all.
PUFFER_FN int freeway_lane(int y) {
    const int top = FREEWAY_KERB + (FREEWAY_LANE + FREEWAY_CAR_HEIGHT) / 2;  // of the vehicles in the lowest lane
    return y < top ? 0 : (y - top) / FREEWAY_LANE + 1;
}

// Frames until a chicken that walks on reaches the way of a lane's vehicles, in this crossing or the next.
PUFFER_FN int freeway_frames_to(const Freeway* env, int lane, int first) {
    const int margin = (FREEWAY_LANE - FREEWAY_CAR_HEIGHT) / 2;
    int way = FREEWAY_KERB + lane * FREEWAY_LANE + margin - FREEWAY_CHICKEN_HEIGHT - env->y;
    if (lane < first) way += FREEWAY_HEIGHT;
    return way > 0 ? way / FREEWAY_STEP : 0;
}

// How far, in every lane, the vehicle that came last and the one that comes next are beyond the chicken's nearer side
// when it gets there. Lane after lane in the inner loops, so that the compiler uses vectors.
PUFFER_FN void freeway_look(const Freeway* env, int first, int* last, int* next) {
    const FreewayTraffic* traffic = freeway_traffic(env);
    for (int lane = 0; lane < FREEWAY_LANES; lane++) {
        int passed = env->passed[lane] + freeway_frames_to(env, lane, first) * env->speeds[lane];  // below three loops
        passed = passed >= 2 * FREEWAY_LOOP ? passed - 2 * FREEWAY_LOOP : passed;
        last[lane] = next[lane] = passed >= FREEWAY_LOOP ? passed - FREEWAY_LOOP : passed;
    }
    int ahead[FREEWAY_LANES];
    memcpy(ahead, last, sizeof(ahead));
    for (int i = 1; i < FREEWAY_VEHICLES; i++) {
        for (int lane = 0; lane < FREEWAY_LANES; lane++) {
            int beyond = freeway_beyond(ahead[lane], traffic->behind[i][lane]);
            last[lane] = beyond < last[lane] ? beyond : last[lane];
            next[lane] = beyond > next[lane] ? beyond : next[lane];
        }
    }
}

PUFFER_FN void freeway_write_observations(Freeway* env) {
    const FreewayTraffic* traffic = freeway_traffic(env);
    const int first = freeway_lane(env->y) % FREEWAY_LANES;
    int last[FREEWAY_LANES], next[FREEWAY_LANES];
    float arrivals[2 * FREEWAY_LANES], departures[2 * FREEWAY_LANES], speeds[2 * FREEWAY_LANES];  // twice the road
    freeway_look(env, first, last, next);
    for (int lane = 0; lane < FREEWAY_LANES; lane++) {
        int span = freeway_span(traffic->lengths[lane]);
        bool is_inside = last[lane] < span;
        int arrival = is_inside ? 0 : FREEWAY_LOOP - next[lane];
        int departure = is_inside ? span - last[lane] : arrival + span;
        float speed = (float)env->speeds[lane], share = 1.0f / (FREEWAY_SIGHT * speed);
        float near = (float)arrival * share, far = (float)departure * share, pixels = speed / (float)FREEWAY_PIXEL;
        arrivals[lane] = near < 1.0f ? near : 1.0f;
        departures[lane] = far < 1.0f ? far : 1.0f;
        speeds[lane] = lane < FREEWAY_LANES / 2 ? pixels : -pixels;
    }
    memcpy(arrivals + FREEWAY_LANES, arrivals, FREEWAY_LANES * sizeof(float));
    memcpy(departures + FREEWAY_LANES, departures, FREEWAY_LANES * sizeof(float));
    memcpy(speeds + FREEWAY_LANES, speeds, FREEWAY_LANES * sizeof(float));
    env->observations[0] = (float)env->y * (1.0f / (float)FREEWAY_HEIGHT);
    env->observations[1] = clampf((float)env->throw_left * (1.0f / (float)FREEWAY_LANE), 0.0f, 1.0f);
    env->observations[2] = 1.0f - (float)env->frames * (1.0f / (float)FREEWAY_FRAMES);
    env->observations[3] = (float)env->level * (1.0f / (float)FREEWAY_LEVELS);
    memcpy(env->observations + 4, arrivals + first, FREEWAY_LANES * sizeof(float));
    memcpy(env->observations + 4 + FREEWAY_LANES, departures + first, FREEWAY_LANES * sizeof(float));
    memcpy(env->observations + 4 + 2 * FREEWAY_LANES, speeds + first, FREEWAY_LANES * sizeof(float));
}

// -------------------------------------------------------------------------------------------------------- episodes

PUFFER_FN int16_t freeway_frames_to_change(Freeway* env) { return (int16_t)(60 + rng_below(&env->rng, 181)); }

PUFFER_FN void c_reset(Freeway* env) {
    env->level = env->chosen_level;
    if (env->level == 0) env->level = (int16_t)(1 + rng_below(&env->rng, FREEWAY_LEVELS));
    for (int lane = 0; lane < FREEWAY_LANES; lane++) {
        env->passed[lane] = (int16_t)rng_below(&env->rng, FREEWAY_LOOP);
        env->speeds[lane] = FREEWAY_LANE_SPEEDS[lane];
        env->frames_to_change[lane] = freeway_frames_to_change(env);
    }
    env->y = env->throw_left = env->frames = env->score = 0;
    env->episode_return = 0.0f;
    freeway_write_observations(env);
}

PUFFER_FN void freeway_finish_episode(Freeway* env) {
    env->truncations[0] = 1;
    env->log.perf += (float)env->score * (1.0f / (float)FREEWAY_BEST_SCORE);
    env->log.score += (float)env->score;
    env->log.episode_return += env->episode_return;
    env->log.episode_length += (float)((FREEWAY_FRAMES + env->frameskip - 1) / env->frameskip);
    env->log.n += 1.0f;
    freeway_write_observations(env);
    keep_final(env->final_observations, env->observations, FREEWAY_OBSERVATION_SIZE * sizeof(float));
    c_reset(env);
}

// ---------------------------------------------------------------------------------------------------------- motion

// Whether a vehicle of the lane touches the chicken, `frames` after where the traffic is.
PUFFER_FN bool freeway_is_hit(const Freeway* env, int lane, int frames) {
    const FreewayTraffic* traffic = freeway_traffic(env);
    const int margin = (FREEWAY_LANE - FREEWAY_CAR_HEIGHT) / 2;
    int bottom = FREEWAY_KERB + lane * FREEWAY_LANE + margin;
    if (env->y >= bottom + FREEWAY_CAR_HEIGHT || env->y + FREEWAY_CHICKEN_HEIGHT <= bottom) return false;
    int passed = (env->passed[lane] + frames * env->speeds[lane]) % FREEWAY_LOOP;
    for (int i = 0; i < FREEWAY_VEHICLES; i++) {
        if (freeway_beyond(passed, traffic->behind[i][lane]) < freeway_span(traffic->lengths[lane])) return true;
    }
    return false;
}

// Throws the chicken on for a frame.
PUFFER_FN void freeway_throw(Freeway* env) {
    int way = env->to_kerb ? FREEWAY_FAR_THROW : FREEWAY_THROW;
    way = way < env->throw_left ? way : env->throw_left;
    env->throw_left = (int16_t)(env->throw_left - way);
    env->y = (int16_t)(env->y - way);
}

// Walks for a frame, `frames` after where the traffic is; returns whether the chicken has crossed.
PUFFER_FN bool freeway_walk(Freeway* env, int direction, int frames) {
    int y = env->y + direction * FREEWAY_STEP;
    env->y = (int16_t)(y > 0 ? y : 0);
    if (env->y >= FREEWAY_HEIGHT) {
        env->y = 0;
        return true;
    }
    int lane = freeway_lane(env->y);  // it may stretch into the next one
    for (int i = lane; i < FREEWAY_LANES && i <= lane + 1; i++) {
        if (!freeway_is_hit(env, i, frames)) continue;
        env->throw_left = env->to_kerb || env->y < FREEWAY_LANE ? env->y : (int16_t)FREEWAY_LANE;
        return false;
    }
    return false;
}

PUFFER_FN void freeway_drive(Freeway* env, int frames) {
    for (int lane = 0; lane < FREEWAY_LANES; lane++) {
        env->passed[lane] = (int16_t)((env->passed[lane] + frames * env->speeds[lane]) % FREEWAY_LOOP);
    }
}

PUFFER_FN void freeway_change_speeds(Freeway* env) {
    for (int lane = 0; lane < FREEWAY_LANES; lane++) {
        env->frames_to_change[lane] = (int16_t)(env->frames_to_change[lane] - env->frameskip);
        if (env->frames_to_change[lane] > 0) continue;
        env->frames_to_change[lane] = freeway_frames_to_change(env);
        env->speeds[lane] = FREEWAY_RANDOM_SPEEDS[rng_below(&env->rng, FREEWAY_SPEEDS)];
    }
}

// Plays some frames, no more than the episode has; returns the crossings in them.
PUFFER_FN int freeway_play(Freeway* env, int frames) {
    int action = ((const int32_t*)env->actions)[0], direction = (action == FREEWAY_UP) - (action == FREEWAY_DOWN);
    int left = FREEWAY_FRAMES - env->frames, num_frames = frames < left ? frames : left, crossings = 0;
    for (int frame = 1; frame <= num_frames; frame++) {
        if (env->throw_left > 0) {
            freeway_throw(env);
        } else {
            crossings += freeway_walk(env, direction, frame);
        }
    }
    freeway_drive(env, num_frames);
    env->frames = (int16_t)(env->frames + num_frames);
    env->score = (int16_t)(env->score + crossings);
    return crossings;
}

PUFFER_FN void c_step(Freeway* env) {
    int before = env->y, crossings = freeway_play(env, env->frameskip);
    int way = crossings * FREEWAY_HEIGHT + env->y - before;
    env->terminals[0] = env->truncations[0] = 0;
    env->rewards[0] = 0.5f * (float)crossings + 0.5f / (float)FREEWAY_HEIGHT * (float)way;
    env->episode_return += env->rewards[0];
    if (env->level > FREEWAY_TRAFFICS) freeway_change_speeds(env);
    if (env->frames == FREEWAY_FRAMES) {
        freeway_finish_episode(env);
    } else {
        freeway_write_observations(env);
    }
}

// ------------------------------------------------------------------------------------------------------- snapshots

PUFFER_FN bool freeway_accepts_lane(const Freeway* saved, int lane) {
    bool is_speed = false;
    for (int i = 0; i < FREEWAY_SPEEDS; i++) is_speed |= saved->speeds[lane] == FREEWAY_RANDOM_SPEEDS[i];
    return is_speed && is_within(saved->passed[lane], 0, FREEWAY_LOOP - 1) &&
           is_within(saved->frames_to_change[lane], 1, 240);
}

PUFFER_FN bool c_accepts(const Freeway* env, const Freeway* saved) {
    for (int lane = 0; lane < FREEWAY_LANES; lane++) {
        if (!freeway_accepts_lane(saved, lane)) return false;
    }
    bool is_level = env->chosen_level == 0 ? is_within(saved->level, 1, FREEWAY_LEVELS) : saved->level == env->level;
    return is_level && saved->chosen_level == env->chosen_level && saved->frameskip == env->frameskip &&
           is_bool(&saved->to_kerb) && saved->to_kerb == env->to_kerb && is_within(saved->y, 0, FREEWAY_HEIGHT - 1) &&
           is_within(saved->throw_left, 0, saved->y) && is_within(saved->frames, 0, FREEWAY_FRAMES - 1) &&
           is_within(saved->score, 0, FREEWAY_BEST_SCORE) &&
           saved->score * FREEWAY_CROSSING_FRAMES + saved->y / FREEWAY_STEP <= saved->frames;
}
