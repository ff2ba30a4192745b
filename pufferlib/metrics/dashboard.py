"""The dashboard of a run: a panel on a terminal or in a notebook, plain lines everywhere else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from pufferlib.metrics.panel import CYAN, FRAME_COLUMNS, RED, WHITE, LivePanel, fit, frame, pair, pairs, progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

_GAP = "  "  # between columns
_FRAME_LINES = 12  # lines of the panel that are not statistics
_PLAIN_STATISTICS = 6  # environment statistics in a plain line


class Dashboard:
    """Shows the metrics of a run.

    On a terminal, or in a notebook, it draws one panel and redraws it in place; otherwise, and where TERM is `dumb`,
    every `show` writes one line without control codes. The terminal is put back by `close`, and at the latest when
    Python ends. A stream that cannot be written is warned about once and left; a closed one is left without a word.
    """

    def __init__(self, title: str, facts: Mapping[str, str], total_steps: int, stream: TextIO | None = None):
        self.title, self.facts, self.total_steps = title, facts, total_steps
        self._screen = LivePanel(stream)
        self.is_panel = self._screen.is_panel
        self._evaluation: dict[str, float] = {}  # the newest, which the panel keeps showing

    def show(self, metrics: Mapping[str, float]) -> None:
        """Shows the newest metrics.

        Args:
            metrics: as `PuffeRL.mean_and_log` describes them; what is missing is left out.
        """
        self._evaluation.update((name, value) for name, value in metrics.items() if name.startswith("eval/"))
        if self.is_panel:
            shown = {**self._evaluation, **metrics}
            self._screen.draw(lambda console: render(self.title, self.facts, shown, self.total_steps, console))
        else:
            self._screen.write(plain_line(self.title, metrics, self.total_steps))

    def close(self) -> None:
        """Leaves the last panel on the screen and gives the terminal back; calling it twice is harmless."""
        self._screen.close()


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
    width, rows = console.width - FRAME_COLUMNS, max(4, console.height - _FRAME_LINES)
    lines = [
        _progress(metrics, total_steps, width),
        *(pairs(known, width) for known in (_run_facts(metrics), _hardware_facts(metrics), facts)),
        pairs(_episode_facts(metrics), width),
        pairs(_evaluation_facts(metrics), width),
        *_columns(metrics, width, rows),
    ]
    return frame(title, lines)


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
    return count_text(value) if abs(value) >= 1e5 else f"{value:.4g}"


def bytes_text(count: float) -> str:
    """An amount of memory, such as `1.2 GiB`."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def percent_text(fraction: float) -> str:
    """A fraction as a percentage from 0% to 100%."""
    return f"{100 * min(max(fraction, 0.0), 1.0):.0f}%"


def _progress(metrics: Mapping[str, float], total_steps: int, width: int) -> Text:
    steps = metrics.get("agent_steps", 0)
    left = pair("Steps", f"{count_text(steps)} / {count_text(total_steps)}")
    right = pair("Remaining", duration_text(remaining_seconds(metrics, total_steps)))
    return progress(left, steps / total_steps, right, width)


def _run_facts(metrics: Mapping[str, float]) -> dict[str, str]:
    texts = {
        "Steps/s": ("sps", count_text),
        "Epoch": ("epoch", count_text),
        "Uptime": ("uptime", duration_text),
        "Learning rate": ("learning_rate", number_text),
    }
    return {label: text(metrics[name]) for label, (name, text) in texts.items() if name in metrics}


def _hardware_facts(metrics: Mapping[str, float]) -> dict[str, str]:
    used = group(metrics, "hardware")
    texts = {}
    for label, name in (("CPU", "cpu"), ("Memory", "memory"), ("GPU", "gpu"), ("GPU memory", "gpu_memory")):
        if name in used:
            amount = used.get(f"{name}_bytes")
            percentage = percent_text(used[name])
            texts[label] = percentage if amount is None else f"{bytes_text(amount)} ({percentage})"
    return texts or {"CPU": "-"}


def _episode_facts(metrics: Mapping[str, float]) -> dict[str, str]:
    seen = group(metrics, "episode")
    if not seen.get("count"):
        return {"Return": "-"}
    extremes = " to ".join(number_text(seen[f"return_{end}"]) for end in ("min", "max"))
    return {
        "Return": f"{number_text(seen['return_mean'])} ({extremes})",
        "Length": number_text(seen["length_mean"]),
        "Episodes": count_text(seen["count"]),
    }


def _evaluation_facts(metrics: Mapping[str, float]) -> dict[str, str]:
    found = group(metrics, "eval")
    if not found:
        return {}
    extremes = " to ".join(number_text(found[f"return_{end}"]) for end in ("min", "max"))
    return {
        "Evaluation": f"{number_text(found['return_mean'])} ± {number_text(found['return_std'])} ({extremes})",
        "Length": number_text(found["length_mean"]),
    }


def _columns(metrics: Mapping[str, float], width: int, rows: int) -> list[Text]:
    from rich.text import Text

    groups = {
        "Time": {name: percent_text(value) for name, value in group(metrics, "performance").items()},
        "Losses": {name: number_text(value) for name, value in group(metrics, "losses").items()},
        "Environment": {name: number_text(value) for name, value in group(metrics, "environment").items()},
    }
    wide = (width - 2 * len(_GAP)) * 3 // 8  # of losses and environment; times need less
    widths = (width - 2 * len(_GAP) - 2 * wide, wide, wide)
    columns = [_column(name, values, size, rows) for (name, values), size in zip(groups.items(), widths, strict=True)]
    blanks = [Text(" " * size) for size in widths]
    return [Text(_GAP).join(cells) for cells in _rows(columns, blanks)]


def _rows(columns: list[list[Text]], blanks: list[Text]) -> Iterator[list[Text]]:
    for index in range(max(map(len, columns))):
        yield [column[index] if index < len(column) else blank for column, blank in zip(columns, blanks, strict=True)]


def _column(heading: str, values: Mapping[str, str], width: int, rows: int) -> list[Text]:
    from rich.text import Text

    shown = list(values.items())
    hidden = max(0, len(shown) - rows)
    lines = [Text(fit(heading, width), f"bold {RED}")]
    for name, value in shown[: len(shown) - hidden]:
        lines.append(Text.assemble((fit(name, width - len(value) - 1), CYAN), " ", (value, WHITE)))
    return lines + ([Text(fit(f"and {hidden} more", width), CYAN)] if hidden else [])
