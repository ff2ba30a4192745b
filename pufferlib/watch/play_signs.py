"""What a person who plays reads: the score above the picture, and signs in the middle of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pufferlib.ocean.screen import Screen
from pufferlib.watch.high_scores import HighScore, shown_score
from pufferlib.watch.palette import CYAN, EDGE, GREY, PANEL, VEIL, WHITE

BAR_HEIGHT = 44
MIN_WIDTH = 520
"""Pixels of a window, so that the bar has room."""

_SMALL, _NORMAL, _LARGE, _HUGE = 18, 22, 40, 120
_PADDING = 26
_TABLE_ROWS = 5


@dataclass(frozen=True)
class Line:
    """One line of a sign: parts of it stand in columns, or a single one in the middle."""

    parts: tuple[str, ...]
    size: int = _NORMAL
    color: tuple[int, ...] = WHITE


def draw_bar(screen: Screen, score: float, best: float | None, middle: str) -> None:
    """The line above the picture.

    Args:
        screen: between its `begin` and `end`.
        score: of the running game.
        best: of all games; None where there is none.
        middle: what else there is to say.
    """
    width, _ = screen.size
    screen.rectangle(0, 0, width, BAR_HEIGHT, PANEL)
    y = (BAR_HEIGHT - _NORMAL) / 2
    screen.text(f"score {shown_score(score)}", 16, y, _NORMAL, WHITE)
    if best is not None:
        text = f"best {shown_score(best)}"
        screen.text(text, width - 16 - screen.text_width(text, _NORMAL), y, _NORMAL, CYAN)
    screen.text(middle, (width - screen.text_width(middle, _SMALL)) / 2, y + 2, _SMALL, GREY)


def draw_number(screen: Screen, number: int) -> None:
    """A large number in the middle, over the picture."""
    width, height = screen.size
    text = str(number)
    x, y = (width - screen.text_width(text, _HUGE)) / 2, (height + BAR_HEIGHT - _HUGE) / 2
    _draw_panel(screen, width / 2 - 75, y - 15, 150, _HUGE + 30)
    screen.text(text, x, y, _HUGE, CYAN)


def draw_sign(screen: Screen, lines: Sequence[Line]) -> None:
    """Lines in a frame in the middle, over the picture; it becomes smaller where the window is."""
    width, height = screen.size
    inner = max(_line_width(screen, line) for line in lines)
    tall = sum(1.3 * line.size for line in lines)
    scale = min(1.0, (width - 20) / (inner + 2 * _PADDING), (height - BAR_HEIGHT - 20) / (tall + 2 * _PADDING))
    inner, tall, padding = inner * scale, tall * scale, _PADDING * scale
    x, y = (width - inner) / 2, (height + BAR_HEIGHT - tall) / 2
    screen.rectangle(0, BAR_HEIGHT, width, height - BAR_HEIGHT, (*VEIL[:3], 120))
    _draw_panel(screen, x - padding, y - padding, inner + 2 * padding, tall + 2 * padding)
    for line in lines:
        _draw_line(screen, line, x, y, inner, scale)
        y += 1.3 * line.size * scale


def table_lines(scores: Sequence[HighScore], place: int | None) -> list[Line]:
    """The best games, that of a place in another colour."""
    shown = scores[:_TABLE_ROWS] if place is None or place <= _TABLE_ROWS else [*scores[: _TABLE_ROWS - 1]]
    lines = [_row(index + 1, one, index + 1 == place) for index, one in enumerate(shown)]
    if place is not None and place > _TABLE_ROWS:
        lines.append(_row(place, scores[place - 1], True))
    return lines


def keys_lines(keys: Sequence[tuple[str, str]]) -> list[Line]:
    """What the keys do, each with its effect."""
    return [Line(pair, _SMALL, GREY) for pair in keys]


def title_line(text: str) -> Line:
    """The first line of a sign."""
    return Line((text,), _LARGE, CYAN)


def hint_line(text: str) -> Line:
    """The last line of a sign: what to do now."""
    return Line((text,), _SMALL, GREY)


def _row(place: int, one: HighScore, is_new: bool) -> Line:
    return Line((f"{place}", shown_score(one.score), one.date), _NORMAL, CYAN if is_new else WHITE)


def _draw_panel(screen: Screen, x: float, y: float, width: float, height: float) -> None:
    screen.rectangle(x - 2, y - 2, width + 4, height + 4, EDGE, 16)
    screen.rectangle(x, y, width, height, PANEL, 14)


def _line_width(screen: Screen, line: Line) -> float:
    gaps = 40 * (len(line.parts) - 1)
    return sum(screen.text_width(part, line.size) for part in line.parts) + gaps


def _draw_line(screen: Screen, line: Line, x: float, y: float, width: float, scale: float) -> None:
    size = max(4, round(line.size * scale))
    widths = [screen.text_width(part, size) for part in line.parts]
    free = width - sum(widths)
    if len(line.parts) == 1:
        screen.text(line.parts[0], x + free / 2, y, size, line.color)
        return
    for part, wide in zip(line.parts, widths, strict=True):
        screen.text(part, x, y, size, line.color)
        x += wide + free / (len(line.parts) - 1)
