"""The loss of PPO, as functions of tensors.

Where a policy is small and runs on a CPU, extensions/ppo_row.h computes the same loss with its gradient in one kernel.
Edit this file freely: the trainer notices, and trains by it through torch until the kernel follows (fast/choose.py).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

METRICS = ("policy_loss", "value_loss", "entropy", "old_approx_kl", "approx_kl", "clipfrac", "importance")
"""What `ppo_loss` tells of a minibatch, in the order in which kernels do."""


class PPOLoss(NamedTuple):
    """What one minibatch gives."""

    total: Tensor  # scalar, to be minimised
    metrics: dict[str, Tensor]  # scalars by name, logged as losses/<name>; detached, as is the ratio
    ratio: Tensor  # (rows, horizon), probability of the actions now over probability then


def ppo_loss(
    logprobs: Tensor,
    values: Tensor,
    entropy: Tensor,
    old_logprobs: Tensor,
    old_values: Tensor,
    advantages: Tensor,
    returns: Tensor,
    weights: Tensor | None,
    *,
    clip_coef: float,
    vf_clip_coef: float,
    vf_coef: float,
    ent_coef: float,
) -> PPOLoss:
    """The clipped policy and value losses of PPO (Schulman et al. 2017) minus the entropy bonus.

    A keyword is the `[train]` setting of its name; a new one needs its line in config/schema.py and no other.

    Args:
        logprobs: `(rows, horizon)` of the actions under the policy as it is now; all tensors are of this shape.
        values: under the policy as it is now.
        entropy: of its distributions.
        old_logprobs: when the actions were taken.
        old_values: what values are clipped around.
        advantages: normalised and weighted, ready for the loss.
        returns: what values should be.
        weights: with mean 1, 0 for steps that must not count; None counts all alike.
        clip_coef: how far the ratio may leave 1.
        vf_clip_coef: how far a value may leave the old one.
        vf_coef: weight of the value loss.
        ent_coef: weight of the entropy bonus.
    """
    logratio = logprobs - old_logprobs
    ratio = logratio.exp()
    clipped_ratio = ratio.clamp(1.0 - clip_coef, 1.0 + clip_coef)
    policy_loss = mean(torch.max(-advantages * ratio, -advantages * clipped_ratio), weights)

    clipped_values = old_values + (values - old_values).clamp(-vf_clip_coef, vf_clip_coef)
    value_loss = 0.5 * mean(torch.max((values - returns).square(), (clipped_values - returns).square()), weights)

    mean_entropy = mean(entropy, weights)
    total = policy_loss + vf_coef * value_loss - ent_coef * mean_entropy

    with torch.no_grad():
        # The two estimates of the KL divergence: joschu.net/blog/kl-approx.html
        old_approx_kl = mean(-logratio, weights)
        approx_kl = mean(ratio - 1.0 - logratio, weights)
        clipfrac = mean(((ratio - 1.0).abs() > clip_coef).float(), weights)
        metrics = policy_loss, value_loss, mean_entropy, old_approx_kl, approx_kl, clipfrac, mean(ratio, weights)
    named = {name: metric.detach() for name, metric in zip(METRICS, metrics, strict=True)}
    return PPOLoss(total, named, ratio.detach())


def explained_variance(unexplained: Tensor, spread: Tensor) -> Tensor:
    """1 - Var(returns - values) / Var(returns): 1 is a perfect value function, 0 no better than a constant."""
    return 1.0 - unexplained / spread.clamp(min=1e-8)


def normalize(advantages: Tensor, weights: Tensor | None) -> Tensor:
    """Advantages with mean 0 and standard deviation 1; `weights` are those of `ppo_loss`."""
    if weights is None:
        spread, center = torch.var_mean(advantages, correction=0)
    else:
        spread, center = variance(advantages, weights), mean(advantages, weights)
    return standardize(advantages, center, spread)


def standardize(x: Tensor, center: Tensor, spread: Tensor) -> Tensor:
    """Less the mean, over the square root of the variance."""
    return (x - center) / (spread.sqrt() + 1e-8)


def variance(x: Tensor, weights: Tensor | None) -> Tensor:
    """The mean squared distance from the mean; 0 for a single element."""
    return mean((x - mean(x, weights)).square(), weights)


def mean(x: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of what counts."""
    return x.mean() if weights is None else (x * weights).mean()
