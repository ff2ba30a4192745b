"""What the MinGRU kernels are given, and how they are run for all their results."""

from __future__ import annotations

import torch


def random_inputs(shape, seed=0, reset_rate=0.2, scale=2.0, device="cpu"):
    batch, steps, hidden = shape
    generator = torch.Generator().manual_seed(seed)
    gates = scale * torch.randn(batch, steps, 3 * hidden, generator=generator)
    x, state = torch.randn(batch, steps, hidden, generator=generator), torch.randn(batch, hidden, generator=generator)
    reset = torch.rand(batch, steps, generator=generator) < reset_rate
    return tuple(tensor.to(device) for tensor in (gates, x, state, reset))


def run_with_gradients(run, inputs, seed=1):
    """Output, final state, and the gradients of a random weighting of both."""
    *tensors, reset = inputs
    tensors = [tensor.clone().requires_grad_() for tensor in tensors]
    results = run(*tensors, reset)
    generator = torch.Generator().manual_seed(seed)
    loss = sum((result * torch.randn(result.shape, generator=generator).to(result)).sum() for result in results)
    return (*results, *torch.autograd.grad(loss, tensors))
