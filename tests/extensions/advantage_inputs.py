"""What the advantage kernels are given, and what they must find."""

from __future__ import annotations

import torch

from pufferlib.extensions.advantage import reference_advantage

PLAIN = (0.99, 0.95, 1.0, 1.0)  # gamma, lambda, rho clip, c clip


def random_segments(shape, seed, terminal_rate=0.2, device="cpu"):
    """Values, rewards, terminals, ratio, and an output full of NaN."""
    generator = torch.Generator().manual_seed(seed)
    values, rewards, log_ratio = (torch.randn(shape, generator=generator) for _ in range(3))
    terminals = (torch.rand(shape, generator=generator) < terminal_rate).float()
    tensors = values, rewards, terminals, (0.5 * log_ratio).exp(), torch.full(shape, torch.nan)
    return tuple(tensor.to(device) for tensor in tensors)


def random_presence(shape, seed):
    """1.0 where an agent acts: by turns in the first third of the rows, by chance in the second, never in the last."""
    generator = torch.Generator().manual_seed(seed)
    segments, columns = shape
    present = (torch.rand(shape, generator=generator) < 0.5).float()
    present[: segments // 3] = (torch.arange(columns) + torch.arange(segments // 3).unsqueeze(1)) % 2
    present[segments - segments // 3 :] = 0.0
    return present


def truth(inputs, constants, present=None):
    inputs = [tensor.double() for tensor in inputs]
    return reference_advantage(*inputs, *constants, present=None if present is None else present.double())
