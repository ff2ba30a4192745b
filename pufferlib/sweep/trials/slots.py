"""Slots for trainings that run side by side, each with its share of the cores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from multiprocessing.connection import wait
from typing import Any

from pufferlib.config import SweepConfig
from pufferlib.sweep.state import RunningTrial
from pufferlib.sweep.trials.cores import core_shares
from pufferlib.sweep.trials.trial_config import memory_limit
from pufferlib.sweep.trials.trial_process import Job, Limits, TrialProcess


def trial_limits(sweep: Mapping[str, Any]) -> Limits:
    """Returns the limits that the settings of `[sweep]` give a trial."""
    config = SweepConfig.from_dict(sweep)
    minutes = config.trial_minutes
    seconds = 3 * config.max_suggestion_cost if minutes is None else 60 * minutes
    return Limits(seconds, 60 * config.silent_minutes, memory_limit(sweep, "cpu"))


class Slots:
    """Runs trainings side by side, one in each slot.

    Attributes:
        limits: of each training.
        running: those that have not been collected, by slot.
    """

    def __init__(self, num_workers: int, limits: Limits):
        self.limits = limits
        self._cores = core_shares(num_workers)
        self.running: dict[int, TrialProcess] = {}

    @property
    def is_free(self) -> bool:
        """Whether a slot is free."""
        return len(self.running) < len(self._cores)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that run."""
        return [process.job for process in self.running.values()]

    @property
    def next_slot(self) -> int:
        """The slot of the next training."""
        return next(slot for slot in range(len(self._cores)) if slot not in self.running)

    def num_cores(self, slot: int) -> int:
        """Returns the number of cores of a slot; 1 where the system does not say."""
        return max(1, len(self._cores[slot]))

    def start(self, job: Job) -> TrialProcess:
        """Starts a training in the next slot."""
        slot = self.next_slot
        self.running[slot] = TrialProcess(job, self.limits, self._cores[slot])
        return self.running[slot]

    def wait(self, seconds: float) -> list[TrialProcess]:
        """Waits for messages, at most some seconds; returns the trainings that have ended, whose slots are free."""
        waitables = [each for process in self.running.values() for each in process.waitables]
        if waitables:
            wait(waitables, seconds)
        elif seconds > 0:
            time.sleep(seconds)
        ended = []
        for slot, process in list(self.running.items()):
            process.look()
            if process.outcome is not None:
                process.close()
                ended.append(self.running.pop(slot))
        return ended

    def stop(self, reason: str) -> None:
        """Asks all that run to save and end."""
        for process in self.running.values():
            process.stop(reason)

    def close(self) -> None:
        """Kills what runs. It may be called twice."""
        while self.running:
            self.running.popitem()[1].close()

    def described(self) -> list[RunningTrial]:
        """Returns the trainings that run, for the display."""
        return [
            RunningTrial(
                number=process.job.number,
                values=process.job.values,
                started=process.started,
                progress=process.progress,
                cost=process.cost,
                curve=process.curve.rows(),
                seed=process.job.seed,
            )
            for _, process in sorted(self.running.items())
        ]
