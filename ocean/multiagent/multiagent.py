"""Multiagent: four agents with a rule each; a test that no row is taken for another."""

import gymnasium
import numpy as np

from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.multiagent import binding


class Multiagent(OceanEnv):
    """Four agents that answer by rules of their own, in episodes of four lengths; see multiagent.h for the rules.

    Args:
        num_envs: groups of four stepped together, at least 1.
        steps: of an episode of the first agent; the others take two, three and four times as many. 1 to 1,000.
    """

    binding = binding
    agents_per_env = 4

    def __init__(self, num_envs: int = 1024, steps: int = 8, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (8,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(4)
        super().__init__(num_envs, {"steps": steps}, **kwargs)
