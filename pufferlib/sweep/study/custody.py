"""Who runs a trial, and what becomes of those whose driver is gone: another driver has them run again.

Everything is decided by what the storage lets happen once: a trial is told as failed once, and what two drivers asked
for twice is run by whoever has the lower number.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import uuid
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
import psutil
from optuna.trial import FrozenTrial, TrialState

from pufferlib.sweep.attributes import DRIVER, ERROR, HEARTBEAT, RETRY_OF, UNCOUNTED

SILENT_SECONDS = 180.0  # of a driver on another machine after which its trials are taken from it
MOST_RETRIES = 2  # of a trial that its drivers die with
GONE = "its driver is gone"

AnyTrial = FrozenTrial | optuna.Trial


def this_driver() -> dict[str, Any]:
    """A new driver of this process: the machine, as far as process numbers mean the same there, and the process."""
    process = os.getpid()
    return {
        "host": _host(),
        "process": process,
        "started": _started(process),
        "key": uuid.uuid4().hex,
    }


def is_counted(trial: FrozenTrial) -> bool:
    """Whether it is one of `num_trials`: every one but those that never ran, or are run again by another number."""
    return not (trial.state is TrialState.FAIL and trial.user_attrs.get(UNCOUNTED))


def is_wanted(trial: FrozenTrial, trials: Sequence[FrozenTrial], num_trials: int) -> bool:
    """Whether a trial that begins is to run: not where others were quicker to begin the last one, or to retry it.

    Args:
        trial: of this driver.
        trials: all of the study, as they are now that it has begun.
        num_trials: that are to be run in all.
    """
    earlier = [each for each in trials if each.number < trial.number and is_counted(each)]
    retried = trial.user_attrs.get(RETRY_OF)
    is_twin = retried is not None and any(each.user_attrs.get(RETRY_OF) == retried for each in earlier)
    return len(earlier) < num_trials and not is_twin


def forget(study: optuna.Study, trial: AnyTrial, reason: str) -> bool:
    """Ends a trial that does not count; returns whether it was still running."""
    try:
        mark(study, trial, {ERROR: reason, UNCOUNTED: True})
        study.tell(trial.number, state=TrialState.FAIL)
    except (ValueError, optuna.exceptions.UpdateFinishedTrialError):
        return False
    return True


def give_back(study: optuna.Study, trial: AnyTrial, reason: str, names: Sequence[str]) -> None:
    """Ends a trial and has it run again, by whichever driver is first; not one that its drivers keep dying with.

    Does nothing where the trial has ended, as another driver may have been quicker.

    Args:
        study: of the trial.
        trial: that runs.
        reason: why it ends, one sentence.
        names: of what is varied; a trial without a value for each had not begun, and is not run again.
    """
    if reason == GONE and _deaths(study, trial) >= MOST_RETRIES:
        with contextlib.suppress(ValueError, optuna.exceptions.UpdateFinishedTrialError):
            mark(study, trial, {ERROR: f"its drivers died with it {MOST_RETRIES + 1} times"})
            study.tell(trial.number, state=TrialState.FAIL)
        return
    if forget(study, trial, reason) and set(names) <= set(trial.params):
        study.enqueue_trial(trial.params, user_attrs={RETRY_OF: trial.number})


def mark(study: optuna.Study, trial: AnyTrial, attributes: Mapping[str, Any]) -> None:
    """Sets attributes of a trial, which need not be this driver's.

    Raises:
        optuna.exceptions.UpdateFinishedTrialError: if it has ended.
    """
    for key, value in attributes.items():
        study._storage.set_trial_user_attr(trial._trial_id, key, value)  # Optuna has no other way for a trial by number


class Custodian:
    """Looks for drivers that are gone, and has their trials run again."""

    def __init__(self, study: optuna.Study, driver: Mapping[str, Any], names: Sequence[str]):
        """Has seen nothing yet.

        Args:
            study: to look at.
            driver: this one, which is there.
            names: of what is varied.
        """
        self._study, self._driver, self._names = study, driver, names
        self._beats: dict[Hashable, tuple[Any, float]] = {}  # the last heartbeat, and since when it is the last

    def take_over(self, trials: Sequence[FrozenTrial]) -> None:
        """Has trials of drivers that are gone run again.

        Args:
            trials: of the study, as they are now.
        """
        for trial in trials:
            if trial.state is TrialState.RUNNING:
                driver, beat = trial.user_attrs.get(DRIVER, {}), trial.user_attrs.get(HEARTBEAT)
                if self.is_gone(trial.number, driver, beat):
                    give_back(self._study, trial, GONE, self._names)

    def is_gone(self, work: Hashable, driver: Mapping[str, Any], beat: Any) -> bool:
        """Whether a driver is no longer there: on this machine its process, on others its heartbeats.

        Args:
            work: what it was busy with.
            driver: as `this_driver` gives it; empty where it did not get to say.
            beat: the last heartbeat, of a clock that may be another one than this machine's.
        """
        if driver.get("key") == self._driver["key"]:
            return False
        if driver.get("host") == self._driver["host"]:
            return _started(driver["process"]) != driver["started"]
        now = time.monotonic()
        if work not in self._beats or self._beats[work][0] != beat:
            self._beats[work] = beat, now
        return now - self._beats[work][1] > SILENT_SECONDS


def _deaths(study: optuna.Study, trial: AnyTrial) -> int:
    """How many drivers died with the trials that this one runs again."""
    trials = {each.number: each for each in study.get_trials(deepcopy=False)}
    count, number = 0, trial.user_attrs.get(RETRY_OF)
    while number in trials:
        count += trials[number].user_attrs.get(ERROR) == GONE
        number = trials[number].user_attrs.get(RETRY_OF)
    return count


def _host() -> str:
    """This machine since its start, and within it the processes that have the same numbers, as in a container."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _started(process: int) -> float | None:
    """When a process began, by a clock that nobody sets; None where there is no such process."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else float(fields[19])
    except (OSError, IndexError, ValueError):
        pass
    if Path("/proc/self/stat").exists():
        return None
    with contextlib.suppress(psutil.Error):  # macOS
        return psutil.Process(process).create_time()
    return None
