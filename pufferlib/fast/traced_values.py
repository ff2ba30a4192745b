"""What stands for numbers while a policy is traced, and the list of layers that grows meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import torch
from torch import Tensor

from pufferlib.extensions import Convolution, Linear
from pufferlib.extensions.network_layers import (
    Activation,
    Add,
    Affine,
    Arrange,
    Concatenate,
    Fields,
    Layer,
    Multiply,
    Scale,
    Shape,
)
from pufferlib.spaces import Layout, Leaf

BYTES = "bytes of a packed observation beside its parts"
"""What is refused."""


class UntracedError(Exception):
    """Its text says which operation the kernel does not know, and where it stands."""


@dataclass(frozen=True)
class Value:
    """Numbers of every row.

    Torch has them as their `kind` says: `float`; `observed` integers of the observation's type, whose arithmetic may
    wrap; `integer`, without what stands behind the point; `bool`, where it asks whether they are above 0.5.
    """

    index: int  # of a value of the layers
    shape: Shape  # that torch gives it without rows
    kind: str = "float"
    is_negated: bool = False  # of bools, whether the opposite is asked
    divided: bool = False  # of bytes of the observation, whether they are brought to 0..1


@dataclass(frozen=True)
class Turned:
    """A value whose dimensions stand in another order."""

    value: Value
    order: tuple[int, ...]


@dataclass(frozen=True)
class Scores:
    """Of keys for queries, on their way to be the attention to values."""

    inputs: tuple[Value, ...]  # queries and keys as entities, and what is visible
    shape: Shape  # (heads, queries, keys), or without heads
    scale: float = 1.0
    hidden_score: float = -math.inf  # of what is not visible
    is_softmax: bool = False  # whether they are brought to a sum of 1
    is_safe: bool = False  # whether a query that sees nothing gets zeros


@dataclass(frozen=True)
class Parameter:
    """A parameter or a constant of the policy, or its exponential."""

    tensor: Tensor
    is_exponential: bool = False


Operand = Value | Turned | Scores | Parameter | float | int
"""What stands for numbers in an operation that is traced."""


def dtype_of(leaf: Leaf) -> torch.dtype:
    """Of a part of an observation in its bytes."""
    return torch.uint8 if leaf.dtype == bool else getattr(torch, leaf.dtype.name)


def numbers(value: Operand) -> Value:
    """Returns a value of numbers; a TypeError for all else, of which the trace tells the operation."""
    if not isinstance(value, Value) or value.kind not in ("float", "observed"):
        raise TypeError("no numbers of rows")
    return value


class LayerList:
    """The layers so far, and the shapes of their values in memory.

    There the numbers of a value lie in torch's order, `(numbers,)`; as entities, `(features, entities)`, each of which
    is padded; or as an image, `(channels, height, width)`, with its channels last.
    """

    def __init__(self, shape: Shape, dtype: torch.dtype, is_normalized: bool):
        self.dtype, self.is_normalized = dtype, is_normalized  # of observations, before the first layer
        self.layers: list[Layer] = []
        self.shapes: list[Shape] = [shape if len(shape) == 3 else (math.prod(shape),)]
        self.observation = Value(0, shape, "float" if dtype.is_floating_point or is_normalized else "observed")
        self.place = ""  # of the operation that is traced, in the user's code
        self.is_only_user = True  # whether what the operation reads is a layer's result that nothing else reads
        self.packed: Layout | None = None  # of observations that are packed in bytes
        self.counts: dict[int, int] = {}  # numbers of the observation that are categories, and how many there are
        self.seen: set[bool] = set()  # whether readers of the observation want it divided
        self._arranged: dict[tuple[int, Shape], Value] = {}  # values with their numbers in another order in memory

    def _refuse(self, what: str) -> NoReturn:
        raise UntracedError(f"has {what}{self.place}")

    def _add(self, layer: Layer, shape: Shape | None = None) -> Value:
        found = layer.result([self.shapes[value] for value in layer.inputs])
        if found is None:
            self._refuse(f"{type(layer).__name__} of these sizes")
        self.layers.append(layer)
        self.shapes.append(found)
        return Value(len(self.layers), found if shape is None else shape)

    def _read(self, value: Value) -> int:
        if value.index == 0:
            if self.packed is not None:
                self._refuse(BYTES)
            self.seen.add(value.divided)
            if len(self.seen) > 1:
                self._refuse("observations that are divided by 255 in one place and not in another")
        return value.index

    def _read_each(self, value: Value) -> int:
        if value.index == 0 and len(self.shapes[0]) == 3:  # lies otherwise than images of layers do
            self._refuse("an operation on an image that is no convolution")
        return self._read(value)

    def _row(self, value: Value) -> Value:
        return self._arrange(value, (math.prod(value.shape),))

    def _plain(self, value: Value) -> Value:
        return self._row(value) if len(value.shape) < 2 else self._entities(value)

    def _entities(self, value: Value) -> Value:
        if len(value.shape) != 2:
            self._refuse("a layer on something else than rows and entities of numbers")
        return self._arrange(value, value.shape[::-1])

    def _arrange(self, value: Value, target: Shape) -> Value:
        found = self.shapes[value.index]
        if found == target:
            return value
        if value.index == 0 and len(found) == 3:  # as it lies, channel after channel
            if any(0 in layer.inputs for layer in self.layers):
                self._refuse("a linear layer on an observation that convolutions read as well")
            self.shapes[0] = (math.prod(found),)
            return self._arrange(value, target)
        if 1 not in (len(found), len(target)):
            value = self._row(value)
        key = value.index, target
        if key not in self._arranged:
            self._arranged[key] = self._add(Arrange((self._read(value),), target))
        return replace(value, index=self._arranged[key].index, divided=False)

    # ------------------------------------------------------------------------------------------------------ layers

    def _linear(self, value: Value, weight: Tensor, bias: Tensor | None) -> Value:
        if len(value.shape) == 2:
            layer = Linear((self._read(self._entities(value)),), weight, bias, of_each=True)
            return self._add(layer, (value.shape[0], len(weight)))
        if len(value.shape) != 1:
            self._refuse("a linear layer on rows of more than two dimensions")
        is_image = value.index > 0 and len(self.shapes[value.index]) == 3  # whose channels torch has first
        return self._add(Linear((self._read(value if is_image else self._row(value)),), weight, bias))

    def _activate(self, value: Value, activation: str) -> Value:
        last = self.layers[-1] if self.layers else None
        if value.index == len(self.layers) and self.is_only_user:
            if type(last) is Linear and last.activation == "linear":
                self.layers[-1] = replace(last, activation=activation)
                return value
            if type(last) is Convolution and activation == "relu" and not last.is_rectified:
                self.layers[-1] = replace(last, is_rectified=True)
                return value
        return self._add(Activation((self._read_each(value),), activation), value.shape)

    def _concatenate(self, values: Sequence[Value], parts: Sequence[tuple[int, int]] | None = None) -> Value:
        parts = parts or [(0, math.prod(value.shape)) for value in values]
        if len(values) > 8:
            self._refuse("more than 8 parts side by side")
        return self._add(Concatenate(tuple(self._read_each(self._row(value)) for value in values), tuple(parts)))

    def _combine(self, kind: type[Add | Multiply], left: Operand, right: Operand) -> Value | Scores:
        self._require_floats(left, right)
        is_add = kind is Add
        if isinstance(left, Value) and isinstance(right, Value):
            left, right = numbers(left), numbers(right)
            if left.shape != right.shape:
                self._refuse("a sum or product of different shapes")
            if self.shapes[left.index] != self.shapes[right.index]:
                left, right = map(self._plain, (left, right))
            return self._add(kind((self._read_each(left), self._read_each(right))), left.shape)
        value, number = (left, right) if isinstance(left, (Value, Scores)) else (right, left)
        if isinstance(value, Scores) and not is_add and type(number) in (int, float) and len(value.inputs) == 2:
            return replace(value, scale=value.scale * number)
        if isinstance(number, Parameter):
            return self._scale(numbers(value), number.tensor if not is_add else None, number.tensor if is_add else None)
        if type(number) not in (int, float):
            self._refuse("a sum or product with something that is neither a number nor a row")
        factor, term = (1.0, float(number)) if is_add else (float(number), 0.0)
        return self._add(Affine((self._read_each(numbers(value)),), (factor, term)), value.shape)

    def _scale(self, value: Value, weight: Tensor | None, bias: Tensor | None, **signs: float) -> Value:
        tensor = bias if weight is None else weight
        sizes, last = tensor.numel(), value.shape[-1:]
        is_known = tensor.dtype == torch.float32 and tensor.dim() <= len(value.shape) <= 2
        if not is_known or sizes != 1 and ((sizes,) != last or sizes != tensor.shape[-1]):
            self._refuse(f"arithmetic with a tensor of {tuple(tensor.shape)}")
        value = self._plain(value)
        return self._add(Scale((self._read_each(value),), weight, bias, **signs), value.shape)

    def _require_floats(self, *operands: Operand) -> None:
        if all(type(each) is int or getattr(each, "kind", "") == "observed" for each in operands):
            self._refuse("arithmetic of integers, which may wrap,")

    def _subtract(self, left: Operand, right: Operand) -> Value:
        self._require_floats(left, right)
        if isinstance(right, Value):
            return self._combine(Add, left, self._combine(Multiply, right, -1.0))
        if isinstance(left, Value) and isinstance(right, Parameter):
            return self._scale(numbers(left), None, right.tensor, sign=-1.0)
        return self._combine(Add, left, -right)

    def _torch_float(self, value: Value) -> Value:
        if value.kind == "integer" and self.dtype.is_floating_point and self.packed is None:
            self._refuse("numbers without what stands behind the point")
        found = replace(value, kind="float", is_negated=False)
        return self._subtract(1.0, found) if value.is_negated else found

    def _select(self, value: Value, dimension: int, part: tuple[int, int]) -> Value:
        shape = (*value.shape[:dimension], part[1], *value.shape[dimension + 1 :])
        before, size = math.prod(value.shape[:dimension]), math.prod(value.shape[dimension + 1 :])
        if before == 1:
            found = self._concatenate([value], [(part[0] * size, part[1] * size)])
        elif size == 1:
            entities = self._entities(replace(value, shape=(before, value.shape[dimension])))
            found = self._add(Concatenate((self._read_each(entities),), (part,)))
        else:
            self._refuse("an index that is not of columns")
        return replace(value, index=found.index, shape=shape, divided=False)

    def _joined(self, values: Sequence[Value], dimension: int) -> Value:
        first, sizes = values[0].shape, len(values[0].shape)
        kind = "observed" if all(value.kind == "observed" for value in values) else "float"
        if sizes in (1, 2) and dimension in (1, -sizes) and len({value.shape[1:] for value in values}) == 1:
            found = self._concatenate(values)
            return replace(found, shape=(math.prod(found.shape) // math.prod(first[1:]), *first[1:]), kind=kind)
        are_alike = sizes == 2 and dimension in (2, -1) and len({value.shape[:1] for value in values}) == 1
        if not are_alike or len(values) > 8:
            self._refuse("parts of different shapes, or more than 8 side by side")
        parts = tuple((0, value.shape[1]) for value in values)
        found = self._add(Concatenate(tuple(self._read_each(self._entities(value)) for value in values), parts))
        return replace(found, shape=found.shape[::-1], kind=kind)

    def _fields(self) -> Fields | None:
        if self.packed is None:
            return None
        places = [(dtype_of(leaf), leaf.offset, math.prod(leaf.shape)) for leaf in self.packed.leaves]
        return Fields(places, math.prod(self.packed.row_space.shape))
