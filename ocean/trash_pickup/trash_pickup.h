// trash_pickup.h - eight sweepers clear a yard together: each carries one piece of trash at a time to a bin.
//
// A yard of TRASH_SIDE x TRASH_SIDE cells holds `num_trash` pieces of trash and `num_bins` bins, in random cells; bins
// touch neither each other nor the edges, so that they cut nothing off. Who enters a cell with trash and carries none
// picks it up; who carries some may walk over more. Bins cannot be entered: who walks into one empties the hands there.
// Two cannot be in one cell: they move one after another, and each step another one is the first, so that nobody is
// always ahead.
//
// Each sweeper is an agent. Observation uint8[5 x 11 x 11], planes of zeros and ones around the agent in the middle:
// walls and what is outside, trash, bins, sweepers with empty hands, sweepers that carry. The agent is in one of the
// last two.
// Action: 0 down, 1 up, 2 left, 3 right; anything else stays.
// Reward, for whoever did it: +0.1 for a piece picked up, +1 for one in a bin.
// When all trash is in bins the episode is over for all, terminal; after TRASH_MAX_STEPS steps it is truncated for all.
// Score is the pieces that all of them brought to bins, perf that over `num_trash`.
#pragma once

#include "puffer_window.h"

enum { TRASH_DOWN, TRASH_UP, TRASH_LEFT, TRASH_RIGHT, TRASH_NUM_ACTIONS };
enum { TRASH_WALL = 1, TRASH_PIECE = 2, TRASH_BIN = 4, TRASH_EMPTY_HANDED = 8, TRASH_CARRYING = 16 };  // in a cell
enum { TRASH_TAKEN = TRASH_WALL | TRASH_BIN | TRASH_EMPTY_HANDED | TRASH_CARRYING, TRASH_NUM_PLANES = 5 };
enum { TRASH_SIDE = 20, TRASH_VIEW = 11, TRASH_BORDER = TRASH_VIEW / 2, TRASH_NUM_AGENTS = 8 };
enum { TRASH_WINDOW = TRASH_VIEW * TRASH_VIEW, TRASH_OBSERVATION = TRASH_NUM_PLANES * TRASH_WINDOW };
enum {
    TRASH_STRIDE = TRASH_SIDE + 2 * TRASH_BORDER,
    TRASH_CELLS = GRID_CAPACITY(TRASH_SIDE, TRASH_SIDE, TRASH_BORDER)
};
enum { TRASH_MAX_PIECES = 150, TRASH_MAX_BINS = 20, TRASH_MAX_STEPS = 500 };

#define TRASH_PICKUP_REWARD (0.1f)
#define TRASH_BIN_REWARD (1.0f)

PUFFER_TABLE int TRASH_MOVES[TRASH_NUM_ACTIONS] = {TRASH_STRIDE, -TRASH_STRIDE, -1, 1};  // in cells, by action

typedef struct {
    uint16_t cell;
    bool is_carrying;
    uint8_t num_picked;  // pieces in this episode
    uint8_t num_binned;
} TrashAgent;

typedef struct {
    uint8_t* observations;        // [8, TRASH_OBSERVATION]  these six are borrowed from the caller
    const void* actions;          // int32_t[8]
    float* rewards;               // [8]
    uint8_t* terminals;           // [8]
    uint8_t* truncations;         // [8]
    uint8_t* final_observations;  // [8, TRASH_OBSERVATION] or NULL
    Rng rng;
    int num_trash, num_bins;
    int num_left;  // pieces that are not in a bin
    int steps;     // in this episode
    Log log;       // summed at episode ends, cleared by the reader
    TrashAgent agents[TRASH_NUM_AGENTS];
    uint8_t cells[TRASH_CELLS];  // what is in each, a bit for each kind, in the order of the planes
} TrashPickup;

