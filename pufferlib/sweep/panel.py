"""The progress of a sweep: a panel on a terminal, lines elsewhere, and the time that is left."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, TextIO

from optuna.trial import TrialState
from rich.text import Text

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
    short_names,
    value_text,
)
from pufferlib.sweep.results import (
    HOST,
    ConfirmedTrial,
    FoundTrial,
    Results,
    RunningTrial,
    SweepState,
    confirmed_trials,
    results_of,
    settings_of,
    solve_threshold,
)
from pufferlib.sweep.trial_process import WINDOWS

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from rich.panel import Panel

    from pufferlib.sweep.results import Confirmation


BARS = "▁▂▃▄▅▆▇█"


def sparkline(curve: Sequence[Sequence[float]], progress: float, low: float, high: float, cells: int) -> str:
    """Returns a curve as bars from the start of a run to where it is.

    Args:
        curve: rows of progress, seconds and score.
        progress: where the run is, in [0, 1]; the text ends there, with blanks where no score is known yet.
        low: the score of the lowest bar.
        high: that of the highest.
        cells: the number of characters of a whole run.
    """
    points = [(row[0], row[2]) for row in curve if math.isfinite(row[2])]
    done = min(cells, math.ceil(min(max(progress, 0.0), 1.0) * cells - 1e-9))
    newest = [[score for place, score in points if place <= (cell + 1) / cells + 1e-9][-1:] for cell in range(done)]
    return "".join(bar(scores[0], low, high) if scores else " " for scores in newest)


def bar(score: float, low: float, high: float) -> str:
    """Returns the bar of a score between two others."""
    share = (score - low) / (high - low) if high > low else 0.5
    return BARS[min(max(int(share * len(BARS)), 0), len(BARS) - 1)]


def winner_text(best: ConfirmedTrial) -> str:
    """Returns a text such as `trial 7: 0.98 in 12s of training, confirmed 0.95 ± 0.02 on 3 fresh seeds`."""
    again = f", confirmed {best.text}" if best.runs else ""
    trial = best.trial
    of = "" if trial.episodes is None else f" over {trial.episodes_text} episodes"
    return f"trial {trial.number}: {number_text(trial.score)}{of} in {cost_text(trial.cost)} of training{again}"


_RECENT = 20  # trials whose durations say how long the next ones take
_EARLY = 0.05  # of a run: before that its own speed says little


def remaining_seconds(state: SweepState, now: float | None = None) -> float:
    """Returns the seconds until the trials of a sweep are over, or the confirmations while those run.

    It assumes that trials take as long as the last ones did, and the same number runs side by side on all drivers;
    never longer than to the deadline. It is infinite as long as no trial has ended. `now` is a `time.monotonic()`, None
    for this moment.
    """
    now = time.monotonic() if now is None else now
    typical = _typical_duration(state)
    found = results_of(state.trials, state.args["sweep"]["goal"])
    elsewhere = 0 if state.to_confirm else max(0, found.running - len(state.running))
    left = state.to_confirm or max(0, state.args["sweep"]["num_trials"] - found.num_ended)
    waiting = max(0, left - len(state.running) - elsewhere)
    here = [_of_running(trial, typical, now) for trial in state.running]
    lanes = max(1, state.args["sweep"]["workers"], len(here)) + elsewhere
    ahead = sum(here) + sum([typical] * waiting) + sum([typical / 2] * elsewhere)
    longest = max(ahead / lanes, *here, 0.0)
    if state.deadline is None or state.to_confirm:
        return longest
    return min(longest, max(0.0, state.deadline - now))


def _typical_duration(state: SweepState) -> float:
    ended = [trial for trial in state.trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    seconds = [(trial.datetime_complete - trial.datetime_start).total_seconds() for trial in ended[-_RECENT:]]
    return max(0.0, mean(seconds)) if seconds else math.inf


def _of_running(trial: RunningTrial, typical: float, now: float) -> float:
    elapsed = max(0.0, now - trial.started)
    if trial.progress > _EARLY:
        return elapsed * (1 / min(trial.progress, 1.0) - 1)
    return max(0.0, typical - elapsed)


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


_SECONDS_BETWEEN = 0.25  # two drawings


class LiveTable:
    """Shows a sweep.

    On a terminal it draws one panel and redraws it in place; otherwise it writes one line without control codes for
    every trial and confirmation that ended since the last `show`, of all drivers.
    """

    def __init__(self, stream: TextIO | None = None):
        self._screen = LivePanel(stream)
        self._drawn = -math.inf  # when
        self._state: SweepState | None = None
        self._told: set[int] | None = None  # numbers of the trials of which there was a line
        self._confirmed: set[tuple[int, int]] = set()  # trials and seeds of the confirmations of which there was one

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
        found = results_of(state.trials, state.args["sweep"]["goal"])
        ended = {trial.number: trial for trial in state.trials if trial.state.is_finished()}
        if self._told is None:
            self._told, self._confirmed = set(ended), {(run.trial, run.seed) for run in state.confirmations}
            return [f"{state.env_name}  continues after {_count(found.num_ended, 'trial')}"] if ended else []
        new = sorted(ended.keys() - self._told)
        self._told |= ended.keys()
        lines = [plain_line(state, found, ended[number]) for number in new]
        runs = [run for run in state.confirmations if (run.trial, run.seed) not in self._confirmed]
        self._confirmed |= {(run.trial, run.seed) for run in runs}
        return lines + [_confirmation_line(state.env_name, run) for run in runs]


def plain_line(state: SweepState, found: Results, trial: FrozenTrial) -> str:
    """Returns a trial that ended, in one line of plain text."""
    complete = next((each for each in found.complete if each.number == trial.number), None)
    number = state.args["sweep"]["num_trials"]
    parts = [
        state.env_name,
        f"trial {trial.number}",
        f"{found.num_ended}/{number} done",
        _outcome(found, trial, complete),
    ]
    if found.best is not None:
        parts.append(f"best {number_text(found.best.score)} of trial {found.best.number}")
    return "  ".join([*parts, f"remaining {duration_text(remaining_seconds(state))}"])


def _outcome(found: Results, trial: FrozenTrial, complete: FoundTrial | None) -> str:
    if complete is not None:
        front = "  on the front" if complete in found.front else ""
        of = "" if complete.episodes is None else f" of {complete.episodes_text} episodes"
        return f"score {number_text(complete.score)}{of}  cost {cost_text(complete.cost)}{front}"
    for word, ended in (("stopped", found.stopped), ("failed", found.failed), ("not counted", found.uncounted)):
        for each in ended:
            if each.number == trial.number:
                return f"{word}: {each.reason}"
    raise AssertionError(f"trial {trial.number} has not ended")


def _confirmation_line(env_name: str, run: Confirmation) -> str:
    outcome = f"failed: {run.error}" if run.score is None else f"score {number_text(run.score)}"
    return f"{env_name}  trial {run.trial} again with seed {run.seed}  {outcome}  cost {cost_text(run.cost)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
