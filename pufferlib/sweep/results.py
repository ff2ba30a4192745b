"""Results of trials: the attributes of a study that hold them, the front of the best, and confirmations.

Confirmations are runs of the best trials on fresh seeds, because the winner of a sweep is often luck. The study keeps
every result under a key of its own, so that a sweep that continues repeats none.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, pstdev
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState

from pufferlib.dashboard.panel import number_text

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial


# Of a trial
CURVE = "curve"  # [[progress in (0, 1], seconds of training until then, score], ...]; the last one is where it ended
COST = "cost"  # seconds of training, float; playing for the score does not count
EPISODES = "episodes"  # how many the score is the mean of; None where it is no mean over episodes
EPISODE_STEPS = "episode_steps"  # agent steps in which every agent plays one episode, the fewest seen
CONFIG = "config"  # {section: {setting: value}}: what the trial ran with that the sweep chose, after repairs
ERROR = "error"  # why it failed, one sentence
STOPPED = "stopped"  # why it was stopped early, one sentence
RUN_FOLDER = "run_folder"  # of the run, with its metrics and weights
HOST = "host"  # name of the machine that runs it
RETRY_OF = "retry_of"  # number of the interrupted trial that this one runs again
UNSCORED = "unscored"  # true of a failed trial that was too short to be scored: its settings may be good ones
UNCOUNTED = "uncounted"  # true of a failed trial that is not one of num_trials: it never ran, or is run again

# Of a study
ENV_NAME = "env_name"
METRIC = "metric"
DRIVERS = "drivers/"  # before the key of a driver that opened the study: the name of its machine
SPACE = "space"  # a text that is the same for the same dimensions
CONFIRMATION = "confirmation"  # "confirmation/TRIAL/SEED": {"score" or None, "cost", "run_folder", "error"} of its run
CONFIRMING = "confirming"  # "confirming/TRIAL/SEED": [key of the driver that runs it, seconds since the epoch]


def uncounted_numbers(trials: Sequence[FrozenTrial]) -> set[int]:
    """Returns the numbers of failed trials that do not count: they never ran, or run again under another number."""
    retried = {number for trial in trials for number in trial.system_attrs.get("retry_history", ())}  # by Optuna
    return retried | {trial.number for trial in trials if trial.user_attrs.get(UNCOUNTED)}


def pareto_front(costs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns the places of the trials that no other beats at their cost, by rising costs and scores, int64.

    Costs and scores have the shape `[trials]`; costs are finite, higher scores are better and NaN is never on the
    front. Of equal trials the first is.
    """
    order = np.lexsort((-scores, costs))
    best_so_far = np.fmax.accumulate(scores[order]) if len(order) else scores
    before = np.concatenate([[-np.inf], best_so_far[:-1]])
    return order[scores[order] > np.where(np.isnan(before), -np.inf, before)]


def best_within(costs: np.ndarray, scores: np.ndarray, limit: float) -> float:
    """Returns the highest score for at most that cost; the lowest of all scores where everything costs more."""
    affordable = scores[costs <= limit]
    return float(np.max(affordable)) if len(affordable) else float(np.min(scores))


IMPORTANCE_TRIALS = 20  # complete ones: of fewer, importance is noise
_TREE_DEPTH = 6  # of the forest behind importance: as right as deeper ones, and 10 times as fast for 400 trials


@dataclass(frozen=True)
class FoundTrial:
    """A trial that ran to its end."""

    number: int  # of the trial
    score: float  # what it reached
    cost: float  # seconds of training; NaN where it is not known
    settings: Mapping[str, Any]  # what it ran with of what the sweep varies, by name, such as `train.learning_rate`
    curve: Sequence[Sequence[float]] = ()  # rows of progress, seconds of training until then, and score
    run_folder: str = ""  # of the run, with its weights; empty where it is not known
    episodes: int | None = None  # how many the score is of; None where that is not known, or it is of none

    @property
    def episodes_text(self) -> str:
        """A text such as `1,000`; `-` where it is None."""
        return "-" if self.episodes is None else f"{self.episodes:,}"


