"""The trials that a driver runs: what the study learns of them, as long as they are this driver's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from pufferlib.sweep.attributes import COST, CURVE, HEARTBEAT
from pufferlib.sweep.study.custody import forget, give_back
from pufferlib.sweep.trials.trial_process import TrialProcess


class OwnTrials:
    """Trials by number. One that another driver took, as this one seemed gone, drops out with the next call for it."""

    def __init__(self, study: optuna.Study, names: Sequence[str]):
        """Has none yet.

        Args:
            study: of the trials.
            names: of what is varied.
        """
        self._study, self._names = study, names
        self._trials: dict[int, optuna.Trial] = {}
        self._reported: dict[int, set[int]] = {}  # tenths of their runs of which the study knows

    def __contains__(self, number: int) -> bool:
        return number in self._trials

    def __len__(self) -> int:
        return len(self._trials)

    def add(self, trial: optuna.Trial) -> None:
        """Begins with a trial."""
        self._trials[trial.number], self._reported[trial.number] = trial, set()

    def attribute(self, number: int, key: str) -> Any:
        """What a trial remembers."""
        return self._trials[number].user_attrs.get(key)

    def beat(self) -> None:
        """Tells other drivers that this one is there."""
        for number in list(self._trials):
            self.mark(number, {HEARTBEAT: time.time()})

    def mark(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Has a trial remember something."""
        if number in self._trials:
            try:
                for key, value in attributes.items():
                    self._trials[number].set_user_attr(key, value)
            except UpdateFinishedTrialError:
                del self._trials[number]

    def report(self, process: TrialProcess) -> bool:
        """Tells of the tenths of a run that are behind; returns whether there was one that was not told before."""
        number = process.job.number
        if number not in self._trials:
            return False
        tenths = process.curve.full_windows(process.progress)
        new = sorted(tenths.keys() - self._reported[number])
        if not new:
            return False
        self._reported[number].update(new)
        self.mark(number, {CURVE: process.curve.rows(), COST: process.cost})
        for tenth in new:
            if number in self._trials:
                self._trials[number].report(tenths[tenth], tenth)
        return number in self._trials

    def end(self, number: int, state: TrialState, attributes: Mapping[str, Any], score: float | None = None) -> None:
        """Ends a trial; its score is only that of a complete one."""
        self.mark(number, attributes)
        trial = self._trials.pop(number, None)
        if trial is not None:
            try:
                self._study.tell(trial, score, state)
            except (ValueError, UpdateFinishedTrialError):
                return  # another driver took it in this moment

    def forget(self, number: int, reason: str) -> None:
        """Ends a trial that does not count."""
        if number in self._trials:
            forget(self._study, self._trials.pop(number), reason)

    def give_back(self, number: int, reason: str) -> None:
        """Ends a trial that will be run again."""
        if number in self._trials:
            give_back(self._study, self._trials.pop(number), reason, self._names)

    def give_back_all(self, reason: str) -> None:
        """Ends all that remain, to be run again."""
        for number in list(self._trials):
            self.give_back(number, reason)
