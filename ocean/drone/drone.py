"""Drone: fly a quadrotor through one target after another, by its four motors."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.drone import binding
from pufferlib.ocean.environment import OceanEnv


class Drone(OceanEnv):
    """A quadrotor, integrated by Runge-Kutta steps, and a course of targets; see drone.h for the rules.

    Args:
        num_envs: drones stepped together, at least 1.
        targets: of a course, 1 to 100.
    """

    binding = binding
    # A touch tilts it, the opposite one brings it back; slower, as by --speed 0.3, a person has a chance.
    keys = Keys(
        {
            "up": (-0.06, -0.06, 0.06, 0.06),
            "down": (0.06, 0.06, -0.06, -0.06),
            "left": (-0.06, 0.06, -0.06, 0.06),
            "right": (0.06, -0.06, 0.06, -0.06),
            "w": (0.3, 0.3, 0.3, 0.3),
            "s": (-0.3, -0.3, -0.3, -0.3),
        }
    )

    def __init__(self, num_envs: int = 1024, targets: int = 10, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(-1.0, 1.0, (16,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
        super().__init__(num_envs, {"targets": targets}, **kwargs)
