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
// Action: 0 up, 1 right, 2 down, 3 left; back to where it came from, or any other number, goes straight on. Of several
// agents, PUFFER_BOT_MOVES of puffer_bot.h has a bot steer one.
// Reward, for a rider that is out: the share of the others that were out before less the share that is still riding,
// so that it is -1 for the first, +1 for the last one, and 0 if the only two crash at once. The end of the game is
// terminal for all.
// Score is the reward, perf 0.5 + 0.5 * reward.
#pragma once

#include "puffer_bits.h"
#include "puffer_bot.h"

enum { TRON_UP, TRON_RIGHT, TRON_DOWN, TRON_LEFT, TRON_NUM_ACTIONS };
enum { TRON_MIN_SIZE = 16, TRON_MAX_SIZE = 48, TRON_MAX_RIDERS = 8, TRON_NUM_BLOCKS = 9 };
enum { TRON_VIEW = 15, TRON_BORDER = TRON_VIEW / 2, TRON_WINDOW = TRON_VIEW * TRON_VIEW };
enum { TRON_OTHERS = TRON_WINDOW + TRON_NUM_ACTIONS, TRON_OBSERVATION = TRON_OTHERS + 3 * (TRON_MAX_RIDERS - 1) };
enum { TRON_OWNER_BITS = 3 };  // that tell TRON_MAX_RIDERS apart
enum { TRON_SEEN_WALL = 1, TRON_SEEN_RIDER, TRON_NEAR = 3, TRON_FAR = 24 };

typedef struct {
    int8_t column, row;  // one that is out may be a cell outside the arena
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
    // Bits, so that many games stay in the caches. Each row has TRON_BORDER cells more on either side: column 0 is bit
    // TRON_BORDER. A wall is 1, and so is all that is outside the arena.
    uint64_t walls[TRON_MAX_SIZE + 2 * TRON_BORDER];
    // Whose wall it is, a bit of the rider's number in each plane. What they hold for a free cell, and planes that so
    // few riders do not need, mean nothing: a new game does not clear them.
    uint64_t owners[TRON_OWNER_BITS][TRON_MAX_SIZE];
} Tron;

PUFFER_TABLE int8_t TRON_COLUMNS[TRON_NUM_ACTIONS] = {0, 1, 0, -1};
PUFFER_TABLE int8_t TRON_ROWS[TRON_NUM_ACTIONS] = {-1, 0, 1, 0};

PUFFER_FN PufferLayout c_layout(const Tron* env) {
    return puffer_layout(env->num_agents, TRON_OBSERVATION, PUFFER_INT8, 1, PUFFER_INT32);
}

// ----------------------------------------------------------------------------------------------------------- the walls

// A row of the arena in which nobody left a wall.
PUFFER_FN uint64_t tron_free_row(int size) { return ~(((1ull << size) - 1) << TRON_BORDER); }

// For cells of the arena and of the border.
PUFFER_FN bool tron_is_wall(const Tron* env, int column, int row) {
    return env->walls[row + TRON_BORDER] >> (column + TRON_BORDER) & 1;
}

PUFFER_FN bool tron_has_plane(const Tron* env, int plane) { return (env->num_riders - 1) >> plane > 0; }

// The rider that left the wall in a cell of the arena.
PUFFER_FN int tron_owner(const Tron* env, int column, int row) {
    int owner = 0;
    for (int i = 0; tron_has_plane(env, i); i++) {
        owner |= (int)(env->owners[i][row] >> (column + TRON_BORDER) & 1) << i;
    }
    return owner;
}

PUFFER_FN void tron_leave_wall(Tron* env, int index) {
    int column = env->riders[index].column, row = env->riders[index].row;
    uint64_t wall = 1ull << (column + TRON_BORDER);
    env->walls[row + TRON_BORDER] |= wall;
    for (int i = 0; tron_has_plane(env, i); i++) {
        uint64_t others = env->owners[i][row] & ~wall;
        env->owners[i][row] = index >> i & 1 ? others | wall : others;
    }
}

