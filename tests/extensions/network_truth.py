"""Random policies of the kernel that computes all layers at once, and the same in plain torch and float64."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

from pufferlib.extensions.mingru import reference_mingru
from pufferlib.extensions.network import Network, NetworkBatch
from pufferlib.extensions.network_layers import (
    GRU,
    LSTM,
    Activation,
    Add,
    Affine,
    Categories,
    Concatenate,
    Convolution,
    Layers,
    Linear,
    MinGRU,
    Multiply,
    Norm,
    Normalizer,
    OneHotLinear,
    Scale,
    StateLayer,
)
from pufferlib.ppo import losses

COEFFICIENTS = {"clip_coef": 0.2, "vf_clip_coef": 0.3, "vf_coef": 1.2, "ent_coef": 0.01}
FUNCTIONS = {
    **{"linear": nn.Identity(), "relu": nn.ReLU(), "tanh": nn.Tanh(), "gelu": nn.GELU(), "silu": nn.SiLU()},
    **{"gelu_tanh": nn.GELU("tanh"), "sigmoid": nn.Sigmoid(), "elu": nn.ELU(), "leaky_relu": nn.LeakyReLU()},
    "softplus": nn.Softplus(),
}
CASES = {
    "breakout": {"inputs": 118, "width": 64, "recurrent": 2},
    "one_input": {"inputs": 1, "width": 16, "recurrent": 1, "activation": "tanh"},
    "no_recurrence": {"inputs": 5, "width": 32, "encoder": 2, "activation": "gelu"},
    "deep": {"inputs": 16, "width": 48, "encoder": 3, "recurrent": 3, "activation": "relu"},
    "multi_discrete": {"inputs": 7, "width": 16, "encoder": 2, "parts": (3, 1, 20), "activation": "gelu"},
    "many_choices": {"inputs": 9, "width": 48, "recurrent": 1, "parts": (131, 9)},
    "choices_by_masks": {"inputs": 9, "width": 48, "recurrent": 1, "parts": (700, 9)},
    "choices_by_masks_and_critic": {"inputs": 20, "width": 23, "encoder": 2, "parts": (300,), "critic": (32,)},
    "no_bias": {"inputs": 33, "width": 80, "recurrent": 1, "has_bias": False},
    "numbers": {"inputs": 9, "width": 32, "numbers": 5, "activation": "relu"},
    "recurrent_numbers": {"inputs": 3, "width": 16, "recurrent": 2, "numbers": 1},
    "critic": {"inputs": 17, "width": 64, "encoder": 2, "numbers": 6, "critic": (64, 64), "activation": "tanh"},
    "small_critic": {"inputs": 2, "width": 48, "numbers": 17, "critic": (16,), "activation": "gelu"},
    "choices_and_critic": {"inputs": 20, "width": 16, "recurrent": 1, "parts": (2, 4), "critic": (32, 32, 32)},
    "lstm": {"inputs": 118, "width": 128, "lstm": 1},
    "lstms": {"inputs": 7, "width": 48, "encoder": 2, "lstm": 3, "activation": "relu"},
    "lstm_without_bias": {"inputs": 5, "width": 16, "lstm": 2, "has_bias": False},
    "lstm_and_critic": {"inputs": 20, "width": 32, "lstm": 1, "numbers": 3, "critic": (48,), "is_normalized": True},
    "lstm_of_categories": {"counts": (3, 256, 128), "lowest": (-1, -128, 0), "width": 80, "lstm": 1, "parts": (2, 4)},
    "loops": {"inputs": 9, "width": 48, "loops": 2, "parts": (2, 4)},
    "loops_of_any_width": {"inputs": 20, "width": 23, "loops": 3, "has_bias": False, "numbers": 2, "critic": (17,)},
    "loop_and_lstm": {"inputs": 5, "width": 32, "loops": 1, "lstm": 1, "activation": "tanh"},
    "any_width": {"inputs": 19, "width": 50, "encoder": 2, "recurrent": 2, "parts": (3, 1, 4), "activation": "gelu"},
    "one_unit": {"inputs": 4, "width": 1, "recurrent": 1, "numbers": 2, "critic": (3, 3), "activation": "tanh"},
    "lstm_of_any_width": {"inputs": 9, "width": 23, "lstm": 2, "activation": "relu"},
    "categories_of_any_width": {"counts": (5, 2, 9), "width": 17, "recurrent": 1, "critic": (33,)},
    "normalised": {"inputs": 17, "width": 32, "numbers": 3, "critic": (32,), "is_normalized": True},
    "categories": {"counts": (5,) * 121, "width": 128},
    "one_cell": {"counts": (1,), "width": 16, "recurrent": 1},
    "categories_of_any_number": {"counts": (3, 1, 18, 2, 256), "lowest": (0, 7, 1, 254, 0), "width": 80, "encoder": 2},
    "categories_below_zero": {"counts": (3, 256, 128), "lowest": (-1, -128, 0), "width": 48, "recurrent": 2},
    "convolutions": {"image": (1, 6, 7), "convolutions": ((20, 3, 1), (32, 3, 1)), "width": 32},
    "pixels": {"image": (3, 4, 5), "convolutions": ((7, 1, 1), (64, 1, 1)), "width": 16, "recurrent": 1},
    "strides": {
        **{"image": (2, 9, 12), "convolutions": ((16, 4, 2), (5, 2, 2), (1, 1, 3)), "has_bias": False},
        **{"width": 48, "lstm": 1, "activation": "relu"},
    },
    "whole_boards": {"image": (2, 5, 5), "convolutions": ((80, 5, 1),), "width": 16, "encoder": 2, "numbers": 3},
    "normalised_images": {"image": (2, 7, 5), "convolutions": ((6, 2, 3),), "width": 16, "is_normalized": True},
    "large_images": {"image": (3, 24, 20), "convolutions": ((32, 8, 4), (24, 3, 1)), "width": 32, "parts": (2, 4)},
    "planes": {"image": (1, 11, 11), "counts": (5,), "convolutions": ((32, 3, 1), (64, 3, 2)), "width": 128},
    "planes_of_channels": {
        **{"image": (3, 5, 4), "counts": (3, 1, 18), "lowest": (0, 7, 1), "convolutions": ((9, 2, 1), (17, 3, 2))},
        **{"width": 32, "recurrent": 2},
    },
    "planes_below_zero": {
        "image": (1, 6, 7),
        "counts": (3,),
        "lowest": (-1,),
        "convolutions": ((48, 4, 3),),
        "width": 16,
    },
    "categories_and_critic": {"counts": (4,) * 9, "width": 32, "numbers": 2, "critic": (16, 16), "activation": "tanh"},
}


def random_layers(
    inputs=7,
    width=16,
    encoder=1,
    recurrent=0,
    activation="linear",
    parts=(3,),
    has_bias=True,
    numbers=0,
    critic=(),
    is_normalized=False,
    counts=(),
    lowest=None,
    lstm=0,
    image=(0, 0, 0),
    convolutions=(),
    loops=0,
):
    layers, columns = random_convolutions(sum(counts) or image[0], image, convolutions, has_bias, bool(counts)), width
    first = features_of(image, convolutions) if convolutions else sum(counts) or inputs

    def add_linear(outputs, columns, activation="linear", value=None):
        weight, bias = torch.randn(outputs, columns) / columns**0.5, 0.3 * torch.randn(outputs) if has_bias else None
        value = len(layers) if value is None else value
        if value == 0 and counts:
            layers.append(OneHotLinear((0,), weight, bias, activation, len(counts)))
        else:
            layers.append(Linear((value,), weight, bias, activation))

    def add_chain(sizes):
        first_value = None if layers and not sizes_of_critic else 0
        for columns, outputs in zip([first, *sizes], sizes, strict=False):
            add_linear(outputs, columns, activation, first_value)
            first_value = None

    sizes_of_critic = ()
    add_chain([width] * encoder)
    for _ in range(recurrent):
        layers.append(MinGRU((len(layers),), 1.5 * torch.randn(3 * width, width) / width**0.5))
    for _ in range(lstm):
        layers.append(random_lstm(4 * width, width, has_bias, len(layers)))
    for _ in range(loops):  # h + z (n - h), the gate of [x, h], and n of h as z lets it through
        x, h = len(layers), len(layers) + 1
        layers.append(StateLayer((h + 8,), width))
        layers.append(Concatenate((x, h), ((0, width), (0, width))))
        add_linear(width, 2 * width, "sigmoid")
        layers.append(Multiply((h, h + 2)))
        add_linear(width, width, "tanh")
        layers.append(Affine((h,), -1.0, 0.0))
        layers.append(Add((h + 4, h + 5)))
        layers.append(Multiply((h + 2, h + 6)))
        layers.append(Add((h, h + 7)))
    parts = (1,) * numbers if numbers else parts
    add_linear(sum(parts) + (not critic), columns)
    decision = len(layers)
    if critic:
        sizes_of_critic = critic
        add_chain(critic)
        add_linear(1, critic[-1])
    return Layers(
        layers,
        image if convolutions else (len(counts) or inputs,),
        parts=parts,
        decision=decision,
        value=len(layers),
        value_place=0 if critic else sum(parts),
        log_std=0.3 * torch.randn(numbers) if numbers else None,
        normalizer=random_normalizer(math.prod(image) if convolutions else inputs) if is_normalized else None,
        categories=make_categories(counts, lowest) if counts else None,
        divides_integers=bool(convolutions),
    )


def random_graph(draw, inputs, num_layers, recurrence=None, units=6):
    """Layers that read any values before them: `draw(lowest, end)` chooses integers below the end.

    The decision and the value read a sum of linear layers of all values that nothing else does.
    """
    layers, sizes = [], [inputs]

    def draw_integer(lowest, highest):
        return int(draw(lowest, highest + 1))

    def weight(outputs, columns):
        return torch.randn(outputs, columns) / columns**0.5

    def add(layer, size):
        layers.append(layer)
        sizes.append(size)
        return len(layers)

    def add_linear(value, outputs, activation="linear"):
        return add(Linear((value,), weight(outputs, sizes[value]), 0.3 * torch.randn(outputs), activation), outputs)

    def any_of(choices):
        return choices[draw_integer(0, len(choices) - 1)]

    def like(value):
        return any_of([other for other in range(1, len(sizes)) if sizes[other] == sizes[value]])

    add_linear(0, units, "tanh")
    states = [
        add(StateLayer((0,), size), size)
        for size in ([units, draw_integer(1, 20)] if recurrence == "state" else [])
        for _ in range(draw_integer(1, 2))
    ]
    for _ in range(num_layers):
        kind = any_of(
            ["linear", "norm", "activation", "add", "multiply", "affine", "scale", "concatenate", "recurrence"]
        )
        value = draw_integer(1, len(layers))
        size = sizes[value]
        if kind == "linear":
            add_linear(draw_integer(0, len(layers)), draw_integer(1, 40), any_of(list(FUNCTIONS)))
        elif kind == "norm":
            given = [0.5 + torch.rand(size), 0.3 * torch.randn(size)]
            given = [tensor if draw_integer(0, 1) else None for tensor in given]
            add(Norm((value,), *given, 1e-2, bool(draw_integer(0, 1))), size)
        elif kind == "activation":
            add(Activation((value,), any_of(list(FUNCTIONS)[1:])), size)
        elif kind == "add":
            add(Add((value, *(like(value) for _ in range(draw_integer(0, 3))))), size)
        elif kind == "multiply":
            squashed = add(Activation((like(value),), "tanh"), size)  # products of products leave what float32 holds
            add(Multiply((add(Activation((value,), "sigmoid"), size), squashed)), size)
        elif kind == "affine":
            add(Affine((value,), -1.5, 0.25), size)
        elif kind == "scale":
            given = [0.5 + torch.rand(size if draw_integer(0, 1) else 1), 0.3 * torch.randn(size)]
            signs = any_of([1.0, -1.0]), any_of([1.0, -1.0])
            add(Scale((value,), *(tensor if draw_integer(0, 1) else None for tensor in given), *signs), size)
        elif kind == "concatenate":
            values, parts = [draw_integer(0, len(layers)) for _ in range(draw_integer(1, 4))], []
            for each in values:
                first = draw_integer(0, sizes[each] - 1)
                parts.append((first, draw_integer(1, sizes[each] - first)))
            add(Concatenate(tuple(values), tuple(parts)), sum(count for _, count in parts))
        elif recurrence == "mingru":
            add(MinGRU((value,), weight(3 * size, size)), size)
        elif recurrence in ("lstm", "gru"):
            outputs, gates = draw_integer(1, 20), 3 if recurrence == "gru" else 4
            kind = GRU if recurrence == "gru" else LSTM
            tensors = weight(gates * outputs, size), weight(gates * outputs, outputs)
            biases = (0.3 * torch.randn(gates * outputs) if draw_integer(0, 1) else None for _ in range(2))
            add(kind((value,), *tensors, *biases), outputs)
    for state in states:
        given = draw_integer(0, len(layers))
        left = add(Activation((add_linear(given, sizes[state]),), any_of(["tanh", "sigmoid", "relu"])), sizes[state])
        left = any_of([left, like(state)])
        layers[state - 1] = StateLayer((left,), sizes[state])
    read = {value for layer in layers for value in layer.inputs}
    ends = [add_linear(value, units) for value in range(1, len(sizes)) if value not in read]
    while len(ends) > 1:
        ends = [add(Add(tuple(ends[:8])), units), *ends[8:]]
    decision = add_linear(ends[0], 5)
    value = add_linear(draw_integer(1, ends[0]), 1) if draw_integer(0, 1) else decision
    return Layers(layers, (inputs,), (3, 1), decision, value, 0 if value != decision else 4).in_loops()


def changed(layers, index, **change):
    """With another layer in one place."""
    found = list(layers.layers)
    found[index] = dataclasses.replace(found[index], **change)
    return dataclasses.replace(layers, layers=found)


def random_convolutions(channels, image, convolutions, has_bias=True, is_of_categories=False):
    """Of filters, size and stride each."""
    layers = []
    for filters, size, stride in convolutions:
        weight = 1.5 * torch.randn(filters, channels, size, size) / (channels**0.5 * size)
        bias = 0.3 * torch.randn(filters) if has_bias else None
        seen = (0, False) if layers else (image[0], is_of_categories)
        layers.append(Convolution((len(layers),), weight, bias, stride, *seen))
        channels = filters
    return layers


def features_of(image, convolutions):
    _, height, width = image
    for _, size, stride in convolutions:
        height, width = (height - size) // stride + 1, (width - size) // stride + 1
    return convolutions[-1][0] * height * width


def random_lstm(gates, width, has_bias=True, value=1):
    weights = [1.5 * torch.randn(gates, width) / width**0.5 for _ in range(2)]
    return LSTM((value,), *weights, *(0.3 * torch.randn(gates) if has_bias else None for _ in range(2)))


def make_categories(counts, lowest=None):
    lowest = torch.tensor(lowest or [0] * len(counts), dtype=torch.int32)
    return Categories(lowest, torch.tensor(counts, dtype=torch.int32))


def random_observations(layers, *leading):
    """Of numbers, or of categories with some beyond the bounds."""
    categories = layers.categories
    if categories is None:
        return torch.randn(*leading, layers.numbers)
    low, high = (-128, 127) if categories.lowest.min() < 0 else (0, 255)
    of_each = layers.numbers // len(categories.counts)
    lowest, counts = categories.lowest.repeat_interleave(of_each), categories.counts.repeat_interleave(of_each)
    inside = lowest + (torch.rand(*leading, layers.numbers) * counts).int()
    anything = torch.randint_like(inside, low, high + 1)
    values = torch.where(torch.rand(inside.shape) < 0.1, anything, inside)
    return values.clamp(low, high).to(torch.int8 if low < 0 else torch.uint8)


def random_normalizer(inputs):
    mean, variance = torch.randn(inputs, dtype=torch.float64), torch.rand(inputs, dtype=torch.float64)
    return Normalizer(mean, variance, 0.01, 1.5)


def random_minibatch(layers, segments, count, steps, has_weights=True):
    def numbers():
        return torch.randn(count, steps)

    if layers.log_std is None:
        choices = [torch.randint(0, size, (count, steps)) for size in layers.parts]
        actions = torch.stack(choices, -1).int() if len(choices) > 1 else choices[0].int()
    else:
        actions = torch.randn(count, steps, len(layers.parts))
    return NetworkBatch(
        segments=torch.randperm(segments)[:count],
        actions=actions,
        resets=torch.rand(count, steps) < 0.2,
        states=[torch.randn(count, size) for size in layers.state_sizes()],
        old_logprobs=0.3 * numbers() - len(layers.parts),
        old_values=numbers(),
        advantages=numbers(),
        returns=numbers(),
        weights=torch.rand(count, steps) if has_weights else None,
    )


def random_masks(parts, *rows):
    """Masks that allow hardly any choice in some rows and nearly all in others, and in each part one at least."""
    masks = torch.rand(*rows, sum(parts)) < torch.rand(*rows, 1)
    for part in masks.split(parts, -1):
        part.scatter_(-1, torch.randint(0, part.shape[-1], (*rows, 1)), True)
    return masks


def masked(layers, minibatch, segments):
    """The minibatch with masks of all segments, and with actions that they allow."""
    masks = random_masks(layers.parts, minibatch.old_logprobs.shape[1], segments).transpose(0, 1)  # as a rollout has it
    allowed = masks[minibatch.segments]
    drawn = [torch.rand(part.shape).mul(part).argmax(-1) for part in allowed.split(layers.parts, -1)]
    actions = torch.stack(drawn, -1).int().view(minibatch.actions.shape)
    return dataclasses.replace(minibatch, actions=actions, masks=masks)


def reference_lstm(inputs, hidden, memory, resets, *parameters):
    """Hidden states of all steps, and both states after the last, by torch's own cell."""
    hidden, memory, outputs = hidden.double(), memory.double(), []
    for step in range(inputs.shape[1]):
        kept = ~resets[:, step, None]
        hidden, memory = torch.lstm_cell(inputs[:, step], (hidden * kept, memory * kept), *parameters)
        outputs.append(hidden)
    return torch.stack(outputs, 1), [hidden, memory]


