"""Stochastic: call colours as often as their shares say, without counting; a test of drawing actions."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.stochastic import binding


class Stochastic(OceanEnv):
    """Three colours of which a mixture is to be called; see stochastic.h for the rules.

    Args:
        num_envs: mixtures made together, at least 1.
        steps: of an episode, 10 to 10,000.
    """

    binding = binding
    keys = Keys({"one": 0, "two": 1, "three": 2, "left": 0, "up": 1, "right": 2}, idle=0, waits=True)

    def __init__(self, num_envs: int = 1024, steps: int = 64, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (2,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        super().__init__(num_envs, {"steps": steps}, **kwargs)
