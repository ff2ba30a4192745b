"""Tron: riders leave walls behind them, against bots or each other."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv, agents_against
from pufferlib.ocean.tron import binding

UP, RIGHT, DOWN, LEFT = range(4)


class Tron(OceanEnv):
    """The last rider that has not run into a wall wins; see tron.h for the rules.

    Args:
        num_envs: arenas stepped together, at least 1.
        num_riders: in each arena, 2 to 8.
        opponent: `bot`, so that the first rider is the only agent, or `self`: all riders are agents.
        size: of an arena, 16 to 48 cells from side to side.
        bot_random: percent of the bots' steps that go anywhere, 0 to 100.
    """

    binding = binding
    has_truncations = False
    has_turns = True
    has_bot_moves = True
    keys = Keys({"up": UP, "right": RIGHT, "down": DOWN, "left": LEFT})

    def __init__(
        self,
        num_envs: int = 1024,
        num_riders: int = 2,
        opponent: str = "bot",
        size: int = 32,
        bot_random: int = 2,
        **kwargs,
    ):
        agents = agents_against(opponent)
        self.agents_per_env = num_riders if agents == 2 else 1
        self.single_observation_space = gymnasium.spaces.Box(-12, 12, (250,), np.int8)
        self.single_action_space = gymnasium.spaces.Discrete(4)
        arguments = {"num_riders": num_riders, "agents": agents, "size": size, "bot_random": bot_random}
        super().__init__(num_envs, arguments, **kwargs)
