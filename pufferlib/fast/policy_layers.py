"""Finds the layers of a policy that a kernel computes, and notices hooks and replaced methods that forbid it."""

from __future__ import annotations

import operator
import sys
from collections.abc import Hashable, Iterable
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as modules_of_torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from pufferlib.extensions import LSTM, Categories, Convolution, Layers, Linear, MinGRU, Normalizer, OneHot
from pufferlib.extensions.network_layers import Layer
from pufferlib.metrics.finished_episodes import EPSILON
from pufferlib.models import ACTIVATIONS, ActionHead, Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import NormalizedObservations, OneHot as OneHotCells, OneHotPlanes

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


_SETTINGS = (
    *("clip", "activation", "approximate", "hidden_size", "image_shape", "channels_last", "emulated"),
    *("sizes", "is_joint", "is_continuous", "_are_numbers", "_num_numbers", "_names", "_observation_dims"),
    *("stride", "padding", "dilation", "groups", "padding_mode", "start_dim", "end_dim", "p", "inplace"),
    *("eps", "normalized_shape", "elementwise_affine", "negative_slope", "alpha", "beta", "threshold"),
    *("kernel_size", "ceil_mode", "return_indices", "count_include_pad", "divisor_override"),
    *(
        "num_heads",
        "dropout",
        "batch_first",
        "add_zero_attn",
        "padding_idx",
        "max_norm",
        "scale_grad_by_freq",
        "sparse",
        "dim",
    ),
)
"""Attributes beside tensors that the modules which kernels know compute by."""

_HAVE_BUFFERS = NormalizedObservations, OneHotCells, OneHotPlanes


class PolicyWatch:
    """Remembers the modules of a policy with their classes, methods, settings, hooks and parameters.

    It remembers torch's hooks and modes for all modules as well, but no values of parameters or buffers. A look costs
    some microseconds for each module.

    Attributes:
        policy: is watched.
        reads_buffers: whether a kernel reads all of its buffers where they lie; others may be new ones at every call.
    """

    def __init__(self, policy: nn.Module, reads_buffers: bool = False):
        self.policy, self.reads_buffers = policy, reads_buffers
        self._parts, self._facts = _look(policy, reads_buffers)

    def has_changed(self) -> bool:
        """Whether a module, a parameter or a method was replaced, added, removed, frozen, moved, or given a hook.

        A hook or a mode of torch for all modules counts too.
        """
        parts, facts = _look(self.policy, self.reads_buffers)
        are_same = len(parts) == len(self._parts) and all(map(operator.is_, parts, self._parts))
        return not are_same or facts != self._facts


def _look(policy: nn.Module, reads_buffers: bool) -> tuple[list[Any], list[Any]]:
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
        if reads_buffers or isinstance(module, _HAVE_BUFFERS):
            parts += own["_buffers"].values()
    facts += [getattr(kind, name, None) for kind in kinds for name in METHODS]
    return [*parts, *kinds], facts


def _facts(parameter: nn.Parameter) -> tuple[Any, ...]:
    hooks = tuple(parameter._backward_hooks or ()), tuple(parameter._post_accumulate_grad_hooks or ())
    facts = parameter.requires_grad, parameter.dtype, hooks
    if type(parameter) is not nn.Parameter or parameter.layout is not torch.strided:
        return facts  # which may lie in no one place
    return *facts, parameter.shape, parameter.stride(), parameter.data_ptr()


def find_layers(policy: nn.Module) -> Layers | None:
    """Returns the layers of a Default or Convolutional policy, in a recurrent wrapper or not, or of a Continuous one.

    Each of them may see normalised observations. The result is None for every other policy, which may compute something
    else: subclasses, hooks, replaced methods, modes of torch, and further parameters; and where all are frozen.
    """
    modules, parameters = list(policy.modules()), list(policy.parameters())
    if any(map(is_altered, (*modules, *parameters))) or surroundings():
        return None
    if not are_as_written(set(map(type, modules))):
        return None
    if type(policy) is NormalizedObservations:
        normalizer = Normalizer(policy.mean, policy.variance, EPSILON, policy.clip)
        layers = _find_layers(policy.policy)
        layers = layers and replace(layers, normalizer=normalizer)
    else:
        layers = _find_layers(policy)
    if layers is None or set(map(id, layers.tensors())) != set(map(id, parameters)):
        return None
    layers = replace(layers, constants=[parameter for parameter in parameters if not parameter.requires_grad])
    return layers if layers.parameters() else None


