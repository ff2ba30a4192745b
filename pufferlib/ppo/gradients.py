"""The gradients of one minibatch: by torch for any policy, by one kernel for small ones."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.config import ResolvedTrainConfig
from pufferlib.extensions import Minibatch, Network, clip_gradients
from pufferlib.fast.shards import Shards, one_thread
from pufferlib.policy import training_forward
from pufferlib.ppo import losses
from pufferlib.ppo.minibatches import Drawn
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits

_LEAST_SHARE = 128  # rows of a minibatch that are worth a thread of their own


class TorchGradients:
    """Differentiates any policy; on a CPU, threads share the segments.

    Attributes:
        policy: whose parameters are differentiated.
        parameters: what is trained.
        all_parameters: what an optimizer keeps: of the policy, in its order, those that are frozen for now included.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        config: ResolvedTrainConfig,
        device: torch.device,
        autocast: Callable[[], AbstractContextManager],
    ):
        """Compiles the policy where the settings say so; `autocast` is the precision that it computes in."""
        self.policy = policy
        self.rollout = rollout
        self.config = config
        self.all_parameters = list(policy.parameters())
        self.parameters = [parameter for parameter in self.all_parameters if parameter.requires_grad]
        self._device = device
        self._autocast = autocast
        self._is_recurrent = hasattr(policy, "initial_state")
        called = policy
        if config.compile:
            called = torch.compile(policy, mode=config.compile_mode, fullgraph=config.compile_fullgraph)
        self._forward = training_forward(policy, called)
        self._is_sharded = device.type == "cpu" and not config.compile
        most = max(1, config.minibatch_steps // _LEAST_SHARE)
        self._shards = Shards(min(torch.get_num_threads(), most) if self._is_sharded else 1)
        self._scratch = threading.local()  # of each shard's thread: the observations of its share of a minibatch

    def differentiate(self, drawn: Drawn) -> Tensor:
        """Sets the parameters' gradients to those of a minibatch; writes its new ratios and values into the rollout.

        Returns:
            The metrics of the minibatch, in the order of losses.METRICS.
        """
        for parameter in self.all_parameters:  # a frozen one may have one from before, and would be stepped by it
            parameter.grad = None
        count, size = len(drawn.rows), self.config.max_minibatch_size // self.rollout.horizon
        return sum(self._accumulate(drawn, range(begin, min(begin + size, count))) for begin in range(0, count, size))

    def clip(self, limit: float) -> None:
        """Scales the parameters' gradients so that the norm of all together is at most `limit`."""
        nn.utils.clip_grad_norm_(self.parameters, limit)

    def limit_caller(self) -> AbstractContextManager:
        """Keeps torch operations of the calling thread off the cores of the threads here."""
        return one_thread() if self._is_sharded else nullcontext()

    def close(self) -> None:
        """Ends the threads; calling it twice is harmless."""
        self._shards.close()

    def _accumulate(self, drawn: Drawn, part: range) -> Tensor:
        """Adds the gradients of some of the segments; returns their share of the metrics."""

        def differentiate(share: slice) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            chosen = slice(part.start + share.start, part.start + share.stop)
            loss = self._loss(drawn, chosen)
            fraction = (share.stop - share.start) / len(drawn.rows)
            gradients = torch.autograd.grad(loss.total * fraction, self.parameters, allow_unused=True)
            return loss.metrics * fraction, gradients

        metrics, gradients = zip(*self._shards.run(differentiate, len(part)), strict=True)
        for parameter, *shares in zip(self.parameters, *gradients, strict=True):
            for gradient in shares:  # in the order of the shards, so that the sum is always the same
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        return sum(metrics)

    def _loss(self, drawn: Drawn, chosen: slice) -> losses.PPOLoss:
        rollout, rows = self.rollout, drawn.rows[chosen]
        shape = (len(rows), rollout.horizon)
        logits, values, actions = self._forward_segments(rows, drawn.resets)
        _, logprobs, entropy = sample_logits(logits, action=actions)
        values = values.float().view(shape)
        loss = losses.ppo_loss(
            logprobs.view(shape),
            values,
            entropy.view(shape),
            rollout.logprobs[rows],
            drawn.old_values[chosen],
            drawn.normalized[chosen],
            drawn.returns[chosen],
            None if drawn.weights is None else drawn.weights[chosen],
            **coefficients(self.config),
        )
        rollout.ratios[rows, :-1] = loss.ratio
        rollout.values[rows, :-1] = values.detach()
        return loss

    def _forward_segments(self, rows: Tensor, resets: Tensor) -> tuple[Any, Tensor, Tensor]:
        """Logits, values and the actions taken, with leading dimensions that fit each other."""
        rollout = self.rollout
        observations = self._gather_observations(rows)
        actions = rollout.actions.index_select(0, rows)
        if not self._is_recurrent:
            observations, actions = observations.flatten(0, 1), actions.flatten(0, 1)
            with self._autocast():
                return *self._forward(observations, {}), actions
        state = {name: value.index_select(0, rows) for name, value in rollout.states.items()}
        state["resets"] = resets.index_select(0, rows)
        with self._autocast():
            return *self._forward(observations, state), actions

    def _gather_observations(self, rows: Tensor) -> Tensor:
        """`(rows, horizon, *observation_shape)` on the policy's device, valid until the thread's next call.

        Memory is reused: a fresh tensor of many megabytes costs a page fault for every 4 KB of it.
        """
        stored = self.rollout.observations
        scratch = getattr(self._scratch, "observations", None)
        if scratch is None or len(scratch) < len(rows):
            shape, is_pinned = (len(rows), *stored.shape[1:]), stored.device != self._device and stored.is_pinned()
            scratch = torch.empty(shape, dtype=stored.dtype, device=stored.device, pin_memory=is_pinned)
            self._scratch.observations = scratch
        gathered = scratch[: len(rows)]
        self.rollout.gather_observations(rows, out=gathered)
        return gathered.to(self._device)


class NetworkGradients:
    """Differentiates a policy that is a Network, all of a minibatch in one call; the interface is TorchGradients'."""

    def __init__(self, network: Network, policy: nn.Module, rollout: Rollout, config: ResolvedTrainConfig):
        """`network` computes `policy`, which acts in the rollout."""
        self.network = network
        self.policy = policy
        self.rollout = rollout
        self.config = config
        self.parameters = self.all_parameters = list(policy.parameters())  # the network's, in another order
        # Single steps are trained on with the values they had at first: nobody asks for those of this minibatch.
        self._refreshes = config.shuffle == "segments"

    def differentiate(self, drawn: Drawn) -> Tensor:
        """As TorchGradients', but that ratios and values of single steps, which nobody reads, stay as they are."""
        rollout, rows = self.rollout, drawn.rows
        minibatch = Minibatch(
            segments=rows,
            actions=rollout.actions.index_select(0, rows),
            resets=drawn.resets.index_select(0, rows),
            states=[state.index_select(0, rows) for state in rollout.states.values()],
            old_logprobs=rollout.logprobs.index_select(0, rows),
            old_values=drawn.old_values,
            advantages=drawn.normalized,
            returns=drawn.returns,
            weights=drawn.weights,
        )
        learned = self.network.learn(rollout.observations, minibatch, **coefficients(self.config))
        for parameter, gradient in zip(self.network.parameters, learned.gradients, strict=True):
            parameter.grad = gradient
        if self._refreshes:
            rollout.ratios[rows, :-1] = learned.ratios
            rollout.values[rows, :-1] = learned.values
        return learned.metrics

    def clip(self, limit: float) -> None:
        """As TorchGradients'."""
        gradients = [parameter.grad for parameter in self.parameters]
        own = self.network.gradient
        are_own = gradients[0].untyped_storage().data_ptr() == own.data_ptr()  # not averaged over processes since
        clip_gradients([own] if are_own else gradients, limit)

    def limit_caller(self) -> AbstractContextManager:
        """As TorchGradients'."""
        return one_thread()

    def close(self) -> None:
        """Nothing: the threads end with the network."""


def coefficients(config: ResolvedTrainConfig) -> dict[str, float]:
    """The settings that the loss takes."""
    return {
        "clip_coef": config.clip_coef,
        "vf_clip_coef": config.vf_clip_coef if config.clip_vloss else math.inf,
        "vf_coef": config.vf_coef,
        "ent_coef": config.ent_coef,
    }
