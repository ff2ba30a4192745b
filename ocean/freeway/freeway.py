"""Freeway: lead a chicken over ten lanes of traffic, again and again."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.freeway import binding


class Freeway(OceanEnv):
    """Freeway for one player, 136 seconds a game; see freeway.h for the rules.

    Args:
        num_envs: roads stepped together, at least 1.
        level: the traffic, 1 to 8, or 0 for another one in every episode.
        frameskip: frames in a step, all with the same action, 1 to 64.
        to_kerb: whether a vehicle throws the chicken back to where it began, not by one lane only.
    """

    binding = binding
    keys = Keys({"up": 1, "down": 2}, idle=0)

    def __init__(self, num_envs: int = 1024, level: int = 0, frameskip: int = 4, to_kerb: bool = False, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (34,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        super().__init__(num_envs, {"level": level, "frameskip": frameskip, "to_kerb": to_kerb}, **kwargs)
