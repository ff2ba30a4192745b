// go.h - the board game on a small board, by the rules of Tromp and Taylor, against a greedy opponent, or between two
// agents.
//
// Rules: colours take turns, black begins; a turn is a pass, or a stone on an empty point; then the other's chains
// without liberties are taken off the board, then one's own (suicide is allowed). No position may come again
// (positional superko). After two passes in a row every colour counts its stones and the empty points that reach it
// alone; white gets 7.5 more. The agent's colour is drawn for each game. A game of 3 * size * size turns is cut.
//
// With two agents each step is a turn of one of them, and the log has the game of each. To the one who waits no point
// is shown as allowed, and no last move. PUFFER_BOT_MOVES of puffer_bot.h has the opponent, as below, move for one.
//
// The opponent by `strength`, each with what the ones before do: 0 plays anywhere but into its own eyes and where its
// chain would have one liberty; 1 captures the largest chain that it can; 2 saves the largest that it can; 3 takes away
// a chain's second liberty; 4 plays, of all other points, where the count is best for it. It passes when it has no such
// point, or after the agent's pass when it is ahead. Strength 5 draws one of them for each game, 4 in a third of them.
//
// Observation uint8[6 * size * size + 2], each 0 or 1, six boards row by row from the top: the agent's stones, the
// other's, those of them with one liberty, the other's with one, the points where the agent may play, the other's last
// move; then whether the agent is black and whether the other has just passed.
// Action: a point, row by row, or size * size for a pass. Masks allow the points where the agent may play, and a pass;
// a point where it may not, and anything else, is a pass as well.
// Reward: +1 for a won game, -1 for a lost one; terminal. Truncation for one that was cut, without a reward.
// score is the agent's margin in points, perf the share of games won; a game that was cut is counted as it stands.
#pragma once

#include "puffer_bits.h"
#include "puffer_bot.h"

// A board is 64 bits, eight for each row whatever the size: point = 8 * row + column.
enum { GO_MIN_SIZE = 2, GO_MAX_SIZE = 8, GO_ROW = 8, GO_POINTS = GO_ROW * GO_MAX_SIZE, GO_PASS = GO_POINTS };
enum { GO_BLACK, GO_WHITE, GO_COLORS };
enum { GO_TURNS_PER_POINT = 3, GO_MAX_TURNS = GO_TURNS_PER_POINT * GO_MAX_SIZE * GO_MAX_SIZE };
enum { GO_RANDOM, GO_CAPTURES, GO_SAVES, GO_THREATENS, GO_COUNTS, GO_STRENGTHS, GO_DRAWN = GO_STRENGTHS };
enum { GO_DRAWS = GO_STRENGTHS + 1 };  // the last one is the strongest, too: it is the hardest to learn to beat
enum { GO_ALLOWED = 4, GO_BOARDS = 6, GO_FILTER_WORDS = 16, GO_FILTER_BITS = 64 * GO_FILTER_WORDS };

#define GO_KOMI (7.5f)
#define GO_ALL_BUT_FIRST_COLUMN (0xFEFEFEFEFEFEFEFEull)
#define GO_ALL_BUT_LAST_COLUMN (0x7F7F7F7F7F7F7F7Full)

typedef struct {
    uint8_t* observations;        // [6 * size * size + 2] an agent  these eight are borrowed from the caller
    const void* actions;          // int32_t[1] an agent
    float* rewards;               // [1] an agent
    uint8_t* terminals;           // [1] an agent
    uint8_t* truncations;         // [1] an agent
    uint8_t* action_masks;        // [size * size + 1] an agent
    uint8_t* masks;               // [1] an agent
    uint8_t* final_observations;  // like observations, or NULL
    Rng rng;
    uint64_t stones[GO_COLORS];
    uint64_t roots;              // one point of every chain: those that are their own parents
    uint64_t chains[GO_POINTS];  // stones of the chain, at its root
    uint8_t parents[GO_POINTS];  // of every stone: union-find, the way to its root
    uint8_t agent_color;         // of the first agent
    uint8_t last_move;      // the opponent's, or the last of two agents': a point or GO_PASS, which no move is as well
    bool has_passed;        // whoever had the last turn
    int8_t agents;          // 1 against the opponent, 2 by turns
    int8_t size, strength;  // the strength is that of this game's opponent
    bool draws_strength;    // for each game
    int16_t turns;
    int16_t num_positions;
    uint64_t shown[GO_COLORS][GO_BOARDS];  // what the boards of each agent's observation hold
    uint64_t position;                     // hash of the stones
    uint64_t filter[GO_FILTER_WORDS];      // a bit for every position that there was
    uint64_t positions[GO_MAX_TURNS + 1];  // hashes of all that there were
    int steps;
    Log log;  // summed at episode end, cleared by the reader
} Go;

