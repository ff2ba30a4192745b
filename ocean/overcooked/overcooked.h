// overcooked.h - two cooks share a kitchen and its reward: three onions into a pot, the soup onto a dish and out.
//
// The five classic kitchens: cramped room, asymmetric advantages, coordination ring, forced coordination and counter
// circuit. A cook carries one thing. Interacting with what is ahead takes an onion or a dish from where they are
// dispensed, puts something down on an empty counter or takes it up, puts an onion into a pot that is not full, takes
// a soup that is ready out of a pot onto the dish in hand, and serves a soup. A pot with three onions begins to cook at
// once and is ready after 20 steps. In a step both interact, the first cook first; then both move. Who moves looks that
// way, also where there is no way. Two who would be in one place, or change places, stay where they are. 400 steps.
//
// With `partner` "self" both cooks are agents. With "bot" one is, and the other does what is most needed by the
// shortest way; `bot_random` percent of its steps are random. Each episode draws which of the cooks an agent is, and
// with `layout` "all" the kitchen.
//
// Observation uint8[270], each 0 or 1; places are those of a grid of 9 x 5:
//   0-44 where the cook is; 45-48 whether it looks up, down, right, left;
//   49-51 whether it holds an onion, a dish, a soup;
//   52-61 what is ahead: the other cook, floor, an empty counter, one with an onion, a dish, a soup, where onions are,
//   where dishes are, a pot, the window where soups are served;
//   62-113 place, direction and hands of the other cook;
//   114-248 counters with an onion, with a dish, with a soup, 45 places each;
//   249-264 for each of two pots, from the top left: at least one, two, three onions; ready; more than 0, 5, 10 and
//   15 steps from it;
//   265-269 which kitchen it is.
// Action: 0 up, 1 down, 2 right, 3 left, 5 interacts; 4 or any other number stays.
// Reward: `soup_reward` for both cooks for each soup served; `onion_reward` for the cook that puts an onion into a pot,
// `dish_reward` for taking a dish from where they are dispensed if more pots were begun before the step than dishes are
// in hands, and none lies on a counter, and `pickup_reward` for taking a soup out of a pot. Truncation after 400 steps.
// Score is 20 for each soup, perf the soups of 16 for each pot.
#pragma once

#include "puffer_bits.h"

enum { OVERCOOKED_UP, OVERCOOKED_DOWN, OVERCOOKED_RIGHT, OVERCOOKED_LEFT, OVERCOOKED_STAY, OVERCOOKED_INTERACT };
enum { OVERCOOKED_DIRECTIONS = 4, OVERCOOKED_ACTIONS = 6, OVERCOOKED_COOKS = 2, OVERCOOKED_MAX_POTS = 2 };
enum { OVERCOOKED_WIDTH = 9, OVERCOOKED_HEIGHT = 5, OVERCOOKED_CELLS = OVERCOOKED_WIDTH * OVERCOOKED_HEIGHT };
enum { OVERCOOKED_KITCHENS = 5, OVERCOOKED_ALL = OVERCOOKED_KITCHENS };  // `layout`: one of them, or all
enum { OVERCOOKED_NOTHING, OVERCOOKED_ONION, OVERCOOKED_DISH, OVERCOOKED_SOUP, OVERCOOKED_THINGS };
enum { OVERCOOKED_FULL = 3, OVERCOOKED_COOKING = 20, OVERCOOKED_STEPS = 400, OVERCOOKED_MOST_SOUPS = 16 };

// What is ahead of a cook.
enum {
    OVERCOOKED_COOK,
    OVERCOOKED_FLOOR,
    OVERCOOKED_COUNTER,  // and, with a thing on it, the thing's number more
    OVERCOOKED_ONIONS = OVERCOOKED_COUNTER + OVERCOOKED_THINGS,
    OVERCOOKED_DISHES,
    OVERCOOKED_POT,
    OVERCOOKED_WINDOW,
    OVERCOOKED_AHEADS
};