class Truth:
    """The same policy in plain torch and float64."""

    def __init__(self, layers, noise=0.0):
        self.layers = layers
        doubles = {id(tensor): tensor.double() for tensor in layers.tensors()}
        doubles = {name: tensor * (1 + noise * torch.randn_like(tensor)) for name, tensor in doubles.items()}
        self.doubles = {name: tensor.requires_grad_() for name, tensor in doubles.items()}
        self.parameters = [self.doubles[id(tensor)] for tensor in layers.parameters()]
        self.log_std = None if layers.log_std is None else self.doubles[id(layers.log_std)]
        self.kinks = []  # what has another slope on the other side of 0

    def forward(self, observations, states, resets):
        """Logits of every part or means, values, and the state after every layer's last step."""
        seen, states = self.see(observations), [state.double() for state in states]
        if not any(isinstance(layer, StateLayer) for layer in self.layers.layers):
            values, finals = self.compute(seen, states, resets)
        else:
            steps, finals = [], states
            for step in range(seen.shape[1]):
                values, finals = self.compute(seen[:, step, None], finals, resets[:, step, None])
                steps.append(values)
            values = [torch.cat(each, 1) for each in zip(*steps, strict=True)]
        decision = values[self.layers.decision][..., : sum(self.layers.parts)]
        if self.log_std is None:
            decision = decision.split(tuple(self.layers.parts), -1)
        return decision, values[self.layers.value][..., self.layers.value_place], finals

    def compute(self, seen, states, resets):
        """Of all layers the values, and the states after the last step."""
        values, finals = [seen], []
        for layer in self.layers.layers:
            parameters = [self.doubles.get(id(tensor)) for tensor in layer.parameters()]
            first, states = states[: layer.num_states], states[layer.num_states :]
            inputs = [] if isinstance(layer, StateLayer) else [values[value] for value in layer.inputs]
            output, last = getattr(self, layer.kind.lower())(layer, inputs, parameters, first, resets)
            values.append(output)
            finals += last or [layer] * layer.num_states
        return values, [values[each.inputs[0]][:, -1] if isinstance(each, StateLayer) else each for each in finals]

    def state(self, layer, inputs, parameters, states, resets):
        return (states[0] * ~resets)[:, None], []

    def see(self, observations):
        """Numbers of a row, or the planes of its categories."""
        normalizer, categories = self.layers.normalizer, self.layers.categories
        if self.layers.has_channels_last:  # pixel after pixel
            channels, *edges = self.layers.shape

            def first(numbers):
                return numbers.unflatten(-1, (*edges, channels)).movedim(-1, -3)

            observations = first(observations.flatten(2))
            if normalizer is not None:
                turned = {name: first(getattr(normalizer, name).flatten()) for name in ("mean", "variance")}
                normalizer = dataclasses.replace(normalizer, **turned)
            if categories is not None:
                observations = observations.flatten(-3)
        seen = observations.double()
        if normalizer is not None:
            scaled = (seen - normalizer.mean) * (normalizer.variance + normalizer.epsilon).rsqrt()
            self.kinks.append(scaled.abs() - normalizer.clip)
            seen = scaled.clamp(-normalizer.clip, normalizer.clip)
        elif self.layers.divides_integers and not observations.is_floating_point():
            seen = seen / 255
        if categories is None:
            return seen
        # cells, or channels of cells
        split = observations.long().unflatten(-1, (len(categories.counts), -1)).unbind(-2)
        cells = zip(split, categories.lowest, categories.counts, strict=True)
        columns = [((cell - low).clamp(0, count - 1), int(count)) for cell, low, count in cells]
        return torch.cat([functional.one_hot(column, count).mT for column, count in columns], -2).double().flatten(-2)

    def linear(self, layer, inputs, parameters, states, resets):
        seen = inputs[0].mT if layer.of_each else inputs[0].flatten(2)
        hidden = functional.linear(seen, *parameters)
        hidden = hidden.mT if layer.of_each else hidden
        if layer.activation in ("relu", "leaky_relu"):
            self.kinks.append(hidden)
        return FUNCTIONS[layer.activation](hidden), []

    one_hot = linear

    def convolution(self, layer, inputs, parameters, states, resets):
        (images,), weight = inputs, parameters[0]
        images = images.reshape(*images.shape[:2], weight.shape[1] * layer.groups, *self.image_shape(layer))
        sizes = layer.stride, layer.padding, layer.dilation, layer.groups
        weight = weight.unsqueeze(2) if weight.dim() == 3 else weight
        flat = functional.conv2d(images.flatten(0, 1), weight, parameters[1], *sizes)
        hidden = flat.unflatten(0, images.shape[:-3])
        if not layer.is_rectified:
            return hidden, []
        self.kinks.append(hidden)
        return hidden.relu(), []

    def pool(self, layer, inputs, parameters, states, resets):
        if inputs[0].dim() == 4:  # of entities
            return inputs[0].amax(3) if layer.is_largest else inputs[0].mean(3), []
        images, sizes = inputs[0].flatten(0, 1), (layer.size, layer.stride, layer.padding)
        if not layer.is_largest:
            return functional.avg_pool2d(images, *sizes).unflatten(0, inputs[0].shape[:2]), []
        result, places = functional.max_pool2d(images, *sizes, return_indices=True)
        rest = images.flatten(2).scatter(2, places.flatten(2), -torch.inf).unflatten(2, images.shape[2:])
        second = functional.max_pool2d(rest, *sizes)
        self.kinks.append((result - second)[second.isfinite()])
        return result.unflatten(0, inputs[0].shape[:2]), []

    def image_shape(self, layer):
        return self.layers.shapes()[layer.inputs[0]][1:]

    def mingru(self, layer, inputs, parameters, states, resets):
        gates = functional.linear(inputs[0], *parameters)
        self.kinks.append(gates.chunk(3, -1)[0])
        output, final = reference_mingru(gates, inputs[0], *states, resets)
        return output, [final]

    def lstm(self, layer, inputs, parameters, states, resets):
        return reference_lstm(inputs[0], *states, resets, *parameters)

    def gru(self, layer, inputs, parameters, states, resets):
        (hidden,), outputs = states, []
        for step in range(inputs[0].shape[1]):
            hidden = torch.gru_cell(inputs[0][:, step], hidden * ~resets[:, step, None], *parameters)
            outputs.append(hidden)
        return torch.stack(outputs, 1), [hidden]

    def norm(self, layer, inputs, parameters, states, resets):
        weight, bias = parameters
        if layer.of_each:
            one = dataclasses.replace(layer, of_each=False)
            return self.norm(one, [inputs[0].mT], parameters, states, resets)[0].mT, []
        if layer.is_centered:
            return functional.layer_norm(inputs[0], inputs[0].shape[-1:], weight, bias, layer.epsilon), []
        result = functional.rms_norm(inputs[0], inputs[0].shape[-1:], weight, layer.epsilon)
        return result if bias is None else result + bias, []

    def activation(self, layer, inputs, parameters, states, resets):
        if layer.activation in ("relu", "leaky_relu"):
            self.kinks.append(inputs[0])
        return FUNCTIONS[layer.activation](inputs[0]), []

    def add(self, layer, inputs, parameters, states, resets):
        return sum(inputs), []

    def multiply(self, layer, inputs, parameters, states, resets):
        return inputs[0] * inputs[1], []

    def affine(self, layer, inputs, parameters, states, resets):
        return inputs[0] * layer.numbers[0] + layer.numbers[1], []

    def concatenate(self, layer, inputs, parameters, states, resets):
        pairs = zip(inputs, layer.parts, strict=True)
        return torch.cat([each.narrow(2, *part) for each, part in pairs], 2), []

    def scale(self, layer, inputs, parameters, states, resets):
        behind = (1,) * (inputs[0].dim() - 3)
        weight, bias = (None if each is None else each.reshape(-1, *behind) for each in parameters)
        result = inputs[0] if weight is None else inputs[0] * weight**layer.power
        return result if bias is None else result + layer.sign * bias, []

    def compare(self, layer, inputs, parameters, states, resets):
        names = {"GREATER": "gt", "GREATER_EQUAL": "ge", "LESS": "lt", "LESS_EQUAL": "le", "EQUAL": "eq"}
        self.kinks.append(inputs[0] - layer.other)
        return getattr(torch, names.get(layer.how, "ne"))(inputs[0], layer.other).double(), []

    def arrange(self, layer, inputs, parameters, states, resets):
        before, after = self.layers.shapes()[layer.inputs[0]], layer.shape
        row = inputs[0].mT.flatten(2) if len(before) == 2 else inputs[0].flatten(2)
        return row.unflatten(2, after[::-1]).mT if len(after) == 2 else row.unflatten(2, after), []

    def embedding(self, layer, inputs, parameters, states, resets):
        return functional.embedding(inputs[0].long(), parameters[0]).mT.squeeze(3), []

    def features(self, layer, inputs, parameters, states, resets):
        columns = []
        numbers = zip(inputs[0].unbind(-1), layer.factors, layer.lowest, layer.counts, strict=True)
        for number, factor, lowest, count in numbers:
            categories = lowest + torch.arange(int(count))
            columns.append((number[..., None] == categories).double() if count else (number * factor)[..., None])
        return torch.cat(columns, -1), []

    def attention(self, layer, inputs, parameters, states, resets):
        q, k, v = (each.unflatten(2, (layer.heads, -1)).mT for each in inputs[:3])  # (..., heads, entities, numbers)
        scores = layer.scale * q @ k.mT
        if len(inputs) == 4:
            mask = inputs[3].mT if inputs[3].dim() == 4 else inputs[3][:, :, None]
            scores = scores.masked_fill(mask[:, :, None] <= 0.5, layer.hidden_score)
        shares = scores.softmax(-1)
        return ((shares.nan_to_num() if layer.is_safe else shares) @ v).mT.flatten(2, 3), []

    def evaluate(self, decision, actions, masks=None):
        """Log-probabilities and entropies; the entropy of what is allowed by a sum over that alone."""
        if self.log_std is not None:
            normal = Normal(decision, self.log_std.exp())
            return normal.log_prob(actions.double()).sum(-1), normal.entropy().sum(-1)
        logprobs, entropy = 0.0, 0.0
        allowed = [None] * len(decision) if masks is None else masks.split([part.shape[-1] for part in decision], -1)
        for part, chosen, mask in zip(decision, actions.long().unbind(-1), allowed, strict=True):
            logs = part - (part if mask is None else part.masked_fill(~mask, -math.inf)).logsumexp(-1, keepdim=True)
            logprobs = logprobs + logs.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
            entropy = entropy - (logs.exp() * logs * (1 if mask is None else mask)).sum(-1)
        return logprobs, entropy

    def loss(self, observations, minibatch, coefficients=COEFFICIENTS):
        decision, values, _ = self.forward(
            observations[minibatch.segments].flatten(2), minibatch.states, minibatch.resets
        )
        masks = None if minibatch.masks is None else minibatch.masks[minibatch.segments]
        logprobs, entropy = self.evaluate(decision, minibatch.actions.view(*values.shape, -1), masks)
        names = ("old_logprobs", "old_values", "advantages", "returns", "weights")
        others = [getattr(minibatch, name) for name in names]
        others = [None if tensor is None else tensor.double() for tensor in others]
        old_logprobs, old_values, _, returns, _ = others
        change = values - old_values
        clipped = change.clamp(-coefficients["vf_clip_coef"], coefficients["vf_clip_coef"])
        is_clipped = change != clipped
        squares = (values - returns).square() - (old_values + clipped - returns).square()
        self.kinks += [(logprobs - old_logprobs).expm1().abs() - coefficients["clip_coef"], squares[is_clipped]]
        return losses.ppo_loss(logprobs, values, entropy, *others, **coefficients), values

    def gradients(self, loss):
        """In the parameters: zeros where only steps after the last one would show them."""
        return torch.autograd.grad(loss.total, self.parameters, materialize_grads=True)

    def is_smooth(self):
        """Whether every kink is further away than float32 rounds: at a kink two gradients are right."""
        return all((kink.abs() > 1e-5).all() for kink in self.kinks)


