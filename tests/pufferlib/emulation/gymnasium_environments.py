"""Scripted Gymnasium environments, which note what reaches them."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


class Scripted(gymnasium.Env):
    """Observes (episode, step in it, sum of the actions so far); an episode has `length` steps.

    Attributes:
        actions: everything that reached `step`.
        resets: the arguments of every reset.
    """

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, length=3, ends="truncated", action_space=None, final_info=None):
        self.observation_space = Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = action_space or Discrete(5)
        self.render_mode = "rgb_array"
        self.length, self.ends, self.final_info = length, ends, final_info or {}
        self.actions, self.resets = [], []
        self.episode, self.closed = -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append((seed, options))
        self.episode += 1
        self.time = 0
        return self.observe(), {"begun": 1}

    def step(self, action):
        self.actions.append(action)
        self.time += 1
        ended = self.time == self.length
        terminated, truncated = ended and self.ends != "truncated", ended and self.ends != "terminated"
        return self.observe(), 0.5 * self.time, terminated, truncated, self.final_info if ended else {"noise": 1}

    def observe(self):
        return np.array([self.episode, self.time, sum(map(np.sum, self.actions))], np.float32)

    def render(self):
        return np.full((2, 2, 3), self.episode, np.uint8)

    def close(self):
        self.closed += 1


class Walled(gymnasium.Env):
    """Left or right on five cells; walls cannot be walked into. Subclasses return infos by `told`."""

    observation_space = Box(0, 4, (1,), np.float32)
    action_space = Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(1, 4)) if seed is not None else 1
        return self.shown(), self.told()

    def step(self, action):
        self.place += 1 if action else -1
        assert 0 <= self.place <= 4, "the mask was not heeded"
        ended = self.place == 4
        return self.shown(), float(ended), ended, False, self.told()

    def shown(self):
        return np.array([self.place], np.float32)


class Nested(gymnasium.Env):
    """Random observations of three levels, of its own seeded generator; episodes of seven steps."""

    def __init__(self):
        body = Dict({"speed": Box(-1, 1, (3,), np.float32), "gear": Discrete(4, start=1)})
        self.observation_space = Dict(
            {"car": Dict({"body": body, "camera": Box(0, 255, (4, 3), np.uint8)}), "id": Discrete(3)}
        )
        self.action_space = Dict({"steer": Box(-1, 1, (2,), np.float32), "gear": Discrete(4, start=1)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        return self.observation_space.sample(), float(action["gear"]), False, self.time == 7, {}
