"""Othello, also known as Reversi, against a bot that looks ahead, or between two agents."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import TurnGame
from pufferlib.ocean.othello import binding

_ROWS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
_CELLS = {f"{letter}+{row}": 8 * i + j for i, row in enumerate(_ROWS) for j, letter in enumerate("abcdefgh")}


class Othello(TurnGame):
    """Discs that are enclosed change sides, on a board of eight by eight; see othello.h for the rules.

    To play, hold a column's letter and press a row's digit, as they stand at the board; space passes.

    Args:
        num_envs: games stepped together, at least 1.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
        bot_depth: turns that the bot looks ahead, 0 to 8; at 0 it moves by chance.
        bot_random: percent of its moves that are drawn by chance nonetheless, 0 to 100.
    """

    binding = binding
    keys = Keys({**_CELLS, "space": 64}, waits=True)

    def __init__(self, num_envs: int = 1024, opponent: str = "bot", bot_depth: int = 2, bot_random: int = 10, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 3, (64,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(65)
        super().__init__(num_envs, opponent, {"bot_depth": bot_depth, "bot_random": bot_random}, **kwargs)
