"""Gymnasium's vector environments for the tests."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

SAME_STEP = {"autoreset_mode": AutoresetMode.SAME_STEP}


class Counter(gymnasium.Env):
    """Observes its seed and the steps of the episode; truncated after 3 steps, terminated by the highest action."""

    def __init__(self, action_space=None, num_steps=3):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Discrete(3) if action_space is None else action_space
        self.num_steps = num_steps
        self.taken = []
        self.seed = self.steps = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.seed = seed % 1000
        self.steps = 0
        return self.observe(), {"begun": 1}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.taken.append(action)
        self.steps += 1
        terminated = np.all(action == 2)
        infos = {"success": bool(terminated), "score": 2.5 * self.steps, "name": "counter"}
        return self.observe(), float(self.steps), bool(terminated), self.steps == self.num_steps, infos

    def observe(self):
        return np.array([self.seed, self.steps], np.float32)


def counters(number=2, kind=SyncVectorEnv, action_space=None):
    return kind([lambda: Counter(action_space)] * number, **SAME_STEP)


def cartpoles(num_envs=3):
    return gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="sync", vector_kwargs=SAME_STEP)
