"""Rock, paper, scissors between two agents, over some rounds: a game for the tests of opponents."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

import pufferlib


class Rounds(pufferlib.PufferEnv):
    """Who won more of the rounds has a larger return; agents see their seat and the rounds that are left."""

    agents_per_env = 2

    def __init__(self, num_envs=8, rounds=3, buf=None, seed=0):
        self.single_observation_space, self.single_action_space = Box(-1, 1, (3,), np.float32), Discrete(3)
        self.num_envs, self.num_agents, self.rounds = num_envs, 2 * num_envs, rounds
        super().__init__(buf)
        self.left = np.zeros(num_envs, int)

    def reset(self, seed=None):
        # So that games end at different times.
        self.left[:] = 1 + np.arange(self.num_envs) % self.rounds
        return self._observe(), []

    def step(self, actions):
        self.left -= 1
        lead = np.array([0, 1, -1])[(actions[0::2] - actions[1::2]) % 3]
        self.rewards[0::2], self.rewards[1::2] = lead, -lead
        self.terminals[:] = np.repeat(self.left == 0, 2)
        self.left[self.left == 0] = self.rounds
        return self._observe(), self.rewards, self.terminals, self.truncations, []

    def _observe(self):
        self.observations[:, :2] = np.tile(np.eye(2), (self.num_envs, 1))
        self.observations[:, 2] = np.repeat(self.left / self.rounds, 2)
        return self.observations

    def snapshot(self):
        return self.left.astype(np.int64).tobytes()

    def restore(self, snapshot):
        self.left[:] = np.frombuffer(snapshot, np.int64)


class Tables(Rounds):
    """The same game, without an argument `num_envs`."""

    def __init__(self, tables=4, buf=None, seed=0):
        super().__init__(num_envs=tables, buf=buf)


class SmallRounds(Rounds):
    """Another game with the same spaces."""