@dataclass(frozen=True)
class EndedEarly:
    """A trial that failed or was stopped, with one sentence why."""

    number: int
    reason: str


@dataclass(frozen=True)
class Results:
    """The results of the trials of a study."""

    goal: str  # `maximize` or `minimize`
    # all that ran to their end with a finite score, the best first; of equal scores the cheaper
    complete: Sequence[FoundTrial]
    front: Sequence[FoundTrial]  # those of them that no other beats at their cost, the cheapest first
    stopped: Sequence[EndedEarly]  # those that were stopped early
    failed: Sequence[EndedEarly]  # those that failed
    # those that failed and do not count, as they never ran or run again under another number
    uncounted: Sequence[EndedEarly]
    running: int  # how many are running
    total_cost: float  # seconds of training of all trials

    @property
    def best(self) -> FoundTrial | None:
        """The trial with the best score; None where there is none."""
        return self.complete[0] if self.complete else None

    @property
    def num_ended(self) -> int:
        """The number of trials that have ended and count."""
        return len(self.complete) + len(self.stopped) + len(self.failed)

    def cheapest_past(self, threshold: float) -> FoundTrial | None:
        """Returns the cheapest trial that reached a score; None where none did."""
        sign = goal_sign(self.goal)
        return next((trial for trial in self.front if sign * trial.score >= sign * threshold), None)


def results_of(trials: Sequence[FrozenTrial], goal: str) -> Results:
    """Returns the results of all trials of a study; the goal is `maximize` or `minimize`."""
    complete = sorted(filter(None, map(_found, trials)), key=lambda trial: _rank(trial, goal))
    priced = [trial for trial in complete if math.isfinite(trial.cost)]
    uncounted = uncounted_numbers(trials)
    failed = [trial for trial in trials if trial.state.is_finished() and trial.state is not TrialState.PRUNED]
    failed = [_ended(trial, ERROR, "its driver was killed") for trial in failed if _found(trial) is None]
    costs, scores = np.array([(trial.cost, trial.score) for trial in priced]).reshape(-1, 2).T
    return Results(
        goal=goal,
        complete=complete,
        front=[priced[place] for place in pareto_front(costs, goal_sign(goal) * scores)],
        stopped=[_ended(trial, STOPPED, "stopped early") for trial in trials if trial.state is TrialState.PRUNED],
        failed=[each for each in failed if each.number not in uncounted],
        uncounted=[each for each in failed if each.number in uncounted],
        running=sum(trial.state is TrialState.RUNNING for trial in trials),
        total_cost=sum(cost for cost in map(cost_of, trials) if math.isfinite(cost)),
    )


def settings_of(trial: FrozenTrial) -> dict[str, Any]:
    """Returns the settings of a trial by name: those that it ran with where they are known, else the proposed ones."""
    ran = trial.user_attrs.get(CONFIG, {})
    found = {f"{section}.{key}": value for section, keys in ran.items() for key, value in keys.items()}
    return {**{name: found.get(name, value) for name, value in trial.params.items()}, **found}


def cost_of(trial: FrozenTrial) -> float:
    """Returns the seconds of training of a trial; NaN where they are not known."""
    return float(trial.user_attrs.get(COST, math.nan))


def goal_sign(goal: str) -> int:
    """Returns the factor of a score that makes a higher one better."""
    return -1 if goal == "minimize" else 1


def solve_threshold(args: Mapping[str, Any], metric: str) -> float | None:
    """Returns the score at which the environment is solved; None where it has none, or the sweep has another metric."""
    solve = args.get("solve")
    return solve["threshold"] if solve and metric.rpartition("/")[2] == solve["metric"] else None


