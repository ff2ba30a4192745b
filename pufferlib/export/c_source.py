"""The header of weights: a policy as C text for puffernet.h."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from pufferlib.errors import ExportError
from pufferlib.export.c_layers import CNetwork, floats, products, row_of
from pufferlib.extensions.network_layers import Layer, Shape

TEMPLATE = Path(__file__).with_name("policy.h")
WIDTH = 120  # of a line

C_TYPES = {
    **{"float32": "float", "float64": "double", "bool": "bool"},
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class HeaderWriter:
    """Writes the header of one network.

    Attributes:
        name: the prefix of all functions and tables, such as `breakout_policy`.
        type_name: of the struct, such as `BreakoutPolicy`.
        network: is written.
        observation_type: in C.
        action_type: in C.
        states: the recurrent state by name: floats of one agent in memory, and those of them that torch has.
    """

    def __init__(self, name: str, network: CNetwork):
        """Prepares a header.

        Args:
            name: an environment's in C, such as `breakout`.
            network: to write.

        Raises:
            ExportError: if C has no type for the observations.
        """
        dtype = network.observation.dtype
        if str(dtype) not in C_TYPES:
            raise ExportError(f"C has no type for observations of {dtype}; use --format onnx or torchscript")
        self.name = f"{name}_policy"
        self.type_name = "".join(part.capitalize() for part in self.name.split("_"))
        self.network = network
        self.observation_type = C_TYPES[str(dtype)]
        self.action_type = "float" if any(part.choices is None for part in network.parts) else "int32_t"
        sizes = network.layers.state_sizes()
        self.states = {state: (row_of((n,)), n) for state, n in zip(network.states, sizes, strict=True)}
        self._program = _Program(self)

    @property
    def constants(self) -> dict[str, int]:
        """The header's numbers `<NAME>_<key>`."""
        network = self.network
        return {
            "OBSERVATION": int(np.prod(network.observation.shape)),
            "ACTION": network.parts[-1].columns.stop,
            "LOGITS": network.num_logits,
        }

    def text(self, notes: Mapping[str, str]) -> str:
        """The whole file: policy.h with its names and slots filled."""
        template = TEMPLATE.read_text()
        names = {"GamePolicy": self.type_name, "GAME_POLICY": self.name.upper(), "game_policy": self.name}
        for old, new in names.items():
            template = template.replace(old, new)
        signature = re.compile(r"^(static inline void \w+)\(([^)]*)\) \{$", re.MULTILINE)
        template = signature.sub(lambda found: "\n".join(_call(found[1], re.split(r",\s+", found[2]), ") {")), template)
        slots = {
            "NOTES": [f"// {_comment(key)}: {_comment(text)}" for key, text in notes.items()],
            "TYPES": [
                f"typedef {self.observation_type} {self.type_name}Observation;",
                f"typedef {self.action_type} {self.type_name}Action;",
            ],
            "CONSTANTS": self._constants(),
            "TABLES": self._program.tables,
            "MEMBERS": self._members(),
            "FORGET": self._forget(),
            "BLOCK": self._program.lines,
            "DECISIONS": self._decisions(),
        }
        slot = re.compile(r"^ *// @([A-Z]+)\n", re.MULTILINE)
        return slot.sub(lambda found: "".join(f"{line}\n" for line in slots[found[1]]), template)

    # ------------------------------------------------------------------------------------------------- declarations

    def _constants(self) -> Iterator[str]:
        comments = {
            "OBSERVATION": f"numbers that an agent sees, of shape {list(self.network.observation.shape)}",
            "ACTION": f"numbers of what it does: {self._parts_text()}",
            "LOGITS": "of choices, or means of numbers",
        }
        for key, number in self.constants.items():
            yield f"    {self.name.upper()}_{key} = {number},  // {comments[key]}"

    def _parts_text(self) -> str:
        words = [
            f"{part.width} of a normal distribution" if part.choices is None else f"one of {part.choices} choices"
            for part in self.network.parts
        ]
        return ", ".join(words) if len(words) < 5 else f"{len(words)} choices or numbers"

    def _members(self) -> Iterator[str]:
        agents, program, row = f"{self.name.upper()}_AGENTS", self._program, self._program.logits_row
        yield f"    float logits[{agents}][{row}];  // the first {self.constants['LOGITS']} of each agent's"
        yield f"    float values[{agents}];"
        for state, (width, _) in self.states.items():
            yield f"    float {state}[{agents}][{width}];  // recurrent state"
        yield "    PuffernetRandom random;"
        for buffer, comment in program.buffers().items():
            kind = "int32_t" if buffer.startswith("inputs[") else "float"
            yield f"    {kind} {buffer};{comment}"

    # ---------------------------------------------------------------------------------------------------- functions

    def _forget(self) -> Iterator[str]:
        for state in self.states:
            yield f"    memset(policy->{state}[agent], 0, sizeof(policy->{state}[agent]));"
        if not self.states:
            yield "    (void)policy, (void)agent;  // it has none"

    def _decisions(self) -> Iterator[str]:
        place = deviation = 0
        for part in self.network.parts:
            column = part.columns.start
            if part.choices is not None:
                cast = "(float)" if self.action_type == "float" else ""
                yield f"        action[{column}] = {cast}puffernet_choose(random, logits + {place}, {part.choices});"
            else:
                yield f"        for (int i = 0; i < {part.width}; i++) {{"
                drawn = f"logits[{place} + i], {self.name}_deviations[{deviation} + i]"
                yield f"            action[{column} + i] = puffernet_number(random, {drawn});"
                yield "        }"
                deviation += part.width
            place += part.outputs


