// poker.h - poker for two with fixed bets: Kuhn's with three cards, Leduc with six, or limit hold'em with fifty-two.
//
// game    cards              own  board        before the cards  bets by round  raises of a round at most
// kuhn    one suit of 3      1    none         1 chip each       1              1
// leduc   two suits of 3     1    1            1 chip each       2, 4           2
// holdem  four suits of 13   2    3, 1 and 1   blinds of 1, 2    2, 2, 4, 4     4, of which one is the blind
//
// A round of bets comes before the board and one after each deal of it. Who is first in a hand is drawn by chance. In
// hold'em the first has the small blind, and the other one is first in all rounds but that one. At the end the better
// cards have the pot: the higher card, in Leduc a pair with the board before that, in hold'em the best five of seven.
// Equal cards share it. Chips never run out.
//
// With `opponent` "self" both players are agents, by turns; with "bot" one is. The bot completes the unseen cards
// POKER_SAMPLES times by chance: it raises if it wins often, folds if the pot does not pay for a call, and acts by
// chance in `bot_random` percent of its turns. It does not fold before the agent has acted.
//
// Observation uint8[10] for kuhn, [29] for leduc, [257] for holdem, all 0 or 1:
//   0 the player is the first of the hand; then its own cards, a number for each card that there is; the cards of each
//   deal of the board likewise; and the bets, round by round and turn by turn, two numbers for each turn that a round
//   may have: a check or call, a bet or raise.
// That is all that a player knows: what the other one holds is never in it.
// Action: 0 fold, 1 check or call, 2 bet or raise. A fold with nothing to call, a raise too many and any other number
// are a check or call. Action masks are the legal ones; those of an agent that waits allow all. Of two agents,
// PUFFER_BOT_MOVES of puffer_bot.h has the bot act for one.
// Reward, for both at the end of a hand, which is terminal: the chips won or lost, by the most that one can lose: 2 in
// kuhn, 13 in leduc, 48 in holdem.
// Score is the chips, perf 0.5 + 0.5 * reward.
#pragma once

#include "puffer_bits.h"
#include "puffer_bot.h"

enum { POKER_KUHN, POKER_LEDUC, POKER_HOLDEM, POKER_NUM_GAMES };
enum { POKER_FOLD, POKER_CALL, POKER_RAISE, POKER_NUM_ACTIONS };
enum { POKER_MAX_ROUNDS = 4, POKER_MAX_HOLE = 2, POKER_MAX_BOARD = 5, POKER_SAMPLES = 32 };
enum { POKER_NO_CARD = 255 };

typedef struct {
    int num_ranks, num_suits, num_hole, num_rounds, num_turns;  // turns of a round at most
    int num_dealt[POKER_MAX_ROUNDS];                            // cards of the board, before the round
    int bets[POKER_MAX_ROUNDS], max_raises[POKER_MAX_ROUNDS];
    int blinds[2];  // of the first player and of the other
    int stake;      // the most that a player can lose
} PokerRules;

PUFFER_TABLE PokerRules POKER_RULES[POKER_NUM_GAMES] = {
    {3, 1, 1, 1, 3, {0, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}, {1, 1}, 2},
    {3, 2, 1, 2, 4, {0, 1, 0, 0}, {2, 4, 0, 0}, {2, 2, 0, 0}, {1, 1}, 13},
    {13, 4, 2, 4, 6, {0, 3, 1, 1}, {2, 2, 4, 4}, {3, 4, 4, 4}, {1, 2}, 48},
};

// ------------------------------------------------------------------------------------------------- what a hand is
// worth

enum {
    POKER_HIGH_CARD,
    POKER_PAIR,
    POKER_TWO_PAIRS,
    POKER_THREE,
    POKER_STRAIGHT,
    POKER_FLUSH,
    POKER_FULL_HOUSE,
    POKER_FOUR,
    POKER_STRAIGHT_FLUSH
};

// A class of hands and what tells two of it apart: sets of ranks, which compare as their highest ones do.
PUFFER_FN int poker_value(int kind, int main_ranks, int kickers) { return kind << 26 | main_ranks << 13 | kickers; }

PUFFER_FN int poker_highest(int ranks) { return 1 << bits_highest((uint64_t)ranks); }  // of at least one

// The highest `count` of more ranks than that, or all.
PUFFER_FN int poker_top(int ranks, int count) {
    for (int left = bits_count((uint64_t)ranks) - count; left > 0; left--) ranks &= ranks - 1;
    return ranks;
}