PUFFER_FN int go_num_points(const Go* env) { return env->size * env->size; }

PUFFER_FN int go_observation_size(const Go* env) { return GO_BOARDS * go_num_points(env) + 2; }

PUFFER_FN PufferLayout c_layout(const Go* env) {
    return puffer_masked_layout(env->agents, go_observation_size(env), PUFFER_UINT8, 1, go_num_points(env) + 1);
}

// ------------------------------------------------------------------------------------------------------ sets of points

PUFFER_FN uint64_t go_bit(int point) { return 1ull << point; }

PUFFER_FN bool go_is_one(uint64_t points) { return points != 0 && (points & (points - 1)) == 0; }

PUFFER_FN uint64_t go_board(const Go* env) {
    uint64_t row = (1ull << env->size) - 1, rows = 0x0101010101010101ull >> GO_ROW * (GO_MAX_SIZE - env->size);
    return row * rows;
}

PUFFER_FN uint64_t go_empty(const Go* env) { return go_board(env) & ~(env->stones[GO_BLACK] | env->stones[GO_WHITE]); }

// Neighbours of the points, and of two that touch each other also themselves; they may lie off the board.
PUFFER_FN uint64_t go_neighbours(uint64_t points) {
    return (points & GO_ALL_BUT_LAST_COLUMN) << 1 | (points & GO_ALL_BUT_FIRST_COLUMN) >> 1 | points << GO_ROW |
           points >> GO_ROW;
}

// All that can be reached from `points` by going through `ways`.
PUFFER_FN uint64_t go_reach(uint64_t points, uint64_t ways) {
    uint64_t last;
    do {
        last = points;
        points |= go_neighbours(points) & ways;
    } while (points != last);
    return points;
}

// What of it is in a hash of the stones.
PUFFER_FN uint64_t go_key(int color, int point) { return rng_mix((uint64_t)(color * GO_POINTS + point + 1)); }

PUFFER_FN uint64_t go_keys(int color, uint64_t points) {
    uint64_t keys = 0;
    for (; points != 0; points &= points - 1) keys ^= go_key(color, bits_lowest(points));
    return keys;
}

// -------------------------------------------------------------------------------------------------------------- chains

PUFFER_FN int go_root(Go* env, int point) {
    uint8_t* parents = env->parents;
    while (parents[point] != point) {
        parents[point] = parents[parents[point]];  // halves the way for the next time
        point = parents[point];
    }
    return point;
}

PUFFER_FN uint64_t go_liberties(const Go* env, uint64_t chain) { return go_neighbours(chain) & go_empty(env); }

// Roots of the chains that some stones belong to.
PUFFER_FN uint64_t go_roots_of(Go* env, uint64_t stones) {
    uint64_t roots = 0;
    for (; stones != 0; stones &= stones - 1) roots |= go_bit(go_root(env, bits_lowest(stones)));
    return roots;
}

// What a stone would do.
typedef struct {
    uint64_t joined;     // roots of the own chains that it touches
    uint64_t captured;   // stones of the other's that have no liberty left
    uint64_t chain;      // that it is then part of
    uint64_t liberties;  // of that; none is suicide
} GoMove;

