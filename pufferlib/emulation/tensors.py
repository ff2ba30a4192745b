"""Structured observations in torch: rows taken apart, and the numbers that a policy sees in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor

from pufferlib.spaces import Layout, Leaf, categories, map_structure


def nativize(observations: Tensor, emulated: Layout | None) -> Any:
    """The observations in rows, as dicts and tuples of tensors, nested like the environment's observation space.

    Rows are `(..., *row_shape)`, the last dimension contiguous, on any device; `emulated` is that of the environment or
    vector, and None gives the rows themselves. The leaves are views `(..., *leaf_shape)`, `(...)` for Discrete. Rows
    that are no bytes may have been converted to another dtype; the leaves then have that.
    """
    if emulated is None or not emulated.is_packed:
        return observations
    return map_structure(lambda leaf: leaf_view(observations, leaf, emulated), emulated.structure)


def num_features(emulated: Layout) -> int:
    """The width of what `features` returns."""
    return int(describe_features(emulated)[2].clamp(min=1).sum())


def features(observations: Tensor, emulated: Layout) -> Tensor:
    """All leaves of structured observations side by side, `(..., num_features(emulated))` float32, for a linear layer.

    A Discrete leaf is one-hot, a MultiDiscrete one is one-hot part by part. A uint8 Box from 0 to 255, such as an
    image, is divided by 255. Everything else stays as it is.
    """
    return torch.cat([_numbers(leaf_view(observations, leaf, emulated), leaf) for leaf in emulated.leaves], -1)


def describe_features(emulated: Layout) -> Tensor:
    """What `features` does to the numbers of all leaves, in their order: `(3, numbers)` float64.

    Of each number a factor, its first category, and how many it has, which is 0 where it is no category.
    """
    columns = []
    for leaf in emulated.leaves:
        size, space = math.prod(leaf.shape), leaf.space
        factors, starts, counts = np.full(size, 1 / 255 if _is_image(leaf) else 1), np.zeros(size), np.zeros(size)
        if isinstance(space, (Discrete, MultiDiscrete)):
            starts, counts = (part.reshape(-1) for part in categories(space))
        columns.append(np.stack([factors, starts, counts]))
    return torch.from_numpy(np.concatenate(columns, 1))


def leaf_view(rows: Tensor, leaf: Leaf, layout: Layout) -> Tensor:
    """One leaf `(..., *leaf_shape)` of packed rows, in its own dtype where rows are bytes."""
    elements = rows[..., layout.elements(leaf)]
    if layout.is_bytes:
        elements = elements.view(getattr(torch, leaf.dtype.name))
    return elements.view((*rows.shape[:-1], *leaf.shape))


def _numbers(values: Tensor, leaf: Leaf) -> Tensor:
    space = leaf.space
    flat = values.reshape((*values.shape[: values.dim() - len(leaf.shape)], math.prod(leaf.shape)))
    if isinstance(space, Discrete):
        return _one_hot(flat, int(space.start), int(space.n))
    if isinstance(space, MultiDiscrete):
        parts = zip(flat.unbind(-1), space.start.flat, space.nvec.flat, strict=True)
        return torch.cat([_one_hot(part.unsqueeze(-1), int(start), int(count)) for part, start, count in parts], -1)
    numbers = flat.to(torch.float32)
    return numbers / 255.0 if _is_image(leaf) else numbers


def _is_image(leaf: Leaf) -> bool:
    space = leaf.space
    is_byte = isinstance(space, Box) and space.dtype == np.uint8
    return is_byte and bool((space.low == 0).all() and (space.high == 255).all())


def _one_hot(values: Tensor, start: int, count: int) -> Tensor:
    return (values.to(torch.int64) == torch.arange(start, start + count, device=values.device)).to(torch.float32)
