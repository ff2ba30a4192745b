"""The learning curve of a run: what it logged, in a few windows of equal progress."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WINDOWS = 10


@dataclass(frozen=True)
class LoggedPoint:
    """What one log says of a run.

    Attributes:
        progress: the part of the run that is done, in (0, 1].
        cost: seconds of training until then.
        score: of the episodes since the log before.
        weight: how many episodes these are.
    """

    progress: float
    cost: float
    score: float
    weight: float = 1.0


def window_rows(points: Sequence[LoggedPoint]) -> list[list[float]]:
    """The curve: a row for each tenth of the run in which anything was logged.

    The last row of a run that was ended in between is of a part of a tenth.

    Args:
        points: in the order in which they came.

    Returns:
        Rows of progress and cost at the last log of the tenth, and the mean score of its episodes.
    """
    windows: dict[int, list[LoggedPoint]] = {}
    for point in points:
        windows.setdefault(_window(point.progress), []).append(point)
    return [[each[-1].progress, each[-1].cost, _mean(each)] for each in windows.values()]


def full_windows(points: Sequence[LoggedPoint], progress: float) -> dict[int, float]:
    """The mean scores of the tenths that are behind a run, by their number from 1 to 10."""
    rows = {_window(row[0]): row[2] for row in window_rows(points)}
    return {window: score for window, score in rows.items() if window / WINDOWS <= progress + 1e-9}


def final_score(points: Sequence[LoggedPoint]) -> float | None:
    """The mean over the episodes of the last tenth in which anything was logged; None where nothing was."""
    rows = window_rows(points)
    return rows[-1][2] if rows else None


def is_finite(points: Sequence[LoggedPoint]) -> bool:
    """Whether every score is a number that one can compare."""
    return all(math.isfinite(point.score) for point in points)


def _window(progress: float) -> int:
    return min(max(math.ceil(progress * WINDOWS - 1e-9), 1), WINDOWS)


def _mean(points: Sequence[LoggedPoint]) -> float:
    weight = sum(point.weight for point in points)
    return sum(point.score * point.weight for point in points) / weight
