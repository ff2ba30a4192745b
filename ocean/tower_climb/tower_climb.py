"""Tower climb: the puzzle of blocks that become steps."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.tower_climb import binding

STAY, NORTH, EAST, SOUTH, WEST, CLIMB, GRAB = range(7)


class TowerClimb(OceanEnv):
    """Push and pull blocks to where they are steps, hang from edges, and climb; see tower_climb.h for the rules.

    Args:
        num_envs: towers stepped together, at least 1.
        terraces: of each tower, 1 to 6.
    """

    binding = binding
    keys = Keys({"up": NORTH, "right": EAST, "down": SOUTH, "left": WEST, "space": CLIMB, "g": GRAB}, waits=True)

    def __init__(self, num_envs: int = 1024, terraces: int = 4, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 3, (229,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(7)
        super().__init__(num_envs, {"terraces": terraces}, **kwargs)
