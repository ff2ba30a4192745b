"""Kernels: the advantage, recurrences, whole small policies, Muon's iteration, and the torch code that defines each."""

from pufferlib.extensions.adam import AdamBatch, AdamSettings, can_step, clip_gradients
from pufferlib.extensions.advantage import compute_puff_advantage, reference_advantage
from pufferlib.extensions.mingru import mingru_scan, mingru_step, reference_mingru
from pufferlib.extensions.network import Network, NetworkBatch
from pufferlib.extensions.network_layers import Categories, ConvolutionLayer, Layers, LSTMLayer, Normalizer
from pufferlib.extensions.orthogonalize import orthogonalize, reference_orthogonalize

__all__ = [
    "AdamBatch",
    "AdamSettings",
    "Categories",
    "ConvolutionLayer",
    "LSTMLayer",
    "Layers",
    "Network",
    "NetworkBatch",
    "Normalizer",
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
