"""Template: the shortest complete environment, which `puffer new` copies."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.template import binding


class Template(OceanEnv):
    """A quiz of four questions with two answers each; see template.h for the rules.

    Args:
        num_envs: quizzes stepped together, at least 1.
        rounds: right answers that complete an episode, 1 to 1000.
    """

    binding = binding
    keys = Keys({"left": 0, "right": 1}, waits=True)  # for `puffer play`: the answers, one step for each key

    def __init__(self, num_envs: int = 1024, rounds: int = 16, **kwargs):
        self.single_observation_space = gymnasium.spaces.Box(0, 3, (1,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        super().__init__(num_envs, {"rounds": rounds}, **kwargs)
