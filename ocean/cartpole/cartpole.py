"""Cartpole: balance a pole on a cart."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.cartpole import binding
from pufferlib.ocean.environment import OceanEnv

X_LIMIT = 2.4  # metres
THETA_LIMIT = 12 * np.pi / 180  # radians


class Cartpole(OceanEnv):
    """The CartPole-v1 of Gymnasium; see cartpole.h for the rules.

    An episode ends when the cart or the pole leaves its limits, and what is observed then may lie a little beyond: as
    in Gymnasium, the space is twice as wide. Velocities have no bound.

    Args:
        num_envs: carts stepped together, at least 1.
        continuous: False for two actions (0 pushes left, 1 right), True for one float, the fraction of the force.
    """

    binding = binding

    def __init__(self, num_envs: int = 1024, continuous: bool = False, **kwargs):
        high = np.array([2 * X_LIMIT, np.inf, 2 * THETA_LIMIT, np.inf], np.float32)
        self.single_observation_space = gymnasium.spaces.Box(-high, high, dtype=np.float32)
        self.single_action_space = gymnasium.spaces.Box(-1, 1, (1,)) if continuous else gymnasium.spaces.Discrete(2)
        self.keys = Keys({"left": -1.0, "right": 1.0}) if continuous else Keys({"left": 0, "right": 1}, idle=[0, 1])
        super().__init__(num_envs, {"continuous": continuous}, **kwargs)
