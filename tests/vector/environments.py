"""Small Python environments with known sequences, and some that misbehave."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np

from pufferlib.environment import Buffers, PufferEnv
from pufferlib.ocean.template.template import Template


class CountingEnv(PufferEnv):
    """Agent `a` observes (a, steps in the episode, last action, noise from the seed); every `length` steps one ends."""

    def __init__(self, agents: int = 3, length: int = 5, buf: Buffers | None = None, seed: int = 0):
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.single_action_space = gymnasium.spaces.MultiDiscrete([4, 4])
        self.num_agents = agents
        super().__init__(buf)
        self.length = length
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.steps = 0

    def reset(self, seed=None):
        if seed is not None:
            self.seed = seed
            self.random = np.random.default_rng(seed)
        self.steps = 0
        self.observe(0)
        return self.observations, []

    def step(self, actions):
        self.steps += 1
        self.rewards[:] = actions[:, 0]
        self.terminals[:] = self.steps == self.length
        self.truncations[:] = actions[:, 1] == 3
        self.masks[-1] = self.steps % 2 == 0
        infos = [{"episode_length": self.steps, "n": 1}] if self.steps == self.length else []
        self.steps %= self.length
        self.observe(actions[:, 0])
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def observe(self, action):
        self.observations[:, 0] = np.arange(self.num_agents)
        self.observations[:, 1] = self.steps
        self.observations[:, 2] = action
        self.observations[:, 3] = self.random.random(self.num_agents)

    def snapshot(self):
        return pickle.dumps((self.steps, self.random))

    def restore(self, snapshot):
        self.steps, self.random = pickle.loads(snapshot)


class WaitingEnv(CountingEnv):
    """Waits in every step until there is a file: slow for as long as a test wants."""

    def __init__(self, file: str, **kwargs):
        super().__init__(**kwargs)
        self.file = Path(file)

    def step(self, actions):
        while not self.file.exists():
            time.sleep(0.01)
        return super().step(actions)


class TroubledEnv(CountingEnv):
    """Does what it is told to at its third step; in the parent process it is never stepped."""

    def __init__(self, trouble: str, **kwargs):
        super().__init__(**kwargs)
        self.trouble = trouble
        self.calls = 0

    def step(self, actions):
        self.calls += 1
        if self.calls == 3:
            if self.trouble == "raise":
                raise RuntimeError("the ball went through the wall")
            if self.trouble == "reset":
                raise ConnectionResetError("the simulator has hung up")
            if self.trouble == "exit":
                sys.exit(7)
            if self.trouble == "vanish":
                os._exit(7)
            while self.trouble == "hang":
                pass
            if self.trouble == "hang in C":
                ctypes.PyDLL(None).sleep(10**6)  # with the interpreter lock held
            if self.trouble == "die":
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(actions)


class OwnArraysEnv(CountingEnv):
    """Forgets to pass the arrays on."""

    def __init__(self, buf=None, seed=0):
        super().__init__(seed=seed)


class DoubledRewards(CountingEnv):
    """Returns other rewards than it wrote."""

    def step(self, actions):
        observations, rewards, terminals, truncations, infos = super().step(actions)
        return observations, rewards * 2, terminals, truncations, infos


class TracedTemplate(Template):
    """Makes the C environments one by one and then joins them."""

    def make_handle(self, arguments, seed):
        arrays = (self.observations, self.actions, self.rewards, self.terminals, self.truncations)
        handles = []
        for i in range(self.num_envs):
            rows = (array[i : i + 1] for array in arrays)
            handles.append(self.binding.env_init(*rows, seed, shared=self.binding.shared(), **arguments))
        handle = self.binding.vectorize(*handles)
        self.binding.vec_reset(handle, seed)
        return handle
