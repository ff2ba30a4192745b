"""A policy in evaluation mode for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from pufferlib.fast.shards import one_thread
from pufferlib.runs.torch_generator import borrowed_generator


@contextlib.contextmanager
def eval_mode(policy: nn.Module, device: torch.device) -> Iterator[None]:
    """Puts a policy in evaluation mode, and restores its modes and buffers and torch's generators afterwards.

    It acts on one thread, as the barriers of such small operations wait long where other programs run.

    Args:
        policy: on `device`.
        device: of the policy; its generator is restored too.
    """
    modes = [(module, module.training) for module in policy.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in policy.buffers()]
    devices = [device] if device.type == "cuda" else []
    policy.eval()
    try:
        with borrowed_generator(devices=devices), one_thread(), torch.no_grad():
            yield
    finally:
        for module, is_training in modes:
            module.training = is_training
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
