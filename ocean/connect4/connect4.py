"""Connect Four against a bot that looks ahead, or between two agents."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.connect4 import binding
from pufferlib.ocean.environment import TurnGame


class Connect4(TurnGame):
    """Four discs in a line win, on a board of seven columns and six rows; see connect4.h for the rules.

    Args:
        num_envs: games stepped together, at least 1.
        bot_depth: discs that the bot looks ahead, 0 to 8; at 0 all of its discs fall by chance.
        bot_random: percent of its discs that fall by chance nonetheless, 0 to 100.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
    """

    binding = binding
    keys = Keys(dict(zip(("one", "two", "three", "four", "five", "six", "seven"), range(7), strict=True)), waits=True)

    def __init__(self, num_envs: int = 1024, bot_depth: int = 4, bot_random: int = 10, opponent: str = "bot", **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 5, (42,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(7)
        super().__init__(num_envs, opponent, {"bot_depth": bot_depth, "bot_random": bot_random}, **kwargs)
