// tron.h - two to eight riders leave walls behind them; who runs into one is out, and the last one wins.
//
// All riders move at once, a cell a step, in an arena of `size` x `size` cells. A rider crashes where a wall is: the
// arena's, one that a rider left, also one who is out by now, or the cell that another one enters in the same step,
// which takes out both and leaves a wall. The game ends when fewer than two are left. Riders begin in different parts
// of the arena, looking towards its middle.
//
// With `opponent` "self" all riders are agents; one that is out is absent until the next game, and keeps the
// observation of its last step. With "bot" the first is the agent, and the game ends as well when it is out. Bots go
// straight on while there is room, then where most room is; `bot_random` percent of their steps go anywhere.
//
// Observation int8[250]:
//   0-224 the 15 x 15 cells around the rider, row by row from the top: 0 free, 1 a wall, 2 where another rider is;
//   225-228 whether it goes up, right, down or left;
//   229-249 three numbers for each of seven others: 1 if it is riding, and how many cells it is to the right and how
//   many down, in fours; 0 for one that is out or not there.
// Action: 0 up, 1 right, 2 down, 3 left; back to where it came from, or any other number, goes straight on.
// Reward, for a rider that is out: the share of the others that were out before less the share that is still riding,
// so that it is -1 for the first, +1 for the last one, and 0 if the only two crash at once. The end of the game is
// terminal for all.
// Score is the reward, perf 0.5 + 0.5 * reward.
#pragma once

#include "puffer_bot.h"
#include "puffer_window.h"

enum { TRON_UP, TRON_RIGHT, TRON_DOWN, TRON_LEFT, TRON_NUM_ACTIONS };
enum { TRON_MIN_SIZE = 16, TRON_MAX_SIZE = 48, TRON_MAX_RIDERS = 8, TRON_NUM_BLOCKS = 9 };
enum { TRON_VIEW = 15, TRON_BORDER = TRON_VIEW / 2, TRON_WINDOW = TRON_VIEW * TRON_VIEW };
enum { TRON_OTHERS = TRON_WINDOW + TRON_NUM_ACTIONS, TRON_OBSERVATION = TRON_OTHERS + 3 * (TRON_MAX_RIDERS - 1) };
enum { TRON_FREE, TRON_WALL = TRON_MAX_RIDERS + 1 };  // a cell; between them the number of a rider, from 1
enum { TRON_SEEN_WALL = 1, TRON_SEEN_RIDER, TRON_NEAR = 3, TRON_FAR = 24 };
enum { TRON_CELLS = GRID_CAPACITY(TRON_MAX_SIZE, TRON_MAX_SIZE, TRON_BORDER) };

typedef struct {
    int16_t cell;
    int8_t column, row;
    int8_t heading;
    uint8_t is_riding;
} TronRider;

typedef struct {
    int8_t* observations;        // [agents, TRON_OBSERVATION]  these seven are borrowed from the caller
    const void* actions;         // int32_t[agents]
    float* rewards;              // [agents]
    uint8_t* terminals;          // [agents]
    uint8_t* truncations;        // [agents]  never set
    uint8_t* masks;              // [agents]
    int8_t* final_observations;  // [agents, TRON_OBSERVATION] or NULL
    Rng rng;
    int num_riders, num_agents, size, bot_random;  // keyword arguments
    int num_riding;
    int steps;  // of the game
    TronRider riders[TRON_MAX_RIDERS];
    float returns[TRON_MAX_RIDERS];  // of the game, by rider
    Log log;                         // summed at the end of games, cleared by the reader
    uint8_t cells[TRON_CELLS + 1];   // one more may be read, as each row of a window is read with one more
} Tron;

PUFFER_TABLE int8_t TRON_COLUMNS[TRON_NUM_ACTIONS] = {0, 1, 0, -1};
PUFFER_TABLE int8_t TRON_ROWS[TRON_NUM_ACTIONS] = {-1, 0, 1, 0};

PUFFER_FN PufferLayout c_layout(const Tron* env) {
    return puffer_layout(env->num_agents, TRON_OBSERVATION, PUFFER_INT8, 1, PUFFER_INT32);
}

PUFFER_FN Grid tron_grid(const Tron* env) { return grid_of(env->size, env->size, TRON_BORDER); }

PUFFER_FN int tron_ahead(const Tron* env, int heading) {
    return TRON_ROWS[heading] * (env->size + 2 * TRON_BORDER) + TRON_COLUMNS[heading];
}

// ------------------------------------------------------------------------------------------------ what the riders see

// A byte for each cell of the window, 0 or 1. Each row writes one byte too many, which is overwritten.
PUFFER_FN void tron_write_window(int8_t* window, const uint8_t* cells, int stride, int middle) {
    const uint8_t* corner = cells + middle - TRON_BORDER * stride - TRON_BORDER;
    for (int row = 0; row < TRON_VIEW; row++) {
        uint8_t seen[TRON_VIEW + 1];
        memcpy(seen, corner + row * stride, sizeof(seen));
        for (int i = 0; i <= TRON_VIEW; i++) seen[i] = seen[i] != TRON_FREE;
        memcpy(window + row * TRON_VIEW, seen, sizeof(seen));
    }
}

