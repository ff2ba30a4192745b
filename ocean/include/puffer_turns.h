// puffer_turns.h - a game of two who take turns, as an environment: one agent against a bot, or two agents by turns.
//
// An environment includes it after its struct, `typedef Chess TurnsEnv;`, and c_layout. The struct has the arrays of
// puffer_env.h with the observations as uint8_t, `action_masks` and `masks`, `rng`, `log`, and
//
//     bool has_bot;   constant: one agent, which the bot answers within the same step; else two agents by turns
//     int first;      the seat that began, 0 or 1; a seat is an agent's row, and the bot's is 1
//     int num_turns;  since the game began
//     int num_steps;  calls of c_step since then
//
// Below the include the game defines the functions that are declared here. The bot answers, or moves for one of two
// agents whose action is PUFFER_BOT_MOVES of puffer_bot.h, so that turns_answer moves for either seat.
//
// A game that rewards more than the end defines TURNS_HAS_REWARDS, `float returns[2];` in its struct, which turns_begin
// clears, and turns_reward, which adds to both arrays what the seats get for a step.
//
// Who begins is drawn for each game. A game that ends gives both their rewards, 1, 0 or -1, and both terminals in the
// same step; perf is 1, 0.5 or 0 for each of them.
#pragma once

#include "puffer_bot.h"
#include "puffer_env.h"

typedef enum { TURNS_LOST = -1, TURNS_DRAWN, TURNS_WON, TURNS_UNDECIDED } TurnsResult;

PUFFER_FN void turns_begin(TurnsEnv* env);                             // sets up the game
PUFFER_FN void turns_play(TurnsEnv* env, int action);                  // a legal move, whatever the action
PUFFER_FN void turns_answer(TurnsEnv* env);                            // the move of the bot, which is to move
PUFFER_FN TurnsResult turns_result(const TurnsEnv* env);               // of who has just moved
PUFFER_FN void turns_write(TurnsEnv* env, int seat, bool is_to_move);  // an agent's observation and action mask

#ifdef TURNS_HAS_REWARDS
PUFFER_FN void turns_reward(TurnsEnv* env, TurnsResult result);  // once a step; the result is that of who moved last
#endif

PUFFER_FN int turns_seats(const TurnsEnv* env) { return env->has_bot ? 1 : 2; }

// The seat whose move it is.
PUFFER_FN int turns_seat(const TurnsEnv* env) { return env->first ^ (env->num_turns & 1); }

PUFFER_FN void turns_write_all(TurnsEnv* env, bool is_over) {
    for (int seat = 0; seat < turns_seats(env); seat++) {
        bool is_to_move = !is_over && seat == turns_seat(env);
        env->masks[seat] = is_to_move;
        turns_write(env, seat, is_to_move);
    }
}

PUFFER_FN void c_reset(TurnsEnv* env) {
    env->first = rng_below(&env->rng, 2);
    env->num_turns = env->num_steps = 0;
    turns_begin(env);
    if (env->has_bot && env->first == 1) {
        turns_answer(env);
        env->num_turns = 1;
    }
    turns_write_all(env, false);
}

// `result` is that of who moved last.
PUFFER_FN void turns_finish(TurnsEnv* env, TurnsResult result) {
    PufferLayout layout = c_layout(env);
    int last = !turns_seat(env);
    for (int seat = 0; seat < layout.num_agents; seat++) {
        float reward = (float)(seat == last ? (int)result : -(int)result);
        env->rewards[seat] += reward;
        env->terminals[seat] = 1;
        env->log.perf += 0.5f * (reward + 1.0f);
        env->log.score += reward;
        env->log.episode_return += reward;
#ifdef TURNS_HAS_REWARDS
        env->log.episode_return += env->returns[seat];
#endif
        env->log.episode_length += (float)env->num_steps;
        env->log.n += 1.0f;
    }
    turns_write_all(env, true);
    keep_final(env->final_observations, env->observations, (size_t)(layout.num_agents * layout.observation_size));
    c_reset(env);
}

// Whether one of two agents, the one to move, has the bot move in its place.
PUFFER_FN bool turns_asks_bot(const TurnsEnv* env) {
    return !env->has_bot && ((const int32_t*)env->actions)[turns_seat(env)] == PUFFER_BOT_MOVES;
}

PUFFER_FN void c_step(TurnsEnv* env) {
    int seats = turns_seats(env);
    bool asks_bot = turns_asks_bot(env);
    TurnsResult result = TURNS_UNDECIDED;
    memset(env->rewards, 0, (size_t)seats * sizeof(float));
    memset(env->terminals, 0, (size_t)seats);
    memset(env->truncations, 0, (size_t)seats);
    env->num_steps++;
    if (!asks_bot) {
        turns_play(env, ((const int32_t*)env->actions)[turns_seat(env)]);
        env->num_turns++;
        result = turns_result(env);
    }
    if ((env->has_bot || asks_bot) && result == TURNS_UNDECIDED) {
        turns_answer(env);
        env->num_turns++;
        result = turns_result(env);
    }
#ifdef TURNS_HAS_REWARDS
    turns_reward(env, result);
#endif
    if (result == TURNS_UNDECIDED) {
        turns_write_all(env, false);
    } else {
        turns_finish(env, result);
    }
}

// For c_accepts: an agent is to move, in a game of fewer than `most_turns`.
PUFFER_FN bool turns_are_sound(const TurnsEnv* env, const TurnsEnv* saved, int most_turns) {
    return is_bool(&saved->has_bot) && saved->has_bot == env->has_bot && is_within(saved->first, 0, 1) &&
           is_within(saved->num_turns, 0, most_turns - 1) && is_within(saved->num_steps, 0, saved->num_turns) &&
           turns_seat(saved) < turns_seats(saved);
}
