// target.h - eight agents chase four goals that wander about. The tutorial of several agents in one environment.
//
// The arena is 960 x 640 pixels, seen from above, x to the right and y down. Everything is a disc and passes through
// the others. Goals drift straight on and are reflected by the walls; an agent is stopped by them, and slides along.
//
// Observation float[28] in [-1, 1], as the agent sees it; a distance d of pixels is d / (d + 100), so that it tells
// most of what is near:
//     [0..6]   how far the others are ahead of it, the next by number first     [7..13]  how far to its right
//     [14..17] how far each goal is ahead of it, the nearest first              [18..21] how far to its right
//     [22..25] how much farther from that goal the nearest of the others is than it is itself
//     [26, 27] how far the middle of the arena is ahead of it, and to its right
// Actions: the turn, 0..8, of (turn - 4) * 5 degrees to the right; the speed after it, 0..4, of 3 pixels a step each;
// anything beyond them is as the nearest.
// Reward: +1 for reaching a goal, which then begins elsewhere; of several agents at one goal the nearest gets it.
// Truncation of all agents after `horizon` steps; nothing is terminal.
// score counts an agent's goals. perf is the share of its team in what an ideal team of eight reaches: one whose
// members stand evenly spread, so that the nearest is 0.5 * sqrt(area / 8) = 139 pixels away from a goal that appears,
// and goes straight at it while it comes: 139 - 28 pixels at 15 pixels a step, four goals at a time.
#pragma once

#include "puffer_env.h"

enum { TARGET_AGENTS = 8, TARGET_GOALS = 4, TARGET_TURNS = 9, TARGET_SPEEDS = 5, TARGET_ACTIONS = 2 };
enum { TARGET_MIN_HORIZON = 1, TARGET_MAX_HORIZON = 100000 };

// The parts of an agent's observation.
enum { TARGET_OTHERS = TARGET_AGENTS - 1 };
enum {
    TARGET_OTHERS_AHEAD = 0,
    TARGET_OTHERS_RIGHT = TARGET_OTHERS_AHEAD + TARGET_OTHERS,
    TARGET_GOALS_AHEAD = TARGET_OTHERS_RIGHT + TARGET_OTHERS,
    TARGET_GOALS_RIGHT = TARGET_GOALS_AHEAD + TARGET_GOALS,
    TARGET_LEADS = TARGET_GOALS_RIGHT + TARGET_GOALS,
    TARGET_MIDDLE_AHEAD = TARGET_LEADS + TARGET_GOALS,
    TARGET_MIDDLE_RIGHT,
    TARGET_OBSERVATIONS
};

#define TARGET_WIDTH (960.0f)  // pixels
#define TARGET_HEIGHT (640.0f)
#define TARGET_AGENT_RADIUS (12.0f)
#define TARGET_GOAL_RADIUS (16.0f)
#define TARGET_REACH (TARGET_AGENT_RADIUS + TARGET_GOAL_RADIUS)
#define TARGET_SPEED (3.0f)         // pixels a step, of an agent for each number of its action
#define TARGET_GOAL_SPEED (3.0f)    // pixels a step
#define TARGET_HALF_SIGHT (100.0f)  // pixels that are observed as a distance of 0.5
#define TARGET_LONGEST (1.001f)     // of a heading, which is 1 but for rounding

// From one goal to the next: (139 - TARGET_REACH) / (4 * TARGET_SPEED + TARGET_GOAL_SPEED).
#define TARGET_IDEAL_STEPS (7.4f)

// Cosine and sine of the turns, (turn - 4) * 5 degrees.
PUFFER_TABLE float TARGET_COSINES[TARGET_TURNS] = {0.93969262f, 0.96592583f, 0.98480775f, 0.99619470f, 1.0f,
                                                   0.99619470f, 0.98480775f, 0.96592583f, 0.93969262f};
PUFFER_TABLE float TARGET_SINES[TARGET_TURNS] = {-0.34202014f, -0.25881905f, -0.17364818f, -0.08715574f, 0.0f,
                                                 0.08715574f,  0.17364818f,  0.25881905f,  0.34202014f};

