"""Environments as a stranger brings them, each odd in one way, small enough to be learnt within a minute or two.

All but two are `Hunt`: its numbers, its time or its length are odd. `best_action` plays each as well as can be, so that
what a policy returns can be compared with what there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Hunt(gymnasium.Env):
    """A square board: who reaches the target gets a reward, and the target is elsewhere.

    The observation is where the player is and where the target is, each from -1 to 1 times `scale`.
    """

    def __init__(
        self, size: int = 5, limit: int = 64, reward: float = 1.0, scale: float = 1.0, seconds: float = 0.0
    ) -> None:
        self.size, self.limit, self.reward, self.scale, self.seconds = size, limit, reward, scale, seconds
        self.observation_space = Box(-scale, scale, (4,), np.float32)
        self.action_space = Discrete(len(MOVES))
        self._player, self._target, self._steps = np.zeros(2, int), np.zeros(2, int), 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._player, self._steps = self.np_random.integers(0, self.size, 2), 0
        self._move_target()
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self.seconds:
            time.sleep(self.seconds)
        self._steps += 1
        self._player = np.clip(self._player + MOVES[int(action)], 0, self.size - 1)
        is_reached = bool((self._player == self._target).all())
        if is_reached:
            self._move_target()
        return self._observation(), self.reward * is_reached, False, self._steps >= self.limit, {}

    def best_action(self) -> int:
        """A move that leads to the target."""
        distances = [np.abs(self._player + move - self._target).sum() for move in MOVES]
        return int(np.argmin(distances))

    def _move_target(self) -> None:
        self._target = self._player
        while (self._target == self._player).all():
            self._target = self.np_random.integers(0, self.size, 2)

    def _observation(self) -> np.ndarray:
        places = np.concatenate([self._player, self._target]) / (self.size - 1)
        return ((2.0 * places - 1.0) * self.scale).astype(np.float32)


class ManyActions(gymnasium.Env):
    """A number from -1 to 1 names one of 200 actions: the nearer to it, the more of a reward, and none from 20 on."""

    NUM_ACTIONS, NEAR, LIMIT = 200, 20, 20

    def __init__(self) -> None:
        self.observation_space = Box(-1, 1, (1,), np.float32)
        self.action_space = Discrete(self.NUM_ACTIONS)
        self._named, self._steps = 0, 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._steps = 0
        return self._next(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._steps += 1
        reward = max(0.0, 1.0 - abs(int(action) - self._named) / self.NEAR)
        return self._next(), reward, False, self._steps >= self.LIMIT, {}

    def best_action(self) -> int:
        """The one that is named."""
        return self._named

    def _next(self) -> np.ndarray:
        self._named = int(self.np_random.integers(self.NUM_ACTIONS))
        return np.array([2.0 * self._named / (self.NUM_ACTIONS - 1) - 1.0], np.float32)


class SmallPictures(gymnasium.Env):
    """Catch, seen as a colour picture of 32 x 32: a ball falls, and a paddle is to be where it lands."""

    CELLS, PIXELS = 8, 4

    def __init__(self) -> None:
        side = self.CELLS * self.PIXELS
        self.observation_space = Box(0, 255, (side, side, 3), np.uint8)
        self.action_space = Discrete(3)
        self._row = self._column = self._paddle = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._row, self._column, self._paddle = 0, *map(int, self.np_random.integers(0, self.CELLS, 2))
        return self._picture(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._row += 1
        self._paddle = min(max(self._paddle + int(action) - 1, 0), self.CELLS - 1)
        is_over = self._row == self.CELLS - 1
        reward = 0.0 if not is_over else 1.0 if self._paddle == self._column else -1.0
        return self._picture(), reward, is_over, False, {}

    def best_action(self) -> int:
        """Towards the column of the ball."""
        return int(np.sign(self._column - self._paddle)) + 1

    def _picture(self) -> np.ndarray:
        picture = np.full(self.observation_space.shape, (90, 140, 200), np.uint8)
        for row, column, colour in (
            (self.CELLS - 1, self._paddle, (60, 30, 30)),
            (self._row, self._column, (250,) * 3),
        ):
            rows, columns = (slice(index * self.PIXELS, (index + 1) * self.PIXELS) for index in (row, column))
            picture[rows, columns] = colour
        return picture


ODD_ENVS: dict[str, tuple[Callable[[], gymnasium.Env], int]] = {
    "rewards of 1000": (lambda: Hunt(reward=1_000.0), 100_000),
    "observations of 10000": (lambda: Hunt(scale=10_000.0), 100_000),
    "episodes of 5000 steps": (lambda: Hunt(limit=5_000), 100_000),
    "200 actions": (ManyActions, 200_000),
    "pictures of 32 x 32": (SmallPictures, 100_000),
    "5 ms a step": (lambda: Hunt(size=3, seconds=0.005), 20_000),
}
"""How each is made, and for how many steps it is trained."""


def best_return(make: Callable[[], Any], episodes: int, seed: int = 0) -> float:
    """The mean return of episodes that are played as well as can be."""
    env, total = make(), 0.0
    if isinstance(env, Hunt):
        env.seconds = 0.0
    for index in range(episodes):
        env.reset(seed=seed + index)
        is_over = False
        while not is_over:
            _, reward, terminated, truncated, _ = env.step(env.best_action())
            total, is_over = total + reward, terminated or truncated
    return total / episodes
