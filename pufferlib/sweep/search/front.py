"""The Pareto front of scores against costs."""

from __future__ import annotations

import numpy as np


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
