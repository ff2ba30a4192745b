"""Replaces infinite and NaN numbers of environments by zeros, where `[train] skip_nonfinite` asks for it."""

from __future__ import annotations

import math

import numpy as np


class NonFiniteFilter:
    """Replaces infinite and NaN numbers by 0, and remembers their segments, which are not learned from."""

    def __init__(self, segments: int):
        self._is_marked = np.zeros(segments, bool)

    def filter(self, numbers: np.ndarray, segments: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray | bool]:
        """Filters the numbers that one step gave to some agents.

        Args:
            numbers: `(count, ...)`, of any dtype; they are the environment's own and stay as they are.
            segments: `(count,)`, the segments of these agents.

        Returns:
            The numbers themselves if all are finite, else a copy with zeros; and `(count,)` bool, whether the numbers
            of an agent were all finite, or True if all agents' were.
        """
        if numbers.dtype.kind != "f" or math.isfinite(numbers.sum()):
            return numbers, True
        is_finite = np.isfinite(numbers)
        is_whole = is_finite.reshape(len(numbers), -1).all(1)
        self._is_marked[segments] |= ~is_whole
        return np.where(is_finite, numbers, numbers.dtype.type(0)), is_whole

    def pop_bad_segments(self) -> np.ndarray:
        """Returns the indices of the segments that had such numbers, and forgets them."""
        segments = self._is_marked.nonzero()[0]
        self._is_marked[:] = False
        return segments
