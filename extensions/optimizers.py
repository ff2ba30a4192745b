"""Optimizers by name, each as one torch optimizer with one learning rate to schedule; Muon's iteration is a kernel."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.optim import Optimizer
from typing_extensions import override

from pufferlib.extensions import cuda_library
from pufferlib.extensions.orthogonalize import PADDED_SIZE, iterate, orthogonalize_each

ADAMW_SHARE = 0.1
"""Learning rate of the vectors (biases, log-std) as a share of Muon's: AdamW changes every element by about the
learning rate, Muon a matrix by an orthogonal one, whose elements are far below 1."""


class EagerOptimizer(Optimizer):
    """torch's Optimizer, made without what hides it from torch.compile and so imports that: two seconds of a start."""

    add_param_group = inspect.unwrap(Optimizer.add_param_group)


class Sgd(EagerOptimizer, optim.SGD):
    """torch's SGD, stepped without importing torch.compile."""

    step = torch.no_grad()(inspect.unwrap(optim.SGD.step))


class Adam(EagerOptimizer, optim.AdamW):
    """torch's AdamW, stepped without importing torch.compile."""

    step = torch.no_grad()(inspect.unwrap(optim.AdamW.step))


class Muon(EagerOptimizer):
    """Muon for matrices (Jordan et al. 2024), AdamW for all other parameters.

    Muon steps along the orthogonalised Nesterov momentum, scaled by sqrt(max(1, rows / columns)). torch.optim.Muon does
    so one matrix after another and in bfloat16, which most CPUs emulate; here it is float32, for all matrices at once.
    For small networks that is several times faster (bench/optimizer.py).
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        adamw: type[optim.AdamW] = Adam,
    ):
        parameters = list(parameters)
        matrices = {"params": [parameter for parameter in parameters if parameter.dim() == 2]}
        vectors = {"params": [parameter for parameter in parameters if parameter.dim() != 2], "share": ADAMW_SHARE}
        super().__init__([matrices], {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        # LaTeX: \eta' = \mathrm{ADAMW\_SHARE} \cdot \eta ; \eta = lr, \eta' = lr
        self._adamw = adamw([vectors], lr=ADAMW_SHARE * lr, betas=betas, eps=eps, weight_decay=weight_decay)
        self.param_groups += self._adamw.param_groups

    @override
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters of a user's own, which AdamW steps, whatever their shape."""
        if hasattr(self, "_adamw"):  # else it is the first group, of the matrices
            param_group = {**self._adamw.defaults, "share": ADAMW_SHARE, **param_group}
        super().add_param_group(param_group)

    @override
    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        matrices, *vectors = self.param_groups
        self._adamw.param_groups, self._adamw.state = vectors, self.state  # which loading replaces
        self._adamw.step()
        parameters = [parameter for parameter in matrices["params"] if parameter.grad is not None]
        if parameters:
            self._step_matrices(parameters, matrices["lr"], matrices["momentum"], matrices["weight_decay"])

    def _step_matrices(
        self, parameters: list[nn.Parameter], lr: float | Tensor, momentum: float, weight_decay: float
    ) -> None:
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        if isinstance(lr, Tensor) and has_kernel(parameters):
            step_matrices(parameters, gradients, buffers, lr, momentum, weight_decay)
            return
        # LaTeX: B \leftarrow \mu B + (1 - \mu)\, G ; B = buffers, G = gradients, \mu = momentum
        torch._foreach_lerp_(buffers, gradients, 1.0 - momentum)
        # LaTeX: U = \operatorname{orthogonalize}\big( \mu B + (1 - \mu)\, G \big)
        # LaTeX:   ; U = updates, \operatorname{orthogonalize} = orthogonalize_each
        updates = orthogonalize_each(torch._foreach_lerp(gradients, buffers, momentum))
        if weight_decay:
            # LaTeX: \theta \leftarrow (1 - \eta \lambda)\, \theta
            # LaTeX:   ; \theta = parameters, \eta = lr, \lambda = weight_decay
            torch._foreach_mul_(parameters, 1.0 - lr * weight_decay)
        # LaTeX: s = \sqrt{\max(1, m / n)} ; s = scales, m = rows, n = columns
        scales = [max(1.0, rows / columns) ** 0.5 for rows, columns in (parameter.shape for parameter in parameters)]
        # LaTeX: \theta \leftarrow \theta - \eta s\, U
        if isinstance(lr, Tensor):
            torch._foreach_sub_(parameters, torch._foreach_mul(torch._foreach_mul(updates, scales), lr))
        else:
            for parameter, update, scale in zip(parameters, updates, scales, strict=True):
                parameter.add_(update, alpha=-lr * scale)


_BLOCK = 1024, 1  # BLOCK of warp.h


def has_kernel(matrices: Sequence[Tensor]) -> bool:
    """Whether `step_matrices` takes them: float32 and contiguous on a GPU of NVIDIA's, at most PADDED_SIZE wide."""
    device = matrices[0].device
    fit = all(
        (each.device, each.dtype) == (device, torch.float32) and each.is_contiguous() and max(each.shape) <= PADDED_SIZE
        for each in matrices
    )
    return fit and cuda_library.is_nvidia(device) and cuda_library.can_run("muon", device)


def step_matrices(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    momentums: Sequence[Tensor],
    lr: Tensor,
    momentum: float,
    weight_decay: float,
) -> None:
    """A step of Muon for matrices on a GPU, by two kernels and the 15 products between them."""
    gradients = [gradient.contiguous() for gradient in gradients]
    rows, columns = max(min(each.shape) for each in parameters), max(max(each.shape) for each in parameters)
    stack = parameters[0].new_empty(len(parameters), rows, columns)
    declared = cuda_library.declared("muon")
    launch = functools.partial(cuda_library.launch, "muon", block=_BLOCK)
    parts = []
    for begin in range(0, len(parameters), declared.constants["MUON_MATRICES"]):
        part = slice(begin, begin + declared.constants["MUON_MATRICES"])
        matrices = declared.structures["MuonMatrices"](
            parameters=tuple(each.data_ptr() for each in parameters[part]),
            gradients=tuple(each.data_ptr() for each in gradients[part]),
            momentums=tuple(each.data_ptr() for each in momentums[part]),
            rows=tuple(len(each) for each in parameters[part]),
            columns=tuple(each.shape[1] for each in parameters[part]),
        )
        parts.append((part, len(parameters[part]), matrices))
    for part, count, matrices in parts:
        launch("puffer_muon_begin", count, arguments=(stack[part], matrices, rows, columns, (momentum,)))
    updates = iterate(stack)
    for part, count, matrices in parts:
        launch("puffer_muon_end", count, arguments=(updates[part], lr, matrices, rows, columns, (weight_decay,)))


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