def _find_layers(policy: nn.Module) -> Layers | None:
    if type(policy) is Continuous:
        return None if policy.emulated else _continuous_layers(policy)
    recurrent: list[nn.Module] = []
    if type(policy) is MinGRUWrapper:
        recurrent, policy = list(policy.layers), policy.policy
    elif type(policy) is LSTMWrapper:
        recurrent, policy = list(policy.cells), policy.policy
    if not _sees_rows(policy) or type(policy.head) is not ActionHead:
        return None
    head, one_hot, layers = policy.head, policy.one_hot, _Chain()
    modules, activation, shape = list(policy.encoder), "relu", None
    if type(policy) is Convolutional:
        shape = policy.image_shape
        if not layers.add_convolutions(modules.pop(0), shape[0], one_hot is not None):
            return None
    else:
        activation = policy.activation
    log_std = head.log_std if head.is_continuous else None
    are_numbers = log_std is not None and len(log_std) == sum(head.sizes)  # else there are choices, or both
    if not modules:
        return None
    cells = len(one_hot.lowest) if shape is None and one_hot is not None else 0
    if not layers.add_linear(modules, activation, cells) or not layers.add_recurrent(recurrent):
        return None
    if not layers.add_linear([head.linear], "linear"):
        return None
    first = next(iter(modules)).weight.shape[1]
    return Layers(
        layers=layers,
        shape=shape or (cells or first,),
        parts=[1] * len(log_std) if are_numbers else head.sizes,
        decision=len(layers),
        value=len(layers),
        value_place=sum(head.sizes),
        log_std=log_std,
        categories=None if one_hot is None else Categories(one_hot.lowest, one_hot.highest - one_hot.lowest + 1),
        divides_bytes=shape is not None,
    )


def recurrent_layer(module: nn.Module, value: int) -> LSTM | MinGRU | None:
    """Returns a module of the library's recurrent wrappers as a layer that reads a value; None if it is another."""
    if type(module) is nn.LSTMCell:
        return LSTM((value,), module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh)
    if type(module) is nn.Linear and module.bias is None:
        return MinGRU((value,), module.weight)
    return None


class _Chain(list[Layer]):
    # Layers one after the other; what is not made as pufferlib.models makes it is not added.

    def add_linear(
        self, modules: Iterable[nn.Module], activation: str, cells: int = 0, first: int | None = None
    ) -> bool:
        modules = list(modules)
        linear, activations = modules[::2], modules[1::2]
        if any(type(module) is not nn.Linear for module in linear):
            return False
        if [type(module) for module in activations] != [ACTIVATIONS[activation]] * (len(modules) // 2):
            return False
        if any(getattr(module, "approximate", "none") != "none" for module in activations):  # GELU's other formula
            return False
        for module in linear:
            inputs = (len(self) if first is None else first,)
            first = None
            if cells and inputs == (0,):
                self.append(OneHot(inputs, module.weight, module.bias, activation, cells))
            else:
                self.append(Linear(inputs, module.weight, module.bias, activation))
        return True

    def add_recurrent(self, modules: Iterable[nn.Module]) -> bool:
        for module in modules:
            layer = recurrent_layer(module, len(self))
            if layer is None:
                return False
            self.append(layer)
        return True

    def add_convolutions(self, stack: nn.Module, channels: int, is_of_categories: bool) -> bool:
        *modules, flatten = stack if type(stack) is nn.Sequential else [stack]
        convolutions, activations = modules[::2], modules[1::2]
        if type(flatten) is not nn.Flatten or (flatten.start_dim, flatten.end_dim) != (1, -1):
            return False
        if [type(module) for module in activations] != [nn.ReLU] * len(convolutions):
            return False
        if not convolutions or not all(_is_plain_convolution(module) for module in convolutions):
            return False
        for module in convolutions:
            observed = 0 if self else channels
            flags = observed, is_of_categories and bool(observed)
            self.append(Convolution((len(self),), module.weight, module.bias, module.stride[0], *flags))
        return True


def _sees_rows(policy: nn.Module) -> bool:
    # Whether the first layer takes the numbers of an observation, or their categories, as they lie in its row.
    if type(policy) is Default:
        return not policy.emulated and type(policy.one_hot) in (type(None), OneHotCells)
    is_channels_first = type(policy) is Convolutional and not policy.channels_last
    return is_channels_first and type(policy.one_hot) in (type(None), OneHotPlanes)


def _is_plain_convolution(module: nn.Module) -> bool:
    return (
        type(module) is nn.Conv2d
        and module.stride[0] == module.stride[1]
        and (module.padding, module.dilation, module.groups) == ((0, 0), (1, 1), 1)
    )


def _continuous_layers(policy: Continuous) -> Layers | None:
    layers = _Chain()
    are_known = layers.add_linear(policy.actor, policy.activation) and layers.add_linear([policy.mean], "linear")
    decision = len(layers)
    are_known = are_known and layers.add_linear(policy.critic, policy.activation, first=0)
    if not are_known or not layers.add_linear([policy.value], "linear"):
        return None
    return Layers(
        layers=layers,
        shape=(policy.actor[0].weight.shape[1],),
        parts=[1] * len(policy.log_std),
        decision=decision,
        value=len(layers),
        value_place=0,
        log_std=policy.log_std,
    )
