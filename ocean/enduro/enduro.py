"""Enduro: the endurance race of the arcades."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.enduro import binding
from pufferlib.ocean.environment import OceanEnv

CRUISE, ACCELERATE, RIGHT, LEFT, BRAKE, BRAKE_RIGHT, BRAKE_LEFT, ACCELERATE_RIGHT, ACCELERATE_LEFT = range(9)


class Enduro(OceanEnv):
    """Overtake enough cars each day, through curves, ice, night and fog; see enduro.h for the rules.

    Args:
        num_envs: races stepped together, at least 1.
        frameskip: frames in a step, all with the same action, 1 to 16.
        days: days of the race, 1 to 100; the first asks for 200 cars, the others for 300.
    """

    binding = binding
    keys = Keys(
        {
            "up": ACCELERATE,
            "down": BRAKE,
            "left": LEFT,
            "right": RIGHT,
            "up+left": ACCELERATE_LEFT,
            "up+right": ACCELERATE_RIGHT,
            "down+left": BRAKE_LEFT,
            "down+right": BRAKE_RIGHT,
        },
        idle=CRUISE,
    )

    def __init__(self, num_envs: int = 1024, frameskip: int = 4, days: int = 13, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (68,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(9)
        super().__init__(num_envs, {"frameskip": frameskip, "days": days}, **kwargs)
