"""Small policies as one kernel on a CPU: linear layers, MinGRU layers, and a linear head for logits and value.

Small layers are bound by memory and by the calls themselves, not by arithmetic. `Network` takes some rows at a time
through all layers while they lie in the cache: acting is one call per step of a rollout, and learning, from the
observations to the gradients of PPO's loss, is one call per minibatch. Torch computes the same with
pufferlib.models, pufferlib.sampling and pufferlib.losses, and tests hold the two together.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pufferlib.errors import APIUsageError
from pufferlib.extensions import cpu_library
from pufferlib.extensions.checks import check_tensor
from pufferlib.extensions.matmul import LANES, padded
from pufferlib.extensions.threads import ThreadPool

MAX_LAYERS = 8  # NETWORK_MAX_LAYERS
NUM_METRICS = 7  # PPO_METRICS
ACTIVATIONS = ("linear", "relu", "tanh", "gelu")  # in the order of activation_row.h
BLOCK_ROWS = 64  # rows that go through the layers together
MAX_CHUNKS = 16  # parts of a minibatch, so also the most threads; each costs a copy of the gradients
OBSERVATION_DTYPES = (torch.float32, torch.uint8)

_POINTER, _INT64, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


@dataclass(frozen=True)
class Layers:
    """What a policy is made of, its parameters as torch has them: float32, contiguous, on a CPU.

    Attributes:
        encoder: weight `(width, inputs)` and bias `(width,)` of every linear layer, at least one.
        activation: after each of them, one of ACTIVATIONS.
        recurrent: weights `(3 * width, width)` of every MinGRU layer: candidates, gates, highways.
        head: weight `(sum(parts) + 1, width)` and bias; the value is the last row.
        parts: logits of every part of a decision.
    """

    encoder: Sequence[tuple[Tensor, Tensor | None]]
    activation: str
    recurrent: Sequence[Tensor]
    head: tuple[Tensor, Tensor | None]
    parts: Sequence[int]

    def weights(self) -> list[Tensor]:
        """Of all layers in their order."""
        return [*(weight for weight, _ in self.encoder), *self.recurrent, self.head[0]]

    def biases(self) -> list[Tensor | None]:
        """Of the encoder's layers and the head."""
        return [*(bias for _, bias in self.encoder), self.head[1]]

    def fit(self) -> bool:
        """Whether the kernel can compute them."""
        tensors = [tensor for tensor in (*self.weights(), *self.biases()) if tensor is not None]
        width = self.encoder[0][0].shape[0] if self.encoder else 0
        return (
            all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
            and all(tensor.is_contiguous() for tensor in tensors)
            and self.activation in ACTIVATIONS
            and width > 0
            and width % LANES == 0
            and all(weight.shape == (width, width) for weight, _ in self.encoder[1:])
            and all(weight.shape == (3 * width, width) for weight in self.recurrent)
            and self.head[0].shape == (sum(self.parts) + 1, width)
            and max(len(self.encoder), len(self.recurrent)) <= MAX_LAYERS
        )


@dataclass(frozen=True)
class Minibatch:
    """Segments to learn from, one row each, T steps.

    Attributes:
        segments: `(count,)` int64, their rows in the rollout's observations.
        actions: `(count, T)` or `(count, T, parts)` int32.
        resets: `(count, T)` bool, set where an episode begins.
        states: of every MinGRU layer the state before the first step, `(count, width)`.
        old_logprobs: `(count, T)` float32, as are the next ones.
        old_values: what values are clipped around.
        advantages: normalised and weighted, ready for the loss.
        returns: what values should be.
        weights: with mean 1 and 0 for steps that must not count; None counts all alike.
    """

    segments: Tensor
    actions: Tensor
    resets: Tensor
    states: Sequence[Tensor]
    old_logprobs: Tensor
    old_values: Tensor
    advantages: Tensor
    returns: Tensor
    weights: Tensor | None


