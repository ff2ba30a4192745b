"""The driver of a sweep: asks for trials, runs them side by side, and reports them to the study.

Optuna's storage does the bookkeeping: which trials run, and which run again because their driver was killed.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.storages import fail_stale_trials
from optuna.trial import FrozenTrial, TrialState

from pufferlib.config import SweepConfig
from pufferlib.errors import ConfigError
from pufferlib.runs.stopping import StopRequest
from pufferlib.seeding import mix_seed
from pufferlib.sweep.proposal import make_sampler
from pufferlib.sweep.results import (
    CONFIG,
    CONFIRMING,
    COST,
    CURVE,
    EPISODE_STEPS,
    EPISODES,
    ERROR,
    HOST,
    METRIC,
    RETRY_OF,
    RUN_FOLDER,
    SERVICES,
    STOPPED,
    UNCOUNTED,
    UNSCORED,
    Confirmation,
    FoundTrial,
    SweepState,
    known_confirmations,
    outstanding,
    remember,
    results_of,
    uncounted_numbers,
)
from pufferlib.sweep.space import Dimension, SearchSpace, optuna_distributions, settled, space_of
from pufferlib.sweep.study import (
    GRACE_SECONDS,
    HEARTBEAT_SECONDS,
    claim_metric,
    claim_study,
    open_study,
    quiet_optuna,
    study_place,
)
from pufferlib.sweep.trial_config import trial_args, trial_settings
from pufferlib.sweep.trial_process import Job, Slots, TrialProcess, trial_limits
from pufferlib.sweep.trial_task import TrialTask

MIN_COMPLETE = 5  # trials, before anything is known of what is usual
MIN_PROGRESS, MAX_PROGRESS = 0.3, 0.8  # of a run, before anything is known of it, and when its end is worth its cost
_ALIKE = 3  # complete runs, at least, that were where it is
_AHEAD = 0.4  # of the way from its score to a useful one: runs that are ahead of it by less are where it is
_USEFUL = 0.5  # a run that will end below this quantile of the others, for its cost, is of no use

Curve = Sequence[Sequence[float]]
"""Rows of progress, seconds of training until then, and score."""


def hopeless_reason(curve: Curve, finished: Sequence[Curve], goal: str) -> str | None:
    """Returns one sentence why a run can end now, or None.

    A run is useful if it ends above the median of what the complete runs had reached for the cost that this one will
    have in the end: a short run is not compared with long ones. Its peers are the complete runs, three at least, that
    at the same progress were no nearer to a useful score than it is, or not much. It can end if no peer was useful.
    Where learning begins late, some peers were, and no run ends early.

    Args:
        curve: of the run.
        finished: curves of complete runs.
        goal: `maximize` or `minimize`.
    """
    finished = [each for each in finished if each]
    if len(finished) < MIN_COMPLETE or len(curve) < 2 or not MIN_PROGRESS <= curve[-1][0] <= MAX_PROGRESS:
        return None
    sign = 1.0 if goal == "maximize" else -1.0
    own, peers = _signed(curve, sign), [_signed(each, sign) for each in finished]
    progress, cost = own[-1, 0], own[-1, 1]
    reached = own[-2:, 2].max()
    useful = float(np.quantile([_best_until(each, cost / progress) for each in peers], _USEFUL))
    limit = reached + _AHEAD * max(0.0, useful - reached)
    alike = [each for each in peers if np.interp(progress, each[:, 0], each[:, 2]) <= limit]
    if len(alike) < _ALIKE:
        return None
    promised = max(each[-1, 2] for each in alike)
    if max(promised, reached) >= useful:
        return None
    more = "more" if goal == "maximize" else "less"
    return (
        f"at {progress:.0%} it scored {sign * reached:.4g}; of {len(alike)} trials that were there, none came to "
        f"{more} than {sign * promised:.4g}, where {sign * useful:.4g} is usual for that cost"
    )


def _signed(curve: Curve, sign: float) -> np.ndarray:
    rows: Any = np.array(curve, dtype=np.float64)
    rows[:, 2] *= sign
    return rows


def _best_until(curve: np.ndarray, cost: float) -> float:
    best = np.maximum.accumulate(curve[:, 2])
    return float(np.interp(cost, curve[:, 1], best))


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
