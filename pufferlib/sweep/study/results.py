"""The results of a sweep: its best trials, the Pareto front, failures, and which settings matter."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState

from pufferlib.sweep.attributes import CONFIG, COST, CURVE, EPISODES, ERROR, RUN_FOLDER, STOPPED, uncounted_numbers
from pufferlib.sweep.search.front import pareto_front

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

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