typedef struct {
    float* observations;        // [8 * 28]  these six are borrowed from the caller
    const void* actions;        // int32_t[8 * 2]
    float* rewards;             // [8]
    uint8_t* terminals;         // [8]  never set
    uint8_t* truncations;       // [8]
    float* final_observations;  // [8 * 28] or NULL
    Rng rng;
    float x[TARGET_AGENTS], y[TARGET_AGENTS];                  // pixels
    float heading_x[TARGET_AGENTS], heading_y[TARGET_AGENTS];  // unit vectors: no angle has to be wrapped
    float goal_x[TARGET_GOALS], goal_y[TARGET_GOALS];          // pixels
    float goal_vx[TARGET_GOALS], goal_vy[TARGET_GOALS];        // pixels a step
    int reached[TARGET_AGENTS];                                // goals in this episode
    int steps, horizon;
    Log log;  // summed at episode end, cleared by the reader
} Target;

PUFFER_FN PufferLayout c_layout(const Target* env) {
    return puffer_layout(TARGET_AGENTS, TARGET_OBSERVATIONS, PUFFER_FLOAT32, TARGET_ACTIONS, PUFFER_INT32);
}

// ---------------------------------------------------------------------------------------------------------- places

// A direction, each as likely as any other: a point of the unit disc that is not too near its middle.
PUFFER_FN void target_draw_direction(Rng* rng, float* x, float* y) {
    float square;
    do {
        *x = rng_uniform(rng, -1.0f, 1.0f);
        *y = rng_uniform(rng, -1.0f, 1.0f);
        square = *x * *x + *y * *y;
    } while (square > 1.0f || square < 0.01f);
    float scale = 1.0f / sqrtf(square);
    *x *= scale;
    *y *= scale;
}

PUFFER_FN void target_place_goal(Target* env, int goal) {
    Rng* rng = &env->rng;
    env->goal_x[goal] = rng_uniform(rng, TARGET_GOAL_RADIUS, TARGET_WIDTH - TARGET_GOAL_RADIUS);
    env->goal_y[goal] = rng_uniform(rng, TARGET_GOAL_RADIUS, TARGET_HEIGHT - TARGET_GOAL_RADIUS);
    target_draw_direction(rng, &env->goal_vx[goal], &env->goal_vy[goal]);
    env->goal_vx[goal] *= TARGET_GOAL_SPEED;
    env->goal_vy[goal] *= TARGET_GOAL_SPEED;
}

PUFFER_FN void target_place_agent(Target* env, int agent) {
    Rng* rng = &env->rng;
    env->x[agent] = rng_uniform(rng, TARGET_AGENT_RADIUS, TARGET_WIDTH - TARGET_AGENT_RADIUS);
    env->y[agent] = rng_uniform(rng, TARGET_AGENT_RADIUS, TARGET_HEIGHT - TARGET_AGENT_RADIUS);
    target_draw_direction(rng, &env->heading_x[agent], &env->heading_y[agent]);
    env->reached[agent] = 0;
}

// ----------------------------------------------------------------------------------------------------- observations

// Writes how far some places are ahead of an agent and to its right.
PUFFER_FN void target_observe_places(const Target* env, int agent, const float* places_x, const float* places_y,
                                     int count, float* ahead, float* right) {
    float x = env->x[agent], y = env->y[agent], heading_x = env->heading_x[agent], heading_y = env->heading_y[agent];
    for (int i = 0; i < count; i++) {
        float to_x = places_x[i] - x, to_y = places_y[i] - y;
        float scale = 1.0f / (sqrtf(to_x * to_x + to_y * to_y) + TARGET_HALF_SIGHT);
        ahead[i] = scale * (to_x * heading_x + to_y * heading_y);
        right[i] = scale * (to_y * heading_x - to_x * heading_y);
    }
}

// A goal as each of the agents sees it.
typedef struct {
    float distance[TARGET_AGENTS], ahead[TARGET_AGENTS], right[TARGET_AGENTS], lead[TARGET_AGENTS];
} TargetView;

PUFFER_FN TargetView target_view_goal(const Target* env, int goal) {
    TargetView view;
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        float x = env->goal_x[goal] - env->x[agent], y = env->goal_y[goal] - env->y[agent];
        float heading_x = env->heading_x[agent], heading_y = env->heading_y[agent], distance = sqrtf(x * x + y * y);
        float scale = 1.0f / (distance + TARGET_HALF_SIGHT);
        view.distance[agent] = scale * distance;
        view.ahead[agent] = scale * (x * heading_x + y * heading_y);
        view.right[agent] = scale * (y * heading_x - x * heading_y);
    }
    float first = 1.0f, second = 1.0f;  // the least distances; none is seen as 1
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        float distance = view.distance[agent], farther = distance > first ? distance : first;
        second = farther < second ? farther : second;
        first = distance < first ? distance : first;
    }
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        view.lead[agent] = (view.distance[agent] == first ? second : first) - view.distance[agent];
    }
    return view;
}

