"""The driver of a sweep: asks for trials, runs them side by side, and reports them to the study.

Optuna's storage does the bookkeeping: which trials run, and which run again because their driver was killed.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.storages import fail_stale_trials
from optuna.trial import FrozenTrial, TrialState

from pufferlib.config import SweepConfig
from pufferlib.errors import ConfigError
from pufferlib.runs.stopping import StopRequest
from pufferlib.seeding import mix_seed
from pufferlib.sweep.attributes import (
    CONFIG,
    COST,
    CURVE,
    EPISODE_STEPS,
    EPISODES,
    ERROR,
    HOST,
    METRIC,
    RETRY_OF,
    RUN_FOLDER,
    STOPPED,
    UNCOUNTED,
    UNSCORED,
    uncounted_numbers,
)
from pufferlib.sweep.search.distributions import optuna_distributions, settled
from pufferlib.sweep.search.samplers import make_sampler
from pufferlib.sweep.search.space import Dimension, SearchSpace
from pufferlib.sweep.search.space_settings import space_of
from pufferlib.sweep.state import SERVICES, SweepState
from pufferlib.sweep.study.confirming import STEPS, Confirmations
from pufferlib.sweep.study.study import (
    GRACE_SECONDS,
    HEARTBEAT_SECONDS,
    claim_metric,
    claim_study,
    open_study,
    quiet_optuna,
    study_place,
)
from pufferlib.sweep.trials.slots import Slots, trial_limits
from pufferlib.sweep.trials.stopping import hopeless_reason
from pufferlib.sweep.trials.trial_config import trial_args, trial_settings
from pufferlib.sweep.trials.trial_process import Job, TrialProcess
from pufferlib.sweep.trials.trial_task import TrialTask

TICK_SECONDS = 0.25  # between two looks at what runs
READ_SECONDS = 1.0  # between two looks at what other drivers did
MAX_SAME_FAILURES = 5  # of the first trials, after which no more begin

OnChange = Callable[[SweepState], None]


def run_sweep(
    env_name: str,
    args: Mapping[str, Any],
    space: SearchSpace | None = None,
    sampler: BaseSampler | None = None,
    on_change: OnChange | None = None,
) -> SweepState:
    """Searches until the trials of the study or the minutes are used up, and runs the best again on fresh seeds.

    Ctrl-C, SIGTERM and SIGHUP end it: trials that run are stopped, and run again when the sweep continues.

    Args:
        env_name: the environment.
        args: its settings with those of the search, as `load_config` returns them.
        space: what may vary; None is what `[sweep.SECTION.SETTING]` say.
        sampler: proposes trials; None is what `[sweep] method` says.
        on_change: called some times a second with the state of the sweep.

    Returns:
        The final state: the study with all its trials, and confirmations.

    Raises:
        ConfigError: if the settings are wrong, the metric does not exist, the study is of another sweep, or the first
            trials all fail for the same reason.
        KeyboardInterrupt: if it was asked to stop.
    """
    sweep = Sweep(env_name, args, space, sampler)
    sweep.run(on_change)
    return sweep.state


class Sweep:
    """One driver of a study.

    Attributes:
        config: the settings of the search.
        space: what varies.
        place: where the study is.
        state: the trials so far and those that run.
    """

    def __init__(
        self,
        env_name: str,
        args: Mapping[str, Any],
        space: SearchSpace | None = None,
        sampler: BaseSampler | None = None,
    ):
        # The arguments are those of `run_sweep`; nothing runs yet.
        self.config = config = SweepConfig.from_dict(args["sweep"])
        self.space = space_of(args) if space is None else space
        self._distributions = optuna_distributions(self.space)
        self._wanted_metric = config.metric or args.get("solve", {}).get("metric") or "episode/return_mean"
        self._on_change: OnChange | None = None
        self.place = place = study_place(env_name, args)
        train = {**args["train"], "data_dir": str(place.folder)}
        log = {**args["log"], **dict.fromkeys(SERVICES, False)}  # the sweep has a run there, its trials have none
        self._args = {**args, "train": train, "log": log}
        self._study = study = open_study(place, config.goal)
        if METRIC in study.user_attrs:
            claim_metric(study, self._wanted_metric)
        self._driver = claim_study(study, env_name, self.space)
        seed = mix_seed(config.seed, self._driver) % 2**32  # drivers of one study do not propose the same
        study.sampler = sampler or make_sampler(config.method, self.space, seed, config.max_suggestion_cost)
        self.state = SweepState(env_name, args, self._wanted_metric, study, place.folder, place.flags)
        self._slots = Slots(config.workers, trial_limits(args["sweep"]))
        self._trials: dict[int, optuna.Trial] = {}  # those that this driver runs, by number
        self._reported: dict[int, set[int]] = {}  # tenths of their runs that the study knows
        self._errors: list[str] = []  # of the trials of this driver so far
        self._is_over = self._is_interrupted = False
        self._heartbeat_time = -math.inf
        self._read()

    def run(self, on_change: OnChange | None = None) -> None:
        """Does what `run_sweep` describes; may be called once."""
        state, minutes = self.state, self.config.max_minutes
        self._on_change = on_change
        state.started = time.monotonic()
        state.deadline = None if minutes is None else state.started + 60 * minutes
        with quiet_optuna(), StopRequest() as stop:
            try:
                while not self._is_done(stop.requested):
                    self._advance()
                if not stop.requested:
                    confirmations = Confirmations(state, self._args, self.space, self._slots, str(self._driver))
                    confirmations.run(self._show, lambda: stop.requested)
            finally:
                self._slots.close()
                for number in list(self._trials):
                    self._requeue(number, "the sweep was interrupted")
                self._read()
        if stop.requested:
            raise KeyboardInterrupt

    # -------------------------------------------------------------------------------------------------------- the loop

    def _is_done(self, is_asked_to_stop: bool) -> bool:
        if is_asked_to_stop and not self._is_interrupted:
            self._is_interrupted = self._is_over = True
            self._slots.stop("the sweep was interrupted")
        elif self.state.deadline is not None and not self._is_over and time.monotonic() >= self.state.deadline:
            self._is_over = True
            self._slots.stop(f"the {self.config.max_minutes:g} minutes of the sweep were over")
        if self._slots.running:
            return False
        self._read()
        ended = sum(trial.state.is_finished() for trial in self._counted())
        return self._is_over or ended >= self.config.num_trials  # else it waits for the trials of other drivers

    def _advance(self) -> None:
        self._keep_alive()
        while not self._is_over and self._slots.is_free and self._may_begin():
            self._begin()
        self._show()
        for process in self._slots.wait(TICK_SECONDS if self._slots.running else READ_SECONDS):
            self._end(process)
        for process in self._slots.running.values():
            self._follow(process)
        if time.monotonic() - self._read_time >= READ_SECONDS:
            self._read()

    def _keep_alive(self) -> None:
        # Records the heartbeats of this driver's trials, and has Optuna retry those whose heartbeats have ended.
        if time.monotonic() - self._heartbeat_time < HEARTBEAT_SECONDS:
            return
        self._heartbeat_time = time.monotonic()
        for trial in self._trials.values():
            self._beat(trial)
        fail_stale_trials(self._study)
        for trial in self._study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            age = time.time() - trial.datetime_start.timestamp()
            if HOST not in trial.user_attrs and age > GRACE_SECONDS:
                self._discard(trial, "its driver was killed before it began")  # and before its first heartbeat
        self._read()

    def _beat(self, trial: optuna.Trial) -> None:
        self._study._storage.record_heartbeat(trial._trial_id)  # Optuna has no public way outside of `optimize`

    def _read(self) -> None:
        self._read_time = time.monotonic()
        self.state.trials = self._study.get_trials(deepcopy=False)

    def _show(self) -> None:
        self.state.running = self._slots.described()
        if self._on_change is not None:
            self._on_change(self.state)

    def _counted(self) -> list[FrozenTrial]:
        uncounted = uncounted_numbers(self.state.trials)
        return [trial for trial in self.state.trials if trial.number not in uncounted]

    # ------------------------------------------------------------------------------------------------- a trial's begin

    def _may_begin(self) -> bool:
        is_waiting = any(trial.state is TrialState.WAITING for trial in self.state.trials)
        return is_waiting or len(self._counted()) < self.config.num_trials

    def _begin(self) -> None:
        trial = self._study.ask(self._distributions)
        self._beat(trial)
        trial.set_user_attr(HOST, socket.gethostname())
        self._read()
        if sum(each.number < trial.number for each in self._counted()) >= self.config.num_trials:
            self._discard(trial, "another driver was first to begin it")
        else:
            self._trials[trial.number], self._reported[trial.number] = trial, set()
            self._start(trial)
        self._read()

    def _start(self, trial: optuna.Trial) -> None:
        values, notes = self._long_enough(settled(self.space, trial.params))
        slot = self._slots.next_slot
        try:
            args, more = trial_args(self._args, values, self._slots.num_cores(slot))
        except ConfigError as error:
            self._fail(trial.number, {COST: 0.0}, str(error))
            return
        self._set(trial.number, {CONFIG: trial_settings(self._args, args, self.space.names)})
        log_path = self.state.folder / f"trial_{trial.number:04}.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.write_text("".join(f"{note}\n" for note in [*notes, *more]))
        is_known = METRIC in self._study.user_attrs
        task = TrialTask(
            self.state.env_name, args, self._wanted_metric, self._slots.limits.memory_bytes, is_known, slot
        )
        self._slots.start(Job(task, log_path, trial.number, values))

    def _long_enough(self, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        # The values of a trial, in which an episode of every agent fits into its steps, and a note of the change. The
        # steps are never raised beyond those that the search starts with.
        known = [trial.user_attrs[EPISODE_STEPS] for trial in self.state.trials if trial.user_attrs.get(EPISODE_STEPS)]
        dimension = next((each for each in self.space.dimensions if each.name == STEPS), None)
        if not known or not isinstance(dimension, Dimension):
            return values, []
        least, steps = math.ceil(min(*known, dimension.value(dimension.centre))), values[STEPS]
        if steps >= least:
            return values, []
        note = f"[train] total_timesteps is {least} instead of {steps}: every agent then plays an episode"
        return {**values, STEPS: least}, [note]

    # --------------------------------------------------------------------------------------------------- while it runs

    def _follow(self, process: TrialProcess) -> None:
        # Reports the tenths of a run that are done, and stops a run that promises nothing.
        number = process.job.number
        if number not in self._trials:
            process.stop("another driver took it, as this one seemed gone")
            return
        if process.metric is not None and self.state.metric != process.metric:
            claim_metric(self._study, self._wanted_metric)
            self.state.metric = process.metric
        tenths = process.curve.full_windows(process.progress)
        new = sorted(tenths.keys() - self._reported[number])
        if not new:
            return
        self._reported[number].update(new)
        try:
            for tenth in new:
                self._trials[number].report(tenths[tenth], tenth)
        except UpdateFinishedTrialError:  # another driver took it, as this one seemed gone
            del self._trials[number]
        if self.config.early_stopping and number in self._trials:
            complete = [trial for trial in self.state.trials if trial.state is TrialState.COMPLETE]
            curves = [trial.user_attrs.get(CURVE, []) for trial in complete]
            reason = hopeless_reason(process.curve.rows(), curves, self.config.goal)
            if reason is not None:
                process.stop(reason)

    def _set(self, number: int, attributes: Mapping[str, Any]) -> None:
        try:
            for key, value in attributes.items():
                self._trials[number].set_user_attr(key, value)
        except (KeyError, UpdateFinishedTrialError):  # another driver took it
            self._trials.pop(number, None)

    # --------------------------------------------------------------------------------------------------- a trial's end

    def _end(self, process: TrialProcess) -> None:
        outcome, number = process.outcome, process.job.number
        if outcome.ends_sweep:
            self._discard(self._trials.pop(number), outcome.error)
            raise ConfigError(outcome.error)
        self._follow(process)
        found = {COST: outcome.cost, CURVE: outcome.curve, RUN_FOLDER: outcome.run_folder}
        found |= {EPISODES: outcome.episodes, EPISODE_STEPS: outcome.episode_steps, UNSCORED: outcome.is_unscored}
        if outcome.fitted and number in self._trials:
            config = self._trials[number].user_attrs[CONFIG]
            found[CONFIG] = {**config, "train": {**config.get("train", {}), **outcome.fitted}}
        if outcome.error is not None:
            self._fail(number, found, outcome.error)
        elif outcome.stopped is None:
            self._tell(number, TrialState.COMPLETE, found, outcome.score)
        elif self._is_interrupted:
            self._requeue(number, outcome.stopped)
        elif outcome.curve:
            self._tell(number, TrialState.PRUNED, {**found, STOPPED: outcome.stopped})
        elif number in self._trials:
            self._discard(self._trials.pop(number), outcome.stopped)
        self._read()

    def _fail(self, number: int, attributes: Mapping[str, Any], error: str) -> None:
        self._tell(number, TrialState.FAIL, {**attributes, ERROR: error})
        self._errors.append(error)
        has_any = any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in self.state.trials)
        kinds = {re.sub(r"\d[\d.,e+-]*", "#", each) for each in self._errors[-MAX_SAME_FAILURES:]}  # without numbers
        if not has_any and len(self._errors) >= MAX_SAME_FAILURES and len(kinds) == 1:
            raise ConfigError(f"the first {MAX_SAME_FAILURES} trials failed for the same reason: {error}")

    def _tell(self, number: int, state: TrialState, attributes: Mapping[str, Any], score: float | None = None) -> None:
        self._set(number, attributes)
        if number in self._trials:
            with contextlib.suppress(UpdateFinishedTrialError):
                self._study.tell(self._trials.pop(number), score, state, skip_if_finished=True)

    def _discard(self, trial: optuna.Trial | FrozenTrial, reason: str) -> bool:
        # Ends a trial that does not count; returns whether it was still running.
        try:
            for key, value in ((ERROR, reason), (UNCOUNTED, True)):
                self._study._storage.set_trial_user_attr(trial._trial_id, key, value)  # it may be another driver's
            self._study.tell(trial.number, state=TrialState.FAIL)
        except (ValueError, UpdateFinishedTrialError):
            return False
        return True

    def _requeue(self, number: int, reason: str) -> None:
        # Ends a trial of this driver that will run again.
        trial = self._trials.pop(number, None)
        if trial is not None and self._discard(trial, reason):
            self._study.enqueue_trial(trial.params, user_attrs={RETRY_OF: number})
