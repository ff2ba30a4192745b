"""Small tasks that any trainer must learn from its defaults, next to Ocean's own: in NumPy, many of them at a time."""

from __future__ import annotations

import abc

import gymnasium
import numpy as np
from typing_extensions import override

from pufferlib import PufferEnv

REPORT_INTERVAL = 32  # steps between two reports of the episodes that ended


class SmallTask(PufferEnv):
    """Many environments of one agent each; a subclass says what happens in them."""

    def __init__(self, num_envs: int, buf=None, seed: int = 0):
        self.num_agents = num_envs
        super().__init__(buf)
        self._generator = np.random.default_rng(seed)
        self._steps = 0
        self._perf_sum = self._episodes = 0.0

    @abc.abstractmethod
    def begin(self, ended: np.ndarray) -> None:
        """Begins an episode in the environments where `ended` is set, and writes all observations."""

    @abc.abstractmethod
    def play(self, actions: np.ndarray) -> np.ndarray:
        """Writes rewards, terminals and truncations; returns the perf, 0 to 1, of the episodes that ended."""

    @override
    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict]]:
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self.begin(np.ones(self.num_agents, bool))
        return self.observations, []

    @override
    def step(self, actions: np.ndarray):
        self.rewards[:] = 0.0
        self.terminals[:] = self.truncations[:] = False
        perf = self.play(np.asarray(actions).reshape(self.num_agents))
        ended = self.terminals | self.truncations
        self._perf_sum += float(perf[ended].sum())
        self._episodes += int(ended.sum())
        self.begin(ended)
        return self.observations, self.rewards, self.terminals, self.truncations, self._report()

    def _report(self) -> list[dict]:
        self._steps += 1
        if self._steps % REPORT_INTERVAL or not self._episodes:
            return []
        report = {"perf": self._perf_sum / self._episodes, "n": self._episodes}
        self._perf_sum = self._episodes = 0.0
        return [report]


class Catch(SmallTask):
    """Move a paddle three cells wide under balls that fall from any column of a grid of 11 x 11.

    Observation float32[3] in [0, 1]: ball column, ball row, paddle column. Actions: 0 stay, 1 left, 2 right. Reward: +1
    for a ball caught, -1 for one missed. Terminal after a miss, truncation after 16 balls. perf = caught / 16.
    """

    SIZE = 11
    BALLS = 16

    def __init__(self, num_envs: int = 1024, buf=None, seed: int = 0):
        self.single_observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        super().__init__(num_envs, buf, seed)
        self._column, self._row, self._paddle, self._caught = np.zeros((4, num_envs), int)

    @override
    def begin(self, ended: np.ndarray) -> None:
        self._paddle[ended], self._caught[ended], self._row[ended] = self.SIZE // 2, 0, 0
        served = self._row == 0
        self._column[served] = self._generator.integers(self.SIZE, size=int(served.sum()))
        self.observations[:] = np.stack([self._column, self._row, self._paddle], axis=1) / (self.SIZE - 1)

    @override
    def play(self, actions: np.ndarray) -> np.ndarray:
        self._paddle = (self._paddle + (actions == 2) - (actions == 1)).clip(1, self.SIZE - 2)
        self._row += 1
        landed = self._row == self.SIZE - 1
        caught = landed & (abs(self._column - self._paddle) <= 1)
        self._row[landed] = 0
        self._caught += caught
        self.rewards[:] = caught.astype(np.float32) - (landed & ~caught)
        self.terminals[:] = landed & ~caught
        self.truncations[:] = self._caught == self.BALLS
        return self._caught / self.BALLS


class Recall(SmallTask):
    """Say at the end what was shown at the beginning, which only a recurrent policy can.

    Observation float32[3]: the first two show which of two signs there is, at the first step alone; the last is 1 when
    the answer is due, eight steps later. Actions: 0 and 1. Reward: +1 for the sign's number, -1 for the other, which
    ends the episode. perf = right.
    """

    DELAY = 8  # steps

    def __init__(self, num_envs: int = 1024, buf=None, seed: int = 0):
        self.single_observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        super().__init__(num_envs, buf, seed)
        self._sign, self._time = np.zeros((2, num_envs), int)

    @override
    def begin(self, ended: np.ndarray) -> None:
        self._sign[ended] = self._generator.integers(2, size=int(ended.sum()))
        self._time[ended] = 0
        first = self._time == 0
        self.observations[:, 0] = first & (self._sign == 0)
        self.observations[:, 1] = first & (self._sign == 1)
        self.observations[:, 2] = self._time == self.DELAY

    @override
    def play(self, actions: np.ndarray) -> np.ndarray:
        answered = self._time == self.DELAY
        right = answered & (actions == self._sign)
        self._time += 1
        self.rewards[:] = right.astype(np.float32) - (answered & ~right)
        self.terminals[:] = answered
        return right.astype(float)
