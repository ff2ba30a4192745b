"""Keys for the environments of Gymnasium, most of which define none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
from gymnasium.spaces import Discrete

from pufferlib.environment import Keys

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


def gymnasium_keys(env: gymnasium.Env, space: gymnasium.Space) -> Keys | None:
    """Returns the keys of an environment of Gymnasium.

    Args:
        env: the environment, which may be wrapped.
        space: of its actions as rows, see pufferlib.emulation.actions.

    Returns:
        None where none are known.
    """
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
    return Keys({_chord(keys, names): action for keys, action in chords.items()}, idle=idle)


def _chord(keys: Iterable[str], names: Mapping[str, str]) -> str:
    return "+".join(names.get(key, key) for key in keys)


def _fits(keys: Keys, space: gymnasium.Space) -> bool:
    if isinstance(space, Discrete):
        return all(isinstance(action, int) and action < space.n for action in keys.actions.values())
    widths = {1 if isinstance(action, (int, float)) else len(action) for action in keys.actions.values()}
    return not isinstance(next(iter(keys.actions.values())), int) and widths == {*space.shape}