// The parts of an observation.
enum {
    OVERCOOKED_SEES_FACING = OVERCOOKED_CELLS,
    OVERCOOKED_SEES_HELD = OVERCOOKED_SEES_FACING + OVERCOOKED_DIRECTIONS,
    OVERCOOKED_SEES_AHEAD = OVERCOOKED_SEES_HELD + OVERCOOKED_THINGS - 1,
    OVERCOOKED_SEES_OTHER = OVERCOOKED_SEES_AHEAD + OVERCOOKED_AHEADS,
    OVERCOOKED_SEES_COUNTERS = OVERCOOKED_SEES_OTHER + OVERCOOKED_SEES_AHEAD,
    OVERCOOKED_SEES_POTS = OVERCOOKED_SEES_COUNTERS + (OVERCOOKED_THINGS - 1) * OVERCOOKED_CELLS,
    OVERCOOKED_SEES_KITCHEN = OVERCOOKED_SEES_POTS + 8 * OVERCOOKED_MAX_POTS,
    OVERCOOKED_OBSERVATION = OVERCOOKED_SEES_KITCHEN + OVERCOOKED_KITCHENS
};

// Sets of cells are bits: cell = row * OVERCOOKED_WIDTH + column, from the top left. No floor is at the edge, so that
// all four neighbours of a cook's cell are cells.
typedef struct {
    uint64_t floor, counters, onions, dishes, pots, windows;
    uint64_t reach[OVERCOOKED_COOKS];  // the floor where a cook can come to
    uint8_t starts[OVERCOOKED_COOKS];
} OvercookedKitchen;

PUFFER_TABLE OvercookedKitchen OVERCOOKED_TABLE[OVERCOOKED_KITCHENS] = {
    {0x381C00, 0xA844001B, 0x2200, 0x10000000, 0x4, 0x40000000, {0x381C00, 0x381C00}, {19, 12}},
    {0x773B90400, 0x1D780C04A9FF, 0x4200, 0x28000000000, 0x80400000, 0x21000, {0x703810000, 0x70380400}, {24, 28}},
    {0x70281C00, 0x19080500217, 0x2008000000, 0x40000, 0x2008, 0x4000000000, {0x70281C00, 0x70281C00}, {11, 19}},
    {0x50281400, 0x170A0500817, 0x40200, 0x8000000, 0x2008, 0x8000000000, {0x40201000, 0x10080400}, {12, 19}},
    {0x3F108FC00, 0xE7408F102E7, 0x18000000000, 0x40000, 0x18, 0x2000000, {0x3F108FC00, 0x3F108FC00}, {30, 12}},
};

typedef struct {
    int8_t cell, facing, held;
} OvercookedCook;

typedef struct {
    int8_t onions, left;  // steps until it is ready, once it is full
} OvercookedPot;

typedef struct {
    uint8_t* observations;        // [agents, OVERCOOKED_OBSERVATION]  these six are borrowed from the caller
    const void* actions;          // int32_t[agents]
    float* rewards;               // [agents]
    uint8_t* terminals;           // [agents]  never set
    uint8_t* truncations;         // [agents]
    uint8_t* final_observations;  // [agents, OVERCOOKED_OBSERVATION] or NULL
    Rng rng;
    int num_agents, layout, bot_random;                           // keyword arguments
    float soup_reward, onion_reward, dish_reward, pickup_reward;  // keyword arguments
    int kitchen;                                                  // of this episode
    int seat;                                                     // the cook that the first agent is
    OvercookedCook cooks[OVERCOOKED_COOKS];
    OvercookedPot pots[OVERCOOKED_MAX_POTS];
    uint64_t lying[OVERCOOKED_THINGS];  // counters with each thing; the first is not used
    int soups, steps;                   // of the episode
    float returns[OVERCOOKED_COOKS];    // of the episode, by agent
    Log log;                            // summed at the end of episodes, cleared by the reader
} Overcooked;

PUFFER_TABLE int8_t OVERCOOKED_AHEAD[OVERCOOKED_DIRECTIONS] = {-OVERCOOKED_WIDTH, OVERCOOKED_WIDTH, 1, -1};

