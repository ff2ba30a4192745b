"""Policies: torch modules that turn observations into action logits and values.

Any module works that has::

    forward(observations) -> (logits, values)               all that a policy without state needs
    forward(observations, state) -> (logits, values)        for training, where it is recurrent
    forward_eval(observations, state) -> (logits, values)   for acting, one step; `forward` when it is missing
    initial_state(batch, device) -> dict of tensors         only where it is recurrent

`state` is a dict of tensors whose first dimension is the agent; `forward_eval` replaces its entries by the next ones or
overwrites them in place. A policy without state sees observations `(rows, *observation_shape)`. A recurrent one is
trained on `(segments, horizon, *observation_shape)` with, beside its own entries, `state["resets"]`: `(segments,
horizon)` bool, True where an episode begins, so that nothing may flow in from the step before. Logits are what
pufferlib.policy.Logits says; values are `(rows,)` or `(segments, horizon)`, or either with a last dimension of 1.

A wrapper adds recurrence to a policy that has `encode_observations(observations) -> (..., hidden)` and
`decode_actions(hidden) -> (logits, values)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib import spaces
from pufferlib.emulation import as_puffer_env
from pufferlib.emulation.tensors import features, num_features
from pufferlib.errors import APIUsageError, kind_of
from pufferlib.extensions.mingru import mingru_scan, mingru_step
from pufferlib.policy import EnvSpaces, Logits, OneHot, OneHotPlanes, RecordsInitArgs

State = dict[str, Tensor]
_Layer = TypeVar("_Layer", nn.Linear, nn.Conv2d)

ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh, "linear": nn.Identity}


def orthogonal_linear(inputs: int, outputs: int, gain: float = 1.0, bias: bool = True) -> nn.Linear:
    """A linear layer with orthogonal weights times `gain` and, where there is one, a zero bias."""
    return _orthogonal(nn.Linear(inputs, outputs, bias=bias), gain)


def orthogonal_convolution(inputs: int, outputs: int, size: int, stride: int, gain: float = 1.0) -> nn.Conv2d:
    """A layer of square filters with orthogonal weights times `gain` and a zero bias."""
    return _orthogonal(nn.Conv2d(inputs, outputs, size, stride), gain)


def _orthogonal(layer: _Layer, gain: float) -> _Layer:
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def _with_spaces(env: object) -> EnvSpaces:
    # One of Gymnasium or PettingZoo as a PufferEnv, others as they are.
    env = as_puffer_env(env)
    for name in EnvSpaces.__annotations__:
        if not hasattr(env, name):
            raise APIUsageError(f"a policy needs an environment with {name}, got {kind_of(env)}; pass the environment")
    return env


class ActionHead(nn.Module):
    """The last layer: one product for the logits and the value.

    The logits and means start near zero (gain 0.01), so that a new policy explores evenly; the value starts with gain
    1. Numbers are drawn with a standard deviation that does not depend on the observation and starts at 1. Where the
    bounds of a number leave 0 out, its mean starts in their middle and its deviation at half their range.
    """

    def __init__(self, hidden_size: int, action_space: Space):
        super().__init__()
        if isinstance(action_space, Box) and (action_space.dtype.kind != "f" or len(action_space.shape) != 1):
            raise APIUsageError(
                "the default policy acts in Discrete, MultiDiscrete or one-dimensional float Box spaces, or in a Tuple "
                f"of Discrete and Box, got {action_space}; write a policy of your own"
            )
        parts = spaces.action_parts(action_space)
        self.sizes = [part.outputs for part in parts]
        self._are_numbers = [part.choices is None for part in parts]
        self.is_continuous = any(self._are_numbers)
        self.is_joint = not isinstance(action_space, (Discrete, Box))
        self.linear = orthogonal_linear(hidden_size, sum(self.sizes) + 1)
        nn.init.orthogonal_(self.linear.weight[:-1], 0.01)
        nn.init.orthogonal_(self.linear.weight[-1:], 1.0)
        if self.is_continuous:
            self._num_numbers = [part.width for part in parts if part.choices is None]
            boxes = [each for each in (action_space if self.is_joint else [action_space]) if isinstance(each, Box)]
            middles, scales = np.concatenate([_middles_and_scales(box) for box in boxes], axis=1)
            is_number = torch.from_numpy(np.repeat(self._are_numbers, self.sizes))
            self.linear.bias.data[:-1][is_number] = torch.from_numpy(middles).float()
            self.log_std = nn.Parameter(torch.from_numpy(np.where(middles == 0, 0.0, np.log(scales))).float())

    def forward(self, hidden: Tensor) -> tuple[Logits, Tensor]:
        """Hidden `(..., hidden_size)` -> logits and values `(...)`."""
        output = self.linear(hidden)
        parts = output[..., :-1].split(self.sizes, dim=-1)
        if self.is_continuous:
            parts = self._with_deviations(parts)
        return parts if self.is_joint else parts[0], output[..., -1]

    def _with_deviations(self, parts: tuple[Tensor, ...]) -> tuple[Tensor | Normal, ...]:
        # LaTeX: \sigma = e^{\mathrm{log\_std}} ; \sigma = deviations
        deviations = iter(self.log_std.exp().split(self._num_numbers))
        return tuple(
            Normal(part, next(deviations).expand_as(part), validate_args=False) if is_numbers else part
            for part, is_numbers in zip(parts, self._are_numbers, strict=True)
        )


def _middles_and_scales(space: Box) -> tuple[np.ndarray, np.ndarray]:
    # Of finite bounds that leave 0 out, else the number closest to 0; and half the range of finite bounds, else 1.
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    has_range = np.isfinite(high - low) & (high > low)
    scales = np.where(has_range, 0.5 * (high - low), 1.0)
    closest = np.clip(0.0, low, high)
    return np.where(has_range & (closest != 0), low + scales, closest), scales


def _check_activation(activation: str) -> None:
    if activation not in ACTIVATIONS:
        raise APIUsageError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")


class _Encoding(RecordsInitArgs):
    # A policy of an encoder and a head.

    def forward(self, observations: Tensor, state: State | None = None) -> tuple[Logits, Tensor]:
        """Observations `(rows, *observation_shape)` -> logits and values `(rows,)`."""
        return self.decode_actions(self.encode_observations(observations))

    def decode_actions(self, hidden: Tensor) -> tuple[Logits, Tensor]:
        """Hidden `(..., hidden_size)` -> logits and values `(...)`."""
        return self.head(hidden)


class Default(_Encoding):
    """Linear layers over the flattened observation, one head for actions and value.

    Observations that were packed from a structure are taken apart first: see `pufferlib.emulation.tensors.features` for
    the numbers that the first layer gets.

    Args:
        env: one of Gymnasium or PettingZoo, or anything with `single_observation_space`, `single_action_space` and,
            where it packs structures, `emulated`.
        hidden_size: width of every layer, at least 1.
        num_layers: linear layers before the head, at least 1.
        activation: after each layer: gelu, relu, tanh, or linear where a recurrent wrapper is the nonlinearity.
        one_hot: whether the first layer sees every integer as one of the categories between its bounds, see OneHot:
            where integers are names rather than amounts, such as the cells of a board, of which 2 is a wall.
    """

    def __init__(
        self,
        env: EnvSpaces,
        hidden_size: int = 128,
        num_layers: int = 1,
        activation: str = "gelu",
        one_hot: bool = False,
    ):
        super().__init__()
        env = _with_spaces(env)
        _check_activation(activation)
        if hidden_size < 1 or num_layers < 1:
            raise APIUsageError(f"hidden_size and num_layers must be at least 1, got {hidden_size} and {num_layers}")
        self.hidden_size = hidden_size
        self.activation = activation
        self.emulated = getattr(env, "emulated", None)
        if one_hot and self.emulated:
            raise APIUsageError(
                f"one_hot needs observations that are one Box of integers, got {self.emulated.structure}; switch it "
                "off: Discrete and MultiDiscrete are seen as categories without it"
            )
        self.one_hot = OneHot(env.single_observation_space) if one_hot else None
        inputs = _num_inputs(env) if self.one_hot is None else self.one_hot.num_columns
        gain = 1.0 if activation == "linear" else math.sqrt(2.0)
        self.encoder = _layers([inputs, *[hidden_size] * num_layers], activation, gain)
        self.head = ActionHead(hidden_size, env.single_action_space)
        self._observation_dims = len(env.single_observation_space.shape)

    def encode_observations(self, observations: Tensor) -> Tensor:
        """Observations `(..., *observation_shape)` of any dtype -> hidden `(..., hidden_size)`."""
        if self.emulated:
            return self.encoder(features(observations, self.emulated))
        dims = self._observation_dims
        flat = observations.flatten(-dims) if dims else observations.unsqueeze(-1)
        return self.encoder(flat.to(torch.float32) if self.one_hot is None else self.one_hot(flat))


def _num_inputs(env: EnvSpaces) -> int:
    emulated = getattr(env, "emulated", None)
    return num_features(emulated) if emulated else math.prod(env.single_observation_space.shape)


class Continuous(RecordsInitArgs):
    """Two networks of linear layers over the flattened observation: the actor's apart from the critic's.

    The policy of the published PPO results in continuous control (Andrychowicz et al. 2021, "What Matters for On-Policy
    Deep Actor-Critic Methods?"): orthogonal weights, gain sqrt(2) between layers, 0.01 before the actions and 1 before
    the value; the logarithm of the deviation is a parameter that no observation changes. A mean begins at 0, or
    where an action's bounds leave that out in their middle, or where one is missing at the number closest to 0.

    Args:
        env: as for Default.
        actor_sizes: widths of the actor's layers, at least one.
        critic_sizes: those of the critic.
        activation: after each layer: gelu, relu or tanh.
        log_std: where the logarithm of the deviation begins, in half ranges of an action; without bounds as it is.
    """

    def __init__(
        self,
        env: EnvSpaces,
        actor_sizes: list[int] = (64, 64),  # noqa: B006 - a tuple cannot be changed
        critic_sizes: list[int] = (64, 64),
        activation: str = "tanh",
        log_std: float = 0.0,
    ):
        super().__init__()
        env = _with_spaces(env)
        _check_activation(activation)
        for name, sizes in (("actor_sizes", actor_sizes), ("critic_sizes", critic_sizes)):
            if not sizes or min(sizes) < 1:
                raise APIUsageError(f"{name} must be one or more widths of at least 1, got {sizes}")
        self.activation = activation
        self.emulated = getattr(env, "emulated", None)
        self._is_number = env.single_observation_space.shape == ()
        self.actor = _layers([_num_inputs(env), *actor_sizes], activation, math.sqrt(2.0))
        self.critic = _layers([_num_inputs(env), *critic_sizes], activation, math.sqrt(2.0))
        space = env.single_action_space
        if not isinstance(space, Box) or space.dtype.kind != "f" or len(space.shape) != 1:
            raise APIUsageError(f"Continuous acts in one-dimensional float Box spaces, got {space}; use Default")
        num_actions = int(space.shape[0])
        self.mean = orthogonal_linear(actor_sizes[-1], num_actions, 0.01)
        middles, scales = _middles_and_scales(space)
        self.mean.bias.data.copy_(torch.from_numpy(middles))
        self.log_std = nn.Parameter(torch.from_numpy(float(log_std) + np.log(scales)).float())
        self.value = orthogonal_linear(critic_sizes[-1], 1)

    def forward(self, observations: Tensor, state: State | None = None) -> tuple[Logits, Tensor]:
        """Observations `(rows, *observation_shape)` -> logits and values `(rows,)`."""
        if self.emulated:
            flat = features(observations, self.emulated)
        else:
            flat = (observations.unsqueeze(-1) if self._is_number else observations.flatten(1)).float()
        mean = self.mean(self.actor(flat))
        # LaTeX: \sigma = e^{\mathrm{log\_std}} ; \sigma = deviation
        deviation = self.log_std.exp().expand_as(mean)
        return Normal(mean, deviation, validate_args=False), self.value(self.critic(flat)).squeeze(-1)


def _layers(sizes: Sequence[int], activation: str, gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        layers += [orthogonal_linear(inputs, outputs, gain), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


class Convolutional(_Encoding):
    """Convolutions of square filters, each with a ReLU, and a linear layer: over images, boards and windows on a grid.

    The defaults are the network of Mnih et al. 2015 ("Nature CNN") for frames of games. A board wants small filters:
    `filters = [64, 64]`, `sizes = [3, 3]`, `strides = [1, 1]`, `image_shape = [6, 7]` and `one_hot` see connect4.

    Images are `(channels, height, width)` or `(height, width)`, which is one channel; with `channels_last` they are
    `(height, width, channels)`. Integers are in 0..255 and are brought to 0..1, unless `one_hot` makes planes of their
    categories; floats are seen as they are.

    Args:
        env: as for Default; its observations are as large as the filters need.
        hidden_size: width of the layer after the convolutions.
        filters: how many each convolution has.
        sizes: pixels along an edge of its filters.
        strides: pixels from one place of a filter to the next.
        one_hot: whether integers are names rather than amounts, such as the cells of a board: every value between the
            bounds of a channel has a plane of zeros and ones; see OneHotPlanes.
        image_shape: of an image, where observations are flat; empty where they have the shape of one.
        channels_last: whether the channels of an image are its last dimension.
    """

    def __init__(
        self,
        env: EnvSpaces,
        hidden_size: int = 512,
        filters: list[int] = (32, 64, 64),  # noqa: B006 - a tuple cannot be changed
        sizes: list[int] = (8, 4, 3),
        strides: list[int] = (4, 2, 1),
        one_hot: bool = False,
        image_shape: list[int] = (),
        channels_last: bool = False,
    ):
        super().__init__()
        env = _with_spaces(env)
        _check_convolutions(filters=filters, sizes=sizes, strides=strides)
        self.image_shape = _image_shape(env, image_shape, sizes, strides, channels_last)  # channels, height, width
        self.channels_last = channels_last
        self.hidden_size = hidden_size
        self.one_hot = None
        if one_hot:
            self.one_hot = OneHotPlanes(env.single_observation_space, self.image_shape, channels_last)
        channels = self.image_shape[0] if self.one_hot is None else self.one_hot.num_planes
        gain = math.sqrt(2.0)  # keeps the size of what passes a ReLU
        layers: list[nn.Module] = []
        for inputs, outputs, size, stride in zip([channels, *filters], filters, sizes, strides, strict=False):
            layers += [orthogonal_convolution(inputs, outputs, size, stride, gain), nn.ReLU()]
        convolutions = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            features = convolutions(torch.zeros(1, channels, *self.image_shape[1:])).shape[1]
        self.encoder = nn.Sequential(convolutions, orthogonal_linear(features, hidden_size, gain), nn.ReLU())
        self.head = ActionHead(hidden_size, env.single_action_space)
        self._observation_dims = len(env.single_observation_space.shape)

    def encode_observations(self, observations: Tensor) -> Tensor:
        """Observations `(..., *observation_shape)` -> hidden `(..., hidden_size)`."""
        leading = observations.shape[: observations.dim() - self._observation_dims]
        if self.channels_last:
            channels, height, width = self.image_shape
            images = observations.reshape(-1, height, width, channels).permute(0, 3, 1, 2)
        else:
            images = observations.reshape(-1, *self.image_shape)
        if self.one_hot is not None:
            images = self.one_hot(images)
        else:
            images = images.to(torch.float32) / (1.0 if observations.is_floating_point() else 255.0)
        return self.encoder(images).unflatten(0, leading)


def _check_convolutions(**lists: Sequence[int]) -> None:
    for name, numbers in lists.items():
        if not numbers or min(numbers) < 1 or len(numbers) != len(lists["filters"]):
            found = ", ".join(f"{name} {list(numbers)}" for name, numbers in lists.items())
            raise APIUsageError(f"{name} must be a number of at least 1 for every convolution, got {found}")


def _image_shape(
    env: EnvSpaces, image_shape: Sequence[int], sizes: Sequence[int], strides: Sequence[int], channels_last: bool
) -> tuple[int, int, int]:
    space, edge = env.single_observation_space, 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        edge = (edge - 1) * stride + size
    shape = tuple(image_shape) or space.shape
    is_flat = getattr(env, "emulated", None) is not None or math.prod(shape) != math.prod(space.shape)
    edges, possible = (shape[:2], (3,)) if channels_last else (shape[-2:], (2, 3))
    if is_flat or len(shape) not in possible or min(edges) < edge:
        forms = "(height, width, channels)" if channels_last else "(channels, height, width) or (height, width)"
        raise APIUsageError(
            f"Convolutional needs images {forms} of at least {edge} x {edge} "
            f"pixels for sizes {list(sizes)} and strides {list(strides)}, got observations {space.shape} and "
            f"image_shape {list(image_shape)}; take smaller filters, or give flat numbers the image_shape they have"
        )
    channels, height, width = (shape[2], *edges) if channels_last else (1, *shape)[-3:]
    return int(channels), int(height), int(width)


class LSTMWrapper(RecordsInitArgs):
    """Layers of an LSTM between a policy's encoder and its head.

    Args:
        env: the environment, for the shapes.
        policy: has `encode_observations` and `decode_actions`.
        input_size: what the encoder returns.
        hidden_size: what the head takes.
        num_layers: cells stacked, at least 1.
    """

    def __init__(
        self, env: EnvSpaces, policy: nn.Module, input_size: int = 128, hidden_size: int = 128, num_layers: int = 1
    ):
        super().__init__()
        _check_sizes(policy, input_size, hidden_size, num_layers)
        self.policy = policy
        self.hidden_size = hidden_size
        sizes = [input_size, *[hidden_size] * (num_layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(size, hidden_size) for size in sizes)
        self._names = [(f"lstm_h_{index}", f"lstm_c_{index}") for index in range(num_layers)]
        for name, parameter in self.cells.named_parameters():
            (nn.init.orthogonal_ if ".weight" in name else nn.init.zeros_)(parameter)

    def initial_state(self, batch: int, device: torch.device | str = "cpu") -> State:
        """Zeros: `lstm_h_0`, `lstm_c_0`, `lstm_h_1`, ..., two for each layer, `(batch, hidden_size)`."""
        names = [name for pair in self._names for name in pair]
        return {name: torch.zeros(batch, self.hidden_size, dtype=torch.float32, device=device) for name in names}

    def forward_eval(self, observations: Tensor, state: State) -> tuple[Logits, Tensor]:
        """One step: observations `(rows, *observation_shape)`; replaces the entries of `state`."""
        output = self.policy.encode_observations(observations)
        for (hidden, memory), cell in zip(self._names, self.cells, strict=True):
            state[hidden], state[memory] = cell(output, (state[hidden], state[memory]))
            output = state[hidden]
        return self.policy.decode_actions(output)

    def forward(self, observations: Tensor, state: State) -> tuple[Logits, Tensor]:
        """Segments: observations `(segments, horizon, *observation_shape)`; see the module docstring for `state`."""
        output = self.policy.encode_observations(observations)
        for (hidden, memory), cell in zip(self._names, self.cells, strict=True):
            output, _ = recur(cell, output, (state[hidden], state[memory]), state["resets"])
        return self.policy.decode_actions(output)


_FUSED = {nn.LSTMCell: torch.lstm, nn.GRUCell: torch.gru}  # what runs such a cell over many steps in one call
_MIN_RUN, _MAX_RUN = 3, 16  # steps for which that is the fastest on a CPU: what a long run keeps leaves the caches

_CellState = TypeVar("_CellState", Tensor, tuple[Tensor, Tensor])


def recur(
    module: nn.RNNCellBase | nn.RNNBase, inputs: Tensor, state: _CellState, resets: Tensor
) -> tuple[Tensor, _CellState]:
    """Runs a recurrent module of torch over segments, and lets nothing pass from one episode into the next.

    The steps between those at which any episode begins are computed in one call where that is faster, on a CPU; results
    are those of single steps, as far as sums of floats in another order are the same.

    Args:
        module: nn.LSTMCell, nn.GRUCell or nn.RNNCell; nn.LSTM, nn.GRU or nn.RNN of one direction, `batch_first` or not.
        inputs: `(segments, horizon, module.input_size)`, at least one step.
        state: before the first step, as the module takes it; two tensors for an LSTM.
        resets: `(segments, horizon)` bool, True where the state counts as 0 before the step: `state["resets"]`.

    Returns:
        The outputs of all steps, `(segments, horizon, module.hidden_size)`, and the state after the last one.
    """
    states, horizon = state if isinstance(state, tuple) else (state,), inputs.shape[1]
    is_stepped = isinstance(module, nn.RNNCellBase) and not _can_be_fused(module, inputs)
    begins = [True] * horizon if is_stepped or not inputs.is_cpu else resets.any(0).tolist()  # CUDA graphs never wait
    starts = [step for step in range(horizon) if begins[step] or step % _MAX_RUN == 0]
    lengths = [end - start for start, end in zip(starts, [*starts[1:], horizon], strict=True)]
    keep = (~resets.T).to(inputs.dtype).unsqueeze(-1)  # (horizon, segments, 1)
    outputs = []
    for start, run in zip(starts, inputs.transpose(0, 1).split(lengths), strict=True):
        if isinstance(module, nn.RNNBase):
            compute = _run_layers
        else:
            compute = _run_steps if is_stepped or len(run) < _MIN_RUN else _run_fused
        output, states = compute(module, run, tuple(each * keep[start] for each in states))
        outputs.append(output)
    return torch.cat(outputs).transpose(0, 1), states if isinstance(state, tuple) else states[0]


def _can_be_fused(cell: nn.RNNCellBase, inputs: Tensor) -> bool:
    # Hooks and methods of a user's own are called by single steps alone.
    hooks = cell._forward_hooks, cell._forward_pre_hooks, cell._backward_hooks, cell._backward_pre_hooks
    is_plain = type(cell) in _FUSED and not any(hooks) and "forward" not in vars(cell)
    is_rounded = torch.is_autocast_enabled("cpu")
    return is_plain and inputs.is_cpu and not is_rounded and not torch.compiler.is_compiling()


# Three ways from steps (steps, segments, inputs) and states to outputs (steps, segments, hidden) and the states after.


def _run_steps(cell: nn.RNNCellBase, steps: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    outputs = []
    for row in steps.unbind(0):
        after = cell(row, states if len(states) == 2 else states[0])
        states = after if isinstance(after, tuple) else (after,)
        outputs.append(states[0])
    return torch.stack(outputs), states


def _run_fused(cell: nn.RNNCellBase, steps: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    weights = [cell.weight_ih, cell.weight_hh, *([cell.bias_ih, cell.bias_hh] if cell.bias else [])]
    given = tuple(each.unsqueeze(0) for each in states)
    # One layer, no dropout, whether there are gradients, one direction, and a first dimension of steps.
    settings = cell.bias, 1, 0.0, torch.is_grad_enabled(), False, False
    output, *after = _FUSED[type(cell)](steps, given if len(given) == 2 else given[0], weights, *settings)
    return output, tuple(each.squeeze(0) for each in after)


def _run_layers(layers: nn.RNNBase, steps: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    order = steps.transpose(0, 1) if layers.batch_first else steps
    output, after = layers(order, states if len(states) == 2 else states[0])
    return output.transpose(0, 1) if layers.batch_first else output, after if isinstance(after, tuple) else (after,)


class MinGRUWrapper(RecordsInitArgs):
    """Layers of a minimal gated recurrent unit with a highway output, between a policy's encoder and its head.

    Each layer is one product x -> (candidate c, gate g, highway p), then with z = sigmoid(g)

        h_t = (1 - z_t) h_{t-1} + z_t f(c_t)    f(c) = c + 0.5 where c >= 0, else sigmoid(c)
        y_t = sigmoid(p_t) h_t + (1 - sigmoid(p_t)) x_t

    (Feng et al. 2024, "Were RNNs All We Needed?"). The gates do not depend on h, so a whole segment's products are one
    matrix product and the recurrence is a scan.

    Args:
        env: the environment, for the shapes.
        policy: has `encode_observations` and `decode_actions`.
        input_size: what the encoder returns; equal to hidden_size, because the highway adds the two.
        hidden_size: what the head takes.
        num_layers: units stacked, at least 1.
    """

    def __init__(
        self, env: EnvSpaces, policy: nn.Module, input_size: int = 128, hidden_size: int = 128, num_layers: int = 1
    ):
        super().__init__()
        _check_sizes(policy, input_size, hidden_size, num_layers)
        self.policy = policy
        self.hidden_size = hidden_size
        self.layers = nn.ModuleList(
            orthogonal_linear(hidden_size, 3 * hidden_size, bias=False) for _ in range(num_layers)
        )
        self._names = [f"mingru_{index}" for index in range(num_layers)]

    def initial_state(self, batch: int, device: torch.device | str = "cpu") -> State:
        """Zeros: `mingru_0`, `mingru_1`, ..., one for each layer, `(batch, hidden_size)`."""
        return {name: torch.zeros(batch, self.hidden_size, dtype=torch.float32, device=device) for name in self._names}

    def forward_eval(self, observations: Tensor, state: State) -> tuple[Logits, Tensor]:
        """One step: observations `(rows, *observation_shape)`; overwrites the tensors of `state`."""
        output = self.policy.encode_observations(observations).float()
        for name, layer in zip(self._names, self.layers, strict=True):
            output = mingru_step(layer(output).float(), output, state[name])
        return self.policy.decode_actions(output)

    def forward(self, observations: Tensor, state: State) -> tuple[Logits, Tensor]:
        """Segments: observations `(segments, horizon, *observation_shape)`; see the module docstring for `state`."""
        output = self.policy.encode_observations(observations).float()
        for name, layer in zip(self._names, self.layers, strict=True):
            output, _ = mingru_scan(layer(output).float(), output, state[name], state["resets"])
        return self.policy.decode_actions(output)


def _check_sizes(policy: nn.Module, input_size: int, hidden_size: int, num_layers: int) -> None:
    if num_layers < 1:
        raise APIUsageError(f"rnn.num_layers must be at least 1, got {num_layers}")
    encoded = getattr(policy, "hidden_size", input_size)
    if input_size != encoded or hidden_size != encoded:
        raise APIUsageError(
            f"rnn.input_size and rnn.hidden_size must equal policy.hidden_size {encoded}, "
            f"got {input_size} and {hidden_size}"
        )
