"""Pendulum: swing a rod up and hold it there; the tutorial of continuous control."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.pendulum import binding

MAX_SPEED = 8.0  # radians a second
MAX_TORQUE = 2.0  # newton metres


class Pendulum(OceanEnv):
    """The Pendulum-v1 of Gymnasium; see pendulum.h for the rules.

    Args:
        num_envs: rods stepped together, at least 1.
    """

    binding = binding
    keys = Keys({"left": MAX_TORQUE, "right": -MAX_TORQUE}, idle=0.0)

    def __init__(self, num_envs: int = 1024, **kwargs):
        high = np.array([1.0, 1.0, MAX_SPEED], np.float32)
        self.single_observation_space = gymnasium.spaces.Box(-high, high, dtype=np.float32)
        self.single_action_space = gymnasium.spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32)
        super().__init__(num_envs, {}, **kwargs)
