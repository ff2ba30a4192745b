"""Snake: many snakes in one arena eat, grow, and turn to food."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.snake import binding


class Snake(OceanEnv):
    """Arenas with many snakes each, every one an agent that is back at once when it dies; see snake.h for the rules.

    With `num_snakes=1` it is the game for one person. An arena, and a snapshot of one, takes 0.4 MB whatever its size.

    Args:
        num_envs: arenas stepped together, at least 1.
        num_snakes: in each arena, 1 to 512.
        width: cells of an arena from left to right, 64 to 640.
        height: cells from top to bottom, 32 to 360.
    """

    binding = binding
    agents_per_env = 256
    counts_episodes_by_agent = True
    keys = Keys({"down": 0, "up": 1, "left": 2, "right": 3})

    def __init__(self, num_envs: int = 16, num_snakes: int = 256, width: int = 640, height: int = 360, **kwargs):
        self.agents_per_env = num_snakes
        self.single_observation_space = gymnasium.spaces.Box(0, 5, (11, 11), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(4)
        super().__init__(num_envs, {"num_snakes": num_snakes, "width": width, "height": height}, **kwargs)
