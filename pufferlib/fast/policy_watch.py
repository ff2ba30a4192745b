"""Notices changes of a policy since a kernel, a recording or an optimizer was made for it."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import nn

from pufferlib.fast.alterations import HOOKS, METHODS, surroundings
from pufferlib.policy import OneHot, OneHotPlanes
from pufferlib.policy.normalized import NormalizedObservations

_SETTINGS = (
    *("clip", "activation", "approximate", "hidden_size", "image_shape", "emulated"),
    *("sizes", "is_joint", "is_continuous", "_are_numbers", "_num_numbers", "_names", "_observation_dims"),
    *("stride", "padding", "dilation", "groups", "padding_mode", "start_dim", "end_dim"),
)
"""Attributes beside tensors that the modules which kernels know compute by."""

_HAVE_BUFFERS = NormalizedObservations, OneHot, OneHotPlanes


class PolicyWatch:
    """Remembers the modules of a policy with their classes, methods, settings, hooks and parameters.

    It remembers torch's hooks and modes for all modules as well, but no values of parameters or buffers. A look costs
    some microseconds for each module.

    Attributes:
        policy: is watched.
    """

    def __init__(self, policy: nn.Module):
        self.policy = policy
        self._parts, self._facts = _look(policy)

    def has_changed(self) -> bool:
        """Whether a module, a parameter or a method was replaced, added, removed, frozen, moved, or given a hook.

        A hook or a mode of torch for all modules counts too.
        """
        parts, facts = _look(self.policy)
        are_same = len(parts) == len(self._parts) and all(map(operator.is_, parts, self._parts))
        return not are_same or facts != self._facts


def _look(policy: nn.Module) -> tuple[list[Any], list[Any]]:
    # Objects that must stay the same ones (held, so that no other gets their address), and facts. It reads the
    # dictionaries behind torch's properties, which are several times slower.
    modules: list[nn.Module] = [policy]
    parts: list[Any] = []
    facts: list[Any] = surroundings()
    kinds: dict[type, None] = {}
    seen: set[int] = set()
    for module in modules:  # which grows meanwhile
        parts.append(module)
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        own = vars(module)
        kinds[type(module)] = None
        modules += own["_modules"].values()
        parts += [own[name] for name in METHODS if name in own]
        facts += module.training, *[tuple(own[name]) for name in HOOKS if own.get(name)]
        facts += [own[name] for name in _SETTINGS if name in own]
        for parameter in own["_parameters"].values():
            parts.append(parameter)
            if parameter is not None:
                facts += _facts(parameter)
        if isinstance(module, _HAVE_BUFFERS):
            parts += own["_buffers"].values()  # kernels read these; others may be new ones at every call
    facts += [getattr(kind, name, None) for kind in kinds for name in METHODS]
    return [*parts, *kinds], facts


def _facts(parameter: nn.Parameter) -> tuple[Any, ...]:
    hooks = tuple(parameter._backward_hooks or ()), tuple(parameter._post_accumulate_grad_hooks or ())
    facts = parameter.requires_grad, parameter.dtype, hooks
    if type(parameter) is not nn.Parameter or parameter.layout is not torch.strided:
        return facts  # which may lie in no one place
    return *facts, parameter.shape, parameter.stride(), parameter.data_ptr()
