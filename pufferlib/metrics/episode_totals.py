"""Sums and extremes over finished episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np


@dataclass
class EpisodeTotals:
    """Sums and extremes over finished episodes, in plain numbers."""

    count: int = 0
    return_sum: float = 0.0
    return_min: float = math.inf
    return_max: float = -math.inf
    length_sum: int = 0

    def add(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Adds episodes, which may be none: `(episodes,)` each."""
        if not len(returns):  # which have no smallest return
            return
        self.count += len(returns)
        self.return_sum += float(returns.sum())
        self.return_min = min(self.return_min, float(returns.min()))
        self.return_max = max(self.return_max, float(returns.max()))
        self.length_sum += int(lengths.sum())

    def merge(self, other: EpisodeTotals) -> None:
        """Adds the episodes that another one holds."""
        self.count += other.count
        self.return_sum += other.return_sum
        self.return_min = min(self.return_min, other.return_min)
        self.return_max = max(self.return_max, other.return_max)
        self.length_sum += other.length_sum

    def clear(self) -> None:
        """Starts over."""
        self.load_state_dict(EpisodeTotals().state_dict())

    def metrics(self) -> dict[str, float]:
        """`return_mean, return_min, return_max, length_mean` and `count`; empty when no episode ended."""
        if not self.count:
            return {}
        return {
            "return_mean": self.return_sum / self.count,
            "return_min": self.return_min,
            "return_max": self.return_max,
            "length_mean": self.length_sum / self.count,
            "count": self.count,
        }

    def state_dict(self) -> dict[str, float]:
        """Every field by its name."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Restores the state of `state_dict`."""
        for field in fields(self):
            setattr(self, field.name, state[field.name])
