"""Optimizers by name, each as one torch optimizer with one learning rate to schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer
from typing_extensions import override

from pufferlib.extensions import orthogonalize

ADAMW_SHARE = 0.1
"""Learning rate of the vectors (biases, log-std) as a share of Muon's.

Muon changes a matrix by an orthogonal one, whose elements are far below 1; AdamW changes every element by about the
learning rate. The share brings the two to one scale.
"""


class Muon(Optimizer):
    """Muon for matrices, AdamW for all other parameters, behind one optimizer's interface.

    Muon steps along the orthogonalised Nesterov momentum, scaled by sqrt(max(1, rows / columns)). torch.optim.Muon does
    the same one matrix after another in bfloat16, which most CPUs emulate: here it is float32, by a kernel on a CPU and a
    batch for the matrices of one shape elsewhere, many times faster where the networks are small (bench/optimizer.py).

    Args:
        parameters: all parameters of a policy.
        lr: learning rate of the matrices; the vectors get ADAMW_SHARE of it.
        momentum: of the matrices.
        betas: of AdamW.
        eps: of AdamW.
        weight_decay: decoupled, of both.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        parameters = list(parameters)
        matrices = [parameter for parameter in parameters if parameter.dim() == 2]
        vectors = [parameter for parameter in parameters if parameter.dim() != 2]
        super().__init__(matrices or vectors, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._has_matrices = bool(matrices)
        self._adamw = AdamW(vectors, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay) if vectors else None

    @override
    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        group = self.param_groups[0]
        if self._adamw is not None:
            set_learning_rate(self._adamw, ADAMW_SHARE * group["lr"])
            self._adamw.step()
        if not self._has_matrices:
            return
        shapes: dict[torch.Size, list[nn.Parameter]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                shapes.setdefault(parameter.shape, []).append(parameter)
        for parameters in shapes.values():
            self._step_batch(parameters, group["lr"], group["momentum"], group["weight_decay"])

    def _step_batch(self, parameters: list[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> None:
        """Steps parameters of one shape."""
        rows, columns = parameters[0].shape
        gradients = torch.stack([parameter.grad for parameter in parameters])
        buffers = [self.state[p].setdefault("momentum_buffer", torch.zeros_like(p)) for p in parameters]
        torch._foreach_lerp_(buffers, list(gradients.unbind()), 1.0 - momentum)
        updates = orthogonalize(gradients.lerp(torch.stack(buffers), momentum))
        if weight_decay:
            torch._foreach_mul_(parameters, 1.0 - lr * weight_decay)
        torch._foreach_add_(parameters, list(updates.unbind()), alpha=-lr * max(1.0, rows / columns) ** 0.5)

    @override
    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        if self._adamw is not None:
            self._adamw.zero_grad(set_to_none)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"matrices": super().state_dict(), "vectors": self._adamw.state_dict() if self._adamw else None}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict["matrices"])
        if self._adamw is not None:
            self._adamw.load_state_dict(state_dict["vectors"])


def make_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
) -> Optimizer:
    """Builds `muon`, `adam` or `sgd`; the first beta is the momentum of Muon and SGD.

    Weight decay is decoupled in the first two (Loshchilov and Hutter 2017); without it, AdamW is Adam.
    """
    if name == "muon":
        return Muon(parameters, learning_rate, betas[0], betas, eps, weight_decay)
    if name == "adam":
        return AdamW(parameters, lr=learning_rate, betas=betas, eps=eps, weight_decay=weight_decay)
    return SGD(parameters, lr=learning_rate, momentum=betas[0], weight_decay=weight_decay)


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Sets the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
