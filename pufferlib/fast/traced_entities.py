"""Categories and parts of an observation, and attention between entities, as layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from pufferlib.extensions.network import OBSERVATION_DTYPES
from pufferlib.extensions.network_layers import Arrange, Attention, Concatenate, Embedding
from pufferlib.fast.traced_values import BYTES, LayerList, Operand, Scores, Turned, Value, dtype_of, numbers
from pufferlib.spaces import Layout, Leaf, map_structure


class EntityLayers(LayerList):
    """A list of layers that knows categories, parts of an observation, and attention."""

    def _embed(self, value: Operand, table: Tensor) -> Value:
        is_integer = isinstance(value, Value) and value.kind in ("integer", "observed")
        if not is_integer or value.divided or self.is_normalized:
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

    def _torch_nativize(self, value: Operand, layout: Layout | None) -> Any:
        """The parts of an observation, as `nativize` gives them."""
        if not isinstance(layout, (Layout, type(None))) or not isinstance(value, Value) or value.index != 0:
            self._refuse("parts of something else than the observation")
        if layout is None or not layout.is_packed:
            return value
        if layout.is_bytes:
            unknown = [leaf.name for leaf in layout.leaves if dtype_of(leaf) not in OBSERVATION_DTYPES]
            if unknown:
                self._refuse(f"the part {', '.join(unknown)} of a type that the kernel does not read")
            if self.seen and self.packed is None:
                self._refuse(BYTES)
            self.packed, self.shapes[0] = layout, (sum(math.prod(leaf.shape) for leaf in layout.leaves),)
        firsts, first = {}, 0
        for leaf in layout.leaves:
            firsts[leaf.path], first = first, first + math.prod(leaf.shape)
        return map_structure(lambda leaf: self._part(leaf, firsts[leaf.path]), layout.structure)

    def _part(self, leaf: Leaf, first: int) -> Value:
        size = math.prod(leaf.shape)
        index = 0 if self.packed is not None else self._read(Value(0, self.shapes[0]))
        found = self._add(Concatenate((index,), ((first, size),)), leaf.shape)
        if leaf.dtype == bool:
            self.counts.update(dict.fromkeys(range(first, first + size), 2))
        if leaf.dtype.kind not in "iu":
            return found
        return replace(found, kind="integer" if leaf.dtype.itemsize > 1 else "observed")

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
        found = self._add(Attention(inputs, heads, scores.scale, scores.hidden_score, scores.is_safe))
        if len(scores.shape) == 2:
            return replace(found, shape=(q.shape[0], v.shape[1]))
        return Turned(replace(found, shape=(q.shape[0], heads, v.shape[1] // heads)), (1, 0, 2))

    def _torch_scaled_dot_product_attention(
        self, q: Operand, k: Operand, v: Operand, attn_mask: Operand | None = None, scale: float | None = None
    ) -> Operand:
        """As torch's scaled_dot_product_attention."""
        *others, left, right = k.order if isinstance(k, Turned) else (0, 1)
        keys = Turned(k.value if isinstance(k, Turned) else k, (*others, right, left))
        size = (q.value if isinstance(q, Turned) else q).shape[-1]
        scores = self._score(q, keys, size**-0.5 if scale is None else scale)
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
