"""A person who plays in place of the policy while shift is held."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from pufferlib.watch.controls import Controls
from pufferlib.watch.keyboard import Keyboard, held_keys


class HumanControl:
    """Turns the keys of raylib's window into actions; `keyboard` is None where the meaning of keys is not known."""

    def __init__(self, keyboard: Keyboard | None, controls: Controls, raylib: ModuleType):
        self._keyboard = keyboard
        self._controls = controls
        self._raylib = raylib
        self._last: np.ndarray | None = None

    @property
    def is_playing(self) -> bool:
        """Whether shift is held in an environment that a person can play."""
        return self._keyboard is not None and self._controls.is_shift_held

    @property
    def has_no_keys(self) -> bool:
        """Whether shift is held in an environment without known keys."""
        return self._keyboard is None and self._controls.is_shift_held

    @property
    def is_awaited(self) -> bool:
        """Whether the game stands until the person moves."""
        return self.is_playing and self._keyboard.waits and not held_keys(self._keyboard, self._raylib)

    def action(self) -> np.ndarray | None:
        """Returns the action of the keys that are held, a row of the action space; None leaves it to the policy."""
        if not self.is_playing:
            self._last = None
            return None
        self._last = self._keyboard.action(held_keys(self._keyboard, self._raylib), self._last)
        return self._last
