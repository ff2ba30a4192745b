"""Checkers, which is English draughts, against a bot that looks ahead, or between two agents."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.checkers import binding
from pufferlib.ocean.environment import TurnGame

# Keys for the legal moves by their numbers, which the picture shows.
_KEYS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero", *"qwertyuiop")


def _numbered(index: int) -> int:
    """The action that is the legal move of a number: it names a light square."""
    row = index // 4
    return 8 * (2 * index + row % 2) + 7


class Checkers(TurnGame):
    """Twelve men a side on 64 squares; see checkers.h for the rules.

    Args:
        num_envs: games stepped together, at least 1.
        bot_depth: turns that the bot looks ahead, 0 to 8; at 0 it moves by chance.
        bot_random: percent of its moves that are drawn by chance nonetheless, 0 to 100.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
    """

    binding = binding
    keys = Keys({key: _numbered(index) for index, key in enumerate(_KEYS)}, waits=True)

    def __init__(self, num_envs: int = 1024, bot_depth: int = 2, bot_random: int = 10, opponent: str = "bot", **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 7, (64,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(512)
        super().__init__(num_envs, opponent, {"bot_depth": bot_depth, "bot_random": bot_random}, **kwargs)