// The lowest rank, 1 the ace, of the best five that follow each other, as one bit; 0 if there are none.
PUFFER_FN int poker_straight(int ranks) {
    int with_low_ace = ranks << 1 | ranks >> 12;
    int lowest = with_low_ace & with_low_ace >> 1 & with_low_ace >> 2 & with_low_ace >> 3 & with_low_ace >> 4;
    return lowest ? poker_highest(lowest) : 0;
}

// The best five of up to seven cards, bits suit * 13 + rank: the better hand has the higher number. Of fewer than five
// cards the pairs count, and the high cards.
PUFFER_FN int poker_evaluate(uint64_t cards) {
    int suits[4];
    for (int i = 0; i < 4; i++) suits[i] = (int)(cards >> 13 * i & 0x1FFF);
    int a = suits[0], b = suits[1], c = suits[2], d = suits[3];
    int ranks = a | b | c | d, pairs = (a & b) | (c & d) | ((a | b) & (c | d));  // ranks that are there at least twice
    if (bits_count((uint64_t)ranks) >= 5) {
        for (int i = 0; i < 4; i++) {
            if (bits_count((uint64_t)suits[i]) < 5) continue;  // five of a suit leave no room for four or a full house
            int straight = poker_straight(suits[i]);
            return straight ? poker_value(POKER_STRAIGHT_FLUSH, straight, 0)
                            : poker_value(POKER_FLUSH, 0, poker_top(suits[i], 5));
        }
    }
    if (pairs == 0) {
        int straight = poker_straight(ranks);
        return straight ? poker_value(POKER_STRAIGHT, straight, 0)
                        : poker_value(POKER_HIGH_CARD, 0, poker_top(ranks, 5));
    }
    int threes = (a & b & (c | d)) | (c & d & (a | b)), four = a & b & c & d;
    if (four) return poker_value(POKER_FOUR, four, poker_highest(ranks & ~four));
    int best = poker_highest(threes ? threes : pairs), second = pairs & ~best;
    if (threes && second) return poker_value(POKER_FULL_HOUSE, best, poker_highest(second));
    int straight = poker_straight(ranks);
    if (straight) return poker_value(POKER_STRAIGHT, straight, 0);
    if (threes) return poker_value(POKER_THREE, best, poker_top(ranks & ~best, 2));
    if (second == 0) return poker_value(POKER_PAIR, best, poker_top(ranks & ~best, 3));
    int both = best | poker_highest(second), kicker = ranks & ~both;
    return poker_value(POKER_TWO_PAIRS, both, kicker ? poker_highest(kicker) : 0);
}

// ---------------------------------------------------------------------------------------------------- the environment

typedef struct {
    uint8_t* observations;        // [agents, poker_observation_size]  these eight are borrowed from the caller
    const void* actions;          // int32_t[agents]
    float* rewards;               // [agents]
    uint8_t* terminals;           // [agents]
    uint8_t* truncations;         // [agents]  never set
    uint8_t* action_masks;        // [agents, 3]
    uint8_t* masks;               // [agents]
    uint8_t* final_observations;  // [agents, poker_observation_size] or NULL
    Rng rng;
    int game, bot_random;                 // keyword arguments
    uint8_t holes[2][POKER_MAX_HOLE];     // cards: suit * ranks + rank
    uint8_t board[POKER_MAX_BOARD];       // as far as dealt, then POKER_NO_CARD
    int8_t first, turn;                   // players: of the hand, and whose turn it is
    int8_t round, num_turns, num_raises;  // of the round
    int8_t num_board;                     // cards
    int16_t chips[2];                     // in the pot, by player
    int num_steps;                        // since the hand was dealt
    int observation_size, num_cards;      // by the game
    int num_agents;                       // 1 and the bot, or 2
    Log log;                              // summed at the end of hands, cleared by the reader
} Poker;

PUFFER_FN const PokerRules* poker_rules(const Poker* env) { return &POKER_RULES[env->game]; }

// Once the arguments are set: what follows from them.
PUFFER_FN void poker_configure(Poker* env) {
    const PokerRules* rules = poker_rules(env);
    int num_deals = 1;
    for (int i = 0; i < rules->num_rounds; i++) num_deals += rules->num_dealt[i] > 0;
    env->num_cards = rules->num_ranks * rules->num_suits;
    env->observation_size = 1 + env->num_cards * num_deals + 2 * rules->num_rounds * rules->num_turns;
}

