"""Write an environment in Python: NumPy arrays with one row for each agent, filled in place.

Usage: python examples/custom_environment.py [iterations]
"""

import sys

import numpy as np
from gymnasium.spaces import Box, Discrete

import pufferlib


class Walkers(pufferlib.PufferEnv):
    """Each agent walks left (0) or right (1) to a target it sees: an odd number of steps, below 2 * `reach`."""

    def __init__(self, num_envs=256, reach=8, buf=None, seed=0):
        self.single_observation_space, self.single_action_space = Box(-np.inf, np.inf, (1,)), Discrete(2)
        self.num_agents, self.reach, self.random = num_envs, reach, np.random.default_rng(seed)
        super().__init__(buf)  # makes the arrays: observations, rewards, terminals, truncations

    def reset(self, seed=None):
        self.random = self.random if seed is None else np.random.default_rng(seed)
        self.observations[:, 0] = 2 * self.random.integers(-self.reach, self.reach, self.num_agents) + 1
        return self.observations, []

    def step(self, actions):
        self.observations[:, 0] -= 2 * actions - 1
        self.terminals[:] = arrived = self.observations[:, 0] == 0
        self.rewards[:] = np.where(arrived, 1.0, -0.1)
        self.observations[arrived, 0] = 2 * self.random.integers(-self.reach, self.reach, arrived.sum()) + 1
        return self.observations, self.rewards, self.terminals, self.truncations, [{"arrivals": arrived.sum()}]


if __name__ == "__main__":
    trainer = pufferlib.PuffeRL(Walkers(), learning_rate=3e-3)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        print(f"{trainer.evaluate()['arrivals']:.1f} of {trainer.vecenv.num_agents} arrive in each step")
        trainer.train()
