"""A person's control over what is shown: playback, keys, taking over, and the help on the screen."""

from __future__ import annotations

import enum
import math
from types import ModuleType

import numpy as np

from pufferlib.ocean.screen import CYAN, PANEL, WHITE
from pufferlib.watch.keyboard import Keyboard, held_keys
from pufferlib.watch.stage import EDGE, SHADE, VEIL, Brush

SLOWEST, FASTEST = 1 / 8, 64.0
PATIENCE_SECONDS = 0.1  # for which steps may hold up the next picture of a window: what they then lack goes slower
HOLD_SECONDS = 0.5  # of the person's time, for which the last moment stays


class Mode(enum.Enum):
    """The state of game time."""

    RUNNING = "runs"
    PAUSED = "stands"
    STEPPING = "runs to the end of a step, and stands from then on"


class Playback:
    """Turns the time that passes into steps that are due, and into how much of the last one is to be seen.

    A step is made when its motion begins, so that what is between it and the one before can be shown: at `position`
    2.25 three steps have been made, and a quarter of the third is over.

    Attributes:
        steps_per_second: the agent's steps in a second of game time.
        speed: seconds of game time in one second, SLOWEST to FASTEST; where a video is recorded, how fast that is done.
        mode: the state of game time.
        seconds: of game time since the beginning.
        is_recorded: whether game time goes from frame to frame of a video, and only stands after whole frames.
    """

    def __init__(self, steps_per_second: float, frames_per_second: float | None = None, speed: float = 1.0):
        """Begins at 0, running; `frames_per_second` are of a video that is recorded, None where time flows freely."""
        self.steps_per_second = steps_per_second
        self.is_recorded = frames_per_second is not None
        self.speed = 1.0 if self.is_recorded else speed
        self._lapse = speed
        self._frames_per_second = frames_per_second
        self.restart()

    def restart(self) -> None:
        """Goes back to the first moment, running, at the speed that it has."""
        self.mode = Mode.RUNNING
        self.seconds = 0.0
        self._frames = 0  # that passed since the beginning
        self._stop: int | None = None  # the position that STEPPING leads to
        self._end: int | None = None

    @property
    def position(self) -> float:
        """Steps that have been shown, the last one maybe in part."""
        position = round(self.seconds * self.steps_per_second, 6)  # what is a whole step is one, whatever the rounding
        return position if self._end is None else min(position, float(self._end))

    @property
    def steps_due(self) -> int:
        """Steps that have to be made for the present position, at least 1: the first moment is where that begins."""
        return max(1, math.ceil(self.position))

    @property
    def progress(self) -> float:
        """The part of the last due step that is over, 0 to 1."""
        return self.position - (self.steps_due - 1)

    @property
    def is_over(self) -> bool:
        """Whether all steps that there are were shown, and the last moment long enough."""
        if self._end is None:
            return False
        hold = HOLD_SECONDS * (self._lapse if self.is_recorded else self.speed)
        return round(self.seconds - self._end / self.steps_per_second - hold, 6) >= 0

    def advance(self, seconds: float) -> bool:
        """Advances the time; returns whether it moved."""
        if self.mode is Mode.PAUSED:
            return False
        if self.is_recorded:
            self._frames += 1
            self.seconds = self._frames * self._lapse / self._frames_per_second
        else:
            self.seconds += seconds * self.speed
        if self.mode is Mode.STEPPING and self.position >= self._stop:
            self.mode = Mode.PAUSED
            if not self.is_recorded:
                self.seconds = self._stop / self.steps_per_second
        return True

    def toggle_pause(self) -> None:
        """Stops, or continues."""
        self.mode = Mode.PAUSED if self.mode is Mode.RUNNING else Mode.RUNNING

    def step(self) -> None:
        """Plays to the end of the step that is shown, or of the next one, and stops there; several calls add up."""
        begin = self._stop if self.mode is Mode.STEPPING else math.floor(self.position)
        self._stop = begin + 1
        self.mode = Mode.STEPPING

    def change_speed(self, factor: float) -> None:
        """Multiplies the speed, within SLOWEST to FASTEST."""
        self.speed = min(max(factor * self.speed, SLOWEST), FASTEST)

    def end_at(self, steps: int) -> None:
        """Sets the number of steps that can be made."""
        self._end = steps

    def fall_back(self, steps: int) -> None:
        """Moves time back to the steps that could be made in it."""
        self.seconds = min(self.seconds, steps / self.steps_per_second)


class ViewerCommand(enum.Enum):
    """A command to a play; the value is its keys and its effect, for the list of keys, and raylib's names of them."""

    PAUSE = ("space", "pause, or go on", "SPACE")
    STEP = ("right or .", "a single step", "RIGHT PERIOD")
    FASTER = ("+", "twice as fast, up to 64x", "")
    SLOWER = ("-", "half as fast, down to 1/8x", "")
    NORMAL_SPEED = ("1", "as fast as it naturally is", "ONE KP_1")
    RESTART = ("R", "play again from the beginning", "R")
    PANEL = ("tab or P", "what the agent sees and thinks", "TAB P")
    SCREENSHOT = ("F12 or S", "a picture, into this folder", "F12 S")
    HELP = ("F1 or H", "these keys, or close them", "F1 H")