PUFFER_FN PufferLayout c_layout(const Poker* env) {
    return puffer_masked_layout(env->num_agents, env->observation_size, PUFFER_UINT8, 1, POKER_NUM_ACTIONS);
}

// --------------------------------------------------------------------------------------------------------- the cards

// A card as a bit of poker_evaluate's; games of fewer than thirteen ranks have at most two suits.
PUFFER_FN uint64_t poker_bit(const PokerRules* rules, int card) {
    return 1ull << (card >= rules->num_ranks ? card + 13 - rules->num_ranks : card);
}

// What is known of a player's hand: its own cards and those of the board.
PUFFER_FN uint64_t poker_hand(const Poker* env, int player) {
    const PokerRules* rules = poker_rules(env);
    uint64_t hand = 0;
    for (int i = 0; i < rules->num_hole; i++) hand |= poker_bit(rules, env->holes[player][i]);
    for (int i = 0; i < env->num_board; i++) hand |= poker_bit(rules, env->board[i]);
    return hand;
}

// The rank of a card, in a game of at most two suits.
PUFFER_FN int poker_rank(const PokerRules* rules, int card) {
    return card >= rules->num_ranks ? card - rules->num_ranks : card;
}

// What the player's hand is worth when all cards are dealt: the better one has the higher number.
PUFFER_FN int poker_strength(const Poker* env, int player) {
    const PokerRules* rules = poker_rules(env);
    if (rules->num_hole > 1) return poker_evaluate(poker_hand(env, player));
    int rank = poker_rank(rules, env->holes[player][0]);
    bool is_pair = rank == poker_rank(rules, env->board[0]);  // never with POKER_NO_CARD
    return is_pair ? rules->num_ranks + rank : rank;
}

// A card that is none of `taken`, bits by number, which it joins.
PUFFER_FN uint8_t poker_draw(Rng* rng, int num_cards, uint64_t* taken) {
    int card;
    do card = rng_below(rng, num_cards);
    while (*taken >> card & 1);
    *taken |= 1ull << card;
    return (uint8_t)card;
}

PUFFER_FN uint64_t poker_taken(const Poker* env, bool of_both) {
    uint64_t taken = 0;
    for (int i = 0; i < poker_rules(env)->num_hole; i++) {
        taken |= 1ull << env->holes[env->turn][i];
        if (of_both) taken |= 1ull << env->holes[1 - env->turn][i];
    }
    for (int i = 0; i < env->num_board; i++) taken |= 1ull << env->board[i];
    return taken;
}

// Sets a number of every agent's observation.
PUFFER_FN void poker_show(Poker* env, int index) {
    uint8_t* observations = env->observations;
    int last = env->num_agents - 1;
    observations[index] = observations[last * env->observation_size + index] = 1;
}

PUFFER_FN void poker_deal_board(Poker* env) {
    const PokerRules* rules = poker_rules(env);
    if (rules->num_dealt[env->round] == 0) return;
    uint64_t taken = poker_taken(env, true);
    for (int i = 0; i < rules->num_dealt[env->round]; i++) {
        uint8_t card = poker_draw(&env->rng, env->num_cards, &taken);
        env->board[env->num_board++] = card;
        poker_show(env, 1 + env->round * env->num_cards + card);
    }
}

PUFFER_FN void poker_deal_hands(Poker* env) {
    const PokerRules* rules = poker_rules(env);
    uint64_t taken = 0;
    memset(env->board, POKER_NO_CARD, sizeof(env->board));
    memset(env->observations, 0, (size_t)(env->num_agents * env->observation_size));
    for (int player = 0; player < 2; player++) {
        uint8_t* row = env->observations + player * env->observation_size;
        bool is_seen = player < env->num_agents;
        if (is_seen) row[0] = env->first == player;
        for (int i = 0; i < rules->num_hole; i++) {
            uint8_t card = poker_draw(&env->rng, env->num_cards, &taken);
            env->holes[player][i] = card;
            if (is_seen) row[1 + card] = 1;
        }
    }
}

// ---------------------------------------------------------------------------------------------------------- the bets

PUFFER_FN bool poker_can_fold(const Poker* env) { return env->chips[env->turn] < env->chips[1 - env->turn]; }
PUFFER_FN bool poker_can_raise(const Poker* env) { return env->num_raises < poker_rules(env)->max_raises[env->round]; }

