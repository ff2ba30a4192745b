"""Adam's step and the clipping of gradients for all parameters of a small policy in one call each.

Torch makes several calls for every parameter, which take far longer than the arithmetic where parameters are small.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from pufferlib.errors import APIUsageError
from pufferlib.extensions import cpu_library
from pufferlib.extensions.cpu_library import STRUCTURES
from pufferlib.extensions.declarations import Structure

_NAMES = "exp_avg", "exp_avg_sq", "step"  # of a state's tensors


def can_step(tensors: Sequence[Tensor]) -> bool:
    """Whether the kernels take these: float32, contiguous, in a CPU's memory."""
    return all(
        tensor.dtype == torch.float32 and tensor.is_cpu and tensor.layout == torch.strided and tensor.is_contiguous()
        for tensor in tensors
    )


class AdamBatch:
    """Parameters that are stepped together, as long as they and their gradients stay where they are in memory.

    Attributes:
        settings: AdamSettings of cpu_kernels.h, of the next steps.
    """

    def __init__(self, parameters: Sequence[Tensor], states: Sequence[dict[str, Tensor]], settings: Structure):
        """Collects the addresses of parameters, their gradients, and their states of torch's AdamW.

        `can_step` must hold for all of them. A state is updated in place: `exp_avg` and `exp_avg_sq` of the parameter's
        shape, and `step`. An APIUsageError if one has another shape, or the kernel does not take it.
        """
        averages, squares, steps = self._kept = [[state[name] for state in states] for name in _NAMES]
        _check_kept(parameters, averages, squares, steps)
        self.settings = settings
        self._parameters, self._addresses = list(parameters), _addresses(parameters)
        rows = [
            STRUCTURES["AdamParameter"](
                parameter=parameter.data_ptr(),
                gradient=parameter.grad.data_ptr(),
                average=average.data_ptr(),
                square=square.data_ptr(),
                steps=step.data_ptr(),
                size=parameter.numel(),
            )
            for parameter, average, square, step in zip(parameters, averages, squares, steps, strict=True)
        ]
        self._table = (STRUCTURES["AdamParameter"] * len(rows))(*rows)
        self._library = cpu_library.library()

    def holds(self, parameters: Sequence[Tensor], states: Sequence[dict[str, Tensor]]) -> bool:
        """Whether these states hold the same tensors, and parameters and gradients are where they were."""
        are_same = len(states) == len(self._kept[0]) and all(
            state.get(name) is each
            for name, kept in zip(_NAMES, self._kept, strict=True)
            for state, each in zip(states, kept, strict=True)
        )
        return are_same and _addresses(parameters) == self._addresses

    def step(self) -> None:
        """Steps the parameters by their gradients, in place, with `settings`."""
        self._library.puffer_adam_step(*self.describe().values())

    def describe(self) -> dict[str, int]:
        """What C wants to step them, by the names of LearnParts; valid while `settings` are these.

        It counts as a write to the parameters: autograd refuses a gradient that needs what they were.
        """
        increment_version(self._parameters)
        return {
            "parameters": ctypes.addressof(self._table),
            "num_parameters": len(self._table),
            "settings": ctypes.addressof(self.settings),
        }


def _check_kept(
    parameters: Sequence[Tensor], averages: Sequence[Tensor], squares: Sequence[Tensor], steps: Sequence[Tensor]
) -> None:
    are_whole = can_step(averages) and can_step(squares) and can_step(steps)
    for index, (parameter, *kept, step) in enumerate(zip(parameters, averages, squares, steps, strict=True)):
        shapes = [tuple(each.shape) for each in kept]
        if shapes != [tuple(parameter.shape)] * 2 or step.numel() != 1 or not are_whole:
            raise APIUsageError(
                f"the optimizer's state of parameter {index} must be contiguous float32 of shape "
                f"{tuple(parameter.shape)} on a CPU with one step count, got {shapes} and {tuple(step.shape)}; "
                "load the state of an optimizer of the same parameters"
            )


def _addresses(parameters: Sequence[Tensor]) -> list[int]:
    return [tensor.data_ptr() for parameter in parameters for tensor in (parameter, parameter.grad)]


def clip_gradients(gradients: Sequence[Tensor], limit: float) -> None:
    """Scales gradients for which `can_step` holds so that the norm of all together is at most `limit`, in place."""
    table = (STRUCTURES["AdamParameter"] * len(gradients))()
    for row, gradient in zip(table, gradients, strict=True):
        row.gradient, row.size = gradient.data_ptr(), gradient.numel()
    cpu_library.library().puffer_clip_gradients(table, len(table), limit)
