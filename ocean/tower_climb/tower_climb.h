// tower_climb.h - push and pull blocks to where they are steps, and climb from terrace to terrace to the top.
//
// The tower is seven columns wide. One block is climbed, two are not, and each terrace has its own way to the next one:
//   push  two blocks up: a loose block must be pushed to the wall, past other loose ones and fixed bumps;
//   pull  two blocks up: the only loose block stands in a corner of bumps, from where it must be pulled first;
//   gap   across a bottomless trench: two pillars in it touch at their corners alone, so that the agent must hang from
//         the edge of one and move along it to that of the other;
//   drop  three blocks down: the agent must hang from the edge and let go.
// The generator proves that each terrace can be left in this way, and in no easier one; who pushes a block into a
// corner may be stuck.
//
// Observation uint8[229]: a window of 5 x 5 columns around the agent, row by row from the south, column by column from
// the west, each from four blocks below the agent's feet to four above them, 9 in all: 0 air, 1 fixed, 2 loose, 3
// beside the tower; then the way it faces (0 north, 1 east, 2 south, 3 west), terraces left (3: three or more), the
// quarter of the time that is over, and its posture (0 stands, 1 holds a block, 2 hangs).
//
// Action: 0 stay, 1 to 4 move north (up the tower), east, south, west, 5 climb what is in front, 6 take hold of the
// loose block in front or let go of it, anything else stay.
//   Standing it turns and moves. It steps down one block; over a higher edge, or that of the tower, it turns around and
//   hangs from it. Moving into a loose block of its height pushes it, where what lies behind is no higher; the block
//   drops onto what is lower, and beside the tower it is lost.
//   Holding a block it pushes it ahead, or pulls it back behind itself, and hangs from it if it steps over an edge.
//   Moving to a side and climbing let go.
//   Hanging it moves to the sides along edges of one height and around their corners, climbs up by moving ahead or
//   climbing, and drops by moving back; so it does where its feet find ground. Three blocks and more are deadly.
// Reward: +1 for every terrace that it stands on first. Terminal on the last terrace and when it dies; truncation after
// 100 steps for each terrace. Score is the highest terrace that was reached, perf that over `terraces`.
#pragma once

#include "puffer_env.h"

enum { TOWER_STAY, TOWER_MOVE, TOWER_CLIMB = 5, TOWER_GRAB };
enum { TOWER_NORTH, TOWER_EAST, TOWER_SOUTH, TOWER_WEST, TOWER_NUM_DIRECTIONS };
enum { TOWER_AIR, TOWER_FIXED, TOWER_LOOSE, TOWER_VOID };
enum { TOWER_STANDS, TOWER_HOLDS, TOWER_HANGS, TOWER_NUM_POSTURES };
enum { TOWER_PUSH, TOWER_PULL, TOWER_GAP, TOWER_DROP, TOWER_NUM_KINDS };  // of terraces
enum { TOWER_MIN_TERRACES = 1, TOWER_MAX_TERRACES = 6, TOWER_WIDTH = 7 };
enum { TOWER_MIN_DEPTH = 4, TOWER_MAX_DEPTH = 5, TOWER_LOWEST = 4, TOWER_DEADLY_DROP = 3 };
enum { TOWER_HIGHEST = TOWER_LOWEST + 3 * TOWER_MAX_TERRACES };       // floor of a terrace
enum { TOWER_MAX_ROWS = TOWER_MAX_TERRACES * TOWER_MAX_DEPTH + 1 };   // the last one is the goal
enum { TOWER_MAX_LOOSE = 3, TOWER_MAX_BUMPS = 4, TOWER_TRIES = 20 };  // on a terrace
enum {
    TOWER_REACH = 2,
    TOWER_VIEW = 2 * TOWER_REACH + 1,
    TOWER_DEPTH_SEEN = 4,
    TOWER_LEVELS = 2 * TOWER_DEPTH_SEEN + 1
};
enum { TOWER_OBSERVATION_SIZE = TOWER_VIEW * TOWER_VIEW * TOWER_LEVELS + 4, TOWER_STEPS = 100 };  // for each terrace

PUFFER_TABLE int TOWER_ROWS[TOWER_NUM_DIRECTIONS] = {1, 0, -1, 0};
PUFFER_TABLE int TOWER_COLUMNS[TOWER_NUM_DIRECTIONS] = {0, 1, 0, -1};
PUFFER_TABLE int TOWER_RISES[TOWER_NUM_KINDS] = {2, 2, 0, -3};  // to the next terrace, blocks

