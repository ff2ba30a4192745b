"""The layers of a policy as the kernel has them, with their names in C."""

from __future__ import annotations

import collections
import copy
import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from pufferlib import spaces
from pufferlib.environment import PufferEnv
from pufferlib.errors import ExportError
from pufferlib.extensions.network_layers import Arrange, Convolution, Layer, Layers, Pool
from pufferlib.fast.traced_layers import trace
from pufferlib.fast.traced_values import UntracedError
from pufferlib.models import LSTMWrapper, MinGRUWrapper
from pufferlib.policy import NormalizedObservations, initial_state
from pufferlib.ppo.rollout import Rollout

_TAKEN = {"begin", "forget", "block", "forward", "act", "lowest", "first_planes", "deviations"}  # after the prefix
_MEMBERS = (
    r"logits|values|masks|random|seen|inputs|critic|gates|shares|(features|image|padded|value)_\d+"  # of the struct
)
_WORDS = (  # of C and C++
    "alignas alignof and asm auto bitand bitor bool break case catch char class compl concept const constexpr continue "
    "decltype default delete do double else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new noexcept not nullptr operator or private protected public register requires restrict return "
    "short signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned "
    "using virtual void volatile while xor"
)
_REMEDY = "use --format onnx or torchscript"


@dataclass(frozen=True)
class CNetwork:
    """A whole policy."""

    layers: Layers  # with weights in float32
    names: tuple[str, ...]  # of the layers in C; empty for those without weights
    states: tuple[str, ...]  # names of the recurrent state in C, in the order of the layers
    state_places: tuple[tuple[int, int], ...]  # of each the entry of the policy's state, and the first number there
    observation: gymnasium.spaces.Box  # of one agent: the shape and dtype of a row
    parts: tuple[spaces.ActionPart, ...]  # of the action
    has_masks: bool = False  # whether the environment says what is allowed

    @property
    def deviations(self) -> np.ndarray:
        """`(numbers,)` float32, one for each number of the action that is no choice."""
        log_std = self.layers.log_std
        return np.zeros(0, np.float32) if log_std is None else floats(log_std.detach().exp()).reshape(-1)


def network_of(policy: nn.Module, env: PufferEnv) -> CNetwork:
    """The layers of a policy that the kernel's tracing follows.

    Raises an ExportError that names the layer if puffernet.h has none for it.
    """
    if getattr(env, "emulated", None) is not None:
        raise ExportError(f"C has no structured observations, got {env.emulated.parts_text()}; {_REMEDY}")
    policy = copy.deepcopy(policy).cpu().eval().requires_grad_(True)
    for parameter in policy.parameters():
        parameter.data = parameter.data.float()
    cpu = torch.device("cpu")
    states = initial_state(policy, 1, cpu)
    rollout = Rollout.allocate(env.single_observation_space, env.single_action_space, 1, 1, states, cpu, cpu)
    try:
        layers = trace(policy, rollout)
    except UntracedError as error:
        own = policy.policy if type(policy) is NormalizedObservations else policy
        own = own.policy if type(own) in (LSTMWrapper, MinGRUWrapper) else own
        name = type(own).__qualname__
        raise ExportError(f"C has no layers for the policy {name}, which {error}; {_REMEDY}") from error
    shapes = layers.shapes()
    read = [(layer, shapes[layer.inputs[0]]) for layer in layers.layers]
    if any(isinstance(layer, Arrange) and 3 in (len(shape), len(layer.shape)) for layer, shape in read):
        raise ExportError(
            f"in C images become rows for linear layers alone, got another {type(policy).__name__}; {_REMEDY}"
        )
    layers = dataclasses.replace(
        layers, layers=[layer if len(shape) == 2 else _squared(layer) for layer, shape in read]
    )
    names = tuple(_layer_names(policy, layers))
    places = tuple(layers.state_places or ((index, 0) for index in range(len(states))))
    state_names = tuple(_state_names(list(states), places))
    parts = spaces.action_parts(env.single_action_space)
    has_masks = getattr(env, "has_action_masks", False)
    return CNetwork(layers, names, state_names, places, env.single_observation_space, parts, has_masks)