OTHER_KEYS = (("shift + keys", "play the first one yourself"), ("esc", "end"))

KEYS = {key: command for command in ViewerCommand for key in command.value[2].split()}

CHARACTERS = {"+": ViewerCommand.FASTER, "=": ViewerCommand.FASTER, "-": ViewerCommand.SLOWER}
"""Their keys differ between keyboards; `=` is the `+` of many without shift."""


class Controls:
    """Reads what is pressed in raylib's window: commands, and with shift a person's action in place of the policy's."""

    def __init__(self, raylib: ModuleType, keyboard: Keyboard | None = None):
        self._raylib = raylib
        self._keyboard = keyboard  # None where the meaning of keys is not known
        self._names = {getattr(raylib, f"KEY_{name}"): name for name in KEYS if hasattr(raylib, f"KEY_{name}")}
        self._last: np.ndarray | None = None  # action

    def commands(self) -> list[ViewerCommand]:
        """Returns the commands since the last call."""
        keys = [self._names.get(code, "") for code in iter(self._raylib.GetKeyPressed, 0)]
        characters = [chr(code) for code in iter(self._raylib.GetCharPressed, 0)]
        from_keys = (
            [] if self.is_shift_held else [KEYS[key] for key in keys if key in KEYS]
        )  # with it they are the game's
        return [*from_keys, *(CHARACTERS[each] for each in characters if each in CHARACTERS)]

    @property
    def is_shift_held(self) -> bool:
        """Whether one of the two is down."""
        return any(map(self._raylib.IsKeyDown, (self._raylib.KEY_LEFT_SHIFT, self._raylib.KEY_RIGHT_SHIFT)))

    @property
    def is_playing(self) -> bool:
        """Whether shift is held in an environment that a person can play."""
        return self._keyboard is not None and self.is_shift_held

    @property
    def is_awaited(self) -> bool:
        """Whether the game stands until the person moves."""
        return self.is_playing and self._keyboard.waits and not held_keys(self._keyboard, self._raylib)

    def action(self) -> np.ndarray | None:
        """Returns the action of the keys that are held, a row of the action space; None leaves it to the policy."""
        is_playing = self.is_playing
        self._last = self._keyboard.action(held_keys(self._keyboard, self._raylib), self._last) if is_playing else None
        return self._last


NOTICE_SECONDS = 2.0

_LINE, _TEXT = 26, 18
_WIDTH = 420
_KEYS = 150  # pixels from the keys to what they do


class Overlay:
    """The texts over a picture."""

    def __init__(self) -> None:
        self.is_helping = False
        self.notice = ""
        self._seconds_left = 0.0
        self.say("F1 lists the keys")

    def say(self, notice: str) -> None:
        """Shows a few words for NOTICE_SECONDS, in place of earlier ones."""
        self.notice, self._seconds_left = notice, NOTICE_SECONDS

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._seconds_left -= seconds
        if self._seconds_left <= 0:
            self.notice = ""

    def draw(self, brush: Brush, width: int, badge: str) -> None:
        """Draws it over the picture."""
        _, height = brush.screen.size
        y = height - _LINE - 12
        if badge:
            _label(brush, badge, 12, y, CYAN)
        if self.notice:
            _label(brush, self.notice, (width - _room(brush, self.notice)) / 2, y, WHITE)
        if self.is_helping:
            _draw_help(brush, width, height)


def _room(brush: Brush, text: str) -> float:
    return brush.screen.text_width(text, _TEXT) + 20


def _label(brush: Brush, text: str, left: float, y: float, color: tuple[int, int, int, int]) -> None:
    brush.box(left, y, _room(brush, text), _LINE, VEIL)
    brush.text(text, left + 10, y + (_LINE - _TEXT) / 2, _TEXT, color)


def _draw_help(brush: Brush, width: int, height: int) -> None:
    lines = [*(command.value[:2] for command in ViewerCommand), *OTHER_KEYS]
    scale = min(1.0, width / (_WIDTH + 20), height / (_LINE * (len(lines) + 1) + 20))
    line, text = _LINE * scale, max(4, round(_TEXT * scale))
    room, tall = _WIDTH * scale, line * (len(lines) + 1)
    left, top = (width - room) / 2, (height - tall) / 2
    brush.box(0, 0, width, height, SHADE)
    brush.box(left - 1, top - 1, room + 2, tall + 2, EDGE)
    brush.box(left, top, room, tall, PANEL)
    for index, (keys, effect) in enumerate(lines):
        y = top + (index + 0.5) * line + (line - text) / 2
        brush.text_before(keys, left + (_KEYS - 20) * scale, y, text, CYAN)
        brush.text(effect, left + _KEYS * scale, y, text, WHITE)
