"""The policy's side of a rollout: from what a batch of agents sees to what they do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pufferlib.policy import acting_forward
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits
from pufferlib.ppo.streams import Streams

Rows = slice | np.ndarray


class Actor:
    """Acts for batches of agents and writes what training needs into the columns of a rollout.

    On a CPU the policy acts on a view of the column that the observations were stored in. A GPU's policy acts on
    `inputs`, which the observations are copied to.

    Attributes:
        policy: what acts.
        states: the recurrent state of every agent, by name.
        last_observations: those of column T, which the next rollout begins with.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        num_agents: int,
        generator: torch.Generator,
        autocast: Callable[[], AbstractContextManager],
    ):
        """Allocates zeros; `generator` is where the streams that draw the actions come from."""
        self.policy = policy
        self.rollout = rollout
        self.states = {name: torch.zeros_like(state[:num_agents]) for name, state in rollout.states.items()}
        self.last_observations = torch.zeros_like(rollout.by_column[0, :num_agents])
        self._device = rollout.values.device
        self._is_stored_at_once = self.last_observations.device.type == "cpu"  # the rollout's columns are in reach
        self._inputs = None if self._device.type == "cpu" else self.last_observations.to(self._device)
        self._forward = acting_forward(policy)
        self._streams = Streams(generator, num_agents)
        self._autocast = autocast
        self._agents = np.arange(num_agents)
        self._offset = 0  # first segment of the group of agents that is being filled

    def begin(self, offset: int) -> None:
        """Turns to the segments from `offset` on, one for each agent; their column 0 was seen last."""
        self._offset = offset
        self._streams.begin()
        group = slice(offset, offset + len(self.last_observations))
        self.rollout.by_column[0, group] = self.last_observations
        for name, state in self.states.items():
            self.rollout.states[name][group] = state

    def see(self, rows: Rows, column: int, observations: np.ndarray, begins: np.ndarray) -> None:
        """Takes what a batch sees at a column.

        Args:
            rows: the agents.
            column: of the rollout; its horizon for the observations after the last action.
            observations: `(rows, *observation_shape)`; may be read until the batch acts, so it must stay as it is.
            begins: `(rows,)` bool, whose recurrent state begins anew with this observation.
        """
        received = torch.from_numpy(observations)
        if self._is_stored_at_once:
            if column < self.rollout.horizon:
                self.rollout.by_column[column, self._segments(rows)] = received
            else:
                self.last_observations[rows] = received
        if self._inputs is not None:
            self._inputs[rows] = received.to(self._device)
        self._clear_states(rows, begins)

    def _clear_states(self, rows: Rows, begins: np.ndarray) -> None:
        """Zeroes the recurrent state of those of a batch whose episode begins."""
        if self.states and begins.any():
            agents = torch.from_numpy(self._agents[rows][begins]).to(self._device)
            for state in self.states.values():
                state.index_fill_(0, agents, 0)

    @torch.no_grad()
    def act(self, rows: Rows, column: int) -> np.ndarray:
        """Chooses the actions of a batch at a column; they stay valid until the batch acts again."""
        rollout, segments = self.rollout, self._segments(rows)
        observations = self._observations(rows, column)
        held = {name: value[rows] for name, value in self.states.items()}
        state = dict(held)
        with self._autocast():
            logits, values = self._forward(observations, state)
        actions, logprobs, _ = sample_logits(logits, generator=self._stream(rows))
        actions = actions.to(rollout.actions.dtype)
        if not self._is_stored_at_once:
            rollout.by_column[column, segments] = observations
        rollout.actions[segments, column] = actions
        rollout.logprobs[segments, column] = logprobs
        rollout.values[segments, column] = values.view(-1)
        for name, value in state.items():  # last: what the policy returned may be views of its state
            if value is not held[name] or not isinstance(rows, slice):  # else it was updated in place
                self.states[name][rows] = value
        return actions.cpu().numpy()

    @torch.no_grad()
    def bootstrap(self, rows: Rows) -> None:
        """Values the observations after the last action; the state stays as it was before them."""
        observations = self._observations(rows, self.rollout.horizon)
        self.rollout.values[self._segments(rows), -1] = self._value(rows, observations).view(-1)

    @torch.no_grad()
    def value_final(self, agents: np.ndarray, observations: np.ndarray) -> Tensor:
        """Values what agents saw last before an end that `see` is yet to be told of.

        Args:
            agents: `(count,)`.
            observations: `(count, *observation_shape)`.

        Returns:
            `(count,)` float32.
        """
        return self._value(agents, torch.from_numpy(observations).to(self._device)).view(-1).float()

    def _value(self, rows: Rows, observations: Tensor) -> Tensor:
        """Values without a step: the state stays as it is."""
        state = {name: value[rows].clone() for name, value in self.states.items()}
        with self._autocast():
            _, values = self._forward(observations, state)
        return values

    @property
    def newest_observations(self) -> Tensor:
        """Of every agent, those that came last once a rollout is full: of column T."""
        return self.last_observations if self._inputs is None else self._inputs

    def finish(self) -> None:
        """Puts what the calling stream does next after everything written so far."""

    def close(self) -> None:
        """Lets go of what the environments own; calling it twice is harmless."""

    def restart(self) -> None:
        """Forgets what agents did and saw: all of them begin an episode."""
        for state in self.states.values():
            state.zero_()

    def state_dict(self) -> dict[str, Any]:
        """What a later process needs."""
        return {
            "last_observations": self.last_observations.clone(),
            "states": {name: state.clone() for name, state in self.states.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts back what `state_dict` returned."""
        self.restart()
        self.last_observations.copy_(state["last_observations"])
        if self._inputs is not None:
            self._inputs.copy_(self.last_observations)
        for name, value in state["states"].items():
            self.states[name].copy_(value)

    def _stream(self, rows: Rows) -> torch.Generator:
        """What draws the actions of a batch now."""
        agents = self._agents[rows]
        return self._streams.ready(int(agents[0]), len(agents))

    def _observations(self, rows: Rows, column: int) -> Tensor:
        if self._inputs is not None:
            return self._inputs[rows]
        if column < self.rollout.horizon:
            return self.rollout.by_column[column, self._segments(rows)]
        return self.last_observations[rows]

    def _segments(self, rows: Rows) -> Rows:
        """The segments of agents in the current group."""
        if isinstance(rows, slice):
            return slice(rows.start + self._offset, rows.stop + self._offset)
        return rows + self._offset
