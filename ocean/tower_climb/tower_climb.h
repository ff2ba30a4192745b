// tower_climb.h - push blocks to where they are steps, and climb from terrace to terrace to the top of the tower.
//
// The tower is seven columns wide; terraces of four or five rows rise two blocks at a time. One block is climbed, two
// are not: on every terrace a loose block must be pushed to the next wall. Other loose ones and fixed bumps stand in
// the way. The generator proves that each terrace can be left without moving more than one block; who pushes that into
// a corner may be stuck.
//
// Observation uint8[228]: a window of 5 x 5 columns around the agent, row by row from the south, column by column from
// the west, each from four blocks below the agent's feet to four above them, 9 in all: 0 air, 1 fixed, 2 loose, 3
// beside the tower; then the way it faces (0 north, 1 east, 2 south, 3 west), terraces left (3: three or more), and the
// quarter of the time that is over. Action: 0 stay, 1 to 4 turn and move north (up the tower), east, south, west, 5
// climb what is in front, anything else stay. Moving into a loose block of the agent's height pushes it, where what
// lies behind it is no higher; it drops onto what is lower, and beside the tower it is lost. Moving off an edge drops
// the agent, too. Reward: +1 / terraces for every terrace that it reaches first, -1 for its death. Terminal on the last
// terrace, and when the agent leaves the tower or drops more than two blocks; truncation after 100 steps for each
// terrace.
// Score is the highest terrace that was reached, perf that over `terraces`.
#pragma once

#include "puffer_env.h"

enum { TOWER_STAY, TOWER_MOVE, TOWER_CLIMB = 5 };
enum { TOWER_NORTH, TOWER_EAST, TOWER_SOUTH, TOWER_WEST, TOWER_NUM_DIRECTIONS };
enum { TOWER_AIR, TOWER_FIXED, TOWER_LOOSE, TOWER_VOID };
enum { TOWER_MIN_TERRACES = 1, TOWER_MAX_TERRACES = 6, TOWER_WIDTH = 7 };
enum { TOWER_MIN_DEPTH = 4, TOWER_MAX_DEPTH = 5, TOWER_RISE = 2, TOWER_DEADLY_DROP = 3 };
enum { TOWER_MAX_ROWS = TOWER_MAX_TERRACES * TOWER_MAX_DEPTH + 1 };   // the last one is the goal
enum { TOWER_MAX_LOOSE = 3, TOWER_MAX_BUMPS = 4, TOWER_TRIES = 20 };  // on a terrace
enum {
    TOWER_REACH = 2,
    TOWER_VIEW = 2 * TOWER_REACH + 1,
    TOWER_DEPTH_SEEN = 4,
    TOWER_LEVELS = 2 * TOWER_DEPTH_SEEN + 1
};
enum { TOWER_OBSERVATION_SIZE = TOWER_VIEW * TOWER_VIEW * TOWER_LEVELS + 3, TOWER_STEPS = 100 };  // for each terrace

PUFFER_TABLE int TOWER_ROWS[TOWER_NUM_DIRECTIONS] = {1, 0, -1, 0};
PUFFER_TABLE int TOWER_COLUMNS[TOWER_NUM_DIRECTIONS] = {0, 1, 0, -1};

// The tower's columns are what lies on them: fixed blocks below, loose ones on top, nothing hangs. So the height of all
// that stands somewhere follows from where that is.
typedef struct {
    uint8_t* observations;        // [228]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]
    uint8_t* final_observations;  // [228] or NULL
    Rng rng;
    int terraces;                                // keyword argument
    uint8_t fixed[TOWER_MAX_ROWS][TOWER_WIDTH];  // blocks
    uint8_t loose[TOWER_MAX_ROWS][TOWER_WIDTH];  // blocks on them
    uint8_t terrace_of[TOWER_MAX_ROWS];          // 0 is the lowest
    int rows;
    int row, column, facing;  // of the agent
    int highest;              // terrace that was reached
    int steps;
    float episode_return;
    Log log;  // summed at episode end, cleared by the reader
} TowerClimb;