PUFFER_FN void tron_clear(Tron* env) {
    for (int row = -TRON_BORDER; row < env->size + TRON_BORDER; row++) {
        env->walls[row + TRON_BORDER] = is_within(row, 0, env->size - 1) ? tron_free_row(env->size) : ~0ull;
    }
}

// ------------------------------------------------------------------------------------------------ what the riders see

// The bits of a byte as eight bytes, each 0 or 1, the lowest bit as the lowest byte: a product has seven of them.
#define TRON_SPREAD_1(byte) \
    (((byte) & 0x7Full) * 0x0002040810204081ull & 0x0101010101010101ull) | ((byte) & 0x80ull) << 49
#define TRON_SPREAD_4(byte) \
    TRON_SPREAD_1(byte), TRON_SPREAD_1((byte) + 1), TRON_SPREAD_1((byte) + 2), TRON_SPREAD_1((byte) + 3)
#define TRON_SPREAD_16(byte) \
    TRON_SPREAD_4(byte), TRON_SPREAD_4((byte) + 4), TRON_SPREAD_4((byte) + 8), TRON_SPREAD_4((byte) + 12)
#define TRON_SPREAD_64(byte) \
    TRON_SPREAD_16(byte), TRON_SPREAD_16((byte) + 16), TRON_SPREAD_16((byte) + 32), TRON_SPREAD_16((byte) + 48)
PUFFER_TABLE uint64_t TRON_SPREAD[256] = {TRON_SPREAD_64(0), TRON_SPREAD_64(64), TRON_SPREAD_64(128),
                                          TRON_SPREAD_64(192)};

// A byte for each cell of the window, 0 or 1. Each row writes one byte too many, which is overwritten.
PUFFER_FN void tron_write_window(int8_t* window, const Tron* env, int column, int row) {
    const uint64_t* walls = &env->walls[row];  // the window's first row, as bit `column` is its first column
    for (int i = 0; i < TRON_VIEW; i++) {
        uint64_t seen = walls[i] >> column;
        uint64_t cells[2] = {TRON_SPREAD[seen & 0xFF], TRON_SPREAD[seen >> 8 & 0xFF]};
        memcpy(window + i * TRON_VIEW, cells, sizeof(cells));
    }
}

