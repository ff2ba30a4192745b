"""Results of trials: the attributes of a study that hold them, the best, and confirmations.

Confirmations are runs of the best trials on fresh seeds, because the winner of a sweep is often luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import numpy as np
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from pufferlib.dashboard.panel import cost_text, number_text, short_names, value_text

# Of a trial
CURVE = "curve"  # [[progress in (0, 1], seconds of training until then, score], ...], for each tenth that has a score
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
SPACE = "space"  # the dimensions, by name
FIXED = "fixed"  # the settings that it does not vary and that are not the environment's own, by name
CONFIRMATIONS = "confirmations/"  # before "TRIAL/SEED": the fields of a Confirmation

COUNTED = ("complete", "stopped", "failed")  # how trials of num_trials end
TENTHS = 10  # of a run, each of which is scored
FIRST_SEED = 1_000_000  # of confirmations, above that of the run: those of trials are below


@dataclass(frozen=True)
class Confirmation:
    """One more run of a trial's settings."""

    trial: int  # the number of the trial
    seed: int  # of the run
    score: float | None  # None where the run failed
    cost: float = 0.0  # seconds of training, until it failed where it did
    run_folder: str = ""  # of the run; empty where it is not known
    error: str = ""  # why it failed, one sentence; empty where it did not


class FoundTrial:
    """A trial that has ended."""

    def __init__(self, trial: FrozenTrial, is_uncounted: bool, runs: Sequence[Confirmation]):
        known = trial.user_attrs
        self.number = trial.number
        self.state = "complete"  # one of COUNTED, or `uncounted`
        self.reason = ""  # why it failed or was stopped, one sentence
        if trial.state is TrialState.PRUNED:
            self.state, self.reason = "stopped", known.get(STOPPED) or "stopped early"
        elif trial.state is TrialState.FAIL or not math.isfinite(trial.value):
            self.state = "uncounted" if is_uncounted else "failed"
            self.reason = str(known.get(ERROR) or "its driver was killed")
        is_scored = trial.value is not None and math.isfinite(trial.value)
        self.score = trial.value if is_scored else math.nan  # what it reached; NaN where it scored nothing
        self.cost = float(known.get(COST, math.nan))  # seconds of training; NaN where it is not known
        self.cost_rank = math.inf if math.isnan(self.cost) else self.cost  # among trials with the same score
        # What it ran with, else what was proposed, by name, such as `train.learning_rate`.
        self.settings: dict[str, Any] = {**trial.params, **by_name(known.get(CONFIG, {}))}
        self.run_folder: str = known.get(RUN_FOLDER) or ""  # with its weights; empty where it is not known
        self.episodes: int | None = known.get(EPISODES)  # of the score; None where not known, or it is of none
        self.begun, self.ended = trial.datetime_start, trial.datetime_complete
        self.runs = runs  # with its settings, by seed; none where it was not confirmed
        self.scores = [run.score for run in runs if run.score is not None]  # of those that did not fail

    @property
    def confirmed_text(self) -> str:
        """A text such as `0.95 ± 0.02 on 3 fresh seeds`; empty where it was not confirmed."""
        if not self.runs:
            return ""
        score = f"{number_text(mean(self.scores))} ± {pstdev(self.scores):.2g}" if self.scores else "-"
        num_failed = len(self.runs) - len(self.scores)
        failures = f", {num_failed} failed" if num_failed else ""
        return f"{score} on {len(self.runs)} fresh seed{'s' * (len(self.runs) != 1)}{failures}"

    @property
    def text(self) -> str:
        """A text such as `trial 7: 0.98 in 12s of training, confirmed 0.95 ± 0.02 on 3 fresh seeds`."""
        of = "" if self.episodes is None else f" over {self.episodes:,} episodes"
        again = f", confirmed {self.confirmed_text}" if self.runs else ""
        return f"trial {self.number}: {number_text(self.score)}{of} in {cost_text(self.cost)} of training{again}"


