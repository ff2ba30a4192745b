"""What chooses actions in a rollout: a policy run by torch, or a small one run by a kernel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from pufferlib.extensions import Network
from pufferlib.models import State
from pufferlib.sampling import sample_logits


class TorchActor:
    """Acts with any policy.

    Args:
        policy: what pufferlib.models describes.
        autocast: enters the precision that the policy computes in.
        generator: the random stream of the actions.
    """

    def __init__(
        self, policy: nn.Module, autocast: Callable[[], AbstractContextManager], generator: torch.Generator | None
    ):
        self._forward = getattr(policy, "forward_eval", policy)
        self._autocast = autocast
        self._generator = generator

    def refresh(self) -> None:
        """Takes over the policy's parameters as they are now; needed before the first step and when they change."""

    def act(self, observations: Tensor, state: State, actions: Tensor, logprobs: Tensor, values: Tensor) -> None:
        """Chooses an action for every row.

        Args:
            observations: `(rows, *observation_shape)` on the policy's device.
            state: of every row; its entries are overwritten or replaced.
            actions: `(rows, *action_shape)`, to be written, as are the next two.
            logprobs: `(rows,)` float32, of the actions.
            values: `(rows,)` float32, of the observations.

        Raises:
            ValueError: if the policy gives NaN.
        """
        with self._autocast():
            logits, value = self._forward(observations, state)
        action, logprob, _ = sample_logits(logits, generator=self._generator)
        actions.copy_(action)
        logprobs.copy_(logprob)
        values.copy_(value.view(-1))

    def value(self, observations: Tensor, state: State, values: Tensor) -> None:
        """As `act`, without a decision."""
        with self._autocast():
            _, value = self._forward(observations, state)
        values.copy_(value.view(-1))


class NetworkActor:
    """Acts with a policy that is a Network; the interface is TorchActor's."""

    def __init__(self, network: Network, state_names: list[str], generator: torch.Generator | None):
        """`state_names` are those of the layers' states, in the order of the layers."""
        self._network = network
        self._state_names = state_names
        self._generator = generator

    def refresh(self) -> None:
        """As TorchActor's."""
        self._network.refresh()

    def act(self, observations: Tensor, state: State, actions: Tensor, logprobs: Tensor, values: Tensor) -> None:
        """As TorchActor's; overwrites the tensors of `state`."""
        uniforms = torch.rand(len(observations), self._network.num_parts, generator=self._generator)
        self._network.act(observations, self._states(state), uniforms, actions, logprobs, values)

    def value(self, observations: Tensor, state: State, values: Tensor) -> None:
        """As TorchActor's; overwrites the tensors of `state`."""
        self._network.value(observations, self._states(state), values)

    def _states(self, state: State) -> list[Tensor]:
        return [state[name] for name in self._state_names]
