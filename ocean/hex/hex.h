// hex.h - Hex on a rhombus of eleven by eleven cells, against a bot or between two agents who take turns.
//
// Players place a stone each by turns on any free cell, and nothing moves again. Who joins two opposite sides by a
// chain of stones wins; one of both always does. A cell has six neighbours: those beside it in its row, the one above
// it and the one to the right of that, the one below it and the one to the left of that. Who begins is drawn for each
// game.
//
// With `swap`, which takes away the advantage of the first stone, the second player may take that over instead of
// placing one: it becomes the second player's, mirrored across the diagonal so that it stands to the second player's
// sides as it stood to the first one's. The action for that is the cell of the stone.
//
// Each agent is to join the top and the bottom of the board as it sees it: to who plays second it is mirrored.
// Observation uint8[121], row by row from the top: 0 free, 1 the agent's stone, 2 the other's.
// Action: a cell, row by row, 0 to 120. Masks allow those that are free; another action stands for the next cell that
// is allowed, the first after the last. Reward: +1 for a win, -1 for a loss, each terminal, and 0 for all other steps.
// Score is 1 for a win, -1 for a loss; perf is 1 and 0.
//
// The bot by `bot_strength`: 0 plays anywhere, 1 on its own shortest way between its sides, 2 where the shortest ways
// of both that lead through the cell are shortest together, which blocks as well. `bot_random` percent of its moves are
// drawn by chance. It never swaps. Of two agents, PUFFER_BOT_MOVES of puffer_bot.h has it move for one.
#pragma once

#include "puffer_bits.h"

enum { HEX_SIDE = 11, HEX_CELLS = HEX_SIDE * HEX_SIDE, HEX_WORDS = 2, HEX_FAR = 255 };
enum { HEX_RANDOM, HEX_HURRIES, HEX_BLOCKS, HEX_STRENGTHS };
enum { HEX_FREE, HEX_FIRST, HEX_SECOND };  // what lies on a cell: a stone of the first player or of the second
enum { HEX_TOP = 1, HEX_BOTTOM = 2, HEX_JOINED = 3 };  // what a chain touches, as its player sees the board

typedef struct {
    uint8_t* observations;        // [121] an agent; these eight are borrowed from the caller
    const void* actions;          // int32_t[1] an agent
    float* rewards;               // [1] an agent
    uint8_t* terminals;           // [1] an agent
    uint8_t* truncations;         // [1] an agent, never set
    uint8_t* final_observations;  // like observations, or NULL
    uint8_t* action_masks;        // [121] an agent
    uint8_t* masks;               // [1] an agent
    Rng rng;
    uint8_t cells[HEX_CELLS];     // as the first player sees them
    uint8_t parents[HEX_CELLS];   // of every stone: union-find, the way to the lowest of its chain
    uint8_t touches[HEX_CELLS];   // sides that the chain touches, at its lowest stone
    uint64_t free[2][HEX_WORDS];  // cells, a bit each, as the first player sees them and as the second does
    int last;                     // the newest stone, as the first player sees it
    bool has_swap;
    bool has_bot;
    int first;  // the seat that began
    int num_turns, num_steps;
    int bot_strength;
    int bot_random;  // percent of its moves
    Log log;         // summed at episode end, cleared by the reader
} Hex;

typedef Hex TurnsEnv;

PUFFER_FN PufferLayout c_layout(const Hex* env) {
    return puffer_masked_layout(env->has_bot ? 1 : 2, HEX_CELLS, PUFFER_UINT8, 1, HEX_CELLS);
}

#include "puffer_turns.h"

// -------------------------------------------------------------------------------------------------------------- rules

// The same cell for the other player.
PUFFER_FN int hex_mirrored(int cell) { return cell % HEX_SIDE * HEX_SIDE + cell / HEX_SIDE; }

PUFFER_FN bool hex_may_swap(const Hex* env) { return env->has_swap && env->num_turns == 1; }

// The lowest stone of a chain. Every other stone's way to it is halved.
PUFFER_FN int hex_root(Hex* env, int cell) {
    while (env->parents[cell] != cell) {
        env->parents[cell] = env->parents[env->parents[cell]];
        cell = env->parents[cell];
    }
    return cell;
}

// The same, for who changes nothing.
PUFFER_FN int hex_chain(const Hex* env, int cell) {
    while (env->parents[cell] != cell) cell = env->parents[cell];
    return cell;
}

// The sides that a stone of a player touches.
PUFFER_FN int hex_sides(int player, int cell) {
    int along = player ? cell % HEX_SIDE : cell / HEX_SIDE;
    return (along == 0 ? HEX_TOP : 0) | (along == HEX_SIDE - 1 ? HEX_BOTTOM : 0);
}

