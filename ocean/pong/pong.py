"""Pong: the table tennis of the arcades."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.pong import binding


class Pong(OceanEnv):
    """The agent's paddle against one that follows the ball, first to 21 points; see pong.h for the rules.

    Args:
        num_envs: games stepped together, at least 1.
        frameskip: frames in a step, all with the same action, 1 to 64.
        continuous: False for three actions (0 still, 1 up, 2 down), True for one float, the fraction of the paddle's
            speed: -1 up to 1 down.
    """

    binding = binding
    has_truncations = False

    def __init__(self, num_envs: int = 1024, frameskip: int = 8, continuous: bool = False, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (8,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(-1, 1, (1,)) if continuous else gymnasium.spaces.Discrete(3)
        self.keys = Keys({"up": -1.0, "down": 1.0} if continuous else {"up": 1, "down": 2}, idle=0)
        super().__init__(num_envs, {"frameskip": frameskip, "continuous": continuous}, **kwargs)
