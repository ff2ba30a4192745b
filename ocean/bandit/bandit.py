"""Bandit: machines that pay by chance, and a purse that ends it all; a test of values."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.bandit import binding
from pufferlib.ocean.environment import OceanEnv


class Bandit(OceanEnv):
    """Four machines to pull, and a purse to take and go; see bandit.h for the rules.

    Args:
        num_envs: players stepped together, at least 1.
        pulls: of an episode, 1 to 1,000.
    """

    binding = binding
    has_truncations = False
    keys = Keys({"space": 0, "one": 1, "two": 2, "three": 3, "four": 4}, idle=1, waits=True)

    def __init__(self, num_envs: int = 1024, pulls: int = 16, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(5)
        super().__init__(num_envs, {"pulls": pulls}, **kwargs)
