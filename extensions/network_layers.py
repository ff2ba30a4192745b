"""The layers of a policy, and the kernel's view of them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pufferlib.errors import APIUsageError
from pufferlib.extensions import cpu_library
from pufferlib.extensions.cpu_library import CONSTANTS, STRUCTURES, padded
from pufferlib.extensions.declarations import Structure

MAX_LAYERS = CONSTANTS["CHAIN_MAX_LAYERS"]
ACTIVATIONS = {name: CONSTANTS[f"ACTIVATION_{name.upper()}"] for name in ("linear", "relu", "tanh", "gelu")}


@dataclass(frozen=True)
class Normalizer:
    """Normalises observations before the first layer: (x - mean) / sqrt(variance + epsilon), clipped.

    Attributes:
        mean: one for each number of an observation, float64.
        variance: likewise.
        epsilon: added to the variance.
        clip: the largest absolute value.
    """

    mean: Tensor
    variance: Tensor
    epsilon: float
    clip: float

    def fit(self, inputs: int) -> bool:
        """Whether the kernel can apply it to observations of `inputs` numbers."""
        return all(
            tensor.dtype == torch.float64
            and tensor.device.type == "cpu"
            and tensor.is_contiguous()
            and tensor.numel() == inputs
            for tensor in (self.mean, self.variance)
        )


@dataclass(frozen=True)
class Categories:
    """Categories of the integers of an observation: the first layer has a column of weights for each.

    A convolution has a plane for each instead, and channels take the place of cells.

    Attributes:
        lowest: `(cells,)` int32, the value of each cell that its first column is for.
        counts: `(cells,)` int32, columns of each; those of the first cell come first.
    """

    lowest: Tensor
    counts: Tensor

    def fit(self, inputs: int) -> bool:
        """Whether the kernel can find them in a first layer of `inputs` columns."""
        return (
            all(tensor.dtype == torch.int32 and tensor.device.type == "cpu" for tensor in (self.lowest, self.counts))
            and self.lowest.shape == self.counts.shape == (len(self.counts),)
            and len(self.counts) > 0
            and self.counts.min().item() > 0
            and self.counts.sum().item() == inputs
            and -(2**30) < self.lowest.min().item() <= self.lowest.max().item() < 2**30  # so that no sum wraps
        )

    def columns(self) -> tuple[Tensor, Tensor]:
        """The first and the last column of each cell, `(cells,)` int32."""
        ends = self.counts.cumsum(0).int()
        return ends - self.counts, ends - 1


class LSTMLayer(NamedTuple):
    """The parameters of an LSTM layer, as torch has them: rows of input, forget, candidate and output gate.

    Attributes:
        input_weight: `(4 * width, width)`, what the input is multiplied by.
        hidden_weight: likewise, the hidden state.
        input_bias: `(4 * width,)` or None, as is the next one.
        hidden_bias: added to the same sums.
    """

    input_weight: Tensor
    hidden_weight: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None


class ConvolutionLayer(NamedTuple):
    """The parameters of a convolution without padding, as torch has them, with a ReLU after it.

    Attributes:
        weight: `(filters, channels, size, size)`.
        bias: `(filters,)` or None.
        stride: pixels from one place of a filter to the next.
    """

    weight: Tensor
    bias: Tensor | None
    stride: int


@dataclass(frozen=True)
class Layers:
    """The layers of a policy with torch's parameters; `fit` says whether the kernel takes them.

    Attributes:
        encoder: weight `(width, inputs)` and bias `(width,)` of every linear layer, at least one.
        activation: after each of them, one of ACTIVATIONS.
        recurrent: weights `(3 * width, width)` of every MinGRU layer: candidates, gates, highways; none beside an LSTM.
        head: weight `(sum(parts) + 1, width)` and bias; the value is the last row, which is missing where there is a
            critic.
        parts: logits of every part of a decision; 1 for each number of a normal distribution.
        log_std: `(len(parts),)`, the logarithms of the deviations of numbers, whose means the head gives; None where
            the parts are choices.
        critic: layers of the value's own, without parts and without recurrence; None where it is the head's last row.
        normalizer: of the observations; None where the layers see them as they are.
        categories: of the observations, which are not normalised then; None where the layers see them as numbers.
        lstm: every LSTM layer.
        convolutions: before the encoder, which reads the result of the last one, channel after channel. There is no
            critic then, and bytes that are neither categories nor normalised are divided by 255.
        image_shape: channels, height and width of an observation, where there are convolutions.
    """

    encoder: Sequence[tuple[Tensor, Tensor | None]]
    activation: str
    recurrent: Sequence[Tensor]
    head: tuple[Tensor, Tensor | None]
    parts: Sequence[int]
    log_std: Tensor | None = None
    critic: Layers | None = None
    normalizer: Normalizer | None = None
    categories: Categories | None = None
    lstm: Sequence[LSTMLayer] = ()
    convolutions: Sequence[ConvolutionLayer] = ()
    image_shape: tuple[int, int, int] = (0, 0, 0)

    @property
    def numbers(self) -> int:
        """Of an observation."""
        if self.convolutions:
            return math.prod(self.image_shape)
        return self.encoder[0][0].shape[1] if self.categories is None else len(self.categories.counts)

    @property
    def num_states(self) -> int:
        """One for each MinGRU layer, the hidden state and the memory of each LSTM layer."""
        return len(self.recurrent) + 2 * len(self.lstm)

    def weights(self) -> list[Tensor]:
        """Of all layers in their order, without the critic's."""
        convolutions = [layer.weight for layer in self.convolutions]
        lstm = [weight for layer in self.lstm for weight in (layer.input_weight, layer.hidden_weight)]
        return [*convolutions, *(weight for weight, _ in self.encoder), *self.recurrent, *lstm, self.head[0]]

    def biases(self) -> list[Tensor | None]:
        """Of the convolutions, the encoder's layers, the LSTM's and the head."""
        convolutions = [layer.bias for layer in self.convolutions]
        lstm = [bias for layer in self.lstm for bias in (layer.input_bias, layer.hidden_bias)]
        return [*convolutions, *(bias for _, bias in self.encoder), *lstm, self.head[1]]

    def parameters(self) -> list[Tensor]:
        """The weights of all layers, then the biases that there are, without the critic's."""
        return self.weights() + [bias for bias in self.biases() if bias is not None]

    def all_parameters(self) -> list[Tensor]:
        """Those of `parameters`, then the critic's, then `log_std`: in the order of Network.parameters."""
        critic = [] if self.critic is None else self.critic.parameters()
        return [*self.parameters(), *critic, *([] if self.log_std is None else [self.log_std])]

    def fit(self, device: str = "cpu") -> bool:
        """Whether a kernel can compute them: it reads and writes every parameter at exactly the size it should have.

        Torch is more generous: it stretches a bias of one number over a whole layer.

        Args:
            device: where the parameters must be; those of other parts than layers are in the CPU's memory anyway.
        """
        tensors = [*self.parameters(), *([] if self.log_std is None else [self.log_std])]
        return (
            all(_is_plain(tensor, device) for tensor in tensors)
            and self.activation in ACTIVATIONS
            and max(len(self.convolutions), len(self.encoder), len(self.recurrent), len(self.lstm)) <= MAX_LAYERS
            and not (self.recurrent and self.lstm)
            and self._are_shaped()
            and (self.log_std is None or self.log_std.shape == (len(self.parts),) == (sum(self.parts),))
            and (self.normalizer is None or self.normalizer.fit(self.numbers))
            and (self.categories is None or self._fit_categories(self.categories))
            and (self.categories is None or self.normalizer is None)
            and (self.critic is None or self.critic._fit_as_critic(self.encoder[0][0].shape[1]))
            and not (self.critic and self.convolutions)
        )

    def _fit_categories(self, categories: Categories) -> bool:
        if not self.convolutions:
            return categories.fit(self.encoder[0][0].shape[1])
        channels = self.convolutions[0].weight.shape[1]
        return categories.fit(channels) and len(categories.counts) == self.image_shape[0]

    def _are_shaped(self) -> bool:
        # Whether the shapes follow from those of the first layer.
        if not self.encoder or self.encoder[0][0].dim() != 2:
            return False
        width, inputs = self.encoder[0][0].shape
        if self.convolutions and inputs != self._features():
            return False
        outputs, layers = sum(self.parts) + (self.critic is None), len(self.encoder)
        weights = [*(layer.weight.shape for layer in self.convolutions), (width, inputs)]
        weights += [(width, width)] * (layers - 1)
        weights += [(3 * width, width)] * len(self.recurrent) + [(4 * width, width)] * (2 * len(self.lstm))
        biases = [(len(layer.weight),) for layer in self.convolutions]
        biases += [(width,)] * layers + [(4 * width,)] * (2 * len(self.lstm)) + [(outputs,)]
        return (
            width > 0
            and [weight.shape for weight in self.weights()] == [*weights, (outputs, width)]
            and all(bias is None or bias.shape == shape for bias, shape in zip(self.biases(), biases, strict=True))
        )

    def _features(self) -> int | None:
        # Numbers that the convolutions make of an image; None where their shapes do not follow from one another.
        channels, height, width = self.image_shape
        if self.categories is not None:
            channels = int(self.categories.counts.sum())
        for weight, _, stride in self.convolutions:
            if weight.dim() != 4 or 0 in weight.shape or stride < 1:
                return None
            size = weight.shape[2]
            if weight.shape[1:] != (channels, size, size) or size > min(height, width):
                return None
            height, width, channels = *_convolved(height, width, size, stride), len(weight)
        return channels * height * width

    def _fit_as_critic(self, inputs: int) -> bool:
        is_plain = self.log_std is self.critic is self.normalizer is self.categories is None
        is_value = self.num_states == 0 and not self.parts and not self.convolutions
        return is_plain and is_value and self.fit() and self.encoder[0][0].shape[1] == inputs


