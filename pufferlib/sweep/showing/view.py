"""The display of a sweep, and the files beside its study while it runs."""

from __future__ import annotations

from typing import TextIO

from pufferlib.sweep.showing.best_file import write_settings
from pufferlib.sweep.showing.live_table import LiveTable
from pufferlib.sweep.showing.summary_log import SummaryLog
from pufferlib.sweep.showing.trial_table import TRIALS_FILE, write_trials
from pufferlib.sweep.state import SweepState
from pufferlib.sweep.study.results import results_of


class SweepView:
    """Shows a sweep, and keeps its files up to date, so that they are there even where the sweep is killed."""

    def __init__(self, stream: TextIO | None = None):
        self._table, self._log = LiveTable(stream), SummaryLog()
        self._known: tuple[int, int] | None = None  # trials that ended and confirmations, as the files have them

    def show(self, state: SweepState) -> None:
        """Shows a sweep as it is now.

        Raises:
            StorageError: if a file cannot be written.
        """
        known = sum(trial.state.is_finished() for trial in state.trials), len(state.confirmations)
        if known != self._known:
            self._known = known
            results = results_of(state.trials, state.args["sweep"]["goal"])
            self._log.update(state, results)
            write_trials(state.trials, state.folder / TRIALS_FILE)
            write_settings(state, results)
        self._table.show(state)

    def close(self) -> None:
        """Leaves the last panel on the screen, restores the terminal and ends the logs. It may be called twice."""
        self._table.close()
        self._log.close()
