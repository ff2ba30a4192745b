"""The loss of PPO, as functions of tensors.

Where a policy is small and runs on a CPU, extensions/ppo_row.h computes the same loss with its gradient in one kernel.
Edit this file freely: the trainer notices, and trains by it through torch until the kernel follows (fast/choose.py).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

METRICS = ("policy_loss", "value_loss", "entropy", "old_approx_kl", "approx_kl", "clipfrac", "importance")
"""The metrics of `ppo_loss`, in the order of the kernel's."""


class PPOLoss(NamedTuple):
    """The loss of one minibatch."""

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
    # LaTeX: \ell = \log \pi - \log \pi_{\text{old}} ; \ell = logratio, \log \pi = logprobs
    logratio = logprobs - old_logprobs
    # LaTeX: \rho = e^{\ell} = \pi / \pi_{\text{old}} ; \rho = ratio
    ratio = logratio.exp()
    # LaTeX: \hat\rho = \max(1 - \epsilon, \min(1 + \epsilon, \rho)) ; \epsilon = clip_coef
    clipped_ratio = ratio.clamp(1.0 - clip_coef, 1.0 + clip_coef)
    # LaTeX: L_\pi = \operatorname{mean} \max(-A \rho,\ -A \hat\rho) ; L_\pi = policy_loss, A = advantages
    policy_loss = mean(torch.max(-advantages * ratio, -advantages * clipped_ratio), weights)

    # LaTeX: \hat V = V_0 + \max(-\epsilon', \min(\epsilon', V - V_0)) ; V_0 = old_values, \epsilon' = vf_clip_coef
    clipped_values = old_values + (values - old_values).clamp(-vf_clip_coef, vf_clip_coef)
    # LaTeX: L_V = \tfrac12 \operatorname{mean} \max((V - R)^2, (\hat V - R)^2) ; L_V = value_loss, R = returns
    value_loss = 0.5 * mean(torch.max((values - returns).square(), (clipped_values - returns).square()), weights)

    mean_entropy = mean(entropy, weights)
    # LaTeX: L = L_\pi + c_V L_V - c_H \operatorname{mean} H ; L = total, c_V = vf_coef, c_H = ent_coef, H = entropy
    total = policy_loss + vf_coef * value_loss - ent_coef * mean_entropy

    with torch.no_grad():
        # Two estimates of KL(old, new) from actions of the old: Schulman 2020, http://joschu.net/blog/kl-approx.html
        # LaTeX: k_1 = \operatorname{mean}(-\ell) ; k_1 = old_approx_kl
        old_approx_kl = mean(-logratio, weights)
        # LaTeX: k_3 = \operatorname{mean}(\rho - 1 - \ell) ; k_3 = approx_kl
        approx_kl = mean(ratio - 1.0 - logratio, weights)
        clipfrac = mean(((ratio - 1.0).abs() > clip_coef).float(), weights)
        metrics = policy_loss, value_loss, mean_entropy, old_approx_kl, approx_kl, clipfrac, mean(ratio, weights)
    named = {name: metric.detach() for name, metric in zip(METRICS, metrics, strict=True)}
    return PPOLoss(total, named, ratio.detach())


def explained_variance(unexplained: Tensor, spread: Tensor) -> Tensor:
    """1 - Var(returns - values) / Var(returns): 1 is a perfect value function, 0 no better than a constant."""
    # LaTeX: 1 - \frac{\operatorname{Var}[R - V]}{\operatorname{Var}[R]}
    # LaTeX:   ; \operatorname{Var}[R - V] = unexplained, \operatorname{Var}[R] = spread
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
    # LaTeX: \frac{x - \mu}{\sigma + 10^{-8}} ; \mu = center, \sigma^2 = spread
    return (x - center) / (spread.sqrt() + 1e-8)


def variance(x: Tensor, weights: Tensor | None) -> Tensor:
    """The mean squared distance from the mean; 0 for a single element."""
    return mean((x - mean(x, weights)).square(), weights)


def mean(x: Tensor, weights: Tensor | None) -> Tensor:
    """The weighted mean; `weights` are those of `ppo_loss`."""
    return x.mean() if weights is None else (x * weights).mean()
