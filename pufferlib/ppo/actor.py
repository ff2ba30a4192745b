"""The policy's side of a rollout: from the observations of a batch of agents to their actions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pufferlib.policy import acting_forward
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits
from pufferlib.seeding import mix_seed


class Streams:
    """Random streams for the actions of batches of agents, seeded by one generator of torch.

    Worker processes finish in another order each time, so each of several batches has a stream of its own, which one
    number of the generator seeds for every group of segments. So a checkpoint keeps the generator alone.
    """

    def __init__(self, generator: torch.Generator, num_agents: int):
        self._generator = generator
        self._num_agents = num_agents
        self._streams: dict[int, torch.Generator] = {}  # by the first agent of the batch
        self.begin()

    def begin(self) -> None:
        """Starts another group of segments; nothing draws meanwhile."""
        self._seed: int | None = None  # of the streams of this group, None until one is asked for
        self._seeded: set[int] = set()

    def draw_seed(self) -> None:
        """Seeds the streams of this group now; else the first batch that asks for one does."""
        self._seed = int(torch.randint(1 << 62, (), generator=self._generator, device=self._generator.device))

    def of(self, agents: slice) -> torch.Generator:
        """The stream of a batch of agents, always the same object; call `ready` before drawing from it."""
        if agents.stop - agents.start == self._num_agents:
            return self._generator
        if agents.start not in self._streams:
            self._streams[agents.start] = torch.Generator(self._generator.device)
        return self._streams[agents.start]

    def ready(self, agents: slice) -> torch.Generator:
        """The stream of a batch of agents, seeded for this group of segments."""
        stream = self.of(agents)
        if stream is not self._generator and agents.start not in self._seeded:
            if self._seed is None:
                self.draw_seed()
            self._seeded.add(agents.start)
            stream.manual_seed(mix_seed(self._seed, agents.start))
        return stream


class Actor:
    """Acts for batches of agents and writes into the columns of a rollout what training needs."""

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        num_agents: int,
        generator: torch.Generator,  # seeds the streams that draw the actions
        autocast: Callable[[], AbstractContextManager] = nullcontext,  # the precision that the policy computes in
    ):
        self.policy = policy
        self.rollout = rollout
        # The recurrent state of every agent, by name.
        self.states = {name: torch.zeros_like(state[:num_agents]) for name, state in rollout.states.items()}
        self.last_observations = torch.zeros_like(rollout.by_column[0, :num_agents])  # of column T: the next rollout's
        self.last_action_masks: Tensor | None = None  # likewise, (agents, choices)
        if rollout.action_masks is not None:
            self.last_action_masks = torch.ones_like(rollout.action_masks[:num_agents, 0])
        self._device = rollout.values.device
        self._forward = acting_forward(policy)
        self.streams = Streams(generator, num_agents)
        self._autocast = autocast
        self._offset = 0  # first segment of the group of agents that is being filled

    def start_rollout(self, offset: int) -> None:
        """Begins to fill the segments from `offset` on, one for each agent, with the observations stored last."""
        self._offset = offset
        self.streams.begin()
        group = slice(offset, offset + len(self.last_observations))
        self.rollout.by_column[0, group] = self.last_observations
        if self.last_action_masks is not None:
            self.rollout.action_masks[group, 0] = self.last_action_masks
        for name, state in self.states.items():
            self.rollout.states[name][group] = state

    def store_observations(
        self, rows: slice, column: int, observations: np.ndarray, episode_starts: np.ndarray
    ) -> None:
        """Stores the observations of a batch at a column; after the last action this is the horizon.

        They may be read until the batch acts. Where `episode_starts` is set, the recurrent state is zeroed.
        """
        self._stored(rows, column).copy_(torch.from_numpy(observations))
        self._clear_states(rows, episode_starts)

    def store_action_masks(self, rows: slice, column: int, masks: np.ndarray) -> None:
        """Stores what a batch may do at a column, `(rows, choices)` bool; each part of an action has a True."""
        is_last = column == self.rollout.horizon
        target = self.last_action_masks[rows] if is_last else self.action_masks(rows, column)
        target.copy_(torch.from_numpy(masks))

    def action_masks(self, rows: slice, column: int) -> Tensor | None:
        """Returns the action masks of a batch at a column below the horizon; None where there are none."""
        masks = self.rollout.action_masks
        return None if masks is None else masks[self._segments(rows), column]

    def _clear_states(self, rows: slice, episode_starts: np.ndarray) -> None:
        if self.states and episode_starts.any():
            agents = torch.from_numpy(episode_starts.nonzero()[0] + rows.start).to(self._device)
            for state in self.states.values():
                state.index_fill_(0, agents, 0)

    @torch.no_grad()
    def act(self, rows: slice, column: int) -> np.ndarray:
        """Chooses the actions of a batch at a column; the array stays valid until the batch acts again."""
        rollout, segments = self.rollout, self._segments(rows)
        held = {name: value[rows] for name, value in self.states.items()}
        state = dict(held)
        with self._autocast():
            logits, values = self._forward(self._input(rows, column), state)
        masks = self.action_masks(rows, column)
        actions, logprobs, _ = sample_logits(logits, generator=self.streams.ready(rows), masks=masks)
        actions = actions.to(rollout.actions.dtype)
        rollout.actions[segments, column] = actions
        rollout.logprobs[segments, column] = logprobs
        rollout.values[segments, column] = values.view(-1)
        # Last, as what the policy returned may be views of its state; copies, as entries may be views of others.
        replaced = {name: value.clone() for name, value in state.items() if value is not held[name]}
        for name, value in replaced.items():  # others were updated in place
            self.states[name][rows] = value
        return actions.cpu().numpy()

    @torch.no_grad()
    def bootstrap(self, rows: slice) -> None:
        """Computes the values of the observations after the last action; the state does not change."""
        observations = self._input(rows, self.rollout.horizon)
        self.rollout.values[self._segments(rows), -1] = self.value(rows, observations).view(-1)

    @torch.no_grad()
    def value_final(self, agents: np.ndarray, observations: np.ndarray) -> Tensor:
        """Values of agents' final observations, before their states are cleared: `(count,)` float32."""
        return self.value(agents, torch.from_numpy(observations).to(self._device)).view(-1).float()

    def value(self, rows: slice | np.ndarray, observations: Tensor) -> Tensor:
        """Values of observations; the state does not change."""
        state = {name: value[rows].clone() for name, value in self.states.items()}
        with self._autocast():
            _, values = self._forward(observations, state)
        return values

    def finish(self) -> None:
        """Makes the calling CUDA stream wait for everything that was written so far."""

    def close(self) -> None:
        """Releases memory of the environments; it may be called again."""

    def restart(self) -> None:
        """Zeroes the recurrent state of all agents: all of them begin an episode."""
        for state in self.states.values():
            state.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Copies of what another actor needs to continue."""
        states = {name: state.clone() for name, state in self.states.items()}
        found = {"last_observations": self.last_observations.clone(), "states": states}
        masks = self.last_action_masks
        return found if masks is None else {**found, "last_action_masks": masks.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        self.restart()
        self.last_observations.copy_(state["last_observations"])
        if self.last_action_masks is not None:
            self.last_action_masks.copy_(state["last_action_masks"])
        for name, value in state["states"].items():
            self.states[name].copy_(value)

    def _input(self, rows: slice, column: int) -> Tensor:
        return self._stored(rows, column).to(self._device)

    def _stored(self, rows: slice, column: int) -> Tensor:
        if column < self.rollout.horizon:
            return self.rollout.by_column[column, self._segments(rows)]
        return self.last_observations[rows]

    def _segments(self, rows: slice) -> slice:
        return slice(rows.start + self._offset, rows.stop + self._offset)