// What an action stands for: a check or call where it is not legal.
PUFFER_FN int poker_meant(const Poker* env, int action) {
    bool is_legal = action == POKER_FOLD ? poker_can_fold(env) : action == POKER_RAISE && poker_can_raise(env);
    return is_legal ? action : POKER_CALL;
}

PUFFER_FN void poker_begin_round(Poker* env) {
    env->num_turns = env->num_raises = 0;
    env->turn = env->game == POKER_HOLDEM && env->round > 0 ? 1 - env->first : env->first;
    poker_deal_board(env);
}

// Plays the action of who has the turn. At the end of the hand returns true, with the chips that player 0 wins.
PUFFER_FN bool poker_play(Poker* env, int action, int* won) {
    const PokerRules* rules = poker_rules(env);
    int player = env->turn, other = 1 - player;
    if (action == POKER_FOLD) {
        *won = player == 0 ? -env->chips[0] : env->chips[1];
        return true;
    }
    bool is_raise = action == POKER_RAISE, is_round_over = !is_raise && env->num_turns > 0;
    int turns_left = (rules->num_rounds - env->round) * rules->num_turns - env->num_turns;  // of the hand, at most
    int bet = is_raise ? rules->bets[env->round] : 0;
    env->chips[player] = (int16_t)(env->chips[other] + bet);
    env->num_raises = (int8_t)(env->num_raises + is_raise);
    env->num_turns += 1;
    env->turn = (int8_t)other;
    poker_show(env, env->observation_size - 2 * turns_left + is_raise);
    if (!is_round_over) return false;
    if (++env->round < rules->num_rounds) {
        poker_begin_round(env);
        return false;
    }
    env->round -= 1;
    int value = poker_strength(env, 0), other_value = poker_strength(env, 1);
    *won = value == other_value ? 0 : value > other_value ? env->chips[1] : -env->chips[0];
    return true;
}

// ------------------------------------------------------------------------------------------------------------ the bot

// How often the one whose turn it is wins, 0 to 1, against cards drawn by chance; a tie is half a win.
PUFFER_FN float poker_chance(Poker* env) {
    const PokerRules* rules = poker_rules(env);
    uint64_t known = poker_taken(env, false), own = poker_hand(env, env->turn), common = 0;
    int num_left = -env->num_board, halves = 0;
    for (int i = 0; i < rules->num_rounds; i++) num_left += rules->num_dealt[i];
    for (int i = 0; i < env->num_board; i++) common |= poker_bit(rules, env->board[i]);
    for (int sample = 0; sample < POKER_SAMPLES; sample++) {
        uint64_t taken = known, drawn = 0, others = 0;
        for (int i = 0; i < num_left; i++) drawn |= poker_bit(rules, poker_draw(&env->rng, env->num_cards, &taken));
        for (int i = 0; i < rules->num_hole; i++) {
            others |= poker_bit(rules, poker_draw(&env->rng, env->num_cards, &taken));
        }
        int value = poker_evaluate(own | drawn), other_value = poker_evaluate(others | common | drawn);
        halves += (value > other_value) + (value >= other_value);
    }
    return (float)halves * (0.5f / (float)POKER_SAMPLES);
}

PUFFER_FN int poker_bot_action(Poker* env) {
    bool may_fold = poker_can_fold(env) && env->num_steps > 0;
    if (rng_below(&env->rng, 100) < env->bot_random) {
        int action = poker_meant(env, rng_below(&env->rng, POKER_NUM_ACTIONS));
        return action == POKER_FOLD && !may_fold ? POKER_CALL : action;
    }
    float chance = poker_chance(env);
    if (chance > 0.6f && poker_can_raise(env)) return POKER_RAISE;
    int price = env->chips[1 - env->turn] - env->chips[env->turn], pot = env->chips[0] + env->chips[1] + price;
    return may_fold && chance * (float)pot < (float)price ? POKER_FOLD : POKER_CALL;
}

// ----------------------------------------------------------------------------------------------------- what agents see

// The action masks of an agent that waits are 1.
PUFFER_FN void poker_write_turn(Poker* env) {
    int turn = env->turn, last = env->num_agents - 1;  // the bot has no turn here
    bool can_fold = poker_can_fold(env), can_raise = poker_can_raise(env);
    uint8_t *masks = env->masks, *choices = env->action_masks;
    masks[0] = masks[last] = 0;
    masks[turn] = 1;
    memset(choices, 1, POKER_NUM_ACTIONS);
    memset(choices + POKER_NUM_ACTIONS * last, 1, POKER_NUM_ACTIONS);
    choices[POKER_NUM_ACTIONS * turn + POKER_FOLD] = can_fold;
    choices[POKER_NUM_ACTIONS * turn + POKER_RAISE] = can_raise;
}

