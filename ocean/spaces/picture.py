"""The picture of spaces: what was seen, framed in cyan where it was answered rightly and in red where not."""

from __future__ import annotations

from typing import Any

import numpy as np

from pufferlib.ocean.screen import BACKGROUND, CYAN, PANEL, RED, WHITE

WIDTH, HEIGHT, MARGIN = 640, 320, 40
CELL, CARD, GAP = 72, 40, 8  # pixels
RIGHT = 340  # where the cards, switches and dials begin


def draw(seen: dict[str, Any], action: dict[str, Any] | None = None, shares: np.ndarray | None = None) -> np.ndarray:
    """Draws an observation of one game and, with them, an action and how right its numbers were, `(9,)`.

    Returns `(320, 640, 3)` uint8.
    """
    frame = np.full((HEIGHT, WIDTH, 3), BACKGROUND, np.uint8)
    colors = [PANEL] * 9 if shares is None else [_mixed(RED, CYAN, float(share)) for share in shares]
    _draw_picture(frame, seen["picture"], None if action is None else int(action["cell"]), colors[0])
    suit, pair = seen["cards"]
    answers = [None] * 3 if action is None else [action["cards"][0] - 1, *action["cards"][1]]
    for row, (shown, count, answer) in enumerate(zip((suit - 1, *pair), (4, 3, 5), answers, strict=True)):
        _draw_slots(frame, MARGIN + row * (CARD + GAP), int(shown), count, answer, colors[1 + row])
    for index, is_on in enumerate(seen["switches"]):
        _draw_switch(frame, RIGHT + index * (CARD * 2 + GAP), bool(is_on), colors[4 + index])
    for index, target in enumerate((seen["gauge"][1], -seen["gauge"][0])):
        answer = None if action is None else float(action["dials"][index])
        _draw_dial(frame, HEIGHT - MARGIN - 44 + index * 28, float(target), answer, colors[7 + index])
    return frame


def _fill(frame: np.ndarray, x: float, y: float, width: float, height: float, color: Any) -> None:
    frame[round(y) : round(y + height), round(x) : round(x + width)] = color


def _mixed(one: tuple[int, ...], other: tuple[int, ...], share: float) -> tuple[int, ...]:
    return tuple(round(a + (b - a) * share) for a, b in zip(one[:3], other[:3], strict=True))


def _framed(frame: np.ndarray, x: float, y: float, width: float, height: float, edge: Any, inside: Any) -> None:
    _fill(frame, x, y, width, height, edge)
    _fill(frame, x + 4, y + 4, width - 8, height - 8, inside)


def _draw_picture(frame: np.ndarray, picture: np.ndarray, answer: int | None, color: Any) -> None:
    for cell, level in enumerate(picture.flat):
        x, y = MARGIN + cell % 3 * (CELL + GAP), MARGIN + cell // 3 * (CELL + GAP)
        inside = _mixed(BACKGROUND, WHITE, float(level) / 255)
        _framed(frame, x, y, CELL, CELL, color if cell == answer else inside, inside)


def _draw_slots(frame: np.ndarray, y: int, shown: int, count: int, answer: int | None, color: Any) -> None:
    for index in range(count):
        inside = WHITE if index == shown else PANEL
        _framed(frame, RIGHT + index * (CARD + GAP), y, CARD, CARD, color if index == answer else inside, inside)


def _draw_switch(frame: np.ndarray, x: int, is_on: bool, color: Any) -> None:
    y = MARGIN + 3 * (CARD + GAP)
    _framed(frame, x, y, CARD * 2, 28, color, PANEL)
    _fill(frame, x + 6 + is_on * (CARD * 2 - 44), y + 6, 32, 16, WHITE)


def _draw_dial(frame: np.ndarray, y: int, target: float, answer: float | None, color: Any) -> None:
    length = WIDTH - MARGIN - RIGHT
    _fill(frame, RIGHT, y + 6, length, 8, PANEL)
    for value, half, painted in ((target, 3, WHITE), (answer, 6, color)):
        if value is not None:
            _fill(frame, RIGHT + (value + 1) / 2 * length - half, y, 2 * half, 20, painted)
