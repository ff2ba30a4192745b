"""AdamW by one kernel for all parameters on a CPU, and optimizers whose steps a CUDA graph can record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from typing_extensions import override

from pufferlib.extensions import AdamBatch, AdamSettings, can_step
from pufferlib.extensions.optimizers import Adam


class KernelAdam(Adam):
    """AdamW with torch's settings and torch's state; on a CPU one kernel steps all parameters at once.

    Torch steps where the kernel does not fit: other devices and types, or a learning rate that is a tensor.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ):
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        self._batches: dict[int, AdamBatch] = {}  # by group

    @override
    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        batches = [self._find_batch(index, group) for index, group in enumerate(self.param_groups)]
        if closure is not None or None in batches:
            super().step(closure)
            return
        for group, batch in zip(self.param_groups, batches, strict=True):
            beta1, beta2 = group["betas"]
            batch.step(AdamSettings(group["lr"], beta1, beta2, group["eps"], group["weight_decay"]))

    def _find_batch(self, index: int, group: dict[str, Any]) -> AdamBatch | None:
        # None where the kernel does not fit.
        if isinstance(group["lr"], Tensor) or group["capturable"] or group["amsgrad"] or group["maximize"]:
            return None
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self.state[parameter] for parameter in parameters]
        batch = self._batches.get(index)
        if batch is None or not batch.holds(parameters, states):
            if not can_step(parameters) or not can_step([parameter.grad for parameter in parameters]):
                return None
            for parameter, state in zip(parameters, states, strict=True):
                if not state:
                    state["step"] = torch.tensor(0.0, dtype=torch.float32)
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
            batch = self._batches[index] = AdamBatch(parameters, states)
        return batch


def fit_to_graphs(optimizer: Optimizer, device: torch.device | None) -> None:
    """Lets the steps of `muon` or `adam` be captured as a CUDA graph, or undoes it.

    The learning rate becomes a tensor on the device, and Adam counts its steps there. Loading a state replaces both, so
    call this after it.

    Args:
        optimizer: from `make_optimizer`.
        device: of the parameters; None makes plain numbers again.
    """
    for group in optimizer.param_groups:
        rate = float(group["lr"])
        group["lr"] = rate if device is None else torch.tensor(rate, device=device)
        if "capturable" in group:
            group["capturable"] = device is not None and device.type == "cuda"
    if device is not None:
        for state in optimizer.state.values():
            if "step" in state:
                state["step"] = state["step"].to(device)


def take_over(optimizer: Optimizer, earlier: Optimizer) -> None:
    """Copies the state of an earlier optimizer of the same kind, for parameters that both have and that kept shape."""
    own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for parameter, state in earlier.state.items():
        kept = [each for name, each in state.items() if name != "step" and each is not None]
        like = parameter.shape, parameter.dtype, parameter.device
        if parameter in own and all((each.shape, each.dtype, each.device) == like for each in kept):
            optimizer.state[parameter] = state