PUFFER_FN void poker_begin_hand(Poker* env) {
    const PokerRules* rules = poker_rules(env);
    env->first = (int8_t)rng_below(&env->rng, 2);
    env->round = env->num_board = 0;
    env->num_steps = 0;
    for (int player = 0; player < 2; player++) env->chips[player] = (int16_t)rules->blinds[env->first != player];
    poker_deal_hands(env);
    poker_begin_round(env);
}

// The bot's turns, up to the agent's or the end of the hand.
PUFFER_FN bool poker_let_bot_play(Poker* env, int* won) {
    while (env->turn == env->num_agents) {
        if (poker_play(env, poker_bot_action(env), won)) return true;
    }
    return false;
}

PUFFER_FN void c_reset(Poker* env) {
    int won = 0;
    poker_begin_hand(env);
    poker_let_bot_play(env, &won);  // ends no hand in which the agent has not acted
    poker_write_turn(env);
}

// `won` are the chips of player 0.
PUFFER_FN void poker_finish_hand(Poker* env, int won) {
    for (int i = 0; i < env->num_agents; i++) {
        float chips = (float)(i == 0 ? won : -won), reward = chips / (float)poker_rules(env)->stake;
        env->rewards[i] = reward;
        env->terminals[i] = 1;
        env->log.perf += 0.5f * (reward + 1.0f);
        env->log.score += chips;
        env->log.episode_return += reward;
        env->log.episode_length += (float)env->num_steps;
        env->log.n += 1.0f;
    }
    keep_final(env->final_observations, env->observations, (size_t)(env->num_agents * env->observation_size));
    c_reset(env);
}

// What the agent whose turn it is does, or the bot in its place.
PUFFER_FN int poker_agent_action(Poker* env) {
    int action = ((const int32_t*)env->actions)[env->turn];
    bool is_bots = action == PUFFER_BOT_MOVES && env->num_agents == 2;
    return is_bots ? poker_bot_action(env) : poker_meant(env, action);
}

PUFFER_FN void c_step(Poker* env) {
    int won = 0, action = poker_agent_action(env);
    int last = env->num_agents - 1;
    uint8_t *terminals = env->terminals, *truncations = env->truncations;
    env->rewards[0] = env->rewards[last] = 0.0f;
    terminals[0] = terminals[last] = truncations[0] = truncations[last] = 0;
    env->num_steps += 1;
    if (poker_play(env, action, &won) || poker_let_bot_play(env, &won)) {
        poker_finish_hand(env, won);
    } else {
        poker_write_turn(env);
    }
}

// The deals are those of the round, the cards differ, and so many turns and raises can be.
PUFFER_FN bool c_accepts(const Poker* env, const Poker* saved) {
    const PokerRules* rules = poker_rules(env);
    bool is_alike = saved->game == env->game && saved->bot_random == env->bot_random &&
                    saved->observation_size == env->observation_size && saved->num_cards == env->num_cards &&
                    saved->num_agents == env->num_agents;
    if (!is_alike || !is_within(saved->round, 0, rules->num_rounds - 1)) return false;
    int num_board = 0;
    uint64_t taken = 0;
    for (int i = 0; i <= saved->round; i++) num_board += rules->num_dealt[i];
    if (saved->num_board != num_board) return false;
    for (int i = 0; i < 2 * rules->num_hole + num_board; i++) {
        int card = i < num_board ? saved->board[i] : saved->holes[(i - num_board) % 2][(i - num_board) / 2];
        if (card >= env->num_cards || (taken >> card & 1)) return false;
        taken |= 1ull << card;
    }
    return is_within(saved->first, 0, 1) && is_within(saved->turn, 0, env->num_agents - 1) &&
           is_within(saved->num_steps, 0, PUFFER_MAX_STEPS) &&
           is_within(saved->num_raises, 0, rules->max_raises[saved->round]) &&
           is_within(saved->num_turns - saved->num_raises, 0, saved->num_turns > 0) &&
           is_within(saved->chips[0], 1, rules->stake) && is_within(saved->chips[1], 1, rules->stake);
}