PUFFER_FN void tron_write_observation(Tron* env, int index) {
    int num_riders = env->num_riders;
    TronRider rider = env->riders[index];  // copied: for the compiler, bytes that are written may be these
    int8_t* row = env->observations + index * TRON_OBSERVATION;
    tron_write_window(row, env, rider.column, rider.row);
    for (int i = 0; i < TRON_NUM_ACTIONS; i++) row[TRON_WINDOW + i] = rider.heading == i;
    int8_t* others = row + TRON_OTHERS;
    for (int i = 1; i < num_riders; i++, others += 3) {
        TronRider other = env->riders[index + i < num_riders ? index + i : index + i - num_riders];
        int across = other.column - rider.column, down = other.row - rider.row;
        others[0] = (int8_t)other.is_riding;
        others[1] = (int8_t)(other.is_riding ? across / 4 : 0);
        others[2] = (int8_t)(other.is_riding ? down / 4 : 0);
        bool is_near = is_within(across, -TRON_BORDER, TRON_BORDER) && is_within(down, -TRON_BORDER, TRON_BORDER);
        if (other.is_riding && is_near) {
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

// Free cells from a rider in a direction, up to `most`.
PUFFER_FN int tron_room(const Tron* env, const TronRider* rider, int heading, int most) {
    int column = rider->column, row = rider->row;
    for (int room = 0; room < most; room++) {
        column += TRON_COLUMNS[heading];
        row += TRON_ROWS[heading];
        if (tron_is_wall(env, column, row)) return room;
    }
    return most;
}

PUFFER_FN int tron_bot_heading(Tron* env, const TronRider* rider) {
    int best = rider->heading;
    bool is_any = rng_below(&env->rng, 100) < env->bot_random;
    if (!is_any && tron_room(env, rider, best, TRON_NEAR) == TRON_NEAR) return best;
    int room = tron_room(env, rider, best, TRON_FAR);
    int side = rng_below(&env->rng, 2) ? 1 : TRON_NUM_ACTIONS - 1;
    for (int i = 0; i < 2; i++) {
        int heading = (rider->heading + (i == 0 ? side : TRON_NUM_ACTIONS - side)) % TRON_NUM_ACTIONS;
        int found = tron_room(env, rider, heading, TRON_FAR);
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
        rider->is_riding = 1;
        env->returns[i] = 0.0f;
        tron_leave_wall(env, i);
    }
}

PUFFER_FN void c_reset(Tron* env) {
    tron_clear(env);
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

// Turns and moves all riders; returns those that crash, as bits. A bot knows the walls and itself alone, so it does not
// matter that riders before it have moved.
PUFFER_FN int tron_ride(Tron* env) {
    int crashed = 0;
    for (int i = 0; i < env->num_riders; i++) {
        TronRider* rider = &env->riders[i];
        if (!rider->is_riding) continue;
        bool is_bot = tron_is_bot(env, i);
        tron_turn(rider, is_bot ? tron_bot_heading(env, rider) : ((const int32_t*)env->actions)[i]);
        rider->column = (int8_t)(rider->column + TRON_COLUMNS[rider->heading]);
        rider->row = (int8_t)(rider->row + TRON_ROWS[rider->heading]);
        crashed |= tron_is_wall(env, rider->column, rider->row) << i;
    }
    for (int i = 0; i < env->num_riders; i++) {
        const TronRider* rider = &env->riders[i];
        if (!rider->is_riding || (crashed >> i & 1)) continue;
        if (tron_is_wall(env, rider->column, rider->row)) {
            crashed |= 1 << i | 1 << tron_owner(env, rider->column, rider->row);  // another one entered it in this step
        } else {
            tron_leave_wall(env, i);
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
    for (int i = 0; i < env->num_agents; i++) {
        env->rewards[i] = 0.0f;
        env->terminals[i] = env->truncations[i] = 0;
    }
    env->steps += 1;
    int crashed = tron_ride(env);
    if (crashed) tron_take_out(env, crashed);
    tron_write(env);
    bool is_agent_out = env->num_agents == 1 && !env->riders[0].is_riding;
    if (env->num_riding < 2 || is_agent_out) tron_finish_game(env);
}

// Whether all outside the arena is a wall, and every wall inside it was left by a rider that there is.
PUFFER_FN bool tron_is_arena(const Tron* env, const Tron* saved) {
    for (int row = -TRON_BORDER; row < env->size + TRON_BORDER; row++) {
        uint64_t outside = is_within(row, 0, env->size - 1) ? tron_free_row(env->size) : ~0ull;
        if ((saved->walls[row + TRON_BORDER] & outside) != outside) return false;
    }
    for (int row = 0; row < env->size; row++) {
        for (int column = 0; column < env->size; column++) {
            bool is_wall = tron_is_wall(saved, column, row);
            if (is_wall && tron_owner(saved, column, row) >= env->num_riders) return false;
        }
    }
    return true;
}

// Riders stand in the arena, on walls of their own, and at least two are riding, a single agent among them.
PUFFER_FN bool c_accepts(const Tron* env, const Tron* saved) {
    bool is_alike = saved->num_riders == env->num_riders && saved->num_agents == env->num_agents &&
                    saved->size == env->size && saved->bot_random == env->bot_random;
    if (!is_alike || !tron_is_arena(env, saved)) return false;
    int num_riding = 0, last = env->size - 1;
    for (int i = 0; i < env->num_riders; i++) {
        const TronRider* rider = &saved->riders[i];
        if (rider->is_riding > 1 || !is_within(rider->heading, 0, TRON_NUM_ACTIONS - 1)) return false;
        if (!is_withinf(saved->returns[i], -1.0f, 1.0f)) return false;
        if (!rider->is_riding) continue;
        if (!is_within(rider->column, 0, last) || !is_within(rider->row, 0, last)) return false;
        if (!tron_is_wall(saved, rider->column, rider->row)) return false;
        if (tron_owner(saved, rider->column, rider->row) != i) return false;
        num_riding += 1;
    }
    return num_riding == saved->num_riding && num_riding >= 2 && (env->num_agents > 1 || saved->riders[0].is_riding) &&
           is_within(saved->steps, 0, env->size * env->size);
}
