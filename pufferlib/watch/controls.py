"""The keys of a window, and the commands that they give."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from types import ModuleType


class ViewerCommand(enum.Enum):
    """A command to a play; the value is its keys and its effect, for the list of keys."""

    PAUSE = ("space", "pause, or go on")
    STEP = ("right or .", "a single step")
    FASTER = ("+", "twice as fast, up to 64x")
    SLOWER = ("-", "half as fast, down to 1/8x")
    NORMAL_SPEED = ("1", "as fast as it naturally is")
    RESTART = ("R", "play again from the beginning")
    PANEL = ("tab or P", "what the agent sees and thinks")
    SCREENSHOT = ("F12 or S", "a picture, into this folder")
    HELP = ("F1 or H", "these keys, or close them")


OTHER_KEYS = (("shift + keys", "play the first one yourself"), ("esc", "end"))
"""Keys that act while they are held, and that of raylib itself."""

KEYS = {
    "SPACE": ViewerCommand.PAUSE,
    "RIGHT": ViewerCommand.STEP,
    "PERIOD": ViewerCommand.STEP,
    "ONE": ViewerCommand.NORMAL_SPEED,
    "KP_1": ViewerCommand.NORMAL_SPEED,
    "R": ViewerCommand.RESTART,
    "TAB": ViewerCommand.PANEL,
    "P": ViewerCommand.PANEL,
    "F12": ViewerCommand.SCREENSHOT,
    "S": ViewerCommand.SCREENSHOT,
    "F1": ViewerCommand.HELP,
    "H": ViewerCommand.HELP,
}
"""By raylib's names, which are places on a keyboard."""

CHARACTERS = {"+": ViewerCommand.FASTER, "=": ViewerCommand.FASTER, "-": ViewerCommand.SLOWER}
"""Their keys differ between keyboards; `=` is the `+` of many without shift."""


def commands(keys: Iterable[str], characters: Iterable[str], is_shift_held: bool) -> list[ViewerCommand]:
    """Returns the commands of keys and characters."""
    from_keys = [] if is_shift_held else [KEYS[key] for key in keys if key in KEYS]
    return [*from_keys, *(CHARACTERS[each] for each in characters if each in CHARACTERS)]


class Controls:
    """Reads what was pressed in raylib's window since the last picture."""

    def __init__(self, raylib: ModuleType):
        self._raylib = raylib
        self._names = {getattr(raylib, f"KEY_{name}"): name for name in KEYS if hasattr(raylib, f"KEY_{name}")}

    @property
    def is_shift_held(self) -> bool:
        """Whether one of the two is down."""
        return any(map(self._raylib.IsKeyDown, (self._raylib.KEY_LEFT_SHIFT, self._raylib.KEY_RIGHT_SHIFT)))

    def commands(self) -> list[ViewerCommand]:
        """Returns the commands since the last call."""
        keys = [self._names.get(code, "") for code in iter(self._raylib.GetKeyPressed, 0)]
        characters = [chr(code) for code in iter(self._raylib.GetCharPressed, 0)]
        return commands(keys, characters, self.is_shift_held)
