"""The learning curve of a run: its mean score in each tenth."""

from __future__ import annotations

import math
from dataclasses import dataclass

WINDOWS = 10


@dataclass
class _Window:
    progress: float = 0.0
    cost: float = 0.0
    weight: float = 0.0
    weighted_sum: float = 0.0


class LearningCurve:
    """Keeps, of each tenth of a run, the mean score of its episodes."""

    def __init__(self):
        self._windows: dict[int, _Window] = {}
        self.is_finite = True  # whether every score was a number that one can compare

    def __bool__(self) -> bool:
        return bool(self._windows)

    def add(self, progress: float, cost: float, score: float, weight: float = 1.0) -> None:
        """Adds a score after a part of the run and seconds of training; `weight` is its number of episodes."""
        window = self._windows.setdefault(_window_index(progress), _Window())
        window.progress, window.cost = progress, cost
        window.weight += weight
        window.weighted_sum += score * weight
        self.is_finite = self.is_finite and math.isfinite(score)

    def rows(self) -> list[list[float]]:
        """Returns progress, cost and mean score for each tenth with a score; the last tenth may be partial."""
        return [[each.progress, each.cost, _window_mean(each)] for each in self._windows.values()]

    def full_windows(self, progress: float) -> dict[int, float]:
        """Returns the mean scores of the tenths that are complete at `progress`, by their number from 1 to 10."""
        done = math.floor(progress * WINDOWS + 1e-9)
        return {place: _window_mean(window) for place, window in self._windows.items() if place <= done}

    @property
    def final_weight(self) -> float:
        """The number of episodes of the final score; 0 where there is none."""
        return next((window.weight for window in reversed(self._windows.values())), 0.0)

    @property
    def final_score(self) -> float | None:
        """The mean score of the last tenth that has one; None where none has."""
        rows = self.rows()
        return rows[-1][2] if rows else None


def _window_index(progress: float) -> int:
    return min(max(math.ceil(progress * WINDOWS - 1e-9), 1), WINDOWS)


def _window_mean(window: _Window) -> float:
    return window.weighted_sum / window.weight
