"""Breakout: knock down a wall of bricks with a ball and a paddle."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.breakout import binding
from pufferlib.ocean.environment import OceanEnv

VELOCITIES = slice(4, 6)  # the only observations that may be negative
NUM_OBSERVATIONS = 10 + 6 * 18  # state and bricks


class Breakout(OceanEnv):
    """The game of bricks, paddle and ball; see breakout.h for the rules and the observation.

    Args:
        num_envs: games stepped together, at least 1.
        frameskip: frames of 1/60 s in a step, 1 to 64.
        continuous: the action is the paddle's speed, a Box of shape (1,) in [-1, 1], in place of stay, left, right.
    """

    binding = binding
    has_truncations = False

    def __init__(self, num_envs: int = 1024, frameskip: int = 4, continuous: bool = False, **kwargs):
        low = np.zeros(NUM_OBSERVATIONS, np.float32)
        low[VELOCITIES] = -1.0
        self.single_observation_space = gymnasium.spaces.Box(low, np.ones_like(low))
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,)) if continuous else gymnasium.spaces.Discrete(3)
        self.keys = Keys({"left": -1.0, "right": 1.0} if continuous else {"left": 1, "right": 2}, idle=0)
        super().__init__(num_envs, {"frameskip": frameskip, "continuous": continuous}, **kwargs)
