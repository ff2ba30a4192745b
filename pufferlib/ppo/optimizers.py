"""Optimizers by name, each as one torch optimizer with one learning rate to schedule."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn, optim
from torch.optim import Optimizer

from pufferlib.extensions.optimizers import Adam, Muon, Sgd


def make_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    adamw: type[optim.AdamW] = Adam,
) -> Optimizer:
    """Builds `muon`, `adam` or `sgd`; the first beta is the momentum of Muon and SGD, `adamw` what steps as AdamW.

    Weight decay is decoupled in the first two (Loshchilov and Hutter 2017); without it, AdamW is Adam.
    """
    if name == "muon":
        return Muon(parameters, learning_rate, betas[0], betas, eps, weight_decay, adamw)
    if name == "adam":
        return adamw(parameters, lr=learning_rate, betas=betas, eps=eps, weight_decay=weight_decay)
    return Sgd(parameters, lr=learning_rate, momentum=betas[0], weight_decay=weight_decay)


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Sets the learning rate of every parameter group; in place where it is a tensor."""
    for group in optimizer.param_groups:
        rate = group.get("share", 1.0) * learning_rate
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
