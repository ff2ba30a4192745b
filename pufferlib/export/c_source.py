"""The header of weights: a policy as C text for puffernet.h."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import jinja2
import numpy as np

from pufferlib.errors import ExportError
from pufferlib.export.c_layers import CNetwork, floats, products, row_of
from pufferlib.extensions.network_layers import Layer, Shape
from pufferlib.spaces import ActionPart

TEMPLATE = Path(__file__).with_name("policy.h.jinja")

_NAMED_ALIKE = ("relu", "tanh", "gelu", "sigmoid", "silu", "elu", "leaky_relu", "softplus", "gelu_tanh")
ACTIVATIONS = {"linear": "PUFFERNET_IDENTITY", **{name: f"PUFFERNET_{name.upper()}" for name in _NAMED_ALIKE}}
C_TYPES = {
    **{"float32": "float", "float64": "double", "bool": "bool"},
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class HeaderWriter:
    """Writes the header of one network, for an environment's name in C, such as `breakout`.

    Its tables, buffers and lines compute a block of rows: layer after layer, those of images row by row. Raises an
    ExportError if C has no layer of a kind.

    Attributes:
        name: the prefix of all functions and tables, such as `breakout_policy`.
        type_name: of the struct, such as `BreakoutPolicy`.
        states: the recurrent state by name: floats of one agent in memory, and those of them that torch has.
    """

    def __init__(self, name: str, network: CNetwork):
        dtype = network.observation.dtype
        self.name = f"{name}_policy"
        self.type_name = "".join(part.capitalize() for part in self.name.split("_"))
        self.network = network
        self.observation_type = C_TYPES[str(dtype)]
        self.action_type = "float" if any(part.choices is None for part in network.parts) else "int32_t"
        sizes = network.layers.state_sizes()
        self.states = {state: (row_of((n,)), n) for state, n in zip(network.states, sizes, strict=True)}
        self.layers, self._size = network.layers, f"{self.name.upper()}_OBSERVATION"
        is_plain = self.layers.normalizer is None and self.layers.categories is None
        self._divided = " / 255.0f" if is_plain and self.layers.divides_integers and dtype.kind != "f" else ""
        self._shapes: list[Shape] = self.layers.shapes()
        self.rows = [row_of(shape) for shape in self._shapes]
        self._left = [index for index, layer in enumerate(self.layers.layers) if layer.kind == "STATE"]
        self._kept = {self.layers.value: "policy->critic", self.layers.decision: "policy->logits[first]"}
        self._places: dict[int, tuple[str, int | str]] = {}  # of values: a pointer, and floats from row to row
        self.buffers: dict[str, int | str] = {}  # members that are scratch, and their numbers
        self._most_gates = self._most_keys = 0  # of a row
        if self.layers.value != self.layers.decision:
            self._buffer("critic", self.rows[self.layers.value])
        images = [index for index in range(len(self.layers.layers)) if len(self._shapes[index + 1]) == 3]
        flat = [index for index in range(len(self.layers.layers)) if index not in images]
        read = dict.fromkeys(
            value for index in flat for value in self.layers.layers[index].inputs if value - 1 in images
        )
        self._features = {value: self._buffer(f"features_{value}", self.rows[value]) for value in read}
        names = iter(self.states)
        self._states_of = [[next(names) for _ in range(layer.num_states)] for layer in self.layers.layers]
        self._indent, self._rows = "    ", "rows"  # of the lines, and the rows that a call computes
        self.tables, self.lines = list(self._own_tables()), []
        self._observe()
        if images:
            self._images(images)
        for index in flat:
            self._layer(index)
        self._results()

    def text(self, notes: Mapping[str, str]) -> str:
        """The whole file."""
        environment = jinja2.Environment(  # noqa: S701 - of C, which has no markup
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
        )
        return environment.from_string(TEMPLATE.read_text()).render(
            writer=self,
            name=self.name,
            NAME=self.name.upper(),
            type=self.type_name,
            notes={_comment(key): _comment(text) for key, text in notes.items()},
            num_observations=math.prod(self.network.observation.shape),
            num_logits=sum(part.outputs for part in self.network.parts),
            num_choices=sum(part.choices or 0 for part in self.network.parts),
            parts_text=self._parts_text(),
        )

    def parts(self) -> Iterator[tuple[ActionPart, int, int, int]]:
        """The parts of the action, and where their logits, choices and numbers begin."""
        place = choice = number = 0
        for part in self.network.parts:
            yield part, place, choice, number
            place += part.outputs
            choice += part.choices or 0
            number += part.width if part.choices is None else 0

    def _parts_text(self) -> str:
        words = [
            f"{part.width} of a normal distribution" if part.choices is None else f"one of {part.choices} choices"
            for part in self.network.parts
        ]
        return ", ".join(words) if len(words) < 5 else f"{len(words)} choices or numbers"

    def weights(self, name: str, values: np.ndarray) -> Iterator[str]:
        """The lines that declare the weights of a layer's product."""
        return _table(name, values)

    def _buffer(self, name: str, row: int | str) -> str:
        # Declares memory of a block of rows; returns its pointer.
        self.buffers[name] = f"PUFFERNET_BLOCK * {row}"
        return f"policy->{name}"

    def _call(self, function: str, *arguments: object) -> None:
        text, further = f"puffernet_{function}({', '.join(map(str, arguments))});", " " * len(f"puffernet_{function}(")
        wrapper = textwrap.TextWrapper(120, self._indent, self._indent + further, break_on_hyphens=False)
        self.lines += wrapper.wrap(text)

    # ----------------------------------------------------------------------------------------------------- tables

    def _own_tables(self) -> Iterator[str]:
        normalizer, categories = self.layers.normalizer, self.layers.categories
        if normalizer is not None:
            scale = (normalizer.variance + normalizer.epsilon).rsqrt()
            yield from _table(f"{self.name}_observation_mean", floats(normalizer.mean).reshape(-1))
            yield from _table(f"{self.name}_observation_scale", floats(scale).reshape(-1))
        if len(self.network.deviations):
            yield from _table(f"{self.name}_deviations", self.network.deviations)
        if categories is not None and len(self._shapes[0]) == 3:
            yield from self._categories(self.name, "first_planes")

    def _categories(self, name: str, firsts: str) -> Iterator[str]:
        categories = self.layers.categories
        columns = np.concatenate([[0], categories.counts.numpy().cumsum()]).astype(np.int32)
        yield from (*_table(f"{name}_lowest", categories.lowest.numpy()), *_table(f"{name}_{firsts}", columns))

    def _products(self, index: int) -> list[str]:
        # Writes the tables of a layer's products; their names.
        layer, states, value = self.layers.layers[index], self._states_of[index], self.layers.layers[index].inputs[0]
        ends = {"MINGRU": ["gates"], "LSTM": ["input", "recurrent"], "GRU": ["input", "recurrent"]}.get(layer.kind)
        names = [self.network.names[index]] if ends is None else [f"{states[0]}_{end}" for end in ends]
        activation = "relu" if getattr(layer, "is_rectified", False) else getattr(layer, "activation", "linear")
        activation = ACTIVATIONS[activation]
        for short, (weights, bias) in zip(names, products(layer, self._shapes[value], value == 0), strict=True):
            name, kind, sizes, more = f"{self.name}_{short}", "Linear", weights.shape, []
            self.tables += [*self.weights(f"{name}_weights", weights), *_table(f"{name}_bias", bias)]
            if layer.kind == "ONE_HOT":
                self.tables += self._categories(name, "first_inputs")
                kind, sizes, more = "OneHot", (layer.cells, sizes[1]), [f"    {name}_lowest, {name}_first_inputs,"]
            elif layer.kind == "CONVOLUTION":
                size, _, channels, filters = sizes
                edges = (edge + 2 * layer.padding for edge in self._shapes[value][1:])
                kind, sizes = "Convolution", (*edges, channels, filters, size, layer.stride)
            numbers = f"{', '.join(map(str, sizes))}, {activation}, {name}_weights, {name}_bias,"
            self.tables += [f"static const Puffernet{kind} {name} = {{", f"    {numbers}", *more, "};", ""]
        return [f"&{self.name}_{name}" for name in names]

    def _target(self, value: int) -> str:
        # Where a value goes: it is remembered as its place.
        row = self.rows[value]
        if value in self._features:
            pointer = f"{self._features[value]} + row * {row}"
        elif value in self._kept:
            pointer = self._kept[value]
        elif len(self._shapes[value]) == 3:
            pointer = self._image(f"image_{value}", row)
        else:
            pointer = self._buffer(f"value_{value}", row)
        self._places[value] = pointer, row
        return pointer

    def _image(self, name: str, size: int) -> str:
        self.buffers[name] = size
        return f"policy->{name}"

    def _gates(self, row: int) -> str:
        self._most_gates = max(self._most_gates, row)
        return self._buffer("gates", self._most_gates)

    def _layer(self, index: int) -> None:
        layer = self.layers.layers[index]
        write = getattr(self, f"_{layer.kind.lower()}", None)
        if write is None or getattr(layer, "activation", "linear") not in ACTIVATIONS:
            found = f"{type(layer).__name__} {getattr(layer, 'activation', '')}".strip()
            raise ExportError(f"C has no layer for {found}; use --format onnx or torchscript")
        write(index, layer)

    # ------------------------------------------------------------------------------------------------------ lines

    def _observe(self) -> None:
        normalizer, pointer, size = self.layers.normalizer, "observations", self._size
        if self.layers.layers[0].kind == "ONE_HOT":
            layer, pointer = f"&{self.name}_{self.network.names[0]}", self._buffer("inputs", size)
            self.lines += [
                "    for (int row = 0; row < rows; row++) {",
                f"        for (int cell = 0, i = row * {size}; cell < {size}; cell++, i++) {{",
                f"            policy->inputs[i] = puffernet_category({layer}, cell, (int64_t)observations[i]);",
                *("        }", "    }"),
            ]
        elif self.layers.categories is None and (self.observation_type != "float" or normalizer is not None):
            pointer = self._buffer("seen", size)
            number = f"(float)observations[i]{self._divided if len(self._shapes[0]) == 1 else ''}"
            self.lines.append(f"    for (int i = 0; i < rows * {size}; i++) policy->seen[i] = {number};")
        if normalizer is not None:
            tables = f"{self.name}_observation_mean", f"{self.name}_observation_scale"
            self._call("normalize", *tables, _number(normalizer.clip), pointer, size, "rows")
        self._places[0] = pointer, size

    def _images(self, images: Iterable[int]) -> None:
        (planes, height, width), channels = self._shapes[0], self.layers.shape[0]
        area, are_planes = height * width, self.layers.categories is not None
        pixel_type = f"{self.type_name}Observation" if are_planes else "float"
        place = f"pixel * {channels} + channel" if self.layers.has_channels_last else f"channel * {area} + pixel"
        pixel, table = f"pixels[{place}]", self.name
        image = self._image("image_0", planes * area)
        lines = [f"{image}[pixel * {channels} + channel] = {pixel}{self._divided};"]
        if are_planes:
            lines = [
                f"int64_t first = {table}_first_planes[channel], last = {table}_first_planes[channel + 1] - 1;",
                f"int64_t plane = first + (int64_t){pixel} - {table}_lowest[channel];",
                "plane = plane < first ? first : plane > last ? last : plane;",
                f"{image}[pixel * {planes} + plane] = 1.0f;",
            ]
        self.lines += [
            "    for (int row = 0; row < rows; row++) {",
            f"        const {pixel_type}* pixels = {self._places[0][0]} + row * {self._size};",
            *([f"        memset({image}, 0, {planes * area} * sizeof(float));"] if are_planes else []),
            f"        for (int pixel = 0; pixel < {area}; pixel++) {{",
            f"            for (int channel = 0; channel < {channels}; channel++) {{",
            *(f"                {line}" for line in lines),
            *("            }", "        }"),
        ]
        self._places[0], self._indent, self._rows = (image, planes), "        ", "1"
        for index in images:
            self._layer(index)
        self.lines.append("    }")
        self._indent, self._rows = "    ", "rows"
        self._places |= {value: (pointer, self.rows[value]) for value, pointer in self._features.items()}

    def _linear(self, index: int, layer: Layer) -> None:
        (value,), count = layer.inputs, self._count(index + 1)
        place = self._places[value][:1] if layer.kind == "ONE_HOT" else self._each_place(value)
        self._call(layer.kind.lower(), *self._products(index), *place, self._target(index + 1), count)

    def _convolution(self, index: int, layer: Layer) -> None:
        (value,), padding = layer.inputs, layer.padding
        source, (channels, height, width) = self._places[value][0], self._shapes[value]
        if padding:
            channels = row_of((channels,)) if value else channels
            padded = self._image(f"padded_{value}", (height + 2 * padding) * (width + 2 * padding) * channels)
            self._call("pad", source, height, width, channels, padding, padded)
            source = padded
        self._call("convolution", *self._products(index), source, self._target(index + 1))

    def _pool(self, index: int, layer: Layer) -> None:
        (channels, height, *edge), (source, _) = self._shapes[layer.inputs[0]], self._places[layer.inputs[0]]
        width, flag = row_of((channels,)), str(layer.is_largest).lower()
        if not edge:
            return self._call("pool_entities", source, height, width, flag, self._target(index + 1), self._rows)
        sizes = height, *edge, width, layer.size, layer.stride, layer.padding
        self._call("pool", source, *sizes, flag, self._target(index + 1))

    def _mingru(self, index: int, layer: Layer) -> None:
        self._call("copy", *self._each(index, layer), self._rows)
        state, gates = f"policy->{self._states_of[index][0]}[first]", self._gates(3 * self.rows[index + 1])
        self._call("mingru", *self._products(index), self._places[index + 1][0], state, gates, self._rows)

    def _lstm(self, index: int, layer: Layer) -> None:
        states, row = [f"policy->{state}[first]" for state in self._states_of[index]], self.rows[index + 1]
        gates = self._gates({"LSTM": 4, "GRU": 6}[layer.kind] * row)
        arguments = *self._products(index), *self._places[layer.inputs[0]], *states, gates, self._rows
        self._call(layer.kind.lower(), *arguments)
        self._places[index + 1] = states[0], row

    def _state(self, index: int, layer: Layer) -> None:  # what the step before has left
        (state,), row = self._states_of[index], self.rows[index + 1]
        self._call("copy", f"policy->{state}[first]", row, self._target(index + 1), row, layer.units, self._rows)

    def _norm(self, index: int, layer: Layer) -> None:
        tables = []
        for name, tensor in zip(("weights", "bias"), layer.parameters(), strict=True):
            tables.append("NULL" if tensor is None else f"{self.name}_{self.network.names[index]}_{name}")
            self.tables += [] if tensor is None else _table(tables[-1], floats(tensor))
        flags, (units, *_) = (_number(layer.epsilon), str(layer.is_centered).lower()), self._shapes[index + 1]
        places = *self._each_place(layer.inputs[0]), self._target(index + 1), row_of((units,)), units
        self._call("norm", *tables, *flags, *places, self._count(index + 1))

    def _activation(self, index: int, layer: Layer) -> None:
        self._call("copy", *self._each(index, layer), self._rows)
        target, row = self._places[index + 1]
        self._call("activate", ACTIVATIONS[layer.activation], target, f"{self._rows} * {row}")

    def _affine(self, index: int, layer: Layer) -> None:
        self._call("affine", *map(_number, layer.numbers), *self._each(index, layer), self._rows)

    def _add(self, index: int, layer: Layer) -> None:
        function = {"ADD": "add", "MULTIPLY": "times"}[layer.kind]
        source, row, *result = self._each(index, layer)
        for value in layer.inputs[1:]:
            self._call(function, source, row, *self._places[value], *result, self._rows)
            source, row = result[:2]

    def _concatenate(self, index: int, layer: Layer) -> None:
        (channels, *edges), first, target = self._shapes[index + 1], 0, self._target(index + 1)
        for value, (begin, count) in zip(layer.inputs, layer.parts, strict=True):
            (source, row), moved = self._places[value], f"{target} + {first}" if first else target
            row = row_of(self._shapes[value][:1]) if edges else row  # then its pixels are the rows
            source = f"{source} + {begin}" if begin else source
            self._call("copy", source, row, moved, row_of((channels,)), count, self._count(index + 1))
            first += count

    def _arrange(self, index: int, layer: Layer) -> None:
        (value,), sizes = layer.inputs, (self._shapes[layer.inputs[0]], layer.shape)
        (units, entities), _ = sorted(sizes, key=len, reverse=True)
        inside, outside = (row_of((units,)) if len(shape) == 2 else units for shape in sizes)
        target = self._target(index + 1), self.rows[index + 1], outside
        self._call("arrange", *self._places[value], inside, *target, units, entities, self._rows)

    def _attention(self, index: int, layer: Layer) -> None:
        if len(layer.inputs) > 3:
            raise ExportError("C has no layer for Attention with a mask; use --format onnx or torchscript")
        heads, key_size, value_size, queries, keys, *_ = layer.sizes([self._shapes[value] for value in layer.inputs])
        name, scale = f"{self.name}_attention_{index}", _number(layer.scale)
        numbers = f"{heads}, {key_size}, {value_size}, {queries}, {keys}, {scale}"
        self.tables += [f"static const PuffernetAttention {name} = {{{numbers}}};", ""]
        self.buffers["shares"] = self._most_keys = max(self._most_keys, keys)
        sources = (self._places[value][0] for value in layer.inputs)
        self._call("attention", f"&{name}", *sources, "policy->shares", self._target(index + 1), self._rows)

    def _count(self, value: int) -> str:
        # The rows of a value that has entities or pixels, each of which is a row.
        _, *edges = self._shapes[value]
        number = math.prod(edges)
        return self._rows if number == 1 else str(number) if self._rows == "1" else f"{self._rows} * {number}"

    def _each_place(self, value: int) -> tuple[str, int | str]:
        # Of a value with entities the place of the first, and the floats from one to the next.
        place, row = self._places[value]
        return place, row_of(self._shapes[value][:1]) if len(self._shapes[value]) == 2 else row

    _one_hot, _gru, _multiply = _linear, _lstm, _add

    def _each(self, index: int, layer: Layer) -> tuple[str, int | str, str, int, int]:
        # Source and target with their rows, and how many numbers of a row are computed one by one.
        shape, row = self._shapes[index + 1], self.rows[index + 1]
        return *self._places[layer.inputs[0]], self._target(index + 1), row, row if len(shape) > 1 else shape[0]

    def _results(self) -> None:
        for value, target in self._kept.items():
            if self._places[value][0] != target:
                self._call("copy", *self._places[value], target, self.rows[value], self._shapes[value][0], "rows")
        for index in self._left:
            (value,), (state,), row = self.layers.layers[index].inputs, self._states_of[index], self.rows[index + 1]
            target = f"policy->{state}[first]", row, self.layers.layers[index].units
            self._call("copy", *self._places[value], *target, "rows")
        value, place = self.layers.value, self.layers.value_place
        result = f"policy->critic[row * {self.rows[value]}{f' + {place}' if place else ''}]"
        if value == self.layers.decision:
            result = f"policy->logits[first + row][{place}]"
        self.lines.append(f"    for (int row = 0; row < rows; row++) policy->values[first + row] = {result};")


def _comment(text: str) -> str:
    # ASCII without line ends, nor what continues a `//` comment in the next line: a backslash, or a trigraph for one.
    plain = text.encode("unicode_escape").decode("ascii").replace("\\\\", "\\x5c")
    return plain.replace("??", "?\\x3f")


def _table(name: str, values: np.ndarray) -> Iterator[str]:
    flat = values.reshape(-1).tolist()
    if values.dtype == np.int32:
        texts, kind = list(map(str, flat)), "static const int32_t"
    else:
        texts, kind = list(map(_number, flat)), "PUFFERNET_TABLE"
    texts = texts if any(flat) else ["0"]
    yield f"{kind} {name}[{values.size}] = {{  // {list(values.shape)}"
    yield from (f"    {', '.join(texts[first : first + 8])}," for first in range(0, len(texts), 8))
    yield from ("};", "")


def _number(value: float) -> str:
    if value == 0.0:
        return "0"
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