// The tower's columns are what lies on them: fixed blocks below, loose ones on top, nothing hangs. So the height of all
// that stands somewhere follows from where that is.
typedef struct {
    uint8_t* observations;        // [229]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]
    uint8_t* final_observations;  // [229] or NULL
    Rng rng;
    int terraces;                                // keyword argument
    uint8_t fixed[TOWER_MAX_ROWS][TOWER_WIDTH];  // blocks
    uint8_t loose[TOWER_MAX_ROWS][TOWER_WIDTH];  // blocks on them
    uint8_t terrace_of[TOWER_MAX_ROWS];          // 0 is the lowest
    int rows;
    int row, column, facing;  // of the agent; one beside the tower where it hangs there
    int posture;              // TOWER_STANDS and so on
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

// All cells that a block can be brought to over a flat floor, by pushing alone or also by pulling. The agent stands
// behind it or before it, on the floor, too; it gets there, for it climbs over all that is one block high.
PUFFER_FN uint64_t tower_brought(uint64_t block, uint64_t floor, bool pulls) {
    for (uint64_t before = 0; before != block;) {
        before = block;
        for (int direction = 0; direction < TOWER_NUM_DIRECTIONS; direction++) {
            uint64_t behind = tower_shift(floor, direction), ahead = tower_shift(floor, direction ^ 2);
            uint64_t pullable = pulls ? block & ahead & tower_shift(ahead, direction ^ 2) : 0;
            block |= tower_shift((block & behind) | pullable, direction) & floor;
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
    uint64_t bumps, loose, pits;
} TowerTerrace;

PUFFER_FN uint64_t tower_row_cells(int row) { return ((1ull << TOWER_WIDTH) - 1) << (TOWER_ROW_BITS * row); }

PUFFER_FN TowerTerrace tower_draw_push(Rng* rng, int depth) {
    uint64_t all = 0, last_row = tower_row_cells(depth - 1);
    for (int row = 0; row < depth; row++) all |= tower_row_cells(row);
    TowerTerrace terrace = {0, 0, 0};
    for (int i = 0; i < TOWER_TRIES; i++) {
        uint64_t block = tower_draw_cells(rng, depth - 1, 1);
        uint64_t others = tower_draw_cells(rng, depth - 1, rng_below(rng, TOWER_MAX_LOOSE)) & ~block;
        terrace.bumps =
            tower_draw_cells(rng, depth, rng_below(rng, TOWER_MAX_BUMPS + 1)) & ~(block | others | last_row);
        terrace.loose = block | others;
        if (tower_brought(block, all & ~(terrace.bumps | others), false) & last_row) return terrace;
    }
    terrace.bumps = 0;
    terrace.loose = tower_bit(1, rng_below(rng, TOWER_WIDTH));  // pushed straight on
    return terrace;
}

// One block with a bump behind it and one at a side, and others elsewhere.
PUFFER_FN TowerTerrace tower_draw_pull(Rng* rng, int depth) {
    uint64_t all = 0, last_row = tower_row_cells(depth - 1);
    for (int row = 0; row < depth; row++) all |= tower_row_cells(row);
    TowerTerrace terrace = {0, 0, 0};
    for (int i = 0; i < TOWER_TRIES; i++) {
        int row = 2 + rng_below(rng, depth - 3), column = rng_below(rng, TOWER_WIDTH), side = rng_below(rng, 2);
        uint64_t block = tower_bit(row, column), corner = tower_bit(row - 1, column);
        corner |= tower_shift(block, side ? TOWER_EAST : TOWER_WEST) & all;
        uint64_t others = tower_draw_cells(rng, depth, rng_below(rng, TOWER_MAX_BUMPS - 1));
        terrace.bumps = (corner | others) & ~(block | last_row);
        terrace.loose = block;
        uint64_t floor = all & ~terrace.bumps;
        bool is_pushed = tower_brought(block, floor, false) & last_row;
        if (!is_pushed && (tower_brought(block, floor, true) & last_row)) return terrace;
    }
    terrace.loose = tower_bit(2, 0);  // beside the edge: pulled to the east, then pushed on
    terrace.bumps = tower_bit(1, 0);
    return terrace;
}

// Two pillars in the trench, one before the other and beside it.
PUFFER_FN TowerTerrace tower_draw_gap(Rng* rng) {
    int column = rng_below(rng, TOWER_WIDTH), side = rng_below(rng, 2) ? 1 : -1;
    int next = is_within(column + side, 0, TOWER_WIDTH - 1) ? column + side : column - side;
    TowerTerrace terrace = {0, 0, tower_row_cells(1) | tower_row_cells(2)};
    terrace.pits &= ~(tower_bit(1, column) | tower_bit(2, next));
    return terrace;
}

PUFFER_FN TowerTerrace tower_draw_terrace(Rng* rng, int kind, int depth) {
    if (kind == TOWER_PUSH) return tower_draw_push(rng, depth);
    if (kind == TOWER_PULL) return tower_draw_pull(rng, depth);
    if (kind == TOWER_GAP) return tower_draw_gap(rng);
    TowerTerrace drop = {tower_draw_cells(rng, depth - 1, rng_below(rng, TOWER_MAX_BUMPS + 1)), 0, 0};
    return drop;
}

// Builds a terrace upon a row, its floor so many blocks high; returns the row behind it.
PUFFER_FN int tower_build_terrace(TowerClimb* env, int index, int kind, int floor, int first_row) {
    int depth = TOWER_MIN_DEPTH + rng_below(&env->rng, TOWER_MAX_DEPTH - TOWER_MIN_DEPTH + 1);
    TowerTerrace terrace = tower_draw_terrace(&env->rng, kind, depth);
    for (int row = 0; row < depth; row++) {
        env->terrace_of[first_row + row] = (uint8_t)index;
        for (int column = 0; column < TOWER_WIDTH; column++) {
            uint64_t bit = tower_bit(row, column);
            int height = floor + ((terrace.bumps & bit) != 0);
            env->fixed[first_row + row][column] = (uint8_t)((terrace.pits & bit) != 0 ? 0 : height);
            env->loose[first_row + row][column] = (terrace.loose & bit) != 0;
        }
    }
    return first_row + depth;
}

// Draws the kinds of all terraces, and begins so high that the lowest one is at TOWER_LOWEST.
PUFFER_FN void tower_build(TowerClimb* env) {
    int kinds[TOWER_MAX_TERRACES], row = 0, floor = 0, lowest = 0;
    for (int i = 0; i < env->terraces; i++) {
        kinds[i] = rng_below(&env->rng, TOWER_NUM_KINDS);
        floor += TOWER_RISES[kinds[i]];
        lowest = floor < lowest ? floor : lowest;
    }
    floor = TOWER_LOWEST - lowest;
    for (int i = 0; i < env->terraces; i++) {
        row = tower_build_terrace(env, i, kinds[i], floor, row);
        floor += TOWER_RISES[kinds[i]];
    }
    env->terrace_of[row] = (uint8_t)env->terraces;
    memset(env->fixed[row], floor, TOWER_WIDTH);
    memset(env->loose[row], 0, TOWER_WIDTH);
    env->rows = row + 1;
}

// Blocks below its feet, where it stands; what it hangs from is one block higher than these.
PUFFER_FN int tower_feet(const TowerClimb* env) {
    if (env->posture != TOWER_HANGS) return tower_height(env, env->row, env->column);
    return tower_height(env, env->row + TOWER_ROWS[env->facing], env->column + TOWER_COLUMNS[env->facing]) - 1;
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
    int lowest = tower_feet(env) - TOWER_DEPTH_SEEN;
    for (int row = env->row - TOWER_REACH; row <= env->row + TOWER_REACH; row++) {
        for (int column = env->column - TOWER_REACH; column <= env->column + TOWER_REACH; column++) {
            tower_write_column(env, row, column, lowest, at);
            at += TOWER_LEVELS;
        }
    }
    int left = env->terraces - env->highest, quarter = 4 * env->steps / (TOWER_STEPS * env->terraces);
    at[0] = (uint8_t)env->facing;
    at[1] = (uint8_t)(left < 3 ? left : 3);
    at[2] = (uint8_t)(quarter < 3 ? quarter : 3);
    at[3] = (uint8_t)env->posture;
}

// ----------------------------------------------------------------------------------------------------- the episode

PUFFER_FN void c_reset(TowerClimb* env) {
    tower_build(env);
    env->row = 0;
    env->column = rng_below(&env->rng, TOWER_WIDTH);
    env->facing = TOWER_NORTH;
    env->posture = TOWER_STANDS;
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

// -------------------------------------------------------------------------------------------------------- the agent

// Goes to a place and stands there, or hangs from what it faces where its feet find no ground.
PUFFER_FN void tower_go(TowerClimb* env, int row, int column) {
    int front_row = row + TOWER_ROWS[env->facing], front_column = column + TOWER_COLUMNS[env->facing];
    env->row = row;
    env->column = column;
    env->posture = TOWER_STANDS;
    if (!tower_is_on(env, front_row, front_column)) return;
    bool is_over_ground = tower_is_on(env, row, column) &&
                          tower_height(env, row, column) >= tower_height(env, front_row, front_column) - 1;
    if (!is_over_ground) env->posture = TOWER_HANGS;
}

// Whether a loose block of the agent's height stands in front.
PUFFER_FN bool tower_faces_block(const TowerClimb* env) {
    int row = env->row + TOWER_ROWS[env->facing], column = env->column + TOWER_COLUMNS[env->facing];
    return tower_is_on(env, row, column) && env->loose[row][column] > 0 &&
           tower_height(env, row, column) == tower_height(env, env->row, env->column) + 1;
}

// Pushes the block in front where it goes.
PUFFER_FN void tower_push(TowerClimb* env) {
    int row = env->row + TOWER_ROWS[env->facing], column = env->column + TOWER_COLUMNS[env->facing];
    int behind_row = row + TOWER_ROWS[env->facing], behind_column = column + TOWER_COLUMNS[env->facing];
    bool is_kept = tower_is_on(env, behind_row, behind_column);
    int level = tower_height(env, env->row, env->column);
    if (is_kept && tower_height(env, behind_row, behind_column) > level) return;
    env->loose[row][column] -= 1;
    if (is_kept) env->loose[behind_row][behind_column] += 1;
}

// Turns and moves, pushing what can be pushed; over an edge it turns around and hangs.
PUFFER_FN void tower_walk(TowerClimb* env, int direction) {
    int row = env->row + TOWER_ROWS[direction], column = env->column + TOWER_COLUMNS[direction];
    int level = tower_height(env, env->row, env->column);
    env->facing = direction;
    env->posture = TOWER_STANDS;
    if (tower_faces_block(env)) tower_push(env);
    bool is_on = tower_is_on(env, row, column);
    if (is_on ? tower_height(env, row, column) > level : level == 0) return;  // no block to hang from at the bottom
    if (!is_on || tower_height(env, row, column) < level - 1) {
        env->facing = direction ^ 2;
        env->posture = TOWER_HANGS;
    }
    env->row = row;
    env->column = column;
}

// Steps back, and the block that it holds comes after it.
PUFFER_FN void tower_pull(TowerClimb* env) {
    int row = env->row, column = env->column, back = env->facing ^ 2;
    int front_row = row + TOWER_ROWS[env->facing], front_column = column + TOWER_COLUMNS[env->facing];
    int back_row = row + TOWER_ROWS[back], back_column = column + TOWER_COLUMNS[back], level = tower_feet(env);
    bool is_on = tower_is_on(env, back_row, back_column);
    if (is_on && tower_height(env, back_row, back_column) > level) return;
    env->loose[front_row][front_column] -= 1;
    env->loose[row][column] += 1;
    env->row = back_row;
    env->column = back_column;
    bool hangs = !is_on || tower_height(env, back_row, back_column) < level - 1;
    env->posture = hangs ? TOWER_HANGS : TOWER_STANDS;
}

PUFFER_FN void tower_move_block(TowerClimb* env, int direction) {
    if (direction == env->facing) {
        tower_walk(env, direction);
    } else {
        tower_pull(env);
    }
    if (env->posture == TOWER_STANDS && tower_faces_block(env)) env->posture = TOWER_HOLDS;
}

// Lets go of the edge; whether the agent survives.
PUFFER_FN bool tower_fall(TowerClimb* env) {
    if (!tower_is_on(env, env->row, env->column)) return false;
    int drop = tower_feet(env) - tower_height(env, env->row, env->column);
    env->posture = TOWER_STANDS;
    return drop < TOWER_DEADLY_DROP;
}

// Moves to a side along the edge: into a corner, on along the wall, or around its end.
PUFFER_FN void tower_move_along(TowerClimb* env, int direction) {
    int top = tower_feet(env) + 1, facing = env->facing;
    int row = env->row + TOWER_ROWS[direction], column = env->column + TOWER_COLUMNS[direction];
    int beside = tower_is_on(env, row, column) ? tower_height(env, row, column) : 0;
    if (beside >= top) {
        if (beside == top) env->facing = direction;
        return;
    }
    int wall_row = row + TOWER_ROWS[facing], wall_column = column + TOWER_COLUMNS[facing];
    int wall = tower_is_on(env, wall_row, wall_column) ? tower_height(env, wall_row, wall_column) : 0;
    if (wall > top) return;
    if (wall < top) {
        env->facing = direction ^ 2;
        row = wall_row;
        column = wall_column;
    }
    tower_go(env, row, column);
}

PUFFER_FN void tower_climb_up(TowerClimb* env) {
    int row = env->row + TOWER_ROWS[env->facing], column = env->column + TOWER_COLUMNS[env->facing];
    bool hangs = env->posture == TOWER_HANGS;
    env->posture = TOWER_STANDS;
    if (!tower_is_on(env, row, column)) return;
    if (!hangs && tower_height(env, row, column) != tower_feet(env) + 1) return;
    env->row = row;
    env->column = column;
}

PUFFER_FN bool tower_hang(TowerClimb* env, int direction) {
    if (direction == (env->facing ^ 2)) return tower_fall(env);
    if (direction == env->facing) {
        tower_climb_up(env);
    } else {
        tower_move_along(env, direction);
    }
    return true;
}

// Whether the agent survives what it does.
PUFFER_FN bool tower_act(TowerClimb* env, int action) {
    bool is_move = is_within(action, TOWER_MOVE, TOWER_MOVE + TOWER_NUM_DIRECTIONS - 1);
    int direction = is_move ? action - TOWER_MOVE : 0;
    if (is_move && env->posture == TOWER_HANGS) return tower_hang(env, direction);
    if (is_move && env->posture == TOWER_HOLDS && ((direction ^ env->facing) & 1) == 0) {
        tower_move_block(env, direction);
    } else if (is_move) {
        tower_walk(env, direction);
    } else if (action == TOWER_CLIMB) {
        tower_climb_up(env);
    } else if (action == TOWER_GRAB && env->posture != TOWER_HANGS) {
        bool holds = env->posture == TOWER_STANDS && tower_faces_block(env);
        env->posture = holds ? TOWER_HOLDS : TOWER_STANDS;
    }
    return true;
}

// Whether it stands on a terrace for the first time: the reward.
PUFFER_FN float tower_reach_terrace(TowerClimb* env) {
    if (env->posture == TOWER_HANGS || env->terrace_of[env->row] <= env->highest) return 0.0f;
    env->highest = env->terrace_of[env->row];
    return 1.0f;
}

PUFFER_FN void c_step(TowerClimb* env) {
    bool is_alive = tower_act(env, ((const int32_t*)env->actions)[0]);
    float reward = is_alive ? tower_reach_terrace(env) : 0.0f;
    env->steps += 1;
    env->episode_return += reward;
    env->rewards[0] = reward;
    env->terminals[0] = !is_alive || env->highest == env->terraces;
    env->truncations[0] = !env->terminals[0] && env->steps == TOWER_STEPS * env->terraces;
    tower_write_observations(env);
    if (env->terminals[0] || env->truncations[0]) tower_finish_episode(env);
}

// ------------------------------------------------------------------------------------------------- a stranger's state

PUFFER_FN bool tower_accepts_columns(const TowerClimb* saved) {
    const int most_loose = TOWER_MAX_LOOSE * TOWER_MAX_TERRACES;
    for (int row = 0; row < TOWER_MAX_ROWS; row++) {
        if (saved->terrace_of[row] > saved->terraces) return false;
        for (int column = 0; column < TOWER_WIDTH; column++) {
            if (saved->fixed[row][column] > TOWER_HIGHEST + 1) return false;
            if (saved->loose[row][column] > most_loose) return false;
        }
    }
    return true;
}

// Whether it is where its posture allows it to be.
PUFFER_FN bool tower_accepts_agent(const TowerClimb* saved) {
    int row = saved->row, column = saved->column;
    if (!is_within(row, -1, saved->rows) || !is_within(column, -1, TOWER_WIDTH)) return false;
    if (!is_within(saved->facing, 0, TOWER_NUM_DIRECTIONS - 1)) return false;
    bool is_on = tower_is_on(saved, row, column);
    if (saved->posture == TOWER_STANDS) return is_on;
    if (saved->posture == TOWER_HOLDS) return is_on && tower_faces_block(saved);
    int front_row = row + TOWER_ROWS[saved->facing], front_column = column + TOWER_COLUMNS[saved->facing];
    if (saved->posture != TOWER_HANGS || !tower_is_on(saved, front_row, front_column)) return false;
    int top = tower_height(saved, front_row, front_column);
    return top >= 1 && (!is_on || tower_height(saved, row, column) < top - 1);
}

PUFFER_FN bool c_accepts(const TowerClimb* env, const TowerClimb* saved) {
    return saved->terraces == env->terraces && is_within(saved->rows, 1, TOWER_MAX_ROWS) &&
           is_within(saved->highest, 0, env->terraces - 1) &&
           is_within(saved->steps, 0, TOWER_STEPS * env->terraces - 1) && tower_accepts_columns(saved) &&
           tower_accepts_agent(saved);
}
