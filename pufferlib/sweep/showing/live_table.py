"""The display of a sweep that runs: a panel on a terminal, else a line for every trial that ends."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, TextIO

from pufferlib.metrics.dashboard import duration_text, number_text
from pufferlib.metrics.panel import LivePanel
from pufferlib.reports.texts import cost_text
from pufferlib.sweep.showing.sweep_panel import render
from pufferlib.sweep.showing.time_left import remaining_seconds
from pufferlib.sweep.study.results import FoundTrial, Results, results_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from pufferlib.sweep.state import SweepState
    from pufferlib.sweep.study.confirmation import Confirmation

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
