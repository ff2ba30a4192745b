"""Plots of runs as pictures, drawn by matplotlib in the colours of the project."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferlib.errors import ConfigError
from pufferlib.extras import require_extra
from pufferlib.metrics.dashboard import count_text, percent_text
from pufferlib.metrics.output import printable
from pufferlib.reports.curves import STEPS, X_AXES, Panel, Split
from pufferlib.reports.palette import BACKGROUND, GRID, MUTED, PHASES, SERIES, SURFACE, WHITE, series_colour
from pufferlib.reports.texts import cost_text
from pufferlib.runs.whole_files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")

_STYLE = {
    **{"figure.facecolor": BACKGROUND, "axes.facecolor": SURFACE, "savefig.facecolor": BACKGROUND},
    **{"text.color": WHITE, "axes.labelcolor": MUTED, "axes.titlecolor": WHITE, "axes.edgecolor": GRID},
    **{"xtick.color": MUTED, "ytick.color": MUTED, "grid.color": GRID, "grid.linewidth": 0.8, "axes.grid": True},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.titlelocation": "left"},
    **{"font.size": 10, "axes.titlesize": 11, "axes.labelsize": 9, "xtick.labelsize": 9, "ytick.labelsize": 9},
    **{"legend.frameon": False, "legend.fontsize": 9, "legend.labelcolor": WHITE, "svg.fonttype": "path"},
    **{"text.parse_math": False, "svg.hashsalt": "pufferlib", "lines.linewidth": 1.7, "lines.solid_capstyle": "round"},
}
_DASHES = ("-", "--", ":", "-.")  # of the first, second, ... round of colours
_COLUMNS = 3
_PANEL_INCHES = (4.4, 2.9)
_DOTS_PER_INCH = 150
_TITLE_POINTS = 13
_LEGEND_CHARACTERS = 52  # that fit above one column of plots
_LEGEND_SIGN = 8  # characters' worth of room for a curve's line and the gaps
_BAR = 0.5  # of the distance from one bar to the next
_MANY = 1e4  # from here on values are told as 10K
_MOST_MARKED = 25  # logs of a curve that are marked one by one


def write_figure(panels: Sequence[Panel | Split], title: str, path: Path) -> None:
    """Draws plots beside each other into one file."""
    require_extra("matplotlib", "plot")
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"the output must end in {', '.join(FORMATS)}, got {str(path)!r}")
    from matplotlib import rc_context

    with rc_context(_STYLE):
        drawn = figure(panels, title)
        buffer = io.BytesIO()
        drawn.savefig(buffer, format=path.suffix[1:].lower(), dpi=_DOTS_PER_INCH)
    write_atomically(path, buffer.getvalue())


def panel_svg(panel: Panel | Split) -> str:
    """A plot as an `<svg>` element for a page, with nothing that is fetched from elsewhere.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    require_extra("matplotlib", "plot")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # metadata
    with rc_context({**_STYLE, "figure.facecolor": SURFACE, "savefig.facecolor": SURFACE, "svg.fonttype": "none"}):
        drawn = Figure(figsize=_PANEL_INCHES, layout="constrained")
        draw_panel(drawn.subplots(), panel)
        drawn.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    return text[text.index("<svg") :].strip()


def figure(panels: Sequence[Panel | Split], title: str) -> Figure:
    """The plots as one figure, with one legend for the runs that all of them show."""
    from matplotlib.figure import Figure

    columns = 2 if len(panels) == 4 else min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    drawn = Figure(figsize=(_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows + 0.7), layout="constrained")
    grid = list(drawn.subplots(rows, columns, squeeze=False).flat)
    for axes, panel in zip(grid, panels, strict=False):
        draw_panel(axes, panel)
    for axes in grid[len(panels) :]:
        axes.remove()
    handles = _handles(grid[: len(panels)], panels)
    if len(handles) > 1:
        beside = max(1, _LEGEND_CHARACTERS * columns // (max(map(len, handles)) + _LEGEND_SIGN))
        told = {"title": printable(title), "title_fontsize": _TITLE_POINTS, "alignment": "left", "ncols": beside}
        drawn.legend(handles.values(), handles, loc="outside upper left", **told)
    else:
        drawn.suptitle(printable(title), x=0.008, ha="left", fontsize=_TITLE_POINTS)
    return drawn


def draw_panel(axes: Axes, panel: Panel | Split) -> None:
    """Draws one plot into matplotlib's axes."""
    axes.set_title(printable(panel.title))
    if isinstance(panel, Split):
        _draw_bars(axes, panel)
        return
    axes.set_xlabel(X_AXES[panel.x])
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(lambda place, _: count_text(place) if panel.x == STEPS else cost_text(place))
    if panel.is_stacked:
        _draw_shares(axes, panel)
    else:
        _draw_lines(axes, panel)


def _draw_lines(axes: Axes, panel: Panel) -> None:
    for index, curve in enumerate(panel.curves):
        dashes = _DASHES[index // len(SERIES) % len(_DASHES)]
        style: dict[str, Any] = {"color": series_colour(index), "linestyle": dashes}
        if len(curve.xs) <= _MOST_MARKED:
            style |= {"marker": "o", "markersize": 3.2}
        axes.plot(curve.xs, curve.ys, label=printable(curve.label), **style)
    axes.margins(y=0.08)
    axes.set_xlim(left=0.0)
    if max(abs(y) for curve in panel.curves for y in curve.ys) >= _MANY:
        axes.yaxis.set_major_formatter(lambda value, _: count_text(value))
    else:
        axes.ticklabel_format(axis="y", scilimits=(-3, 4))


def _draw_shares(axes: Axes, panel: Panel) -> None:
    xs, values = panel.curves[0].xs, [curve.ys for curve in panel.curves]
    if len(xs) == 1:  # one log is a block rather than an area of no width
        xs, values = [0.0, xs[0]], [ys * 2 for ys in values]
    names = [curve.label for curve in panel.curves]
    colors = [PHASES.get(name, MUTED) for name in names]
    axes.stackplot(xs, values, labels=[*map(printable, names)], colors=colors, linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_xlim(xs[0], xs[-1])
    axes.yaxis.set_major_formatter(lambda share, _: percent_text(share))
    _add_phases(axes)


def _draw_bars(axes: Axes, split: Split) -> None:
    places = range(len(split.shares))
    begins = [0.0] * len(split.shares)
    for phase in split.phases:
        widths = [shares.get(phase, 0.0) for shares in split.shares.values()]
        axes.barh(places, widths, _BAR, begins, label=printable(phase), color=PHASES.get(phase, MUTED))
        begins = [begin + width for begin, width in zip(begins, widths, strict=True)]
    for place, name in zip(places, split.shares, strict=True):  # above its bar: beside it, long names take much room
        axes.text(0.0, place - _BAR / 2 - 0.04, printable(name), va="bottom", fontsize=8, clip_on=True)
    axes.set_yticks([])
    axes.set_ylim(len(split.shares) - 1 + _BAR / 2, -1 + _BAR / 2)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda share, _: percent_text(share))
    axes.grid(visible=False)
    _add_phases(axes)


def _add_phases(axes: Axes) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, handlelength=1.0, columnspacing=1.2)


def _handles(grid: Sequence[Axes], panels: Sequence[Panel | Split]) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid, panels, strict=True):
        if isinstance(panel, Panel) and not panel.is_stacked:
            lines, names = axes.get_legend_handles_labels()
            handles = {**dict(zip(names, lines, strict=True)), **handles}
    return handles