PUFFER_FN GoMove go_imagine(Go* env, int color, int point) {
    uint64_t bit = go_bit(point), around = go_neighbours(bit), empty = go_empty(env);
    GoMove move;
    move.joined = go_roots_of(env, around & env->stones[color]);
    move.captured = 0;
    move.chain = bit;
    for (uint64_t roots = move.joined; roots != 0; roots &= roots - 1) move.chain |= env->chains[bits_lowest(roots)];
    for (uint64_t roots = go_roots_of(env, around & env->stones[!color]); roots != 0; roots &= roots - 1) {
        uint64_t chain = env->chains[bits_lowest(roots)];
        if ((go_neighbours(chain) & empty) == bit) move.captured |= chain;
    }
    move.liberties = go_neighbours(move.chain) & (empty | move.captured) & ~bit;
    return move;
}

PUFFER_FN uint64_t go_position_after(const Go* env, int color, int point, const GoMove* move) {
    uint64_t position = env->position ^ go_key(color, point) ^ go_keys(!color, move->captured);
    return move->liberties != 0 ? position : position ^ go_keys(color, move->chain);
}

// ----------------------------------------------------------------------------------------------------------- positions

PUFFER_FN uint64_t go_filter_bit(uint64_t position) { return 1ull << (position & 63); }

PUFFER_FN int go_filter_word(uint64_t position) { return (int)(position >> 6 & (GO_FILTER_WORDS - 1)); }

// Whether there was the position before. The filter answers most of the questions.
PUFFER_FN bool go_is_repeated(const Go* env, uint64_t position) {
    if ((env->filter[go_filter_word(position)] & go_filter_bit(position)) == 0) return false;
    for (int i = env->num_positions - 1; i >= 0; i--) {
        if (env->positions[i] == position) return true;
    }
    return false;
}

PUFFER_FN void go_remember_position(Go* env) {
    env->filter[go_filter_word(env->position)] |= go_filter_bit(env->position);
    env->positions[env->num_positions++] = env->position;
}

// Points of a colour's chains that have one liberty.
PUFFER_FN uint64_t go_threatened(const Go* env, int color) {
    uint64_t threatened = 0;
    for (uint64_t roots = env->roots & env->stones[color]; roots != 0; roots &= roots - 1) {
        uint64_t chain = env->chains[bits_lowest(roots)];
        if (go_is_one(go_liberties(env, chain))) threatened |= chain;
    }
    return threatened;
}

PUFFER_FN bool go_may_play(Go* env, int color, int point) {
    if ((go_empty(env) & go_bit(point)) == 0) return false;
    GoMove move = go_imagine(env, color, point);
    return !go_is_repeated(env, go_position_after(env, color, point, &move));
}

// Where a colour may play. A stone that captures nothing and has a liberty of its own changes the position by itself.
PUFFER_FN uint64_t go_allowed(Go* env, int color) {
    uint64_t empty = go_empty(env), allowed = 0;
    uint64_t captures = go_neighbours(go_threatened(env, !color)), roomy = go_neighbours(empty) & ~captures;
    for (uint64_t points = empty; points != 0; points &= points - 1) {
        int point = bits_lowest(points);
        bool is_plain = (roomy & go_bit(point)) != 0;
        bool may_play =
            is_plain ? !go_is_repeated(env, env->position ^ go_key(color, point)) : go_may_play(env, color, point);
        if (may_play) allowed |= go_bit(point);
    }
    return allowed;
}

// --------------------------------------------------------------------------------------------------------------- turns

PUFFER_FN void go_remove(Go* env, int color, uint64_t stones) {
    env->stones[color] &= ~stones;
    env->roots &= ~stones;
}

PUFFER_FN void go_place(Go* env, int color, int point) {
    GoMove move = go_imagine(env, color, point);
    env->position = go_position_after(env, color, point, &move);
    env->stones[color] |= go_bit(point);
    env->parents[point] = (uint8_t)point;
    for (uint64_t roots = move.joined; roots != 0; roots &= roots - 1) {
        env->parents[bits_lowest(roots)] = (uint8_t)point;
    }
    env->roots = (env->roots & ~move.joined) | go_bit(point);
    env->chains[point] = move.chain;
    go_remove(env, !color, move.captured);
    if (move.liberties == 0) go_remove(env, color, move.chain);
    go_remember_position(env);
}