PUFFER_FN void target_exchange(float* one, float* other, bool is_wanted) {
    float first = *one, second = *other;
    *one = is_wanted ? second : first;
    *other = is_wanted ? first : second;
}

// Brings two goals into order for all agents at once.
PUFFER_FN void target_order(TargetView* nearer, TargetView* farther) {
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        bool is_wrong = nearer->distance[agent] > farther->distance[agent];
        target_exchange(&nearer->distance[agent], &farther->distance[agent], is_wrong);
        target_exchange(&nearer->ahead[agent], &farther->ahead[agent], is_wrong);
        target_exchange(&nearer->right[agent], &farther->right[agent], is_wrong);
        target_exchange(&nearer->lead[agent], &farther->lead[agent], is_wrong);
    }
}

// Writes the goals as every agent sees them, the nearest first: by the five exchanges that sort four.
PUFFER_FN void target_observe_goals(Target* env) {
    TargetView views[TARGET_GOALS];
    for (int goal = 0; goal < TARGET_GOALS; goal++) views[goal] = target_view_goal(env, goal);
    target_order(&views[0], &views[1]);
    target_order(&views[2], &views[3]);
    target_order(&views[0], &views[2]);
    target_order(&views[1], &views[3]);
    target_order(&views[1], &views[2]);
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        float* row = env->observations + agent * TARGET_OBSERVATIONS;
        for (int goal = 0; goal < TARGET_GOALS; goal++) {
            row[TARGET_GOALS_AHEAD + goal] = views[goal].ahead[agent];
            row[TARGET_GOALS_RIGHT + goal] = views[goal].right[agent];
            row[TARGET_LEADS + goal] = views[goal].lead[agent];
        }
    }
}

PUFFER_FN void target_observe(Target* env) {
    const float middle_x = 0.5f * TARGET_WIDTH, middle_y = 0.5f * TARGET_HEIGHT;
    float x[2 * TARGET_AGENTS], y[2 * TARGET_AGENTS];  // the agents twice, so that the others follow each in a row
    for (int copy = 0; copy < 2; copy++) {
        memcpy(x + copy * TARGET_AGENTS, env->x, sizeof(env->x));
        memcpy(y + copy * TARGET_AGENTS, env->y, sizeof(env->y));
    }
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        float* row = env->observations + agent * TARGET_OBSERVATIONS;
        target_observe_places(env, agent, x + agent + 1, y + agent + 1, TARGET_OTHERS, row + TARGET_OTHERS_AHEAD,
                              row + TARGET_OTHERS_RIGHT);
        target_observe_places(env, agent, &middle_x, &middle_y, 1, row + TARGET_MIDDLE_AHEAD,
                              row + TARGET_MIDDLE_RIGHT);
    }
    target_observe_goals(env);
}

// -------------------------------------------------------------------------------------------------------- episodes

PUFFER_FN void c_reset(Target* env) {
    env->steps = 0;
    for (int agent = 0; agent < TARGET_AGENTS; agent++) target_place_agent(env, agent);
    for (int goal = 0; goal < TARGET_GOALS; goal++) target_place_goal(env, goal);
    target_observe(env);
}

// Every agent's episode counts by itself; perf is the team's.
PUFFER_FN void target_finish_episode(Target* env) {
    int team = 0;
    for (int agent = 0; agent < TARGET_AGENTS; agent++) team += env->reached[agent];
    float perf = (float)team * TARGET_IDEAL_STEPS / (float)(TARGET_GOALS * env->steps);
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        env->truncations[agent] = 1;
        env->log.perf += clampf(perf, 0.0f, 1.0f);
        env->log.score += (float)env->reached[agent];
        env->log.episode_return += (float)env->reached[agent];
        env->log.episode_length += (float)env->steps;
        env->log.n += 1.0f;
    }
    target_observe(env);
    keep_final(env->final_observations, env->observations, sizeof(float[TARGET_AGENTS * TARGET_OBSERVATIONS]));
    c_reset(env);
}

// ------------------------------------------------------------------------------------------------------------ steps

PUFFER_FN int target_choice(int action, int count) { return action < 0 ? 0 : action < count ? action : count - 1; }

