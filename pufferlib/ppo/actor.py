"""The policy's side of a rollout: from what a batch of agents sees to what they do."""

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
from pufferlib.seeding import Streams


class Actor:
    """Acts for batches of agents and writes what training needs into the columns of a rollout.

    Attributes:
        policy: what acts.
        rollout: what is filled.
        states: the recurrent state of every agent, by name.
        last_observations: those of column T, which the next rollout begins with.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        num_agents: int,
        generator: torch.Generator,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
    ):
        """Allocates zeros; `generator` is where the streams that draw the actions come from."""
        self.policy = policy
        self.rollout = rollout
        self.states = {name: torch.zeros_like(state[:num_agents]) for name, state in rollout.states.items()}
        self.last_observations = torch.zeros_like(rollout.by_column[0, :num_agents])
        self._device = rollout.values.device
        self._forward = acting_forward(policy)
        self._streams = Streams(generator, num_agents)
        self._autocast = autocast
        self._offset = 0  # first segment of the group of agents that is being filled

    def begin(self, offset: int) -> None:
        """Turns to the segments from `offset` on, one for each agent; their column 0 was seen last."""
        self._offset = offset
        self._streams.begin()
        group = slice(offset, offset + len(self.last_observations))
        self.rollout.by_column[0, group] = self.last_observations
        for name, state in self.states.items():
            self.rollout.states[name][group] = state

    def see(self, rows: slice, column: int, observations: np.ndarray, begins: np.ndarray) -> None:
        """Takes what a batch sees at a column, which is the horizon after the last action.

        The observations `(rows, *observation_shape)` may be read until the batch acts, so they must stay as they are;
        `begins`, `(rows,)` bool, says whose recurrent state begins anew with them.
        """
        self._stored(rows, column).copy_(torch.from_numpy(observations))
        self._clear_states(rows, begins)

    def _clear_states(self, rows: slice, begins: np.ndarray) -> None:
        """Zeroes the recurrent state of those of a batch whose episode begins."""
        if self.states and begins.any():
            agents = torch.from_numpy(begins.nonzero()[0] + rows.start).to(self._device)
            for state in self.states.values():
                state.index_fill_(0, agents, 0)

    @torch.no_grad()
    def act(self, rows: slice, column: int) -> np.ndarray:
        """Chooses the actions of a batch at a column; they stay valid until the batch acts again."""
        rollout, segments = self.rollout, self._segments(rows)
        held = {name: value[rows] for name, value in self.states.items()}
        state = dict(held)
        with self._autocast():
            logits, values = self._forward(self._input(rows, column), state)
        actions, logprobs, _ = sample_logits(logits, generator=self._streams.ready(rows))
        actions = actions.to(rollout.actions.dtype)
        rollout.actions[segments, column] = actions
        rollout.logprobs[segments, column] = logprobs
        rollout.values[segments, column] = values.view(-1)
        for name, value in state.items():  # last: what the policy returned may be views of its state
            if value is not held[name]:  # else it was updated in place
                self.states[name][rows] = value
        return actions.cpu().numpy()

    @torch.no_grad()
    def bootstrap(self, rows: slice) -> None:
        """Values the observations after the last action; the state stays as it was before them."""
        observations = self._input(rows, self.rollout.horizon)
        self.rollout.values[self._segments(rows), -1] = self.value(rows, observations).view(-1)

    @torch.no_grad()
    def value_final(self, agents: np.ndarray, observations: np.ndarray) -> Tensor:
        """Values what agents `(count,)` saw last before an end that `see` is yet to be told of: `(count,)` float32."""
        return self.value(agents, torch.from_numpy(observations).to(self._device)).view(-1).float()

    def value(self, rows: slice | np.ndarray, observations: Tensor) -> Tensor:
        """Values without a step: the state stays as it is."""
        state = {name: value[rows].clone() for name, value in self.states.items()}
        with self._autocast():
            _, values = self._forward(observations, state)
        return values

    def finish(self) -> None:
        """Puts what the calling stream does next after everything written so far."""

    def close(self) -> None:
        """Lets go of what the environments own; calling it twice is harmless."""

    def restart(self) -> None:
        """Forgets what agents did and saw: all of them begin an episode."""
        for state in self.states.values():
            state.zero_()

    def state_dict(self) -> dict[str, Any]:
        """What a later process needs: copies."""
        states = {name: state.clone() for name, state in self.states.items()}
        return {"last_observations": self.last_observations.clone(), "states": states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts back what `state_dict` returned."""
        self.restart()
        self.last_observations.copy_(state["last_observations"])
        for name, value in state["states"].items():
            self.states[name].copy_(value)

    def _input(self, rows: slice, column: int) -> Tensor:
        """The observations of a batch at a column, where the policy is."""
        return self._stored(rows, column).to(self._device)

    def _stored(self, rows: slice, column: int) -> Tensor:
        """Where the observations of a batch at a column lie."""
        if column < self.rollout.horizon:
            return self.rollout.by_column[column, self._segments(rows)]
        return self.last_observations[rows]

    def _segments(self, rows: slice) -> slice:
        """The segments of agents in the current group."""
        return slice(rows.start + self._offset, rows.stop + self._offset)
