"""The dashboard: a panel in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich import box, get_console
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pufferlib.dashboard.output import Output, printable

CYAN, RED, WHITE, BACKGROUND = "#00BBBB", "#BB0000", "#F1F1F1", "#061818"
_TRACK = "#1D3C3C"  # the part of a bar that is still ahead
_FRAME_COLUMNS = 4  # of the panel's border and its padding


def _pair(label: str, value: str) -> Text:
    return Text.assemble((printable(f"{label} "), CYAN), (printable(str(value)), WHITE))


_FRAME_LINES = 12  # lines of the panel that are not statistics
_PLAIN_STATISTICS = 6  # environment statistics in a plain line


class Dashboard:
    """Shows the metrics of a run: one panel that is redrawn in place, or a line for every `show`.

    There are lines where the stream is neither terminal nor notebook, TERM is `dumb`, or the program is a command in a
    notebook's cell. The terminal is put back by `close`, and at the latest when Python ends. A stream that cannot be
    written is warned about once and left; a closed one is left without a word.
    """

    def __init__(self, title: str, facts: Mapping[str, str], total_steps: int, stream: TextIO | None = None):
        self.title, self.facts, self.total_steps = title, facts, total_steps
        stream = sys.stdout if stream is None else stream
        self._output = Output(stream)
        self._is_notebook = type(stream).__module__.startswith("ipykernel.")  # which is no terminal
        # Jupyter's kernels set JPY_PARENT_PID: what `!puffer train` in a cell has is a terminal without a cursor.
        is_still = os.environ.get("TERM") == "dumb" or "JPY_PARENT_PID" in os.environ
        is_terminal = self._output.isatty() and not is_still
        self.is_panel = is_terminal or self._is_notebook  # rather than lines
        self._cell: Any = None  # IPython's handle of what a notebook shows
        self._live: Live | None = None
        self._stop: Callable[[], object] | None = None  # also called when this object or the interpreter goes
        self._evaluation: dict[str, float] = {}  # the newest, which the panel keeps showing

    def show(self, metrics: Mapping[str, float]) -> None:
        """Shows the newest metrics, as `PuffeRL.mean_and_log` describes them; what is missing is left out."""
        self._evaluation.update((name, value) for name, value in metrics.items() if name.startswith("eval/"))
        if not self.is_panel:
            self._output.write(f"{printable(plain_line(self.title, metrics, self.total_steps))}\n")
            self._output.flush()
        else:
            self._draw({**self._evaluation, **metrics})
        if self._output.error is not None:
            self.close()  # first, so that the warning does not go where it cannot be read
            self._output.report()

    def _draw(self, metrics: Mapping[str, float]) -> None:
        if self._is_notebook:
            panel = render(self.title, self.facts, metrics, self.total_steps, get_console())  # as rich shows it there
            if self._cell is None:
                from IPython.display import display

                self._cell = display(panel, display_id=True)
            else:
                self._cell.update(panel)
        elif self._output.error is None:
            if self._live is None:
                self._live = Live(console=Console(file=self._output), auto_refresh=False, vertical_overflow="crop")
                self._stop = weakref.finalize(self, self._live.stop)
                self._live.start()
            panel = render(self.title, self.facts, metrics, self.total_steps, self._live.console)
            self._live.update(panel, refresh=True)

    def close(self) -> None:
        """Leaves the last panel on the screen and gives the terminal back; may be called twice."""
        if self._stop is not None:
            self._stop()


def plain_line(title: str, metrics: Mapping[str, float], total_steps: int) -> str:
    """The metrics in one line of plain text."""
    steps = metrics.get("agent_steps", 0)
    parts = [
        title,
        f"{count_text(steps)}/{count_text(total_steps)} steps",
        f"{percent_text(steps / total_steps)} done",
        f"{count_text(metrics.get('sps', 0))} steps/s",
        f"remaining {duration_text(remaining_seconds(metrics, total_steps))}",
        f"epoch {metrics.get('epoch', 0):.0f}",
    ]
    if "episode/return_mean" in metrics:
        parts.append(f"return {number_text(metrics['episode/return_mean'])}")
    if "eval/return_mean" in metrics:
        parts.append(f"evaluation {number_text(metrics['eval/return_mean'])}")
    statistics = group(metrics, "environment")
    count = statistics.pop("n", None)
    if count is not None:
        parts.append(f"{count_text(count)} episodes ended")
    shown = list(statistics.items())[:_PLAIN_STATISTICS]
    return "  ".join(parts + [f"{name} {number_text(value)}" for name, value in shown])


def render(
    title: str, facts: Mapping[str, str], metrics: Mapping[str, float], total_steps: int, console: Console
) -> Panel:
    """The panel as a rich renderable that fits the console."""
    width, rows = console.width - _FRAME_COLUMNS, max(4, console.height - _FRAME_LINES)
    facts_of_run = {label: text(metrics[name]) for label, (name, text) in _RUN_FACTS.items() if name in metrics}
    seen, evaluation = group(metrics, "episode"), group(metrics, "eval")
    episodes = {"Return": "-"}
    if seen.get("count"):
        episodes = {**_return_facts("Return", seen), "Episodes": count_text(seen["count"])}
    evaluated = _return_facts("Evaluation", evaluation) if evaluation else {}
    known = (facts_of_run, _hardware_facts(metrics), facts, episodes, evaluated)
    gap = Text("   ", no_wrap=True, overflow="ellipsis")
    lines = [gap.join(_pair(label, value) for label, value in one.items()) for one in known]
    heading = Text.assemble(("PufferLib ", f"bold {CYAN}"), (printable(title), WHITE))
    body = Group(_progress(metrics, total_steps, width), *lines, _columns(metrics, rows))
    style = f"{WHITE} on {BACKGROUND}"
    return Panel(body, title=heading, title_align="left", border_style=CYAN, style=style, box=box.ROUNDED)


def group(metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    """The metrics whose name begins with `prefix/`, without it."""
    start = f"{prefix}/"
    return {name.removeprefix(start): value for name, value in metrics.items() if name.startswith(start)}


def remaining_seconds(metrics: Mapping[str, float], total_steps: int) -> float:
    """Seconds to the end at the present speed; infinite while nothing moves, never negative."""
    steps_left = max(0, total_steps - metrics.get("agent_steps", 0))
    speed = metrics.get("sps", 0)
    if steps_left == 0:
        return 0.0
    return steps_left / speed if speed > 0 else math.inf


def duration_text(seconds: float) -> str:
    """Two units of time, such as `1m 20s`; `-` where the time is not known."""
    if not math.isfinite(seconds):
        return "-"
    minutes, second = divmod(int(max(0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02}h"
    if hours:
        return f"{hour}h {minute:02}m"
    return f"{minute}m {second:02}s" if minutes else f"{second}s"


def count_text(count: float) -> str:
    """A count in at most six characters, such as `4.20M`."""
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(count) >= unit:
            return f"{count / unit:.3g}{letter}" if count / unit < 999.5 else f"{count / unit:.0f}{letter}"
    return f"{count:.0f}"


def number_text(value: float) -> str:
    """A measurement in at most ten characters."""
    return count_text(value) if 1e5 <= abs(value) < 1e15 else f"{value:.4g}"


def percent_text(fraction: float) -> str:
    """A fraction as a percentage from 0% to 100%."""
    return f"{100 * min(max(fraction, 0.0), 1.0):.0f}%"


def _progress(metrics: Mapping[str, float], total_steps: int, width: int) -> Text:
    steps = metrics.get("agent_steps", 0)
    left = _pair("Steps", f"{count_text(steps)} / {count_text(total_steps)}")
    right = _pair("Remaining", duration_text(remaining_seconds(metrics, total_steps)))
    cells = max(0, width - len(left) - len(right) - 2)
    filled = round(cells * min(steps / total_steps, 1.0))
    return Text.assemble(left, " ", ("━" * filled, CYAN), ("─" * (cells - filled), _TRACK), " ", right)


_RUN_FACTS = {
    "Steps/s": ("sps", count_text),
    "Epoch": ("epoch", count_text),
    "Uptime": ("uptime", duration_text),
    "Learning rate": ("learning_rate", number_text),
}


def _hardware_facts(metrics: Mapping[str, float]) -> dict[str, str]:
    used = group(metrics, "hardware")
    texts = {}
    for label, name in (("CPU", "cpu"), ("Memory", "memory"), ("GPU", "gpu"), ("GPU memory", "gpu_memory")):
        if name in used:
            texts[label] = percent_text(used[name])
            count = used.get(f"{name}_bytes")
            if count is not None:
                amount = f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
                texts[label] = f"{amount} ({texts[label]})"
    return texts or {"CPU": "-"}


def _return_facts(label: str, returns: Mapping[str, float]) -> dict[str, str]:
    deviation = f" ± {number_text(returns['return_std'])}" if "return_std" in returns else ""
    extremes = f"({number_text(returns['return_min'])} to {number_text(returns['return_max'])})"
    shown = f"{number_text(returns['return_mean'])}{deviation} {extremes}"
    return {label: shown, "Length": number_text(returns["length_mean"])}


def _columns(metrics: Mapping[str, float], rows: int) -> Table:
    columns = Table.grid(padding=(0, 2), expand=True)
    for ratio in (2, 3, 3):
        columns.add_column(ratio=ratio)
    columns.add_row(
        _column("Time", group(metrics, "performance"), percent_text, rows),
        _column("Losses", group(metrics, "losses"), number_text, rows),
        _column("Environment", group(metrics, "environment"), number_text, rows),
    )
    return columns


def _column(heading: str, values: Mapping[str, float], text: Callable[[float], str], rows: int) -> Table:
    column = Table(box=None, expand=True, padding=0, header_style=f"bold {RED}")
    column.add_column(heading, style=CYAN, ratio=1, no_wrap=True)
    column.add_column(style=WHITE, justify="right", no_wrap=True)
    for name, value in list(values.items())[:rows]:
        column.add_row(Text(printable(name)), text(value))
    if len(values) > rows:
        column.add_row(f"and {len(values) - rows} more")
    return column


def value_text(value: object) -> str:
    """The value of a setting, such as `4.2M`, `0.9873` or `muon`."""
    if isinstance(value, float):
        return number_text(value)
    return count_text(value) if isinstance(value, int) and abs(value) >= 1e5 else str(value)


def short_names(names: Sequence[str], separator: str = ".") -> dict[str, str]:
    """The ends of names, such as a setting's without its section, by the whole names; these where two are alike."""
    ends = [name.rpartition(separator)[2] for name in names]
    return {name: end if ends.count(end) == 1 else name for name, end in zip(names, ends, strict=True)}


def settings_text(settings: Mapping[str, Any]) -> str:
    """The values by their short names, such as `gamma=0.99 hidden_size=64`."""
    names = short_names(list(settings))
    return " ".join(f"{names[name]}={value_text(value)}" for name, value in settings.items())


def cost_text(seconds: float) -> str:
    """Seconds of training, such as `7.4s` or `1m 20s`; `-` where they are not known."""
    return f"{seconds:.1f}s" if 0 <= seconds < 10 else duration_text(seconds)
