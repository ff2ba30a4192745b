// backgammon.h - backgammon: bring fifteen checkers home against the other's way, and bear them off before the other.
//
// The rules are those of tournaments, without the doubling cube: a hit checker waits on the bar and enters first; both
// dice are used where that can be, if only one can be the larger one; doubles are played four times; checkers are borne
// off from home alone, from the highest point where a die is larger than that. Both begin with one die each, so that
// the first roll is never a double. There is no limit of moves.
//
// A step moves one checker, so that a turn is up to four steps: 51 choices in place of a number for each way to play a
// roll, and a mask that leaves only moves by which the whole roll can be used. A turn ends when no die is left or none
// can be played; where it begins so, the only choice is to pass.
//
// With `opponent` "self" both players are agents, by turns; with "bot" one is. The bot moves the checker that leaves it
// the most points and the fewest blots, and hits where it can; `bot_random` percent of its moves are any. Of two
// agents, PUFFER_BOT_MOVES of puffer_bot.h has it move for one.
//
// Observation uint8[203], from the player's own side, where point 1 is the last before bearing off:
//   0-95 its checkers by point, 96-191 the other's by the same points, four numbers each: 1 if there is one, if there
//   are two, if there are three, and how many there are beyond three; 192 own and 193 other's checkers on the bar,
//   194 own and 195 other's borne off; 196-201 how often a die of 1 to 6 is to be played still, by who has the turn;
//   202 whether that is the player itself.
// Action: 0-24 moves the checker on point 1-24 or the bar (24) by the larger die, 25-49 by the smaller one; 50 passes.
// A double has larger dice alone. An action that is not legal is the first one that is. Action masks are the legal
// ones; those of an agent that waits allow all.
// Reward: +1 for a win and -1 for a loss, 2 if the loser has borne off none (a gammon), 3 if it has one on the bar or
// in the winner's home as well (a backgammon); both are terminal for both. Score is the same, perf 1 for a win, else 0.
#pragma once

#include "puffer_bits.h"
#include "puffer_bot.h"

enum { BACKGAMMON_POINTS = 24, BACKGAMMON_BAR = 24, BACKGAMMON_OFF = 25, BACKGAMMON_PLACES = 26 };
enum { BACKGAMMON_HOME = 6, BACKGAMMON_CHECKERS = 15, BACKGAMMON_NUM_SOURCES = 25 };
enum { BACKGAMMON_PASS = 2 * BACKGAMMON_NUM_SOURCES, BACKGAMMON_NUM_ACTIONS };
enum { BACKGAMMON_OWN = 0, BACKGAMMON_OTHER = 4 * BACKGAMMON_POINTS };  // in the observation, as the next
enum { BACKGAMMON_SEEN_BAR = 2 * BACKGAMMON_OTHER, BACKGAMMON_SEEN_OFF = BACKGAMMON_SEEN_BAR + 2 };
enum { BACKGAMMON_SEEN_DICE = BACKGAMMON_SEEN_OFF + 2, BACKGAMMON_SEEN_TURN = BACKGAMMON_SEEN_DICE + 6 };
enum { BACKGAMMON_OBSERVATION = BACKGAMMON_SEEN_TURN + 1 };
enum { BACKGAMMON_BOARD = (1 << BACKGAMMON_POINTS) - 1 };

// A point, 0 to 23 from a player's own side, is 23 - point from the other's. Sets of points are bits.
PUFFER_TABLE int8_t BACKGAMMON_START[BACKGAMMON_PLACES] = {0, 0, 0, 0, 0, 5, 0, 3, 0, 0, 0, 0, 5,
                                                           0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0};

typedef struct {
    uint8_t* observations;        // [agents, BACKGAMMON_OBSERVATION]  these eight are borrowed from the caller
    const void* actions;          // int32_t[agents]
    float* rewards;               // [agents]
    uint8_t* terminals;           // [agents]
    uint8_t* truncations;         // [agents]  never set
    uint8_t* action_masks;        // [agents, BACKGAMMON_NUM_ACTIONS]
    uint8_t* masks;               // [agents]
    uint8_t* final_observations;  // [agents, BACKGAMMON_OBSERVATION] or NULL
    Rng rng;
    int bot_random, num_agents;           // keyword arguments; 1 agent and the bot, or 2 agents
    int8_t turn;                          // a player
    int8_t dice[2], left[2];              // the larger and the smaller, and how often each is to be played still
    int8_t counts[2][BACKGAMMON_PLACES];  // checkers by player, and by point, bar and off from its own side
    int own[2], many[2];                  // points and bars with a checker; with at least two
    int blocked[2];                       // points that a player cannot move to: the other's of at least two
    int legal[2];                         // points that a checker may leave by each of the dice
    int num_steps;                        // of this game
    Log log;                              // summed at the end of games, cleared by the reader
} Backgammon;

