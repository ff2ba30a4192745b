"""Small policies as one kernel on a CPU: the layers of network_layers.py, and heads for actions and value.

Small layers are bound by memory and by the calls themselves, not by arithmetic. `Network` takes some rows at a time
through all layers while they lie in the cache: acting is one call per step of a rollout, and learning, from the
observations to the gradients of PPO's loss, is one call per minibatch, or one for many with Adam's steps between. Torch
computes the same with pufferlib.models, pufferlib.ppo.sampling and pufferlib.ppo.losses, and tests hold the two
together.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.extensions import cpu_library, network_layers
from pufferlib.extensions.adam import AdamBatch
from pufferlib.extensions.cpu_library import CONSTANTS, STRUCTURES, ThreadPool, check_tensor, padded
from pufferlib.extensions.declarations import Structure
from pufferlib.extensions.network_layers import Layer, Layers, Shape, StateLayer, check_layers

NUM_METRICS = CONSTANTS["PPO_METRICS"]
BLOCK_ROWS = 64  # rows that go through the layers together
FEW_ROWS = 4  # at least, where each takes long: by convolutions, or by many shares of packed parameters
MANY_SHARES = 4
LSTM_SEGMENTS = 8  # at least, whose steps an LSTM takes together: products of fewer rows wait for the weights
CHUNK_ROWS = 32  # rows that are worth a chunk, where a minibatch has few
PACK_NUMBERS = 1 << 16  # of packed parameters that are worth a thread
MANY_CHOICES = 256  # of a decision, from which on the logits that a mask allows are computed one by one
MAX_CHUNKS = 16  # parts of a minibatch, so also the most threads; each costs a copy of the gradients
OBSERVATION_DTYPES = {
    torch.float32: CONSTANTS["OBSERVATION_FLOAT"],
    torch.uint8: CONSTANTS["OBSERVATION_BYTE"],
    torch.int8: CONSTANTS["OBSERVATION_SIGNED_BYTE"],
    torch.float64: CONSTANTS["OBSERVATION_DOUBLE"],
    torch.int16: CONSTANTS["OBSERVATION_SHORT"],
    torch.int32: CONSTANTS["OBSERVATION_INTEGER"],
    torch.int64: CONSTANTS["OBSERVATION_LONG"],
    torch.bool: CONSTANTS["OBSERVATION_BYTE"],
}
PRODUCTS = {"float32": CONSTANTS["PRODUCTS_FLOAT32"], "bfloat16": CONSTANTS["PRODUCTS_BFLOAT16"]}
_COPYING = network_layers.Arrange, network_layers.Concatenate, network_layers.Features
_FLOATS: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}  # of memory for C, whatever torch's defaults are
CATEGORY_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)  # may stand for categories


def observation_dtypes(layers: Layers) -> tuple[torch.dtype, ...]:
    """The dtypes of observations that a network of these layers takes."""
    if layers.fields is not None:
        return (torch.uint8,)
    return tuple(OBSERVATION_DTYPES) if layers.categories is None else CATEGORY_DTYPES


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16."""
    return _bfloat16()[0]


def is_faster_in_bfloat16() -> bool:
    """Whether it is known to multiply more bfloat16 than float32 in the same time."""
    return _bfloat16()[1]


@functools.cache
def _bfloat16() -> tuple[bool, bool]:
    has, is_faster = ctypes.c_int32(), ctypes.c_int32()
    cpu_library.library().puffer_has_bfloat16(ctypes.addressof(has), ctypes.addressof(is_faster))
    return bool(has.value), bool(is_faster.value)


@dataclass(frozen=True)
class NetworkBatch:
    """Segments to learn from, one row each, T steps; all in the CPU's memory, as the observations are."""

    segments: Tensor  # `(count,)` int64, their rows in the rollout's observations
    actions: Tensor  # `(count, T)` or `(count, T, parts)`, int32 choices or float32 numbers
    resets: Tensor  # `(count, T)` bool, set where an episode begins
    states: Sequence[Tensor]  # of every layer those before the first step, `(count, width)`: as for `Network.act`
    old_logprobs: Tensor  # `(count, T)` float32, as are the next ones
    old_values: Tensor  # what values are clipped around
    advantages: Tensor  # normalised and weighted, ready for the loss
    returns: Tensor  # what values should be
    weights: Tensor | None = None  # with mean 1 and 0 for steps that must not count; None counts all alike
    # Of every row of the observations, `(segments, T, choices)` bool, each step contiguous: False for choices that were
    # not allowed; None where all were
    masks: Tensor | None = None


