"""Memory: a lamp lights up and is asked for later; a test of recurrence."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.memory import binding


class Memory(OceanEnv):
    """Three lamps of which one lights up or none, and then darkness of any length; see memory.h for the rules.

    Args:
        num_envs: environments stepped together, at least 1.
        delay: the most observations in the dark, 1 to 1,000.
    """

    binding = binding
    has_truncations = False
    keys = Keys({"zero": 0, "one": 1, "two": 2, "three": 3, "space": 0}, idle=0, waits=True)

    def __init__(self, num_envs: int = 1024, delay: int = 8, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (3,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(4)
        super().__init__(num_envs, {"delay": delay}, **kwargs)
