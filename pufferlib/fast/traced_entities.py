"""Categories and parts of an observation, and attention between entities, as layers.

The tracer of traced_layers.py has what stands for numbers on the way from one operation to the next; its classes, but
for those of the state, are here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.extensions.network import OBSERVATION_DTYPES
from pufferlib.extensions.network_layers import Arrange, Attention, Concatenate, Embedding, Layer, Shape
from pufferlib.spaces import Layout, Leaf, map_structure

BYTES = "bytes of a packed observation beside its parts"
"""What is refused."""


@dataclass(frozen=True)
class Value:
    """Numbers of every row.

    Attributes:
        index: of a value of the layers.
        shape: that torch gives it without rows.
        divided: of bytes of the observation, whether they are brought to 0..1.
        is_whole: whether torch has it as integers of the observation's type, whose arithmetic may wrap.
    """

    index: int
    shape: Shape
    divided: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Turned:
    """A value whose dimensions stand in another order."""

    value: Value
    order: tuple[int, ...]


@dataclass(frozen=True)
class Integers:
    """A value without what stands behind the point."""

    value: Value


@dataclass(frozen=True)
class Mask:
    """Whether numbers are above 0.5, or the opposite."""

    value: Value
    is_negated: bool = False


@dataclass(frozen=True)
class Scores:
    """Of keys for queries, on their way to be the attention to values.

    Attributes:
        inputs: queries and keys as entities, and what is visible.
        shape: `(heads, queries, keys)`, or without heads.
        scale: of the scores.
        hidden_score: of what is not visible.
        is_softmax: whether they are brought to a sum of 1.
        is_safe: whether a query that sees nothing gets zeros.
    """

    inputs: tuple[Value, ...]
    shape: Shape
    scale: float = 1.0
    hidden_score: float = -math.inf
    is_softmax: bool = False
    is_safe: bool = False


Operand = Value | Turned | Integers | Mask | Scores | Tensor | float | int
"""What stands for numbers in an operation that is traced."""


def dtype_of(leaf: Leaf) -> torch.dtype:
    """Of a part of an observation in its bytes."""
    return torch.uint8 if leaf.dtype == bool else getattr(torch, leaf.dtype.name)


class EntityLayers:
    """The part of a tracer that knows categories, parts and attention; the tracer has what is declared here."""

    dtype: torch.dtype
    is_normalized: bool
    layers: list[Layer]
    shapes: list[Shape]
    counts: dict[int, int]
    _seen: set[bool]
    _packed: Layout | None

    def _embed(self, value: Operand, table: Tensor) -> Value:
        # Rows of a table for the columns of an observation.
        are_integers = isinstance(value, Value) and not self.dtype.is_floating_point and not self.is_normalized
        value = value.value if isinstance(value, Integers) else value if are_integers else None
        if value is None or value.divided or self.is_normalized:
            self._refuse("categories that are not integers")
        row = self._row(value)
        columns = self._columns(row.index)
        if columns is None:
            self._refuse("categories that are not numbers of the observation")
        for column in columns:
            self.counts[column] = min(len(table), self.counts.get(column, len(table)))
        return self._add(Embedding((self._read(row),), table), (*value.shape, table.shape[1]))

    def _columns(self, index: int) -> list[int] | None:
        # The places in the observation that the numbers of a value have; None where they are computed.
        if index == 0:
            return list(range(math.prod(self.shapes[0])))
        layer, shape = self.layers[index - 1], self.shapes[self.layers[index - 1].inputs[0]]
        found = self._columns(layer.inputs[0]) if type(layer) in (Concatenate, Arrange) else None
        if found is None or type(layer) is Arrange or len(layer.inputs) > 1:
            return found if type(layer) is Arrange and 3 not in (len(shape), len(layer.shape)) else None
        ((first, count),) = layer.parts
        return [column for start in range(0, len(found), shape[0]) for column in found[start + first :][:count]]

    def _nativize(self, value: Operand, layout: Layout) -> Any:
        if not isinstance(layout, (Layout, type(None))) or not isinstance(value, Value) or value.index != 0:
            self._refuse("parts of something else than the observation")
        if layout is None or not layout.is_packed:
            return value
        if layout.is_bytes:
            unknown = [leaf.name for leaf in layout.leaves if dtype_of(leaf) not in OBSERVATION_DTYPES]
            if unknown or (self._seen and self._packed is None):
                self._refuse(
                    f"the part {', '.join(unknown)} of a type that the kernel does not read" if unknown else BYTES
                )
            self._packed, self.shapes[0] = layout, (sum(math.prod(leaf.shape) for leaf in layout.leaves),)
        firsts, first = {}, 0
        for leaf in layout.leaves:
            firsts[leaf.path], first = first, first + math.prod(leaf.shape)
        return map_structure(lambda leaf: self._part(leaf, firsts[leaf.path]), layout.structure)

    def _part(self, leaf: Leaf, first: int) -> Any:
        index = 0 if self._packed is not None else self._read(Value(0, self.shapes[0]))
        found = self._add(Concatenate((index,), ((first, math.prod(leaf.shape)),)), leaf.shape)
        if leaf.dtype == bool:
            self.counts.update(dict.fromkeys(range(first, first + math.prod(leaf.shape)), 2))
        is_integer = leaf.dtype.kind in "iu"
        return Integers(found) if is_integer and leaf.dtype.itemsize > 1 else replace(found, is_whole=is_integer)

    def _turn(self, value: Operand, order: Sequence[int]) -> Operand:
        base, before = (value.value, value.order) if isinstance(value, Turned) else (value, range(len(value.shape)))
        after = tuple(before[each] for each in order)
        return base if after == tuple(range(len(after))) else Turned(base, after)

    def _heads(self, value: Operand, *orders: tuple[int, ...]) -> tuple[Value, int]:
        # Queries, keys or values as entities, and their heads; `orders` without heads and with them.
        base, order = (value.value, value.order) if isinstance(value, Turned) else (value, (0, 1))
        if not isinstance(base, Value) or order not in orders or len(base.shape) != len(order):
            self._refuse("a product of matrices that is no attention")
        entities, *heads, _ = base.shape
        return self._entities(replace(base, shape=(entities, math.prod(base.shape[1:])))), math.prod(heads)

    def _score(self, queries: Operand, keys: Operand, **settings: object) -> Scores:
        (q, heads), (k, of_keys) = self._heads(queries, (0, 1), (1, 0, 2)), self._heads(keys, (1, 0), (1, 2, 0))
        if heads != of_keys or q.shape[1] != k.shape[1] or isinstance(queries, Turned) != (len(keys.order) == 3):
            self._refuse("attention of different sizes")
        return Scores((q, k), (*([heads] if len(keys.order) == 3 else []), q.shape[0], k.shape[0]), **settings)

    def _hide(self, scores: Scores, mask: Operand, hidden_score: object, is_visible: bool = False) -> Scores:
        is_number = type(hidden_score) in (int, float)
        if not isinstance(mask, Mask) or not is_number or scores.is_softmax or len(scores.inputs) > 2:
            self._refuse("a mask of attention that is no comparison with a number")
        shape, value = mask.value.shape, mask.value
        if len(shape) != len(scores.shape) or math.prod(shape[:-2]) != 1 or shape[-1] != scores.shape[-1]:
            self._refuse(f"a mask of {shape} for attention of {scores.shape}")
        if mask.is_negated != (not is_visible):
            value = self._subtract(1.0, value)
        value = self._row(value) if shape[-2] == 1 else self._entities(replace(value, shape=shape[-2:]))
        if shape[-2] not in (1, scores.shape[-2]):
            self._refuse(f"a mask of {shape} for attention of {scores.shape}")
        return replace(scores, inputs=(*scores.inputs, value), hidden_score=float(hidden_score))

    def _attend(self, scores: Scores, values: Operand) -> Operand:
        v, heads = self._heads(values, (0, 1), (1, 0, 2))
        if not scores.is_softmax or math.prod(scores.shape[:-2]) != heads or v.shape[0] != scores.shape[-1]:
            self._refuse("a product of matrices that is no attention")
        q, k, *mask = scores.inputs
        inputs = tuple(self._read(each) for each in (q, k, v, *mask))
        found = self._add(Attention(inputs, heads, scores.scale, scores.hidden_score, scores.is_safe))
        shape = (q.shape[0], v.shape[1]) if len(scores.shape) == 2 else (q.shape[0], heads, v.shape[1] // heads)
        found = replace(found, shape=shape)
        return found if len(scores.shape) == 2 else Turned(found, (1, 0, 2))

    def _scaled_attention(
        self, q: Operand, k: Operand, v: Operand, attn_mask: Operand | None = None, scale: float | None = None
    ) -> Operand:
        last = (lambda order: (*order[:-2], order[-1], order[-2]))(k.order if isinstance(k, Turned) else (0, 1))
        keys = Turned(k.value if isinstance(k, Turned) else k, last)
        scores = self._score(q, keys, is_softmax=True, is_safe=True)
        base = q.value if isinstance(q, Turned) else q
        scores = replace(scores, scale=base.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None:
            scores = self._hide(replace(scores, is_softmax=False), attn_mask, -math.inf, is_visible=True)
        return self._attend(replace(scores, is_softmax=True), v)

    def _attend_to_itself(self, module: nn.MultiheadAttention, arguments: tuple, keywords: dict) -> Any:
        given = dict(zip(("query", "key", "value", "key_padding_mask", "need_weights"), arguments, strict=False))
        given.update(keywords)
        value, mask, needs = given.pop("query"), given.pop("key_padding_mask", None), given.pop("need_weights", True)
        is_plain = module.batch_first and not module.dropout and module.in_proj_weight is not None
        is_plain = is_plain and module.bias_k is None and not module.add_zero_attn
        if not is_plain or given != {"key": value, "value": value} or not isinstance(value, Value):
            self._refuse("MultiheadAttention of something else than entities to each other, batch first,")
        size, heads = module.embed_dim, module.num_heads
        all_three, entities = self._linear(value, module.in_proj_weight, module.in_proj_bias), value.shape[0]
        parts = [self._select(all_three, 1, (size * place, size)) for place in range(3)]
        q, k, v = (Turned(replace(each, shape=(entities, heads, size // heads)), (1, 0, 2)) for each in parts)
        mask = mask and replace(mask, value=replace(mask.value, shape=(1, 1, entities)), is_negated=not mask.is_negated)
        found = self._scaled_attention(q, k, v, mask)
        self.layers[-1] = replace(self.layers[-1], is_safe=not needs)
        found = self._linear(replace(found.value, shape=value.shape), module.out_proj.weight, module.out_proj.bias)
        return found, None

    def _change_mask(self, target: object, value: Mask, others: Sequence[object]) -> Mask | None:
        if target in (operator.invert, torch.logical_not, "logical_not") or (target is operator.eq and others == (0,)):
            return replace(value, is_negated=not value.is_negated)
        if target in ("bool",) or (target is operator.ne and others == (0,)):
            return value
        if target in ("unsqueeze", "view", "reshape", "squeeze", "expand"):
            return replace(value, value=self._shape_of(target, value.value, others, {}))
        if target is operator.getitem:
            return replace(value, value=self._index(target, value.value, *others))
        return None
