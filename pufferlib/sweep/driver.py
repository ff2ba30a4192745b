"""The driver of a sweep: asks for trials, runs them side by side, and reports them to the study.

Optuna's storage does the bookkeeping: which trials run, and which run again because their driver was killed.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import fail_stale_trials
from optuna.trial import FrozenTrial, TrialState

from pufferlib.config import SweepConfig
from pufferlib.errors import ConfigError, PufferError
from pufferlib.runs.checkpoint import resolve_model
from pufferlib.runs.stopping import StopRequest
from pufferlib.seeding import mix_seed
from pufferlib.sweep import results, study
from pufferlib.sweep.proposal import make_sampler
from pufferlib.sweep.results import Confirmation, SweepState
from pufferlib.sweep.space import Dimension, SearchSpace, space_of, trial_args, trial_settings
from pufferlib.sweep.trial_process import TrialProcess, TrialTask

TICK_SECONDS = 0.25  # between two checks of the running trials
READ_SECONDS = 1.0  # between two reads of what other drivers reported to the study
MAX_SAME_FAILURES = 5  # if so many first trials fail for the same reason, no more begin
STEPS = "train.total_timesteps"

# Early stopping, see `hopeless_reason`.
MIN_COMPLETE = 5  # complete runs before any run may end early
MIN_PROGRESS, MAX_PROGRESS = 0.3, 0.8  # of a run that may end early
_MIN_PEERS = 3
_PEER_LEAD = 0.4  # a peer leads by at most this share of the way from the run's score to a useful one
_USEFUL_QUANTILE = 0.5  # of the complete runs' scores at the same cost, from which on a score is useful


class Sweep:
    """One driver of a study; nothing runs before `run`."""

    def __init__(self, env_name: str, args: Mapping[str, Any], space: SearchSpace | None = None):
        """Opens the study; ConfigError if the settings are wrong, or it is of another sweep.

        `args` are the nested dict of `load_config`; without a `space` its section `sweep` says what varies.
        """
        self.config = config = SweepConfig.from_dict(args["sweep"])
        self.space = space_of(args) if space is None else space
        self._wanted_metric = config.metric or args.get("solve", {}).get("metric") or "episode/return_mean"
        self.place = place = study.StudyPlace(env_name, args)
        if (model := args["load_model_path"]) is not None:  # `latest` will be other weights
            args = {**args, "load_model_path": str(resolve_model(args["train"]["data_dir"], env_name, model))}
        args = {**args, "train": {**args["train"], "data_dir": str(place.folder)}}
        self._running: dict[int, TrialProcess] = {}  # the processes that have not been collected, by slot
        self._trials: dict[int, optuna.Trial] = {}  # those that this driver runs, by number
        self._reported: dict[int, int] = {}  # how many rows of their curves the study knows
        self._errors: list[str] = []  # of the trials of this driver so far
        self._heartbeat_time = -math.inf
        self._study = study.open_study(place, config.goal)
        self.state = SweepState(env_name, args, self._wanted_metric, self._study, place.folder)
        with study.naming_database(place):
            if results.METRIC in self._study.user_attrs:
                study.claim(self._study, results.METRIC, "metric", self._wanted_metric)
            self._driver = study.claim_study(self._study, env_name, self.space, args)
            self._read()
        seed = mix_seed(config.seed, self._driver) % 2**32  # drivers of one study do not propose the same
        self._study.sampler = make_sampler(config.method, self.space, seed, config.max_suggestion_cost)

    def run(self, on_change: Callable[[SweepState], None] = lambda state: None) -> None:
        """Searches until the trials or the minutes are used up, and runs the best again on fresh seeds; only once.

        It calls `on_change` some times a second. Ctrl-C, SIGTERM and SIGHUP end it with a KeyboardInterrupt: trials
        that run are stopped, and run again when the sweep continues. Raises ConfigError if the metric does not exist,
        or the first trials all fail for the same reason, and StorageError if the database fails.
        """
        self.state.deadline = time.monotonic() + 60 * (self.config.max_minutes or math.inf)
        self._on_change = on_change
        with study.quiet_optuna(), StopRequest() as self._stop, study.naming_database(self.place):
            try:
                while not self._is_done():
                    self._advance()
                self._confirm()
            finally:
                while self._running:
                    self._running.popitem()[1].close()
                for number in list(self._trials):  # where the database failed, once their heartbeats have ended
                    self._requeue(number, "the sweep was interrupted")
                self._read()
        if self._stop.requested:
            raise KeyboardInterrupt

    def _reason_to_end(self) -> str | None:
        if self._stop.requested:
            return "the sweep was interrupted"
        is_late = time.monotonic() >= self.state.deadline
        return f"the {self.config.max_minutes:g} minutes of the sweep were over" if is_late else None

    def _is_done(self) -> bool:
        reason = self._reason_to_end()
        for process in self._running.values() if reason is not None else ():
            process.stop(reason)
        if self._running:
            return False
        self._read()
        ended = sum(trial.state.is_finished() for trial in self._counted())
        return reason is not None or ended >= self.config.num_trials  # else it waits for the trials of other drivers

    def _advance(self) -> None:
        self._keep_alive()
        while self._reason_to_end() is None and len(self._running) < self.config.workers:
            is_waiting = any(trial.state is TrialState.WAITING for trial in self.state.trials)
            if not is_waiting and len(self._counted()) >= self.config.num_trials:
                break
            self._begin()
        self._show()
        for process in self._collected():
            self._end(process)
        for process in self._running.values():
            self._follow(process)
        if time.monotonic() - self._read_time >= READ_SECONDS:
            self._read()

    def _collected(self) -> list[TrialProcess]:
        # Waits a moment for messages; returns the processes that have ended, whose slots are free.
        waitables = [each for process in self._running.values() for each in process.waitables]
        seconds = TICK_SECONDS if self._running else READ_SECONDS
        wait(waitables, seconds)
        ended = []
        for slot, process in list(self._running.items()):
            process.look()
            if process.run.has_ended:
                process.close()
                ended.append(self._running.pop(slot))
        return ended

    def _keep_alive(self) -> None:
        # Records the heartbeats of this driver's trials, and has Optuna retry those whose heartbeats have ended.
        if time.monotonic() - self._heartbeat_time < study.HEARTBEAT_SECONDS:
            return
        self._heartbeat_time = time.monotonic()
        for trial in self._trials.values():
            self._beat(trial)
        fail_stale_trials(self._study)
        for trial in self._study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            age = time.time() - trial.datetime_start.timestamp()
            if results.HOST not in trial.user_attrs and age > study.GRACE_SECONDS:
                self._discard(trial, "its driver was killed before it began")  # and before its first heartbeat
        self._read()

    def _beat(self, trial: optuna.Trial) -> None:
        self._study._storage.record_heartbeat(trial._trial_id)  # Optuna has no public way outside of `optimize`

    def _read(self) -> None:
        self._read_time = time.monotonic()
        self.state.trials = self._study.get_trials(deepcopy=False)

    def _show(self) -> None:
        self.state.running = [process.run for process in self._running.values()]
        self._on_change(self.state)

    def _counted(self) -> list[FrozenTrial]:
        uncounted = results.uncounted_numbers(self.state.trials)
        return [trial for trial in self.state.trials if trial.number not in uncounted]

    def _begin(self) -> None:
        trial = self._study.ask(self.space.distributions)
        self._beat(trial)
        trial.set_user_attr(results.HOST, socket.gethostname())
        self._read()
        if sum(each.number < trial.number for each in self._counted()) >= self.config.num_trials:
            self._discard(trial, "another driver was first to begin it")
        else:
            self._trials[trial.number], self._reported[trial.number] = trial, 0
            try:
                self._start(trial.number, self._long_enough(self.space.settled(trial.params)))
            except PufferError as error:
                self._fail(trial.number, {results.COST: 0.0}, str(error))
        self._read()

    def _start(self, number: int, values: Mapping[str, Any], seed: int | None = None) -> None:
        # Starts a trial, or the confirmation of one on a seed.
        args = trial_args(self.state.args, values)
        if seed is not None:
            args["train"]["seed"] = seed
        log_name = f"trial_{number:04}.log" if seed is None else f"trial_{number:04}_seed_{seed}.log"
        task = TrialTask(
            number=number,
            args=args,
            metric=self._wanted_metric,
            log_path=self.state.folder / log_name,
            is_metric_known=results.METRIC in self._study.user_attrs,
            slot=min({*range(self.config.workers)} - self._running.keys()),
            values=values,
            seed=seed,
        )
        self._running[task.slot] = TrialProcess(task, self.config)

    def _long_enough(self, values: dict[str, Any]) -> dict[str, Any]:
        # The values of a trial, in which an episode of every agent fits into its steps. These are never raised beyond
        # those that the search starts with.
        known = [steps for each in self.state.trials if (steps := each.user_attrs.get(results.EPISODE_STEPS))]
        dimension = next((each for each in self.space.dimensions if each.name == STEPS), None)
        if not known or not isinstance(dimension, Dimension):
            return values
        least = math.ceil(min(*known, dimension.value(dimension.centre)))
        return {**values, STEPS: max(values[STEPS], least)}

    def _follow(self, process: TrialProcess) -> None:
        # Reports the tenths of a run that are done, and stops a run that promises nothing.
        number = process.task.number
        if number not in self._trials:
            process.stop("another driver took it, as this one seemed gone")
            return
        metric, curve = process.run.metric, process.run.curve
        if metric is not None and self.state.metric != metric:
            study.claim(self._study, results.METRIC, "metric", self._wanted_metric)
            self.state.metric = metric
        new, self._reported[number] = curve[self._reported[number] :], len(curve)
        try:
            for progress, _, score in new:
                self._trials[number].report(score, round(results.TENTHS * progress))
        except UpdateFinishedTrialError:  # the next look stops it
            del self._trials[number]
            return
        if new and self.config.early_stopping:
            complete = [trial for trial in self.state.trials if trial.state is TrialState.COMPLETE]
            curves = [trial.user_attrs.get(results.CURVE, []) for trial in complete]
            reason = hopeless_reason(curve, curves, self.config.goal)
            if reason is not None:
                process.stop(reason)

    def _end(self, process: TrialProcess) -> None:
        run, number, args = process.run, process.task.number, process.task.args
        if run.end == "metric":
            self._discard(self._trials.pop(number), run.error)
            raise ConfigError(run.error)
        self._follow(process)
        ran_with = {**args, "train": {**args["train"], **run.fitted}}
        found = {**run.attributes(), results.CONFIG: trial_settings(self.state.args, ran_with, self.space.names)}
        if run.error is not None:
            self._fail(number, found, run.error)
        elif run.stopped is None:
            self._tell(number, TrialState.COMPLETE, found, run.score)
        elif self._stop.requested:
            self._requeue(number, run.stopped)
        elif run.curve:
            self._tell(number, TrialState.PRUNED, {**found, results.STOPPED: run.stopped})
        elif number in self._trials:
            self._discard(self._trials.pop(number), run.stopped)
        self._read()

    def _fail(self, number: int, attributes: Mapping[str, Any], error: str) -> None:
        self._tell(number, TrialState.FAIL, {**attributes, results.ERROR: error})
        self._errors.append(error)
        has_any = any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in self.state.trials)
        kinds = {re.sub(r"\d[\d.,e+-]*", "#", each) for each in self._errors[-MAX_SAME_FAILURES:]}  # without numbers
        if not has_any and len(self._errors) >= MAX_SAME_FAILURES and len(kinds) == 1:
            raise ConfigError(f"the first {MAX_SAME_FAILURES} trials failed for the same reason: {error}")

    def _tell(self, number: int, state: TrialState, attributes: Mapping[str, Any], score: float | None = None) -> None:
        trial = self._trials.pop(number, None)
        if trial is not None:
            with contextlib.suppress(UpdateFinishedTrialError):  # another driver took it
                for key, value in attributes.items():
                    trial.set_user_attr(key, value)
                self._study.tell(trial, score, state, skip_if_finished=True)

    def _discard(self, trial: optuna.Trial | FrozenTrial, reason: str) -> bool:
        # Ends a trial that does not count; returns whether it was still running.
        try:
            for key, value in ((results.ERROR, reason), (results.UNCOUNTED, True)):
                self._study._storage.set_trial_user_attr(trial._trial_id, key, value)  # it may be another driver's
            self._study.tell(trial.number, state=TrialState.FAIL)
        except (ValueError, UpdateFinishedTrialError):
            return False
        return True

    def _requeue(self, number: int, reason: str) -> None:
        trial = self._trials.pop(number, None)
        if trial is not None and self._discard(trial, reason):
            self._study.enqueue_trial(trial.params, user_attrs={results.RETRY_OF: number})

    def _confirm(self) -> None:
        # Drivers reserve no confirmation: the first takes them in their order, others at random. What two of them run
        # has one result, and what is still running when all have one is given up.
        state = self.state
        while not self._stop.requested:
            state.confirmations = results.known_confirmations(self._study)
            todo = results.outstanding(state.results(), state.args, state.threshold)
            state.to_confirm = len(todo)
            if not todo:
                break
            running = {(process.task.number, process.task.seed) for process in self._running.values()}
            for trial, seed in random.sample(todo, len(todo)) if self._driver else todo:
                if len(self._running) < self.config.workers and (trial.number, seed) not in running:
                    try:
                        self._start(trial.number, {name: trial.settings[name] for name in self.space.names}, seed)
                    except PufferError as error:  # such as of a machine with less memory than that of the trial
                        results.remember(self._study, Confirmation(trial.number, seed, None, error=str(error)))
            self._show()
            for process in self._collected():
                task, run = process.task, process.run
                score = run.score if run.error is None else None
                found = Confirmation(task.number, task.seed, score, run.cost, run.run_folder, run.error or "")
                results.remember(self._study, found)
        self._show()


def hopeless_reason(curve: list[list[float]], finished: Sequence[list[list[float]]], goal: str) -> str | None:
    """Returns one sentence why the run with this curve can end now, or None, by the curves of complete runs.

    Their rows are of progress, seconds of training until then, and score.

    A run is useful if it ends above the median of what the complete runs had reached for the cost that this one will
    have in the end: a short run is not compared with long ones. Its peers are the complete runs, three at least, that
    at the same progress were no nearer to a useful score than it is, or not much. It can end if no peer was useful.
    Where learning begins late, some peers were, and no run ends early.
    """
    finished = [each for each in finished if each]
    if len(finished) < MIN_COMPLETE or len(curve) < 2 or not MIN_PROGRESS <= curve[-1][0] <= MAX_PROGRESS:
        return None
    sign = 1.0 if goal == "maximize" else -1.0
    own, *others = [np.array(each, dtype=np.float64) * (1.0, 1.0, sign) for each in (curve, *finished)]
    progress, cost = own[-1, 0], own[-1, 1]
    reached = own[-2:, 2].max()
    until_then = [np.interp(cost / progress, each[:, 1], np.maximum.accumulate(each[:, 2])) for each in others]
    useful = float(np.quantile(until_then, _USEFUL_QUANTILE))
    limit = reached + _PEER_LEAD * max(0.0, useful - reached)
    peers = [each for each in others if np.interp(progress, each[:, 0], each[:, 2]) <= limit]
    if len(peers) < _MIN_PEERS:
        return None
    promised = max(each[-1, 2] for each in peers)
    if max(promised, reached) >= useful:
        return None
    more = "more" if goal == "maximize" else "less"
    return (
        f"at {progress:.0%} it scored {sign * reached:.4g}; of {len(peers)} trials that were there, none came to "
        f"{more} than {sign * promised:.4g}, where {sign * useful:.4g} is usual for that cost"
    )
