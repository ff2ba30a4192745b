"""Acting on a CPU with one kernel per step: from the observations to what training needs of the decision."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from pufferlib.actor import Actor, Rows
from pufferlib.extensions import Network
from pufferlib.rollout import Rollout


class NetworkActor(Actor):
    """An actor whose policy is a Network; the random numbers are used as `sample_logits` does."""

    def __init__(
        self, policy: nn.Module, rollout: Rollout, num_agents: int, generator: torch.Generator, network: Network
    ):
        """As for an Actor; `network` computes `policy`, and its layers' states are the policy's in their order."""
        super().__init__(policy, rollout, num_agents, generator, torch.no_grad)
        self._network = network

    @override
    def begin(self, offset: int) -> None:
        super().begin(offset)
        self._network.refresh()

    @override
    def act(self, rows: Rows, column: int) -> np.ndarray:
        rollout, segments = self.rollout, self._segments(rows)
        observations = self._observations(rows, column)
        states = [state[rows] for state in self.states.values()]
        uniforms = torch.rand(len(observations), self._network.num_parts, generator=self._generator)
        columns = [target[segments, column] for target in (rollout.actions, rollout.logprobs, rollout.values)]
        self._network.act(observations, states, uniforms, *columns)
        if not isinstance(rows, slice):  # copies, not views
            for target, written in zip((rollout.actions, rollout.logprobs, rollout.values), columns, strict=True):
                target[segments, column] = written
            for target, written in zip(self.states.values(), states, strict=True):
                target[rows] = written
        return columns[0].numpy()

    @override
    def _value(self, rows: Rows) -> Tensor:
        states = [state[rows].clone() for state in self.states.values()]
        observations = self._observations(rows, self.rollout.horizon)
        values = torch.empty(len(observations))
        self._network.value(observations, states, values)
        return values