PUFFER_FN PufferLayout c_layout(const Backgammon* env) {
    return puffer_masked_layout(env->num_agents, BACKGAMMON_OBSERVATION, PUFFER_UINT8, 1, BACKGAMMON_NUM_ACTIONS);
}

// -------------------------------------------------------------------------------------------------------------- rules

PUFFER_FN int backgammon_highest(int points) { return 1 << bits_highest((uint64_t)points); }  // of at least one

// Points from which a checker can move on by a die to a point that is not blocked, no checker being on the bar.
PUFFER_FN int backgammon_inner_moves(int own, int blocked, int die) {
    return own & ~(blocked << die) & (BACKGAMMON_BOARD << die) & BACKGAMMON_BOARD;
}

// Points, or the bar, that a checker can leave by a die.
PUFFER_FN int backgammon_moves(int own, int blocked, int die) {
    if (own >> BACKGAMMON_BAR) return (blocked >> (BACKGAMMON_BAR - die) & 1) ? 0 : 1 << BACKGAMMON_BAR;
    int moves = backgammon_inner_moves(own, blocked, die);
    if (own >> BACKGAMMON_HOME) return moves;
    int beyond = own >> (die - 1);  // checkers that the die bears off exactly, or that are farther
    return moves | (beyond ? own & 1 << (die - 1) : backgammon_highest(own));
}

// The moves by one die after which the other one can be played.
PUFFER_FN int backgammon_followed(int own, int many, int blocked, int moves, int die, int other_die) {
    int others = backgammon_inner_moves(own, blocked, other_die);
    bool is_on_bar = own >> BACKGAMMON_BAR;
    // Two points from which the other die moves, or one with two checkers: one is left whatever moves first.
    if (!is_on_bar && ((others & (others - 1)) || (others & many))) return moves;
    int followed = 0;
    for (int left = moves; left; left &= left - 1) {
        int source = left & -left, target = source >> die;  // 0 if it is borne off
        int after = (own & ~(source & ~many)) | target;
        if (after && backgammon_moves(after, blocked, other_die)) followed |= source;
    }
    return followed;
}

// Finds the legal moves of who has the turn.
PUFFER_FN void backgammon_find_legal(Backgammon* env) {
    int own = env->own[env->turn], many = env->many[env->turn], blocked = env->blocked[env->turn];
    int larger = env->left[0] ? backgammon_moves(own, blocked, env->dice[0]) : 0;
    int smaller = env->left[1] ? backgammon_moves(own, blocked, env->dice[1]) : 0;
    if (env->left[0] && env->left[1]) {
        int followed = backgammon_followed(own, many, blocked, larger, env->dice[0], env->dice[1]);
        int other_followed = backgammon_followed(own, many, blocked, smaller, env->dice[1], env->dice[0]);
        if (followed | other_followed) {
            larger = followed;
            smaller = other_followed;
        } else if (larger) {
            smaller = 0;
        }
    }
    env->legal[0] = larger;
    env->legal[1] = smaller;
}

// Counts bits of a place anew for what depends on it.
PUFFER_FN void backgammon_note(Backgammon* env, int player, int place) {
    int count = env->counts[player][place];
    if (place == BACKGAMMON_OFF) return;
    env->own[player] = (env->own[player] & ~(1 << place)) | (count > 0) << place;
    env->many[player] = (env->many[player] & ~(1 << place)) | (count > 1) << place;
    if (place == BACKGAMMON_BAR) return;
    int mirrored = BACKGAMMON_POINTS - 1 - place, other = 1 - player;
    env->blocked[other] = (env->blocked[other] & ~(1 << mirrored)) | (count > 1) << mirrored;
}

// What a win is worth: the loser's checkers tell.
PUFFER_FN int backgammon_points(const Backgammon* env, int loser) {
    if (env->counts[loser][BACKGAMMON_OFF]) return 1;
    return env->own[loser] >> (BACKGAMMON_POINTS - BACKGAMMON_HOME) ? 3 : 2;
}

