"""Finds the layers of the policies that kernels compute all at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torch import nn

from pufferlib.extensions import Categories, ConvolutionLayer, Layers, LSTMLayer, Normalizer
from pufferlib.fast.alterations import are_as_written, is_altered, surroundings
from pufferlib.metrics.moments import EPSILON
from pufferlib.models import ACTIVATIONS, ActionHead, Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.policy.normalized import NormalizedObservations
from pufferlib.policy.one_hot import OneHot, OneHotPlanes


def find_layers(policy: nn.Module) -> Layers | None:
    """Returns the layers of a Default or Convolutional policy, in a recurrent wrapper or not, or of a Continuous one.

    Each of them may see normalised observations. The result is None for every other policy, which may compute something
    else: subclasses, hooks, replaced methods, modes of torch, and frozen, shared or further parameters.
    """
    modules, parameters = list(policy.modules()), list(policy.parameters())
    if any(map(is_altered, (*modules, *parameters))) or surroundings():
        return None
    if not all(parameter.requires_grad for parameter in parameters) or not are_as_written(set(map(type, modules))):
        return None
    if type(policy) is NormalizedObservations:
        normalizer = Normalizer(policy.mean, policy.variance, EPSILON, policy.clip)
        layers = _find_layers(policy.policy)
        layers = layers and replace(layers, normalizer=normalizer)
    else:
        layers = _find_layers(policy)
    found = [id(parameter) for parameter in layers.all_parameters()] if layers else []
    are_all = len(found) == len(set(found)) and set(found) == {id(parameter) for parameter in parameters}
    return layers if are_all else None


def _find_layers(policy: nn.Module) -> Layers | None:
    if type(policy) is Continuous:
        return None if policy.emulated else _continuous_layers(policy)
    recurrent: list[nn.Module] = []
    lstm: list[nn.Module] = []
    if type(policy) is MinGRUWrapper:
        recurrent, policy = list(policy.layers), policy.policy
    elif type(policy) is LSTMWrapper:
        lstm, policy = list(policy.cells), policy.policy
    if not _sees_rows(policy) or type(policy.head) is not ActionHead:
        return None
    modules, convolutions = list(policy.encoder), ()
    if type(policy) is Convolutional:
        convolutions = _convolutions(modules.pop(0))
    if convolutions is None:
        return None
    head, one_hot = policy.head, policy.one_hot
    log_std = head.log_std if head.is_continuous else None
    if log_std is not None and len(log_std) != sum(head.sizes):  # numbers beside choices
        return None
    if any(type(layer) is not nn.Linear or layer.bias is not None for layer in recurrent):
        return None
    if any(type(cell) is not nn.LSTMCell for cell in lstm):
        return None
    return _as_layers(
        modules,
        "relu" if convolutions else policy.activation,
        head.linear,
        head.sizes if log_std is None else [1] * len(log_std),
        recurrent=[layer.weight for layer in recurrent],
        lstm=[LSTMLayer(cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh) for cell in lstm],
        log_std=log_std,
        categories=None if one_hot is None else Categories(one_hot.lowest, one_hot.highest - one_hot.lowest + 1),
        convolutions=convolutions,
        image_shape=policy.image_shape if convolutions else (0, 0, 0),
    )


def _sees_rows(policy: nn.Module) -> bool:
    # Whether the first layer takes the numbers of an observation, or their categories, as they lie in its row.
    if type(policy) is Default:
        return not policy.emulated and type(policy.one_hot) in (type(None), OneHot)
    return type(policy) is Convolutional and type(policy.one_hot) in (type(None), OneHotPlanes)


def _convolutions(stack: nn.Module) -> list[ConvolutionLayer] | None:
    # None where it is not made as Convolutional makes it.
    *modules, flatten = stack if type(stack) is nn.Sequential else [stack]
    convolutions, activations = modules[::2], modules[1::2]
    if type(flatten) is not nn.Flatten or (flatten.start_dim, flatten.end_dim) != (1, -1):
        return None
    if [type(module) for module in activations] != [nn.ReLU] * len(convolutions):
        return None
    if not convolutions or not all(_is_plain_convolution(module) for module in convolutions):
        return None
    return [ConvolutionLayer(module.weight, module.bias, module.stride[0]) for module in convolutions]


def _is_plain_convolution(module: nn.Module) -> bool:
    return (
        type(module) is nn.Conv2d
        and module.stride[0] == module.stride[1]
        and (module.padding, module.dilation, module.groups) == ((0, 0), (1, 1), 1)
    )


def _continuous_layers(policy: Continuous) -> Layers | None:
    critic = _as_layers(policy.critic, policy.activation, policy.value, parts=())
    parts = [1] * len(policy.log_std)
    return critic and _as_layers(
        policy.actor, policy.activation, policy.mean, parts, log_std=policy.log_std, critic=critic
    )


def _as_layers(
    encoder: Iterable[nn.Module], activation: str, head: nn.Module, parts: Iterable[int], recurrent=(), **others
) -> Layers | None:
    # None where a part is not of the kinds that pufferlib.models uses.
    modules = list(encoder)
    linear, activations = modules[::2], modules[1::2]
    if any(type(layer) is not nn.Linear for layer in (*linear, head)):
        return None
    if [type(layer) for layer in activations] != [ACTIVATIONS[activation]] * len(linear):
        return None
    if any(getattr(layer, "approximate", "none") != "none" for layer in activations):  # GELU's other formula
        return None
    return Layers(
        encoder=[(layer.weight, layer.bias) for layer in linear],
        activation=activation,
        recurrent=recurrent,
        head=(head.weight, head.bias),
        parts=parts,
        **others,
    )
