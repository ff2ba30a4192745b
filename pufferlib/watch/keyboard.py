"""From the keys that a person holds to the action of an agent."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from types import ModuleType

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple

from pufferlib import spaces
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environment import Keys, PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.watch.gymnasium_keys import gymnasium_keys

ARROWS = {"w": "up", "a": "left", "s": "down", "d": "right"}
"""The arrows of letters without another meaning."""

OPPOSITES = (("left", "right"), ("up", "down"))


class Keyboard:
    """The actions of one agent by the keys that are held; independent of any window.

    Attributes:
        names: the keys that mean something, as raylib calls them, in small letters.
        waits: whether nothing moves before one of them is pressed.
        description: the keys for a person to read, such as `left, right, space`.
    """

    def __init__(self, space: gymnasium.Space, keys: Keys):
        self._space = space
        self._shape, self._dtype = spaces.action_shape(space), spaces.action_dtype(space)
        self._actions = {frozenset(chord.split("+")): self._row(action) for chord, action in keys.actions.items()}
        used = frozenset().union(*self._actions)
        self._arrows = {letter: arrow for letter, arrow in ARROWS.items() if letter not in used and arrow in used}
        self.names = used | self._arrows.keys()
        self.description = ", ".join(chord.replace("_", " ") for chord in keys.actions if "+" not in chord)
        self.waits = keys.waits
        self._idle = self._idle_rows(keys.idle)

    def action(self, held: Collection[str], last: np.ndarray | None = None) -> np.ndarray | None:
        """Returns the action for the keys that are held.

        Args:
            held: names of keys; others than `names` count for nothing.
            last: the action before this one; None at the beginning.

        Returns:
            A row of the action space, owned by the caller; None where `waits` and no key that means something is held.
        """
        down = {self._arrows.get(name, name) for name in held}
        down -= {name for pair in OPPOSITES if down.issuperset(pair) for name in pair}
        chords = [chord for chord in self._actions if chord <= down]
        chords = [chord for chord in chords if not any(chord < other for other in chords)]
        if not chords:
            return self._without_keys(last)
        if isinstance(self._space, Discrete):
            return self._actions[max(chords, key=len)].copy()
        return self._combined([self._actions[chord] for chord in chords])

    def _without_keys(self, last: np.ndarray | None) -> np.ndarray | None:
        if self.waits:
            return None
        if not self._idle:
            return (next(iter(self._actions.values())) if last is None else last).copy()
        turn = next((index for index, row in enumerate(self._idle) if np.array_equal(row, last)), -1)
        return self._idle[(turn + 1) % len(self._idle)].copy()

    def _combined(self, actions: Iterable[np.ndarray]) -> np.ndarray:
        (idle,) = self._idle
        row = idle.copy()
        for action in actions:
            changed = action != idle
            row[changed] = action[changed] + (row[changed] - idle[changed]) * isinstance(self._space, Box)
        return np.clip(row, self._space.low, self._space.high) if isinstance(self._space, Box) else row

    def _idle_rows(self, idle: object) -> list[np.ndarray]:
        # The actions that take turns while no key is held; none where the last action stays.
        if idle is None:
            return [] if isinstance(self._space, Discrete) else [np.zeros(self._shape, self._dtype)]
        is_several = isinstance(self._space, Discrete) and isinstance(idle, (list, tuple))
        return [self._row(action) for action in (idle if is_several else [idle])]

    def _row(self, action: object) -> np.ndarray:
        row = np.asarray(action, self._dtype)
        if row.shape == () and self._shape == (1,):
            row = row.reshape(1)
        if row.shape != self._shape or not self._space.contains(row.astype(self._space.dtype)):
            raise APIUsageError(f"the actions of `keys` must be of {self._space}, got {action!r}")
        return row


def keyboard_for(env: PufferEnv) -> Keyboard | None:
    """Returns the keyboard of an environment: by its `keys`, or for one of Gymnasium by a table.

    Returns:
        None where no keys are known, several agents act at a time, or actions mix choices and numbers.

    Raises:
        APIUsageError: if an action of its `keys` is none of its space.
    """
    agents = env.num_agents // getattr(env, "num_envs", 1)
    space = env.single_action_space
    if agents != 1 or isinstance(space, Tuple):
        return None
    keys = getattr(env, "keys", None)
    if keys is not None:
        return Keyboard(space, keys)
    if not isinstance(env, GymnasiumPufferEnv):
        return None
    keys = gymnasium_keys(env.env, space)
    return None if keys is None else Keyboard(space, keys)


def held_keys(keyboard: Keyboard, raylib: ModuleType) -> set[str]:
    """Returns the keys of a keyboard that are down in the open window; `raylib` is that module."""
    return {name for name in keyboard.names if raylib.IsKeyDown(key_code(name, raylib))}


def key_code(name: str, raylib: ModuleType) -> int:
    """The number of a key by its name.

    Raises:
        APIUsageError: if raylib has no key of that name.
    """
    code = getattr(raylib, f"KEY_{name.upper()}", None)
    if code is None:
        raise APIUsageError(f"there is no key {name!r}; keys are called as raylib calls them, such as left, space, one")
    return code
