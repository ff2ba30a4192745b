"""Learning curves as pictures and on the terminal."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from pufferlib.config.flags import PlotOptions
from pufferlib.dashboard.output import Output, printable
from pufferlib.dashboard.panel import BACKGROUND, CYAN, WHITE, cost_text, count_text, number_text, percent_text
from pufferlib.dashboard.score import find_metric
from pufferlib.errors import ConfigError, MissingExtraError, nearest, require_extra
from pufferlib.reports.recorded_run import RETURN, RecordedRun, find_runs, labels, number
from pufferlib.runs.folder import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS, SECONDS = "agent_steps", "uptime"
X_AXES = {STEPS: "agent steps", SECONDS: "time"}

TIME_SPLIT = "performance"  # the name for `--metric` of the shares of time of all phases together

_BESIDE_SCORE = (RETURN, "episode/length_mean", "eval/return_mean", "sps")
_LOSSES = ("policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac", "explained_variance")
_NO_CURVES = frozenset({"step", "agent_steps", "epoch", "uptime"})  # what others are plotted over


@dataclass(frozen=True)
class Curve:
    """A metric of one run."""

    label: str
    xs: list[float]
    ys: list[float]


@dataclass(frozen=True)
class Panel:
    """One plot."""

    title: str  # the metric
    x: str  # `agent_steps` or `uptime`
    curves: list[Curve]  # of each run that has the metric; of the time split of a run, of each phase
    is_stacked: bool = False  # whether the curves are shares that add up to 1


def panels(runs: Sequence[RecordedRun], patterns: Iterable[str] | None = None, x: str = STEPS) -> list[Panel]:
    """Returns the plots of runs, one for each pattern or metric; `x` is `agent_steps` or `uptime`.

    Patterns are names such as `losses/entropy` or `entropy`, or such as `losses/*`; `performance` is the time split.
    None takes the score, returns, lengths, speed, losses and the time split. ConfigError if one fits no metric, or no
    log has both a metric and `x`.
    """
    known = _known_metrics(runs)
    if not known:
        raise ConfigError(f"{' and '.join(run.name for run in runs)} logged nothing yet; there is nothing to plot")
    names = labels(list(runs))
    found: list[Panel] = []
    for name in _standard(runs, known) if patterns is None else _asked(patterns, known):
        if name != TIME_SPLIT:
            curves = [curve for run in runs if (curve := _curve(run, name, x, names[run.folder])).xs]
            found += [Panel(name, x, curves)] if curves else []
            continue
        for run in runs:  # the largest phase at the bottom
            shares = [name for name in _known_metrics([run]) if name.startswith(f"{TIME_SPLIT}/")]
            phases = [_curve(run, name, x, name.partition("/")[2], missing=0.0) for name in shares]
            phases.sort(key=lambda curve: (curve.label == "other", -sum(curve.ys)))
            title = "time split" if len(runs) == 1 else f"time split  {names[run.folder]}"
            found += [Panel(title, x, phases, is_stacked=True)] if phases and phases[0].xs else []
    if not found:
        raise ConfigError(f"no log with these metrics has {x!r}; plot them over the other of {' and '.join(X_AXES)}")
    return found


def _known_metrics(runs: Sequence[RecordedRun]) -> list[str]:
    known = {name: None for run in runs for log in run.logs for name, value in log.items() if number(value) is not None}
    return [name for name in known if name not in _NO_CURVES]


def _standard(runs: Sequence[RecordedRun], known: Sequence[str]) -> list[str]:
    losses = [f"losses/{name}" for name in _LOSSES]
    wanted = dict.fromkeys([*(run.score_metric for run in runs), *_BESIDE_SCORE, *losses])
    has_split = any(name.startswith(f"{TIME_SPLIT}/") for name in known)
    return [*(name for name in wanted if name in known), *([TIME_SPLIT] if has_split else [])]


def _asked(patterns: Iterable[str], known: Sequence[str]) -> list[str]:
    asked: dict[str, None] = {}
    own = [name for name in known if not name.startswith("since_start/")]
    ends = {name.rpartition("/")[2]: name for name in own}
    for pattern in patterns:
        named = TIME_SPLIT if pattern == TIME_SPLIT else find_metric(pattern, known) or ends.get(pattern)
        fitting = [named] if named else [name for name in known if fnmatchcase(name, pattern)]
        if not fitting:
            listed = ", ".join([*sorted(own), TIME_SPLIT])
            raise ConfigError(
                f"no run has a metric {pattern!r}{nearest(pattern, [*known, *ends]) or f'; there are {listed}'}"
            )
        asked.update(dict.fromkeys(fitting))
    return list(asked)


def _curve(run: RecordedRun, metric: str, x: str, label: str, missing: float | None = None) -> Curve:
    group = f"{metric.partition('/')[0]}/"
    logs = [log for log in run.logs if metric in log or any(name.startswith(group) for name in log)]
    found = ((number(log.get(x)), number(log.get(metric))) for log in logs)
    points = [(place, missing if value is None else value) for place, value in found]
    whole = [(float(place), float(value)) for place, value in points if None not in (place, value)]
    return Curve(label, [place for place, _ in whole], [value for _, value in whole])


SURFACE = "#0B2424"  # of plots, tables and bars on the background
GRID = "#1D3C3C"
MUTED = "#8FAAAA"  # text that stands back: 7 to 1 on the background

SERIES = (CYAN, WHITE, "#E5484D", "#F2B134", "#8E9BFF", "#7BD88F", "#E48CE0", "#7A9A9A")
"""Colours of curves, which repeat after the last one; RED itself is too dark for a thin line."""

PHASES = {
    "environment": CYAN,
    "forward": "#F2B134",
    "store": "#7A9A9A",
    "advantage": "#8E9BFF",
    "learn": "#E5484D",
    "evaluation": "#7BD88F",
    "communicate": "#E48CE0",
    "other": "#35504F",
}
"""Colours of the phases of a training."""


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
_LEGEND = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 3, "handlelength": 1.0, "columnspacing": 1.2}
_DASHES = ("-", "--", ":", "-.")  # of the first, second, ... round of colours
_COLUMNS = 3
_PANEL_INCHES = (4.4, 2.9)
_DOTS_PER_INCH = 150
_TITLE_POINTS = 13
_MANY = 1e4  # from here on values are written as 10K
_MOST_MARKED = 25  # logs of a curve that are marked one by one


@contextlib.contextmanager
def _styled_figure(**style: str) -> Iterator[Figure]:
    require_extra("matplotlib", "plot")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({**_STYLE, **style}):
        yield Figure(layout="constrained")


@contextlib.contextmanager
def drawing(path: Path) -> Iterator[Figure]:
    """Gives a figure in the style of all pictures, and writes it in the end; ConfigError for another ending."""
    buffer = io.BytesIO()
    with _styled_figure() as figure:
        if path.suffix.lower() not in FORMATS:
            raise ConfigError(f"the output must end in {', '.join(FORMATS)}, got {str(path)!r}")
        yield figure
        figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=_DOTS_PER_INCH)
    write_atomically(path, buffer.getvalue())


def panel_svg(panel: Panel) -> str:
    """Returns a plot as an `<svg>` element for a page, with nothing that is fetched from elsewhere."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # metadata
    style = {"figure.facecolor": SURFACE, "savefig.facecolor": SURFACE, "svg.fonttype": "none"}
    with _styled_figure(**style) as figure:
        figure.set_size_inches(_PANEL_INCHES)
        _draw_panel(figure.subplots(), panel)
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    return text[text.index("<svg") :].strip()


