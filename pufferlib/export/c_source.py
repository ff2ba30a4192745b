"""The header of weights: a policy as C text for puffernet.h."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from pufferlib.errors import ExportError
from pufferlib.export.c_layers import LSTM, CNetwork, Convolution, Layer, Linear, MinGRU

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
        self.states = dict(_states(network.layers))
        self._is_image = isinstance(network.layers[0], Convolution)
        self._is_one_hot = isinstance(network.layers[0], Linear) and network.layers[0].cells is not None
        is_float = self.observation_type == "float"
        are_categories = self._is_one_hot or network.planes is not None
        self._is_converted = not are_categories and not (is_float and network.normalization is None)

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
            "TABLES": self._tables(),
            "MEMBERS": self._members(),
            "FORGET": self._forget(),
            "BLOCK": self._block(),
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

    def _tables(self) -> Iterator[str]:
        if self.network.normalization is not None:
            mean, scale, _ = self.network.normalization
            yield from _table(f"{self.name}_observation_mean", mean)
            yield from _table(f"{self.name}_observation_scale", scale)
        if len(self.network.deviations):
            yield from _table(f"{self.name}_deviations", self.network.deviations)
        if self.network.planes is not None:
            for name, numbers in zip(("lowest", "first_planes"), self.network.planes, strict=True):
                yield from _table(f"{self.name}_{name}", numbers)
        for layer in (*self.network.layers, *self.network.critic):
            for part in _products(layer):
                yield from self._product(part)

    def _product(self, layer: Linear | Convolution) -> Iterator[str]:
        name, activation = f"{self.name}_{layer.name}", f"PUFFERNET_{(layer.activation or 'identity').upper()}"
        yield from _table(f"{name}_weights", layer.weights)
        yield from _table(f"{name}_bias", layer.bias)
        if isinstance(layer, Linear) and layer.cells is not None:
            lowest, first_inputs = layer.cells
            yield from _table(f"{name}_lowest", lowest)
            yield from _table(f"{name}_first_inputs", first_inputs)
            values = [len(lowest), layer.outputs, activation, f"{name}_weights", f"{name}_bias"]
            yield f"static const PuffernetOneHot {name} = {{"
            yield from (f"    {', '.join(map(str, values))},", f"    {name}_lowest, {name}_first_inputs,", "};", "")
            return
        if isinstance(layer, Linear):
            kind, sizes = "PuffernetLinear", (layer.inputs, layer.outputs)
        else:
            size, _, channels, filters = layer.weights.shape
            kind, sizes = "PuffernetConvolution", (layer.height, layer.width, channels, filters, size, layer.stride)
        values = ", ".join([*map(str, sizes), activation, f"{name}_weights"])
        yield from (f"static const {kind} {name} = {{", f"    {values}, {name}_bias,", "};", "")

    def _members(self) -> Iterator[str]:
        agents, logits = f"{self.name.upper()}_AGENTS", self.network.layers[-1].outputs
        yield f"    float logits[{agents}][{logits}];  // the first {self.constants['LOGITS']} of each agent's"
        yield f"    float values[{agents}];"
        for state, (width, _) in self.states.items():
            yield f"    float {state}[{agents}][{width}];  // recurrent state"
        yield "    PuffernetRandom random;"
        for buffer, comment in self._buffers().items():
            kind = "int32_t" if buffer.startswith("inputs[") else "float"
            yield f"    {kind} {buffer};{comment}"

    def _buffers(self) -> dict[str, str]:
        linear = [layer for layer in (*self.network.layers, *self.network.critic) if isinstance(layer, Linear)]
        images = [layer for layer in self.network.layers if isinstance(layer, Convolution)]
        recurrent = [layer for layer in self.network.layers if isinstance(layer, (MinGRU, LSTM))]
        buffers = {}
        if self._is_converted:
            buffers[f"seen[PUFFERNET_BLOCK * {self.constants['OBSERVATION']}]"] = "  // the rest: scratch of a block"
        if self._is_one_hot:
            buffers[f"inputs[PUFFERNET_BLOCK * {self.constants['OBSERVATION']}]"] = "  // the rest: scratch of a block"
        if images:
            sizes = [layer.height * layer.width * layer.weights.shape[2] for layer in images]
            buffers[f"image[2][{max(sizes)}]"] = ""
            buffers[f"features[PUFFERNET_BLOCK * {int(np.prod(images[-1].output_shape))}]"] = ""
        buffers[f"hidden[2][PUFFERNET_BLOCK * {max(layer.outputs for layer in linear)}]"] = ""
        if self.network.critic:
            buffers[f"critic[PUFFERNET_BLOCK * {self.network.critic[-1].outputs}]"] = ""
        if recurrent:
            widths = [next(iter(_products(layer))).outputs for layer in recurrent]
            buffers[f"gates[PUFFERNET_BLOCK * {max(widths)}]"] = ""
        return buffers

    # ---------------------------------------------------------------------------------------------------- functions

    def _forget(self) -> Iterator[str]:
        for state in self.states:
            yield f"    memset(policy->{state}[agent], 0, sizeof(policy->{state}[agent]));"
        if not self.states:
            yield "    (void)policy, (void)agent;  // it has none"

    def _block(self) -> Iterator[str]:
        size = f"{self.name.upper()}_OBSERVATION"
        current, width = "observations", size
        if self._is_one_hot:
            yield "    for (int row = 0; row < rows; row++) {"
            yield f"        for (int cell = 0, i = row * {size}; cell < {size}; cell++, i++) {{"
            layer = f"&{self.name}_{self.network.layers[0].name}"
            yield f"            policy->inputs[i] = puffernet_category({layer}, cell, (int64_t)observations[i]);"
            yield from ("        }", "    }")
            current = "policy->inputs"
        if self._is_converted:
            yield f"    for (int i = 0; i < rows * {size}; i++) policy->seen[i] = (float)observations[i];"
            current = "policy->seen"
        if self.network.normalization is not None:
            clip = _number(self.network.normalization[2])
            mean, scale = f"{self.name}_observation_mean", f"{self.name}_observation_scale"
            yield from _call("    puffernet_normalize", [mean, scale, clip, "policy->seen", size, "rows"])
        if self._is_image:
            yield from self._images(current)
            current, width = "policy->features", str(self.network.layers[_num_images(self.network)].inputs)
        after = self.network.layers[_num_images(self.network) :]
        yield from self._chain(after, current, width, "policy->logits[first]")
        if self.network.critic:
            yield from self._chain(self.network.critic, current, width, "policy->critic")
            value = f"policy->critic[row * {self.network.critic[-1].outputs}]"
        else:
            value = f"policy->logits[first + row][{self.constants['LOGITS']}]"
        yield f"    for (int row = 0; row < rows; row++) policy->values[first + row] = {value};"

    def _images(self, source: str) -> Iterator[str]:
        layers = [layer for layer in self.network.layers if isinstance(layer, Convolution)]
        channels, height, width = self.network.image_shape
        scale = "" if self.network.image_scale == 1.0 else f" / {_number(self.network.image_scale)}"
        yield "    for (int row = 0; row < rows; row++) {"
        pixel_type = "float" if self.network.planes is None else f"{self.type_name}Observation"
        yield f"        const {pixel_type}* pixels = {source} + row * {self.name.upper()}_OBSERVATION;"
        if self.network.planes is not None:
            planes = layers[0].weights.shape[2]
            yield f"        memset(policy->image[0], 0, {height * width * planes} * sizeof(float));"
        yield f"        for (int pixel = 0; pixel < {height * width}; pixel++) {{"
        yield f"            for (int channel = 0; channel < {channels}; channel++) {{"
        place = f"pixels[channel * {height * width} + pixel]"
        if self.network.planes is None:
            yield f"                policy->image[0][pixel * {channels} + channel] = {place}{scale};"
        else:
            table = f"{self.name}_first_planes"
            yield f"                int64_t first = {table}[channel], last = {table}[channel + 1] - 1;"
            yield f"                int64_t plane = first + (int64_t){place} - {self.name}_lowest[channel];"
            yield "                plane = plane < first ? first : plane > last ? last : plane;"
            yield f"                policy->image[0][pixel * {planes} + plane] = 1.0f;"
        yield from ("            }", "        }")
        for index, layer in enumerate(layers):
            features = f"policy->features + row * {int(np.prod(layer.output_shape))}"
            target = features if layer is layers[-1] else f"policy->image[{(index + 1) % 2}]"
            source = f"policy->image[{index % 2}]"
            yield from _call("        puffernet_convolution", [f"&{self.name}_{layer.name}", source, target])
        yield "    }"

    def _chain(self, layers: Iterable[Layer], current: str, width: str, result: str) -> Iterator[str]:
        layers, free = tuple(layers), 0
        for index, layer in enumerate(layers):
            if isinstance(layer, Linear):
                target = result if index == len(layers) - 1 else f"policy->hidden[{free}]"
                if layer.cells is not None:
                    yield from _call("    puffernet_one_hot", [f"&{self.name}_{layer.name}", current, target, "rows"])
                else:
                    arguments = [f"&{self.name}_{layer.name}", current, width, target, "rows"]
                    yield from _call("    puffernet_linear", arguments)
                current, width, free = target, str(layer.outputs), 1 - free
            elif isinstance(layer, MinGRU):
                state = f"policy->{layer.name}[first]"
                arguments = [f"&{self.name}_{layer.gates.name}", current, state, "policy->gates", "rows"]
                yield from _call("    puffernet_mingru", arguments)
            elif isinstance(layer, LSTM):
                hidden, memory = f"policy->{layer.hidden_name}[first]", f"policy->{layer.memory_name}[first]"
                products = [f"&{self.name}_{product.name}" for product in _products(layer)]
                arguments = [*products, current, width, hidden, memory, "policy->gates", "rows"]
                yield from _call("    puffernet_lstm", arguments)
                current, width = hidden, str(self.states[layer.hidden_name][0])

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


def _products(layer: Layer) -> tuple[Linear | Convolution, ...]:
    if isinstance(layer, MinGRU):
        return (layer.gates,)
    return (layer.input, layer.recurrent) if isinstance(layer, LSTM) else (layer,)


def _states(layers: Iterable[Layer]) -> Iterator[tuple[str, tuple[int, int]]]:
    for layer in layers:
        if isinstance(layer, MinGRU):
            yield layer.name, (layer.gates.outputs // 3, layer.gates.inputs)
        elif isinstance(layer, LSTM):
            sizes = layer.recurrent.outputs // 4, layer.recurrent.inputs
            yield from ((layer.hidden_name, sizes), (layer.memory_name, sizes))


def _num_images(network: CNetwork) -> int:
    return sum(isinstance(layer, Convolution) for layer in network.layers)


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
