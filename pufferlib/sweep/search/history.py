"""The trials of a study as arrays for the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from pufferlib.sweep.attributes import COST, CURVE, UNSCORED, uncounted_numbers
from pufferlib.sweep.search.space import SearchSpace

_LEAST_COST = 1e-3  # seconds; what was refused before it ran cost nothing
_MOST_POINTS = 1_500  # that models are made of: they take the square of that


@dataclass(frozen=True)
class History:
    """Every point of the learning curves; higher scores are better whatever the goal is."""

    points: np.ndarray  # coordinates of the trial, float64 of shape `[n, dimensions]`
    progress: np.ndarray  # how much of its run the trial had done, in (0, 1], float64 of shape `[n]`
    costs: np.ndarray  # what it had cost until then, above 0, float64 of shape `[n]`
    scores: np.ndarray  # what it had reached, float64 of shape `[n]`; NaN where it failed
    pending: np.ndarray  # coordinates of the trials that run, float64 of shape `[m, dimensions]`
    # coordinates of those that were stopped early, or were too short to be scored, float64 of shape `[k, dimensions]`
    stopped: np.ndarray
    begun: int  # how many trials there are in all

    @property
    def is_final(self) -> np.ndarray:
        """Which points are the end of a whole run, bool of shape `[n]`."""
        return (self.progress >= 1.0) & ~np.isnan(self.scores)


def read_history(trials: Sequence[FrozenTrial], direction: StudyDirection, space: SearchSpace) -> History:
    """Reads the trials that chose from all dimensions of a space and count.

    A trial's curve and cost are those of its attributes. Without these it has its value and the time that it took.
    """
    sign = -1.0 if direction == StudyDirection.MINIMIZE else 1.0
    rows: list[tuple[np.ndarray, float, float, float]] = []
    pending, stopped = [], []
    uncounted = uncounted_numbers(trials)
    known = [trial for trial in trials if trial.number not in uncounted and set(space.names) <= set(trial.params)]
    for trial in known:
        point = space.point(trial.params)
        if trial.state in (TrialState.RUNNING, TrialState.WAITING):
            pending.append(point)
            continue
        curve = _curve(trial)
        rows += [(point, progress, max(cost, _LEAST_COST), sign * score) for progress, cost, score in curve]
        if not any(progress >= 1.0 for progress, _, _ in curve):
            stopped.append(point)
    points = np.array([row[0] for row in rows]).reshape(-1, len(space.dimensions))
    progress, costs, scores = np.array([row[1:] for row in rows], dtype=float).reshape(-1, 3).T
    kept = _worth_keeping(progress, scores)
    points, progress, costs, scores = points[kept], progress[kept], costs[kept], scores[kept]
    open_ends = [np.array(each).reshape(-1, len(space.dimensions)) for each in (pending, stopped)]
    return History(points, progress, costs, scores, *open_ends, len(known))


def _worth_keeping(progress: np.ndarray, scores: np.ndarray) -> np.ndarray:
    # Ends of runs before middles, then the best and newest.
    if len(scores) <= _MOST_POINTS:
        return np.arange(len(scores))
    ranks = np.argsort(np.argsort(-np.where(np.isnan(scores), -np.inf, scores)))
    is_best = ranks < _MOST_POINTS // 2
    order = np.lexsort((-np.arange(len(scores)), ~is_best, progress < 1.0))
    return np.sort(order[:_MOST_POINTS])


def _curve(trial: FrozenTrial) -> list[tuple[float, float, float]]:
    # A failed trial has one point without a score, which is bad; one that was too short to be scored has none.
    curve: list[Any] = trial.user_attrs.get(CURVE, [])
    cost = trial.user_attrs.get(COST)
    if cost is None:
        cost = trial.duration.total_seconds() if trial.duration else 0.0
    if trial.user_attrs.get(UNSCORED):
        return []
    is_complete = trial.state == TrialState.COMPLETE
    if trial.state == TrialState.FAIL or (is_complete and not np.isfinite(trial.value)):
        return [(1.0, cost, np.nan)]
    found = [(progress, spent, score) for progress, spent, score in curve if np.isfinite(score)]
    if is_complete:
        found = [point for point in found if point[0] < 1.0] + [(1.0, cost, trial.value)]
    return found