def _state_names(entries: list[str], places: tuple[tuple[int, int], ...]) -> Iterator[str]:
    # Those of the entries, numbered where an entry holds the states of several layers.
    sharing, firsts = collections.Counter(entry for entry, _ in places), sorted(places)
    for entry, first in places:
        name = entries[entry]
        if name in _WORDS.split() or not re.fullmatch(rf"(?!({_MEMBERS})$)[A-Za-z]\w*", name, re.ASCII):
            name = f"state_{entry}"
        number = firsts.index((entry, first)) - [each for each, _ in firsts].index(entry)
        yield f"{name}_{number}" if sharing[entry] > 1 else name


def _squared(layer: Layer) -> Layer:
    # Windows have one number for both directions in C.
    if not isinstance(layer, (Convolution, Pool)):
        return layer
    names = ("stride", "padding", "dilation") if isinstance(layer, Convolution) else ("stride", "padding", "size")
    pairs = {name: np.broadcast_to(getattr(layer, name), 2).tolist() for name in names}
    are_square = all(down == right for down, right in pairs.values())
    if isinstance(layer, Convolution):
        is_plain = layer.groups == 1 and pairs["dilation"] == [1, 1] and layer.weight.dim() == 4
        are_square = are_square and is_plain and layer.weight.shape[2] == layer.weight.shape[3]
    if not are_square:
        raise ExportError(
            f"C has square windows without dilation and groups, got another {type(layer).__name__}; {_REMEDY}"
        )
    return dataclasses.replace(layer, **{name: number for name, (number, _) in pairs.items()})


def _layer_names(policy: nn.Module, layers: Layers) -> Iterator[str]:
    # Those of the modules in Python.
    paths = {id(parameter): path.split(".")[:-1] for path, parameter in policy.named_parameters()}
    taken = set(_TAKEN)
    for layer in layers.layers:
        path = next((paths.get(id(each), ["constant"]) for each in layer.parameters() if each is not None), None)
        if path is None:
            yield ""
            continue
        path = [part for part in path if part not in ("policy", "linear")] or ["linear"]
        name = re.sub(r"\W", "_", "_".join(path), flags=re.ASCII)
        while name in taken:
            name += "_layer"
        taken.add(name)
        yield name


LANES = 16  # PUFFERNET_LANES: rows are padded to a multiple


def row_of(shape: tuple[int, ...]) -> int:
    """The length of a row of a value in C; an image is `(height, width, channels)` there, with channels padded."""
    count, *image = shape
    return -(-count // LANES) * LANES * math.prod(image)


def products(layer: Layer, shape: tuple[int, ...], reads_observation: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of a layer's products, as puffernet.h has them: `([..., inputs], outputs)` and `(outputs,)`.

    `shape` is of what it reads; an observation is not padded.
    """
    blocks = {"MINGRU": 3, "LSTM": 4, "GRU": 3}.get(layer.kind, 1)
    tensors = layer.parameters()
    weights, biases = [t for t in tensors if t is not None and t.dim() > 1], tensors[len(tensors) // 2 :]
    biases = (None,) if layer.kind == "MINGRU" else biases
    if layer.kind == "LSTM" and biases[0] is not None:  # gates are sums of both products
        biases = biases[0] + biases[1], None
    for weight, bias in zip(weights, biases, strict=True):
        if layer.kind == "CONVOLUTION":
            weight = weight.permute(2, 3, 1, 0)
        elif len(shape) == 3 and not reads_observation:
            weight = weight.reshape(len(weight), *shape).permute(2, 3, 1, 0)
        else:
            weight = weight.T
        array = floats(weight)
        if array.ndim == 4 and not reads_observation:
            array = padded(array.swapaxes(2, 3)).swapaxes(2, 3)
        if layer.kind != "CONVOLUTION":
            array = array.reshape(-1, array.shape[-1])
        bias = np.zeros(array.shape[-1], np.float32) if bias is None else floats(bias)
        yield padded(array, blocks), padded(bias, blocks)


def padded(array: np.ndarray, blocks: int = 1) -> np.ndarray:
    """Pads each of the `blocks` of the last dimension to a multiple of LANES."""
    split = array.reshape(*array.shape[:-1], blocks, -1)
    padding = [(0, 0)] * (split.ndim - 1) + [(0, -split.shape[-1] % LANES)]
    return np.pad(split, padding).reshape(*array.shape[:-1], -1)


def floats(tensor: Tensor) -> np.ndarray:
    """As float32; an ExportError if a number is infinite or NaN."""
    array = tensor.detach().to(torch.float32).cpu().numpy()
    if not np.isfinite(array).all():
        raise ExportError("the policy's weights must be finite numbers, found infinity or NaN; take an earlier model")
    return array
