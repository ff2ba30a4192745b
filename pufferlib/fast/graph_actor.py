"""Acting on a GPU with one launch per step: what the environments wrote goes up and the actions come down meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from pufferlib.fast.cuda_graphs import Capture, CapturedCall
from pufferlib.fast.device_network import DeviceNetwork
from pufferlib.fast.pinned_memory import PinnedArrays
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits

Choose = Callable[[Tensor, dict[str, Tensor], torch.Generator], tuple[Tensor, Tensor, Tensor]]


class GraphActor(Actor):
    """An actor that gives every batch a stream, a captured step and pinned memory of its own.

    The observations are copied from the environments' own memory, which is page-locked for it; the caller waits for
    the event behind a batch's actions alone. So while the GPU works for one batch, the CPU's threads step the others.

    Attributes:
        is_offloaded: whether the rollout's observations are in the CPU's memory.
        network: the policy as a kernel computes it, where one can play a rollout by itself; else None.
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
        # What the policy sees. On a GPU that has the rollout's observations too, column T stays here.
        self._inputs = self.last_observations.to(self._device)
        self.is_offloaded = self.last_observations.device != self._device
        self._capture = capture
        self._pinned = PinnedArrays(self._device)
        self._lanes: dict[tuple[int, int], Lane] = {}

    @override
    def begin(self, offset: int) -> None:
        self.finish()
        super().begin(offset)
        for lane in self._lanes.values():
            lane.step.begin(offset)
            lane.wait()

    @override
    def see(self, rows: slice, column: int, observations: np.ndarray, begins: np.ndarray) -> None:
        lane = self._lane(rows)
        if lane.stream is not None:
            self._pinned.pin(observations)
        source = torch.from_numpy(observations)
        if self.is_offloaded:
            source = self._stored(rows, column).copy_(source)
        lane.host_begins.numpy()[:] = begins
        with torch.cuda.stream(lane.stream):
            lane.step.observations.copy_(source, non_blocking=True)
            lane.step.begins.copy_(lane.host_begins, non_blocking=True)

    @override
    @torch.no_grad()
    def act(self, rows: slice, column: int) -> np.ndarray:
        lane = self._lane(rows)
        self._streams.ready(rows)  # which the lane draws from is seeded by now
        with torch.cuda.stream(lane.stream):
            lane.run()
            lane.host_actions.copy_(lane.step.actions, non_blocking=True)
        lane.wait_for_actions()
        return lane.host_actions.numpy()

    def batch_step(self, rows: slice) -> BatchStep:
        """The tensors that a batch acts on and writes."""
        return self._lane(rows).step

    def playing(self, rows: slice, columns: int, step_environments: Callable[[BatchStep], None]) -> CapturedCall:
        """What acts and steps environments on the GPU, for that many columns of a batch at a time.

        Args:
            rows: the batch.
            columns: to play in one call.
            step_environments: takes `actions`, and writes `observations` and `begins`; `place` is where its column lies
                among the rollout's, `(T + 1, S)` flattened, for each agent.
        """
        step, generator = self.batch_step(rows), self.stream_of(rows)

        @torch.no_grad()
        def play() -> None:
            for _ in range(columns):
                step.run(self._choose, generator)
                step_environments(step)

        return self.captured(rows, play)

    def captured(self, rows: slice, function: Callable[[], None]) -> CapturedCall:
        """Has a function replayed among what is done for a batch, drawing from its stream."""
        return CapturedCall(function, self.stream_of(rows), self._lane(rows).stream, self._capture)

    def stream_of(self, rows: slice) -> torch.Generator:
        """What the actions of a batch are drawn by."""
        return self._streams.of(rows)

    @override
    @torch.no_grad()
    def bootstrap(self, rows: slice) -> None:
        lane = self._lane(rows)
        with torch.cuda.stream(lane.stream):
            lane.step.clear_states()
            super().bootstrap(rows)

    @override
    def value_final(self, agents: np.ndarray, observations: np.ndarray) -> Tensor:
        self.finish()  # the states are those after the last action
        values = super().value_final(agents, observations)
        for lane in self._lanes.values():
            lane.wait()
        return values

    @override
    def finish(self) -> None:
        for lane in self._lanes.values():
            lane.join()

    @override
    def restart(self) -> None:
        self.finish()
        super().restart()
        for lane in self._lanes.values():
            lane.step.begins.zero_()
            lane.wait()

    @override
    def close(self) -> None:
        if self._lanes and self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # nothing may read memory that is let go
        self._pinned.close()

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._inputs.copy_(self.last_observations)

    @override
    def _input(self, rows: slice, column: int) -> Tensor:
        return self._inputs[rows]

    def _lane(self, rows: slice) -> Lane:
        key = rows.start, rows.stop
        if key not in self._lanes:
            step = BatchStep(rows, self._inputs, self.states, self.rollout, not self.is_offloaded)
            step.begin(self._offset)
            generator = self._streams.of(rows)
            self._lanes[key] = Lane(step, self._choose, generator, self._capture)
        return self._lanes[key]

    def _choose(
        self, observations: Tensor, state: dict[str, Tensor], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, their log-probabilities and the values; replaces the entries of `state`."""
        with self._autocast():
            logits, values = self._forward(observations, state)
        actions, logprobs, _ = sample_logits(logits, generator=generator)
        return actions, logprobs, values


class Lane:
    """The stream of one batch, and what goes up and comes down on it."""

    def __init__(
        self,
        step: BatchStep,
        choose: Choose,
        generator: torch.Generator,
        capture: Capture | None,
    ):
        is_cuda = step.actions.is_cuda
        self.step = step
        self.stream = torch.cuda.Stream(step.actions.device) if is_cuda else None
        self.host_actions = torch.zeros(step.actions.shape, dtype=step.actions.dtype, pin_memory=is_cuda)
        self.host_begins = torch.zeros(step.begins.shape, dtype=torch.bool, pin_memory=is_cuda)
        self.run = CapturedCall(lambda: step.run(choose, generator), generator, self.stream, capture)
        self._event = torch.cuda.Event() if is_cuda else None
        self.wait()

    def wait(self) -> None:
        """Puts what this lane does next after what the calling stream was given to do."""
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))

    def join(self) -> None:
        """Puts what the calling stream does next after what this lane was given to do."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def wait_for_actions(self) -> None:
        """Blocks until everything given to this lane so far is done."""
        if self._event is not None:
            self._event.record(self.stream)
            self._event.synchronize()


class BatchStep:
    """One step of one batch on tensors that stay where they are.

    Where in the rollout the step belongs is a tensor too, counted on by every run, so that one recording serves all
    columns and all groups of agents.

    Attributes:
        observations: what the agents see, to be filled.
        begins: `(rows,)` bool, whose recurrent state begins anew, to be filled.
        actions: what they do, in the rollout's dtype.
        place: where the step's column lies in the rollout's flattened columns, `(rows,)` int64.
        states: the recurrent state of the agents, by name.
    """

    def __init__(
        self, rows: slice, inputs: Tensor, states: dict[str, Tensor], rollout: Rollout, stores_observations: bool
    ):
        """Makes views of `inputs` and `states`, which have a row for every agent."""
        count, device = rows.stop - rows.start, rollout.values.device
        self.observations = inputs[rows]
        self.begins = torch.zeros(count, dtype=torch.bool, device=device)
        self.actions = torch.zeros(count, *rollout.actions.shape[2:], dtype=rollout.actions.dtype, device=device)
        self.states = {name: state[rows] for name, state in states.items()}
        self._rollout = rollout
        self._stores_observations = stores_observations
        self._agents = torch.arange(rows.start, rows.stop, device=device)
        # Where the step's column lies in the flattened tensors of a rollout, for each agent:
        self.place = torch.zeros_like(self._agents)  # (T, S): observations; what comes of the step has T + 1 columns
        self._cell = torch.zeros_like(self._agents)  # (S, T): actions, log-probabilities
        self._wide_cell = torch.zeros_like(self._agents)  # (S, T + 1): values

    def begin(self, offset: int) -> None:
        """Goes back to column 0, of the segments from `offset` on."""
        segments, horizon = self._agents + offset, self._rollout.horizon
        self.place.copy_(segments)
        self._cell.copy_(segments * horizon)
        self._wide_cell.copy_(segments * (horizon + 1))

    def clear_states(self) -> None:
        """Zeroes the recurrent state of the agents whose episode begins."""
        for state in self.states.values():
            state.masked_fill_(self.begins.view(-1, *[1] * (state.dim() - 1)), 0)
        self.begins.zero_()

    def run(self, choose: Choose, generator: torch.Generator) -> None:
        """Acts on `observations`, writes the column and goes on to the next; `choose` is the policy."""
        rollout = self._rollout
        self.clear_states()
        state = dict(self.states)
        actions, logprobs, values = choose(self.observations, state, generator)
        self.actions.copy_(actions)
        if self._stores_observations:
            rollout.by_column.flatten(0, 1).index_copy_(0, self.place, self.observations)
        rollout.actions.flatten(0, 1).index_copy_(0, self._cell, self.actions)
        rollout.logprobs.view(-1).index_copy_(0, self._cell, logprobs.float())
        rollout.values.view(-1).index_copy_(0, self._wide_cell, values.float().view(-1))
        for name, value in state.items():  # last: what the policy returned may be views of its state
            if value is not self.states[name]:
                self.states[name].copy_(value)
        self.place += rollout.segments
        self._cell += 1
        self._wide_cell += 1
