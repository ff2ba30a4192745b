"""Plots of runs on a terminal, in dots of braille: eight to a character."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pufferlib.metrics.dashboard import count_text, number_text, percent_text
from pufferlib.metrics.output import Output, printable
from pufferlib.reports.curves import STEPS, X_AXES, Curve, Panel, Split
from pufferlib.reports.palette import MUTED, PHASES, WHITE, series_colour
from pufferlib.reports.texts import cost_text

if TYPE_CHECKING:
    from rich.console import Console

_ROWS = 10  # characters of a plot's height
_LEAST_COLUMNS, _MOST_COLUMNS = 20, 100
_LABEL = 10  # characters at the left, for the least and the greatest value
_DOTS = np.array(((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80)))  # bits of a braille sign, by row and column


def print_panels(panels: Sequence[Panel | Split]) -> None:
    """Prints plots below each other; curves of several runs share a plot where colours tell them apart."""
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
            for curve in panel.curves:
                _print_curves(console, f"{panel.title}  {curve.label}", panel, [curve], columns)
        else:
            _print_curves(console, panel.title, panel, panel.curves, columns)


def braille(curves: Sequence[tuple[np.ndarray, str]], columns: int, rows: int) -> list[list[tuple[str, str]]]:
    """Joins the points of each curve by lines.

    Args:
        curves: `(points, 2)` from 0 to 1, from the left and from the bottom, and a colour.
        columns: characters across.
        rows: characters down.

    Returns:
        The lines from the top, each as texts with their colours. A sign has the colour of the last curve in it.
    """
    bits, colours = np.zeros((rows, columns), int), np.full((rows, columns), "", object)
    for points, colour in curves:
        dots = np.rint(points * (2 * columns - 1, 4 * rows - 1)).astype(int)
        for begin, end in zip(dots, dots[1:] if len(dots) > 1 else dots, strict=False):
            x, y = np.rint(np.linspace(begin, end, abs(end - begin).max() + 1)).astype(int).T
            down = 4 * rows - 1 - y
            np.bitwise_or.at(bits, (down // 4, x // 2), _DOTS[down % 4, x % 2])
            colours[down // 4, x // 2] = colour
    signs = [[chr(0x2800 + bit) if bit else " " for bit in line] for line in bits.tolist()]
    lines = [zip(*line, strict=True) for line in zip(signs, colours.tolist(), strict=True)]
    return [
        [("".join(sign for sign, _ in part), colour) for colour, part in itertools.groupby(line, lambda each: each[1])]
        for line in lines
    ]


def _print_curves(console: Console, title: str, panel: Panel, curves: Sequence[Curve], columns: int) -> None:
    from rich.text import Text

    points = np.array([point for curve in panel.curves for point in zip(curve.xs, curve.ys, strict=True)])
    low, high = points.min(0), points.max(0)  # of all curves, whichever are printed
    span = np.where(high > low, high - low, np.inf)  # a flat curve lies in the middle
    scaled = [
        ((np.stack((curve.xs, curve.ys), 1) - low) / span + np.where(high > low, 0.0, 0.5), series_colour(index))
        for index, curve in enumerate(curves)
    ]
    console.print(Text(printable(title), f"bold {WHITE}"))
    margin = {0: number_text(high[1]), _ROWS - 1: number_text(low[1])}
    for row, line in enumerate(braille(scaled, columns, _ROWS)):
        label = Text(f"{margin.get(row, ''):>{_LABEL}} ", MUTED)
        console.print(Text.assemble(label, *line), no_wrap=True, crop=True)
    begin, end = (count_text(x) if panel.x == STEPS else cost_text(x) for x in (low[0], high[0]))
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
