"""Kernels: the advantage and the recurrences, each with the plain torch code that defines it."""

from pufferlib.extensions.advantage import compute_puff_advantage, reference_advantage
from pufferlib.extensions.mingru import mingru_scan, mingru_step, reference_mingru

__all__ = ["compute_puff_advantage", "mingru_scan", "mingru_step", "reference_advantage", "reference_mingru"]
