"""Ending runs early whose learning curve promises nothing, by what the complete ones did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MIN_COMPLETE = 5  # trials, before anything is known of what is usual
MIN_PROGRESS = 0.2  # of a run, before anything is known of it
_WORSE, _BETTER = 3, 2  # complete runs that were no better at the same progress, at least, and the next better ones
_USEFUL = 0.5  # a run that will end below this quantile of the others, for its cost, is of no use

Curve = Sequence[Sequence[float]]
"""Rows of progress, seconds of training until then, and score."""


def hopeless_reason(curve: Curve, finished: Sequence[Curve], goal: str) -> str | None:
    """Why a run may be ended: of the runs that were where it is, none came to anything.

    Those that were where it is are the complete runs that had scored no more at the same progress, three at least, and
    the two that came next, as its score is noisy. To come to something is to end above the median of what the complete
    runs had reached for the cost that this one will have in the end: a short run is not held against long ones. Where
    learning begins late, some that had scored nothing did come to something, and nobody is ended; nor is one that is
    behind all others, until three like it are known.

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
    at_progress = np.array([np.interp(progress, each[:, 0], each[:, 2]) for each in peers])
    worse = int((at_progress <= reached).sum())
    if worse < _WORSE:
        return None
    alike = np.argsort(at_progress)[: worse + _BETTER]
    promised = max(peers[place][-1, 2] for place in alike)
    useful = float(np.quantile([_best_until(each, cost / progress) for each in peers], _USEFUL))
    if max(promised, reached) >= useful:
        return None
    more = "more" if goal == "maximize" else "less"
    return (
        f"at {progress:.0%} it scored {sign * reached:.4g}; of {len(alike)} trials that were there, none came to "
        f"{more} than {sign * promised:.4g}, where {sign * useful:.4g} is usual for that cost"
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