def importance(study: Study) -> dict[str, float]:
    """Returns how much of the scores' variance each setting explains, the most important first; they sum to 1.

    By functional ANOVA: where the truth was known it was nearer to it than PED-ANOVA, from 30 trials on. Empty where
    there are too few complete trials, or all of them score the same.
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    trials = [trial for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)) if _found(trial)]
    if len(trials) < IMPORTANCE_TRIALS or len({trial.value for trial in trials}) == 1:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trials with other settings, which are left out
        found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(max_depth=_TREE_DEPTH, seed=0))
    return {name: float(share) for name, share in sorted(found.items(), key=lambda item: -item[1])}


def _found(trial: FrozenTrial) -> FoundTrial | None:
    if trial.state is not TrialState.COMPLETE or trial.value is None or not math.isfinite(trial.value):
        return None
    remembered = trial.user_attrs
    return FoundTrial(
        number=trial.number,
        score=trial.value,
        cost=cost_of(trial),
        settings=settings_of(trial),
        curve=remembered.get(CURVE, ()),
        run_folder=remembered.get(RUN_FOLDER) or "",
        episodes=remembered.get(EPISODES),
    )


def _rank(trial: FoundTrial, goal: str) -> tuple[float, float, int]:
    return -goal_sign(goal) * trial.score, math.inf if math.isnan(trial.cost) else trial.cost, trial.number


def _ended(trial: FrozenTrial, attribute: str, otherwise: str) -> EndedEarly:
    return EndedEarly(trial.number, str(trial.user_attrs.get(attribute) or otherwise))


FIRST_SEED = 1_000_000  # above that of the run: those of trials are below


@dataclass(frozen=True)
class Confirmation:
    """One more run of a trial's settings."""

    trial: int  # the number of the trial
    seed: int  # of the run
    score: float | None  # None where the run failed
    cost: float = 0.0  # seconds of training, until it failed where it did
    run_folder: str = ""  # of the run; empty where it is not known
    error: str = ""  # why it failed, one sentence; empty where it did not


