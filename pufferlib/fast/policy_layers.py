"""Finds the layers of the library's own policies, which a kernel computes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torch import nn

from pufferlib.extensions import network_layers as kinds
from pufferlib.extensions.network_layers import Layer, Layers
from pufferlib.fast.policy_watch import is_altered
from pufferlib.metrics.measures import EPSILON
from pufferlib.models import ACTIVATIONS, ActionHead, Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import NormalizedObservations, OneHot, OneHotPlanes


def find_layers(policy: nn.Module) -> Layers | None:
    """Returns the layers of a Default or Convolutional policy, in a recurrent wrapper or not, or of a Continuous one.

    Each of them may see normalised observations. The result is None for every other policy, which may compute something
    else: subclasses, hooks, replaced methods, modes of torch, and further parameters; and where all are frozen.
    """
    parameters, normalizer, inner = list(policy.parameters()), None, policy
    if is_altered(policy):
        return None
    if type(policy) is NormalizedObservations:
        normalizer, inner = kinds.Normalizer(policy.mean, policy.variance, EPSILON, policy.clip), policy.policy
    try:
        layers = replace(_find_layers(inner), normalizer=normalizer)
    except _OtherPolicyError:
        return None
    if set(map(id, layers.tensors())) != set(map(id, parameters)):
        return None
    layers = replace(layers, constants=[parameter for parameter in parameters if not parameter.requires_grad])
    return layers if layers.parameters() else None


class _OtherPolicyError(Exception):
    """A policy is not made as pufferlib.models makes it."""


def _require(is_as_made: bool) -> None:
    if not is_as_made:
        raise _OtherPolicyError


def _find_layers(policy: nn.Module) -> Layers:
    if type(policy) is Continuous:
        return _continuous_layers(policy)
    recurrent: list[nn.Module] = []
    if type(policy) is MinGRUWrapper:
        recurrent, policy = list(policy.layers), policy.policy
    elif type(policy) is LSTMWrapper:
        recurrent, policy = list(policy.cells), policy.policy
    is_of_images = type(policy) is Convolutional
    _require(is_of_images or (type(policy) is Default and not policy.emulated))
    head, one_hot, layers = policy.head, policy.one_hot, _Chain()
    _require(type(head) is ActionHead and type(one_hot) in (type(None), OneHotPlanes if is_of_images else OneHot))
    modules, activation, shape = list(policy.encoder), "relu", None
    if is_of_images:
        shape = policy.image_shape
        layers.add_convolutions(modules.pop(0), shape[0], one_hot is not None)
    else:
        activation = policy.activation
    log_std = head.log_std if head.is_continuous else None
    are_numbers = log_std is not None and len(log_std) == sum(head.sizes)  # else there are choices, or both
    _require(bool(modules))
    cells = len(one_hot.lowest) if shape is None and one_hot is not None else 0
    layers.add_linear(modules, activation, cells)
    for module in recurrent:
        layers.append(recurrent_layer(module, len(layers)))
        _require(layers[-1] is not None)
    layers.add_linear([head.linear], "linear")
    first = next(iter(modules)).weight.shape[1]
    return Layers(
        layers=layers,
        shape=shape or (cells or first,),
        parts=[1] * len(log_std) if are_numbers else head.sizes,
        decision=len(layers),
        value=len(layers),
        value_place=sum(head.sizes),
        log_std=log_std,
        categories=None if one_hot is None else kinds.Categories(one_hot.lowest, one_hot.highest - one_hot.lowest + 1),
        divides_integers=shape is not None,
        has_channels_last=getattr(policy, "channels_last", False),
    )


def recurrent_layer(module: nn.Module, value: int) -> kinds.LSTM | kinds.MinGRU | None:
    """Returns a module of the library's recurrent wrappers as a layer that reads a value; None if it is another."""
    if type(module) is nn.LSTMCell:
        return kinds.LSTM((value,), module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh)
    if type(module) is nn.Linear and module.bias is None:
        return kinds.MinGRU((value,), module.weight)
    return None


class _Chain(list[Layer]):
    # Layers one after the other.

    def add_linear(
        self, modules: Iterable[nn.Module], activation: str, cells: int = 0, first: int | None = None
    ) -> None:
        modules = list(modules)
        linear, activations = modules[::2], modules[1::2]
        _require(all(type(module) is nn.Linear for module in linear))
        _require([type(module) for module in activations] == [ACTIVATIONS[activation]] * (len(modules) // 2))
        _require(all(getattr(module, "approximate", "none") == "none" for module in activations))  # else another GELU
        for module in linear:
            inputs = (len(self) if first is None else first,)
            first = None
            if cells and inputs == (0,):
                self.append(kinds.OneHotLinear(inputs, module.weight, module.bias, activation, cells))
            else:
                self.append(kinds.Linear(inputs, module.weight, module.bias, activation))

    def add_convolutions(self, stack: nn.Module, channels: int, is_of_categories: bool) -> None:
        *modules, flatten = stack if type(stack) is nn.Sequential else [stack]
        convolutions, activations = modules[::2], modules[1::2]
        _require(type(flatten) is nn.Flatten and (flatten.start_dim, flatten.end_dim) == (1, -1))
        _require([type(module) for module in activations] == [nn.ReLU] * len(convolutions))
        _require(bool(convolutions))
        for module in convolutions:
            _require(type(module) is nn.Conv2d and module.stride[0] == module.stride[1])
            _require((module.padding, module.dilation, module.groups) == ((0, 0), (1, 1), 1))
            observed = 0 if self else channels
            flags = observed, is_of_categories and bool(observed)
            self.append(kinds.Convolution((len(self),), module.weight, module.bias, module.stride[0], *flags))


def _continuous_layers(policy: Continuous) -> Layers:
    _require(not policy.emulated)
    layers = _Chain()
    layers.add_linear(policy.actor, policy.activation)
    layers.add_linear([policy.mean], "linear")
    decision = len(layers)
    layers.add_linear(policy.critic, policy.activation, first=0)
    layers.add_linear([policy.value], "linear")
    return Layers(
        layers=layers,
        shape=(policy.actor[0].weight.shape[1],),
        parts=[1] * len(policy.log_std),
        decision=decision,
        value=len(layers),
        value_place=0,
        log_std=policy.log_std,
    )
