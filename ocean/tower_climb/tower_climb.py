"""Tower climb: the puzzle of blocks that become steps."""

from __future__ import annotations

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.tower_climb import binding

STAY, NORTH, EAST, SOUTH, WEST, CLIMB = range(6)


class TowerClimb(OceanEnv):
    """Push blocks to where they are steps, and climb to the top; see tower_climb.h for the rules.

    Args:
        num_envs: towers stepped together, at least 1.
        terraces: of each tower, 1 to 6.
    """

    binding = binding
    keys = Keys({"up": NORTH, "right": EAST, "down": SOUTH, "left": WEST, "space": CLIMB}, waits=True)

    def __init__(self, num_envs: int = 1024, terraces: int = 4, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 3, (228,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(6)
        super().__init__(num_envs, {"terraces": terraces}, **kwargs)