@dataclass(frozen=True)
class Learned:
    """What a minibatch gives.

    Attributes:
        gradients: of `Network.parameters`.
        metrics: `(7,)`, in the order of losses.METRICS.
        ratios: `(count, T)`, probability of the actions now over probability then.
        values: `(count, T)`, of the observations now.
    """

    gradients: list[Tensor]
    metrics: Tensor
    ratios: Tensor
    values: Tensor


class _Network(ctypes.Structure):
    _fields_ = [
        *((name, _INT64) for name in ("inputs", "padded_inputs", "width", "encoder_layers", "activation")),
        *((name, _INT64) for name in ("recurrent_layers", "outputs", "padded_outputs", "num_parts")),
        *((name, _POINTER) for name in ("part_sizes", "weights", "biases", "packed")),
    ]


class _Observations(ctypes.Structure):
    _fields_ = [("data", _POINTER), ("is_bytes", _INT64), ("segment_stride", _INT64), ("step_stride", _INT64)]


class _Act(ctypes.Structure):
    _fields_ = [
        ("network", _POINTER),
        ("observations", _Observations),
        ("stored", _POINTER),
        ("rows", _INT64),
        ("block", _INT64),
        *((name, _POINTER) for name in ("states", "uniforms")),
        *(("actions", _POINTER), ("action_stride", _INT64)),
        *(("logprobs", _POINTER), ("logprob_stride", _INT64)),
        *(("values", _POINTER), ("value_stride", _INT64)),
        ("scratch", _POINTER),
        ("slots", _INT64),
        ("scratch_size", _INT64),
        ("has_nan", _POINTER),
    ]


class _Learn(ctypes.Structure):
    _fields_ = [
        ("network", _POINTER),
        ("observations", _Observations),
        ("segments", _POINTER),
        *((name, _INT64) for name in ("count", "steps", "block", "chunks")),
        *((name, _POINTER) for name in ("actions", "reset", "initial", "old_logprobs", "old_values")),
        *((name, _POINTER) for name in ("advantages", "returns", "weights")),
        *((name, _FLOAT) for name in ("clip_coef", "vf_clip_coef", "vf_coef", "ent_coef")),
        *((name, _POINTER) for name in ("ratios", "values", "metrics", "gradients")),
        ("gradient_size", _INT64),
        ("scratch", _POINTER),
        ("slots", _INT64),
        ("scratch_size", _INT64),
    ]


