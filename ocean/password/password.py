"""Password: type what opens a door, which nobody tells; a test of exploration."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.password import binding


class Password(OceanEnv):
    """Two doors with a password each, and a reward for a whole one alone; see password.h for the rules.

    Args:
        num_envs: doors stepped together, at least 1.
        length: keys of a password, 1 to 16.
    """

    binding = binding
    has_truncations = False
    keys = Keys({"zero": 0, "one": 1, "two": 2, "three": 3}, idle=0, waits=True)

    def __init__(self, num_envs: int = 1024, length: int = 6, **kwargs):
        # Any other length is refused by the C side, before it could ask for a huge or senseless array here.
        cells = 2 + int(length) if length in range(1, 17) else 1
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (cells,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(4)
        super().__init__(num_envs, {"length": length}, **kwargs)