PUFFER_FN void hex_join(Hex* env, int one, int other) {
    int low = hex_root(env, one), high = hex_root(env, other);
    if (low > high) {
        int swapped = low;
        low = high;
        high = swapped;
    }
    env->parents[high] = (uint8_t)low;
    env->touches[low] |= env->touches[high];
}

// Tells the agents what lies on a cell now; what is taken may not be played.
PUFFER_FN void hex_show(Hex* env, int cell) {
    for (int seat = 0; seat < turns_seats(env); seat++) {
        int kind = env->cells[cell], at = seat * HEX_CELLS + (seat == env->first ? cell : hex_mirrored(cell));
        bool is_own = kind == (seat == env->first ? HEX_FIRST : HEX_SECOND);
        env->observations[at] = (uint8_t)(kind == HEX_FREE ? 0 : is_own ? 1 : 2);
        env->action_masks[at] = kind == HEX_FREE;
    }
}

// A stone of the player to move, on a free cell as the first player sees it.
PUFFER_FN void hex_place(Hex* env, int cell) {
    int row = cell / HEX_SIDE, column = cell % HEX_SIDE, mirrored = hex_mirrored(cell), player = env->num_turns & 1;
    uint8_t stone = player ? HEX_SECOND : HEX_FIRST;
    env->cells[cell] = stone;
    env->parents[cell] = (uint8_t)cell;
    env->touches[cell] = (uint8_t)hex_sides(player, cell);
    env->free[0][cell >> 6] &= ~(1ull << (cell & 63));
    env->free[1][mirrored >> 6] &= ~(1ull << (mirrored & 63));
    env->last = cell;
    if (row > 0 && env->cells[cell - HEX_SIDE] == stone) hex_join(env, cell, cell - HEX_SIDE);
    if (row > 0 && column < HEX_SIDE - 1 && env->cells[cell - HEX_SIDE + 1] == stone)
        hex_join(env, cell, cell - HEX_SIDE + 1);
    if (column > 0 && env->cells[cell - 1] == stone) hex_join(env, cell, cell - 1);
    if (column < HEX_SIDE - 1 && env->cells[cell + 1] == stone) hex_join(env, cell, cell + 1);
    if (row < HEX_SIDE - 1 && env->cells[cell + HEX_SIDE] == stone) hex_join(env, cell, cell + HEX_SIDE);
    if (row < HEX_SIDE - 1 && column > 0 && env->cells[cell + HEX_SIDE - 1] == stone)
        hex_join(env, cell, cell + HEX_SIDE - 1);
    hex_show(env, cell);
}

PUFFER_FN void hex_clear(Hex* env, int cell) {
    int mirrored = hex_mirrored(cell);
    env->cells[cell] = HEX_FREE;
    env->free[0][cell >> 6] |= 1ull << (cell & 63);
    env->free[1][mirrored >> 6] |= 1ull << (mirrored & 63);
    hex_show(env, cell);
}

// The only stone becomes the second player's.
PUFFER_FN void hex_swap(Hex* env) {
    int cell = env->last;
    hex_clear(env, cell);
    hex_place(env, hex_mirrored(cell));
}

PUFFER_FN void turns_begin(Hex* env) {
    memset(env->cells, HEX_FREE, sizeof(env->cells));
    memset(env->parents, 0, sizeof(env->parents));
    memset(env->touches, 0, sizeof(env->touches));
    for (int view = 0; view < 2; view++) {
        env->free[view][0] = ~0ull;
        env->free[view][1] = (1ull << (HEX_CELLS - 64)) - 1;
    }
    env->last = 0;
    memset(env->observations, 0, (size_t)(turns_seats(env) * HEX_CELLS));
    memset(env->action_masks, 1, (size_t)(turns_seats(env) * HEX_CELLS));
}

// The cell that an action stands for, of those that are free to the player to move as it sees them.
PUFFER_FN int hex_cell_of(const Hex* env, int action) {
    int least = (int)((uint32_t)action % HEX_CELLS), player = env->num_turns & 1;
    uint64_t low = env->free[player][0], high = env->free[player][1];
    uint64_t later_low = least < 64 ? low >> least << least : 0;
    uint64_t later_high = least < 64 ? high : high >> (least - 64) << (least - 64);
    if (later_low) return bits_lowest(later_low);
    if (later_high) return 64 + bits_lowest(later_high);
    return low ? bits_lowest(low) : 64 + bits_lowest(high);
}

