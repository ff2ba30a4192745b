"""Optimizers by name, each as one torch optimizer with one learning rate to schedule."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer
from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.extensions import AdamBatch, AdamSettings, can_step, orthogonalize

ADAMW_SHARE = 0.1
"""Learning rate of the vectors (biases, log-std) as a share of Muon's.

Muon changes a matrix by an orthogonal one, whose elements are far below 1; AdamW changes every element by about the
learning rate. The share brings the two to one scale.
"""


class EagerOptimizer(Optimizer):
    """torch's Optimizer without the wrappers that hide it from torch.compile.

    The first call of a wrapped method imports all of torch.compile, which is two seconds of every start.
    """

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)


class Sgd(EagerOptimizer, SGD):
    """torch's SGD."""

    step = torch.no_grad()(inspect.unwrap(SGD.step))


class Adam(EagerOptimizer, AdamW):
    """torch's AdamW, its settings and its state; on a CPU one kernel steps all parameters at once.

    Where the kernel does not fit (other devices and types, a learning rate that is a tensor) torch steps.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._batches: dict[int, AdamBatch] = {}  # by group, what the kernel stepped last

    @override
    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        batches = [self._find_batch(index, group) for index, group in enumerate(self.param_groups)]
        if closure is not None or None in batches:
            _torch_adamw_step(self, closure)
            return
        for group, batch in zip(self.param_groups, batches, strict=True):
            beta1, beta2 = group["betas"]
            batch.step(AdamSettings(group["lr"], beta1, beta2, group["eps"], group["weight_decay"]))

    def _find_batch(self, index: int, group: dict[str, Any]) -> AdamBatch | None:
        """What the kernel steps of a group; None where it does not fit."""
        if isinstance(group["lr"], Tensor) or group["capturable"] or group["amsgrad"] or group["maximize"]:
            return None
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        batch = self._batches.get(index)
        if batch is None or not batch.holds(parameters):
            if not can_step(parameters) or not can_step([parameter.grad for parameter in parameters]):
                return None
            states = [self._state_of(parameter) for parameter in parameters]
            columns = [[state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step")]
            batch = self._batches[index] = AdamBatch(parameters, *columns)
        return batch

    def _state_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """As torch has it, made where there is none yet."""
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0, dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        _check_state(self)
        self.forget_tensors()

    def forget_tensors(self) -> None:
        """Has the next step look anew where the state is; to be called once it was replaced."""
        self._batches.clear()


_torch_adamw_step = inspect.unwrap(AdamW.step)  # without wrappers too; the caller switches gradients off


class Muon(EagerOptimizer):
    """Muon for matrices, AdamW for all other parameters, behind one optimizer's interface.

    Muon steps along the orthogonalised Nesterov momentum, scaled by sqrt(max(1, rows / columns)). torch.optim.Muon does
    the same one matrix after another in bfloat16, which most CPUs emulate; here it is float32, by a kernel on a CPU and
    for all matrices of one shape at once elsewhere. For small networks that is several times faster
    (bench/optimizer.py).

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
        self._adamw = Adam(vectors, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay) if vectors else None

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

    def _step_batch(
        self, parameters: list[nn.Parameter], lr: float | Tensor, momentum: float, weight_decay: float
    ) -> None:
        """Steps parameters of one shape."""
        rows, columns = parameters[0].shape
        gradients = torch.stack([parameter.grad for parameter in parameters])
        buffers = [self.state[p].setdefault("momentum_buffer", torch.zeros_like(p)) for p in parameters]
        torch._foreach_lerp_(buffers, list(gradients.unbind()), 1.0 - momentum)
        updates = orthogonalize(gradients.lerp(torch.stack(buffers), momentum))
        if weight_decay:
            torch._foreach_mul_(parameters, 1.0 - lr * weight_decay)
        scale = max(1.0, rows / columns) ** 0.5
        if isinstance(lr, Tensor):
            torch._foreach_sub_(parameters, list((updates * (lr * scale)).unbind()))
        else:
            torch._foreach_add_(parameters, list(updates.unbind()), alpha=-lr * scale)

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
        _check_state(self)
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
        return Adam(parameters, lr=learning_rate, betas=betas, eps=eps, weight_decay=weight_decay)
    return Sgd(parameters, lr=learning_rate, momentum=betas[0], weight_decay=weight_decay)


def take_over(optimizer: Optimizer, earlier: Optimizer) -> None:
    """Gives an optimizer what an earlier one knows of parameters that both have and whose shapes did not change.

    Args:
        optimizer: that has not stepped yet.
        earlier: of the same kind, which is not used any more.
    """
    own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for parameter, state in earlier.state.items():
        if id(parameter) in own and all(_fits(name, value, parameter) for name, value in state.items()):
            optimizer.state[parameter] = state
    if isinstance(optimizer, Muon) and optimizer._adamw is not None and earlier._adamw is not None:
        take_over(optimizer._adamw, earlier._adamw)


def _fits(name: str, value: Tensor | None, parameter: nn.Parameter) -> bool:
    if name == "step" or value is None:
        return True
    return (value.shape, value.dtype, value.device) == (parameter.shape, parameter.dtype, parameter.device)


def parts(optimizer: Optimizer) -> list[Optimizer]:
    """An optimizer and, of Muon, the one that it leaves the vectors to."""
    inner = optimizer._adamw if isinstance(optimizer, Muon) else None
    return [optimizer] if inner is None else [optimizer, inner]


def owner(optimizer: Optimizer, parameter: nn.Parameter) -> Optimizer:
    """The one of its `parts` that steps a parameter."""
    return parts(optimizer)[0 if parameter.dim() == 2 else -1]


def _check_state(optimizer: Optimizer) -> None:
    """Refuses a state that is of other parameters than the optimizer's: kernels go by the shapes of the parameters."""
    for group in optimizer.param_groups:
        for index, parameter in enumerate(group["params"]):
            for name, kept in optimizer.state.get(parameter, {}).items():
                if (
                    name != "step"
                    and kept is not None
                    and (not isinstance(kept, Tensor) or kept.shape != parameter.shape)
                ):
                    found = tuple(kept.shape) if isinstance(kept, Tensor) else type(kept).__name__
                    raise APIUsageError(
                        f"{name} of parameter {index} must have the parameter's shape {tuple(parameter.shape)}, got "
                        f"{found}; load the state of an optimizer of the same parameters in the same order"
                    )


def set_learning_rate(optimizer: Optimizer, learning_rate: float | Tensor) -> None:
    """Sets the learning rate of every parameter group; in place where it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def fit_to_graphs(optimizer: Optimizer, device: torch.device | None) -> None:
    """Lets the steps of `muon` or `adam` be captured as a CUDA graph, or undoes it.

    What differs between steps moves to the device: the learning rate becomes a tensor, and Adam counts its steps there.
    Loading a state replaces both, so this comes after it.

    Args:
        optimizer: from `make_optimizer`.
        device: of the parameters, None to have plain numbers again.
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
    if isinstance(optimizer, Muon) and optimizer._adamw is not None:
        fit_to_graphs(optimizer._adamw, device)
