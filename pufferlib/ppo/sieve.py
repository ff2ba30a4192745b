"""What `[train] skip_nonfinite` makes of what environments give: zeros for numbers that are not finite, and whose."""

from __future__ import annotations

import math

import numpy as np


class Sieve:
    """Replaces what is infinite or NaN by 0, and remembers the segments that it was in: nobody learns from these."""

    def __init__(self, segments: int):
        """Remembers nothing yet of a rollout of so many segments."""
        self._is_marked = np.zeros(segments, bool)

    def sift(self, numbers: np.ndarray, segments: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray | bool]:
        """Looks at what one step gave to some agents.

        Args:
            numbers: `(count, ...)`, of any dtype.
            segments: `(count,)`, where they belong to.

        Returns:
            The numbers as they are where all are finite, else a copy with zeros, as they are the environment's own; and
            `(count,)` whose were finite, True for all of them.
        """
        if numbers.dtype.kind != "f" or math.isfinite(numbers.sum()):
            return numbers, True
        is_finite = np.isfinite(numbers)
        is_whole = is_finite.reshape(len(numbers), -1).all(1)
        self._is_marked[segments] |= ~is_whole
        return np.where(is_finite, numbers, numbers.dtype.type(0)), is_whole

    def take(self) -> np.ndarray:
        """The numbers of the segments that had any, which are forgotten."""
        segments = self._is_marked.nonzero()[0]
        self._is_marked[:] = False
        return segments