class Network:
    """Acts and learns with the parameters of a policy, which stay the policy's own.

    Results do not depend on the number of threads.

    Attributes:
        layers: what it was made from.
        parameters: the weights of all layers, then the biases.
        num_parts: of a decision.

    Raises:
        APIUsageError: if the layers do not fit the kernel; see `Layers.fit`.
        PufferError: if the kernel was not built.
    """

    def __init__(self, layers: Layers, num_threads: int = 1):
        """Makes the kernel's view of the parameters, and threads of its own, the caller included."""
        self.layers = layers
        self._check_layers()
        self.width, self.inputs = layers.encoder[0][0].shape
        self.num_parts = len(layers.parts)
        self._weights, self._biases = layers.weights(), layers.biases()
        self.parameters = self._weights + [bias for bias in self._biases if bias is not None]
        self._part_sizes = (_INT64 * self.num_parts)(*layers.parts)
        self._library = cpu_library.library()
        self._threads = ThreadPool(num_threads)
        self._weight_pointers = (_POINTER * len(self._weights))()
        self._bias_pointers = (_POINTER * len(self._biases))()
        outputs = sum(layers.parts) + 1
        self._network = _Network(
            *(self.inputs, padded(self.inputs), self.width, len(layers.encoder)),
            *(ACTIVATIONS.index(layers.activation), len(layers.recurrent)),
            *(outputs, padded(outputs), self.num_parts),
            *(ctypes.addressof(self._part_sizes), ctypes.addressof(self._weight_pointers)),
            *(ctypes.addressof(self._bias_pointers), None),
        )
        packed_size, self._gradient_size, _ = self._sizes(1, 1)
        self._packed = torch.empty(packed_size)
        self._network.packed = self._packed.data_ptr()
        self._scratch = torch.empty(0)
        self._scratch_sizes: dict[tuple[int, int], int] = {}  # by sequences and steps of a block
        self._gradients = torch.empty(0)
        self.refresh()

    def refresh(self) -> None:
        """Takes over the parameters as they are now; `act` works with those until the next call.

        Raises:
            APIUsageError: if they do not fit the kernel any more.
        """
        self._check_layers()
        for index, weight in enumerate(self._weights):
            self._weight_pointers[index] = weight.data_ptr()
        for index, bias in enumerate(self._biases):
            self._bias_pointers[index] = None if bias is None else bias.data_ptr()
        self._library.puffer_network_pack(ctypes.addressof(self._network))

    def act(
        self,
        observations: Tensor,
        states: Sequence[Tensor],
        uniforms: Tensor,
        actions: Tensor,
        logprobs: Tensor,
        values: Tensor,
        stored: Tensor | None = None,
    ) -> None:
        """One step for every row, with the parameters of the last `refresh`.

        Args:
            observations: `(rows, ...)` of OBSERVATION_DTYPES, each row contiguous.
            states: of every MinGRU layer `(rows, width)`, contiguous, overwritten with the state after the step.
            uniforms: `(rows, parts)` uniform in [0, 1), from which actions are drawn; contiguous.
            actions: `(rows,)` or `(rows, parts)` int32, to be written; the parts of a row lie side by side.
            logprobs: `(rows,)` float32, to be written: of the actions.
            values: `(rows,)` float32, to be written.
            stored: contiguous, of the observations' shape and dtype, to be written: a copy of them; None leaves none.

        Raises:
            APIUsageError: if a tensor differs from the above.
            ValueError: if a logit is NaN.
        """
        self._check_uniforms(uniforms, observations.shape[0])
        self._check_results(observations.shape[0], actions=actions, logprobs=logprobs, values=values)
        if stored is not None:
            check_tensor("stored", stored, observations.shape, observations.device, observations.dtype)
        if self._act(observations, states, uniforms, actions, logprobs, values, stored):
            raise ValueError("the policy's logits contain NaN; lower the learning rate or check the observations")

    def value(self, observations: Tensor, states: Sequence[Tensor], values: Tensor) -> None:
        """As `act`, without a decision."""
        self._check_results(observations.shape[0], values=values)
        self._act(observations, states, None, None, None, values, None)

    def _act(self, observations, states, uniforms, actions, logprobs, values, stored) -> bool:
        """Returns whether a logit was NaN."""
        rows = observations.shape[0]
        self._check_states(states, rows)
        if rows == 0:
            return False
        slots = min(self._threads.size, -(-rows // BLOCK_ROWS))
        scratch, scratch_size = self._take_scratch(slots, BLOCK_ROWS, 1)
        has_nan, state_pointers = ctypes.c_int32(), _pointers(states)
        call = _Act(
            *(ctypes.addressof(self._network), self._describe(observations, 1), _address(stored)),
            *(rows, BLOCK_ROWS, ctypes.addressof(state_pointers), _address(uniforms)),
            *(*_rows(actions), *_rows(logprobs), *_rows(values)),
            *(scratch, slots, scratch_size, ctypes.addressof(has_nan)),
        )
        self._library.puffer_network_act(ctypes.addressof(call), self._threads.address)
        return bool(has_nan.value)

    def learn(
        self,
        observations: Tensor,
        minibatch: Minibatch,
        *,
        clip_coef: float,
        vf_clip_coef: float,
        vf_coef: float,
        ent_coef: float,
    ) -> Learned:
        """The gradients of losses.ppo_loss over a minibatch, with the parameters as they are now.

        Args:
            observations: the rollout's, `(segments, T, ...)` of OBSERVATION_DTYPES; each observation contiguous.
            minibatch: what is learned from.
            clip_coef: as for losses.ppo_loss, as are the next ones.
            vf_clip_coef: how far a value may leave the old one.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy bonus.

        Raises:
            APIUsageError: if a tensor differs from what Minibatch says.
        """
        count, steps = minibatch.old_logprobs.shape
        self._check_minibatch(minibatch, count, steps)
        self._check_segments(minibatch.segments, steps, observations)
        self.refresh()
        block = max(1, BLOCK_ROWS // steps)
        chunks = min(MAX_CHUNKS, count)
        slots = min(self._threads.size, chunks)
        scratch, scratch_size = self._take_scratch(slots, block, steps)
        if self._gradients.shape[0] != chunks:
            self._gradients = torch.empty(chunks, self._gradient_size)
        self._gradients.zero_()
        metrics = torch.zeros(chunks, NUM_METRICS, dtype=torch.float64)
        ratios, values = torch.empty(count, steps), torch.empty(count, steps)
        states = _pointers(minibatch.states)
        call = _Learn(
            *(ctypes.addressof(self._network), self._describe(observations, 2), _address(minibatch.segments)),
            *(count, steps, block, chunks, _address(minibatch.actions), _address(minibatch.resets)),
            *(ctypes.addressof(states), _address(minibatch.old_logprobs), _address(minibatch.old_values)),
            *(_address(minibatch.advantages), _address(minibatch.returns), _address(minibatch.weights)),
            *(clip_coef, vf_clip_coef, vf_coef, ent_coef, _address(ratios), _address(values), _address(metrics)),
            *(_address(self._gradients), self._gradient_size, scratch, slots, scratch_size),
        )
        self._library.puffer_network_learn(ctypes.addressof(call), self._threads.address)
        return Learned(self._split(self._gradients.sum(0)), metrics.sum(0).float(), ratios, values)

    def _split(self, gradients: Tensor) -> list[Tensor]:
        """The gradients of the weights, then of the biases, as views; each begins on a register's boundary."""
        weights, biases, offset = [], [], 0

        def take(rows: int, columns: int) -> Tensor:
            nonlocal offset
            piece = gradients[offset : offset + rows * columns].view(rows, columns)
            offset += padded(rows * columns)
            return piece

        for weight, _ in self.layers.encoder:
            outputs, inputs = weight.shape
            weights.append(take(outputs, padded(inputs))[:, :inputs])
            biases.append(take(1, outputs)[0])
        weights.extend(take(*weight.shape) for weight in self.layers.recurrent)
        weights.append(take(*self.layers.head[0].shape))
        biases.append(take(1, len(self.layers.head[0]))[0])
        return weights + [gradient for gradient, bias in zip(biases, self._biases, strict=True) if bias is not None]

    def _sizes(self, sequences: int, steps: int) -> tuple[int, int, int]:
        """Floats of packed parameters, of gradients, and of scratch memory for a block."""
        sizes = (_INT64 * 3)()
        self._library.puffer_network_sizes(ctypes.addressof(self._network), sequences, steps, sizes)
        return tuple(sizes)

    def _take_scratch(self, slots: int, sequences: int, steps: int) -> tuple[int, int]:
        """The address of memory for every thread, and floats for each."""
        if (sequences, steps) not in self._scratch_sizes:
            self._scratch_sizes[sequences, steps] = self._sizes(sequences, steps)[2]
        size = self._scratch_sizes[sequences, steps]
        if self._scratch.numel() < slots * size:
            self._scratch = torch.empty(slots * size)
        return self._scratch.data_ptr(), size

    def _describe(self, observations: Tensor, leading: int) -> _Observations:
        """Where the observations lie, after `leading` dimensions: rows, or segments and steps."""
        row = observations[(0,) * leading] if 0 not in observations.shape[:leading] else observations
        if observations.dtype not in OBSERVATION_DTYPES or not row.is_contiguous() or row.numel() != self.inputs:
            raise APIUsageError(
                f"observations must be contiguous rows of {self.inputs} numbers in float32 or uint8, got "
                f"{_describe(observations)}"
            )
        step_stride = observations.stride(1) if leading == 2 else 0
        return _Observations(
            observations.data_ptr(), observations.dtype == torch.uint8, observations.stride(0), step_stride
        )

    def _check_layers(self) -> None:
        if not self.layers.fit():
            raise APIUsageError(
                f"a network needs float32 layers on a CPU of one width, a multiple of {LANES}, at most {MAX_LAYERS} "
                f"of a kind, and an activation of {', '.join(ACTIVATIONS)}, got {self.layers.activation!r} and weights "
                f"{[tuple(weight.shape) for weight in self.layers.weights()]}; use the torch modules instead"
            )

    def _check_results(self, rows: int, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            dtype = torch.int32 if name == "actions" else torch.float32
            shapes = [(rows, self.num_parts), (rows,)] if name == "actions" else [(rows,)]
            is_joint = self.num_parts > 1 and name == "actions"
            if tensor.dtype != dtype or tensor.shape not in shapes[: 1 if is_joint else 2]:
                raise APIUsageError(f"{name} must be {shapes[0]} in {dtype}, got {_describe(tensor)}")
            if tensor.dim() == 2 and tensor.stride(1) != 1:
                raise APIUsageError(f"the parts of {name} must lie side by side, got {_describe(tensor)}")

    def _check_uniforms(self, uniforms: Tensor, rows: int) -> None:
        self._check_input("uniforms", uniforms, rows * self.num_parts)

    def _check_input(self, name: str, tensor: Tensor, size: int, dtype: torch.dtype = torch.float32) -> None:
        if tensor.dtype == dtype and tensor.numel() == size and tensor.is_contiguous():
            return
        raise APIUsageError(f"{name} must be {size} numbers in a contiguous {dtype} tensor, got {_describe(tensor)}")

    def _check_states(self, states: Sequence[Tensor], rows: int) -> None:
        if len(states) != len(self.layers.recurrent):
            raise APIUsageError(f"states must be one for each MinGRU layer, got {len(states)}")
        for state in states:
            check_tensor("state", state, (rows, self.width), state.device)

    def _check_segments(self, segments: Tensor, steps: int, observations: Tensor) -> None:
        low, high = (int(bound) for bound in segments.aminmax())
        if low >= 0 and high < observations.shape[0] and steps <= observations.shape[1]:
            return
        raise APIUsageError(
            f"segments must be rows of observations {tuple(observations.shape)} with at least {steps} steps, got "
            f"{low} to {high}"
        )

    def _check_minibatch(self, minibatch: Minibatch, count: int, steps: int) -> None:
        if 0 in (count, steps):
            raise APIUsageError(f"a minibatch must have at least one segment and one step, got {count} and {steps}")
        self._check_states(minibatch.states, count)
        self._check_input("segments", minibatch.segments, count, torch.int64)
        self._check_input("actions", minibatch.actions, count * steps * self.num_parts, torch.int32)
        self._check_input("resets", minibatch.resets, count * steps, torch.bool)
        for name in ("old_logprobs", "old_values", "advantages", "returns", "weights"):
            tensor = getattr(minibatch, name)
            if tensor is not None:
                self._check_input(name, tensor, count * steps)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _rows(tensor: Tensor | None) -> tuple[int | None, int]:
    """Where the first row lies, and how many elements further the next one."""
    return (None, 0) if tensor is None else (tensor.data_ptr(), tensor.stride(0))


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} in {tensor.dtype} with strides {tensor.stride()}"


def _pointers(tensors: Sequence[Tensor]) -> ctypes.Array:
    return (_POINTER * max(len(tensors), 1))(*(tensor.data_ptr() for tensor in tensors))
