"""Rware: robots of a warehouse fetch shelves, deliver them and put them back."""

from __future__ import annotations

import gymnasium
import numpy as np

from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.rware import binding


class Rware(OceanEnv):
    """Warehouses of 20 x 10 cells with eight robots each, every one an agent; see rware.h for the rules.

    Args:
        num_envs: warehouses stepped together, at least 1.
        shaped: whether loading and putting back are rewarded a little, not deliveries alone.
    """

    binding = binding
    agents_per_env = 8

    def __init__(self, num_envs: int = 512, shaped: bool = True, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (27,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(5)
        super().__init__(num_envs, {"shaped": shaped}, **kwargs)
