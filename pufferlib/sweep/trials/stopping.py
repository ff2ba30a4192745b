"""Early stopping of trials whose learning curve promises nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
