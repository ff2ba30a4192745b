"""The driver of a sweep: asks for trials, has them run side by side, and tells the study how they went."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from pufferlib.config import SweepConfig
from pufferlib.errors import ConfigError
from pufferlib.runs.stopping import StopRequest
from pufferlib.seeding import mix_seed
from pufferlib.sweep.attributes import (
    CONFIG,
    COST,
    CURVE,
    DRIVER,
    EPISODE_STEPS,
    EPISODES,
    ERROR,
    HEARTBEAT,
    METRIC,
    RUN_FOLDER,
    STOPPED,
    UNSCORED,
)
from pufferlib.sweep.search.distributions import optuna_distributions, settled
from pufferlib.sweep.search.samplers import make_sampler
from pufferlib.sweep.search.space import Dimension, SearchSpace
from pufferlib.sweep.search.space_settings import space_of
from pufferlib.sweep.showing.summary_log import without_services
from pufferlib.sweep.state import SweepState
from pufferlib.sweep.study.confirming import STEPS, Confirmations
from pufferlib.sweep.study.custody import Custodian, forget, is_counted, is_wanted, mark, this_driver
from pufferlib.sweep.study.own_trials import OwnTrials
from pufferlib.sweep.study.study import claim_metric, claim_study, open_study, quiet_optuna, study_place
from pufferlib.sweep.trials.slots import Slots, trial_limits
from pufferlib.sweep.trials.stopping import hopeless_reason
from pufferlib.sweep.trials.trial_config import trial_args, trial_settings
from pufferlib.sweep.trials.trial_process import Job, TrialProcess
from pufferlib.sweep.trials.trial_task import Task

TICK_SECONDS = 0.25  # between two looks at what runs
READ_SECONDS = 1.0  # between two looks at what other drivers did
KEEP_SECONDS = 30.0  # between two heartbeats, and two looks for drivers that are gone
ALIKE = 5  # failures of the first trials for the same reason, after which no more are begun

OnChange = Callable[[SweepState], None]


def run_sweep(
    env_name: str,
    args: Mapping[str, Any],
    space: SearchSpace | None = None,
    sampler: BaseSampler | None = None,
    on_change: OnChange | None = None,
) -> SweepState:
    """Searches until the trials of the study or the minutes are used up, and runs the best again on fresh seeds.

    Ctrl-C, SIGTERM and SIGHUP end it: what runs is stopped, and will be run again when the sweep goes on.

    Args:
        env_name: the environment.
        args: its settings with those of the search, as `load_config` returns them.
        space: what may vary; None is what `[sweep.SECTION.SETTING]` say.
        sampler: proposes trials; None is what `[sweep] method` says.
        on_change: called some times a second with how it goes.

    Returns:
        How it went: the study with all its trials, and confirmations.

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
        state: how it goes.
    """

    def __init__(
        self,
        env_name: str,
        args: Mapping[str, Any],
        space: SearchSpace | None = None,
        sampler: BaseSampler | None = None,
    ):
        """Opens the study; nothing runs yet. The arguments are those of `run_sweep`.

        Raises:
            ConfigError: if the settings are wrong, or the study is of another sweep.
        """
        self.config = config = SweepConfig.from_dict(args["sweep"])
        self.space = space_of(args) if space is None else space
        self._distributions = optuna_distributions(self.space)
        self._wanted_metric = config.metric or args.get("solve", {}).get("metric") or "episode/return_mean"
        self._driver = this_driver()
        self._on_change: OnChange | None = None
        self.place = place = study_place(env_name, args)
        train = {**args["train"], "data_dir": str(place.folder)}
        self._args = {**args, "train": train, "log": without_services(args["log"])}
        self._study = study = open_study(place, config.goal)
        if METRIC in study.user_attrs:
            claim_metric(study, self._wanted_metric)
        own_number = claim_study(study, env_name, self.space, self._driver)
        seed = mix_seed(config.seed, own_number) % 2**32  # drivers of one study do not propose the same
        study.sampler = sampler or make_sampler(config.method, self.space, seed, config.max_suggestion_cost)
        self.state = SweepState(env_name, args, self._wanted_metric, study, place.folder, place.flags)
        self._slots = Slots(config.workers, trial_limits(args["sweep"]))
        self._own = OwnTrials(study, self.space.names)
        self._custodian = Custodian(study, self._driver, self.space.names)
        self._errors: list[str] = []  # of the trials of this driver so far, where all of them failed
        self._is_over = self._is_interrupted = False
        self._kept_time = -math.inf
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
                    self._go_on()
                if not stop.requested:
                    self._confirm(stop)
            finally:
                self._slots.close()
                self._own.give_back_all("the sweep was interrupted")
                self._read()
        if stop.requested:
            raise KeyboardInterrupt

    def _confirm(self, stop: StopRequest) -> None:
        slots, driver, custodian = self._slots, self._driver, self._custodian
        confirmations = Confirmations(self.state, self._args, self.space, slots, driver, custodian)
        confirmations.run(self._show, lambda: stop.requested)

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
        return self._is_over or ended >= self.config.num_trials  # else another driver's trials are waited for

    def _go_on(self) -> None:
        self._keep()
        while not self._is_over and self._slots.is_free and self._may_begin():
            self._begin()
        self._show()
        for process in self._slots.wait(TICK_SECONDS if self._slots.running else READ_SECONDS):
            self._tell(process)
        for process in self._slots.running.values():
            self._follow(process)
        if time.monotonic() - self._read_time >= READ_SECONDS:
            self._read()

    def _keep(self) -> None:
        """Tells other drivers that this one is there, and looks whether they are."""
        if time.monotonic() - self._kept_time >= KEEP_SECONDS:
            self._kept_time = time.monotonic()
            self._own.beat()
            self._read()
            self._custodian.take_over(self.state.trials)
            self._read()

    def _read(self) -> None:
        self._read_time = time.monotonic()
        self.state.trials = self._study.get_trials(deepcopy=False)

    def _show(self) -> None:
        self.state.running = self._slots.described()
        if self._on_change is not None:
            self._on_change(self.state)

    def _counted(self) -> list[FrozenTrial]:
        return [trial for trial in self.state.trials if is_counted(trial)]

    # ------------------------------------------------------------------------------------------------- a trial's begin

    def _may_begin(self) -> bool:
        is_waiting = any(trial.state is TrialState.WAITING for trial in self.state.trials)
        return is_waiting or len(self._counted()) < self.config.num_trials

    def _begin(self) -> None:
        trial = self._study.ask()
        try:
            mark(self._study, trial, {DRIVER: self._driver, HEARTBEAT: time.time()})
            self._read()
            if not is_wanted(trial, self.state.trials, self.config.num_trials):
                forget(self._study, trial, "another driver was first to begin it")
                self._read()
                return
            for name, distribution in self._distributions.items():
                _draw(trial, name, distribution)
        except BaseException:
            forget(self._study, trial, "it was not proposed to the end")
            raise
        self._own.add(trial)
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
        self._own.mark(trial.number, {CONFIG: trial_settings(self._args, args, self.space.names)})
        log_path = self.state.folder / f"trial_{trial.number:04}.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.write_text("".join(f"{note}\n" for note in [*notes, *more]))
        is_known = METRIC in self._study.user_attrs
        task = Task(self.state.env_name, args, self._wanted_metric, self._slots.limits.memory_bytes, is_known, slot)
        self._slots.start(Job(task, log_path, trial.number, values))

    def _long_enough(self, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The values of a trial, in which an episode of every agent fits into its steps, and what was changed."""
        least, steps = self._least_steps(), values.get(STEPS)
        if least is None or steps is None or steps >= least:
            return values, []
        note = f"[train] total_timesteps is {least} instead of {steps}: every agent then plays an episode"
        return {**values, STEPS: least}, [note]

    def _least_steps(self) -> int | None:
        """The agent steps that a trial needs, as far as it is known; never more than the search starts with."""
        known = [trial.user_attrs.get(EPISODE_STEPS) for trial in self.state.trials]
        dimension = next((each for each in self.space.dimensions if each.name == STEPS), None)
        if not isinstance(dimension, Dimension) or not any(known):
            return None
        return math.ceil(min(min(filter(None, known)), dimension.value(dimension.centre)))

    # --------------------------------------------------------------------------------------------------- while it runs

    def _follow(self, process: TrialProcess) -> None:
        """Tells the study of what is behind of a run, and ends a run that promises nothing."""
        if process.job.number not in self._own:
            process.stop("another driver took it, as this one seemed gone")
            return
        if process.metric is not None and self.state.metric != process.metric:
            claim_metric(self._study, self._wanted_metric)
            self.state.metric = process.metric
        if self._own.report(process) and self.config.early_stopping:
            complete = [trial for trial in self.state.trials if trial.state is TrialState.COMPLETE]
            curves = [trial.user_attrs.get(CURVE, []) for trial in complete]
            reason = hopeless_reason(process.curve.rows(), curves, self.config.goal)
            if reason is not None:
                process.stop(reason)

    # --------------------------------------------------------------------------------------------------- a trial's end

    def _tell(self, process: TrialProcess) -> None:
        outcome, number = process.outcome, process.job.number
        if outcome.ends_sweep:
            self._own.forget(number, outcome.error)
            raise ConfigError(outcome.error)
        self._follow(process)
        found = {COST: outcome.cost, CURVE: outcome.curve, RUN_FOLDER: outcome.run_folder}
        found |= {EPISODES: outcome.episodes, EPISODE_STEPS: outcome.episode_steps, UNSCORED: outcome.is_unscored}
        if outcome.fitted and number in self._own:
            config = self._own.attribute(number, CONFIG)
            found[CONFIG] = {**config, "train": {**config.get("train", {}), **outcome.fitted}}
        if outcome.error is not None:
            self._fail(number, found, outcome.error)
        elif outcome.stopped is None:
            self._own.end(number, TrialState.COMPLETE, found, outcome.score)
        elif self._is_interrupted:
            self._own.give_back(number, outcome.stopped)
        elif outcome.curve:
            self._own.end(number, TrialState.PRUNED, {**found, STOPPED: outcome.stopped})
        else:
            self._own.forget(number, outcome.stopped)
        self._read()

    def _fail(self, number: int, attributes: Mapping[str, Any], error: str) -> None:
        """Ends a trial as failed.

        Raises:
            ConfigError: if all of the first trials failed for the same reason.
        """
        self._own.end(number, TrialState.FAIL, {**attributes, ERROR: error})
        self._errors.append(error)
        has_any = any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in self.state.trials)
        if not has_any and len(self._errors) >= ALIKE and len({_kind(each) for each in self._errors[-ALIKE:]}) == 1:
            raise ConfigError(f"the first {ALIKE} trials failed for the same reason: {error}")


def _kind(error: str) -> str:
    """An error without its numbers, so that others of its kind are the same."""
    return re.sub(r"\d[\d.,e+-]*", "#", error)


def _draw(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> None:
    """Has the study's sampler choose a value."""
    if isinstance(distribution, CategoricalDistribution):
        trial.suggest_categorical(name, distribution.choices)
    elif isinstance(distribution, FloatDistribution):
        trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)
    else:
        trial.suggest_int(name, distribution.low, distribution.high, log=distribution.log)
