"""Rware: robots of a warehouse fetch shelves, deliver them and put them back."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.rware import binding

STAY, FORWARD, TURN_LEFT, TURN_RIGHT, TOGGLE = range(5)


class Rware(OceanEnv):
    """Warehouses with several robots each, every one an agent; see rware.h for the rules.

    With `num_robots=1` it is a game for one person.

    Args:
        num_envs: warehouses stepped together, at least 1.
        size: of a warehouse: 1 tiny (11 x 10 cells, 32 shelves), 2 small (20 x 10, 80), 3 medium (20 x 16, 144).
        num_robots: in each warehouse, 1 to 64.
        num_requests: shelves that are asked for at a time, 1 to 32.
        shaped: whether loading and putting back are rewarded a little, not deliveries alone.
    """

    binding = binding
    agents_per_env = 8
    keys = Keys({"up": FORWARD, "left": TURN_LEFT, "right": TURN_RIGHT, "space": TOGGLE}, waits=True)

    def __init__(
        self,
        num_envs: int = 512,
        size: int = 2,
        num_robots: int = 8,
        num_requests: int = 8,
        shaped: bool = True,
        **kwargs,
    ):
        self.agents_per_env = num_robots
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (27,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(5)
        arguments = {"size": size, "num_robots": num_robots, "num_requests": num_requests, "shaped": shaped}
        super().__init__(num_envs, arguments, **kwargs)
