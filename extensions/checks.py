"""Checks of a kernel's arguments, at every call, because a kernel cannot check them."""

from __future__ import annotations

import torch

from pufferlib.errors import APIUsageError


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    shape: tuple[int, ...],
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Checks that a tensor is exactly of this shape, device and dtype, and contiguous.

    Raises:
        APIUsageError: if it is not.
    """
    if tensor.dtype == dtype and tensor.shape == shape and tensor.device == device and tensor.is_contiguous():
        return
    raise APIUsageError(
        f"{name} must be {_describe(dtype, shape, device, 'contiguous')}, got "
        f"{_describe(tensor.dtype, tensor.shape, tensor.device, _layout(tensor))}; "
        "convert it with .to(device, dtype) and .contiguous() before the call"
    )


def _describe(dtype: torch.dtype, shape: tuple[int, ...], device: torch.device, layout: str) -> str:
    return f"{layout} {str(dtype).removeprefix('torch.')} of shape {tuple(shape)} on {device}"


def _layout(tensor: torch.Tensor) -> str:
    return "contiguous" if tensor.is_contiguous() else f"strided {tensor.stride()}"
