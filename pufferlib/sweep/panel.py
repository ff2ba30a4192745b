"""The progress of a sweep: a panel on a terminal, lines elsewhere, and the time that is left."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import accumulate
from statistics import mean
from typing import TYPE_CHECKING, TextIO

import numpy as np
from rich.text import Text

from pufferlib.dashboard.output import plain_table
from pufferlib.dashboard.panel import (
    CYAN,
    FRAME_COLUMNS,
    RED,
    TRACK,
    WHITE,
    LivePanel,
    cost_text,
    duration_text,
    fit,
    frame,
    number_text,
    pair,
    pairs,
    percent_text,
    progress,
    settings_texts,
)
from pufferlib.sweep.results import Confirmation, FoundTrial, Results, SweepState, trial_columns

if TYPE_CHECKING:
    from rich.panel import Panel

BARS = "▁▂▃▄▅▆▇█"
_RECENT = 20  # trials whose durations say how long the next ones take
_FRAME_LINES = 3  # of the panel's border, and of the cursor
_RUNNING_LINES = 8
_SETTINGS_LINES, _SETTINGS_OF_LINE = 3, 3
_LEAST_FRONT = 3  # lines of the front, if the terminal has room for nothing else
_CURVE_CELLS = 24
_NAME_CELLS = 10  # of a setting above the front
_GAP_CELLS = 2  # between two columns
_SECONDS_BETWEEN = 0.25  # two drawings


def sparkline(curve: Sequence[Sequence[float]], progress: float, low: float, high: float, cells: int) -> str:
    """Returns a curve as bars, blank where no score is known yet, up to `progress`; a whole run has so many cells."""
    points = [(row[0], row[2]) for row in curve if math.isfinite(row[2])]
    done = min(cells, math.ceil(min(max(progress, 0.0), 1.0) * cells - 1e-9))
    bars = ""
    for cell in range(1, done + 1):
        score = next((score for place, score in reversed(points) if place <= cell / cells + 1e-9), None)
        share = (score - low) / (high - low) if score is not None and high > low else 0.5
        bars += " " if score is None else BARS[min(max(int(share * len(BARS)), 0), len(BARS) - 1)]
    return bars


def remaining_seconds(state: SweepState, found: Results | None = None) -> float:
    """Returns the seconds until the trials, or the confirmations, are over at the pace of the last trials."""
    found = found or state.results()
    recent = [trial for trial in found.ended if trial.state in ("complete", "stopped")][-_RECENT:]
    if not recent:
        return math.inf
    typical = mean(max(0.0, (trial.ended - trial.begun).total_seconds()) for trial in recent)
    left = state.to_confirm or state.sweep["num_trials"] - found.num_ended
    done = sum(min(trial.progress, 1.0) for trial in state.running)
    seconds = max(0.0, left - done) * typical / max(state.sweep["workers"], found.running)
    if state.deadline is None or state.to_confirm:
        return seconds
    return min(seconds, max(0.0, state.deadline - time.monotonic()))


def render(state: SweepState, width: int, height: int) -> Panel:
    """Returns the panel for a terminal of `width` characters and `height` lines, one of them for the cursor."""
    found = state.results()
    width = width - FRAME_COLUMNS
    head = [*_facts(state, found, width), Text(), *_best(state, found, width)]
    tail = [_line("Confirmed", trial.number, trial.confirmed_text) for trial in found.confirmed]
    tail += _running(state, found)
    tail += [_line("Failed", trial.number, " ".join(trial.reason.split())) for trial in found.failed[-1:]]
    room = max(1, height - _FRAME_LINES)
    front = _front(found, width, max(_LEAST_FRONT, room - len(head) - len(tail)))
    gap = [Text()] * (len(head) + len(front) + len(tail) + 1 < room)
    return frame(f"sweep {state.env_name}", [*head, *gap, *front, *gap, *tail][:room])


def _facts(state: SweepState, found: Results, width: int) -> list[Text]:
    label, done, total = "Trials", found.num_ended, state.sweep["num_trials"]
    if state.to_confirm:
        label, done, total = "Confirmations", len(state.confirmations), len(state.confirmations) + state.to_confirm
    facts = {
        "Complete": str(len(found.complete)),
        "Stopped": str(len(found.stopped)),
        "Failed": str(len(found.failed)),
        "Running": str(max(found.running, len(state.running))),
        "Workers": str(state.sweep["workers"]),
        "Training": duration_text(found.total_cost),
        "Uptime": duration_text(time.monotonic() - state.started),
    }
    remaining = pair("Remaining", duration_text(remaining_seconds(state, found)))
    return [
        progress(pair(label, f"{done} / {total}"), done / max(1, total), remaining, width),
        pairs(facts, width),
        pairs({"Goal": f"{found.goal} {state.metric}", "Method": state.sweep["method"]}, width),
    ]


def _best(state: SweepState, found: Results, width: int) -> list[Text]:
    best = found.best
    if best is None:
        return [Text.assemble(_heading("Best"), " -")]
    line = _line("Best", best.number, f"{number_text(best.score)} in {cost_text(best.cost)}")
    line = Text("   ").join([line, *(pair(label, trial) for label, trial in state.solved_by(found).items())])
    texts = [*settings_texts(best.settings).items()][: _SETTINGS_LINES * _SETTINGS_OF_LINE]
    starts = range(0, len(texts), _SETTINGS_OF_LINE)
    return [line, *(pairs(dict(texts[start : start + _SETTINGS_OF_LINE]), width) for start in starts)]


def _front(found: Results, width: int, rows: int) -> list[Text]:
    if not found.front:
        return []
    places = np.linspace(len(found.front) - 1, 0, min(len(found.front), max(1, rows - 1))).round().astype(int)
    shown = [found.front[place] for place in reversed(places)]
    columns = [("Front", [f"#{trial.number}" for trial in shown])]
    for heading, cells in trial_columns(shown):
        if heading not in ("trial", "episodes", "confirmed"):
            columns.append((fit(heading, _NAME_CELLS).rstrip(), cells))
    header, *lines = fitting_table(columns, width).splitlines()
    heading = Text.assemble(_heading(header[: len("Front")]), (header[len("Front") :], CYAN))
    return [heading, *(Text(line, WHITE) for line in lines)]


def fitting_table(columns: Sequence[tuple[str, Sequence[str]]], width: int) -> str:
    """Returns a plain table of as many columns as the width has room for, three at least."""
    ends = [*accumulate(max(map(len, [heading, *cells])) + _GAP_CELLS for heading, cells in columns)]
    count = max(3, sum(end - _GAP_CELLS <= width for end in ends))
    headings, cells = zip(*columns[:count], strict=True)
    return plain_table(headings, [*zip(*cells, strict=True)])


def _running(state: SweepState, found: Results) -> list[Text]:
    runs = state.running
    curves = [found.best.curve if found.best else (), *(run.curve for run in runs)]
    scores = [row[2] for curve in curves for row in curve if math.isfinite(row[2])] or [0.0, 1.0]
    labels = [f"#{run.number}" if run.seed is None else f"#{run.number} seed {run.seed}" for run in runs]
    cells = max(map(len, labels), default=0)
    lines = []
    for label, run in zip(labels, runs, strict=True):
        bars = sparkline(run.curve, run.progress, min(scores), max(scores), _CURVE_CELLS)
        score = number_text(run.curve[-1][2]) if run.curve else "-"
        line = Text.assemble(
            (f"{fit(label, cells)} {bars}", CYAN),
            ("─" * (_CURVE_CELLS - len(bars)), TRACK),
            (f" {percent_text(run.progress):>4} {score:>8} {cost_text(run.cost):>7}   ", WHITE),
            ("   ".join(f"{name} {value}" for name, value in settings_texts(run.values).items()), CYAN),
        )
        lines.append(line)
    hidden = len(lines) - _RUNNING_LINES
    return lines if hidden <= 0 else [*lines[: _RUNNING_LINES - 1], Text(f"and {hidden + 1} more", CYAN)]


def _line(heading: str, number: int, text: str) -> Text:
    return Text.assemble(_heading(heading), (f" trial {number} ", CYAN), (text, WHITE))


def _heading(text: str) -> Text:
    return Text(text, f"bold {RED}")


class LiveTable:
    """Shows a sweep: one panel on a terminal, elsewhere a line for every trial and confirmation that ended."""

    def __init__(self, stream: TextIO | None = None):
        self._screen = LivePanel(stream)
        self._drawn = -math.inf  # when
        self._state: SweepState | None = None
        self._told: set[int | tuple[int, int]] | None = None  # trials by number, confirmations by trial and seed

    def show(self, state: SweepState) -> None:
        """Shows a sweep as it is now."""
        self._state = state
        if not self._screen.is_panel:
            for line in self._new_lines(state):
                self._screen.write(line)
        elif time.monotonic() - self._drawn >= _SECONDS_BETWEEN:
            self._draw(state)

    def close(self) -> None:
        """Leaves the last panel on the screen and restores the terminal. It may be called twice."""
        if self._state is not None and self._screen.is_panel:
            self._draw(self._state)
        self._state = None
        self._screen.close()

    def _draw(self, state: SweepState) -> None:
        self._screen.draw(lambda console: render(state, console.width, console.height))
        self._drawn = time.monotonic()

    def _new_lines(self, state: SweepState) -> list[str]:
        found = state.results()
        ended = {trial.number: trial for trial in found.ended}
        confirmed = {(run.trial, run.seed): run for run in state.confirmations}
        before, self._told = self._told, {*ended, *confirmed}
        if before is None:
            count = f"{found.num_ended} trial{'s' * (found.num_ended != 1)}"
            return [f"{state.env_name}  continues after {count}"] if ended else []
        lines = [_trial_line(state, found, trial) for number, trial in ended.items() if number not in before]
        return lines + [_confirmation_line(state, run) for key, run in confirmed.items() if key not in before]


def _confirmation_line(state: SweepState, run: Confirmation) -> str:
    outcome = f"failed: {run.error}" if run.score is None else f"score {number_text(run.score)}"
    return f"{state.env_name}  trial {run.trial} again with seed {run.seed}  {outcome}  cost {cost_text(run.cost)}"


def _trial_line(state: SweepState, found: Results, trial: FoundTrial) -> str:
    if trial.state == "complete":
        of = "" if trial.episodes is None else f" of {trial.episodes_text} episodes"
        front = "  on the front" if trial in found.front else ""
        outcome = f"score {number_text(trial.score)}{of}  cost {cost_text(trial.cost)}{front}"
    else:
        outcome = f"{'not counted' if trial.state == 'uncounted' else trial.state}: {trial.reason}"
    done = f"trial {trial.number}  {found.num_ended}/{state.sweep['num_trials']} done"
    best = f"  best {number_text(found.best.score)} of trial {found.best.number}" if found.best else ""
    left = duration_text(remaining_seconds(state, found))
    return f"{state.env_name}  {done}  {outcome}{best}  remaining {left}"
