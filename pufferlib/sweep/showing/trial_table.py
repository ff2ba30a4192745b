"""A table of all trials of a study for spreadsheets and pandas."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from pufferlib.metrics.output import printable_lines
from pufferlib.runs.whole_files import write_atomically
from pufferlib.sweep.attributes import COST, EPISODES, ERROR, RUN_FOLDER, STOPPED, uncounted_numbers
from pufferlib.sweep.study.results import settings_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

TRIALS_FILE = "trials.csv"

_STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "stopped", TrialState.FAIL: "failed"}


def write_trials(trials: Sequence[FrozenTrial], path: Path) -> None:
    """Writes a row for every trial that has ended, a column for every setting that any of them varied.

    Raises:
        StorageError: if it cannot be written.
    """
    write_atomically(path, trials_csv(trials).encode())


def trials_csv(trials: Sequence[FrozenTrial]) -> str:
    """Returns the table as text; unknown cells are empty."""
    ended = [(trial, settings_of(trial)) for trial in trials if trial.state in _STATES]
    uncounted = uncounted_numbers(trials)
    names = list(dict.fromkeys(name for _, settings in ended for name in settings))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header = ["trial", "state", "score", "episodes", "cost"]
    writer.writerow([*header, *map(_cell, names), "reason", "run_folder", "started", "ended"])
    for trial, settings in ended:
        known = trial.user_attrs
        state = "uncounted" if trial.number in uncounted else _STATES[trial.state]
        measured = [trial.number, state, trial.value, known.get(EPISODES), known.get(COST)]
        chosen = [_cell(settings.get(name)) for name in names]
        reasons = [_cell(known.get(ERROR) or known.get(STOPPED)), _cell(known.get(RUN_FOLDER))]
        times = [
            time and time.isoformat(timespec="seconds") for time in (trial.datetime_start, trial.datetime_complete)
        ]
        writer.writerow([*measured, *chosen, *reasons, *times])
    return stream.getvalue()


def _cell(value: object) -> object:
    # A text without control codes that no spreadsheet takes for a formula; anything else as it is.
    if not isinstance(value, str):
        return value
    text = printable_lines(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
