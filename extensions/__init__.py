"""Kernels: the advantage and the recurrences, each with the plain torch code that defines it."""

from pufferlib.extensions.advantage import compute_puff_advantage, reference_advantage
from pufferlib.extensions.mingru import mingru_scan, mingru_step, reference_mingru
from pufferlib.extensions.network import Layers, Minibatch, Network
from pufferlib.extensions.orthogonalize import orthogonalize, reference_orthogonalize

__all__ = [
    *("Layers", "Minibatch", "Network", "compute_puff_advantage", "mingru_scan", "mingru_step", "orthogonalize"),
    *("reference_advantage", "reference_mingru", "reference_orthogonalize"),
]
