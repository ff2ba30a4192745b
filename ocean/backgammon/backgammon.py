"""Backgammon: a race of fifteen checkers each, against a bot or between two agents."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.backgammon import binding
from pufferlib.ocean.environment import TurnGame

PASS = 50


class Backgammon(TurnGame):
    """Checkers are hit, enter again, and are borne off; see backgammon.h for the rules.

    To play, hold the letter of a point, as it stands at the board, or y for the bar, and press 1 to move by the larger
    die or 2 to move by the smaller one; space passes.

    Args:
        num_envs: games played together, at least 1.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
        bot_random: percent of the bot's moves that are drawn by chance, 0 to 100.
    """

    binding = binding
    keys = Keys(
        {
            f"{letter}+{key}": 25 * die + i
            for die, key in enumerate(("one", "two"))
            for i, letter in enumerate("abcdefghijklmnopqrstuvwxy")
        }
        | {"space": PASS},
        waits=True,
    )

    def __init__(self, num_envs: int = 1024, opponent: str = "bot", bot_random: int = 10, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 15, (203,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(51)
        super().__init__(num_envs, opponent, {"bot_random": bot_random}, **kwargs)