def draw_panels(drawn: Figure, panels: Sequence[Panel], title: str) -> None:
    """Draws plots beside each other, with one legend for the runs that all of them show."""
    columns = 2 if len(panels) == 4 else min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    drawn.set_size_inches(_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows + 0.7)
    grid = list(drawn.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[len(panels) :]:
        axes.remove()
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid, panels, strict=False):
        _draw_panel(axes, panel)
        if not panel.is_stacked:
            lines, names = axes.get_legend_handles_labels()
            handles = {**dict(zip(names, lines, strict=True)), **handles}
    if len(handles) > 1:
        options = {"title": printable(title), "title_fontsize": _TITLE_POINTS, "alignment": "left", "ncols": columns}
        drawn.legend(handles.values(), handles, loc="outside upper left", **options)
    else:
        drawn.suptitle(printable(title), x=0.008, ha="left", fontsize=_TITLE_POINTS)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(printable(panel.title))
    axes.set_xlabel(X_AXES[panel.x])
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(lambda place, _: count_text(place) if panel.x == STEPS else cost_text(place))
    if panel.is_stacked:
        _draw_shares(axes, panel)
    else:
        _draw_lines(axes, panel)


def _draw_lines(axes: Axes, panel: Panel) -> None:
    styles = itertools.cycle(itertools.product(_DASHES, SERIES))
    for curve, (dashes, color) in zip(panel.curves, styles, strict=False):
        marker = "o" if len(curve.xs) <= _MOST_MARKED else ""
        label = printable(curve.label)
        axes.plot(curve.xs, curve.ys, dashes, color=color, marker=marker, markersize=3.2, label=label)
    axes.margins(y=0.08)
    axes.set_xlim(left=0.0)
    if max(abs(y) for curve in panel.curves for y in curve.ys) >= _MANY:
        axes.yaxis.set_major_formatter(lambda value, _: count_text(value))
    else:
        axes.ticklabel_format(axis="y", scilimits=(-3, 4))


