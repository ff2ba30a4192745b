"""The game of tests/c/nim.h, which has turns and action masks: its C environments, and the same rules in Python."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
from compiled import compiled_binding

from pufferlib.environment import PufferEnv
from pufferlib.ocean.environment import OceanEnv

CHOICES = 3


def nim_class(folder: Path) -> type[OceanEnv]:
    """The class of the C environments, compiled in a folder."""
    module = compiled_binding("nim", folder)

    class Nim(OceanEnv):
        binding = module
        agents_per_env = 2
        has_action_masks = True
        has_turns = True

        def __init__(self, num_envs=1, stones=7, limit=0, bonus=False, **kwargs):
            self.single_observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
            self.single_action_space = gymnasium.spaces.Discrete(CHOICES)
            super().__init__(num_envs, {"stones": stones, "limit": limit, "bonus": bonus}, **kwargs)

    return Nim


class PythonNim(PufferEnv):
    """One game, in Python; agent 0 begins the first, and the loser of a game the next."""

    has_action_masks = True

    def __init__(self, stones=7, buf=None, seed=0):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(CHOICES)
        self.num_agents = 2
        super().__init__(buf)
        self.stones = stones

    def reset(self, seed=None):
        self._begin(0)
        return self.observations, []

    def step(self, actions):
        self.rewards[:] = self.terminals[:] = 0
        taken = int(actions[self.mover]) + 1
        is_legal = taken <= self.left
        self.left -= taken if is_legal else 0
        winner = self.mover if is_legal else 1 - self.mover
        if not is_legal or self.left == 0:
            self.rewards[winner], self.rewards[1 - winner], self.terminals[:] = 1, -1, True
            self._begin(1 - winner)
        else:
            self.mover = 1 - self.mover
            self._write()
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def _begin(self, mover):
        self.left, self.mover = self.stones, mover
        self._write()

    def _write(self):
        self.masks[:] = np.arange(2) == self.mover
        self.observations[:, 0] = self.left / self.stones
        self.observations[:, 1] = self.masks
        self.action_masks[:] = np.arange(CHOICES) < self.left

    def snapshot(self):
        return bytes([self.left, self.mover])

    def restore(self, snapshot):
        self.left, self.mover = snapshot
