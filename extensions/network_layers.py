"""The layers of a policy, as the kernels compute them: a list, in which each reads what earlier ones give.

A kind of layer is a class here and a struct of a header, as norm_layer.h; cpu_kernels.h and network.h list them. Fields
that are tensors and fractions are handed to the kernel in their order, and other numbers by `sizes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.extensions.cpu_library import CONSTANTS

Shape = tuple[int, ...]
"""Of a row of a value: `(numbers,)`, `(numbers, entities)`, or `(channels, height, width)` of an image."""

ACTIVATIONS = {
    name.removeprefix("ACTIVATION_").lower(): number
    for name, number in CONSTANTS.items()
    if name.startswith("ACTIVATION_")
}


@dataclass(frozen=True)
class Normalizer:
    """Normalises observations before the first layer: (x - mean) / sqrt(variance + epsilon), clipped."""

    mean: Tensor  # one for each number of an observation, float64
    variance: Tensor  # likewise
    epsilon: float  # added to the variance
    clip: float  # the largest absolute value

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
    """

    lowest: Tensor  # `(cells,)` int32, the value of each cell that its first column is for
    counts: Tensor  # `(cells,)` int32, columns of each; those of the first cell come first

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


@dataclass(frozen=True)
class Layer:
    """One layer with torch's parameters."""

    inputs: tuple[int, ...]  # the values that it reads: 0 is the observation, i + 1 what layer i of the list gives

    num_states: ClassVar[int] = 0
    is_step_by_step: ClassVar[bool] = False  # whether its rows lie step by step, else sequence by sequence
    is_image: ClassVar[bool] = False  # whether a few rows at a time go through it: then it keeps nothing of a row

    def reads(self, shape: Shape, categories: Categories | None) -> bool:
        """Whether it reads observations of this shape as they are: numbers, or categories."""
        return categories is None and len(shape) == 1  # pixels of an observation lie otherwise than those of layers

    @property
    def kind(self) -> str:
        """As the kernel's LAYER_ constants have it."""
        return type(self).__name__.removesuffix("Layer").upper()

    def parameters(self) -> tuple[Tensor | None, ...]:
        """Its tensors, in the order of its header; None for a bias that is missing."""
        return tuple(getattr(self, each.name) for each in fields(self) if each.type in ("Tensor", "Tensor | None"))

    @property
    def numbers(self) -> tuple[float, ...]:
        """Its fractions, as its header has them; those that are missing are 0."""
        return tuple(getattr(self, each.name) for each in fields(self) if each.type == "float")

    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        """The shape of its result for inputs of these shapes; None where they do not fit its parameters."""
        return shapes[0]

    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        """As its header has them."""
        return ()


