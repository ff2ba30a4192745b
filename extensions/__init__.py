"""Kernels: the advantage and the recurrences, each with the plain torch code that defines it."""

from pufferlib.extensions.advantage import compute_puff_advantage, reference_advantage

__all__ = ["compute_puff_advantage", "reference_advantage"]
