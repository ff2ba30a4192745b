"""From a minibatch to the gradients of the loss, by torch, for any policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.config import ResolvedTrainConfig, settings_taken
from pufferlib.errors import APIUsageError
from pufferlib.policy import training_forward
from pufferlib.ppo.losses import METRICS, PPOLoss, ppo_loss
from pufferlib.ppo.advantages import Minibatch
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits

Loss = Callable[..., PPOLoss]
"""A function of the signature of `losses.ppo_loss`."""


class Gradients:
    """Differentiates the loss of a policy.

    Attributes:
        policy: the loss is differentiated by its parameters.
        rollout: is trained on; it may be the `single_steps` of the one that is collected.
        config: the settings.
        parameters: those that are trained.
        all_parameters: those of the optimizer: all of the policy's in its order, frozen ones included.
        loss: is minimised.
        coefficients: the settings that the loss takes, by its keywords.
        metric_names: of the metrics that `differentiate` returns.

    Raises:
        APIUsageError: if the loss takes a keyword that is no setting and has no default.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        config: ResolvedTrainConfig,
        autocast: Callable[[], AbstractContextManager] = nullcontext,  # the precision that the policy computes in
        loss: Loss = ppo_loss,
    ):
        self.policy = policy
        self.rollout = rollout
        self.config = config
        self.all_parameters = list(policy.parameters())
        self.parameters = [parameter for parameter in self.all_parameters if parameter.requires_grad]
        self.loss, self.coefficients = loss, coefficients(loss, config)
        self.metric_names: tuple[str, ...] = METRICS
        called = policy
        if config.compile:
            called = torch.compile(policy, mode=config.compile_mode, fullgraph=config.compile_fullgraph)
        self._forward = training_forward(policy, called)
        self._autocast = autocast

    def differentiate(self, minibatch: Minibatch) -> Tensor:
        """Sets the gradients of the loss over a minibatch, and writes its new ratios and values into the rollout.

        Parts of at most `max_minibatch_size` steps go one after the other: their gradients, and the metrics that are
        returned, `(len(metric_names),)` float32, add up to the means over the whole.
        """
        self.clear()
        metrics = 0.0
        for part in minibatch.split(self.config.max_minibatch_size // self.rollout.horizon):
            loss = self.loss(*self.evaluate(part), **self.coefficients)
            share = len(part) / len(minibatch)
            metrics += self.keep(loss, part.rows) * share
            (loss.total * share).backward()
        return metrics

    def clear(self) -> None:
        """Drops all gradients: a parameter that was frozen since would still be stepped."""
        for parameter in self.all_parameters:
            parameter.grad = None

    def evaluate(self, minibatch: Minibatch) -> tuple[Tensor | None, ...]:
        """Computes the tensors that the loss takes, in its order; writes the new values into the rollout."""
        rollout, rows, shape = self.rollout, minibatch.rows, minibatch.returns.shape
        observations, actions = self.gather_observations(rows), rollout.actions.index_select(0, rows)
        state = {}
        if hasattr(self.policy, "initial_state"):
            state = {name: value.index_select(0, rows) for name, value in rollout.states.items()}
            state["resets"] = minibatch.resets
        else:
            observations, actions = observations.flatten(0, 1), actions.flatten(0, 1)
        with self._autocast():
            logits, values = self._forward(observations, state)
        _, logprobs, entropy = sample_logits(logits, action=actions)
        logprobs, values, entropy = logprobs.view(shape), values.float().view(shape), entropy.view(shape)
        rollout.values[rows, :-1] = values.detach()
        old = rollout.logprobs[rows], minibatch.old_values
        return logprobs, values, entropy, *old, minibatch.advantages, minibatch.returns, minibatch.weights

    def gather_observations(self, rows: Tensor) -> Tensor:
        """Returns `(rows, horizon, *observation_shape)` on the policy's device, valid until the next call."""
        return self.rollout.gather_observations(rows).to(self.rollout.values.device)

    def keep(self, loss: PPOLoss, rows: Tensor) -> Tensor:
        """Writes the ratios into rows of the rollout; returns the metrics in one tensor, named in `metric_names`."""
        if not isinstance(loss, PPOLoss):
            raise APIUsageError(f"a loss must return a PPOLoss(total, metrics, ratio), got {type(loss).__name__}")
        self.rollout.ratios[rows, :-1] = loss.ratio.detach()  # a loss of a user's own may not have
        self.metric_names = tuple(loss.metrics)
        return torch.stack([metric.detach().float() for metric in loss.metrics.values()])

    def clip(self, limit: float) -> None:
        """Scales the parameters' gradients so that the norm of all together is at most `limit`."""
        # LaTeX: \nabla \leftarrow \nabla \min(1, c / (\lVert \nabla \rVert_2 + 10^{-6})) ; c = limit
        nn.utils.clip_grad_norm_(self.parameters, limit)

    def limit_caller(self) -> AbstractContextManager:
        """A context for the thread that steps the environments and the optimizer; subclasses limit its cores."""
        return nullcontext()

    def close(self) -> None:
        """Ends threads; it may be called again."""


def coefficients(loss: Loss, config: ResolvedTrainConfig) -> dict[str, Any]:
    """The settings that a loss names as its keywords; of one with `**kwargs` those of `ppo_loss`."""
    settings = {name: getattr(config, name) for name in config.settings()}
    if not config.clip_vloss:
        settings["vf_clip_coef"] = math.inf
    return settings_taken(loss, settings, default=ppo_loss)