PUFFER_FN void tron_write_observation(Tron* env, int index) {
    const TronRider* rider = &env->riders[index];
    int8_t* row = env->observations + index * TRON_OBSERVATION;
    tron_write_window(row, env->cells, env->size + 2 * TRON_BORDER, rider->cell);
    for (int i = 0; i < TRON_NUM_ACTIONS; i++) row[TRON_WINDOW + i] = rider->heading == i;
    int8_t* others = row + TRON_OTHERS;
    for (int i = 1; i < env->num_riders; i++, others += 3) {
        int number = index + i < env->num_riders ? index + i : index + i - env->num_riders;
        const TronRider* other = &env->riders[number];
        int across = other->column - rider->column, down = other->row - rider->row;
        others[0] = (int8_t)other->is_riding;
        others[1] = (int8_t)(other->is_riding ? across / 4 : 0);
        others[2] = (int8_t)(other->is_riding ? down / 4 : 0);
        bool is_near = is_within(across, -TRON_BORDER, TRON_BORDER) && is_within(down, -TRON_BORDER, TRON_BORDER);
        if (other->is_riding && is_near) {
            row[(down + TRON_BORDER) * TRON_VIEW + across + TRON_BORDER] = TRON_SEEN_RIDER;
        }
    }
}

PUFFER_FN void tron_write(Tron* env) {
    for (int i = 0; i < env->num_agents; i++) {
        env->masks[i] = env->riders[i].is_riding;
        if (env->riders[i].is_riding) tron_write_observation(env, i);
    }
}

// ------------------------------------------------------------------------------------------------------------ the bots

// Free cells from a rider in a direction, up to TRON_FAR.
PUFFER_FN int tron_room(const Tron* env, const TronRider* rider, int heading) {
    int step = tron_ahead(env, heading), cell = rider->cell + step, room = 0;
    for (; room < TRON_FAR && env->cells[cell] == TRON_FREE; room++) cell += step;
    return room;
}

PUFFER_FN int tron_bot_heading(Tron* env, const TronRider* rider) {
    int best = rider->heading, room = tron_room(env, rider, best);
    bool is_any = rng_below(&env->rng, 100) < env->bot_random;
    if (room >= TRON_NEAR && !is_any) return best;
    int side = rng_below(&env->rng, 2) ? 1 : TRON_NUM_ACTIONS - 1;
    for (int i = 0; i < 2; i++) {
        int heading = (rider->heading + (i == 0 ? side : TRON_NUM_ACTIONS - side)) % TRON_NUM_ACTIONS;
        int found = tron_room(env, rider, heading);
        if (is_any && found > 0) return heading;
        if (found <= room) continue;
        room = found;
        best = heading;
    }
    return best;
}

// -------------------------------------------------------------------------------------------------------------- a game

// Riders begin in different ones of the eight outer ninths of the arena.
PUFFER_FN void tron_place_riders(Tron* env) {
    Grid grid = tron_grid(env);
    int side = env->size / 3, num_left = TRON_NUM_BLOCKS - 1;
    uint8_t blocks[TRON_NUM_BLOCKS - 1] = {0, 1, 2, 3, 5, 6, 7, 8};
    for (int i = 0; i < env->num_riders; i++) {
        TronRider* rider = &env->riders[i];
        int drawn = rng_below(&env->rng, num_left), block = blocks[drawn];
        blocks[drawn] = blocks[--num_left];
        rider->column = (int8_t)(block % 3 * side + 1 + rng_below(&env->rng, side - 2));
        rider->row = (int8_t)(block / 3 * side + 1 + rng_below(&env->rng, side - 2));
        int across = env->size - 1 - 2 * rider->column, down = env->size - 1 - 2 * rider->row;
        bool is_flat = across * across > down * down;
        rider->heading = (int8_t)(is_flat ? (across > 0 ? TRON_RIGHT : TRON_LEFT) : (down > 0 ? TRON_DOWN : TRON_UP));
        rider->cell = (int16_t)grid_cell(&grid, rider->column, rider->row);
        rider->is_riding = 1;
        env->returns[i] = 0.0f;
        env->cells[rider->cell] = (uint8_t)(i + 1);
    }
}

PUFFER_FN void c_reset(Tron* env) {
    Grid grid = tron_grid(env);
    grid_fill(env->cells, &grid, TRON_FREE, TRON_WALL);
    memset(env->observations, 0, (size_t)(env->num_agents * TRON_OBSERVATION));
    env->steps = 0;
    env->num_riding = env->num_riders;
    tron_place_riders(env);
    tron_write(env);
}

PUFFER_FN void tron_turn(TronRider* rider, int heading) {
    bool is_turn = is_within(heading, 0, TRON_NUM_ACTIONS - 1) && heading != (rider->heading ^ 2);
    if (is_turn) rider->heading = (int8_t)heading;
}

// Whether a bot steers a rider: one that is no agent, or one of several whose action is PUFFER_BOT_MOVES.
PUFFER_FN bool tron_is_bot(const Tron* env, int rider) {
    if (rider >= env->num_agents) return true;
    return env->num_agents > 1 && ((const int32_t*)env->actions)[rider] == PUFFER_BOT_MOVES;
}

