"""Poker: Kuhn's, Leduc or limit hold'em for two, against a bot or between two agents."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import TurnGame, index_of
from pufferlib.ocean.poker import binding

FOLD, CALL, RAISE = range(3)
_OBSERVED = {"kuhn": 10, "leduc": 29, "holdem": 257}  # numbers, by the game


class Poker(TurnGame):
    """Two players bet on cards of which each sees its own alone; see poker.h for the rules.

    Args:
        num_envs: hands played together, at least 1.
        game: `kuhn` with three cards, `leduc` with six, or `holdem`, limit hold'em with fifty-two.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
        bot_random: percent of the bot's turns at which it acts by chance, 0 to 100.
    """

    binding = binding
    keys = Keys({"f": FOLD, "c": CALL, "r": RAISE}, waits=True)

    def __init__(
        self, num_envs: int = 1024, game: str = "leduc", opponent: str = "bot", bot_random: int = 10, **kwargs
    ):
        arguments = {"game": index_of("game", game, list(_OBSERVED)), "bot_random": bot_random}
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (_OBSERVED[game],), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        super().__init__(num_envs, opponent, arguments, **kwargs)
