"""Tetris: turn falling pieces so that they fill whole lines."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.tetris import binding


class Tetris(OceanEnv):
    """The guideline's game on 10 x 20 cells, ten steps a second; see tetris.h for the rules.

    Args:
        num_envs: games stepped together, at least 1.
        level: that a game begins at, 1 to 15; each has its speed, and every ten lines are the next.
        shaped: whether there is a reward for how a piece leaves the field, beside the guideline's points.
    """

    binding = binding
    keys = Keys({"left": 1, "right": 2, "up": 3, "down": 4, "space": 5, "c": 6}, idle=0)

    def __init__(self, num_envs: int = 1024, level: int = 1, shaped: bool = True, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (409,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(7)
        super().__init__(num_envs, {"level": level, "shaped": shaped}, **kwargs)
