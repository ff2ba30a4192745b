"""The gradients of a minibatch by one kernel, from the observations to the loss and back."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch import Tensor, nn
from typing_extensions import override

from pufferlib.config import ResolvedTrainConfig
from pufferlib.extensions import Network, clip_gradients
from pufferlib.extensions.network import NetworkBatch
from pufferlib.fast.shards import one_thread
from pufferlib.ppo.gradients import Gradients
from pufferlib.ppo.minibatches import Minibatch
from pufferlib.ppo.rollout import Rollout


class NetworkGradients(Gradients):
    """Differentiates `losses.ppo_loss` for a policy that is a Network, all of a minibatch in one call."""

    def __init__(self, network: Network, policy: nn.Module, rollout: Rollout, config: ResolvedTrainConfig):
        super().__init__(policy, rollout, config)
        self.network = network
        # Single steps are trained on with the values they had at first, so new ones are not needed.
        self._refreshes = config.shuffle == "segments"

    @override
    def differentiate(self, minibatch: Minibatch) -> Tensor:
        # All of it at once, as the kernel works in small blocks anyway.
        rollout, rows = self.rollout, minibatch.rows
        inputs = NetworkBatch(
            segments=rows,
            actions=rollout.actions.index_select(0, rows),
            resets=minibatch.resets,
            states=[state.index_select(0, rows) for state in rollout.states.values()],
            old_logprobs=rollout.logprobs.index_select(0, rows),
            old_values=minibatch.old_values,
            advantages=minibatch.advantages,
            returns=minibatch.returns,
            weights=minibatch.weights,
        )
        learned = self.network.learn(rollout.observations, inputs, **self.coefficients)
        for parameter, gradient in zip(self.network.parameters, learned.gradients, strict=True):
            parameter.grad = gradient
        if self._refreshes:
            rollout.ratios[rows, :-1] = learned.ratios
            rollout.values[rows, :-1] = learned.values
        return learned.metrics

    @override
    def clip(self, limit: float) -> None:
        gradients = [parameter.grad for parameter in self.parameters]
        own = self.network.gradient
        are_own = gradients[0].untyped_storage().data_ptr() == own.data_ptr()  # not averaged over processes since
        clip_gradients([own] if are_own else gradients, limit)

    @override
    def limit_caller(self) -> AbstractContextManager:
        return one_thread()
