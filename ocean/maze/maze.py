"""Maze: find the way out of a maze of which only the surroundings are seen."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.maze import binding


class Maze(OceanEnv):
    """A new maze in every episode, to be crossed from corner to corner; see maze.h for the rules.

    Args:
        num_envs: mazes stepped together, at least 1.
        rooms: along one side, 2 to 23; walls included a side has twice as many cells and one more.
    """

    binding = binding
    keys = Keys({"down": 1, "up": 2, "left": 3, "right": 4, "space": 0}, waits=True)

    def __init__(self, num_envs: int = 1024, rooms: int = 5, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 2, (11, 11), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(5)
        super().__init__(num_envs, {"rooms": rooms}, **kwargs)