PUFFER_FN PufferLayout c_layout(const Overcooked* env) {
    return puffer_layout(env->num_agents, OVERCOOKED_OBSERVATION, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN const OvercookedKitchen* overcooked_kitchen(const Overcooked* env) { return &OVERCOOKED_TABLE[env->kitchen]; }

PUFFER_FN int overcooked_ahead(const OvercookedCook* cook) { return cook->cell + OVERCOOKED_AHEAD[cook->facing]; }

PUFFER_FN uint64_t overcooked_bit(int cell) { return (uint64_t)1 << cell; }

// The pot in a cell.
PUFFER_FN int overcooked_pot(const OvercookedKitchen* kitchen, int cell) { return cell != bits_lowest(kitchen->pots); }

// What lies on a counter.
PUFFER_FN int overcooked_lying(const Overcooked* env, uint64_t counter) {
    for (int thing = OVERCOOKED_ONION; thing < OVERCOOKED_THINGS; thing++) {
        if (env->lying[thing] & counter) return thing;
    }
    return OVERCOOKED_NOTHING;
}

PUFFER_FN uint64_t overcooked_laden(const Overcooked* env) {
    return env->lying[OVERCOOKED_ONION] | env->lying[OVERCOOKED_DISH] | env->lying[OVERCOOKED_SOUP];
}

PUFFER_FN bool overcooked_is_ready(const OvercookedPot* pot) {
    return pot->onions == OVERCOOKED_FULL && pot->left == 0;
}

// ------------------------------------------------------------------------------------------------- what the cooks see

PUFFER_FN int overcooked_seen_ahead(const Overcooked* env, int index) {
    const OvercookedKitchen* kitchen = overcooked_kitchen(env);
    int cell = overcooked_ahead(&env->cooks[index]);
    uint64_t ahead = overcooked_bit(cell);
    if (kitchen->counters & ahead) return OVERCOOKED_COUNTER + overcooked_lying(env, ahead);
    if (kitchen->floor & ahead) return env->cooks[1 - index].cell == cell ? OVERCOOKED_COOK : OVERCOOKED_FLOOR;
    if (kitchen->onions & ahead) return OVERCOOKED_ONIONS;
    if (kitchen->dishes & ahead) return OVERCOOKED_DISHES;
    return kitchen->pots & ahead ? OVERCOOKED_POT : OVERCOOKED_WINDOW;
}

PUFFER_FN void overcooked_write_cook(uint8_t* row, const OvercookedCook* cook) {
    row[cook->cell] = 1;
    row[OVERCOOKED_SEES_FACING + cook->facing] = 1;
    if (cook->held != OVERCOOKED_NOTHING) row[OVERCOOKED_SEES_HELD + cook->held - 1] = 1;
}

PUFFER_FN void overcooked_write_pot(uint8_t* row, const OvercookedPot* pot) {
    for (int i = 0; i < OVERCOOKED_FULL; i++) row[i] = pot->onions > i;
    row[3] = overcooked_is_ready(pot);
    for (int i = 0; i < 4; i++) row[4 + i] = pot->left > 5 * i;
}

// What both cooks see alike.
PUFFER_FN void overcooked_write_room(const Overcooked* env, uint8_t* row) {
    for (int thing = OVERCOOKED_ONION; thing < OVERCOOKED_THINGS; thing++) {
        uint8_t* counters = row + OVERCOOKED_SEES_COUNTERS + (thing - 1) * OVERCOOKED_CELLS;
        for (uint64_t left = env->lying[thing]; left != 0; left &= left - 1) counters[bits_lowest(left)] = 1;
    }
    for (int i = 0; i < OVERCOOKED_MAX_POTS; i++) {
        overcooked_write_pot(row + OVERCOOKED_SEES_POTS + 8 * i, &env->pots[i]);
    }
    row[OVERCOOKED_SEES_KITCHEN + env->kitchen] = 1;
}

PUFFER_FN void overcooked_write(Overcooked* env) {
    memset(env->observations, 0, (size_t)(env->num_agents * OVERCOOKED_OBSERVATION));
    for (int i = 0; i < env->num_agents; i++) {
        uint8_t* row = env->observations + i * OVERCOOKED_OBSERVATION;
        int cook = i ^ env->seat;
        overcooked_write_cook(row, &env->cooks[cook]);
        row[OVERCOOKED_SEES_AHEAD + overcooked_seen_ahead(env, cook)] = 1;
        overcooked_write_cook(row + OVERCOOKED_SEES_OTHER, &env->cooks[1 - cook]);
        overcooked_write_room(env, row);
    }
}

// ------------------------------------------------------------------------------------------------------------- the bot

PUFFER_FN uint64_t overcooked_around(uint64_t cells) {
    return cells << 1 | cells >> 1 | cells << OVERCOOKED_WIDTH | cells >> OVERCOOKED_WIDTH;
}

// The pots that are full, or those that are not.
PUFFER_FN uint64_t overcooked_pots(const Overcooked* env, bool are_full) {
    uint64_t found = 0, left = overcooked_kitchen(env)->pots;
    for (int i = 0; left != 0; i++, left &= left - 1) {
        if ((env->pots[i].onions == OVERCOOKED_FULL) == are_full) found |= left & (~left + 1);
    }
    return found;
}

// Empty counters that both cooks can come to, where each is in a part of the kitchen of its own.
PUFFER_FN uint64_t overcooked_passes(const Overcooked* env) {
    const OvercookedKitchen* kitchen = overcooked_kitchen(env);
    uint64_t both = overcooked_around(kitchen->reach[0]) & overcooked_around(kitchen->reach[1]);
    return kitchen->counters & both & ~overcooked_laden(env);
}

// Where a bot takes what it has in its hands, or where it finds what is needed; nowhere is to wait.
PUFFER_FN uint64_t overcooked_goals(const Overcooked* env, int index) {
    const OvercookedKitchen* kitchen = overcooked_kitchen(env);
    const OvercookedCook *cook = &env->cooks[index], *other = &env->cooks[1 - index];
    uint64_t full = overcooked_pots(env, true), hungry = overcooked_pots(env, false);
    uint64_t near = overcooked_around(kitchen->reach[index]);
    bool has_pots = (near & kitchen->pots) != 0;
    bool needs_dish = full != 0 && other->held != OVERCOOKED_DISH;
    if (cook->held == OVERCOOKED_SOUP) return kitchen->windows;
    if (cook->held != OVERCOOKED_NOTHING && !has_pots) {  // the last pass is kept for a dish
        uint64_t passes = overcooked_passes(env);
        return cook->held == OVERCOOKED_ONION && (passes & (passes - 1)) == 0 ? 0 : passes;
    }
    if (cook->held == OVERCOOKED_DISH) return full != 0 ? full : kitchen->pots;
    if (cook->held == OVERCOOKED_ONION) {
        if (hungry != 0) return hungry;
        return needs_dish ? kitchen->counters & ~overcooked_laden(env) : full;
    }
    if (env->lying[OVERCOOKED_SOUP] & near) return env->lying[OVERCOOKED_SOUP];
    if (!has_pots) return needs_dish && env->lying[OVERCOOKED_DISH] == 0 ? kitchen->dishes : kitchen->onions;
    if (needs_dish) return kitchen->dishes | env->lying[OVERCOOKED_DISH];
    return hungry != 0 ? kitchen->onions | env->lying[OVERCOOKED_ONION] : 0;
}

// The direction of the one of a cell's neighbours that is in a set; there must be one.
PUFFER_FN int overcooked_towards(int cell, uint64_t cells) {
    for (int i = 0; i < OVERCOOKED_DIRECTIONS - 1; i++) {
        if (cells >> (cell + OVERCOOKED_AHEAD[i]) & 1) return i;
    }
    return OVERCOOKED_DIRECTIONS - 1;
}

// The first move of a shortest way over free floor to a cell beside one of the goals; none is to stay.
PUFFER_FN int overcooked_way(int cell, uint64_t free, uint64_t goals) {
    uint64_t neighbours = overcooked_around(overcooked_bit(cell)), found = overcooked_around(goals) & free, last = 0;
    while ((found & neighbours) == 0 && found != last) {
        last = found;
        found |= overcooked_around(found) & free;
    }
    found &= neighbours;
    return found != 0 ? overcooked_towards(cell, found) : OVERCOOKED_STAY;
}

// A dish waits at a pot until the soup is ready, and an onion for room.
PUFFER_FN int overcooked_use(const Overcooked* env, const OvercookedCook* cook, uint64_t goal) {
    const OvercookedKitchen* kitchen = overcooked_kitchen(env);
    if ((goal & kitchen->pots) == 0) return OVERCOOKED_INTERACT;
    const OvercookedPot* pot = &env->pots[overcooked_pot(kitchen, bits_lowest(goal))];
    bool is_time = cook->held == OVERCOOKED_DISH ? overcooked_is_ready(pot) : pot->onions < OVERCOOKED_FULL;
    return is_time ? OVERCOOKED_INTERACT : OVERCOOKED_STAY;
}

PUFFER_FN int overcooked_bot(Overcooked* env, int index) {
    if (rng_below(&env->rng, 100) < env->bot_random) return rng_below(&env->rng, OVERCOOKED_ACTIONS);
    const OvercookedCook *cook = &env->cooks[index], *other = &env->cooks[1 - index];
    uint64_t goals = overcooked_goals(env, index), here = overcooked_around(overcooked_bit(cook->cell)) & goals;
    if (goals == 0) return OVERCOOKED_STAY;
    if (here != 0) {
        uint64_t ahead = here & overcooked_bit(overcooked_ahead(cook));
        return ahead != 0 ? overcooked_use(env, cook, ahead) : overcooked_towards(cook->cell, here);
    }
    uint64_t reach = overcooked_kitchen(env)->reach[index];
    int way = overcooked_way(cook->cell, reach & ~overcooked_bit(other->cell), goals);
    if (way != OVERCOOKED_STAY) return way;
    return rng_below(&env->rng, OVERCOOKED_DIRECTIONS);  // the other one is in the way
}

// ------------------------------------------------------------------------------------------------------------ cooking

PUFFER_FN void overcooked_reward(Overcooked* env, int cook, float reward) {
    int agent = cook ^ env->seat;
    if (agent < env->num_agents) env->rewards[agent] += reward;
}

PUFFER_FN int overcooked_num_begun(const Overcooked* env) {
    int num_begun = 0;
    for (int i = 0; i < OVERCOOKED_MAX_POTS; i++) num_begun += env->pots[i].onions > 0;
    return num_begun;
}

PUFFER_FN bool overcooked_is_dish_useful(const Overcooked* env, int num_begun) {
    int num_dishes = 0;
    for (int i = 0; i < OVERCOOKED_COOKS; i++) num_dishes += env->cooks[i].held == OVERCOOKED_DISH;
    return num_dishes < num_begun && env->lying[OVERCOOKED_DISH] == 0;
}

PUFFER_FN void overcooked_use_counter(Overcooked* env, OvercookedCook* cook, uint64_t counter) {
    int thing = overcooked_lying(env, counter);
    if (thing == OVERCOOKED_NOTHING && cook->held != OVERCOOKED_NOTHING) {
        env->lying[cook->held] |= counter;
        cook->held = OVERCOOKED_NOTHING;
    } else if (thing != OVERCOOKED_NOTHING && cook->held == OVERCOOKED_NOTHING) {
        env->lying[thing] &= ~counter;
        cook->held = (int8_t)thing;
    }
}

PUFFER_FN void overcooked_use_pot(Overcooked* env, int index, OvercookedPot* pot) {
    OvercookedCook* cook = &env->cooks[index];
    if (cook->held == OVERCOOKED_ONION && pot->onions < OVERCOOKED_FULL) {
        cook->held = OVERCOOKED_NOTHING;
        pot->onions += 1;
        if (pot->onions == OVERCOOKED_FULL) pot->left = OVERCOOKED_COOKING;
        overcooked_reward(env, index, env->onion_reward);
    } else if (cook->held == OVERCOOKED_DISH && overcooked_is_ready(pot)) {
        cook->held = OVERCOOKED_SOUP;
        pot->onions = 0;
        overcooked_reward(env, index, env->pickup_reward);
    }
}

PUFFER_FN void overcooked_serve(Overcooked* env, OvercookedCook* cook) {
    if (cook->held != OVERCOOKED_SOUP) return;
    cook->held = OVERCOOKED_NOTHING;
    env->soups += 1;
    for (int i = 0; i < OVERCOOKED_COOKS; i++) overcooked_reward(env, i, env->soup_reward);
}

PUFFER_FN void overcooked_interact(Overcooked* env, int index, int num_begun) {
    const OvercookedKitchen* kitchen = overcooked_kitchen(env);
    OvercookedCook* cook = &env->cooks[index];
    int cell = overcooked_ahead(cook);
    uint64_t ahead = overcooked_bit(cell);
    bool is_free = cook->held == OVERCOOKED_NOTHING;
    if (kitchen->counters & ahead) {
        overcooked_use_counter(env, cook, ahead);
    } else if (kitchen->pots & ahead) {
        overcooked_use_pot(env, index, &env->pots[overcooked_pot(kitchen, cell)]);
    } else if (kitchen->windows & ahead) {
        overcooked_serve(env, cook);
    } else if (kitchen->onions & ahead && is_free) {
        cook->held = OVERCOOKED_ONION;
    } else if (kitchen->dishes & ahead && is_free) {
        if (overcooked_is_dish_useful(env, num_begun)) overcooked_reward(env, index, env->dish_reward);
        cook->held = OVERCOOKED_DISH;
    }
}

// Turns both cooks to where they move, and moves them unless they would be in each other's way.
PUFFER_FN void overcooked_move(Overcooked* env, const int* actions) {
    uint64_t floor = overcooked_kitchen(env)->floor;
    int from[OVERCOOKED_COOKS], to[OVERCOOKED_COOKS];
    for (int i = 0; i < OVERCOOKED_COOKS; i++) {
        OvercookedCook* cook = &env->cooks[i];
        from[i] = to[i] = cook->cell;
        if (!is_within(actions[i], 0, OVERCOOKED_DIRECTIONS - 1)) continue;
        cook->facing = (int8_t)actions[i];
        int ahead = overcooked_ahead(cook);
        if (floor & overcooked_bit(ahead)) to[i] = ahead;
    }
    if (to[0] == to[1] || (to[0] == from[1] && to[1] == from[0])) return;
    for (int i = 0; i < OVERCOOKED_COOKS; i++) env->cooks[i].cell = (int8_t)to[i];
}

// --------------------------------------------------------------------------------------------------------- an episode

PUFFER_FN void c_reset(Overcooked* env) {
    env->kitchen = env->layout == OVERCOOKED_ALL ? rng_below(&env->rng, OVERCOOKED_KITCHENS) : env->layout;
    env->seat = rng_below(&env->rng, OVERCOOKED_COOKS);
    for (int i = 0; i < OVERCOOKED_COOKS; i++) {
        OvercookedCook cook = {(int8_t)overcooked_kitchen(env)->starts[i], OVERCOOKED_UP, OVERCOOKED_NOTHING};
        env->cooks[i] = cook;
        env->returns[i] = 0.0f;
    }
    memset(env->pots, 0, sizeof(env->pots));
    memset(env->lying, 0, sizeof(env->lying));
    env->soups = env->steps = 0;
    overcooked_write(env);
}

PUFFER_FN void overcooked_finish_episode(Overcooked* env) {
    int most = OVERCOOKED_MOST_SOUPS * bits_count(overcooked_kitchen(env)->pots);
    for (int i = 0; i < env->num_agents; i++) {
        env->truncations[i] = 1;
        env->log.perf += clampf((float)env->soups / (float)most, 0.0f, 1.0f);
        env->log.score += 20.0f * (float)env->soups;
        env->log.episode_return += env->returns[i];
        env->log.episode_length += (float)env->steps;
        env->log.n += 1.0f;
    }
    keep_final(env->final_observations, env->observations, (size_t)(env->num_agents * OVERCOOKED_OBSERVATION));
    c_reset(env);
}

// What both cooks do, who are then interacting and moving.
PUFFER_FN void overcooked_act(Overcooked* env) {
    int actions[OVERCOOKED_COOKS];
    for (int i = 0; i < OVERCOOKED_COOKS; i++) {
        int agent = i ^ env->seat;
        actions[i] = agent < env->num_agents ? ((const int32_t*)env->actions)[agent] : overcooked_bot(env, i);
    }
    int num_begun = overcooked_num_begun(env);
    for (int i = 0; i < OVERCOOKED_COOKS; i++) {
        if (actions[i] == OVERCOOKED_INTERACT) overcooked_interact(env, i, num_begun);
    }
    overcooked_move(env, actions);
    for (int i = 0; i < OVERCOOKED_MAX_POTS; i++) env->pots[i].left -= env->pots[i].left > 0;
}

PUFFER_FN void c_step(Overcooked* env) {
    for (int i = 0; i < env->num_agents; i++) {
        env->rewards[i] = 0.0f;
        env->terminals[i] = env->truncations[i] = 0;
    }
    env->steps += 1;
    overcooked_act(env);
    for (int i = 0; i < env->num_agents; i++) env->returns[i] += env->rewards[i];
    overcooked_write(env);
    if (env->steps == OVERCOOKED_STEPS) overcooked_finish_episode(env);
}

PUFFER_FN bool overcooked_accepts_pots(const Overcooked* saved, int num_pots) {
    for (int i = 0; i < OVERCOOKED_MAX_POTS; i++) {
        const OvercookedPot* pot = &saved->pots[i];
        bool is_full = pot->onions == OVERCOOKED_FULL;
        if (!is_within(pot->onions, 0, i < num_pots ? OVERCOOKED_FULL : 0)) return false;
        if (!is_within(pot->left, 0, is_full ? OVERCOOKED_COOKING : 0)) return false;
    }
    return true;
}

// Cooks stand on their own floor, apart; things lie on counters, one on each.
PUFFER_FN bool c_accepts(const Overcooked* env, const Overcooked* saved) {
    bool is_alike = saved->num_agents == env->num_agents && saved->layout == env->layout &&
                    saved->bot_random == env->bot_random && saved->soup_reward == env->soup_reward &&
                    saved->onion_reward == env->onion_reward && saved->dish_reward == env->dish_reward &&
                    saved->pickup_reward == env->pickup_reward;
    if (!is_alike || !is_within(saved->kitchen, 0, OVERCOOKED_KITCHENS - 1)) return false;
    if (!is_within(saved->seat, 0, OVERCOOKED_COOKS - 1)) return false;
    if (env->layout != OVERCOOKED_ALL && saved->kitchen != env->layout) return false;
    const OvercookedKitchen* kitchen = overcooked_kitchen(saved);
    for (int i = 0; i < OVERCOOKED_COOKS; i++) {
        const OvercookedCook* cook = &saved->cooks[i];
        if (!is_within(cook->cell, 0, OVERCOOKED_CELLS - 1) || !(kitchen->reach[i] >> cook->cell & 1)) return false;
        if (!is_within(cook->facing, 0, OVERCOOKED_DIRECTIONS - 1)) return false;
        if (!is_within(cook->held, 0, OVERCOOKED_THINGS - 1)) return false;
        if (!is_withinf(saved->returns[i], 0.0f, 1e6f)) return false;
    }
    uint64_t onions = saved->lying[OVERCOOKED_ONION], dishes = saved->lying[OVERCOOKED_DISH];
    uint64_t soups = saved->lying[OVERCOOKED_SOUP];
    bool is_one = (onions & dishes) == 0 && ((onions | dishes) & soups) == 0;
    return is_one && ((onions | dishes | soups) & ~kitchen->counters) == 0 &&
           saved->cooks[0].cell != saved->cooks[1].cell && overcooked_accepts_pots(saved, bits_count(kitchen->pots)) &&
           is_within(saved->soups, 0, OVERCOOKED_STEPS) && is_within(saved->steps, 0, OVERCOOKED_STEPS - 1);
}