// ------------------------------------------------------------------------------------------------ what the agents see

// Four numbers of a point with so many checkers.
PUFFER_FN void backgammon_write_point(uint8_t* numbers, int count) {
    uint8_t seen[4] = {count > 0, count > 1, count > 2, (uint8_t)(count > 3 ? count - 3 : 0)};
    memcpy(numbers, seen, sizeof(seen));
}

// Writes a player's place into every agent's observation.
PUFFER_FN void backgammon_write_place(Backgammon* env, int player, int place) {
    int count = env->counts[player][place];
    for (int agent = 0; agent < env->num_agents; agent++) {
        uint8_t* row = env->observations + agent * BACKGAMMON_OBSERVATION;
        bool is_other = agent != player;
        if (place == BACKGAMMON_BAR) {
            row[BACKGAMMON_SEEN_BAR + is_other] = (uint8_t)count;
        } else if (place == BACKGAMMON_OFF) {
            row[BACKGAMMON_SEEN_OFF + is_other] = (uint8_t)count;
        } else {
            int at = is_other ? BACKGAMMON_OTHER + 4 * (BACKGAMMON_POINTS - 1 - place) : 4 * place;
            backgammon_write_point(row + at, count);
        }
    }
}

PUFFER_FN void backgammon_write_dice(Backgammon* env) {
    uint8_t seen[6] = {0, 0, 0, 0, 0, 0};
    seen[env->dice[0] - 1] = (uint8_t)env->left[0];
    if (env->left[1]) seen[env->dice[1] - 1] = (uint8_t)env->left[1];
    for (int agent = 0; agent < env->num_agents; agent++) {
        uint8_t* row = env->observations + agent * BACKGAMMON_OBSERVATION;
        memcpy(row + BACKGAMMON_SEEN_DICE, seen, sizeof(seen));
        row[BACKGAMMON_SEEN_TURN] = env->turn == agent;
    }
}

PUFFER_FN void backgammon_write_masks(Backgammon* env) {
    for (int agent = 0; agent < env->num_agents; agent++) {
        uint8_t* row = env->action_masks + agent * BACKGAMMON_NUM_ACTIONS;
        env->masks[agent] = env->turn == agent;
        if (env->turn != agent) {
            memset(row, 1, BACKGAMMON_NUM_ACTIONS);
            continue;
        }
        for (int i = 0; i < BACKGAMMON_NUM_SOURCES; i++) row[i] = env->legal[0] >> i & 1;
        for (int i = 0; i < BACKGAMMON_NUM_SOURCES; i++) row[BACKGAMMON_NUM_SOURCES + i] = env->legal[1] >> i & 1;
        row[BACKGAMMON_PASS] = (env->legal[0] | env->legal[1]) == 0;
    }
}

// ----------------------------------------------------------------------------------------------------------- the turns

PUFFER_FN void backgammon_set_dice(Backgammon* env, int die, int other_die) {
    bool is_double = die == other_die;
    env->dice[0] = (int8_t)(die > other_die ? die : other_die);
    env->dice[1] = (int8_t)(die > other_die ? other_die : die);
    env->left[0] = is_double ? 4 : 1;
    env->left[1] = !is_double;
}

PUFFER_FN void backgammon_roll(Backgammon* env) {
    int roll = rng_below(&env->rng, 36);
    backgammon_set_dice(env, 1 + roll / 6, 1 + roll % 6);
}

PUFFER_FN void backgammon_end_turn(Backgammon* env) {
    env->turn = 1 - env->turn;
    backgammon_roll(env);
    backgammon_find_legal(env);
}

PUFFER_FN void backgammon_add(Backgammon* env, int player, int place, int difference) {
    env->counts[player][place] += (int8_t)difference;
    backgammon_note(env, player, place);
    backgammon_write_place(env, player, place);
}

// The action, or the first legal one in its place.
PUFFER_FN int backgammon_meant(const Backgammon* env, int action) {
    if ((env->legal[0] | env->legal[1]) == 0) return BACKGAMMON_PASS;
    int die = action >= BACKGAMMON_NUM_SOURCES, source = action - die * BACKGAMMON_NUM_SOURCES;
    bool is_move = is_within(action, 0, BACKGAMMON_PASS - 1);
    if (is_move && (env->legal[die] >> source & 1)) return action;
    if (env->legal[0]) return bits_lowest((uint64_t)env->legal[0]);
    return BACKGAMMON_NUM_SOURCES + bits_lowest((uint64_t)env->legal[1]);
}