def assert_rounds_little(layers, observations, minibatch, coefficients=COEFFICIENTS):
    """Products of factors of eight bits leave gradients, ratios and values near the truth."""
    learned = Network(layers, products="bfloat16").learn(observations, minibatch, **coefficients)
    truth = Truth(layers)
    loss, expected_values = truth.loss(observations, minibatch, coefficients)
    for gradient, expected in zip(learned.gradients, truth.gradients(loss), strict=True):
        assert (gradient - expected).norm() <= 0.1 * expected.norm().clamp(min=1e-3)  # a ReLU near 0 may turn
    torch.testing.assert_close(learned.ratios.double(), loss.ratio, rtol=0.05, atol=0.01)
    torch.testing.assert_close(learned.values.double(), expected_values, rtol=0.02, atol=0.05)


def is_well_conditioned(layers, observations, minibatch):
    """Whether weights that differ as float32 rounds give the same gradients: else float32 cannot tell what is right."""
    pairs = []
    for noise in (0.0, 3e-7):
        truth = Truth(layers, noise)
        pairs.append(truth.gradients(truth.loss(observations, minibatch)[0]))
    return all(
        (gradient - other).abs().max() <= 5e-6 * gradient.abs().max().clamp(min=1e-3)
        for gradient, other in zip(*pairs, strict=True)
    )


def assert_learns_like_the_truth(layers, observations, minibatch, coefficients=COEFFICIENTS):
    learned = Network(layers).learn(observations, minibatch, **coefficients)
    truth = Truth(layers)
    loss, expected_values = truth.loss(observations, minibatch, coefficients)
    truths = truth.gradients(loss)
    largest = max(expected.abs().max().item() for expected in truths)
    for gradient, expected in zip(learned.gradients, truths, strict=True):
        # Small gradients may be what is left of large ones, with what those rounded.
        scale = max(expected.abs().max().item(), 0.05 * largest, 1e-3)
        torch.testing.assert_close(gradient.double(), expected, rtol=3e-5, atol=3e-5 * scale)
    torch.testing.assert_close(learned.metrics.double(), torch.stack([*loss.metrics.values()]), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(learned.ratios.double(), loss.ratio, rtol=2e-5, atol=1e-5)
    torch.testing.assert_close(learned.values.double(), expected_values, rtol=1e-5, atol=1e-5)
