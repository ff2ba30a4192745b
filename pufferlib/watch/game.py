"""Episodes that a person plays: steps by the keys that are held, and the score."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pufferlib.environment import PufferEnv
from pufferlib.watch.keyboard import Keyboard


class HumanEpisodes:
    """Plays one episode after another in an environment of one agent."""

    def __init__(self, env: PufferEnv, keyboard: Keyboard, seed: int):
        self.keyboard = keyboard
        self._env = env
        self._seed = seed
        self._action: np.ndarray | None = None
        env.reset(seed)
        self._clear()

    def begin(self) -> None:
        """Begins the next episode; one that has not ended is abandoned."""
        if self.is_over:
            self._env.reset()  # it has reset itself, but its arrays still tell of the end
        else:
            self._seed += 1
            self._env.reset(self._seed)
        self._clear()

    def step(self, held: Collection[str]) -> None:
        """Steps with the keys that are held; a game that waits makes no step while none of them means anything."""
        action = self.keyboard.action(held, self._action)
        if action is None:
            return
        self._action = action
        _, rewards, terminals, truncations, _ = self._env.step(action[None])
        self.score += float(rewards[0])
        self.steps += 1
        self.is_over = bool(terminals[0] or truncations[0])

    def _clear(self) -> None:
        self.score, self.steps, self.is_over = 0.0, 0, False
        self._action = None
