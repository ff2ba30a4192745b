"""Slimevolley: two slimes and a ball that must not touch the own floor."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv, agents_against
from pufferlib.ocean.slimevolley import binding


class Slimevolley(OceanEnv):
    """Volleyball of two slimes with five lives each; see slimevolley.h for the rules.

    Args:
        num_envs: games stepped together, at least 1.
        opponent: `bot`, or `self`: two agents, who see the court from their own sides.
        bot_strength: 0 plays at random, 1 runs below the ball, 2 runs to where it will come down.
        bot_random: percent of the bot's steps that are random nonetheless, 0 to 100.
    """

    binding = binding
    has_turns = True
    has_bot_moves = True
    keys = Keys({"left": [1, 0, 0], "right": [0, 1, 0], "up": [0, 0, 1]}, idle=[0, 0, 0])

    def __init__(
        self, num_envs: int = 1024, opponent: str = "bot", bot_strength: int = 2, bot_random: int = 10, **kwargs
    ):
        self.single_observation_space = gymnasium.spaces.Box(-4.0, 4.0, (12,), np.float32)
        self.single_action_space = gymnasium.spaces.MultiDiscrete([2, 2, 2])
        self.agents_per_env = agents_against(opponent)
        arguments = {"agents": self.agents_per_env, "bot_strength": bot_strength, "bot_random": bot_random}
        super().__init__(num_envs, arguments, **kwargs)
