"""Poker: Kuhn's, Leduc or limit hold'em for two, against a bot or between two agents."""

from __future__ import annotations

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.errors import APIUsageError
from pufferlib.ocean.environment import OceanEnv, agents_against
from pufferlib.ocean.poker import binding

FOLD, CALL, RAISE = range(3)
_OBSERVED = {"kuhn": 10, "leduc": 29, "holdem": 257}  # numbers, by the game


class Poker(OceanEnv):
    """Two players bet on cards of which each sees its own alone; see poker.h for the rules.

    Args:
        num_envs: hands played together, at least 1.
        game: `kuhn` with three cards, `leduc` with six, or `holdem`, limit hold'em with fifty-two.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
        bot_random: percent of the bot's turns at which it acts by chance, 0 to 100.
    """

    binding = binding
    has_truncations = False
    has_action_masks = True
    has_turns = True
    has_bot_moves = True
    keys = Keys({"f": FOLD, "c": CALL, "r": RAISE}, waits=True)

    def __init__(
        self, num_envs: int = 1024, game: str = "leduc", opponent: str = "bot", bot_random: int = 10, **kwargs
    ):
        if game not in _OBSERVED:
            raise APIUsageError(f"game must be 'kuhn' or 'leduc' or 'holdem', got {game!r}")
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (_OBSERVED[game],), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        self.agents_per_env = agents_against(opponent)
        arguments = {"game": list(_OBSERVED).index(game), "agents": self.agents_per_env, "bot_random": bot_random}
        super().__init__(num_envs, arguments, **kwargs)
