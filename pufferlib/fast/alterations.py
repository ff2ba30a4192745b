"""What was added to modules beside what their classes do as they are written: hooks, methods, modes of torch."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable
from types import FunctionType

import torch
from torch import nn
from torch.nn.modules import module as modules_of_torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

METHODS = (
    *("forward", "forward_eval", "encode_observations", "decode_actions", "initial_state", "normalize"),
    *("_with_deviations", "_conv_forward", "_slow_forward", "_call_impl", "_wrapped_call_impl"),
    *("__call__", "__getattr__", "__getattribute__"),
)
"""What a call of a module consists of: a module or a class that has another one computes something else."""

HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    "_post_accumulate_grad_hooks",
)
"""Where a module or a parameter has its hooks."""

_ALIASES = {"__call__": "Module._wrapped_call_impl", "forward": "_forward_unimplemented"}
_HOOKS_OF_ALL = tuple(
    getattr(modules_of_torch, f"_global_{name}_hooks")
    for name in ("forward", "forward_pre", "backward", "backward_pre")
)


def is_altered(part: nn.Module | nn.Parameter) -> bool:
    """Whether more happens in a module's call than its class says, or to a parameter and its gradient."""
    if any(getattr(part, name, None) for name in HOOKS) or not vars(part).keys().isdisjoint(METHODS):
        return True
    return isinstance(part, torch.Tensor) and type(part) is not nn.Parameter


def are_as_written(kinds: Iterable[type]) -> bool:
    """Whether none of METHODS was replaced in these classes, or in what they inherit from."""
    return all(_is_as_written(kind, name) for kind in kinds for name in METHODS)


def _is_as_written(kind: type, name: str) -> bool:
    owner = next((base for base in kind.__mro__ if name in vars(base)), object)
    if owner is object:
        return True
    method = vars(owner)[name]
    function = method.fget if isinstance(method, property) else method
    return (
        isinstance(function, FunctionType)
        and function.__globals__ is vars(sys.modules[owner.__module__])  # even functools.wraps leaves these
        and function.__qualname__ in (f"{owner.__qualname__}.{name}", _ALIASES.get(name))
    )


def surroundings() -> list[Hashable]:
    """What acts on every module: hooks for all of them, and the modes that see torch's operations; empty if nothing.

    The device that torch makes tensors on by default is such a mode, too, but changes nothing that is computed.
    """
    found: list[Hashable] = [key for hooks in _HOOKS_OF_ALL for key in hooks]
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        modes = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
        found += [mode for mode in modes if not isinstance(mode, DeviceContext)]
    return found