class _Program:
    # The tables, buffers and lines that compute a block of rows: layer after layer, images row by row.

    def __init__(self, writer: HeaderWriter):
        self.writer, self.name, self.network = writer, writer.name, writer.network
        self.layers = self.network.layers
        self.shapes: list[Shape] = self.layers.shapes()
        self.last = {value: index for index, layer in enumerate(self.layers.layers) for value in layer.inputs}
        self.kept = self.layers.decision, self.layers.value
        self.tables, self.lines = list(self._own_tables()), []
        self.places: dict[int, tuple[str, int | str]] = {}  # of values: a pointer, and floats from row to row
        self.sizes = {"image": 0, "hidden": 0, "gates": 0}  # the largest of each kind of buffer
        self.used: dict[str, set[int]] = {"image": set(), "hidden": set()}  # buffers by number
        self.most = {"image": 2, "hidden": 2}
        self.features = [
            value
            for value in range(1, len(self.shapes))
            if len(self.shapes[value]) == 3
            and any(
                value in layer.inputs and len(self.shapes[i + 1]) == 1 for i, layer in enumerate(self.layers.layers)
            )
        ]
        self.logits_row = self._row(self.layers.decision)
        states = iter(writer.states)
        self.states = [tuple(next(states) for _ in range(layer.num_states)) for layer in self.layers.layers]
        self._observe()
        images = [i for i in range(len(self.layers.layers)) if len(self.shapes[i + 1]) == 3]
        if images:
            self._rows_of_images(images)
        for index in range(len(self.layers.layers)):
            if index not in images:
                self._layer(index, "    ", "rows")
        self._results()

    def _row(self, value: int) -> int:
        return row_of(self.shapes[value])

    def _call(self, indent: str, function: str, *arguments: object) -> None:
        self.lines += _call(f"{indent}puffernet_{function}", map(str, arguments))

    # ------------------------------------------------------------------------------------------------ tables, buffers

    def _own_tables(self) -> Iterator[str]:
        normalizer, categories = self.layers.normalizer, self.layers.categories
        if normalizer is not None:
            scale = (normalizer.variance + normalizer.epsilon).rsqrt()
            yield from _table(f"{self.name}_observation_mean", floats(normalizer.mean).reshape(-1))
            yield from _table(f"{self.name}_observation_scale", floats(scale).reshape(-1))
        if len(self.network.deviations):
            yield from _table(f"{self.name}_deviations", self.network.deviations)
        if categories is not None and len(self.shapes[0]) == 3:
            yield from _table(f"{self.name}_lowest", categories.lowest.numpy())
            yield from _table(f"{self.name}_first_planes", self._first_columns())

    def _first_columns(self) -> np.ndarray:
        return np.concatenate([[0], self.layers.categories.counts.numpy().cumsum()]).astype(np.int32)

    def _products(self, index: int) -> list[str]:
        # Writes the tables of a layer's products; their names.
        layer, name, state = self.layers.layers[index], self.network.names[index], self.states[index]
        shape = self.shapes[layer.inputs[0]]
        names = {"MINGRU": [f"{state[0]}_gates"]} if layer.kind == "MINGRU" else {}
        if layer.kind in ("LSTM", "GRU"):
            names[layer.kind] = [f"{state[0]}_input", f"{state[0]}_recurrent"]
        found = [f"{self.name}_{each}" for each in names.get(layer.kind, [name])]
        activation = getattr(layer, "activation", "relu" if getattr(layer, "is_rectified", False) else "linear")
        activation = f"PUFFERNET_{'IDENTITY' if activation == 'linear' else activation.upper()}"
        for each, (weights, bias) in zip(found, products(layer, shape, layer.inputs[0] == 0), strict=True):
            self.tables += [*_table(f"{each}_weights", weights), *_table(f"{each}_bias", bias)]
            kind, ends = "Linear", f"{activation}, {each}_weights, {each}_bias,"
            sizes, more = list(map(str, weights.shape)), []
            if layer.kind == "ONE_HOT":
                self.tables += _table(f"{each}_lowest", self.layers.categories.lowest.numpy())
                self.tables += _table(f"{each}_first_inputs", self._first_columns())
                kind, sizes, more = "OneHot", [str(layer.cells), sizes[1]], [f"    {each}_lowest, {each}_first_inputs,"]
            elif layer.kind == "CONVOLUTION":
                size, _, channels, filters = sizes
                edges = [str(edge + 2 * layer.padding) for edge in shape[1:]]
                kind, sizes = "Convolution", [*edges, channels, filters, size, str(layer.stride)]
            self.tables += [
                f"static const Puffernet{kind} {each} = {{",
                f"    {', '.join(sizes)}, {ends}",
                *more,
                "};",
                "",
            ]
        return [f"&{each}" for each in found]

    def buffers(self) -> dict[str, str]:
        """Declarations of the members that are scratch, with comments."""
        size, buffers, comment = self.writer.constants["OBSERVATION"], {}, "  // the rest: scratch of a block"
        for name in ("seen", "inputs"):
            if any(f"policy->{name}" in line for line in self.lines):
                buffers[f"{name}[PUFFERNET_BLOCK * {size}]"] = comment
        if self.sizes["image"]:
            buffers[f"image[{self.most['image']}][{self.sizes['image']}]"] = ""
        for value in self.features:
            buffers[f"{self._features(value)}[PUFFERNET_BLOCK * {self._row(value)}]"] = ""
        buffers[f"hidden[{self.most['hidden']}][PUFFERNET_BLOCK * {max(self.sizes['hidden'], self.logits_row)}]"] = ""
        if self.layers.value != self.layers.decision:
            buffers[f"critic[PUFFERNET_BLOCK * {self._row(self.layers.value)}]"] = ""
        if self.sizes["gates"]:
            buffers[f"gates[PUFFERNET_BLOCK * {self.sizes['gates']}]"] = ""
        return buffers

    def _features(self, value: int) -> str:
        return "features" if len(self.features) == 1 else f"features_{value}"

    def _take(self, kind: str, size: int) -> tuple[str, int]:
        # The first buffer that holds nothing that is still read.
        number = next(number for number in range(len(self.used[kind]) + 1) if number not in self.used[kind])
        self.used[kind].add(number)
        self.most[kind] = max(self.most[kind], number + 1)
        self.sizes[kind] = max(self.sizes[kind], size)
        return f"policy->{kind}[{number}]", number

    def _target(self, value: int) -> str:
        # Where a value goes: it is remembered as its place.
        row, is_image = self._row(value), len(self.shapes[value]) == 3
        if is_image and value in self.features:
            pointer = f"policy->{self._features(value)} + row * {row}"
        elif value in self.kept:
            pointer = "policy->logits[first]" if value == self.layers.decision else "policy->critic"
            self.sizes["hidden"] = max(self.sizes["hidden"], row)
        else:
            pointer, _ = self._take("image" if is_image else "hidden", row)
        self.places[value] = pointer, row
        return pointer

    def _free(self, index: int) -> None:
        # Frees the buffers of values that no layer after this one reads, and those of results that none reads.
        for value in self.layers.layers[index].inputs:
            found = re.fullmatch(r"policy->(image|hidden)\[(\d+)\]", self.places[value][0])
            if found and self.last[value] == index:
                self.used[found[1]].discard(int(found[2]))

    # --------------------------------------------------------------------------------------------------------- lines

    def _observe(self) -> None:
        size, (first, *_) = f"{self.name.upper()}_OBSERVATION", self.layers.layers
        normalizer, pointer = self.layers.normalizer, "observations"
        if first.kind == "ONE_HOT":
            layer = f"&{self.name}_{self.network.names[0]}"
            self.lines += [
                "    for (int row = 0; row < rows; row++) {",
                f"        for (int cell = 0, i = row * {size}; cell < {size}; cell++, i++) {{",
                f"            policy->inputs[i] = puffernet_category({layer}, cell, (int64_t)observations[i]);",
                "        }",
                "    }",
            ]
            pointer = "policy->inputs"
        elif self.layers.categories is None and (self.writer.observation_type != "float" or normalizer is not None):
            scale = self._scale() if len(self.shapes[0]) == 1 else ""
            line = f"    for (int i = 0; i < rows * {size}; i++) policy->seen[i] = (float)observations[i]{scale};"
            self.lines.append(line)
            pointer = "policy->seen"
        if normalizer is not None:
            tables = f"{self.name}_observation_mean", f"{self.name}_observation_scale"
            self._call("    ", "normalize", *tables, _number(normalizer.clip), pointer, size, "rows")
        self.places[0] = pointer, size

    def _scale(self) -> str:
        return "" if self.network.image_scale == 1.0 else f" / {_number(self.network.image_scale)}"

    def _rows_of_images(self, images: Iterable[int]) -> None:
        source, size = self.places[0]
        is_of_planes = self.layers.categories is not None
        pixel_type = f"{self.writer.type_name}Observation" if is_of_planes else "float"
        self.lines.append("    for (int row = 0; row < rows; row++) {")
        self.lines.append(f"        const {pixel_type}* pixels = {source} + row * {size};")
        planes, height, width = self.shapes[0]
        channels, area = self.layers.shape[0], height * width
        target, _ = self._take("image", planes * area)
        if is_of_planes:
            self.lines.append(f"        memset({target}, 0, {planes * area} * sizeof(float));")
        self.lines.append(f"        for (int pixel = 0; pixel < {area}; pixel++) {{")
        self.lines.append(f"            for (int channel = 0; channel < {channels}; channel++) {{")
        place, table = f"pixels[channel * {area} + pixel]", f"{self.name}_first_planes"
        if is_of_planes:
            lines = (
                f"int64_t first = {table}[channel], last = {table}[channel + 1] - 1;",
                f"int64_t plane = first + (int64_t){place} - {self.name}_lowest[channel];",
                "plane = plane < first ? first : plane > last ? last : plane;",
                f"{target}[pixel * {planes} + plane] = 1.0f;",
            )
        else:
            lines = (f"{target}[pixel * {channels} + channel] = {place}{self._scale()};",)
        self.lines += [f"                {line}" for line in lines]
        self.lines += ["            }", "        }"]
        self.places[0] = target, planes
        for index in images:
            self._layer(index, "        ", "1")
        self.lines.append("    }")
        for value in self.features:
            self.places[value] = f"policy->{self._features(value)}", self._row(value)

    def _layer(self, index: int, indent: str, rows: str) -> None:
        layer = self.layers.layers[index]
        getattr(self, f"_{layer.kind.lower()}")(index, layer, indent, rows)
        self._free(index)

    def _linear(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        (product,), (source, row) = self._products(index), self.places[layer.inputs[0]]
        self._call(indent, "linear", product, source, row, self._target(index + 1), rows)

    def _one_hot(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        (product,) = self._products(index)
        self._call(indent, "one_hot", product, "policy->inputs", self._target(index + 1), rows)

    def _convolution(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        (product,), (source, _), taken = self._products(index), self.places[layer.inputs[0]], None
        (channels, height, width), padding = self.shapes[layer.inputs[0]], layer.padding
        if padding:
            channels = channels if layer.inputs[0] == 0 else row_of((channels,))
            area = (height + 2 * padding) * (width + 2 * padding)
            padded, taken = self._take("image", area * channels)
            self._call(indent, "pad", source, height, width, channels, padding, padded)
            source = padded
        self._call(indent, "convolution", product, source, self._target(index + 1))
        self.used["image"].discard(taken)

    def _pool(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        (source, _), (channels, height, width) = self.places[layer.inputs[0]], self.shapes[layer.inputs[0]]
        window = layer.size, layer.stride, layer.padding, str(layer.is_largest).lower()
        self._call(indent, "pool", source, height, width, row_of((channels,)), *window, self._target(index + 1))

    def _mingru(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        (product,), (value,) = self._products(index), layer.inputs
        source, row = self.places[value]
        if source.startswith("policy->hidden") and self.last[value] == index and index + 1 not in self.kept:
            self.places[index + 1], self.places[value] = (source, row), ("", 0)
        else:
            self._copy(indent, source, row, self._target(index + 1), self._row(index + 1), self.shapes[value][0], rows)
        self.sizes["gates"] = max(self.sizes["gates"], 3 * self._row(index + 1))
        state = f"policy->{self.states[index][0]}[first]"
        self._call(indent, "mingru", product, self.places[index + 1][0], state, "policy->gates", rows)

    def _lstm(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        source, row = self.places[layer.inputs[0]]
        states = [f"policy->{state}[first]" for state in self.states[index]]
        gates = 4 if layer.kind == "LSTM" else 6
        self.sizes["gates"] = max(self.sizes["gates"], gates * self._row(index + 1))
        function, arguments = layer.kind.lower(), [*self._products(index), source, row, *states, "policy->gates", rows]
        self._call(indent, function, *arguments)
        self.places[index + 1] = states[0], self._row(index + 1)

    _gru = _lstm

    def _norm(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        tables = []
        for name, tensor in zip(("weights", "bias"), layer.parameters(), strict=True):
            tables.append("NULL" if tensor is None else f"{self.name}_{self.network.names[index]}_{name}")
            self.tables += [] if tensor is None else _table(tables[-1], floats(tensor))
        flags = _number(layer.epsilon), str(layer.is_centered).lower()
        self._call(indent, "norm", *tables, *flags, *self._each(index, layer), rows)

    def _activation(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        source, row, target, target_row, count = self._each(index, layer)
        self._copy(indent, source, row, target, target_row, count, rows)
        count = f"rows * {target_row}" if rows == "rows" else target_row
        self._call(indent, "activate", f"PUFFERNET_{layer.activation.upper()}", target, count)

    def _affine(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        self._call(indent, "affine", *map(_number, layer.numbers), *self._each(index, layer), rows)

    def _add(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        source, row, *result = self._each(index, layer)
        for value in layer.inputs[1:]:
            self._call(
                indent, layer.kind.lower().replace("multiply", "times"), source, row, *self.places[value], *result, rows
            )
            source, row = result[:2]

    _multiply = _add

    def _concatenate(self, index: int, layer: Layer, indent: str, rows: str) -> None:
        shape, first = self.shapes[index + 1], 0
        is_image = len(shape) == 3
        target, row = self._target(index + 1), row_of(shape[:1])
        for value, (begin, count) in zip(layer.inputs, layer.parts, strict=True):
            source, source_row = self.places[value]
            source_row = row_of(self.shapes[value][:1]) if is_image else source_row
            pixels = shape[1] * shape[2] if is_image else rows
            self._copy(indent, _moved(source, begin), source_row, _moved(target, first), row, count, pixels)
            first += count

    def _each(self, index: int, layer: Layer) -> tuple[str, int | str, str, int, int]:
        # Source, target, and how many numbers of each row are computed one by one.
        source, row = self.places[layer.inputs[0]]
        shape = self.shapes[index + 1]
        count = self._row(index + 1) if len(shape) == 3 else shape[0]
        return source, row, self._target(index + 1), self._row(index + 1), count

    def _copy(self, indent: str, *arguments: object) -> None:
        self._call(indent, "copy", *arguments)

    def _results(self) -> None:
        layers = self.layers
        for value in dict.fromkeys(self.kept):
            source, row = self.places[value]
            target = self._target(value)
            if source != target:
                self._copy("    ", source, row, target, self._row(value), self.shapes[value][0], "rows")
        result = f"policy->logits[first + row][{layers.value_place}]"
        if layers.value != layers.decision:
            place = f" + {layers.value_place}" if layers.value_place else ""
            result = f"policy->critic[row * {self._row(layers.value)}{place}]"
        self.lines.append(f"    for (int row = 0; row < rows; row++) policy->values[first + row] = {result};")


def _moved(pointer: str, count: int) -> str:
    return f"{pointer} + {count}" if count else pointer


def _comment(text: str) -> str:
    # ASCII without line ends, nor what continues a `//` comment in the next line: a backslash, or a trigraph for one.
    plain = text.encode("unicode_escape").decode("ascii").replace("\\\\", "\\x5c")
    return plain.replace("??", "?\\x3f")


def _call(function: str, arguments: Iterable[str], end: str = ");") -> Iterator[str]:
    first, *rest = arguments
    line = f"{function}({first}"
    for argument in rest:
        if len(f"{line}, {argument},{end}") <= WIDTH:
            line += f", {argument}"
        else:
            yield f"{line},"
            line = f"{' ' * (len(function) + 1)}{argument}"
    yield line + end


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
