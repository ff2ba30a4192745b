// puffer_bot.h - the action by which an agent has the environment's bot move in its place.
//
// For games between agents that have a bot as well. PUFFER_BOT_MOVES is in no action space, so no policy chooses it. An
// agent that sends it gets the move that the bot would make for its side, by the bot's keyword arguments and random
// numbers of the game's own stream. A game in which no agent sends it draws the same numbers as if there were no bot.
// With one agent, whom the bot answers anyway, the number is like any other that is no action.
//
// A class whose C side reads it says `has_bot_moves = True`; in Python the number is pufferlib.environment.BOT_MOVES.
#pragma once

#include <stdint.h>

enum { PUFFER_BOT_MOVES = -INT32_MAX - 1 };  // the action, or the first number of one that has several
