"""What stands for numbers while a policy is traced, and the list of layers that grows meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from pufferlib.emulation.tensors import describe_features
from pufferlib.extensions import network_layers as kinds
from pufferlib.extensions.network import OBSERVATION_DTYPES
from pufferlib.extensions.network_layers import Add, Categories, Layer, Multiply, Shape
from pufferlib.spaces import Layout, Leaf, map_structure

_KINDS = {torch.float32: "float", torch.float64: "double", torch.bool: "bool"}
BYTES = "bytes of a packed observation beside its parts"  # is refused


class UntracedError(Exception):
    """Its text says which operation the kernel does not know, and where it stands."""


@dataclass(frozen=True)
class Value:
    """Numbers of every row.

    Torch has them as their `kind` says: `float`; `observed` integers of the observation's type, whose arithmetic may
    wrap; `integer`; `cut`, integers of numbers that here still have what stands behind the point, so that they can only
    be categories; `bool`, where it asks whether they are above 0.5; `double`, which layers see as `float()` leaves it.
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

    @property
    def shape(self) -> Shape:
        """That torch gives it without rows."""
        return tuple(self.value.shape[each] for each in self.order)


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
    return getattr(torch, leaf.dtype.name)


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
        self.observation = Value(0, shape, "float" if is_normalized else _KINDS.get(dtype, "observed"))
        self.place = ""  # of the operation that is traced, in the user's code
        self.is_only_user = True  # whether what the operation reads is a layer's result that nothing else reads
        self.packed: Layout | None = None  # of observations that are packed in bytes
        self.categories: Categories | None = None  # of the observation, whose columns or planes layers read
        self.counts: dict[int, int] = {}  # numbers of the observation that are categories, and how many there are
        self.has_channels_last = False  # whether convolutions read an observation whose channels are last
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

    def _is_unread(self) -> bool:
        # Whether no layer reads the observation yet, which is no row of bytes, so that it may take another form.
        return self.packed is None and not any(0 in layer.inputs for layer in self.layers)

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
            self._arranged[key] = self._add(kinds.Arrange((self._read(value),), target))
        return replace(value, index=self._arranged[key].index, divided=False)

    # ------------------------------------------------------------------------------------------- rows and entities

    def _linear(self, value: Value, weight: Tensor, bias: Tensor | None) -> Value:
        if value.index == 0 and self.categories is not None:
            return self._add(kinds.OneHotLinear((0,), weight, bias, cells=len(self.categories.counts)))
        if len(value.shape) == 2:
            layer = kinds.Linear((self._read(self._entities(value)),), weight, bias, of_each=True)
            return self._add(layer, (value.shape[0], len(weight)))
        if len(value.shape) != 1:
            self._refuse("a linear layer on rows of more than two dimensions")
        is_image = value.index > 0 and len(self.shapes[value.index]) == 3  # whose channels torch has first
        return self._add(kinds.Linear((self._read(value if is_image else self._row(value)),), weight, bias))

    def _activate(self, value: Value, activation: str) -> Value:
        last = self.layers[-1] if self.layers else None
        if value.index == len(self.layers) and self.is_only_user:
            if isinstance(last, kinds.Linear) and last.activation == "linear":
                self.layers[-1] = replace(last, activation=activation)
                return value
            if type(last) is kinds.Convolution and activation == "relu" and not last.is_rectified:
                self.layers[-1] = replace(last, is_rectified=True)
                return value
        return self._add(kinds.Activation((self._read_each(value),), activation), value.shape)

    def _concatenate(self, values: Sequence[Value], parts: Sequence[tuple[int, int]] | None = None) -> Value:
        parts = parts or [(0, math.prod(value.shape)) for value in values]
        if len(values) > 8:
            self._refuse("more than 8 parts side by side")
        return self._add(kinds.Concatenate(tuple(self._read_each(self._row(value)) for value in values), tuple(parts)))

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
        return self._add(kinds.Affine((self._read_each(numbers(value)),), factor, term), value.shape)

    def _scale(self, value: Value, weight: Tensor | None, bias: Tensor | None, **signs: float) -> Value:
        tensor = bias if weight is None else weight
        sizes, last = tensor.numel(), value.shape[-1:]
        is_known = tensor.dtype == torch.float32 and tensor.dim() <= len(value.shape) <= 2
        if not is_known or sizes != 1 and ((sizes,) != last or sizes != tensor.shape[-1]):
            self._refuse(f"arithmetic with a tensor of {tuple(tensor.shape)}")
        value = self._plain(value)
        return self._add(kinds.Scale((self._read_each(value),), weight, bias, **signs), value.shape)

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
        if value.kind == "cut":
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
            found = self._add(kinds.Concatenate((self._read_each(entities),), (part,)))
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
        found = self._add(kinds.Concatenate(tuple(self._read_each(self._entities(value)) for value in values), parts))
        return replace(found, shape=found.shape[::-1], kind=kind)

    def _fields(self) -> kinds.Fields | None:
        if self.packed is None:
            return None
        places = [(dtype_of(leaf), leaf.offset, math.prod(leaf.shape)) for leaf in self.packed.leaves]
        return kinds.Fields(places, math.prod(self.packed.row_space.shape))

    # ---------------------------------------------------------------------------------------- parts of observations

    def _embed(self, value: Operand, table: Tensor) -> Value:
        is_integer = isinstance(value, Value) and value.kind in ("integer", "cut", "observed")
        if not is_integer or value.divided or self.is_normalized:
            self._refuse("categories that are not integers")
        row = self._row(value)
        columns = self._columns(row.index)
        if columns is None:
            self._refuse("categories that are not numbers of the observation")
        for column in columns:
            self.counts[column] = min(len(table), self.counts.get(column, len(table)))
        return self._add(kinds.Embedding((self._read(row),), table), (*value.shape, table.shape[1]))

    def _columns(self, index: int) -> list[int] | None:
        # The places in the observation that the numbers of a value have; None where they are computed.
        if index == 0:
            return list(range(math.prod(self.shapes[0])))
        layer, shape = self.layers[index - 1], self.shapes[self.layers[index - 1].inputs[0]]
        found = self._columns(layer.inputs[0]) if type(layer) in (kinds.Concatenate, kinds.Arrange) else None
        if found is None or type(layer) is kinds.Arrange or len(layer.inputs) > 1:
            return found if type(layer) is kinds.Arrange and 3 not in (len(shape), len(layer.shape)) else None
        ((first, count),) = layer.parts
        return [column for start in range(0, len(found), shape[0]) for column in found[start + first :][:count]]

    def _torch_nativize(self, value: Operand, layout: Layout | None) -> Any:
        # The parts of an observation, as `nativize` gives them.
        if not self._open(value, layout):
            return value
        firsts, first = {}, 0
        for leaf in layout.leaves:
            firsts[leaf.path], first = first, first + math.prod(leaf.shape)
        return map_structure(lambda leaf: self._part(leaf, firsts[leaf.path]), layout.structure)

    def _torch_features(self, value: Operand, layout: Layout) -> Value:
        # The parts side by side, as the library's policies see them.
        self._open(value, layout)
        factors, lowest, counts = describe_features(layout).float().unbind()
        for column, (first, count) in enumerate(zip(lowest.int().tolist(), counts.int().tolist(), strict=True)):
            if count:
                self.counts[column] = max(first + count, 1)
        return self._add(kinds.Features((self._read_parts(),), factors, lowest, counts))

    def _open(self, value: Operand, layout: Layout | None) -> bool:
        # Whether the observation has parts, whose numbers layers may read from now on.
        if not isinstance(layout, (Layout, type(None))) or not isinstance(value, Value) or value.index != 0:
            self._refuse("parts of something else than the observation")
        if layout is None or not layout.is_packed:
            return False
        if layout.is_bytes:
            unknown = [leaf.name for leaf in layout.leaves if dtype_of(leaf) not in OBSERVATION_DTYPES]
            if unknown:
                self._refuse(f"the part {', '.join(unknown)} of a type that the kernel does not read")
            if self.seen and self.packed is None:
                self._refuse(BYTES)
            self.packed, self.shapes[0] = layout, (sum(math.prod(leaf.shape) for leaf in layout.leaves),)
        return True

    def _read_parts(self) -> int:
        return 0 if self.packed is not None else self._read(Value(0, self.shapes[0]))

    def _part(self, leaf: Leaf, first: int) -> Value:
        size = math.prod(leaf.shape)
        found = self._add(kinds.Concatenate((self._read_parts(),), ((first, size),)), leaf.shape)
        if leaf.dtype.kind in "iu":
            return replace(found, kind="integer" if leaf.dtype.itemsize > 1 else "observed")
        return replace(found, kind="float" if self.is_normalized else _KINDS.get(dtype_of(leaf), "float"))

    # --------------------------------------------------------------------------------------------------- attention

    def _turn(self, value: Operand, order: Sequence[int]) -> Operand:
        base, before = (value.value, value.order) if isinstance(value, Turned) else (value, range(len(value.shape)))
        after = tuple(before[each] for each in order)
        return base if after == tuple(range(len(after))) else Turned(base, after)

    def _heads(self, value: Operand, *orders: tuple[int, ...]) -> tuple[Value, int]:
        # Queries, keys or values as entities, and their heads; `orders` without heads and with them.
        base, order = (value.value, value.order) if isinstance(value, Turned) else (value, (0, 1))
        if order not in orders or len(numbers(base).shape) != len(order):
            self._refuse("a product of matrices that is no attention")
        entities, *heads, _ = base.shape
        return self._entities(replace(base, shape=(entities, math.prod(base.shape[1:])))), math.prod(heads)

    def _score(self, queries: Operand, keys: Operand, scale: float = 1.0) -> Scores:
        (q, heads), (k, of_keys) = self._heads(queries, (0, 1), (1, 0, 2)), self._heads(keys, (1, 0), (1, 2, 0))
        if heads != of_keys or q.shape[1] != k.shape[1] or isinstance(queries, Turned) != (len(keys.order) == 3):
            self._refuse("attention of different sizes")
        return Scores((q, k), (*([heads] if len(keys.order) == 3 else []), q.shape[0], k.shape[0]), scale)

    def _hide(self, scores: Scores, mask: Operand, hidden_score: float, is_visible: bool = False) -> Scores:
        is_mask = isinstance(mask, Value) and mask.kind == "bool" and type(hidden_score) in (int, float)
        if not is_mask or scores.is_softmax or len(scores.inputs) > 2:
            self._refuse("a mask of attention that is no comparison with a number")
        *others, queries, keys = mask.shape
        are_alike = len(mask.shape) == len(scores.shape) and math.prod(others) == 1 and keys == scores.shape[-1]
        if not are_alike or queries not in (1, scores.shape[-2]):
            self._refuse(f"a mask of {mask.shape} for attention of {scores.shape}")
        value = self._torch_float(mask if is_visible else replace(mask, is_negated=not mask.is_negated))
        value = self._row(value) if queries == 1 else self._entities(replace(value, shape=(queries, keys)))
        return replace(scores, inputs=(*scores.inputs, value), hidden_score=float(hidden_score))

    def _attend(self, scores: Scores, values: Operand) -> Operand:
        v, heads = self._heads(values, (0, 1), (1, 0, 2))
        if not scores.is_softmax or math.prod(scores.shape[:-2]) != heads or v.shape[0] != scores.shape[-1]:
            self._refuse("a product of matrices that is no attention")
        q, k, *mask = scores.inputs
        inputs = tuple(self._read(each) for each in (q, k, v, *mask))
        found = self._add(kinds.Attention(inputs, heads, scores.scale, scores.hidden_score, scores.is_safe))
        if len(scores.shape) == 2:
            return replace(found, shape=(q.shape[0], v.shape[1]))
        return Turned(replace(found, shape=(q.shape[0], heads, v.shape[1] // heads)), (1, 0, 2))

    def _torch_scaled_dot_product_attention(
        self, q: Operand, k: Operand, v: Operand, attn_mask: Operand | None = None, scale: float | None = None
    ) -> Operand:
        *others, left, right = k.order if isinstance(k, Turned) else (0, 1)
        keys = Turned(k.value if isinstance(k, Turned) else k, (*others, right, left))
        scores = self._score(q, keys, q.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None:
            scores = self._hide(scores, attn_mask, -math.inf, is_visible=True)
        return self._attend(replace(scores, is_softmax=True, is_safe=True), v)

    def _attend_to_itself(
        self,
        module: nn.MultiheadAttention,
        query: Value,
        key: Value,
        value: Value,
        key_padding_mask: Value | None = None,
        need_weights: bool = True,
    ) -> tuple[Value, None]:
        is_plain = module.batch_first and not module.dropout and module.in_proj_weight is not None
        is_plain = is_plain and module.bias_k is None and not module.add_zero_attn
        if not is_plain or not query == key == value:
            self._refuse("MultiheadAttention of something else than entities to each other, batch first,")
        size, heads, mask = module.embed_dim, module.num_heads, key_padding_mask
        all_three, entities = self._linear(numbers(value), module.in_proj_weight, module.in_proj_bias), value.shape[0]
        parts = [self._select(all_three, 1, (size * place, size)) for place in range(3)]
        q, k, v = (Turned(replace(each, shape=(entities, heads, size // heads)), (1, 0, 2)) for each in parts)
        if mask is not None:
            mask = replace(mask, shape=(1, 1, entities), is_negated=not mask.is_negated)
        found = self._torch_scaled_dot_product_attention(q, k, v, mask)
        self.layers[-1] = replace(self.layers[-1], is_safe=not need_weights)
        return self._linear(replace(found.value, shape=value.shape), module.out_proj.weight, module.out_proj.bias), None
