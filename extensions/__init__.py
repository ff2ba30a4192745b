"""Kernels: the advantage, recurrences, whole small policies, Muon's iteration, and the torch code that defines each."""

from pufferlib.extensions.adam import AdamBatch, AdamSettings, can_step, clip_gradients
from pufferlib.extensions.advantage import compute_puff_advantage, reference_advantage
from pufferlib.extensions.mingru import mingru_scan, mingru_step, reference_mingru
from pufferlib.extensions.network import Network, NetworkBatch
from pufferlib.extensions.network_layers import (
    LSTM,
    Categories,
    Convolution,
    Layers,
    Linear,
    MinGRU,
    Normalizer,
    OneHotLinear,
)
from pufferlib.extensions.orthogonalize import orthogonalize, reference_orthogonalize

__all__ = [
    "LSTM",
    "AdamBatch",
    "AdamSettings",
    "Categories",
    "Convolution",
    "Layers",
    "Linear",
    "MinGRU",
    "Network",
    "NetworkBatch",
    "Normalizer",
    "OneHotLinear",
    "can_step",
    "clip_gradients",
    "compute_puff_advantage",
    "mingru_scan",
    "mingru_step",
    "orthogonalize",
    "reference_advantage",
    "reference_mingru",
    "reference_orthogonalize",
]
