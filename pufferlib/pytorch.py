"""The names of PufferLib 3.0's `pufferlib.pytorch`, for policies that were written for it.

New code uses `pufferlib.emulation.nativize`, `pufferlib.ppo.sampling.sample_logits`,
`pufferlib.models.orthogonal_linear`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pufferlib.emulation import nativize
from pufferlib.ppo.sampling import sample_logits
from pufferlib.spaces import DTYPES, Layout

__all__ = ["layer_init", "nativize_dtype", "nativize_tensor", "numpy_to_torch_dtype_dict", "sample_logits"]

numpy_to_torch_dtype_dict = {np.dtype(name): getattr(torch, name) for name in DTYPES}


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias_const: float = 0.0) -> nn.Module:
    """Gives a layer orthogonal weights times `std`, and `bias_const` for a bias where it has one; returns the layer."""
    nn.init.orthogonal_(layer.weight, std)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias_const)
    return layer


def nativize_dtype(emulated: Layout | None) -> Layout | None:
    """Returns what `nativize_tensor` takes, which is `env.emulated` itself."""
    return emulated


def nativize_tensor(observation: Tensor, native_dtype: Layout | None) -> Any:
    """Emulated observations `(..., *row_shape)` as dicts and tuples of tensors; see `pufferlib.emulation.nativize`."""
    return nativize(observation, native_dtype)
