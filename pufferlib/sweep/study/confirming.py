"""Runs the confirmations, in the slots of a driver whose search is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pufferlib.errors import ConfigError
from pufferlib.sweep.attributes import CONFIRMING
from pufferlib.sweep.search.distributions import settled
from pufferlib.sweep.search.space import SearchSpace
from pufferlib.sweep.state import SweepState
from pufferlib.sweep.study.confirmation import Confirmation, known_confirmations, outstanding, remember
from pufferlib.sweep.study.results import FoundTrial, results_of
from pufferlib.sweep.study.study import GRACE_SECONDS, HEARTBEAT_SECONDS
from pufferlib.sweep.trials.slots import Slots
from pufferlib.sweep.trials.trial_config import trial_args
from pufferlib.sweep.trials.trial_process import Job
from pufferlib.sweep.trials.trial_task import TrialTask

STEPS = "train.total_timesteps"
CONFIRM_TICK_SECONDS = 0.25


class Confirmations:
    """Runs the confirmations of a study that no other driver runs.

    A driver claims a confirmation in the study and renews the claim while it runs. Where two drivers claim the same in
    the same moment, both run it, and one result is kept.
    """

    def __init__(self, state: SweepState, args: Mapping[str, Any], space: SearchSpace, slots: Slots, driver: str):
        """Prepares them; `run` runs them.

        Args:
            state: of the sweep, which is kept up to date.
            args: the settings that trials are made from.
            space: of the search.
            slots: to run in, which are free.
            driver: a text that no other driver has.
        """
        self._state, self._args, self._space = state, args, space
        self._slots, self._driver = slots, driver

    def run(self, show: Callable[[], None], is_asked_to_stop: Callable[[], bool]) -> None:
        """Runs the outstanding ones, and waits for other drivers; calls its arguments some times a second."""
        todo = self._outstanding()
        while (todo or self._slots.running) and not is_asked_to_stop():
            for trial, seed in todo:
                if self._claim(trial.number, seed):
                    self._start(trial, seed)
            show()
            for process in self._slots.wait(CONFIRM_TICK_SECONDS if self._slots.running else 4 * CONFIRM_TICK_SECONDS):
                outcome, job = process.outcome, process.job
                if outcome.stopped is None:
                    score = outcome.score if outcome.is_complete else None
                    found = Confirmation(
                        job.number, job.seed, score, outcome.cost, outcome.run_folder or "", outcome.error or ""
                    )
                    remember(self._state.study, found)
            todo = self._outstanding()
        show()

    def _outstanding(self) -> list[tuple[FoundTrial, int]]:
        state = self._state
        state.confirmations = known_confirmations(state.study)
        results = results_of(state.trials, state.args["sweep"]["goal"])
        todo = outstanding(results, state.confirmations, state.args, state.metric)
        state.to_confirm = len(todo)
        return todo

    def _claim(self, number: int, seed: int) -> bool:
        # Whether this driver is to start it now; renews the claim of one that it runs.
        study, key, now = self._state.study, f"{CONFIRMING}/{number}/{seed}", time.time()
        is_running = any((job.number, job.seed) == (number, seed) for job in self._slots.jobs)
        if not is_running and not self._slots.is_free:
            return False
        driver, claimed = study.user_attrs.get(key, ("", 0.0))
        if now - claimed < (HEARTBEAT_SECONDS if driver == self._driver else GRACE_SECONDS):
            return False
        study.set_user_attr(key, [self._driver, now])
        return not is_running and study.user_attrs[key][0] == self._driver

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
        task = TrialTask(self._state.env_name, args, self._state.metric, self._slots.limits.memory_bytes, True, slot)
        log_path = self._state.folder / f"trial_{trial.number:04}_seed_{seed}.log"
        self._slots.start(Job(task, log_path, trial.number, values, seed))