# Tensors of a minibatch that C calls the same.
_SAME_NAMES = "segments", "actions", "old_logprobs", "old_values", "advantages", "returns", "weights"


@dataclass(frozen=True)
class Learned:
    """The results of `Network.learn`."""

    gradients: list[Tensor]  # of `Network.parameters`, views of `Network.gradient`, which the next minibatch overwrites
    metrics: Tensor  # `(7,)`, in the order of losses.METRICS
    ratios: Tensor  # `(count, T)`, probability of the actions now over probability then
    values: Tensor  # `(count, T)`, of the observations now


@dataclass
class _LearnCall:
    # What C writes, and keeps the memory of what it reads.
    metrics: Tensor
    ratios: Tensor
    values: Tensor
    states: ctypes.Array
    is_outside: ctypes.c_int32 = field(default_factory=ctypes.c_int32)
    structure: Structure | None = None

    def check(self, observations: Tensor, segments: Tensor) -> None:
        if self.is_outside.value:
            raise APIUsageError(
                f"segments must be rows of observations {tuple(observations.shape)} with at least "
                f"{self.values.shape[1]} steps, got {segments.tolist()}"
            )


class Act:
    """A step of some rows that was checked once, to be computed from other observations into the same memory.

    Called with observations of the same shape, strides and dtype, whose memory may be another. Raises as
    `Network.prepare_act` says.
    """

    def __init__(
        self, network: Network, structure: Structure, observations: Tensor, has_nan: ctypes.c_int32, memory: tuple
    ):
        self._network = network
        self._structure = structure
        self._form = observations.shape, observations.stride(), observations.dtype
        self._stored = structure.stored
        self._has_nan = has_nan
        self._memory = memory  # what C reads and writes, kept

    def __call__(self, observations: Tensor) -> None:
        """Computes the step with the parameters of the last `refresh`."""
        form, structure = (observations.shape, observations.stride(), observations.dtype), self._structure
        if form != self._form or not observations.is_cpu:
            raise APIUsageError(
                f"observations must be of the shape, strides and dtype {self._form} on a CPU, got {form} on "
                f"{observations.device}"
            )
        if not structure.rows:
            return
        address = observations.data_ptr()
        structure.observations.data = address
        structure.stored = None if address == self._stored else self._stored
        self._network._compute(structure)
        if self._has_nan.value:
            self._has_nan.value = 0
            raise DivergedError("the policy's logits contain NaN; lower the learning rate or check the observations")