PUFFER_FN void tron_steer(Tron* env) {
    for (int i = 0; i < env->num_riders; i++) {
        TronRider* rider = &env->riders[i];
        if (!rider->is_riding) continue;
        bool is_bot = tron_is_bot(env, i);
        tron_turn(rider, is_bot ? tron_bot_heading(env, rider) : ((const int32_t*)env->actions)[i]);
    }
}

// Moves all riders; returns those that crash, as bits.
PUFFER_FN int tron_ride(Tron* env) {
    int crashed = 0;
    for (int i = 0; i < env->num_riders; i++) {
        TronRider* rider = &env->riders[i];
        if (!rider->is_riding) continue;
        rider->cell = (int16_t)(rider->cell + tron_ahead(env, rider->heading));
        rider->column = (int8_t)(rider->column + TRON_COLUMNS[rider->heading]);
        rider->row = (int8_t)(rider->row + TRON_ROWS[rider->heading]);
        crashed |= (env->cells[rider->cell] != TRON_FREE) << i;
    }
    for (int i = 0; i < env->num_riders; i++) {
        if (!env->riders[i].is_riding || (crashed >> i & 1)) continue;
        uint8_t* cell = &env->cells[env->riders[i].cell];
        if (*cell != TRON_FREE) {
            crashed |= 1 << i | 1 << (*cell - 1);  // another one entered it in this step
        } else {
            *cell = (uint8_t)(i + 1);
        }
    }
    return crashed;
}

PUFFER_FN void tron_reward(Tron* env, int rider, int num_before, int num_after) {
    float reward = (float)(num_before - num_after) / (float)(env->num_riders - 1);
    env->returns[rider] = reward;
    if (rider < env->num_agents) env->rewards[rider] = reward;
}

// Takes out those who crashed, who are told apart by place alone.
PUFFER_FN void tron_take_out(Tron* env, int crashed) {
    int num_before = env->num_riders - env->num_riding;
    for (int i = 0; i < env->num_riders; i++) {
        if (crashed >> i & 1) env->num_riding -= 1;
    }
    for (int i = 0; i < env->num_riders; i++) {
        TronRider* rider = &env->riders[i];
        if (!(crashed >> i & 1)) continue;
        rider->is_riding = 0;
        tron_reward(env, i, num_before, env->num_riding);
    }
    for (int i = 0; env->num_riding == 1 && i < env->num_riders; i++) {
        if (env->riders[i].is_riding) tron_reward(env, i, env->num_riders - 1, 0);
    }
}

PUFFER_FN void tron_finish_game(Tron* env) {
    for (int i = 0; i < env->num_agents; i++) {
        env->terminals[i] = 1;
        env->log.perf += 0.5f * (env->returns[i] + 1.0f);
        env->log.score += env->returns[i];
        env->log.episode_return += env->returns[i];
        env->log.episode_length += (float)env->steps;
        env->log.n += 1.0f;
    }
    keep_final(env->final_observations, env->observations, (size_t)(env->num_agents * TRON_OBSERVATION));
    c_reset(env);
}

PUFFER_FN void c_step(Tron* env) {
    memset(env->rewards, 0, (size_t)env->num_agents * sizeof(float));
    memset(env->terminals, 0, (size_t)env->num_agents);
    memset(env->truncations, 0, (size_t)env->num_agents);
    env->steps += 1;
    tron_steer(env);
    int crashed = tron_ride(env);
    if (crashed) tron_take_out(env, crashed);
    tron_write(env);
    bool is_agent_out = env->num_agents == 1 && !env->riders[0].is_riding;
    if (env->num_riding < 2 || is_agent_out) tron_finish_game(env);
}

// Riders stand in the arena, on walls of their own, and at least two are riding, a single agent among them.
PUFFER_FN bool c_accepts(const Tron* env, const Tron* saved) {
    Grid grid = tron_grid(env);
    bool is_alike = saved->num_riders == env->num_riders && saved->num_agents == env->num_agents &&
                    saved->size == env->size && saved->bot_random == env->bot_random;
    if (!is_alike || !grid_is_framed(saved->cells, &grid, env->num_riders, TRON_WALL)) return false;
    int num_riding = 0;
    for (int i = 0; i < env->num_riders; i++) {
        const TronRider* rider = &saved->riders[i];
        if (rider->is_riding > 1 || !is_within(rider->heading, 0, TRON_NUM_ACTIONS - 1)) return false;
        if (!is_withinf(saved->returns[i], -1.0f, 1.0f)) return false;
        if (!rider->is_riding) continue;
        if (!grid_has(&grid, rider->cell) || saved->cells[rider->cell] != i + 1) return false;
        if (rider->column != grid_column(&grid, rider->cell) || rider->row != grid_row(&grid, rider->cell))
            return false;
        num_riding += 1;
    }
    return num_riding == saved->num_riding && num_riding >= 2 && (env->num_agents > 1 || saved->riders[0].is_riding) &&
           is_within(saved->steps, 0, env->size * env->size);
}
