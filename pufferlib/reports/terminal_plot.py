"""Plots of runs on a terminal, in dots of braille: eight to a character."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pufferlib.metrics.dashboard import count_text, number_text, percent_text
from pufferlib.metrics.output import Output, printable
from pufferlib.reports.curves import STEPS, X_AXES, Curve, Panel, Split
from pufferlib.reports.palette import MUTED, PHASES, WHITE, series_colour
from pufferlib.reports.texts import cost_text

if TYPE_CHECKING:
    from rich.console import Console

ROWS = 10  # characters of a plot's height
_LEAST_COLUMNS, _MOST_COLUMNS = 20, 100
_LABEL = 10  # characters at the left, for the least and the greatest value
_BLANK = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bits of a braille sign, by row and column


class Canvas:
    """Characters that are drawn on dot by dot; the last curve that touches a character gives it its colour.

    Attributes:
        columns: characters across.
        rows: characters down.
    """

    def __init__(self, columns: int, rows: int):
        self.columns, self.rows = columns, rows
        self._bits = [[0] * columns for _ in range(rows)]
        self._colours = [[""] * columns for _ in range(rows)]

    def draw(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """Joins points by lines; both coordinates from 0 to 1, from the left and from the bottom."""
        places = [self._place(*point) for point in points]
        for place in places[:1]:
            self._dot(*place, colour)
        for (x, y), (next_x, next_y) in zip(places, places[1:], strict=False):
            count = max(abs(next_x - x), abs(next_y - y), 1)
            for index in range(count + 1):
                self._dot(round(x + (next_x - x) * index / count), round(y + (next_y - y) * index / count), colour)

    def lines(self) -> list[list[tuple[str, str]]]:
        """Each line from the top as texts with their colours; an untouched character is a space."""
        return [
            [
                ("".join(sign for sign, _ in part), colour)
                for colour, part in itertools.groupby(line, lambda each: each[1])
            ]
            for line in map(self._signs, range(self.rows))
        ]

    def _signs(self, row: int) -> list[tuple[str, str]]:
        bits = self._bits[row]
        return [
            (chr(_BLANK + bit) if bit else " ", colour) for bit, colour in zip(bits, self._colours[row], strict=True)
        ]

    def _place(self, x: float, y: float) -> tuple[int, int]:
        return round(x * (2 * self.columns - 1)), round((1 - y) * (4 * self.rows - 1))

    def _dot(self, x: int, y: int, colour: str) -> None:
        self._bits[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
        self._colours[y // 4][x // 2] = colour


def print_panels(panels: Sequence[Panel | Split]) -> None:
    """Prints plots below each other: curves of several runs in one plot where colours tell them apart, else in turn."""
    from rich.console import Console

    console = Console(file=Output(sys.stdout), highlight=False)
    columns = max(_LEAST_COLUMNS, min(_MOST_COLUMNS, console.width - _LABEL - 1))
    for panel in panels:
        console.print()
        if isinstance(panel, Split):
            for name, shares in panel.shares.items():
                _print_shares(console, f"{panel.title}  {name}", shares, columns)
        elif panel.is_stacked:
            means = {curve.label: sum(curve.ys) / len(curve.ys) for curve in panel.curves}
            _print_shares(console, panel.title, means, columns)
        elif console.color_system is None and len(panel.curves) > 1:
            _print_in_turn(console, panel, columns)
        else:
            _print_lines(console, panel, panel.curves, columns)


def _print_in_turn(console: Console, panel: Panel, columns: int) -> None:
    for curve in panel.curves:
        _print_lines(console, Panel(f"{panel.title}  {curve.label}", panel.x, panel.curves), [curve], columns)


def _print_lines(console: Console, panel: Panel, curves: Sequence[Curve], columns: int) -> None:
    from rich.text import Text

    xs = [x for curve in panel.curves for x in curve.xs]
    ys = [y for curve in panel.curves for y in curve.ys]
    canvas = Canvas(columns, ROWS)
    for index, curve in enumerate(curves):
        points = [(_share(x, xs), _share(y, ys)) for x, y in zip(curve.xs, curve.ys, strict=True)]
        canvas.draw(points, series_colour(index))
    console.print(Text(printable(panel.title), f"bold {WHITE}"))
    margin = {0: number_text(max(ys)), ROWS - 1: number_text(min(ys))}
    for row, line in enumerate(canvas.lines()):
        label = Text(f"{margin.get(row, ''):>{_LABEL}} ", MUTED)
        console.print(Text.assemble(label, *line), no_wrap=True, crop=True)
    begin, end = (_place_text(panel.x, place) for place in (min(xs), max(xs)))
    middle = X_AXES[panel.x].center(columns - len(begin) - len(end))
    console.print(Text(f"{'':{_LABEL}} {begin}{middle}{end}", MUTED), no_wrap=True)
    if len(curves) > 1:
        for index, curve in enumerate(curves):
            label = (printable(curve.label), WHITE)
            console.print(Text.assemble(" " * (_LABEL + 1), ("━━ ", series_colour(index)), label))


def _print_shares(console: Console, title: str, shares: Mapping[str, float], columns: int) -> None:
    from rich.text import Text

    console.print(Text(printable(title), f"bold {WHITE}"))
    width = max(map(len, shares))
    for name, share in shares.items():
        label = (f"{printable(name):<{width}} {percent_text(share):>4} ", MUTED)
        bar = ("█" * round(share * (columns - width)), PHASES.get(name, MUTED))
        console.print(Text.assemble(label, bar), no_wrap=True, crop=True)


def _share(value: float, values: Sequence[float]) -> float:
    low, high = min(values), max(values)
    return (value - low) / (high - low) if high > low else 0.5


def _place_text(x: str, place: float) -> str:
    return count_text(place) if x == STEPS else cost_text(place)