def _draw_shares(axes: Axes, panel: Panel) -> None:
    xs, values = panel.curves[0].xs, [curve.ys for curve in panel.curves]
    if xs[0] == xs[-1]:  # one moment is a block rather than an area of no width
        xs, values = [0.0, xs[0] or 1.0], [ys[-1:] * 2 for ys in values]
    names = [curve.label for curve in panel.curves]
    colors = [PHASES.get(name, MUTED) for name in names]
    axes.stackplot(xs, values, labels=[*map(printable, names)], colors=colors, linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_xlim(xs[0], xs[-1])
    axes.yaxis.set_major_formatter(lambda share, _: percent_text(share))
    axes.legend(**_LEGEND)


_ROWS = 10  # characters of a plot's height
_LEAST_COLUMNS, _MOST_COLUMNS = 20, 100
_LABEL = 10  # characters at the left, for the least and the greatest value
_DOTS = np.array(((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80)))  # bits of a braille sign, by row and column


def print_panels(panels: Sequence[Panel]) -> None:
    """Prints plots below each other, one for each curve."""
    console = Console(file=Output(sys.stdout), highlight=False)
    columns = max(_LEAST_COLUMNS, min(_MOST_COLUMNS, console.width - _LABEL - 1))
    for panel in panels:
        console.print()
        if panel.is_stacked:
            means = {curve.label: sum(curve.ys) / len(curve.ys) for curve in panel.curves}
            _print_shares(console, panel.title, means, columns)
        else:
            for curve in panel.curves:
                title = panel.title if len(panel.curves) == 1 else f"{panel.title}  {curve.label}"
                _print_curve(console, title, panel, curve, columns)


def braille(points: np.ndarray, columns: int, rows: int) -> list[str]:
    """Joins points, `(points, 2)` from 0 to 1, from the left and from the bottom; returns lines from the top."""
    bits = np.zeros((rows, columns), int)
    dots = np.rint(points * (2 * columns - 1, 4 * rows - 1)).astype(int)
    for begin, end in zip(dots, dots[1:] if len(dots) > 1 else dots, strict=False):
        x, y = np.rint(np.linspace(begin, end, abs(end - begin).max() + 1)).astype(int).T
        down = 4 * rows - 1 - y
        np.bitwise_or.at(bits, (down // 4, x // 2), _DOTS[down % 4, x % 2])
    return ["".join(chr(0x2800 + bit) if bit else " " for bit in line) for line in bits.tolist()]


def _print_curve(console: Console, title: str, panel: Panel, curve: Curve, columns: int) -> None:
    points = np.array([point for each in panel.curves for point in zip(each.xs, each.ys, strict=True)])
    low, high = points.min(0), points.max(0)  # of all curves, so that they compare
    span = np.where(high > low, high - low, np.inf)  # a flat curve lies in the middle
    scaled = (np.stack((curve.xs, curve.ys), 1) - low) / span + np.where(high > low, 0.0, 0.5)
    console.print(Text(printable(title), f"bold {WHITE}"))
    margin = {0: number_text(high[1]), _ROWS - 1: number_text(low[1])}
    for row, line in enumerate(braille(scaled, columns, _ROWS)):
        label = (f"{margin.get(row, ''):>{_LABEL}} ", MUTED)
        console.print(Text.assemble(label, (line, CYAN)), no_wrap=True, crop=True)
    begin, end = (count_text(x) if panel.x == STEPS else cost_text(x) for x in (low[0], high[0]))
    middle = X_AXES[panel.x].center(columns - len(begin) - len(end))
    console.print(Text(f"{'':{_LABEL}} {begin}{middle}{end}", MUTED), no_wrap=True)


def _print_shares(console: Console, title: str, shares: Mapping[str, float], columns: int) -> None:
    console.print(Text(printable(title), f"bold {WHITE}"))
    width = max(map(len, shares))
    for name, share in shares.items():
        label = (f"{printable(name):<{width}} {percent_text(share):>4} ", MUTED)
        bar = ("█" * round(share * (columns - width)), PHASES.get(name, MUTED))
        console.print(Text.assemble(label, bar), no_wrap=True, crop=True)


def plot_command(*words: str, options: PlotOptions) -> None:
    """Plots the runs that `find_runs` finds by words."""
    runs, metric = find_runs(words, options.data_dir), options.metric
    patterns = [name.strip() for name in (metric or "").split(",") if name.strip()]
    drawn, title = panels(runs, patterns or None, options.x), _title(runs)
    if options.terminal:
        print(printable(title))
        print_panels(drawn)
        return
    path = Path(options.output or f"{runs[0].name if len(runs) == 1 else 'runs'}.png")
    try:
        with drawing(path) as figure:
            draw_panels(figure, drawn, title)
    except MissingExtraError as error:
        raise MissingExtraError(f"{error}, or draw on the terminal by --terminal") from error
    print(printable(f"plotted {title} to {path}"))


def _title(runs: list[RecordedRun]) -> str:
    names = list(dict.fromkeys(run.env_name or run.name for run in runs))
    if len(runs) == 1:
        return f"{names[0]}  {runs[0].run_id}" if runs[0].env_name else names[0]
    return f"{len(runs)} runs of {' and '.join(names) if len(names) < 4 else f'{len(names)} environments'}"
