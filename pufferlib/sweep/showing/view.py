"""All that a person sees of a sweep, and all that is written beside its study while it runs."""

from __future__ import annotations

from typing import TextIO

from pufferlib.sweep.showing import best_file, trial_table
from pufferlib.sweep.showing.live_table import LiveTable
from pufferlib.sweep.showing.summary_log import SummaryLog
from pufferlib.sweep.state import SweepState
from pufferlib.sweep.study.results import results_of


class SweepView:
    """Shows a sweep, and keeps the files of its folder as they would be if it ended now.

    Whatever is killed, the best settings so far and the table of trials are there.
    """

    def __init__(self, stream: TextIO | None = None):
        """Writes nothing yet.

        Args:
            stream: where to show it; None for stdout.
        """
        self._table, self._log = LiveTable(stream), SummaryLog()
        self._known: tuple[int, int] | None = None  # trials that ended and confirmations, as the files have them

    def show(self, state: SweepState) -> None:
        """Takes a sweep as it is now; may be called as often as one likes.

        Raises:
            StorageError: if a file cannot be written.
        """
        known = sum(trial.state.is_finished() for trial in state.trials), len(state.confirmations)
        if known != self._known:
            self._known = known
            results = results_of(state.trials, state.args["sweep"]["goal"])
            self._log.update(state, results)
            trial_table.write_trials(state.trials, state.folder / trial_table.FILE_NAME)
            best_file.write_settings(state, results)
        self._table.show(state)

    def close(self) -> None:
        """Leaves the last panel on the screen, gives the terminal back and ends the logs; twice is harmless."""
        self._table.close()
        self._log.close()
