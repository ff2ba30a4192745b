"""The state of the keyboard in a window: keys that are held, and those that were pressed since."""

from __future__ import annotations

from types import ModuleType

from pufferlib.watch.keyboard import Keyboard, held_keys, key_code

COMMANDS = ("enter", "space", "p", "pause", "r", "f5")
"""Keys around a game."""


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
        self.pressed = [*went_down, *(name for name in repeated if self._means_something(name))]
        self.held = held_keys(self._keyboard, self._raylib)
        self._touched |= self.held | {name for name in went_down if name in self._keyboard.names}

    def _means_something(self, name: str) -> bool:
        return name in self._keyboard.names and self._keyboard.action({name}) is not None

    def take(self) -> set[str]:
        """Returns the keys that count for a step."""
        keys, self._touched = self.held or self._touched, set()
        return keys