class Results:
    """The results of the trials of a study; the goal is `maximize` or `minimize`."""

    def __init__(self, trials: Sequence[FrozenTrial], goal: str, confirmations: Sequence[Confirmation] = ()):
        uncounted, runs = uncounted_numbers(trials), sorted(confirmations, key=lambda run: run.seed)
        self.sign = sign = -1 if goal == "minimize" else 1  # by which the score of a better trial is the higher one
        self.ended = [  # all that have ended, by their numbers
            FoundTrial(trial, trial.number in uncounted, [run for run in runs if run.trial == trial.number])
            for trial in trials
            if trial.state.is_finished()
        ]
        self.num_ended = sum(trial.state in COUNTED for trial in self.ended)  # those that count
        self.total_cost = sum(trial.cost for trial in self.ended if math.isfinite(trial.cost))  # seconds of training
        # Those with a finite score, the best first; of equal scores the cheaper.
        self.complete = [trial for trial in self.ended if trial.state == "complete"]
        self.complete.sort(key=lambda trial: (-sign * trial.score, trial.cost_rank, trial.number))
        priced = [trial for trial in self.complete if math.isfinite(trial.cost)]
        costs, scores = np.array([(trial.cost, trial.score) for trial in priced]).reshape(-1, 2).T
        # Those of them that no other beats at their cost, the cheapest first.
        self.front = [priced[place] for place in pareto_front(costs, sign * scores)]
        self.running = sum(trial.state is TrialState.RUNNING for trial in trials)
        self.awaited: set[int] = set()  # the numbers of trials whose confirmations have not all ended

    def in_state(self, state: str) -> list[FoundTrial]:
        """Returns the trials that ended in a state, by their numbers."""
        return [trial for trial in self.ended if trial.state == state]

    @property
    def winner(self) -> FoundTrial | None:
        """The trial that was confirmed best, else that with the best score; None where no trial is complete.

        The best has the fewest failures, then the best mean, then the least cost. While confirmations are awaited, the
        means are also of the score of the trial itself, which is then all that is known of some.
        """

        def rank(trial: FoundTrial) -> tuple[int, float, float]:
            scores = [*trial.scores, trial.score] if self.awaited else trial.scores
            return len(trial.runs) - len(trial.scores), -self.sign * mean(scores), trial.cost_rank

        compared = [trial for trial in self.complete if trial.scores or trial.number in self.awaited]
        return next(iter(sorted(compared, key=rank) or self.complete), None)

    def cheapest_past(self, threshold: float | None) -> FoundTrial | None:
        """Returns the cheapest trial that reached a score; None where none did, or `threshold` is None."""
        if threshold is None:
            return None
        return next((trial for trial in self.front if self.sign * trial.score >= self.sign * threshold), None)


@dataclass
class TrialRun:
    """What is known of a training that this driver runs or ran, and how it ended."""

    progress: float = 0.0  # the part of its steps that is done, in [0, 1]
    cost: float = 0.0  # seconds of training so far
    curve: list[list[float]] = field(default_factory=list)  # rows of progress, seconds of training until then, score
    metric: str | None = None  # the whole name of that of the scores; None before the first
    episodes: int | None = None  # how many the last score is of; None where it is of none
    episode_steps: float | None = None  # in which every agent plays one episode, the fewest seen; None for no episode
    run_folder: str = ""  # of the run; empty where it did not get that far
    fitted: Mapping[str, Any] = field(default_factory=dict)  # the `[train]` settings fitted to the number of agents
    # by its last message `done`, `stopped`, `failed`, `metric` where that does not exist and every trial would fail, or
    # `unscored` where it may exist but nothing had it, as where no episode ended; empty while it runs
    end: str = ""
    has_ended: bool = False  # whether its process is gone
    error: str | None = None  # why it failed, one sentence; None where it did not
    stopped: str | None = None  # why it was stopped, one sentence; None where it came to its end

    @property
    def score(self) -> float | None:
        """That of the last tenth that was done, in the end of the final policy; None where nothing was scored."""
        return self.curve[-1][2] if self.curve else None

    def attributes(self) -> dict[str, Any]:
        """Returns what is known of it as attributes of its trial, but for why it ended."""
        found = {COST: self.cost, CURVE: self.curve, RUN_FOLDER: self.run_folder, EPISODES: self.episodes}
        return {**found, EPISODE_STEPS: self.episode_steps, UNSCORED: self.end == "unscored"}


