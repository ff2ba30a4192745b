"""Text over the picture in a window: the pause, the effect of a key, the list of keys."""

from __future__ import annotations

from pufferlib.watch.brush import Brush
from pufferlib.watch.controls import OTHER_KEYS, ViewerCommand
from pufferlib.watch.palette import CYAN, EDGE, PANEL, SHADE, VEIL, WHITE

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
    lines = [*(command.value for command in ViewerCommand), *OTHER_KEYS]
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
