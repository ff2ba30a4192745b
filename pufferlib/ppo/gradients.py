"""From a minibatch to the gradients of the loss, by torch, for any policy."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.config import ResolvedTrainConfig
from pufferlib.errors import APIUsageError
from pufferlib.policy import training_forward
from pufferlib.ppo.losses import METRICS, PPOLoss, ppo_loss
from pufferlib.ppo.minibatches import Minibatch
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits

Loss = Callable[..., PPOLoss]
"""A function of the signature of `losses.ppo_loss`."""


class Gradients:
    """Differentiates the loss of a policy.

    Attributes:
        policy: whose parameters are differentiated.
        parameters: what is trained.
        all_parameters: what an optimizer keeps: of the policy, in its order, those that are frozen for now included.
        coefficients: the settings that the loss takes, by its keywords.
        device: of the policy.
        metric_names: of what `differentiate` returns.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        config: ResolvedTrainConfig,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
        loss: Loss = ppo_loss,
    ):
        """Takes what to differentiate.

        Args:
            policy: acts in the rollout.
            rollout: what is trained on, which may be the `single_steps` of what is collected.
            config: the settings, those that the loss names as its keywords among them.
            autocast: the precision that the policy computes in.
            loss: what is minimised.

        Raises:
            APIUsageError: if the loss takes a keyword that is no setting and has no default.
        """
        self.policy = policy
        self.rollout = rollout
        self.config = config
        self.all_parameters = list(policy.parameters())
        self.parameters = [parameter for parameter in self.all_parameters if parameter.requires_grad]
        self.metric_names: tuple[str, ...] = METRICS
        self._autocast = autocast
        self._loss, self.coefficients = loss, coefficients(loss, config)
        self._forward = training_forward(policy, self._called())
        self.device = rollout.values.device
        self._scratch = torch.empty(0)

    def _called(self) -> Callable:
        config = self.config
        if not config.compile:
            return self.policy
        return torch.compile(self.policy, mode=config.compile_mode, fullgraph=config.compile_fullgraph)

    @property
    def most_rows(self) -> int:
        """Rows that `differentiate` takes at once."""
        return self.config.max_minibatch_size // self.rollout.horizon

    def differentiate(self, minibatch: Minibatch, num_rows: int) -> Tensor:
        """Adds the gradients of the loss over a minibatch; writes its new ratios and values into the rollout.

        Args:
            minibatch: ready for the loss, or a part of it.
            num_rows: of the whole minibatch; gradients and metrics are this part's share of its means.

        Returns:
            The metrics, `(len(metric_names),)` float32.
        """
        loss = self.compute_loss(minibatch)
        share = len(minibatch) / num_rows
        (loss.total * share).backward()
        return self.stacked(loss) * share

    def compute_loss(self, minibatch: Minibatch) -> PPOLoss:
        """The loss of the policy as it is now over the rows of a minibatch."""
        rollout, rows = self.rollout, minibatch.rows
        observations, actions = self._gather_observations(rows), rollout.actions.index_select(0, rows)
        state = {}
        if hasattr(self.policy, "initial_state"):
            state = {name: value.index_select(0, rows) for name, value in rollout.states.items()}
            state["resets"] = minibatch.resets
        else:
            observations, actions = observations.flatten(0, 1), actions.flatten(0, 1)
        with self._autocast():
            logits, values = self._forward(observations, state)
        _, logprobs, entropy = sample_logits(logits, action=actions)

        shape = (len(rows), rollout.horizon)
        values = values.float().view(shape)
        loss = self._loss(
            logprobs.view(shape),
            values,
            entropy.view(shape),
            rollout.logprobs[rows],
            minibatch.old_values,
            minibatch.advantages,
            minibatch.returns,
            minibatch.weights,
            **self.coefficients,
        )
        if not isinstance(loss, PPOLoss):
            raise APIUsageError(f"a loss must return a PPOLoss(total, metrics, ratio), got {type(loss).__name__}")
        rollout.ratios[rows, :-1] = loss.ratio.detach()  # a loss of a user's own may not have
        rollout.values[rows, :-1] = values.detach()
        return loss

    def stacked(self, loss: PPOLoss) -> Tensor:
        """Its metrics in one tensor, in the order of `metric_names`."""
        self.metric_names = tuple(loss.metrics)
        return torch.stack([metric.detach().float() for metric in loss.metrics.values()])

    def _gather_observations(self, rows: Tensor) -> Tensor:
        """`(rows, horizon, *observation_shape)` on the policy's device, valid until the next call.

        Memory is reused: a fresh tensor of many megabytes costs a page fault for every 4 KB of it.
        """
        stored = self.rollout.observations
        if len(self._scratch) < len(rows):
            is_pinned = stored.device != self.device and stored.is_pinned()
            self._scratch = torch.empty(
                (len(rows), *stored.shape[1:]), dtype=stored.dtype, device=stored.device, pin_memory=is_pinned
            )
        gathered = self._scratch[: len(rows)]
        self.rollout.gather_observations(rows, out=gathered)
        return gathered.to(self.device)

    def clip(self, limit: float) -> None:
        """Scales the parameters' gradients so that the norm of all together is at most `limit`."""
        nn.utils.clip_grad_norm_(self.parameters, limit)

    def limit_caller(self) -> AbstractContextManager:
        """What the thread that steps the environments and the optimizer enters; see fast/."""
        return nullcontext()

    def close(self) -> None:
        """Lets go of everything; calling it twice is harmless."""


def coefficients(loss: Loss, config: ResolvedTrainConfig) -> dict[str, Any]:
    """The settings that a loss names as its keywords; of one with `**kwargs` those of `ppo_loss`.

    Raises:
        APIUsageError: if it takes a keyword that is no setting and has no default.
    """
    values = {name: getattr(config, name) for name in config.settings()}
    if not config.clip_vloss:
        values["vf_clip_coef"] = math.inf
    parameters = inspect.signature(loss).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return {**coefficients(ppo_loss, config)}
    keywords = [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for parameter in keywords:
        if parameter.name not in values and parameter.default is parameter.empty:
            raise APIUsageError(
                f"the keywords of a loss must be [train] settings or have defaults, got {parameter.name!r}; "
                "add it to config/schema.py, or bind it by functools.partial"
            )
    bound = getattr(loss, "keywords", {})  # of a functools.partial
    return {parameter.name: values[parameter.name] for parameter in keywords if parameter.name in values.keys() - bound}