// Returns whether it was the second pass in a row, after which the game is over.
PUFFER_FN bool go_take_turn(Go* env, int color, int point) {
    bool is_over = point == GO_PASS && env->has_passed;
    env->turns += 1;
    env->has_passed = point == GO_PASS;
    if (point != GO_PASS) go_place(env, color, point);
    return is_over;
}

// Black's points less white's, without what white gets for moving second.
PUFFER_FN int go_count_area(uint64_t black, uint64_t white, uint64_t empty) {
    uint64_t near_black = go_reach(black, empty), near_white = go_reach(white, empty);
    return bits_count(near_black & ~near_white) - bits_count(near_white & ~near_black);
}

// How far a colour is ahead as the board stands.
PUFFER_FN float go_margin(const Go* env, int color) {
    int area = go_count_area(env->stones[GO_BLACK], env->stones[GO_WHITE], go_empty(env));
    float margin = (float)area - GO_KOMI;
    return color == GO_BLACK ? margin : -margin;
}

// -------------------------------------------------------------------------------------------------------- the opponent

// Of the liberties of some chains, told by their roots, one where a stone's own chain has at least `least` liberties:
// that of the largest chain among those with just so many `liberties`. GO_PASS if there is none.
PUFFER_FN int go_best_contact(Go* env, int color, uint64_t roots, int liberties, uint64_t allowed, int least) {
    int best = GO_PASS, most = 0;
    for (; roots != 0; roots &= roots - 1) {
        uint64_t chain = env->chains[bits_lowest(roots)], points = go_liberties(env, chain);
        if (bits_count(points) != liberties || bits_count(chain) <= most) continue;
        for (points &= allowed; points != 0; points &= points - 1) {
            int point = bits_lowest(points);
            GoMove move = go_imagine(env, color, point);
            if (bits_count(move.liberties) < least) continue;
            best = point;
            most = bits_count(chain);
        }
    }
    return best;
}

// Any of the points where the stone's chain would have two liberties, each with the same chance.
PUFFER_FN int go_any_safe(Go* env, int color, uint64_t points) {
    while (points != 0) {
        uint64_t left = points;
        for (int skip = rng_below(&env->rng, bits_count(points)); skip > 0; skip--) left &= left - 1;
        int point = bits_lowest(left);
        GoMove move = go_imagine(env, color, point);
        if (!go_is_one(move.liberties) && move.liberties != 0) return point;
        points &= ~go_bit(point);
    }
    return GO_PASS;
}

// Of the same points the one after which the count is best; the first of several in an order drawn anew.
PUFFER_FN int go_best_counted(Go* env, int color, uint64_t points) {
    int best = GO_PASS, most = 0;
    for (int point = go_any_safe(env, color, points); point != GO_PASS; point = go_any_safe(env, color, points)) {
        GoMove move = go_imagine(env, color, point);
        uint64_t own = env->stones[color] | move.chain, other = env->stones[!color] & ~move.captured;
        int area = go_count_area(own, other, go_board(env) & ~(own | other));
        if (best == GO_PASS || area > most) best = point, most = area;
        points &= ~go_bit(point);
    }
    return best;
}

// The point that the opponent chooses, or GO_PASS.
PUFFER_FN int go_choose(Go* env, int color) {
    if (env->has_passed && go_margin(env, color) > 0.0f) return GO_PASS;
    uint64_t allowed = go_allowed(env, color), own = env->stones[color], other = env->stones[!color];
    int choice = GO_PASS;
    if (env->strength >= GO_CAPTURES) choice = go_best_contact(env, color, env->roots & other, 1, allowed, 0);
    if (choice == GO_PASS && env->strength >= GO_SAVES) {
        choice = go_best_contact(env, color, env->roots & own, 1, allowed, 2);
    }
    if (choice == GO_PASS && env->strength >= GO_THREATENS) {
        choice = go_best_contact(env, color, env->roots & other, 2, allowed, 2);
    }
    if (choice != GO_PASS) return choice;
    uint64_t points = allowed & go_neighbours(go_board(env) & ~own);  // not its eyes
    return env->strength >= GO_COUNTS ? go_best_counted(env, color, points) : go_any_safe(env, color, points);
}

// ------------------------------------------------------------------------------------------------------------ episodes

