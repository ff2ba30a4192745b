"""Plots of rows, each in two versions: for a light and for a dark page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from .markdown import count

WIDTH = 5.6  # inches, so that a phone still shows letters that can be read
INK = {"light": "#333333", "dark": "#CFD0D0"}
COLORS = ("#00A0A0", "#D9534F", "#8A8A8A")
STYLE = {
    "svg.hashsalt": "puffer",  # the same file for the same rows
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def bars(path: Path, labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> tuple[Path, ...]:
    """Bars side by side for each label, from 0 on.

    Returns:
        The two files.
    """

    def draw(axes: Axes) -> None:
        height = 0.8 / len(series)
        for index, (name, values) in enumerate(series.items()):
            places = [row - 0.4 + (index + 0.5) * height for row in range(len(labels))]
            axes.barh(places, values, height, label=name, color=COLORS[index])
        lists_labels(axes, labels)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
        axes.set_xlabel(unit)
        axes.figure.legend(frameon=False, loc="outside upper center", ncols=len(series))

    return saved(path, draw, 0.9 + len(labels) * (0.15 + 0.1 * len(series)))


def points(path: Path, labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> tuple[Path, ...]:
    """A dot of each series for each label, on a scale of powers of ten, where a bar would have no beginning.

    Returns:
        The two files.
    """

    def draw(axes: Axes) -> None:
        for (name, values), color in zip(series.items(), COLORS, strict=False):
            axes.plot(values, range(len(labels)), "o", label=name, color=color, markersize=5)
        lists_labels(axes, labels)
        counts_by_tens(axes, unit)
        axes.grid(alpha=0.25)
        axes.figure.legend(frameon=False, loc="outside upper center", ncols=len(series))

    return saved(path, draw, 0.9 + 0.19 * len(labels))


def dots(path: Path, found: Mapping[str, Sequence[tuple[float, bool]]], unit: str) -> tuple[Path, ...]:
    """A line of dots for each label, on a scale of powers of ten; a cross stands for what did not get there.

    Returns:
        The two files.
    """

    def draw(axes: Axes) -> None:
        for row, values in enumerate(found.values()):
            for is_there, marker, color in ((True, "o", COLORS[0]), (False, "x", COLORS[1])):
                own = [value for value, has_arrived in values if has_arrived == is_there]
                axes.plot(own, [row] * len(own), marker, color=color, alpha=0.8, markersize=4.5)
        lists_labels(axes, list(found))
        counts_by_tens(axes, unit)
        axes.grid(axis="x", alpha=0.25)

    return saved(path, draw, 0.8 + 0.19 * len(found))


def scatter(path: Path, points: Sequence[tuple[float, float, bool]], across: str, up: str) -> tuple[Path, ...]:
    """A dot for each run; a cross for one that did not get there.

    Returns:
        The two files.
    """

    def draw(axes: Axes) -> None:
        for is_there, marker, color in ((True, "o", COLORS[0]), (False, "x", COLORS[1])):
            own = [(x, y) for x, y, has_arrived in points if has_arrived == is_there]
            axes.plot([x for x, _ in own], [y for _, y in own], marker, color=color, alpha=0.8, markersize=6)
        axes.set(xlabel=across, ylabel=up, xlim=(0, 1.12 * max(x for x, _, _ in points)))
        axes.set_ylim(0, 1.12 * max(y for _, y, _ in points))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
        axes.grid(alpha=0.25)

    return saved(path, draw, 2.3)


def curves(
    path: Path, found: Sequence[Sequence[tuple[float, float]]], goal: float, across: str, up: str
) -> tuple[Path, ...]:
    """A line for each run, and a dashed one at what is to be reached.

    Returns:
        The two files.
    """

    def draw(axes: Axes) -> None:
        for run in found:
            axes.plot([x for x, _ in run], [y for _, y in run], color=COLORS[0], alpha=0.8, linewidth=1.3)
        axes.axhline(goal, color=COLORS[2], linestyle="--", linewidth=1)
        axes.set(xlabel=across, ylabel=up)
        axes.set_xlim(left=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
        axes.grid(alpha=0.25)

    return saved(path, draw, 2.3)


def lists_labels(axes: Axes, labels: Sequence[str]) -> None:
    """From top to bottom, a label for each row."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def counts_by_tens(axes: Axes, unit: str) -> None:
    """A scale of powers of ten below."""
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
    axes.set_xlabel(unit)


def saved(path: Path, draw: Callable[[Axes], None], height: float) -> tuple[Path, ...]:
    """Draws twice, into `<path>-light.svg` and `<path>-dark.svg`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for kind, ink in INK.items():
        inks = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink)
        with plt.rc_context({**STYLE, **inks}):
            drawing, axes = plt.subplots(figsize=(WIDTH, height), layout="constrained")
            draw(axes)
            found.append(path.with_name(f"{path.name}-{kind}.svg"))
            drawing.savefig(found[-1], transparent=True, metadata={"Date": None})
            plt.close(drawing)
    return tuple(found)
