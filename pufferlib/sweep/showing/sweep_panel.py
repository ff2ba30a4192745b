"""The panel of a sweep, in as many lines as a terminal has."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from optuna.trial import TrialState
from rich.text import Text

from pufferlib.metrics.dashboard import duration_text, number_text, percent_text
from pufferlib.metrics.panel import CYAN, FRAME_COLUMNS, RED, TRACK, WHITE, fit, frame, pair, pairs, progress
from pufferlib.reports.texts import cost_text, settings_texts, short_names, value_text
from pufferlib.sweep.attributes import HOST
from pufferlib.sweep.showing.texts import sparkline
from pufferlib.sweep.showing.time_left import remaining_seconds
from pufferlib.sweep.state import RunningTrial
from pufferlib.sweep.study.confirmation import ConfirmedTrial, confirmed_trials
from pufferlib.sweep.study.results import FoundTrial, Results, results_of, settings_of, solve_threshold
from pufferlib.sweep.trials.curve import WINDOWS

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from rich.panel import Panel

    from pufferlib.sweep.state import SweepState

_FRAME_LINES = 3  # of the panel's border, and of the cursor
_RUNNING_LINES = 8
_SETTINGS_LINES = 3
_LEAST_FRONT = 3  # lines of the front, if the terminal has room for nothing else
_CURVE_CELLS = 24
_NAME_CELLS = (16, 12, 10, 8, 6)  # of a setting above shorter values: the most that fit


def render(state: SweepState, width: int, height: int) -> Panel:
    """Returns the panel for a terminal of `width` characters and `height` lines, one of them for the cursor."""
    found = results_of(state.trials, state.args["sweep"]["goal"])
    width = width - FRAME_COLUMNS
    confirmed = confirmed_trials(found, state.confirmations)
    head = [*_facts(state, found, width), Text(), *_best(state, found, width)]
    tail = [*_confirmed(confirmed, width), *_running(state, found, width), *_failures(found, width)]
    room = max(1, height - _FRAME_LINES)
    front = _front(found, width, max(_LEAST_FRONT, room - len(head) - len(tail)))
    gap = [Text()] * (len(head) + len(front) + len(tail) + 1 < room)
    return frame(f"sweep {state.env_name}", [*head, *gap, *front, *gap, *tail][:room])


def _facts(state: SweepState, found: Results, width: int) -> list[Text]:
    sweep = state.args["sweep"]
    if state.to_confirm:
        label, done, total = "Confirmations", len(state.confirmations), len(state.confirmations) + state.to_confirm
    else:
        label, done, total = "Trials", found.num_ended, sweep["num_trials"]
    right = pair("Remaining", duration_text(remaining_seconds(state)))
    counts = {"Complete": len(found.complete), "Stopped": len(found.stopped), "Failed": len(found.failed)}
    return [
        progress(pair(label, f"{done} / {total}"), done / max(1, total), right, width),
        pairs({**{name: str(count) for name, count in counts.items()}, **_times(state, found)}, width),
        pairs({"Goal": f"{sweep['goal']} {state.metric}", "Method": sweep["method"]}, width),
    ]


def _times(state: SweepState, found: Results) -> dict[str, str]:
    return {
        "Running": str(max(found.running, len(state.running))),
        "Workers": str(state.args["sweep"]["workers"]),
        "Training": duration_text(found.total_cost),
        "Uptime": duration_text(time.monotonic() - state.started),
    }


def _best(state: SweepState, found: Results, width: int) -> list[Text]:
    best = found.best
    if best is None:
        return [Text.assemble(_heading("Best"), " -")]
    line = Text.assemble(_heading("Best"), _score(best))
    threshold = solve_threshold(state.args, state.metric)
    if threshold is not None:
        cheapest = found.cheapest_past(threshold)
        by = "no trial yet" if cheapest is None else f"trial {cheapest.number} in {cost_text(cheapest.cost)}"
        line = Text.assemble(line, "   ", pair(f"Solved at {number_text(threshold)} by", by))
    line.truncate(width, overflow="ellipsis")
    return [line, *_wrapped(settings_texts(best.settings), width)[:_SETTINGS_LINES]]


def _score(trial: FoundTrial) -> Text:
    return Text.assemble((f" trial {trial.number} ", CYAN), f"{number_text(trial.score)} in {cost_text(trial.cost)}")


def _wrapped(values: Mapping[str, str], width: int) -> list[Text]:
    lines: list[Text] = []
    for label, value in values.items():
        one = pair(label, value)
        if lines and len(lines[-1]) + 3 + len(one) <= width:
            lines[-1] = Text.assemble(lines[-1], "   ", one)
        else:
            lines.append(one)
    return lines


def _front(found: Results, width: int, rows: int) -> list[Text]:
    if not found.front:
        return []
    shown = _spread(found.front, max(1, rows - 1))
    names = short_names(list(found.front[-1].settings))
    columns = [
        ("Front", [f"#{trial.number}" for trial in shown]),
        ("score", [number_text(trial.score) for trial in shown]),
        ("cost", [cost_text(trial.cost) for trial in shown]),
        *((short, [value_text(trial.settings.get(name, "-")) for trial in shown]) for name, short in names.items()),
    ]
    sizes = _sizes(columns, width)
    lines = [Text() for _ in range(len(shown) + 1)]
    for index, ((name, cells), size) in enumerate(zip(columns, sizes, strict=False)):
        gap = "  " if index else ""
        lines[0].append(gap + fit(name, size).strip().rjust(size), CYAN if index else f"bold {RED}")
        for line, cell in zip(lines[1:], cells, strict=True):
            line.append(gap + (cell.rjust(size) if index else cell.ljust(size)), WHITE if index else CYAN)
    return lines


def _sizes(columns: Sequence[tuple[str, Sequence[str]]], width: int) -> list[int]:
    for name_cells in _NAME_CELLS:
        sizes = [max([*map(len, cells), min(len(name), name_cells)]) for name, cells in columns]
        if sum(sizes) + 2 * (len(sizes) - 1) <= width:
            return sizes
    ends = [sum(sizes[: count + 1]) + 2 * count for count in range(len(sizes))]
    return [size for size, end in zip(sizes, ends, strict=True) if end <= width]


def _spread(front: Sequence[FoundTrial], count: int) -> list[FoundTrial]:
    if count >= len(front):
        return list(front)
    step = (len(front) - 1) / max(1, count - 1)
    return [front[len(front) - 1 - round(place * step)] for place in range(count)][::-1]


def _confirmed(confirmed: Sequence[ConfirmedTrial], width: int) -> list[Text]:
    lines = []
    for each in confirmed:
        line = Text.assemble(_heading("Confirmed"), (f" trial {each.trial.number} ", CYAN), (each.text, WHITE))
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return lines


def _running(state: SweepState, found: Results, width: int) -> list[Text]:
    here = {trial.number for trial in state.running}
    others = [trial for trial in state.trials if trial.state is TrialState.RUNNING and trial.number not in here]
    runs = [*state.running, *map(_run_elsewhere, others)]
    curves = [found.best.curve if found.best else (), *(run.curve for run in runs)]
    scores = [row[2] for curve in curves for row in curve if math.isfinite(row[2])] or [0.0, 1.0]
    labels = [f"#{run.number} {run.host if run.seed is None else f'seed {run.seed}'}".rstrip() for run in runs]
    cells = max(map(len, labels), default=0)
    lines = [
        _run_line(fit(label, cells), run, (min(scores), max(scores)), width)
        for label, run in zip(labels, runs, strict=True)
    ]
    hidden = len(lines) - _RUNNING_LINES
    return lines if hidden <= 0 else [*lines[: _RUNNING_LINES - 1], Text(f"and {hidden + 1} more", CYAN)]


def _run_elsewhere(trial: FrozenTrial) -> RunningTrial:
    curve = [(tenth / WINDOWS, math.nan, score) for tenth, score in sorted(trial.intermediate_values.items())]
    progress, host = curve[-1][0] if curve else 0.0, trial.user_attrs.get(HOST, "")
    return RunningTrial(trial.number, settings_of(trial), math.nan, progress, math.nan, curve, host=host)


def _run_line(label: str, run: RunningTrial, scale: tuple[float, float], width: int) -> Text:
    bars = sparkline(run.curve, run.progress, *scale, _CURVE_CELLS)
    score = number_text(run.curve[-1][2]) if run.curve else "-"
    known = "   ".join(f"{name} {value}" for name, value in settings_texts(run.values).items())
    line = Text.assemble(
        (f"{label} {bars}", CYAN),
        ("─" * (_CURVE_CELLS - len(bars)), TRACK),
        (f" {percent_text(run.progress):>4} {score:>8} {cost_text(run.cost):>7}   ", WHITE),
        (known, CYAN),
    )
    line.truncate(width, overflow="ellipsis")
    return line


def _failures(found: Results, width: int) -> list[Text]:
    if not found.failed:
        return []
    last = found.failed[-1]
    line = Text.assemble(_heading("Failed"), (f" trial {last.number} ", CYAN), (" ".join(last.reason.split()), WHITE))
    line.truncate(width, overflow="ellipsis")
    return [line]


def _heading(text: str) -> Text:
    return Text(text, f"bold {RED}")