PUFFER_FN int go_color(const Go* env, int agent) { return agent == 0 ? env->agent_color : !env->agent_color; }

// The agent to move: of two the one whose colour has the turn.
PUFFER_FN int go_mover(const Go* env) { return env->agents == 2 && env->turns % GO_COLORS != env->agent_color; }

// Writes one of the boards of an agent's observation: the points that are others than before.
PUFFER_FN void go_show(Go* env, int agent, int board, uint64_t points) {
    uint8_t* cells = env->observations + agent * go_observation_size(env) + board * go_num_points(env);
    for (uint64_t changed = points ^ env->shown[agent][board]; changed != 0; changed &= changed - 1) {
        int point = bits_lowest(changed);
        cells[point / GO_ROW * env->size + point % GO_ROW] = (uint8_t)(points >> point & 1);
    }
    env->shown[agent][board] = points;
}

PUFFER_FN void go_write_observation(Go* env, int agent) {
    int own = go_color(env, agent), other = !own;
    bool is_to_move = agent == go_mover(env);
    env->masks[agent] = is_to_move;
    go_show(env, agent, 0, env->stones[own]);
    go_show(env, agent, 1, env->stones[other]);
    go_show(env, agent, 2, go_threatened(env, own));
    go_show(env, agent, 3, go_threatened(env, other));
    go_show(env, agent, GO_ALLOWED, is_to_move ? go_allowed(env, own) : 0);
    go_show(env, agent, 5, env->last_move == GO_PASS || !is_to_move ? 0 : go_bit(env->last_move));
    int count = go_num_points(env);
    uint8_t *boards = env->observations + agent * go_observation_size(env), *flags = boards + GO_BOARDS * count;
    flags[0] = own == GO_BLACK;
    flags[1] = env->has_passed;
    uint8_t* allowed = env->action_masks + agent * (count + 1);
    for (int i = 0; i < count; i++) allowed[i] = boards[GO_ALLOWED * count + i] & 1;  // a file's rows may be anything
    allowed[count] = 1;
}

PUFFER_FN void go_write_observations(Go* env) {
    for (int agent = 0; agent < env->agents; agent++) go_write_observation(env, agent);
}

// The opponent's turn, or that of one of two agents in whose place it moves.
PUFFER_FN bool go_reply(Go* env) {
    int color = env->turns % GO_COLORS, point = go_choose(env, color);
    env->last_move = (uint8_t)point;
    return go_take_turn(env, color, point);
}

// An empty board, as the game begins.
PUFFER_FN void go_clear(Go* env) {
    env->stones[GO_BLACK] = env->stones[GO_WHITE] = env->roots = 0;
    memset(env->filter, 0, sizeof(env->filter));
    env->position = 0;
    env->num_positions = 0;
    go_remember_position(env);
    env->has_passed = false;
    env->turns = 0;
    env->steps = 0;
    env->last_move = GO_PASS;
}

PUFFER_FN void go_draw_strength(Go* env) {
    int drawn = rng_below(&env->rng, GO_DRAWS);
    env->strength = (int8_t)(drawn < GO_STRENGTHS ? drawn : GO_COUNTS);
}

PUFFER_FN void c_reset(Go* env) {
    go_clear(env);
    if (env->draws_strength) go_draw_strength(env);
    env->agent_color = (uint8_t)rng_below(&env->rng, GO_COLORS);
    if (env->agent_color == GO_WHITE && env->agents == 1) go_reply(env);
    memset(env->shown, 0, sizeof(env->shown));
    memset(env->observations, 0, (size_t)(env->agents * go_observation_size(env)));
    go_write_observations(env);
}

PUFFER_FN void go_finish_episode(Go* env, uint8_t* flags) {
    for (int agent = 0; agent < env->agents; agent++) {
        float margin = go_margin(env, go_color(env, agent));
        flags[agent] = 1;
        if (flags == env->terminals) env->rewards[agent] = margin > 0.0f ? 1.0f : -1.0f;
        env->log.perf += margin > 0.0f ? 1.0f : 0.0f;
        env->log.score += margin;
        env->log.episode_return += env->rewards[agent];
        env->log.episode_length += (float)env->steps;
        env->log.n += 1.0f;
    }
    go_write_observations(env);
    keep_final(env->final_observations, env->observations, (size_t)(env->agents * go_observation_size(env)));
    c_reset(env);
}