@dataclass(frozen=True)
class ConfirmedTrial:
    """A trial with all its confirmations."""

    trial: FoundTrial  # as the search saw it
    runs: Sequence[Confirmation] = ()  # with its settings; none where it was not confirmed

    @property
    def scores(self) -> list[float]:
        """The scores of the runs that did not fail."""
        return [run.score for run in self.runs if run.score is not None]

    @property
    def mean(self) -> float:
        """The mean of the scores; NaN where there are none."""
        return mean(self.scores) if self.scores else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation of the scores."""
        return pstdev(self.scores) if self.scores else math.nan

    @property
    def num_failed(self) -> int:
        """The number of runs that failed."""
        return len(self.runs) - len(self.scores)

    @property
    def text(self) -> str:
        """A text such as `0.95 ± 0.02 on 3 fresh seeds`; empty where it was not confirmed."""
        if not self.runs:
            return ""
        mean = f"{number_text(self.mean)} ± {self.spread:.2g}" if self.scores else "-"
        failures = f", {self.num_failed} failed" if self.num_failed else ""
        return f"{mean} on {len(self.runs)} fresh seed{'s' * (len(self.runs) != 1)}{failures}"


def candidates(results: Results, count: int, threshold: float | None = None) -> list[FoundTrial]:
    """Returns the best trials that differ in their settings, and the cheapest of those that reached a threshold."""
    chosen: list[FoundTrial] = []
    for trial in results.complete:
        if len(chosen) == count:
            break
        if all(trial.settings != other.settings for other in chosen):
            chosen.append(trial)
    cheapest = results.cheapest_past(threshold) if chosen and threshold is not None else None
    if cheapest is not None and all(cheapest.settings != other.settings for other in chosen):
        chosen.append(cheapest)
    return chosen


def fresh_seeds(args: Mapping[str, Any]) -> list[int]:
    """Returns the seeds of confirmations, with which no trial of the sweep ran."""
    first = args["train"]["seed"] + FIRST_SEED
    return list(range(first, first + args["sweep"]["confirm_seeds"]))


def outstanding(
    results: Results, known: Sequence[Confirmation], args: Mapping[str, Any], metric: str
) -> list[tuple[FoundTrial, int]]:
    """Returns the trials and seeds that have not run yet, the best trial first."""
    done = {(run.trial, run.seed) for run in known}
    chosen = candidates(results, args["sweep"]["confirm_best"], solve_threshold(args, metric))
    return [(trial, seed) for trial in chosen for seed in fresh_seeds(args) if (trial.number, seed) not in done]


def confirmed_trials(results: Results, known: Sequence[Confirmation]) -> list[ConfirmedTrial]:
    """Returns the confirmed trials, the best first: fewest failures, then the best mean, then the cheapest."""
    runs: dict[int, list[Confirmation]] = {}
    for run in sorted(known, key=lambda run: (run.trial, run.seed)):
        runs.setdefault(run.trial, []).append(run)
    found = [ConfirmedTrial(trial, runs[trial.number]) for trial in results.complete if trial.number in runs]
    return sorted(found, key=lambda each: (each.num_failed, *_confirmed_rank(each, results.goal)))


def winner(results: Results, known: Sequence[Confirmation]) -> ConfirmedTrial | None:
    """Returns the trial that was confirmed best, else that with the best score; None where no trial is complete."""
    found = confirmed_trials(results, known)
    if found and found[0].scores:
        return found[0]
    return None if results.best is None else ConfirmedTrial(results.best)


def cheapest_solver(results: Results, known: Sequence[Confirmation], threshold: float | None) -> ConfirmedTrial | None:
    """Returns the cheapest trial that reached a threshold with its confirmations; None where there is none."""
    found = None if threshold is None else results.cheapest_past(threshold)
    if found is None:
        return None
    return ConfirmedTrial(found, [run for run in known if run.trial == found.number])


def known_confirmations(study: Study) -> list[Confirmation]:
    """Returns the confirmations in a study."""
    found = []
    for key, value in study.user_attrs.items():
        kind, _, place = key.partition("/")
        if kind == CONFIRMATION and place:
            trial, seed = map(int, place.split("/"))
            found.append(Confirmation(trial, seed, **value))
    return found


def remember(study: Study, run: Confirmation) -> None:
    """Stores a confirmation in a study."""
    value = {"score": run.score, "cost": run.cost, "run_folder": run.run_folder, "error": run.error}
    study.set_user_attr(f"{CONFIRMATION}/{run.trial}/{run.seed}", value)


def _confirmed_rank(each: ConfirmedTrial, goal: str) -> tuple[float, float]:
    score = -goal_sign(goal) * each.mean if each.scores else math.inf
    return score, math.inf if math.isnan(each.trial.cost) else each.trial.cost


SERVICES = ("tensorboard", "wandb", "neptune")


@dataclass
class RunningTrial:
    """A run in a process of this driver, or of another."""

    number: int  # of the trial; of a confirmation, that of the trial which it confirms
    values: Mapping[str, Any]  # of the settings that the sweep varies, by name, such as `train.learning_rate`
    started: float  # `time.monotonic()` when its process began
    progress: float = 0.0  # the part of its steps that is done, in [0, 1]
    cost: float = 0.0  # seconds of training so far
    # rows of progress, seconds of training until then, and score, the newest last
    curve: Sequence[Sequence[float]] = ()
    seed: int | None = None  # that of a confirmation; None for a trial
    host: str = ""  # name of the machine, where another driver runs it


@dataclass
class SweepState:
    """A sweep, as one driver of its study sees it."""

    env_name: str  # the environment
    # its settings, a nested dict as `load_config` returns it; those of the search are in its section `sweep`
    args: Mapping[str, Any]
    metric: str  # the name in the logs of the metric that trials are scored by, such as `environment/perf`
    study: Study  # Optuna's, with further attributes of its own and its trials
    folder: Path  # for the sweep's files: the best settings, the report, the trials' logs
    # the flags that find the study again, such as `--storage sqlite:///sweeps.db --study breakout`; empty where the
    # settings alone do
    where: str = ""
    started: float = 0.0  # `time.monotonic()` when this driver began
    deadline: float | None = None  # the `time.monotonic()` after which no trial begins; None for no limit
    # all of the study as the driver last read them, those of other drivers among them
    trials: Sequence[FrozenTrial] = ()
    running: list[RunningTrial] = field(default_factory=list)  # the runs of this driver, by slot
    confirmations: Sequence[Confirmation] = ()  # runs of the best trials on fresh seeds that have ended
    to_confirm: int = 0  # the number of confirmations that have not ended; 0 while trials run