@dataclass(frozen=True)
class Linear(Layer):
    """A linear layer and its activation."""

    weight: Tensor  # `(outputs, inputs)`; of an image, one channel after the other
    bias: Tensor | None  # `(outputs,)` or None
    activation: str = "linear"  # one of ACTIVATIONS
    of_each: bool = field(default=False, kw_only=True)  # whether it is applied to the numbers of each entity

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        entities = shapes[0][1:] if self.of_each else ()
        expected = (len(self.weight), math.prod(shapes[0]) // math.prod(entities))
        are_shaped = self.weight.shape == expected and _is_of(self.bias, expected[:1])
        return (*expected[:1], *entities) if are_shaped else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        units, *image = shapes[0]
        pixels, times = (1, math.prod(image)) if self.of_each else (math.prod(image), 1)
        return units, pixels, len(self.weight), ACTIVATIONS[self.activation], times


@dataclass(frozen=True)
class OneHotLinear(Linear):
    """A linear layer on the categories of an observation, and its activation."""

    cells: int = 0  # of an observation

    kind = "ONE_HOT"

    @override
    def reads(self, shape: Shape, categories: Categories | None) -> bool:
        return self.inputs == (0,) and categories is not None and shape == (self.cells,)

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return shapes[0][0], self.cells, len(self.weight), ACTIVATIONS[self.activation], 1


@dataclass(frozen=True)
class Convolution(Layer):
    """A convolution. Numbers of pixels are one for both directions, or `(down, to the right)`."""

    weight: Tensor  # `(filters, channels of a group, height, width)`, or without height for images of one line
    bias: Tensor | None  # `(filters,)` or None
    stride: int | tuple[int, int]  # pixels from one place of a filter to the next
    # Channels of the observation, where it reads that; of categories, whose planes it sees instead, 1 each
    observed: int = 0
    is_of_categories: bool = False  # whether the observation is of categories
    is_rectified: bool = True  # whether a ReLU follows
    padding: int | tuple[int, int] = 0  # pixels of zeros around what it reads; none around categories
    dilation: int | tuple[int, int] = 1  # pixels from one number of a filter to the next
    groups: int = 1  # of channels, each of which as many filters see

    is_image = True

    @override
    def reads(self, shape: Shape, categories: Categories | None) -> bool:
        return len(shape) == 3 and shape[0] == self.observed and self.is_of_categories == (categories is not None)

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        steps = (*_pair(self.stride), *_pair(self.dilation), self.groups)
        if len(shapes[0]) != 3 or self.weight.dim() not in (3, 4) or 0 in self.weight.shape or min(steps) < 1:
            return None
        (filters, of_group, *size), (channels, *edges) = self.weight.shape, shapes[0]
        if of_group * self.groups != channels or filters % self.groups or not _is_of(self.bias, (filters,)):
            return None
        if any(_pair(self.padding)) and self.is_of_categories:
            return None
        whole = [(each - 1) * step + 1 for each, step in zip([1, *size][-2:], _pair(self.dilation), strict=True)]
        return _windows((filters, *edges), tuple(whole), self.stride, self.padding)

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        filters, _, *size = self.weight.shape
        flags = self.observed, int(self.is_of_categories), int(self.is_rectified)
        pairs = *[1, *size][-2:], *_pair(self.stride), *_pair(self.padding)
        return *shapes[0], filters, *pairs, *flags, *_pair(self.dilation), self.groups


def _pair(number: int | tuple[int, int]) -> tuple[int, int]:
    return number if isinstance(number, tuple) else (number, number)


def _windows(
    shape: Shape, size: int | tuple[int, int], stride: int | tuple[int, int], padding: int | tuple[int, int]
) -> Shape | None:
    # The shape of an image whose pixels are windows of one of this shape; None where they do not fit.
    channels, *edges = shape
    found = list(zip(edges, _pair(size), _pair(stride), _pair(padding), strict=True))
    if not all(0 <= around < window <= edge + 2 * around for edge, window, _, around in found):
        return None
    return channels, *((edge + 2 * around - window) // step + 1 for edge, window, step, around in found)


@dataclass(frozen=True)
class Pool(Layer):
    """The largest number, or the mean, of windows of an image, or of all entities."""

    size: int | tuple[int, int]  # of the windows
    stride: int | tuple[int, int]  # pixels from one to the next
    # Pixels around the image, which are never the largest, and zeros in a mean; at most half of the size
    padding: int | tuple[int, int]
    is_largest: bool  # whether the largest is taken

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        if len(shapes[0]) == 2:
            return shapes[0][:1] if _pair(self.size) == (shapes[0][1], 1) and not any(_pair(self.padding)) else None
        are_small = all(2 * a <= size for a, size in zip(_pair(self.padding), _pair(self.size), strict=True))
        if len(shapes[0]) != 3 or min(*_pair(self.size), *_pair(self.stride)) < 1 or not are_small:
            return None
        return _windows(shapes[0], self.size, self.stride, self.padding)

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        pairs = *_pair(self.size), *_pair(self.stride), *_pair(self.padding)
        return *(*shapes[0], 1)[:3], *pairs, int(self.is_largest)


@dataclass(frozen=True)
class MinGRU(Layer):
    """A MinGRU layer of as many units as its input has numbers."""

    weight: Tensor  # `(3 * units, units)`: candidates, gates, highways

    num_states = 1

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        (units, *image) = shapes[0]
        return (units,) if not image and self.weight.shape == (3 * units, units) else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return (shapes[0][0],)


@dataclass(frozen=True)
class LSTM(Layer):
    """An LSTM layer, as torch.nn.LSTMCell has it: rows of input, forget, candidate and output gate.

    Its states are the hidden state and the memory.
    """

    input_weight: Tensor  # `(4 * units, inputs)`
    hidden_weight: Tensor  # `(4 * units, units)`
    input_bias: Tensor | None  # `(4 * units,)` or None, as is the next one
    hidden_bias: Tensor | None  # added to the same sums

    num_states = 2
    is_step_by_step = True
    gates: ClassVar[int] = 4

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        if self.hidden_weight.dim() != 2 or len(shapes[0]) != 1:
            return None
        units = self.hidden_weight.shape[1]
        rows, biases = self.gates * units, (self.input_bias, self.hidden_bias)
        are_shaped = self.hidden_weight.shape == (rows, units) and self.input_weight.shape == (rows, *shapes[0])
        return (units,) if units and are_shaped and all(_is_of(bias, (rows,)) for bias in biases) else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return shapes[0][0], self.hidden_weight.shape[1]


@dataclass(frozen=True)
class GRU(LSTM):
    """A GRU layer, as torch.nn.GRUCell has it: rows of reset gate, update gate and candidate; the rest as of LSTM."""

    num_states = 1
    gates = 3


@dataclass(frozen=True)
class StateLayer(Layer):
    """An entry of the recurrent state: what another layer left in it in the step before, 0 where an episode begins.

    It may read a value of a later layer, which reads this one: the layers between them are a loop. `Layers.in_loops`
    orders them.
    """

    units: int  # numbers of the entry

    num_states = 1
    is_step_by_step = True

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        return (self.units,) if self.units > 0 else None


@dataclass(frozen=True)
class Norm(Layer):
    """RMSNorm, or LayerNorm where it `is_centered`, of all numbers of a row."""

    weight: Tensor | None  # `(numbers,)` or None, as is the next one
    bias: Tensor | None  # added at the end
    epsilon: float  # added to the mean of the squares
    is_centered: bool  # whether the mean is subtracted
    of_each: bool = False  # whether the numbers of each entity are normalised apart

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        units = shapes[0][:1]
        is_known = self.of_each or len(shapes[0]) == 1
        return shapes[0] if is_known and _is_of(self.weight, units) and _is_of(self.bias, units) else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return shapes[0][0], int(self.is_centered), math.prod(shapes[0][1:])


@dataclass(frozen=True)
class Activation(Layer):
    """An activation by itself."""

    activation: str  # one of ACTIVATIONS, but not linear

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        return None if self.activation == "linear" else shapes[0]

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return (ACTIVATIONS[self.activation],)


@dataclass(frozen=True)
class Add(Layer):
    """The sum of its inputs, all of one shape."""

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        return shapes[0] if len(set(shapes)) == 1 else None


@dataclass(frozen=True)
class Multiply(Add):
    """The product of two inputs of one shape."""

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        return super().result(shapes) if len(shapes) == 2 else None


@dataclass(frozen=True)
class Affine(Layer):
    """A number times its input, plus another number."""

    factor: float
    term: float  # is added


@dataclass(frozen=True)
class Concatenate(Layer):
    """Parts of its inputs side by side: of images, their channels."""

    parts: tuple[tuple[int, int], ...]  # of each input, the first number or channel, and how many

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        if len({shape[1:] for shape in shapes}) != 1 or len(shapes) != len(self.parts):
            return None
        are_inside = all(
            0 <= first < first + count <= shape[0] for (first, count), shape in zip(self.parts, shapes, strict=True)
        )
        return (sum(count for _, count in self.parts), *shapes[0][1:]) if are_inside else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return math.prod(shapes[0][1:]), *(number for part in self.parts for number in part)


@dataclass(frozen=True)
class Scale(Layer):
    """Every number times a weight or divided by it, plus or minus a bias; one number of these stands for all."""

    # `(numbers,)`, or any shape of as many numbers, or one number; None for 1, as is the next one for 0
    weight: Tensor | None
    bias: Tensor | None  # added at the end
    power: float = 1.0  # 1, or -1 for a division
    sign: float = 1.0  # 1, or -1 for a subtraction

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        are_shaped = all(each is None or each.numel() in (1, shapes[0][0]) for each in self.parameters())
        return shapes[0] if are_shaped else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        counts = (0 if each is None else each.numel() for each in self.parameters())
        return shapes[0][0], math.prod(shapes[0][1:]), *counts


@dataclass(frozen=True)
class Compare(Layer):
    """1 where a number compares so with another one, else 0; without a gradient."""

    how: str  # such as GREATER_EQUAL, of the kernel's COMPARE_ constants
    other: float  # the other number

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return (CONSTANTS[f"COMPARE_{self.how}"],)


@dataclass(frozen=True)
class Arrange(Layer):
    """The numbers of a row as those of entities or an image, or the other way round, in torch's order."""

    shape: Shape  # of the result; of an image, the row has one channel after the other
    has_channels_last: bool = False  # whether the row has one pixel of that image after the other instead

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        is_row_there = 1 in (len(shapes[0]), len(self.shape))
        is_known = is_row_there and (len(self.shape) == 3 or not self.has_channels_last)
        return self.shape if is_known and math.prod(self.shape) == math.prod(shapes[0]) else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        makes_row = len(self.shape) == 1
        units, *image = shapes[0] if makes_row else self.shape
        return units, math.prod(image), int(len(image) == 2 and not self.has_channels_last), int(makes_row)


@dataclass(frozen=True)
class Features(Layer):
    """Each number of the observation times a factor; of one that is a category, 0 and 1 for every category.

    A category outside of those is 0 for all. Its tensors are constants.
    """

    factors: Tensor  # `(numbers,)`, of those that are no categories
    lowest: Tensor  # `(numbers,)`, the first category
    counts: Tensor  # `(numbers,)`, how many categories; 0 for a number that is none

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        are_shaped = self.inputs == (0,) and all(tensor.shape == shapes[0] for tensor in self.parameters())
        width = int(self.counts.clamp(min=1).sum()) if are_shaped and self.counts.min() >= 0 else 0
        are_exact = max(width, self.lowest.abs().max()) < 2**24  # in float32
        return (width,) if width > 0 and are_exact else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return shapes[0]


@dataclass(frozen=True)
class Embedding(Layer):
    """The row of a table that each number of a row stands for; NaN for a number that is none of its rows."""

    weight: Tensor  # the table, `(rows, numbers)`

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        if len(shapes[0]) != 1 or self.weight.dim() != 2 or 0 in self.weight.shape or len(self.weight) >= 2**24:
            return None
        return (self.weight.shape[1], *(shapes[0] if shapes[0][0] > 1 else ()))

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        return self.weight.shape[1], shapes[0][0], len(self.weight)


@dataclass(frozen=True)
class Attention(Layer):
    """softmax(scale q k^T) v of entities, for heads whose numbers lie side by side in an entity.

    Its inputs are q, k, v, and perhaps what is visible: above 0.5 for each key, or for each key of each query.
    """

    heads: int  # of q, k and v
    scale: float  # of the scores
    hidden_score: float = -math.inf  # of what is not visible
    is_safe: bool = False  # whether a query that sees nothing gets zeros, else NaN

    @override
    def result(self, shapes: Sequence[Shape]) -> Shape | None:
        if not 3 <= len(shapes) <= 4 or any(len(shape) != 2 for shape in shapes[:3]):
            return None
        (units, queries), (_, keys), (numbers, _), *mask = shapes
        are_alike = shapes[1] == (units, keys) and shapes[2] == (numbers, keys)
        is_masked = not mask or mask[0] in ((keys,), (keys, queries))
        are_divisible = units % self.heads == numbers % self.heads == 0
        return (numbers, queries) if are_alike and is_masked and are_divisible else None

    @override
    def sizes(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        (units, queries), (_, keys), (numbers, _), *mask = shapes
        flags = bool(mask), bool(mask) and len(mask[0]) == 2, self.is_safe
        return self.heads, units // self.heads, numbers // self.heads, queries, keys, *map(int, flags)


def _is_of(tensor: Tensor | None, shape: Shape) -> bool:
    return tensor is None or tensor.shape == shape


@dataclass(frozen=True)
class Fields:
    """The numbers of observations that are rows of bytes, in their order."""

    places: Sequence[tuple[torch.dtype, int, int]]  # dtype, first byte and count of numbers that lie side by side
    row_bytes: int  # of an observation

    def fit(self, numbers: int) -> bool:
        """Whether they lie inside of the bytes, and are so many."""
        ends = [first + count * dtype.itemsize for dtype, first, count in self.places]
        are_inside = all(first >= 0 for _, first, _ in self.places) and max(ends) <= self.row_bytes
        return are_inside and sum(count for _, _, count in self.places) == numbers


@dataclass(frozen=True)
class Layers:
    """The layers of a policy; `fit` says whether the kernel takes them."""

    layers: Sequence[Layer]  # in the order in which they are computed
    shape: Shape  # of an observation; of one of categories `(cells,)`, or that of an image
    parts: Sequence[int]  # logits of every part of a decision; 1 for each number of a normal distribution
    decision: int  # the value of which the first numbers are the logits of all parts, or the means
    value: int  # the value that holds the value of the state
    value_place: int  # which number of it
    # `len(parts)` logarithms of the deviations of numbers; None where the parts are choices
    log_std: Tensor | None = None
    normalizer: Normalizer | None = None  # of the observations; None where the layers see them as they are
    # Of the observations, which are not normalised then; None where the layers see them as numbers
    categories: Categories | None = None
    # Whether observations of integers that are neither categories nor normalised are divided by 255
    divides_integers: bool = False
    # Whether observations are bytes that the layers see as they are, which bfloat16 has all digits of
    are_bytes: bool = False
    # Whether observations are images of which a row has one pixel after the other; `shape` has channels first then, too
    has_channels_last: bool = False
    constants: Sequence[Tensor] = ()  # tensors of the layers that have no gradient
    # Of the observations, which are neither categories nor normalised then; None where rows hold numbers
    fields: Fields | None = None
    # Of each state of the layers, in their order, the entry of the policy's state and the first number there; None
    # where each is an entry of its own, in this order
    state_places: Sequence[tuple[int, int]] | None = None

    @property
    def numbers(self) -> int:
        """Of an observation."""
        return math.prod(self.shape)

    @property
    def num_states(self) -> int:
        """One for each MinGRU, GRU or state layer, the hidden state and the memory of each LSTM layer."""
        return sum(layer.num_states for layer in self.layers)

    @property
    def is_step_by_step(self) -> bool:
        """Whether rows of a block lie step by step."""
        return any(layer.is_step_by_step for layer in self.layers)

    def tensors(self) -> list[Tensor]:
        """Matrices and filters of all layers, then their biases, then `log_std`; one that layers share stands once."""
        found = [tensor for layer in self.layers for tensor in layer.parameters() if tensor is not None]
        biases = [tensor for tensor in found if tensor.dim() < 2]
        weights = [tensor for tensor in found if tensor.dim() >= 2]
        log_std = [] if self.log_std is None else [self.log_std]
        return list({id(tensor): tensor for tensor in (*weights, *biases, *log_std)}.values())

    def parameters(self) -> list[Tensor]:
        """The tensors that have a gradient."""
        constants = set(map(id, self.constants))
        return [tensor for tensor in self.tensors() if id(tensor) not in constants]

    def shapes(self) -> list[Shape | None]:
        """Those of all values; None from the first layer on whose parameters do not fit its inputs."""
        shapes: list[Shape | None] = [self.shape]
        if self.categories is not None:
            shapes = [(int(self.categories.counts.sum()), *self.shape[1:])]
        for index, layer in enumerate(self.layers):
            are_before = all(0 <= value <= index for value in layer.inputs)
            given = [shapes[value] for value in layer.inputs] if are_before else [None]
            if isinstance(layer, StateLayer):
                given = [(layer.units,)]
            shapes.append(None if None in given else layer.result(given))
        return shapes

    def loops(self) -> list[int]:
        """Of each layer 0, or the number of the loop that it is part of: it needs its own result of the step before."""
        return [min(each) + 1 if index in each else 0 for index, each in enumerate(self._circles())]

    def _circles(self) -> list[set[int]]:
        # Of each layer those that it needs and that need it.
        last = len(self.layers)
        needs = [{value - 1 for value in layer.inputs if 0 < value <= last} for layer in self.layers]
        for middle, of_middle in enumerate(needs):
            for each in needs:
                each |= of_middle if middle in each else set()
        return [{other for other in each if index in needs[other]} for index, each in enumerate(needs)]

    def in_loops(self) -> Layers:
        """The same with the layers of each loop side by side, and without those that change no result and no state."""
        circles, order = self._circles(), []
        wanted = [self.decision, self.value, *(i + 1 for i, layer in enumerate(self.layers) if layer.num_states)]
        for value in wanted:  # which grows meanwhile
            wanted += [each for each in self.layers[value - 1].inputs if each > 0 and each not in wanted]
        left = sorted({value - 1 for value in wanted})
        while left:
            for index in left:
                group = sorted({index, *circles[index]})
                needed = {value - 1 for each in group for value in self.layers[each].inputs}
                if needed.isdisjoint(set(left) - set(group)):
                    break
            order += group
            left = [each for each in left if each not in group]
        places = {0: 0, **{index + 1: place + 1 for place, index in enumerate(order)}}
        layers = [self.layers[index] for index in order]
        all_places, of_layers = iter(self.state_places or ()), []
        for layer in self.layers:
            of_layers.append([next(all_places) for _ in range(layer.num_states if self.state_places else 0)])
        return replace(
            self,
            state_places=[place for index in order for place in of_layers[index]] if self.state_places else None,
            layers=[replace(layer, inputs=tuple(places[value] for value in layer.inputs)) for layer in layers],
            decision=places[self.decision],
            value=places[self.value],
        )

    def states_of(self, entries: Iterable[Tensor]) -> list[Tensor]:
        """The layers' states, out of those of the policy, `(rows, ...)` each: views of them."""
        entries = list(entries)
        if self.state_places is None:
            return entries
        places = zip(self.state_places, self.state_sizes(), strict=True)
        rows = [entry.unsqueeze(1).flatten(1) for entry in entries]
        return [rows[entry].narrow(1, first, size) for (entry, first), size in places]

    def state_sizes(self) -> list[int]:
        """Numbers of each state, in the order of the layers."""
        return [
            shape[0]
            for layer, shape in zip(self.layers, self.shapes()[1:], strict=True)
            for _ in range(layer.num_states)
        ]

    def fit(self, device: str = "cpu") -> bool:
        """Whether a kernel can compute them: it reads and writes every parameter at exactly the size it should have.

        Torch is more generous: it stretches a bias of one number over a whole layer.

        Args:
            device: where the parameters must be; those of other parts than layers are in the CPU's memory anyway.
        """
        return (
            all(_is_plain(tensor, device) for tensor in self.tensors())
            and all(getattr(layer, "activation", "linear") in ACTIVATIONS for layer in self.layers)
            and 0 < len(self.layers) <= CONSTANTS["NETWORK_MAX_LAYERS"]
            and all(0 < len(layer.inputs) <= CONSTANTS["LAYER_MAX_INPUTS"] for layer in self.layers)
            and self.num_states <= CONSTANTS["NETWORK_MAX_STATES"]
            and len({layer.is_step_by_step for layer in self.layers if layer.num_states}) < 2
            and self._are_in_loops()
            and self._are_shaped()
            and all(layer.reads(self.shape, self.categories) for layer in self.layers if 0 in layer.inputs)
            and (self.log_std is None or self.log_std.numel() == len(self.parts) == sum(self.parts))
            and (self.normalizer is None or self.normalizer.fit(self.numbers))
            and (self.categories is None or self.normalizer is None)
            and (self.fields is None or (self._sees_numbers() and self.fields.fit(self.numbers)))
            and (not self.has_channels_last or (len(self.shape) == 3 and self.fields is None))
        )

    def _sees_numbers(self) -> bool:
        return self.categories is None and self.normalizer is None and not self.divides_integers

    def _are_in_loops(self) -> bool:
        # Whether layers of a loop stand together and can be computed step by step, and other states come after theirs.
        loops = self.loops()
        runs = [loop for index, loop in enumerate(loops) if loop and loops[index - 1 : index] != [loop]]
        return len(runs) == len(set(runs)) and all(
            not (loop and (layer.is_image or (layer.num_states and not isinstance(layer, StateLayer))))
            and (bool(loop) or not isinstance(layer, StateLayer) or layer.inputs[0] <= index)
            for index, (layer, loop) in enumerate(zip(self.layers, loops, strict=True))
        )

    def _are_shaped(self) -> bool:
        shapes, categories = self.shapes(), self.categories
        if None in shapes or any(0 in shape for shape in shapes):
            return False
        states = [layer for layer in self.layers if isinstance(layer, StateLayer)]
        if any(layer.inputs[0] >= len(shapes) or shapes[layer.inputs[0]] != (layer.units,) for layer in states):
            return False
        is_known = categories is None or (categories.fit(shapes[0][0]) and len(categories.counts) == self.shape[0])
        has_value = self.value_place < shapes[self.value][0] and 0 not in (self.value, self.decision)
        has_value = has_value and not (self.value == self.decision and self.value_place < sum(self.parts))
        read = {self.decision, self.value, *(value for layer in self.layers for value in layer.inputs)}
        are_read = read >= set(range(1, len(shapes)))
        return is_known and has_value and are_read and sum(self.parts) <= shapes[self.decision][0]


def _is_plain(tensor: Tensor, device: str) -> bool:
    return (
        tensor.dtype == torch.float32
        and tensor.device.type == device
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
    )


def check_layers(layers: Layers) -> None:
    """Raises an APIUsageError unless layers fit the kernel."""
    if not layers.fit():
        found = ", ".join(
            f"{type(layer).__name__} {[tuple(tensor.shape) for tensor in layer.parameters() if tensor is not None]}"
            for layer in layers.layers
        )
        raise APIUsageError(
            f"a network needs float32 layers on a CPU, at most {CONSTANTS['NETWORK_MAX_LAYERS']}, whose sizes follow "
            f"from those of an observation, {tuple(layers.shape)}, and activations of {', '.join(ACTIVATIONS)}, got "
            f"{found}; use the torch modules instead"
        )
