"""Hex: join two sides of a rhombus before a bot or another agent joins the other two."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import TurnGame
from pufferlib.ocean.hex import binding

_ROWS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero", "minus")
_CELLS = {f"{letter}+{row}": 11 * i + j for i, row in enumerate(_ROWS) for j, letter in enumerate("abcdefghijk")}


class Hex(TurnGame):
    """Stones on eleven by eleven cells of six neighbours; see hex.h for the rules.

    To play, hold a column's letter and press a row's sign, as they stand at the board.

    Args:
        num_envs: games stepped together, at least 1.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
        bot_strength: 0 plays by chance, 1 on its own shortest way, 2 on that of both.
        bot_random: percent of the bot's stones that fall by chance nonetheless, 0 to 100.
        swap: whether the second player may take over the first stone.
    """

    binding = binding
    keys = Keys(_CELLS, waits=True)

    def __init__(
        self,
        num_envs: int = 1024,
        opponent: str = "bot",
        bot_strength: int = 1,
        bot_random: int = 10,
        swap: bool = False,
        **kwargs,
    ):
        self.single_observation_space = gymnasium.spaces.Box(0, 2, (121,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(121)
        arguments = {"bot_strength": bot_strength, "bot_random": bot_random, "swap": swap}
        super().__init__(num_envs, opponent, arguments, **kwargs)
