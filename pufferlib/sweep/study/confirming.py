"""Runs the best trials again on fresh seeds, in the places of a driver whose search is over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from pufferlib.errors import ConfigError
from pufferlib.sweep.attributes import CONFIRMING
from pufferlib.sweep.search.distributions import settled
from pufferlib.sweep.search.space import SearchSpace
from pufferlib.sweep.state import SweepState
from pufferlib.sweep.study.confirmation import Confirmation, known_confirmations, outstanding, remember
from pufferlib.sweep.study.custody import Custodian
from pufferlib.sweep.study.results import FoundTrial, results_of
from pufferlib.sweep.trials.slots import Slots
from pufferlib.sweep.trials.trial_config import trial_args
from pufferlib.sweep.trials.trial_process import Job, TrialProcess
from pufferlib.sweep.trials.trial_task import Task

STEPS = "train.total_timesteps"
TICK_SECONDS = 0.25
CLAIM_SECONDS = 30.0  # between two heartbeats of what is being run


class Confirmations:
    """The confirmations of a study, of which each driver runs those that no other does."""

    def __init__(
        self,
        state: SweepState,
        args: Mapping[str, Any],
        space: SearchSpace,
        slots: Slots,
        driver: Mapping[str, Any],
        custodian: Custodian,
    ):
        """Runs nothing yet.

        Args:
            state: of the sweep, which is kept up to date.
            args: the settings that trials are made from.
            space: of the search.
            slots: to run in, which are free.
            driver: this one.
            custodian: tells which other drivers are gone.
        """
        self._state, self._args, self._space = state, args, space
        self._slots, self._driver, self._custodian = slots, driver, custodian
        self._claimed_time = -math.inf

    def run(self, show: Callable[[], None], is_asked_to_stop: Callable[[], bool]) -> bool:
        """Runs what is outstanding, and waits for what other drivers run of it.

        Args:
            show: called some times a second.
            is_asked_to_stop: asked as often.

        Returns:
            Whether it came to its end.
        """
        todo = self._outstanding()
        while (todo or self._slots.running) and not is_asked_to_stop():
            self._claim_again()
            for trial, seed in todo:
                if self._slots.is_free and self._claim(trial.number, seed):
                    self._start(trial, seed)
            show()
            for process in self._slots.wait(TICK_SECONDS if self._slots.running else 4 * TICK_SECONDS):
                self._remember(process)
            todo = self._outstanding()
        show()
        return not todo

    def _outstanding(self) -> list[tuple[FoundTrial, int]]:
        state = self._state
        state.confirmations = known_confirmations(state.study)
        results = results_of(state.trials, state.args["sweep"]["goal"])
        todo = outstanding(results, state.confirmations, state.args, state.metric)
        state.to_confirm = len(todo)
        return todo

    def _start(self, trial: FoundTrial, seed: int) -> None:
        slot = self._slots.next_slot
        values = settled(self._space, self._state.trials[trial.number].params)
        values |= {name: trial.settings[name] for name in (STEPS,) if name in values}  # which may have been raised
        seeded = {**self._args, "train": {**self._args["train"], "seed": seed}}
        try:
            args, _ = trial_args(seeded, values, self._slots.num_cores(slot))
        except ConfigError as error:  # such as of a machine with less memory than that of the trial
            remember(self._state.study, Confirmation(trial.number, seed, None, error=str(error)))
            return
        task = Task(self._state.env_name, args, self._state.metric, self._slots.limits.memory_bytes, True, slot)
        log_path = self._state.folder / f"trial_{trial.number:04}_seed_{seed}.log"
        self._slots.start(Job(task, log_path, trial.number, values, seed))

    def _remember(self, process: TrialProcess) -> None:
        outcome, job = process.outcome, process.job
        if outcome.stopped is None:
            score = outcome.score if outcome.is_complete else None
            found = outcome.cost, outcome.run_folder or "", outcome.error or ""
            remember(self._state.study, Confirmation(job.number, job.seed, score, *found))

    # ------------------------------------------------------------------------------------------------ who runs which

    def _claim(self, number: int, seed: int) -> bool:
        """Whether this driver is the one to run it; in the worst case, two are."""
        if any((number, seed) == self._place(process) for process in self._slots.running.values()):
            return False
        key, study = _key(number, seed), self._state.study
        other = study.user_attrs.get(key)
        is_other = other is not None and other["key"] != self._driver["key"]
        if is_other and not self._custodian.is_gone(key, other, other["beat"]):
            return False
        study.set_user_attr(key, {**self._driver, "beat": time.time()})
        return study.user_attrs[key]["key"] == self._driver["key"]

    def _claim_again(self) -> None:
        if time.monotonic() - self._claimed_time >= CLAIM_SECONDS:
            self._claimed_time = time.monotonic()
            for process in self._slots.running.values():
                claim = {**self._driver, "beat": time.time()}
                self._state.study.set_user_attr(_key(*self._place(process)), claim)

    @staticmethod
    def _place(process: TrialProcess) -> tuple[int, int | None]:
        return process.job.number, process.job.seed


def _key(number: int, seed: int | None) -> str:
    return f"{CONFIRMING}/{number}/{seed}"