PUFFER_FN void turns_play(Hex* env, int action) {
    bool is_second = env->num_turns & 1, may_swap = hex_may_swap(env);
    if (may_swap && action == hex_mirrored(env->last)) {
        hex_swap(env);
        return;
    }
    if (may_swap) hex_show(env, env->last);  // the right is over
    int cell = hex_cell_of(env, action);
    hex_place(env, is_second ? hex_mirrored(cell) : cell);
}

PUFFER_FN TurnsResult turns_result(const Hex* env) {
    return env->touches[hex_chain(env, env->last)] == HEX_JOINED ? TURNS_WON : TURNS_UNDECIDED;
}

// What a stone changes is written where it is placed; here the right to swap is added.
PUFFER_FN void turns_write(Hex* env, int seat, bool is_to_move) {
    if (is_to_move && hex_may_swap(env)) env->action_masks[seat * HEX_CELLS + hex_mirrored(env->last)] = 1;
}

// ---------------------------------------------------------------------------------------------------------------- bot

// Sets of cells are 121 bits, in the order of the cells.
typedef struct {
    uint64_t low, high;
} HexSet;

#define HEX_FIRST_COLUMN_LOW (0x0080100200400801ull)
#define HEX_FIRST_COLUMN_HIGH (0x0000400801002004ull)
#define HEX_BOARD_HIGH (0x01FFFFFFFFFFFFFFull)

PUFFER_FN HexSet hex_set(uint64_t low, uint64_t high) {
    HexSet set;
    set.low = low;
    set.high = high;
    return set;
}

PUFFER_FN HexSet hex_later(HexSet set, int count) {
    return hex_set(set.low << count, set.high << count | set.low >> (64 - count));
}

PUFFER_FN HexSet hex_sooner(HexSet set, int count) {
    return hex_set(set.low >> count | set.high << (64 - count), set.high >> count);
}

// The set and all neighbours of it.
PUFFER_FN HexSet hex_grown(HexSet set) {
    // A row's end lies beside the beginning of the next one, where no neighbour is; nor is there one past the last
    // cell.
    HexSet right = hex_later(set, 1),
           left = hex_sooner(hex_set(set.low & ~HEX_FIRST_COLUMN_LOW, set.high & ~HEX_FIRST_COLUMN_HIGH), 1);
    right = hex_set(right.low & ~HEX_FIRST_COLUMN_LOW, right.high & ~HEX_FIRST_COLUMN_HIGH & HEX_BOARD_HIGH);
    HexSet up = hex_sooner(hex_set(set.low | right.low, set.high | right.high), HEX_SIDE);
    HexSet down = hex_later(hex_set(set.low | left.low, set.high | left.high), HEX_SIDE);
    return hex_set(set.low | right.low | left.low | up.low | down.low,
                   (set.high | right.high | left.high | up.high | down.high) & HEX_BOARD_HIGH);
}

// How many stones of a player the way from an edge to each free cell takes, that cell included.
PUFFER_FN void hex_distances(HexSet edge, HexSet stones, HexSet free, uint8_t* distances) {
    HexSet reached = hex_set(edge.low & stones.low, edge.high & stones.high), next = edge;
    memset(distances, HEX_FAR, HEX_CELLS);
    for (int distance = 1; distance <= HEX_CELLS; distance++) {
        HexSet before;
        do {  // through the player's stones
            before = reached;
            HexSet grown = hex_grown(reached);
            reached = hex_set(reached.low | (grown.low & stones.low), reached.high | (grown.high & stones.high));
        } while (before.low != reached.low || before.high != reached.high);
        HexSet grown = hex_grown(reached);
        HexSet layer = hex_set((grown.low | next.low) & free.low & ~reached.low,
                               (grown.high | next.high) & free.high & ~reached.high);
        next = hex_set(0, 0);
        if ((layer.low | layer.high) == 0) return;
        reached = hex_set(reached.low | layer.low, reached.high | layer.high);
        for (; layer.low; layer.low &= layer.low - 1) distances[bits_lowest(layer.low)] = (uint8_t)distance;
        for (; layer.high; layer.high &= layer.high - 1) distances[64 + bits_lowest(layer.high)] = (uint8_t)distance;
    }
}

// Adds for each free cell how many stones the player's shortest way through it takes.
PUFFER_FN void hex_add_ways(const Hex* env, int player, int* ways) {
    uint8_t from_one[HEX_CELLS], from_other[HEX_CELLS];
    HexSet stones = hex_set(0, 0), free = hex_set(env->free[0][0], env->free[0][1]);
    HexSet top = hex_set((1ull << HEX_SIDE) - 1, 0),
           bottom = hex_set(0, ((1ull << HEX_SIDE) - 1) << (HEX_CELLS - HEX_SIDE - 64));
    HexSet left = hex_set(HEX_FIRST_COLUMN_LOW, HEX_FIRST_COLUMN_HIGH), right = hex_later(left, HEX_SIDE - 1);
    for (int cell = 0; cell < HEX_CELLS; cell++) {
        uint64_t bit = (uint64_t)(env->cells[cell] == HEX_FIRST + player) << (cell & 63);
        if (cell < 64) stones.low |= bit;
        if (cell >= 64) stones.high |= bit;
    }
    hex_distances(player ? left : top, stones, free, from_one);
    hex_distances(player ? right : bottom, stones, free, from_other);
    for (int cell = 0; cell < HEX_CELLS; cell++) ways[cell] += from_one[cell] + from_other[cell];
}