@dataclass
class SweepState:
    """A sweep, as one driver of its study sees it."""

    env_name: str
    args: Mapping[str, Any]  # as `load_config` returns them; those of the search are in the section `sweep`
    metric: str  # the name in the logs of the metric that trials are scored by, such as `environment/perf`
    study: Study  # Optuna's, with further attributes of its own and its trials
    folder: Path  # for the sweep's files: the best settings, the report, the trials' logs
    deadline: float = math.inf  # the `time.monotonic()` after which no trial begins
    trials: Sequence[FrozenTrial] = ()  # all of the study as the driver last read them
    running: list[TrialRun] = field(default_factory=list)  # the runs of this driver
    confirmations: Sequence[Confirmation] = ()  # runs of the best trials on fresh seeds that have ended
    to_confirm: int = 0  # the number of confirmations that have not ended; 0 while trials run

    @property
    def threshold(self) -> float | None:
        """The score at which the environment is solved; None where it has none, or the sweep has another metric."""
        solve = self.args.get("solve")
        return solve["threshold"] if solve and self.metric.rpartition("/")[2] == solve["metric"] else None

    def results(self) -> Results:
        """Returns the results of all trials as the driver last read them."""
        found = Results(self.trials, self.args["sweep"]["goal"], self.confirmations)
        found.awaited = {trial.number for trial, _ in outstanding(found, self.args, self.threshold)}
        return found


def trial_table(
    trials: Sequence[FoundTrial], text: Callable[[object], str] = value_text
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Returns the headings and rows of a table of trials, with the settings of the first, which `text` writes."""
    if not trials:
        return [], []
    columns = {
        "trial": [str(trial.number) for trial in trials],
        "score": [number_text(trial.score) for trial in trials],
        "episodes": ["-" if trial.episodes is None else f"{trial.episodes:,}" for trial in trials],
        "cost": [cost_text(trial.cost) for trial in trials],
        "confirmed": [trial.confirmed_text or "-" for trial in trials],
    }
    known = {name: cells for name, cells in columns.items() if {*cells} != {"-"} or name == "cost"}
    names = short_names(list(trials[0].settings)).items()
    settings = [(short, [text(trial.settings.get(name, "-")) for trial in trials]) for name, short in names]
    headings, cells = zip(*known.items(), *settings, strict=True)
    return [*headings], [*zip(*cells, strict=True)]


def uncounted_numbers(trials: Sequence[FrozenTrial]) -> set[int]:
    """Returns the numbers of failed trials that do not count: they never ran, or run again under another number."""
    retried = {number for trial in trials for number in trial.system_attrs.get("retry_history", ())}  # by Optuna
    return retried | {trial.number for trial in trials if trial.user_attrs.get(UNCOUNTED)}


def by_name(sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the settings of sections by their whole names, such as `train.learning_rate`."""
    return {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}


def pareto_front(costs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns the places, int64, of the trials that no other beats at their cost, by rising costs and scores.

    `costs`, finite, and `scores`, the higher the better, are `[trials]`; NaN is never on the front.
    """
    order = np.lexsort((-scores, costs))
    best_before = np.fmax.accumulate([-np.inf, *scores[order]])[:-1]
    return order[scores[order] > best_before]


def best_within(costs: np.ndarray, scores: np.ndarray, limit: float) -> float:
    """Returns the highest score for at most that cost; the lowest of all scores where everything costs more."""
    affordable = scores[costs <= limit]
    return float(np.max(affordable)) if len(affordable) else float(np.min(scores))


def outstanding(results: Results, args: Mapping[str, Any], threshold: float | None) -> list[tuple[FoundTrial, int]]:
    """Returns the trials and seeds of the confirmations that have not ended, the best trial first.

    They are of the best trials that differ in their settings, and of the cheapest past the threshold.
    """
    sweep, chosen = args["sweep"], []
    for trial in results.complete:
        if len(chosen) < sweep["confirm_best"] and all(trial.settings != other.settings for other in chosen):
            chosen.append(trial)
    cheapest = results.cheapest_past(threshold)
    if chosen and cheapest is not None and all(cheapest.settings != other.settings for other in chosen):
        chosen.append(cheapest)
    first = args["train"]["seed"] + FIRST_SEED
    seeds = range(first, first + sweep["confirm_seeds"])
    return [(trial, seed) for trial in chosen for seed in seeds if all(run.seed != seed for run in trial.runs)]


def known_confirmations(study: Study) -> list[Confirmation]:
    """Returns the confirmations in a study."""
    return [Confirmation(**value) for key, value in study.user_attrs.items() if key.startswith(CONFIRMATIONS)]


def remember(study: Study, run: Confirmation) -> None:
    """Stores a confirmation in a study."""
    study.set_user_attr(f"{CONFIRMATIONS}{run.trial}/{run.seed}", asdict(run))
