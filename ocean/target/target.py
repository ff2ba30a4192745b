"""Target: eight agents chase four goals that wander about."""

import gymnasium
import numpy as np

from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.target import binding


class Target(OceanEnv):
    """An arena with eight agents, a row each, that chase four goals; see target.h for the rules.

    Args:
        num_envs: arenas stepped together, at least 1.
        horizon: steps of an episode, 1 to 100,000.
    """

    binding = binding
    agents_per_env = 8

    def __init__(self, num_envs: int = 1024, horizon: int = 512, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(-1.0, 1.0, (28,), np.float32)
        self.single_action_space = gymnasium.spaces.MultiDiscrete([9, 5])
        super().__init__(num_envs, {"horizon": horizon}, **kwargs)