// The bot's cell, as the first player sees it; of several that are equally good each is as likely.
PUFFER_FN int hex_choose(Hex* env) {
    int player = env->num_turns & 1, ways[HEX_CELLS], best = 4 * HEX_FAR + 1, count = 0, chosen = 0;
    bool is_drawn = env->bot_strength == HEX_RANDOM || (env->bot_random && rng_below(&env->rng, 100) < env->bot_random);
    memset(ways, 0, sizeof(ways));
    if (!is_drawn) hex_add_ways(env, player, ways);
    if (!is_drawn && env->bot_strength == HEX_BLOCKS) hex_add_ways(env, !player, ways);
    for (int cell = 0; cell < HEX_CELLS; cell++) {
        if (env->cells[cell] != HEX_FREE || ways[cell] > best) continue;
        count = ways[cell] < best ? 1 : count + 1;
        best = ways[cell];
        if (rng_below(&env->rng, count) == 0) chosen = cell;
    }
    return chosen;
}

PUFFER_FN void turns_answer(Hex* env) {
    if (hex_may_swap(env)) hex_show(env, env->last);
    hex_place(env, hex_choose(env));
}

// ----------------------------------------------------------------------------------------------------------- snapshots

// Whether a stone is of one chain with its neighbours of lower numbers, which knows its sides and has not won.
PUFFER_FN bool hex_stone_is_sound(const Hex* env, int cell) {
    int row = cell / HEX_SIDE, column = cell % HEX_SIDE, chain = hex_chain(env, cell);
    const bool are_there[3] = {column > 0, row > 0, row > 0 && column < HEX_SIDE - 1};
    const int neighbours[3] = {cell - 1, cell - HEX_SIDE, cell - HEX_SIDE + 1};
    for (int i = 0; i < 3; i++) {
        bool is_joined = are_there[i] && env->cells[neighbours[i]] == env->cells[cell];
        if (is_joined && hex_chain(env, neighbours[i]) != chain) return false;
    }
    int sides = hex_sides(env->cells[cell] == HEX_SECOND, cell);
    return (sides & ~env->touches[chain]) == 0 && env->touches[chain] != HEX_JOINED;
}

// Stones are as many as turns, free cells are told twice, every chain leads to its lowest stone, and nobody has won: so
// somebody does before the board is full.
PUFFER_FN bool hex_board_is_sound(const Hex* env) {
    uint64_t free[2][HEX_WORDS] = {{0, 0}, {0, 0}};
    int counts[3] = {0, 0, 0};
    for (int cell = 0; cell < HEX_CELLS; cell++) {
        int mirrored = hex_mirrored(cell), parent = env->parents[cell];
        if (env->cells[cell] > HEX_SECOND || parent > cell || env->touches[cell] > HEX_JOINED) return false;
        counts[env->cells[cell]]++;
        if (env->cells[cell] != HEX_FREE) {
            if (env->cells[parent] != env->cells[cell] || !hex_stone_is_sound(env, cell)) return false;
            continue;
        }
        free[0][cell >> 6] |= 1ull << (cell & 63);
        free[1][mirrored >> 6] |= 1ull << (mirrored & 63);
    }
    int stones = counts[HEX_FIRST] + counts[HEX_SECOND];
    bool has_swapped = env->has_swap && env->num_turns > 1 && stones == env->num_turns - 1;
    for (int i = 0; i < 2 * HEX_WORDS; i++) {
        if (free[i / HEX_WORDS][i % HEX_WORDS] != env->free[i / HEX_WORDS][i % HEX_WORDS]) return false;
    }
    return stones < HEX_CELLS && (stones == env->num_turns || has_swapped);
}

PUFFER_FN bool c_accepts(const Hex* env, const Hex* saved) {
    return saved->bot_strength == env->bot_strength && saved->bot_random == env->bot_random &&
           is_bool(&saved->has_swap) && saved->has_swap == env->has_swap && is_within(saved->last, 0, HEX_CELLS - 1) &&
           turns_are_sound(env, saved, HEX_CELLS + 2) && hex_board_is_sound(saved);
}
