"""A policy as the layers of puffernet.h, in their order, with the weights in that header's layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from pufferlib import spaces
from pufferlib.environment import PufferEnv
from pufferlib.errors import ExportError
from pufferlib.export.one_step import first_sentence
from pufferlib.metrics.finished_episodes import EPSILON
from pufferlib.models import Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import NormalizedObservations, OneHot, OneHotPlanes

LANES = 16  # PUFFERNET_LANES: outputs of a layer are padded to a multiple

ACTIVATIONS = {nn.GELU: "gelu", nn.ReLU: "relu", nn.Tanh: "tanh"}
_NOTHING = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout)  # in acting

_REMEDY = "use --format onnx or torchscript"


@dataclass(frozen=True)
class Linear:
    """A linear layer and its activation.

    Attributes:
        name: in C.
        weights: `(inputs, outputs)` float32, outputs padded with zeros.
        bias: `(outputs,)` float32.
        activation: the end of a function's name in puffernet.h, or empty.
        cells: where the observation is of categories, the value of each cell's first input, `(cells,)` int32, and the
            first input of each cell with the number of all, `(cells + 1,)` int32.
    """

    name: str
    weights: np.ndarray
    bias: np.ndarray
    activation: str = ""
    cells: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def inputs(self) -> int:
        """The length of an input row."""
        return len(self.weights)

    @property
    def outputs(self) -> int:
        """The length of an output row."""
        return self.weights.shape[1]


@dataclass(frozen=True)
class Convolution:
    """A convolution of images `(height, width, channels)` and its activation.

    Attributes:
        name: in C.
        weights: `(size, size, channels, filters)` float32, filters padded with zeros.
        bias: `(filters,)` float32.
        height, width: of the input.
        stride: in both directions.
        activation: as of `Linear`.
    """

    name: str
    weights: np.ndarray
    bias: np.ndarray
    height: int
    width: int
    stride: int
    activation: str

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """Height, width and filters of the result."""
        size = self.weights.shape[0]
        return (self.height - size) // self.stride + 1, (self.width - size) // self.stride + 1, self.weights.shape[3]


@dataclass(frozen=True)
class MinGRU:
    """A MinGRU layer: the product for candidate, gate and highway; `name` is that of its state."""

    name: str
    gates: Linear


@dataclass(frozen=True)
class LSTM:
    """An LSTM cell: the products of the input and of the hidden state; the names are those of its states."""

    hidden_name: str
    memory_name: str
    input: Linear
    recurrent: Linear


Layer = Linear | Convolution | MinGRU | LSTM


@dataclass(frozen=True)
class CNetwork:
    """A whole policy.

    Attributes:
        observation: of one agent: the shape and dtype of a row.
        normalization: mean and scale `(numbers,)` float32 and the clip of NormalizedObservations, or None.
        layers: from the observation to the logits and means, followed by the value where `critic` is empty.
        critic: layers of its own from the observation to the value.
        parts: of the action.
        deviations: `(numbers,)` float32, one for each that is no choice.
        image_scale: the divisor of images.
        image_shape: channels, height and width of the image that an observation is.
        planes: of categories: the lowest of each channel `(channels,)` int32, and its plane, `(channels + 1,)` int32
            with the number of all; None for an image of numbers.
    """

    observation: gymnasium.spaces.Box
    normalization: tuple[np.ndarray, np.ndarray, float] | None
    layers: tuple[Layer, ...]
    critic: tuple[Linear, ...]
    parts: tuple[spaces.ActionPart, ...]
    deviations: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    image_scale: float = 1.0
    image_shape: tuple[int, int, int] = (0, 0, 0)
    planes: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def num_logits(self) -> int:
        """Logits and means of an agent."""
        return sum(part.outputs for part in self.parts)


@torch.no_grad()
def network_of(policy: nn.Module, env: PufferEnv) -> CNetwork:
    """The layers of a policy.

    Args:
        policy: one of pufferlib.models, or one of them behind NormalizedObservations.
        env: anything with `single_observation_space` and `single_action_space`.

    Raises:
        ExportError: if puffernet.h has no layers for it; the message names the layer.
    """
    normalization = None
    if isinstance(policy, NormalizedObservations):
        scale = (policy.variance + EPSILON).rsqrt().float()
        normalization = _floats(policy.mean).reshape(-1), _floats(scale).reshape(-1), float(policy.clip)
        policy = policy.policy
    if getattr(env, "emulated", None) is not None:
        raise ExportError(f"C has no structured observations, got {env.emulated.parts_text()}; {_REMEDY}")
    wrapper = policy if type(policy) in (LSTMWrapper, MinGRUWrapper) else None
    inner = policy if wrapper is None else policy.policy
    if type(inner) not in (Default, Continuous, Convolutional) or (wrapper is not None and type(inner) is Continuous):
        raise ExportError(
            f"C has layers for the policies of pufferlib.models alone, got {type(inner).__module__}."
            f"{type(inner).__qualname__}; {_REMEDY}"
        )
    try:
        return _network(inner, wrapper, normalization, env)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ExportError):
            raise
        raise ExportError(
            f"C has layers for {type(inner).__name__} as pufferlib.models builds it, got one that was changed "
            f"({type(error).__name__}: {first_sentence(error)}); {_REMEDY}"
        ) from error


def _network(
    inner: nn.Module,
    wrapper: nn.Module | None,
    normalization: tuple[np.ndarray, np.ndarray, float] | None,
    env: PufferEnv,
) -> CNetwork:
    parts, observation = spaces.action_parts(env.single_action_space), env.single_observation_space
    is_image = type(inner) is Convolutional
    if is_image and inner.channels_last:
        raise ExportError(f"C takes images whose channels come first, got channels_last; {_REMEDY}")
    shape, planes, scale = (0, 0, 0), None, 1.0
    if is_image:
        shape, planes = inner.image_shape, None if inner.one_hot is None else _ranges(inner.one_hot)
        scale = 255.0 if normalization is None and planes is None and observation.dtype.kind != "f" else 1.0
    if type(inner) is Continuous:
        actor = (*_linears(inner.actor, "actor"), _linear("mean", inner.mean))
        critic = (*_linears(inner.critic, "critic"), _linear("value", inner.value))
        deviations = _floats(inner.log_std.exp())
        network = CNetwork(observation, normalization, actor, critic, parts, deviations)
    else:
        encoder = _convolutional(inner) if is_image else _linears(inner.encoder, "encoder")
        if type(inner) is Default and inner.one_hot is not None:
            encoder = (replace(encoder[0], cells=_ranges(inner.one_hot)), *encoder[1:])
        layers = (*encoder, *_recurrent(wrapper), _linear("head", inner.head.linear))
        deviations = _floats(inner.head.log_std.exp()) if inner.head.is_continuous else np.zeros(0, np.float32)
        network = CNetwork(observation, normalization, layers, (), parts, deviations, scale, shape, planes)
    return network


def _linears(modules: nn.Sequential, name: str) -> tuple[Linear, ...]:
    pairs = _with_activations(modules)
    return tuple(_linear(f"{name}_{index}", layer, activation) for index, (layer, activation) in enumerate(pairs))


def _with_activations(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, str]]:
    pairs: list[tuple[nn.Module, str]] = []
    for module in modules:
        if type(module) in _NOTHING:
            continue
        if type(module) not in ACTIVATIONS:
            pairs.append((module, ""))
        elif not pairs or pairs[-1][1] or getattr(module, "approximate", "none") != "none":
            raise ExportError(f"C has no layer for {type(module).__name__} where the policy has it; {_REMEDY}")
        else:
            pairs[-1] = pairs[-1][0], ACTIVATIONS[type(module)]
    return pairs


def _require(layer: nn.Module, kind: type[nn.Module]) -> None:
    if getattr(type(layer), "forward", None) is not kind.forward:
        found = type(layer).__name__
        raise ExportError(f"C needs a layer that is an nn.{kind.__name__} in its place, got {found}; {_REMEDY}")


def _linear(name: str, layer: nn.Linear, activation: str = "", blocks: int = 1) -> Linear:
    _require(layer, nn.Linear)
    weights = _padded(_floats(layer.weight.T), blocks)
    return Linear(name, weights, _padded(_bias(layer, layer.out_features), blocks), activation)


def _bias(layer: nn.Module, outputs: int) -> np.ndarray:
    return np.zeros(outputs, np.float32) if layer.bias is None else _floats(layer.bias)


def _ranges(one_hot: OneHot | OneHotPlanes) -> tuple[np.ndarray, np.ndarray]:
    lowest, highest = one_hot.lowest.cpu().numpy(), one_hot.highest.cpu().numpy()
    return lowest, np.concatenate([[0], np.cumsum(highest - lowest + 1)]).astype(np.int32)


def _convolutional(policy: Convolutional) -> tuple[Layer, ...]:
    # Channels come last in C, so that a row of a filter is one run in memory.
    convolutions, *after = policy.encoder
    pairs = _with_activations(list(convolutions)[:-1])  # without the one that flattens
    (_, height, width), channels = policy.image_shape, pairs[0][0].in_channels
    layers: list[Layer] = []
    for index, (module, activation) in enumerate(pairs):
        _require(module, nn.Conv2d)
        weights = np.zeros((*module.kernel_size, channels, module.out_channels), np.float32)
        weights[:, :, : module.in_channels] = _floats(module.weight.permute(2, 3, 1, 0))
        layer = Convolution(
            f"convolution_{index}",
            *(_padded(weights), _padded(_bias(module, module.out_channels))),
            *(height, width, module.stride[0], activation),
        )
        layers.append(layer)
        height, width, channels = layer.output_shape
    ((linear, activation),) = _with_activations(after)
    _require(linear, nn.Linear)
    weights = linear.weight.reshape(len(linear.weight), -1, height, width).permute(2, 3, 1, 0)
    flat = np.zeros((height, width, channels, len(linear.weight)), np.float32)
    flat[:, :, : weights.shape[2]] = _floats(weights)
    flat = _padded(flat.reshape(height * width * channels, -1))
    layers.append(Linear("encoder", flat, _padded(_bias(linear, linear.out_features)), activation))
    return tuple(layers)


def _recurrent(wrapper: nn.Module | None) -> tuple[Layer, ...]:
    if wrapper is None:
        return ()
    names = list(wrapper.initial_state(1))
    if isinstance(wrapper, MinGRUWrapper):
        return tuple(
            MinGRU(name, _linear(f"{name}_gates", layer, blocks=3))
            for name, layer in zip(names, wrapper.layers, strict=True)
        )
    return tuple(
        _lstm(hidden, memory, cell) for hidden, memory, cell in zip(names[::2], names[1::2], wrapper.cells, strict=True)
    )


def _lstm(hidden: str, memory: str, cell: nn.LSTMCell) -> LSTM:
    _require(cell, nn.LSTMCell)
    bias = np.zeros(4 * cell.hidden_size, np.float32) if cell.bias_ih is None else _floats(cell.bias_ih + cell.bias_hh)
    bias = _padded(bias, 4)
    inputs = Linear(f"{hidden}_input", _padded(_floats(cell.weight_ih.T), 4), bias)
    recurrent = Linear(f"{hidden}_recurrent", _padded(_floats(cell.weight_hh.T), 4), np.zeros_like(bias))
    return LSTM(hidden, memory, inputs, recurrent)


def _padded(array: np.ndarray, blocks: int = 1) -> np.ndarray:
    # Pads each of the `blocks` of the last dimension to a multiple of LANES.
    split = array.reshape(*array.shape[:-1], blocks, -1)
    padding = [(0, 0)] * (split.ndim - 1) + [(0, -split.shape[-1] % LANES)]
    return np.pad(split, padding).reshape(*array.shape[:-1], -1)


def _floats(tensor: Tensor) -> np.ndarray:
    array = tensor.detach().to(torch.float32).cpu().numpy()
    if not np.isfinite(array).all():
        raise ExportError("the policy's weights must be finite numbers, found infinity or NaN; take an earlier model")
    return array
