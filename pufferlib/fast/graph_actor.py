"""Acting on a GPU with one launch per step; observations and actions are copied meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from pufferlib.fast.cuda_graphs import Capture, CapturedCall, PinnedArrays
from pufferlib.fast.device_network import DeviceNetwork
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits


class GraphActor(Actor):
    """An actor that gives every batch a stream, a captured step and pinned memory of its own.

    The observations are copied from the environments' own memory, which is page-locked; the caller waits only for the
    event after a batch's actions. So while the GPU works for one batch, the CPU's threads step the others.

    Attributes:
        inputs: of the policy, `(agents, ...)`. On a GPU that has the rollout's observations too, column T stays here.
        is_offloaded: whether the rollout's observations are in the CPU's memory.
        capture: what records; None is `capture_graph`.
        network: the policy for a kernel that plays whole rollouts; None where there is none.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        num_agents: int,
        generator: torch.Generator,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
        *,
        capture: Capture | None = None,
        network: DeviceNetwork | None = None,
    ):
        super().__init__(policy, rollout, num_agents, generator, autocast)
        self.network = network
        self.inputs = self.last_observations.to(self._device)
        self.is_offloaded = self.last_observations.device != self._device
        self.capture = capture
        self._pinned = PinnedArrays(self._device)
        self._batches: dict[tuple[int, int], ActorBatch] = {}

    @override
    def start_rollout(self, offset: int) -> None:
        self.finish()
        super().start_rollout(offset)
        for batch in self._batches.values():
            batch.start_rollout(offset)
            batch.wait()

    @override
    def store_observations(
        self, rows: slice, column: int, observations: np.ndarray, episode_starts: np.ndarray
    ) -> None:
        batch = self.batch(rows)
        if batch.stream is not None:
            self._pinned.pin(observations)
        source = torch.from_numpy(observations)
        if self.is_offloaded:
            source = self._stored(rows, column).copy_(source)
        batch.host_starts.numpy()[:] = episode_starts
        with torch.cuda.stream(batch.stream):
            batch.observations.copy_(source, non_blocking=True)
            batch.episode_starts.copy_(batch.host_starts, non_blocking=True)

    @override
    @torch.no_grad()
    def act(self, rows: slice, column: int) -> np.ndarray:
        batch = self.batch(rows)
        self.streams.ready(rows)  # seeds the stream that the batch draws from
        with torch.cuda.stream(batch.stream):
            batch.run()
            batch.host_actions.copy_(batch.actions, non_blocking=True)
        batch.wait_for_actions()
        return batch.host_actions.numpy()

    @override
    def bootstrap(self, rows: slice) -> None:
        batch = self.batch(rows)
        with torch.cuda.stream(batch.stream):
            batch.clear_states()
            super().bootstrap(rows)

    @override
    def value_final(self, agents: np.ndarray, observations: np.ndarray) -> Tensor:
        self.finish()  # the states are those after the last action
        values = super().value_final(agents, observations)
        for batch in self._batches.values():
            batch.wait()
        return values

    @override
    def finish(self) -> None:
        for batch in self._batches.values():
            batch.join()

    @override
    def restart(self) -> None:
        self.finish()
        super().restart()
        for batch in self._batches.values():
            batch.episode_starts.zero_()
            batch.wait()

    @override
    def close(self) -> None:
        if self._batches and self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # nothing may read memory that is released
        self._pinned.close()

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.inputs.copy_(self.last_observations)

    def batch(self, rows: slice) -> ActorBatch:
        """What one batch acts by."""
        key = rows.start, rows.stop
        if key not in self._batches:
            self._batches[key] = batch = ActorBatch(self, rows, self.streams.of(rows))
            batch.start_rollout(self._offset)
            batch.wait()
        return self._batches[key]

    @override
    def _input(self, rows: slice, column: int) -> Tensor:
        return self.inputs[rows]

    def choose(
        self, observations: Tensor, state: dict[str, Tensor], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, log-probabilities and values by the policy, which replaces entries of the state."""
        with self._autocast():
            logits, values = self._forward(observations, state)
        actions, logprobs, _ = sample_logits(logits, generator=generator)
        return actions, logprobs, values


class ActorBatch:
    """One batch's step on tensors that stay where they are, with a CUDA stream and pinned memory of its own.

    The place of the step in the rollout is a tensor too, advanced by every step, so that one recording serves all
    columns and all groups of agents. `observations` and `episode_starts` are to be filled.
    """

    def __init__(self, actor: GraphActor, rows: slice, generator: torch.Generator):
        self._rollout = rollout = actor.rollout
        count, device, is_cuda = rows.stop - rows.start, rollout.values.device, rollout.values.is_cuda
        self.observations = actor.inputs[rows]
        self.episode_starts = torch.zeros(count, dtype=torch.bool, device=device)  # whose recurrent state is zeroed
        self.actions = torch.zeros(count, *rollout.actions.shape[2:], dtype=rollout.actions.dtype, device=device)
        self.states = {name: state[rows] for name, state in actor.states.items()}
        self._stores_observations = not actor.is_offloaded
        self._agents = torch.arange(rows.start, rows.stop, device=device)
        # Where the step's column lies in the flattened tensors of a rollout, for each agent, as (T, S): observations,
        # and with T + 1 columns what comes of the step.
        self.column_index = torch.zeros_like(self._agents)
        self._step_index = torch.zeros_like(self._agents)  # (S, T): actions, log-probabilities
        self._value_index = torch.zeros_like(self._agents)  # (S, T + 1): values
        self.host_actions = torch.zeros(self.actions.shape, dtype=self.actions.dtype, pin_memory=is_cuda)
        self.host_starts = torch.zeros(count, dtype=torch.bool, pin_memory=is_cuda)
        self.stream = torch.cuda.Stream(device) if is_cuda else None
        self._event = torch.cuda.Event() if is_cuda else None
        self._choose, self.generator, self._capture = actor.choose, generator, actor.capture
        self.run = self.captured(self.act)

    def captured(self, function: Callable[[], None]) -> CapturedCall:
        """Returns a call of a function on the CUDA stream, which draws from the random stream."""
        return CapturedCall(function, self.generator, self.stream, self._capture)

    def wait(self) -> None:
        """Lets the CUDA stream wait for the calling one."""
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))

    def join(self) -> None:
        """Lets the calling stream wait for this one."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def wait_for_actions(self) -> None:
        """Waits until `host_actions` are those of the last step."""
        if self._event is not None:
            self._event.record(self.stream)
            self._event.synchronize()

    def start_rollout(self, offset: int) -> None:
        """Begins with column 0 of the segments from `offset` on."""
        segments, horizon = self._agents + offset, self._rollout.horizon
        self.column_index.copy_(segments)
        self._step_index.copy_(segments * horizon)
        self._value_index.copy_(segments * (horizon + 1))

    def clear_states(self) -> None:
        """Zeroes the recurrent state of the agents whose episode begins."""
        for state in self.states.values():
            state.masked_fill_(self.episode_starts.view(-1, *[1] * (state.dim() - 1)), 0)
        self.episode_starts.zero_()

    def act(self) -> None:
        """Acts on `observations`, writes the column and advances to the next."""
        rollout = self._rollout
        self.clear_states()
        state = dict(self.states)
        actions, logprobs, values = self._choose(self.observations, state, self.generator)
        self.actions.copy_(actions)
        if self._stores_observations:
            rollout.by_column.flatten(0, 1).index_copy_(0, self.column_index, self.observations)
        rollout.actions.flatten(0, 1).index_copy_(0, self._step_index, self.actions)
        rollout.logprobs.view(-1).index_copy_(0, self._step_index, logprobs.float())
        self.store_values(values)
        # Last, as what the policy returned may be views of its state; copies, as entries may be views of others.
        replaced = {name: value.clone() for name, value in state.items() if value is not self.states[name]}
        for name, value in replaced.items():
            self.states[name].copy_(value)
        self.column_index += rollout.segments
        self._step_index += 1
        self._value_index += 1

    def store_values(self, values: Tensor, columns_ahead: int = 0) -> None:
        """Writes values into the step's column, or into one behind it."""
        places = self._value_index + columns_ahead if columns_ahead else self._value_index
        self._rollout.values.view(-1).index_copy_(0, places, values.float().view(-1))