// Plays a legal action of who has the turn; returns whether it ends the game.
PUFFER_FN bool backgammon_play(Backgammon* env, int action) {
    int player = env->turn, other = 1 - player;
    if (action == BACKGAMMON_PASS) {
        backgammon_end_turn(env);
        return false;
    }
    int die = action >= BACKGAMMON_NUM_SOURCES, source = action - die * BACKGAMMON_NUM_SOURCES;
    int target = source - env->dice[die], hit = BACKGAMMON_POINTS - 1 - target;
    backgammon_add(env, player, source, -1);
    if (target >= 0 && (env->own[other] >> hit & 1)) {
        backgammon_add(env, other, hit, -1);
        backgammon_add(env, other, BACKGAMMON_BAR, 1);
    }
    backgammon_add(env, player, target < 0 ? BACKGAMMON_OFF : target, 1);
    env->left[die] -= 1;
    if (env->counts[player][BACKGAMMON_OFF] == BACKGAMMON_CHECKERS) return true;
    backgammon_find_legal(env);
    if ((env->legal[0] | env->legal[1]) == 0) backgammon_end_turn(env);
    return false;
}

// ------------------------------------------------------------------------------------------------------------ the bot

// How a player likes its checkers: points held, more at home, and blots that can be hit, worse the nearer to home.
PUFFER_FN int backgammon_liking(int own, int many, int others) {
    int home = (1 << BACKGAMMON_HOME) - 1, outer = BACKGAMMON_BOARD >> 12 & ~home;
    int in_reach = others ? ~(others & -others) & -(others & -others) : 0;  // points that the other is still to pass
    int blots = own & ~many & BACKGAMMON_BOARD & in_reach;
    return 4 * bits_count((uint64_t)(many & home)) + 2 * bits_count((uint64_t)(many & outer)) -
           3 * bits_count((uint64_t)blots) - 2 * bits_count((uint64_t)(blots & (home | outer)));
}

// The points of the other, from a player's own side.
PUFFER_FN int backgammon_others(const Backgammon* env, int player) {
    int others = 0, other = 1 - player;
    for (int left = env->own[other] & BACKGAMMON_BOARD; left; left &= left - 1) {
        others |= 1 << (BACKGAMMON_POINTS - 1 - bits_lowest((uint64_t)left));
    }
    return others;
}

PUFFER_FN int backgammon_bot_action(Backgammon* env) {
    int num_legal = bits_count((uint64_t)env->legal[0]) + bits_count((uint64_t)env->legal[1]);
    if (num_legal == 0) return BACKGAMMON_PASS;
    bool is_any = rng_below(&env->rng, 100) < env->bot_random;
    int any = is_any ? rng_below(&env->rng, num_legal) : -1, best = 0, most = -1000, index = 0;
    int player = env->turn, own = env->own[player], many = env->many[player], others = backgammon_others(env, player);
    for (int die = 0; die < 2; die++) {
        for (int left = env->legal[die]; left; left &= left - 1) {
            int source = left & -left, target = source >> env->dice[die];
            int after = (own & ~(source & ~many)) | target, count = env->counts[player][bits_lowest((uint64_t)source)];
            int many_after = (count == 2 ? many & ~source : many) | (target & own);
            bool is_hit = (target & others) != 0;
            int value = backgammon_liking(after, many_after, others & ~target) + (is_hit ? 6 : target == 0 ? 3 : 0);
            if (index++ == any) value = 1000;
            if (value <= most) continue;
            most = value;
            best = die * BACKGAMMON_NUM_SOURCES + bits_lowest((uint64_t)source);
        }
    }
    return best;
}

// The bot's turn, up to the agent's or the end of the game.
PUFFER_FN bool backgammon_let_bot_play(Backgammon* env) {
    while (env->turn == env->num_agents) {
        if (backgammon_play(env, backgammon_bot_action(env))) return true;
    }
    return false;
}

// ------------------------------------------------------------------------------------------------------------ episodes

PUFFER_FN void backgammon_set_up(Backgammon* env) {
    for (int player = 0; player < 2; player++) {
        memcpy(env->counts[player], BACKGAMMON_START, sizeof(BACKGAMMON_START));
        for (int place = 0; place < BACKGAMMON_PLACES; place++) {
            backgammon_note(env, player, place);
            backgammon_write_place(env, player, place);
        }
    }
}

