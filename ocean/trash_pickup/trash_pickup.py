"""Trash pickup: eight sweepers clear a yard together."""

import gymnasium
import numpy as np

from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.trash_pickup import binding


class TrashPickup(OceanEnv):
    """Yards of 20 x 20 cells with eight agents each that bring trash to bins; see trash_pickup.h for the rules.

    Args:
        num_envs: yards stepped together, at least 1.
        num_trash: pieces of trash in a yard, 1 to 150.
        num_bins: bins in a yard, 1 to 20.
    """

    binding = binding
    agents_per_env = 8

    def __init__(self, num_envs: int = 512, num_trash: int = 40, num_bins: int = 4, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (5, 11, 11), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(4)
        super().__init__(num_envs, {"num_trash": num_trash, "num_bins": num_bins}, **kwargs)