PUFFER_FN PufferLayout c_layout(const TrashPickup* env) {
    (void)env;
    return puffer_layout(TRASH_NUM_AGENTS, TRASH_OBSERVATION, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN Grid trash_grid(void) { return grid_of(TRASH_SIDE, TRASH_SIDE, TRASH_BORDER); }

// The bit of a sweeper in its cell.
PUFFER_FN int trash_mark(const TrashAgent* agent) { return agent->is_carrying ? TRASH_CARRYING : TRASH_EMPTY_HANDED; }

// The window of an agent, taken apart: a plane for each bit.
PUFFER_FN void trash_observe(const TrashPickup* env, int row) {
    uint8_t seen[TRASH_WINDOW], *view = env->observations + row * TRASH_OBSERVATION;
    grid_window(seen, env->cells, TRASH_STRIDE, env->agents[row].cell, TRASH_VIEW, TRASH_VIEW);
    for (int plane = 0; plane < TRASH_NUM_PLANES; plane++, view += TRASH_WINDOW) {
        for (int i = 0; i < TRASH_WINDOW; i++) view[i] = (seen[i] >> plane) & 1;
    }
}

PUFFER_FN void trash_write_observations(TrashPickup* env) {
    for (int row = 0; row < TRASH_NUM_AGENTS; row++) trash_observe(env, row);
}

// A random cell with nothing in it; there are always more of these than others.
PUFFER_FN int trash_free_cell(TrashPickup* env) {
    Grid grid = trash_grid();
    int cell;
    do {
        int row = rng_below(&env->rng, TRASH_SIDE), column = rng_below(&env->rng, TRASH_SIDE);
        cell = grid_cell(&grid, column, row);
    } while (env->cells[cell] != 0);
    return cell;
}

// A random cell for a bin: in every second row and column, none of them at an edge.
PUFFER_FN int trash_free_stand(TrashPickup* env) {
    const int stands = TRASH_SIDE / 2 - 1;  // in a row
    Grid grid = trash_grid();
    int cell;
    do {
        int row = 1 + 2 * rng_below(&env->rng, stands), column = 1 + 2 * rng_below(&env->rng, stands);
        cell = grid_cell(&grid, column, row);
    } while (env->cells[cell] != 0);
    return cell;
}

PUFFER_FN void c_reset(TrashPickup* env) {
    Grid grid = trash_grid();
    grid_fill(env->cells, &grid, 0, TRASH_WALL);
    for (int i = 0; i < env->num_bins; i++) env->cells[trash_free_stand(env)] = TRASH_BIN;
    for (int i = 0; i < env->num_trash; i++) env->cells[trash_free_cell(env)] = TRASH_PIECE;
    for (int row = 0; row < TRASH_NUM_AGENTS; row++) {
        TrashAgent* agent = &env->agents[row];
        agent->cell = (uint16_t)trash_free_cell(env);
        agent->is_carrying = false;
        agent->num_picked = agent->num_binned = 0;
        env->cells[agent->cell] = TRASH_EMPTY_HANDED;
    }
    env->num_left = env->num_trash;
    env->steps = 0;
    trash_write_observations(env);
}

PUFFER_FN void trash_empty_hands(TrashPickup* env, TrashAgent* agent, float* reward) {
    env->cells[agent->cell] ^= TRASH_CARRYING | TRASH_EMPTY_HANDED;
    agent->is_carrying = false;
    agent->num_binned += 1;
    env->num_left -= 1;
    *reward = TRASH_BIN_REWARD;
}

PUFFER_FN void trash_walk(TrashPickup* env, TrashAgent* agent, int cell, float* reward) {
    env->cells[agent->cell] ^= trash_mark(agent);
    agent->cell = (uint16_t)cell;
    if ((env->cells[cell] & TRASH_PIECE) && !agent->is_carrying) {
        env->cells[cell] ^= TRASH_PIECE;
        agent->is_carrying = true;
        agent->num_picked += 1;
        *reward = TRASH_PICKUP_REWARD;
    }
    env->cells[cell] |= trash_mark(agent);
}

PUFFER_FN void trash_move(TrashPickup* env, int row) {
    TrashAgent* agent = &env->agents[row];
    int action = ((const int32_t*)env->actions)[row];
    env->rewards[row] = 0.0f;
    if (action < 0 || action >= TRASH_NUM_ACTIONS) return;
    int cell = agent->cell + TRASH_MOVES[action];
    if ((env->cells[cell] & TRASH_BIN) && agent->is_carrying) {
        trash_empty_hands(env, agent, &env->rewards[row]);
    } else if (!(env->cells[cell] & TRASH_TAKEN)) {
        trash_walk(env, agent, cell, &env->rewards[row]);
    }
}

PUFFER_FN void trash_finish_episodes(TrashPickup* env) {
    bool is_done = env->num_left == 0;
    float score = (float)(env->num_trash - env->num_left);
    for (int row = 0; row < TRASH_NUM_AGENTS; row++) {
        const TrashAgent* agent = &env->agents[row];
        env->terminals[row] = is_done;
        env->truncations[row] = !is_done;
        env->log.perf += score / (float)env->num_trash;
        env->log.score += score;
        env->log.episode_return +=
            TRASH_PICKUP_REWARD * (float)agent->num_picked + TRASH_BIN_REWARD * (float)agent->num_binned;
        env->log.episode_length += (float)env->steps;
        env->log.n += 1.0f;
    }
    keep_final(env->final_observations, env->observations, TRASH_NUM_AGENTS * TRASH_OBSERVATION);
    c_reset(env);
}

PUFFER_FN void c_step(TrashPickup* env) {
    memset(env->terminals, 0, TRASH_NUM_AGENTS);
    memset(env->truncations, 0, TRASH_NUM_AGENTS);
    for (int i = 0; i < TRASH_NUM_AGENTS; i++) trash_move(env, (env->steps + i) % TRASH_NUM_AGENTS);
    env->steps += 1;
    trash_write_observations(env);
    if (env->num_left == 0 || env->steps >= TRASH_MAX_STEPS) trash_finish_episodes(env);
}

// ------------------------------------------------------------------------------------------------- a stranger's state

// Whether there is a wall all around the yard, which nobody gets through.
PUFFER_FN bool trash_is_closed(const TrashPickup* saved) {
    Grid grid = trash_grid();
    int closed = TRASH_WALL;
    for (int i = 0; i < TRASH_SIDE; i++) {
        closed &= saved->cells[grid_cell(&grid, i, -1)] & saved->cells[grid_cell(&grid, i, TRASH_SIDE)];
        closed &= saved->cells[grid_cell(&grid, -1, i)] & saved->cells[grid_cell(&grid, TRASH_SIDE, i)];
    }
    return closed != 0;
}

// What is in the cells is only seen and counted down from, so that any of it can be played.
PUFFER_FN bool c_accepts(const TrashPickup* env, const TrashPickup* saved) {
    Grid grid = trash_grid();
    for (int row = 0; row < TRASH_NUM_AGENTS; row++) {
        const TrashAgent* agent = &saved->agents[row];
        if (!is_bool(&agent->is_carrying) || !grid_has(&grid, agent->cell)) return false;
    }
    return saved->num_trash == env->num_trash && saved->num_bins == env->num_bins &&
           is_within(saved->num_left, 1, saved->num_trash) && is_within(saved->steps, 0, TRASH_MAX_STEPS - 1) &&
           trash_is_closed(saved);
}
