"""Pac-Man: eat all dots of a maze in which four ghosts hunt."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.pacman import binding


class Pacman(OceanEnv):
    """The first level of Pac-Man with one life; see pacman.h for the rules.

    Args:
        num_envs: mazes stepped together, at least 1.
    """

    binding = binding
    keys = Keys({"up": 0, "left": 1, "down": 2, "right": 3})

    def __init__(self, num_envs: int = 1024, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (300,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(4)
        super().__init__(num_envs, {}, **kwargs)
