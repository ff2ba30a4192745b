"""2048: slide the tiles of a board; two alike become one of twice the value."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.g2048 import binding


class G2048(OceanEnv):
    """The game 2048 on 4 x 4 cells, seen as exponents of the tiles and what each move would lead to.

    See g2048.h for the rules and the observation.

    Args:
        num_envs: boards stepped together, at least 1.
    """

    binding = binding
    keys = Keys({"up": 0, "down": 1, "left": 2, "right": 3}, waits=True)

    def __init__(self, num_envs: int = 4096, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 15, (32,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(4)
        super().__init__(num_envs, {}, **kwargs)
