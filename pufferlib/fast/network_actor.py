"""Acting on a CPU with one kernel per step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from pufferlib.extensions import Network
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.rollout import Rollout


class NetworkActor(Actor):
    """An actor whose policy is a Network; it uses random numbers as `sample_logits` does.

    The kernel reads the observations where the environments wrote them, and writes the rollout's copy. The states are
    those of the network's layers, in their order.
    """

    def __init__(
        self, network: Network, policy: nn.Module, rollout: Rollout, num_agents: int, generator: torch.Generator
    ):
        super().__init__(policy, rollout, num_agents, generator)
        self._network = network
        self._seen: dict[int, Tensor] = {}  # a batch's observations until it acts, by its first agent

    @override
    def start_rollout(self, offset: int) -> None:
        super().start_rollout(offset)
        self._network.refresh()

    @override
    def store_observations(
        self, rows: slice, column: int, observations: np.ndarray, episode_starts: np.ndarray
    ) -> None:
        if column < self.rollout.horizon:
            self._seen[rows.start] = torch.from_numpy(observations)
            self._clear_states(rows, episode_starts)
        else:
            super().store_observations(rows, column, observations, episode_starts)

    @override
    def restart(self) -> None:
        super().restart()
        self._seen.clear()

    @override
    def act(self, rows: slice, column: int) -> np.ndarray:
        rollout, segments = self.rollout, self._segments(rows)
        states = [state[rows] for state in self.states.values()]
        stored = self._stored(rows, column)
        draw = torch.rand if self._network.action_dtype == torch.int32 else torch.randn
        noise = draw(len(stored), self._network.num_parts, generator=self._streams.ready(rows))
        actions = rollout.actions[segments, column]
        seen = self._seen.pop(rows.start, None)
        self._network.act(
            stored if seen is None else seen,
            states,
            noise,
            actions=actions,
            logprobs=rollout.logprobs[segments, column],
            values=rollout.values[segments, column],
            stored=None if seen is None else stored,
        )
        return actions.numpy()

    @override
    def value(self, rows: slice | np.ndarray, observations: Tensor) -> Tensor:
        states = [state[rows].clone() for state in self.states.values()]
        values = torch.empty(len(observations))
        self._network.value(observations, states, values)
        return values
