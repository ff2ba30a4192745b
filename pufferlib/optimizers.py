"""Optimizers by name, each as one torch optimizer with one learning rate to schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Muon, Optimizer

ADAMW_SHARE = 0.1
"""Learning rate of the vectors (biases, log-std) as a share of Muon's.

Muon changes a matrix by an orthogonal one, whose elements are far below 1; AdamW changes every element by about the
learning rate. The share brings the two to one scale.
"""


class MuonWithAdamW(Optimizer):
    """Muon for matrices, AdamW for all other parameters, behind one optimizer's interface.

    Muon (Jordan et al. 2024) orthogonalises the momentum of a matrix. It has no meaning for vectors.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float, betas, eps, weight_decay: float):
        parameters = list(parameters)
        matrices = [parameter for parameter in parameters if parameter.dim() == 2]
        others = [parameter for parameter in parameters if parameter.dim() != 2]
        self._parts: list[Optimizer] = []
        if matrices:
            self._parts.append(Muon(matrices, lr=lr, momentum=momentum, weight_decay=weight_decay))
        if others:
            adamw = AdamW(others, lr=ADAMW_SHARE * lr, betas=betas, eps=eps, weight_decay=weight_decay)
            self._parts.append(adamw)
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One step of both parts at the current learning rate."""
        lr = self.param_groups[0]["lr"]
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = lr if isinstance(part, Muon) else ADAMW_SHARE * lr
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """The states of both parts."""
        return {"parts": [part.state_dict() for part in self._parts], "lr": self.param_groups[0]["lr"]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Puts back what `state_dict` returned."""
        for part, state in zip(self._parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        set_learning_rate(self, state_dict["lr"])


def make_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
) -> Optimizer:
    """Builds `muon`, `adam` or `sgd`; the first beta is the momentum of Muon and SGD."""
    if name == "muon":
        return MuonWithAdamW(parameters, learning_rate, betas[0], betas, eps, weight_decay)
    if name == "adam":
        return Adam(parameters, lr=learning_rate, betas=betas, eps=eps, weight_decay=weight_decay)
    return SGD(parameters, lr=learning_rate, momentum=betas[0], weight_decay=weight_decay)


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Sets the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
