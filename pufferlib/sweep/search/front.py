"""The Pareto front: what no other trial beats at its cost."""

from __future__ import annotations

import numpy as np


def pareto_front(costs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The trials of which no other one scores as much for less, or more for as much.

    Args:
        costs: of shape `[trials]`, all finite.
        scores: of shape `[trials]`, higher is better; NaN is never on the front.

    Returns:
        Their places, in the order of rising costs and scores, int64; of equal trials the first.
    """
    order = np.lexsort((-scores, costs))
    best_so_far = np.fmax.accumulate(scores[order]) if len(order) else scores
    before = np.concatenate([[-np.inf], best_so_far[:-1]])
    return order[scores[order] > np.where(np.isnan(before), -np.inf, before)]


def best_within(costs: np.ndarray, scores: np.ndarray, limit: float) -> float:
    """The highest score for at most that cost; the lowest of all scores where everything costs more."""
    affordable = scores[costs <= limit]
    return float(np.max(affordable)) if len(affordable) else float(np.min(scores))