def _convolved(height: int, width: int, size: int, stride: int) -> tuple[int, int]:
    # As convolution_layer.h has it.
    return (height - size) // stride + 1, (width - size) // stride + 1


def _is_plain(tensor: Tensor, device: str) -> bool:
    return (
        tensor.dtype == torch.float32
        and tensor.device.type == device
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
    )


class Chain:
    """The kernel's view of layers that follow each other, and memory for what it makes of them.

    Attributes:
        structure: what the kernel takes.
    """

    def __init__(self, layers: Layers, gradients: Sequence[Tensor], cells: int, products: int):
        """`layers.fit()` must hold; their critic is a chain of its own.

        Args:
            layers: of this chain.
            gradients: of `layers.parameters()`, to be written by the kernel; contiguous.
            cells: of an observation of categories; 0 where it is one of numbers.
            products: what factors are rounded to, a constant of cpu_kernels.h.
        """
        self._weights, self._biases, self._parameters = layers.weights(), layers.biases(), layers.parameters()
        weight_results = gradients[: len(self._weights)]
        others = iter(gradients[len(self._weights) :])
        bias_results = [None if bias is None else next(others) for bias in self._biases]
        self._addresses: list[int] = []
        self._pointers = [_pointers(tensors) for tensors in (self._weights, self._biases, weight_results, bias_results)]
        convolutions = _describe_convolutions(layers)
        first = [ctypes.addressof(pointers) for pointers in self._pointers]
        after = [address + len(convolutions) * ctypes.sizeof(ctypes.c_void_p) for address in first]
        width, inputs = layers.encoder[0][0].shape
        if convolutions:  # the kernel pads the filters of the last result
            inputs = inputs // convolutions[-1].filters * padded(convolutions[-1].filters)
        outputs = len(layers.head[0])
        self.structure = STRUCTURES["Chain"](
            num_convolutions=len(convolutions),
            convolutions=(STRUCTURES["Convolution"] * MAX_LAYERS)(*convolutions),
            inputs=inputs,
            padded_inputs=padded(inputs),
            cells=cells,
            units=width,
            width=padded(width),
            encoder_layers=len(layers.encoder),
            activation=ACTIVATIONS[layers.activation],
            recurrent_layers=len(layers.recurrent) + len(layers.lstm),
            recurrence=CONSTANTS["RECURRENCE_LSTM" if layers.lstm else "RECURRENCE_MINGRU"],
            outputs=outputs,
            padded_outputs=padded(outputs),
            products=products,
            **dict(zip(("weights", "biases", "weight_results", "bias_results"), after, strict=True)),
            convolution_weights=first[0],
            convolution_biases=first[1],
            convolution_weight_results=first[2],
            convolution_bias_results=first[3],
            packed=None,
        )
        size = ctypes.c_int64()
        cpu_library.library().puffer_chain_size(ctypes.addressof(self.structure), ctypes.addressof(size))
        self._packed = torch.empty(size.value)
        self.structure.packed = self._packed.data_ptr()

    def has_moved(self) -> bool:
        """Whether a parameter lies elsewhere than at the last `find_parameters`."""
        return [tensor.data_ptr() for tensor in self._parameters] != self._addresses

    def find_parameters(self) -> None:
        """Points the kernel to the parameters where they lie now."""
        self._addresses = [tensor.data_ptr() for tensor in self._parameters]
        for pointers, tensors in zip(self._pointers[:2], (self._weights, self._biases), strict=True):
            for index, tensor in enumerate(tensors):
                pointers[index] = None if tensor is None else tensor.data_ptr()


def _describe_convolutions(layers: Layers) -> list[Structure]:
    _, height, width = layers.image_shape
    described = []
    for weight, _, stride in layers.convolutions:
        filters, channels, size, _ = weight.shape
        shape = {"channels": channels, "height": height, "width": width}
        described.append(STRUCTURES["Convolution"](**shape, filters=filters, size=size, stride=stride))
        height, width = _convolved(height, width, size, stride)
    return described


def check_layers(layers: Layers) -> None:
    """Lets layers pass that fit the kernel.

    Raises:
        APIUsageError: if they do not.
    """
    if not layers.fit():
        raise APIUsageError(
            f"a network needs float32 layers on a CPU of one width, at most {MAX_LAYERS} of a kind, convolutions of "
            f"square filters that fit their images, and an activation of {', '.join(ACTIVATIONS)}, got images "
            f"{layers.image_shape}, {layers.activation!r} and weights "
            f"{[tuple(weight.shape) for weight in layers.weights()]}; use the torch modules instead"
        )


def _pointers(tensors: Sequence[Tensor | None]) -> ctypes.Array:
    return (ctypes.c_void_p * len(tensors))(*(None if tensor is None else tensor.data_ptr() for tensor in tensors))