PUFFER_FN PufferLayout c_layout(const TowerClimb* env) {
    return puffer_layout(1, TOWER_OBSERVATION_SIZE, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN bool tower_is_on(const TowerClimb* env, int row, int column) {
    return is_within(row, 0, env->rows - 1) && is_within(column, 0, TOWER_WIDTH - 1);
}

// Blocks below who stands there.
PUFFER_FN int tower_height(const TowerClimb* env, int row, int column) {
    return env->fixed[row][column] + env->loose[row][column];
}

// ---------------------------------------------------------------------------------------------------- the generator

// A terrace is a set of cells, a bit each: eight for a row, of which the eighth is never set, so that what is shifted
// to the east or the west leaves the terrace and does not come in again elsewhere.
enum { TOWER_ROW_BITS = 8 };

PUFFER_FN uint64_t tower_bit(int row, int column) { return 1ull << (TOWER_ROW_BITS * row + column); }

PUFFER_FN uint64_t tower_shift(uint64_t cells, int direction) {
    if (direction == TOWER_NORTH) return cells << TOWER_ROW_BITS;
    if (direction == TOWER_SOUTH) return cells >> TOWER_ROW_BITS;
    return direction == TOWER_EAST ? cells << 1 : cells >> 1;
}

// All cells that a block can be pushed to over a flat floor. The agent stands opposite, on the floor, too; it gets
// there, for it climbs over all that is one block high.
PUFFER_FN uint64_t tower_pushed(uint64_t block, uint64_t floor) {
    for (uint64_t before = 0; before != block;) {
        before = block;
        for (int direction = 0; direction < TOWER_NUM_DIRECTIONS; direction++) {
            uint64_t with_agent_behind = block & tower_shift(floor, direction);
            block |= tower_shift(with_agent_behind, direction) & floor;
        }
    }
    return block;
}

// Draws up to `count` cells of the terrace; the first row stays free, for whoever arrives.
PUFFER_FN uint64_t tower_draw_cells(Rng* rng, int depth, int count) {
    uint64_t cells = 0;
    for (int i = 0; i < count; i++) {
        int column = rng_below(rng, TOWER_WIDTH), row = 1 + rng_below(rng, depth - 1);
        cells |= tower_bit(row, column);
    }
    return cells;
}

typedef struct {
    uint64_t bumps, loose;
} TowerTerrace;

PUFFER_FN TowerTerrace tower_draw_terrace(Rng* rng, int depth) {
    uint64_t all = 0, last_row = 0;
    for (int column = 0; column < TOWER_WIDTH; column++) {
        last_row |= tower_bit(depth - 1, column);
        for (int row = 0; row < depth; row++) all |= tower_bit(row, column);
    }
    TowerTerrace terrace;
    for (int i = 0; i < TOWER_TRIES; i++) {
        uint64_t block = tower_draw_cells(rng, depth - 1, 1);
        uint64_t others = tower_draw_cells(rng, depth - 1, rng_below(rng, TOWER_MAX_LOOSE)) & ~block;
        terrace.bumps =
            tower_draw_cells(rng, depth, rng_below(rng, TOWER_MAX_BUMPS + 1)) & ~(block | others | last_row);
        terrace.loose = block | others;
        if (tower_pushed(block, all & ~(terrace.bumps | others)) & last_row) return terrace;
    }
    terrace.bumps = 0;
    terrace.loose = tower_bit(1, rng_below(rng, TOWER_WIDTH));  // pushed straight on
    return terrace;
}

// Builds a terrace upon a row; returns the row behind it.
PUFFER_FN int tower_build_terrace(TowerClimb* env, int index, int first_row) {
    int depth = TOWER_MIN_DEPTH + rng_below(&env->rng, TOWER_MAX_DEPTH - TOWER_MIN_DEPTH + 1);
    TowerTerrace terrace = tower_draw_terrace(&env->rng, depth);
    for (int row = 0; row < depth; row++) {
        env->terrace_of[first_row + row] = (uint8_t)index;
        for (int column = 0; column < TOWER_WIDTH; column++) {
            uint64_t bit = tower_bit(row, column);
            env->fixed[first_row + row][column] = (uint8_t)(TOWER_RISE * index + 1 + ((terrace.bumps & bit) != 0));
            env->loose[first_row + row][column] = (terrace.loose & bit) != 0;
        }
    }
    return first_row + depth;
}

PUFFER_FN void tower_build(TowerClimb* env) {
    int row = 0;
    for (int i = 0; i < env->terraces; i++) row = tower_build_terrace(env, i, row);
    env->terrace_of[row] = (uint8_t)env->terraces;
    memset(env->fixed[row], TOWER_RISE * env->terraces + 1, TOWER_WIDTH);
    memset(env->loose[row], 0, TOWER_WIDTH);
    env->rows = row + 1;
}

// ------------------------------------------------------------------------------------------------- the observation

// The lowest eight levels that lie below a height, 0xFF each.
PUFFER_FN uint64_t tower_levels_below(int height) {
    return height <= 0 ? 0 : height >= 8 ? ~0ull : (1ull << (8 * height)) - 1;
}

// One column of the tower, from below the agent's feet to above its head: eight levels at once, then the ninth.
PUFFER_FN void tower_write_column(const TowerClimb* env, int row, int column, int lowest, uint8_t* at) {
    if (!tower_is_on(env, row, column)) {
        memset(at, TOWER_VOID, TOWER_LEVELS);
        return;
    }
    const uint64_t each = 0x0101010101010101ull;
    int fixed = env->fixed[row][column] - lowest, height = fixed + env->loose[row][column];
    uint64_t below = tower_levels_below(fixed), above = tower_levels_below(height) & ~below;
    uint64_t levels = (below & (each * TOWER_FIXED)) | (above & (each * TOWER_LOOSE));
    memcpy(at, &levels, sizeof(levels));
    at[8] = (uint8_t)(fixed > 8 ? TOWER_FIXED : height > 8 ? TOWER_LOOSE : TOWER_AIR);
}

PUFFER_FN void tower_write_observations(TowerClimb* env) {
    uint8_t* at = env->observations;
    int lowest = tower_height(env, env->row, env->column) - TOWER_DEPTH_SEEN;
    for (int row = env->row - TOWER_REACH; row <= env->row + TOWER_REACH; row++) {
        for (int column = env->column - TOWER_REACH; column <= env->column + TOWER_REACH; column++) {
            tower_write_column(env, row, column, lowest, at);
            at += TOWER_LEVELS;
        }
    }
    int left = env->terraces - env->terrace_of[env->row], quarter = 4 * env->steps / (TOWER_STEPS * env->terraces);
    at[0] = (uint8_t)env->facing;
    at[1] = (uint8_t)(left < 3 ? left : 3);
    at[2] = (uint8_t)(quarter < 3 ? quarter : 3);
}

// ----------------------------------------------------------------------------------------------------- the episode

PUFFER_FN void c_reset(TowerClimb* env) {
    tower_build(env);
    env->row = 0;
    env->column = rng_below(&env->rng, TOWER_WIDTH);
    env->facing = TOWER_NORTH;
    env->highest = env->steps = 0;
    env->episode_return = 0.0f;
    tower_write_observations(env);
}

PUFFER_FN void tower_finish_episode(TowerClimb* env) {
    env->log.perf += (float)env->highest / (float)env->terraces;
    env->log.score += (float)env->highest;
    env->log.episode_return += env->episode_return;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, TOWER_OBSERVATION_SIZE);
    c_reset(env);
}

// Pushes the block in front where it goes; whether it moved.
PUFFER_FN bool tower_push(TowerClimb* env, int row, int column, int level) {
    int behind_row = row + TOWER_ROWS[env->facing], behind_column = column + TOWER_COLUMNS[env->facing];
    bool is_kept = tower_is_on(env, behind_row, behind_column);
    if (env->loose[row][column] == 0 || tower_height(env, row, column) != level + 1) return false;
    if (is_kept && tower_height(env, behind_row, behind_column) > level) return false;
    env->loose[row][column] -= 1;
    if (is_kept) env->loose[behind_row][behind_column] += 1;
    return true;
}

// Moves or climbs into the direction it faces, pushing what can be pushed; whether the agent survives.
PUFFER_FN bool tower_advance(TowerClimb* env, bool climbs) {
    int row = env->row + TOWER_ROWS[env->facing], column = env->column + TOWER_COLUMNS[env->facing];
    int level = tower_height(env, env->row, env->column);
    if (!tower_is_on(env, row, column)) return climbs;  // there is nothing to climb
    int rise = tower_height(env, row, column) - level;
    if (!climbs && rise == 1 && tower_push(env, row, column, level)) rise = 0;
    if (climbs ? rise != 1 : rise > 0) return true;
    env->row = row;
    env->column = column;
    return rise > -TOWER_DEADLY_DROP;
}

// Whether it is on a terrace for the first time: the reward.
PUFFER_FN float tower_reach_terrace(TowerClimb* env) {
    int terrace = env->terrace_of[env->row];
    if (terrace <= env->highest) return 0.0f;
    env->highest = terrace;
    return 1.0f;
}

PUFFER_FN void c_step(TowerClimb* env) {
    int action = ((const int32_t*)env->actions)[0];
    bool moves = is_within(action, TOWER_MOVE, TOWER_MOVE + TOWER_NUM_DIRECTIONS - 1), is_alive = true;
    if (moves) env->facing = action - TOWER_MOVE;
    if (moves || action == TOWER_CLIMB) is_alive = tower_advance(env, !moves);
    float reward = is_alive ? tower_reach_terrace(env) : 0.0f;
    env->steps += 1;
    env->episode_return += reward;
    env->rewards[0] = reward;
    env->terminals[0] = !is_alive || env->highest == env->terraces;
    env->truncations[0] = !env->terminals[0] && env->steps == TOWER_STEPS * env->terraces;
    tower_write_observations(env);
    if (env->terminals[0] || env->truncations[0]) tower_finish_episode(env);
}

PUFFER_FN bool tower_accepts_columns(const TowerClimb* saved) {
    const int most_loose = TOWER_MAX_LOOSE * TOWER_MAX_TERRACES;
    for (int row = 0; row < TOWER_MAX_ROWS; row++) {
        if (saved->terrace_of[row] > saved->terraces) return false;
        for (int column = 0; column < TOWER_WIDTH; column++) {
            if (saved->fixed[row][column] > TOWER_RISE * TOWER_MAX_TERRACES + 2) return false;
            if (saved->loose[row][column] > most_loose) return false;
        }
    }
    return true;
}

PUFFER_FN bool c_accepts(const TowerClimb* env, const TowerClimb* saved) {
    return saved->terraces == env->terraces && is_within(saved->rows, 1, TOWER_MAX_ROWS) &&
           is_within(saved->row, 0, saved->rows - 1) && is_within(saved->column, 0, TOWER_WIDTH - 1) &&
           is_within(saved->facing, 0, TOWER_NUM_DIRECTIONS - 1) && is_within(saved->highest, 0, env->terraces - 1) &&
           is_within(saved->steps, 0, TOWER_STEPS * env->terraces - 1) && tower_accepts_columns(saved);
}