PUFFER_FN void backgammon_write(Backgammon* env) {
    backgammon_write_dice(env);
    backgammon_write_masks(env);
}

PUFFER_FN void c_reset(Backgammon* env) {
    backgammon_set_up(env);
    env->num_steps = 0;
    int roll = rng_below(&env->rng, 30), die = roll / 5, other_die = roll % 5;  // who rolled the larger one begins
    other_die += other_die >= die;
    env->turn = die < other_die;
    backgammon_set_dice(env, 1 + die, 1 + other_die);
    backgammon_find_legal(env);
    backgammon_let_bot_play(env);  // a game is longer than one turn
    backgammon_write(env);
}

PUFFER_FN void backgammon_finish_game(Backgammon* env, int winner) {
    int points = backgammon_points(env, 1 - winner);
    backgammon_write_dice(env);
    for (int agent = 0; agent < env->num_agents; agent++) {
        bool is_won = agent == winner;
        float reward = (float)(is_won ? points : -points);
        env->rewards[agent] = reward;
        env->terminals[agent] = 1;
        env->log.perf += (float)is_won;
        env->log.score += reward;
        env->log.episode_return += reward;
        env->log.episode_length += (float)env->num_steps;
        env->log.n += 1.0f;
    }
    keep_final(env->final_observations, env->observations, (size_t)(env->num_agents * BACKGAMMON_OBSERVATION));
    c_reset(env);
}

// The move of the agent whose turn it is, or of the bot in its place.
PUFFER_FN int backgammon_agent_action(Backgammon* env) {
    int action = ((const int32_t*)env->actions)[env->turn];
    bool is_bots = action == PUFFER_BOT_MOVES && env->num_agents == 2;
    return is_bots ? backgammon_bot_action(env) : backgammon_meant(env, action);
}

PUFFER_FN void c_step(Backgammon* env) {
    int action = backgammon_agent_action(env);
    for (int agent = 0; agent < env->num_agents; agent++) {
        env->rewards[agent] = 0.0f;
        env->terminals[agent] = env->truncations[agent] = 0;
    }
    env->num_steps += 1;
    if (backgammon_play(env, action) || backgammon_let_bot_play(env)) {
        backgammon_finish_game(env, env->turn);
    } else {
        backgammon_write(env);
    }
}

// Fifteen checkers each, no point of both, and all that follows from them and the dice as it must be.
PUFFER_FN bool c_accepts(const Backgammon* env, const Backgammon* saved) {
    if (saved->bot_random != env->bot_random || saved->num_agents != env->num_agents) return false;
    if (!is_within(saved->turn, 0, env->num_agents - 1)) return false;
    Backgammon found = *saved;
    memset(found.own, 0, sizeof(found.own));
    memset(found.many, 0, sizeof(found.many));
    memset(found.blocked, 0, sizeof(found.blocked));
    for (int player = 0; player < 2; player++) {
        int num_checkers = 0;
        for (int place = 0; place < BACKGAMMON_PLACES; place++) {
            if (!is_within(saved->counts[player][place], 0, BACKGAMMON_CHECKERS)) return false;
            num_checkers += saved->counts[player][place];
            backgammon_note(&found, player, place);
        }
        bool can_go_on = num_checkers == BACKGAMMON_CHECKERS && found.own[player] != 0;
        if (!can_go_on || found.own[player] != saved->own[player] || found.many[player] != saved->many[player]) {
            return false;
        }
    }
    if (!is_within(saved->num_steps, 0, PUFFER_MAX_STEPS) || (backgammon_others(&found, 0) & found.own[0]))
        return false;
    for (int die = 0; die < 2; die++) {
        if (found.blocked[die] != saved->blocked[die] || !is_within(saved->dice[die], 1, 6)) return false;
    }
    bool is_double = saved->dice[0] == saved->dice[1];
    if (saved->dice[0] < saved->dice[1] || !is_within(saved->left[0], 0, is_double ? 4 : 1) ||
        !is_within(saved->left[1], 0, !is_double) || saved->left[0] + saved->left[1] == 0) {
        return false;
    }
    backgammon_find_legal(&found);
    return found.legal[0] == saved->legal[0] && found.legal[1] == saved->legal[1];
}
