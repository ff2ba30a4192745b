"""Squared: walk to the target before the time is up."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.squared import binding


class Squared(OceanEnv):
    """A grid of `size` x `size` cells with one agent and one target; see squared.h for the rules.

    Args:
        num_envs: grids stepped together, at least 1.
        size: cells along one side, 2 to 128.
    """

    binding = binding
    has_truncations = False
    keys = Keys({"down": 1, "up": 2, "left": 3, "right": 4, "space": 0}, waits=True)

    def __init__(self, num_envs: int = 1024, size: int = 11, **kwargs):
        # Any other size is refused by the C side, before it could ask for a huge or senseless array here.
        cells = int(size * size) if size in range(2, 129) else 1
        self.single_observation_space = gymnasium.spaces.Box(0, 2, (cells,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(5)
        super().__init__(num_envs, {"size": size}, **kwargs)
