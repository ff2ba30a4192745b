"""Finds hooks, replaced methods and modes of torch, by which modules compute something else than their classes say."""

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
"""The methods that a call of a module runs."""

HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    "_post_accumulate_grad_hooks",
)
"""The attributes in which a module or a parameter keeps its hooks."""

_ALIASES = {"__call__": "Module._wrapped_call_impl", "forward": "_forward_unimplemented"}
_HOOKS_OF_ALL = tuple(
    getattr(modules_of_torch, f"_global_{name}_hooks")
    for name in ("forward", "forward_pre", "backward", "backward_pre")
)


def is_altered(part: nn.Module | nn.Parameter) -> bool:
    """Whether a module has hooks or methods of its own, or a parameter has hooks or is of another class."""
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
    """Returns torch's hooks for all modules, and the modes that see its operations; empty if there are none.

    The mode of a default device is left out: it changes nothing that is computed.
    """
    found: list[Hashable] = [key for hooks in _HOOKS_OF_ALL for key in hooks]
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        modes = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
        found += [mode for mode in modes if not isinstance(mode, DeviceContext)]
    return found