// Turns an agent and moves it on. One step of Newton's method brings the heading's length back to 1.
PUFFER_FN void target_move_agent(Target* env, int agent) {
    const int32_t* action = (const int32_t*)env->actions + agent * TARGET_ACTIONS;
    int turn = target_choice(action[0], TARGET_TURNS);
    float speed = TARGET_SPEED * (float)target_choice(action[1], TARGET_SPEEDS);
    float cosine = TARGET_COSINES[turn], sine = TARGET_SINES[turn];
    float x = env->heading_x[agent] * cosine - env->heading_y[agent] * sine;
    float y = env->heading_y[agent] * cosine + env->heading_x[agent] * sine;
    float scale = 1.5f - 0.5f * (x * x + y * y);
    env->heading_x[agent] = x *= scale;
    env->heading_y[agent] = y *= scale;
    env->x[agent] = clampf(env->x[agent] + speed * x, TARGET_AGENT_RADIUS, TARGET_WIDTH - TARGET_AGENT_RADIUS);
    env->y[agent] = clampf(env->y[agent] + speed * y, TARGET_AGENT_RADIUS, TARGET_HEIGHT - TARGET_AGENT_RADIUS);
}

// Moves a goal along one axis, between walls at `low` and `high`.
PUFFER_FN void target_drift(float* place, float* velocity, float low, float high) {
    *place += *velocity;
    if (*place < low) {
        *place = low + low - *place;
        *velocity = -*velocity;
    } else if (*place > high) {
        *place = high + high - *place;
        *velocity = -*velocity;
    }
}

PUFFER_FN void target_move_goals(Target* env) {
    for (int goal = 0; goal < TARGET_GOALS; goal++) {
        target_drift(&env->goal_x[goal], &env->goal_vx[goal], TARGET_GOAL_RADIUS, TARGET_WIDTH - TARGET_GOAL_RADIUS);
        target_drift(&env->goal_y[goal], &env->goal_vy[goal], TARGET_GOAL_RADIUS, TARGET_HEIGHT - TARGET_GOAL_RADIUS);
    }
}

// Rewards the nearest agent in reach of a goal, if there is one.
PUFFER_FN void target_reach_goal(Target* env, int goal) {
    float least = TARGET_REACH * TARGET_REACH;
    int nearest = -1;
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        float x = env->goal_x[goal] - env->x[agent], y = env->goal_y[goal] - env->y[agent];
        if (x * x + y * y < least) {
            least = x * x + y * y;
            nearest = agent;
        }
    }
    if (nearest < 0) return;
    env->rewards[nearest] += 1.0f;
    env->reached[nearest] += 1;
    target_place_goal(env, goal);
}

PUFFER_FN void c_step(Target* env) {
    memset(env->rewards, 0, sizeof(float[TARGET_AGENTS]));
    memset(env->terminals, 0, TARGET_AGENTS);
    memset(env->truncations, 0, TARGET_AGENTS);
    for (int agent = 0; agent < TARGET_AGENTS; agent++) target_move_agent(env, agent);
    target_move_goals(env);
    for (int goal = 0; goal < TARGET_GOALS; goal++) target_reach_goal(env, goal);
    env->steps += 1;
    if (env->steps == env->horizon) {
        target_finish_episode(env);
    } else {
        target_observe(env);
    }
}

// ------------------------------------------------------------------------------------------------------- snapshots

PUFFER_FN bool target_is_inside(float x, float y, float radius) {
    return is_withinf(x, radius, TARGET_WIDTH - radius) && is_withinf(y, radius, TARGET_HEIGHT - radius);
}

PUFFER_FN bool target_is_vector(float x, float y, float length) {
    float square = x * x + y * y, longest = length * TARGET_LONGEST, shortest = length / TARGET_LONGEST;
    return is_withinf(square, shortest * shortest, longest * longest);
}

PUFFER_FN bool c_accepts(const Target* env, const Target* saved) {
    bool is_possible = saved->horizon == env->horizon && is_within(saved->steps, 0, env->horizon - 1);
    for (int agent = 0; agent < TARGET_AGENTS; agent++) {
        is_possible = is_possible && target_is_inside(saved->x[agent], saved->y[agent], TARGET_AGENT_RADIUS) &&
                      target_is_vector(saved->heading_x[agent], saved->heading_y[agent], 1.0f) &&
                      is_within(saved->reached[agent], 0, TARGET_GOALS * saved->steps);
    }
    for (int goal = 0; goal < TARGET_GOALS; goal++) {
        is_possible = is_possible && target_is_inside(saved->goal_x[goal], saved->goal_y[goal], TARGET_GOAL_RADIUS) &&
                      target_is_vector(saved->goal_vx[goal], saved->goal_vy[goal], TARGET_GOAL_SPEED);
    }
    return is_possible;
}