class Network:
    """Acts and learns with the parameters of a policy, which stay the policy's own.

    Results do not depend on the number of threads.

    Attributes:
        layers: of the policy.
        parameters: as Layers.parameters has them, of which the gradients are.
        gradient: of all parameters one after the other, as the last `learn` left them.
        gradients: of `parameters`, views of `gradient`.
        num_parts: of a decision.
        action_dtype: int32 for choices, float32 for numbers.
        products: `float32` or `bfloat16`, which factors of products are rounded to, but for those of the head and,
            unless it sees bytes as they are or is a convolution that sees pictures, of the first layer; everything else
            is float32.

    Raises:
        APIUsageError: if the layers do not fit the kernel; see `Layers.fit`.
        PufferError: if the kernel was not built.
    """

    def __init__(self, layers: Layers, num_threads: int = 1, products: str = "float32"):
        """Makes the kernel's view of the parameters, and a pool of at most `num_threads`, the caller included.

        `bfloat16` needs a processor that multiplies these (AVX512-BF16, by the tiles of AMX where it has them), as
        `has_bfloat16` tells.
        """
        check_layers(layers)
        if products not in PRODUCTS or (products == "bfloat16" and not has_bfloat16()):
            raise APIUsageError(
                f"products must be float32, or bfloat16 on a processor that multiplies these, got {products!r} "
                f"{'on one that does not' if products in PRODUCTS else ''}; take float32"
            )
        self.products = products
        self.layers = layers
        self._numbers = layers.numbers
        self._state_sizes = layers.state_sizes()
        self.num_parts = len(layers.parts)
        self.action_dtype = torch.int32 if layers.log_std is None else torch.float32
        self.parameters = layers.parameters()
        self._tensors = layers.tensors()
        self._shapes = [tensor.shape for tensor in self._tensors]
        sizes = [parameter.numel() for parameter in self.parameters]
        self.gradient = torch.zeros(sum(sizes), **_FLOATS)
        pieces = zip(self.gradient.split(sizes), self.parameters, strict=True)
        self.gradients = [piece.view(parameter.shape) for piece, parameter in pieces]
        self._shared: list[tuple[Tensor, Tensor]] = []  # a result, and what one more layer with its parameter adds
        self._used: set[int] = set()  # the tensors that a layer has
        self._library = cpu_library.library()
        self._threads = ThreadPool(num_threads)
        self._addresses: list[int] = []  # of all tensors
        self._layers = (STRUCTURES["Layer"] * len(layers.layers))(*self._describe_layers())
        self._network = self._describe_network()
        self._address = ctypes.addressof(self._network)
        plan = (ctypes.c_int64 * 2)()
        self._library.puffer_network_plan(self._address, plan)
        packed_size, self._gradient_size = plan
        self._packed = torch.zeros(packed_size, **_FLOATS)  # between what is copied there
        self._network.packed = self._packed.data_ptr()
        self._network.pack_shares = max(1, min(MAX_CHUNKS, packed_size // PACK_NUMBERS))
        self._scratch = torch.empty(0, **_FLOATS)
        self._scratch_sizes: dict[tuple[int, int], int] = {}  # by sequences and steps of a block
        self._gradients = torch.empty(0, **_FLOATS)  # of chunks, padded, and their sums
        self._metrics = torch.empty(MAX_CHUNKS, NUM_METRICS, dtype=torch.float64, device="cpu")  # of chunks
        self.refresh()

    def _describe_layers(self) -> list[Structure]:
        layers, shapes = self.layers.layers, self.layers.shapes()
        outputs = {self.layers.decision, self.layers.value}
        is_differentiated, gradients = _find_gradients(layers, outputs, set(map(id, self.parameters)))
        described, first_state, loops, observed = [], 0, self.layers.loops(), {0}
        for index, layer in enumerate(layers):
            seen = [shapes[value] for value in layer.inputs]
            # What is seen and what is decided keeps its digits, but for pictures: of bytes as they are none is lost.
            is_picture = layer.is_image and self.layers.divides_integers and not layer.is_of_categories
            are_bytes = self.layers.are_bytes and self.layers.categories is None
            keeps_digits = is_picture or (are_bytes and 0 in layer.inputs)
            is_exact = index + 1 in outputs or not (keeps_digits or observed.isdisjoint(layer.inputs))
            if isinstance(layer, _COPYING) and observed.issuperset(layer.inputs):
                observed.add(index + 1)
            described.append(
                STRUCTURES["Layer"](
                    kind=CONSTANTS[f"LAYER_{layer.kind}"],
                    num_inputs=len(seen),
                    inputs=_integers("LAYER_MAX_INPUTS", layer.inputs),
                    input_rows=_integers("LAYER_MAX_INPUTS", map(self._row, layer.inputs, seen)),
                    input_gradients=_integers("LAYER_MAX_INPUTS", gradients[index]),
                    row=self._row(index + 1, shapes[index + 1]),
                    is_image=layer.is_image,
                    loop=loops[index],
                    is_differentiated=is_differentiated[index + 1],
                    by_choices=self._is_by_choices(index, gradients[index]),
                    products=PRODUCTS["float32" if is_exact else self.products],
                    num_states=layer.num_states,
                    first_state=first_state,
                    units=shapes[index + 1][0],
                    numbers=(ctypes.c_double * CONSTANTS["LAYER_MAX_NUMBERS"])(*layer.numbers),
                    sizes=_integers("LAYER_MAX_SIZES", layer.sizes(seen)),
                    parameters=_addresses(layer.parameters()),
                    results=_addresses([self._result(tensor) for tensor in layer.parameters()]),
                    packed=0,
                    gradients=0,
                )
            )
            first_state += layer.num_states
        return described

    def _is_by_choices(self, index: int, gradients: Sequence[int]) -> bool:
        # Whether a layer gives many logits, all of the decision, and at most the value behind them, to no other layer.
        layers, layer = self.layers, self.layers.layers[index]
        if type(layer) is not network_layers.Linear or index + 1 != layers.decision or layers.log_std is not None:
            return False
        choices, has_value = sum(layers.parts), layers.value == layers.decision  # and then behind them, as `fit` says
        is_head = layer.activation == "linear" and len(layers.shapes()[layer.inputs[0]]) == 1
        is_read = any(layers.decision in other.inputs for other in layers.layers)
        is_whole = len(layer.weight) == choices + has_value
        is_wanted = gradients[0] != CONSTANTS["GRADIENT_NONE"]
        return is_head and is_whole and is_wanted and not is_read and choices >= MANY_CHOICES

    def _result(self, tensor: Tensor | None) -> Tensor | None:
        # The memory for a gradient of one use of a tensor; None for constants.
        found = [result for each, result in zip(self.parameters, self.gradients, strict=True) if each is tensor]
        if not found or id(tensor) not in self._used:
            self._used.add(id(tensor))
            return found[0] if found else None
        self._shared.append((found[0], torch.empty_like(found[0])))
        return self._shared[-1][1]

    def _row(self, value: int, shape: Shape) -> int:
        # Numbers from a row of a value to the next: every pixel is padded, of an observation only its end.
        units, *image = shape
        return padded(self._numbers) if value == 0 else padded(units) * math.prod(image)

    def _describe_network(self) -> Structure:
        layers, normalizer, categories = self.layers, self.layers.normalizer, self.layers.categories
        are_choices = layers.log_std is None
        self._part_sizes = (ctypes.c_int64 * self.num_parts)(*layers.parts)
        self._normal = torch.zeros(2, self.num_parts, **_FLOATS)  # memory for the kernel, as is the next one
        self._seen = torch.zeros(2, self._numbers, **_FLOATS)
        self._categories = None  # copies, as they index memory: the lowest, the first column, the last one
        self._fields = None
        if layers.fields is not None:
            places = [
                STRUCTURES["ObservationField"](kind=OBSERVATION_DTYPES[dtype], offset=first, count=count)
                for dtype, first, count in layers.fields.places
            ]
            self._fields = (STRUCTURES["ObservationField"] * len(places))(*places)
        if categories is not None:
            of_each = self._numbers // len(categories.counts)  # of a cell one, of a channel all its pixels
            ends = categories.counts.cumsum(0).int()
            columns = torch.stack([categories.lowest, ends - categories.counts, ends - 1])
            self._categories = columns.repeat_interleave(of_each, 1)
        rows = [None] * 3 if self._categories is None else self._categories
        lowest, first_columns, last_columns = map(_address, rows)
        return STRUCTURES["Network"](
            layers=ctypes.addressof(self._layers),
            num_layers=len(self._layers),
            numbers=self._numbers,
            fields=None if self._fields is None else ctypes.addressof(self._fields),
            num_fields=0 if self._fields is None else len(self._fields),
            row_bytes=0 if self._fields is None else layers.fields.row_bytes,
            channels=layers.shape[0] if layers.has_channels_last else 1,
            is_of_categories=categories is not None,
            divides_integers=layers.divides_integers and categories is None and normalizer is None,
            is_step_by_step=layers.is_step_by_step,
            products=PRODUCTS[self.products],
            decision=layers.decision,
            decision_numbers=sum(layers.parts),
            value=layers.value,
            value_place=layers.value_place,
            num_parts=self.num_parts,
            part_sizes=ctypes.addressof(self._part_sizes) if are_choices else None,
            log_std=_address(layers.log_std),
            normal=self._normal.data_ptr(),
            log_std_results=_address(self._result(layers.log_std)),
            mean=None if normalizer is None else normalizer.mean.data_ptr(),
            variance=None if normalizer is None else normalizer.variance.data_ptr(),
            epsilon=0.0 if normalizer is None else normalizer.epsilon,
            clip=0.0 if normalizer is None else normalizer.clip,
            seen=self._seen.data_ptr(),
            lowest=lowest,
            first_columns=first_columns,
            last_columns=last_columns,
            packed=None,
            pack_shares=1,
            log_std_gradients=0,
        )

    def refresh(self) -> None:
        """Copies the parameters as they are now; `act` works with the copy until the next call.

        Raises an APIUsageError if they do not fit the kernel any more.
        """
        self._check_parameters()
        self._pack()

    def _check_parameters(self) -> None:
        check_layers(self.layers)
        shapes = [tensor.shape for tensor in self.layers.tensors()]
        if shapes != self._shapes:
            raise APIUsageError(
                f"the parameters must have the shapes that the network was made for, {_listed(self._shapes)}, got "
                f"{_listed(shapes)}; make another network"
            )

    def _locate(self) -> None:
        # Says where the parameters are; those that lie where they lay are taken to fit still.
        addresses = [tensor.data_ptr() for tensor in self._tensors]
        if addresses != self._addresses:
            self._check_parameters()
            self._addresses = addresses
            self._network.log_std = _address(self.layers.log_std)
            for structure, layer in zip(self._layers, self.layers.layers, strict=True):
                structure.parameters = _addresses(layer.parameters())
        normalizer = self.layers.normalizer
        if normalizer is not None:
            self._network.mean, self._network.variance = normalizer.mean.data_ptr(), normalizer.variance.data_ptr()

    def _pack(self) -> None:
        self._locate()
        self._library.puffer_network_pack(self._address, self._threads.address)

    def act(self, observations: Tensor, *arguments: Tensor | Sequence[Tensor], **keywords: Tensor | None) -> None:
        """Computes the step that `prepare_act` checks, of the same arguments, once."""
        self.prepare_act(observations, *arguments, **keywords)(observations)

    def prepare_act(
        self,
        observations: Tensor,
        states: Sequence[Tensor],
        noise: Tensor | None,
        actions: Tensor | None,
        logprobs: Tensor | None,
        values: Tensor,
        stored: Tensor | None = None,
        masks: Tensor | None = None,
        present: Tensor | None = None,
    ) -> Act:
        """Checks one step for every row; each call of the result computes it with the parameters of the last `refresh`.

        All tensors are in the CPU's memory.

        Args:
            observations: `(rows, ...)` of OBSERVATION_DTYPES, each row contiguous.
            states: those of the layers, as `Layers.num_states` counts them, `(rows, width)` float32, contiguous,
                overwritten with the state after the step.
            noise: `(rows, parts)`, from which actions are made: uniform in [0, 1) for choices, of the standard normal
                distribution for numbers; contiguous. Without noise, actions and log-probabilities nothing is decided.
            actions: `(rows,)` or `(rows, parts)` of `action_dtype`, to be written; the parts of a row lie side by side.
            logprobs: `(rows,)` float32, to be written: of the actions.
            values: `(rows,)` float32, to be written.
            stored: contiguous, of the observations' shape and dtype, to be written: a copy of them; None leaves none.
            masks: `(rows, choices)` bool, contiguous, a column for each choice of each part. False is never drawn; each
                part has a True. None where all are allowed.
            present: `(rows,)` bool, False for rows that decide nothing: their actions, log-probabilities and values are
                zeros. None where all decide.

        Raises:
            APIUsageError: if a tensor differs from the above. What is returned raises a DivergedError if a logit or a
                number is NaN.
        """
        rows, results = observations.shape[0], {"values": values}
        if noise is not None:
            self._check_input("noise", noise, rows * self.num_parts)
            results = {"actions": actions, "logprobs": logprobs, "values": values}
        self._check_results(rows, **results)
        if stored is not None:
            check_tensor("stored", stored, observations.shape, observations.device, observations.dtype)
        self._check_masks(masks, (rows, sum(self.layers.parts)))
        if present is not None and (present.shape, present.dtype, present.is_cpu) != ((rows,), torch.bool, True):
            raise APIUsageError(f"present must be ({rows},) in torch.bool on a CPU, got {_describe(present)}")
        self._check_states(states, rows)
        block = BLOCK_ROWS
        if self._network.pack_shares >= MANY_SHARES or any(layer.is_image for layer in self.layers.layers):
            block = min(block, max(FEW_ROWS, -(-rows // self._threads.size)))  # each thread gets some
        slots = min(self._threads.size, -(-rows // block))
        scratch, scratch_size = self._take_scratch(slots, block, 1)
        has_nan, state_pointers = ctypes.c_int32(), _pointers(states)
        call = STRUCTURES["Act"](
            network=self._address,
            observations=self._describe(observations, 1),
            stored=_address(stored),
            rows=rows,
            block=block,
            states=ctypes.addressof(state_pointers),
            noise=_address(noise),
            masks=_address(masks),
            present=_address(present),
            present_stride=_row_stride(present),
            actions=_address(actions),
            action_stride=_row_stride(actions),
            logprobs=_address(logprobs),
            logprob_stride=_row_stride(logprobs),
            values=_address(values),
            value_stride=_row_stride(values),
            scratch=scratch,
            slots=slots,
            scratch_size=scratch_size,
            has_nan=ctypes.addressof(has_nan),
        )
        memory = (states, values, noise, actions, logprobs, stored, masks, present, state_pointers)
        return Act(self, call, observations, has_nan, memory)

    def value(self, observations: Tensor, states: Sequence[Tensor], values: Tensor) -> None:
        """The values of rows and the next states, without a decision, with the parameters of the last `refresh`.

        Args:
            observations: `(rows, ...)` of OBSERVATION_DTYPES, each row contiguous.
            states: as for `prepare_act`.
            values: `(rows,)` float32, to be written.

        Raises:
            APIUsageError: if a tensor differs from the above.
        """
        self.prepare_act(observations, states, None, None, None, values)(observations)

    def _compute(self, call: Structure) -> None:
        call.scratch = self._scratch.data_ptr()  # which a larger call may have replaced
        self._library.puffer_network_act(ctypes.addressof(call), self._threads.address)

    def learn(self, observations: Tensor, minibatch: NetworkBatch, **coefficients: float) -> Learned:
        """The gradients of losses.ppo_loss over a minibatch, with the parameters as they are now.

        Args:
            observations: the rollout's, `(segments, T, ...)` of OBSERVATION_DTYPES; each observation contiguous.
            minibatch: what is learned from.
            coefficients: those of losses.ppo_loss.

        Raises:
            APIUsageError: if a tensor differs from what NetworkBatch says.
        """
        call = self._prepare(observations, minibatch, len(minibatch.segments), coefficients)
        self._pack()
        self._library.puffer_network_learn(ctypes.addressof(call.structure), self._threads.address)
        call.check(observations, minibatch.segments)
        for result, added in self._shared:
            result += added
        return Learned(self.gradients, call.metrics, call.ratios, call.values)

    @property
    def can_train(self) -> bool:
        """Whether `train` takes these layers: they remember nothing and share no parameter."""
        return not self._state_sizes and not self._shared

    def train(
        self,
        observations: Tensor,
        batch: NetworkBatch,
        counts: Sequence[int],
        adam: AdamBatch,
        *,
        max_norm: float,
        is_normalized: bool,
        **coefficients: float,
    ) -> Tensor:
        """As `learn` for parts of a batch, one after the other, with a step of `adam` after each; see `can_train`.

        Args:
            observations: as for `learn`.
            batch: without weights; its advantages are overwritten where `is_normalized`.
            counts: segments of each part; one of none has a gradient of 0.
            adam: of `parameters`, whose gradients are `gradients`.
            max_norm: that gradients are cut to.
            is_normalized: whether the advantages of each part get mean 0 and deviation 1 before.
            coefficients: those of `learn`.

        Returns:
            The sums of the metrics over the parts, `(7,)`.
        """
        if sum(counts) != len(batch.segments) or batch.weights is not None or not self.can_train:
            raise APIUsageError(f"parts must be of {len(batch.segments)} segments in all and without weights")
        call = self._prepare(observations, batch, max(counts), coefficients)
        steps, sums = batch.old_logprobs.shape[1], torch.empty(NUM_METRICS, **_FLOATS)
        sizes = (ctypes.c_int64 * len(counts))(*counts)
        chunks = (ctypes.c_int64 * len(counts))(*(self._divide(count, steps)[1] for count in counts))
        parts = STRUCTURES["LearnParts"](
            parts=len(counts),
            counts=ctypes.addressof(sizes),
            chunks=ctypes.addressof(chunks),
            advantages=batch.advantages.data_ptr() if is_normalized else None,
            **adam.describe(),
            gradient=self.gradient.data_ptr(),
            gradient_size=self.gradient.numel(),
            max_norm=max_norm,
            sums=sums.data_ptr(),
        )
        self._locate()
        call_address, parts_address = ctypes.addressof(call.structure), ctypes.addressof(parts)
        self._library.puffer_network_train(call_address, parts_address, self._threads.address)
        call.check(observations, batch.segments)
        return sums

    def _prepare(
        self, observations: Tensor, minibatch: NetworkBatch, count: int, coefficients: dict[str, float]
    ) -> _LearnCall:
        # For the first `count` segments.
        self._check_minibatch(minibatch)
        steps, masks = minibatch.old_logprobs.shape[1], minibatch.masks
        self._check_masks(masks, (*observations.shape[:2], sum(self.layers.parts)))
        block, chunks = self._divide(count, steps)
        slots = min(self._threads.size, chunks)
        scratch, scratch_size = self._take_scratch(slots, block, steps)
        if self._gradients.shape[0] != chunks + 1:
            self._gradients = torch.empty(chunks + 1, self._gradient_size, **_FLOATS)
        shapes = (NUM_METRICS,), (count, steps), (count, steps)
        results = (torch.empty(shape, **_FLOATS) for shape in shapes)
        call = _LearnCall(*results, _pointers(minibatch.states))
        call.structure = STRUCTURES["Learn"](
            network=self._address,
            observations=self._describe(observations, 2),
            **{name: _address(getattr(minibatch, name)) for name in _SAME_NAMES},
            masks=_address(masks),
            mask_segment_stride=0 if masks is None else masks.stride(0),
            mask_step_stride=0 if masks is None else masks.stride(1),
            all_segments=observations.shape[0] if steps <= observations.shape[1] else 0,
            count=count,
            steps=steps,
            block=block,
            chunks=chunks,
            reset=minibatch.resets.data_ptr(),
            initial=ctypes.addressof(call.states),
            coefficients=STRUCTURES["PpoCoefficients"](**coefficients),
            ratios=call.ratios.data_ptr(),
            values=call.values.data_ptr(),
            metrics=call.metrics.data_ptr(),
            chunk_metrics=self._metrics.data_ptr(),
            chunk_gradients=self._gradients.data_ptr(),
            gradient_size=self._gradient_size,
            scratch=scratch,
            slots=slots,
            scratch_size=scratch_size,
            is_outside=ctypes.addressof(call.is_outside),
        )
        return call

    def _divide(self, count: int, steps: int) -> tuple[int, int]:
        # Segments that go through the layers together, and groups of segments with gradients of their own.
        if not self.layers.is_step_by_step:
            return max(1, BLOCK_ROWS // steps), min(MAX_CHUNKS, count, -(-count * steps // CHUNK_ROWS))
        together = max(LSTM_SEGMENTS, BLOCK_ROWS // steps)
        chunks = min(MAX_CHUNKS, -(-count // together))
        in_chunk = -(-count // chunks)
        return -(-in_chunk // max(1, in_chunk // together)), chunks  # blocks of about one size

    def _take_scratch(self, slots: int, sequences: int, steps: int) -> tuple[int, int]:
        # The address of memory for every thread, and floats for each.
        if (sequences, steps) not in self._scratch_sizes:
            found = ctypes.c_int64()
            self._library.puffer_network_scratch(self._address, sequences, steps, ctypes.addressof(found))
            self._scratch_sizes[sequences, steps] = found.value
        size = self._scratch_sizes[sequences, steps]
        if self._scratch.numel() < slots * size:
            self._scratch = torch.empty(slots * size, **_FLOATS)
        return self._scratch.data_ptr(), size

    def _describe(self, observations: Tensor, leading: int) -> Structure:
        shape = observations.shape
        row = observations.new_empty(shape[leading:]) if 0 in shape[:leading] else observations[(0,) * leading]
        dtypes = observation_dtypes(self.layers)
        numbers = self._numbers if self.layers.fields is None else self.layers.fields.row_bytes
        is_known = observations.dtype in dtypes and observations.is_cpu
        if not is_known or not row.is_contiguous() or row.numel() != numbers:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
            raise APIUsageError(
                f"observations must be contiguous rows of {numbers} numbers, of one of the types {names}, on a CPU, "
                f"got {_describe(observations)}"
            )
        return STRUCTURES["Observations"](
            data=observations.data_ptr(),
            kind=OBSERVATION_DTYPES[observations.dtype],
            segment_stride=observations.stride(0),
            step_stride=observations.stride(1) if leading == 2 else 0,
        )

    def _check_results(self, rows: int, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            dtype = self.action_dtype if name == "actions" else torch.float32
            shapes = [(rows, self.num_parts), (rows,)] if name == "actions" else [(rows,)]
            is_joint = self.num_parts > 1 and name == "actions"
            if tensor.dtype != dtype or not tensor.is_cpu or tensor.shape not in shapes[: 1 if is_joint else 2]:
                raise APIUsageError(f"{name} must be {shapes[0]} in {dtype} on a CPU, got {_describe(tensor)}")
            if tensor.dim() == 2 and tensor.stride(1) != 1:
                raise APIUsageError(f"the parts of {name} must lie side by side, got {_describe(tensor)}")

    def _check_input(self, name: str, tensor: Tensor, size: int, dtype: torch.dtype = torch.float32) -> None:
        if tensor.dtype == dtype and tensor.numel() == size and tensor.is_contiguous() and tensor.is_cpu:
            return
        expected = f"{size} numbers in a contiguous {dtype} tensor on a CPU"
        raise APIUsageError(f"{name} must be {expected}, got {_describe(tensor)}")

    def _check_states(self, states: Sequence[Tensor], rows: int) -> None:
        if len(states) != len(self._state_sizes):
            raise APIUsageError(
                "states must be one for each MinGRU, GRU or state layer and two for each LSTM layer, "
                f"{len(self._state_sizes)}, got {len(states)}"
            )
        for state, size in zip(states, self._state_sizes, strict=True):
            check_tensor("state", state, (rows, size), torch.device("cpu"))

    def _check_minibatch(self, minibatch: NetworkBatch) -> None:
        shape = tuple(minibatch.old_logprobs.shape)
        if len(shape) != 2 or 0 in shape:
            raise APIUsageError(f"old_logprobs must be (count, T) with at least one segment and one step, got {shape}")
        count, steps = shape
        self._check_states(minibatch.states, count)
        self._check_input("segments", minibatch.segments, count, torch.int64)
        self._check_input("actions", minibatch.actions, count * steps * self.num_parts, self.action_dtype)
        self._check_input("resets", minibatch.resets, count * steps, torch.bool)
        for name in ("old_logprobs", "old_values", "advantages", "returns", "weights"):
            tensor = getattr(minibatch, name)
            if tensor is not None:
                self._check_input(name, tensor, count * steps)

    def _check_masks(self, masks: Tensor | None, shape: tuple[int, ...]) -> None:
        if masks is None:
            return
        if self.layers.log_std is not None:
            raise APIUsageError("masks are for choices, got some for a policy that gives numbers; leave them out")
        is_whole = masks.is_contiguous() if masks.dim() == 2 else masks.stride(-1) == 1
        if masks.shape != shape or masks.dtype != torch.bool or not masks.is_cpu or not is_whole:
            raise APIUsageError(f"masks must be {shape} in contiguous torch.bool on a CPU, got {_describe(masks)}")


def _find_gradients(
    layers: Sequence[Layer], outputs: set[int], trained: set[int]
) -> tuple[list[bool], list[list[int]]]:
    # Which values have a gradient, and what each layer does with those of its inputs: of several readers of a value the
    # last one is the first to write its gradient, unless the loss or a state did, which may read what comes after it.
    has_parameters = [not trained.isdisjoint(map(id, layer.parameters())) for layer in layers]
    is_differentiated, before, gradients = [False, *has_parameters], [], []
    while is_differentiated != before:
        before = list(is_differentiated)
        for index, layer in enumerate(layers):
            is_differentiated[index + 1] |= any(is_differentiated[value] for value in layer.inputs)
    written = outputs | {layer.inputs[0] for layer in layers if isinstance(layer, StateLayer)}
    for layer in reversed(layers):
        gradients.append([])
        for value in layer.inputs:
            is_first = value not in written or isinstance(layer, StateLayer)  # which adds by itself
            added = "GRADIENT_FIRST" if is_first else "GRADIENT_ADDED"
            gradients[-1].append(CONSTANTS[added if is_differentiated[value] else "GRADIENT_NONE"])
            written.add(value)
    return is_differentiated, gradients[::-1]


def _integers(count: str, numbers: Iterable[int]) -> ctypes.Array:
    return (ctypes.c_int64 * CONSTANTS[count])(*numbers)


def _addresses(tensors: Sequence[Tensor | None]) -> ctypes.Array:
    return (ctypes.c_void_p * CONSTANTS["LAYER_MAX_PARAMETERS"])(*map(_address, tensors))


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _row_stride(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.stride(0)


def _listed(shapes: Sequence[torch.Size]) -> str:
    return ", ".join(str(tuple(shape)) for shape in shapes)


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} in {tensor.dtype} with strides {tensor.stride()} on {tensor.device}"


def _pointers(tensors: Sequence[Tensor]) -> ctypes.Array:
    return (ctypes.c_void_p * max(len(tensors), 1))(*(tensor.data_ptr() for tensor in tensors))
