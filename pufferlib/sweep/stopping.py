"""Ending runs early whose learning curve promises nothing, by what the complete ones did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MIN_COMPLETE = 5  # trials, before anything is known of what is usual
MIN_PROGRESS = 0.2  # of a run, before anything is known of it
_LEAST_MARGIN = 0.05  # of the range of final scores

Curve = Sequence[Sequence[float]]
"""Rows of progress, seconds of training until then, and score."""


def hopeless_reason(curve: Curve, finished: Sequence[Curve], goal: str) -> str | None:
    """Why a run may be ended: it is behind, and no run so far gained enough from there on to matter.

    Behind is below the lower quartile of the complete runs at the same progress, and below their median at the same
    cost: runs of more steps learn more slowly at first, and those of fewer steps end lower, which alone is no fault.
    Enough to matter is the median of what the complete runs had reached for the cost that this one will have in the
    end; what can still be gained is the most that any of them gained after the same progress, so that where learning
    begins late nothing is ended early. Being behind leaves room for noise.

    Args:
        curve: of the run.
        finished: curves of complete runs.
        goal: `maximize` or `minimize`.

    Returns:
        One sentence; None where the run goes on.
    """
    finished = [each for each in finished if each]
    if len(finished) < MIN_COMPLETE or len(curve) < 2 or curve[-1][0] < MIN_PROGRESS:
        return None
    sign = 1.0 if goal == "maximize" else -1.0
    own, peers = _signed(curve, sign), [_signed(each, sign) for each in finished]
    progress, cost = own[-1, 0], own[-1, 1]
    reached = own[-2:, 2].max()
    finals = np.array([each[-1, 2] for each in peers])
    margin = max(2.0 * _noise(peers), _LEAST_MARGIN * (finals.max() - finals.min()))
    at_progress = np.array([np.interp(progress, each[:, 0], each[:, 2]) for each in peers])
    usual = float(np.quantile(at_progress, 0.25))
    for_cost = float(np.median([_best_until(each, cost) for each in peers]))
    in_the_end = float(np.median([_best_until(each, cost / progress) for each in peers]))
    gain = float(np.max(finals - at_progress))
    if reached >= min(usual, for_cost) - margin or reached + max(gain, 0.0) >= in_the_end:
        return None
    less, gained = ("less", "gained") if goal == "maximize" else ("more", "fell")
    return (
        f"at {progress:.0%} it scored {sign * reached:.4g}, where a quarter of the trials had {less} than "
        f"{sign * usual:.4g}, and none {gained} enough from there to come to {sign * in_the_end:.4g}"
    )


def _signed(curve: Curve, sign: float) -> np.ndarray:
    """Float64 of shape `[rows, 3]`, in which more is better."""
    rows: Any = np.array(curve, dtype=np.float64)
    rows[:, 2] *= sign
    return rows


def _best_until(curve: np.ndarray, cost: float) -> float:
    """The best score until a cost was reached, that of the whole run where it cost less; before all rows, the first."""
    best = np.maximum.accumulate(curve[:, 2])
    return float(np.interp(cost, curve[:, 1], best))


def _noise(curves: Sequence[np.ndarray]) -> float:
    """Standard deviation of a score around its curve: how far rows lie from the middle between their neighbours."""
    bends = [each[1:-1, 2] - (each[:-2, 2] + each[2:, 2]) / 2 for each in curves if len(each) > 2]
    if not bends:
        return 0.0
    return float(np.median(np.abs(np.concatenate(bends)))) * 1.4826 / np.sqrt(1.5)
