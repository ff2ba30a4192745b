"""Keys of environments, and which of them are down."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple

from pufferlib import spaces
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environment import Keys, PufferEnv
from pufferlib.errors import APIUsageError

GRID = {"left": 0, "right": 1, "up": 2, "page_up": 3, "page_down": 4, "space": 5, "enter": 6}
"""Of MiniGrid: turn left, turn right, forward, pick up, drop, toggle, done."""

KNOWN: Mapping[str, tuple[Keys, ...]] = {
    "CartPole": (Keys({"left": 0, "right": 1}, idle=[0, 1]),),
    "MountainCar": (Keys({"left": 0, "right": 2}, idle=1),),
    "MountainCarContinuous": (Keys({"left": -1.0, "right": 1.0}),),
    "Acrobot": (Keys({"left": 0, "right": 2}, idle=1),),
    "Pendulum": (Keys({"left": 2.0, "right": -2.0}),),  # a positive torque turns it anticlockwise
    "LunarLander": (
        Keys({"left": 1, "up": 2, "right": 3}, idle=0),
        Keys({"left": (0, -1), "up": (1, 0), "right": (0, 1)}),  # main engine, side engines
    ),
    "CarRacing": (
        Keys({"left": (-1, 0, 0), "right": (1, 0, 0), "up": (0, 1, 0), "down": (0, 0, 0.8)}),  # wheel, gas, brake
        Keys({"right": 1, "left": 2, "up": 3, "down": 4}, idle=0),
    ),
    "FrozenLake": (Keys({"left": 0, "down": 1, "right": 2, "up": 3}, waits=True),),
    "FrozenLake8x8": (Keys({"left": 0, "down": 1, "right": 2, "up": 3}, waits=True),),
    "CliffWalking": (Keys({"up": 0, "right": 1, "down": 2, "left": 3}, waits=True),),
    "CliffWalkingSlippery": (Keys({"up": 0, "right": 1, "down": 2, "left": 3}, waits=True),),
    "Taxi": (Keys({"down": 0, "up": 1, "right": 2, "left": 3, "page_up": 4, "page_down": 5}, waits=True),),
    "Blackjack": (Keys({"s": 0, "h": 1}, waits=True),),  # stick, hit
}
"""By the id without its version; one for each kind of action space that the environment can have."""


def _gymnasium_keys(env: gymnasium.Env, space: gymnasium.Space) -> Keys | None:
    # The space is that of actions as rows, see pufferlib.emulation.rows; None where no keys are known.
    name = "" if env.spec is None else env.spec.id.rpartition("-v")[0]
    candidates = list(KNOWN.get(name, ()))
    if name.startswith(("MiniGrid-", "BabyAI-")):
        candidates.append(Keys(GRID, waits=True))
    if hasattr(env.unwrapped, "get_keys_to_action"):
        candidates.append(_declared_keys(env.unwrapped.get_keys_to_action()))
    return next((keys for keys in candidates if keys is not None and _fits(keys, space)), None)


def _declared_keys(actions: Mapping[Any, Any]) -> Keys | None:
    # Gymnasium names keys by letters: W, A, S and D are the arrows, and E does nothing.
    names = {"w": "up", "a": "left", "s": "down", "d": "right", " ": "space"}
    chords = {tuple(keys): action for keys, action in actions.items() if isinstance(keys, (tuple, str))}
    if len(chords) < len(actions) or not all(isinstance(key, str) for keys in chords for key in keys):
        return None  # numbers of keys, which mean something else to every library
    idle = chords.pop((), None)
    idle = chords.pop(("e",), idle)
    named = {"+".join(names.get(key, key) for key in keys): action for keys, action in chords.items()}
    return Keys(named, idle=idle)


def _fits(keys: Keys, space: gymnasium.Space) -> bool:
    if isinstance(space, Discrete):
        return all(isinstance(action, int) and action < space.n for action in keys.actions.values())
    widths = {1 if isinstance(action, (int, float)) else len(action) for action in keys.actions.values()}
    return not isinstance(next(iter(keys.actions.values())), int) and widths == {*space.shape}


ARROWS = {"w": "up", "a": "left", "s": "down", "d": "right"}  # the arrows of letters without another meaning

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
        """Returns the action for the keys that are held, a row of the action space that the caller owns.

        `last` is the action before, None at the beginning. None where `waits` and no key that means something is held.
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

    None where no keys are known, several agents act at a time and not by turns, or actions mix choices and numbers.
    """
    agents = env.num_agents // getattr(env, "num_envs", 1)
    space = env.single_action_space
    if (agents != 1 and not getattr(env, "has_turns", False)) or isinstance(space, Tuple):
        return None
    keys = getattr(env, "keys", None)
    if keys is not None:
        return Keyboard(space, keys)
    if not isinstance(env, GymnasiumPufferEnv):
        return None
    keys = _gymnasium_keys(env.env, space)
    return None if keys is None else Keyboard(space, keys)


def held_keys(keyboard: Keyboard, raylib: ModuleType) -> set[str]:
    """Returns the keys of a keyboard that are down in the open window; `raylib` is that module."""
    return {name for name in keyboard.names if raylib.IsKeyDown(key_code(name, raylib))}


def key_code(name: str, raylib: ModuleType) -> int:
    """Returns the number of a key by its name; APIUsageError if raylib has no such key."""
    code = getattr(raylib, f"KEY_{name.upper()}", None)
    if code is None:
        raise APIUsageError(f"there is no key {name!r}; keys are called as raylib calls them, such as left, space, one")
    return code


COMMANDS = ("enter", "space", "p", "pause", "r", "f5")  # keys around a game


class KeyState:
    """Reads raylib's window once for each picture; steps take the keys from it.

    A step may last for several pictures: a key that was touched in between counts for the step, if none is held then.

    Attributes:
        pressed: keys that went down since the last `poll`, in their order, and keys that repeat, as in writing, if they
            mean something alone. Keys without a meaning are `other`.
        held: keys of the game that are down.
    """

    def __init__(self, keyboard: Keyboard, raylib: ModuleType):
        self.pressed: list[str] = []
        self._keyboard = keyboard
        self._raylib = raylib
        self._names = {key_code(name, raylib): name for name in (*COMMANDS, *sorted(keyboard.names))}
        self.held: set[str] = set()
        self._touched: set[str] = set()

    def poll(self) -> None:
        """Reads the keys; to be called after each picture."""
        went_down = [self._names.get(code, "other") for code in iter(self._raylib.GetKeyPressed, 0)]
        repeated = [name for code, name in self._names.items() if self._raylib.IsKeyPressedRepeat(code)]
        meant = [
            name for name in repeated if name in self._keyboard.names and self._keyboard.action({name}) is not None
        ]
        self.pressed = [*went_down, *meant]
        self.held = held_keys(self._keyboard, self._raylib)
        self._touched |= self.held | {name for name in went_down if name in self._keyboard.names}

    def take(self) -> set[str]:
        """Returns the keys that count for a step."""
        keys, self._touched = self.held or self._touched, set()
        return keys