// The point of the action of the agent to move, or GO_PASS.
PUFFER_FN int go_action(Go* env) {
    int agent = go_mover(env), action = ((const int32_t*)env->actions)[agent];
    if (action < 0 || action >= go_num_points(env)) return GO_PASS;
    int point = GO_ROW * (action / env->size) + action % env->size;
    return go_may_play(env, go_color(env, agent), point) ? point : GO_PASS;
}

// Whether one of two agents has the opponent move in its place.
PUFFER_FN bool go_asks_bot(const Go* env) {
    return env->agents == 2 && ((const int32_t*)env->actions)[go_mover(env)] == PUFFER_BOT_MOVES;
}

PUFFER_FN bool go_is_cut(const Go* env) { return env->turns >= GO_TURNS_PER_POINT * go_num_points(env); }

PUFFER_FN void c_step(Go* env) {
    memset(env->rewards, 0, (size_t)env->agents * sizeof(float));
    memset(env->terminals, 0, (size_t)env->agents);
    memset(env->truncations, 0, (size_t)env->agents);
    env->steps += 1;
    bool asks_bot = go_asks_bot(env), is_over = false;
    if (!asks_bot) {
        int point = go_action(env);
        is_over = go_take_turn(env, go_color(env, go_mover(env)), point);
        if (env->agents == 2) env->last_move = (uint8_t)point;
    }
    if (asks_bot || (env->agents == 1 && !is_over && !go_is_cut(env))) is_over = go_reply(env);
    if (is_over) {
        go_finish_episode(env, env->terminals);
    } else if (go_is_cut(env)) {
        go_finish_episode(env, env->truncations);
    } else {
        go_write_observations(env);
    }
}

// ----------------------------------------------------------------------------------------------------------- snapshots

// Whether every stone finds its chain, as it really is, along the parents.
PUFFER_FN bool go_accepts_chains(const Go* saved) {
    for (int color = 0; color < GO_COLORS; color++) {
        for (uint64_t stones = saved->stones[color]; stones != 0; stones &= stones - 1) {
            int point = bits_lowest(stones), root = point;
            for (int way = 0; way < GO_POINTS && saved->parents[root] < GO_POINTS; way++) root = saved->parents[root];
            uint64_t chain = go_reach(go_bit(point), saved->stones[color]);
            if (saved->parents[root] != root || (saved->roots & go_bit(root)) == 0) return false;
            if (saved->chains[root] != chain || (saved->roots & chain) != go_bit(root)) return false;
            if (go_liberties(saved, chain) == 0) return false;
        }
    }
    return (saved->roots & ~(saved->stones[GO_BLACK] | saved->stones[GO_WHITE])) == 0;
}

PUFFER_FN bool c_accepts(const Go* env, const Go* saved) {
    if (saved->agents != env->agents || saved->size != env->size || !is_bool(&saved->draws_strength)) return false;
    if (saved->draws_strength != env->draws_strength || !is_within(saved->strength, GO_RANDOM, GO_COUNTS)) return false;
    if (!env->draws_strength && saved->strength != env->strength) return false;
    uint64_t black = saved->stones[GO_BLACK], white = saved->stones[GO_WHITE];
    for (int i = 0; i < GO_BOARDS; i++) {
        if (((saved->shown[0][i] | saved->shown[1][i]) & ~go_board(env)) != 0) return false;
    }
    int most_turns = GO_TURNS_PER_POINT * go_num_points(env);
    return (black & white) == 0 && ((black | white) & ~go_board(env)) == 0 && go_accepts_chains(saved) &&
           saved->agent_color < GO_COLORS &&
           (saved->last_move == GO_PASS || (saved->last_move < GO_POINTS && (go_board(env) >> saved->last_move & 1))) &&
           is_bool(&saved->has_passed) && is_within(saved->turns, 0, most_turns - 1) &&
           is_within(saved->num_positions, 1, saved->turns + 1) && is_within(saved->steps, 0, PUFFER_MAX_STEPS);
}
