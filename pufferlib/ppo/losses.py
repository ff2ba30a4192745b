"""The learning target and the loss of PPO as functions of tensors."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

METRICS = ("policy_loss", "value_loss", "entropy", "old_approx_kl", "approx_kl", "clipfrac", "importance")


_NEWTON_STEPS = 8
"""Enough for 0.5% where probabilities spread evenly over twelve orders of magnitude, for rounding in usual cases."""


class PPOLoss(NamedTuple):
    """What one minibatch gives."""

    total: Tensor  # scalar, to be minimised
    metrics: Tensor  # (len(METRICS),), detached
    ratio: Tensor  # (rows, horizon), detached


def bootstrap_truncations(rewards: Tensor, values: Tensor, cuts: Tensor, gamma: float, out: Tensor) -> Tensor:
    """Adds gamma * V to the reward of every step that a limit cut, V of the observation acted on.

    The value of the true final observation is what Pardo et al. 2018 ("Time Limits in Reinforcement Learning") ask for;
    an environment that resets in the same step does not return it, and the observation one step earlier is the nearest.

    Args:
        rewards: `(segments, columns)`; column t belongs to the action of column t - 1.
        values: `(segments, columns)`.
        cuts: `(segments, columns)`, 1 where a limit cut the episode and the task itself did not end, else 0.
        gamma: discount.
        out: `(segments, columns)`, overwritten except for column 0, which belongs to no action of these segments.

    Returns:
        `out`.
    """
    torch.addcmul(rewards[:, 1:], cuts[:, 1:], values[:, :-1], value=gamma, out=out[:, 1:])
    return out


def segment_probabilities(advantages: Tensor, alpha: float) -> Tensor:
    """How likely each segment is to be trained on: w = (sum |A|)^alpha, p = (w + 1e-6) / (sum w + 1e-6), sum 1.

    The priorities of Schaul et al. 2015 ("Prioritized Experience Replay") with whole segments as items.

    Args:
        advantages: `(segments, horizon)`.
        alpha: 0 makes all segments equally likely.

    Returns:
        `(segments,)`, positive, sums to 1.
    """
    weights = advantages.abs().sum(1).pow(alpha).nan_to_num(0.0, 0.0, 0.0)
    probabilities = (weights + 1e-6) / (weights.sum() + 1e-6)
    return probabilities / probabilities.sum()


def draw_segments(probabilities: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws distinct segments: one after another by their probabilities among those that are left.

    A race of exponential clocks at those rates, the first to ring win (Efraimidis and Spirakis 2006, "Weighted random
    sampling with a reservoir"); torch.multinomial gives the same distribution and waits for a GPU to check its input.

    Args:
        probabilities: `(segments,)`, positive.
        count: at most the number of segments.
        generator: the random stream.

    Returns:
        `(count,)` int64 in no particular order.
    """
    times = torch.empty_like(probabilities).exponential_(generator=generator) / probabilities
    return times.topk(count, largest=False, sorted=False).indices


def inclusion_probabilities(probabilities: Tensor, count: int) -> Tensor:
    """How likely `draw_segments` is to draw each segment: q = 1 - exp(-p t), with the t at which sum q = count.

    In the race of exponential clocks at rates p (Efraimidis and Spirakis 2006) a clock has rung by time t with that
    very probability, and t is when `count` of them are expected to have. That the race ends when one of them rings, not
    at a fixed time, is of no account but among a handful of segments.

    Nothing here waits for a GPU, and all of it can be captured.

    Args:
        probabilities: `(segments,)`, positive, sums to 1.
        count: how many are drawn, at most the number of segments.

    Returns:
        `(segments,)` in (0, 1], 1 where all are drawn.
    """
    segments = len(probabilities)
    left = segments - count
    if left == 0:
        return torch.ones_like(probabilities)
    # Newton for the logarithm of sum exp(-p t) / left, 0 at the t looked for. It is convex, so that steps from the left
    # never pass it, and a straight line for equal p, which is where they begin: the t found is never too large.
    rates = -probabilities.to(torch.float32 if probabilities.device.type == "mps" else torch.float64)
    time = torch.full((), segments * math.log(segments / left), dtype=rates.dtype, device=rates.device)
    offset = torch.full_like(time, -math.log(left))
    for _ in range(_NEWTON_STEPS):
        late = torch.addcmul(offset, rates, time).exp_()
        ratio = late.sum()
        time = torch.addcdiv(time, torch.xlogy(ratio, ratio), (rates * late).sum(), value=-1.0)
        if time.is_cpu and ratio < 1.0001:  # a step gives twice as many digits; a GPU would have to be waited for
            break
    return torch.expm1(rates * time).neg().to(probabilities.dtype)


def importance_weights(inclusion: Tensor, rows: Tensor, beta: Tensor | float) -> Tensor:
    """What makes up for drawing some segments more often than others: (q S / m)^-beta, q how likely each is drawn.

    With beta 1 the mean over the m segments drawn is, on average, that over all S; with 0 all of them weigh 1.

    Schaul et al. 2015 write (S p)^-beta, and so did PufferLib 3.0, p the probability of one draw. That is q S / m for
    draws with replacement. `draw_segments` draws without, where a likely segment is drawn once at most. Of a mean that
    goes with the priorities (alpha 0.8, truth 1), p gave 0.83 to 0.91 where all segments are drawn, whose weights
    must all be 1 as they are here; this gives 0.99 to 1.00 for any share of them, with beta 1.

    Args:
        inclusion: `(segments,)`, as `inclusion_probabilities` returns them.
        rows: `(count,)` int64, which were drawn.
        beta: 0 to 1, how much of it is made up for.

    Returns:
        `(count,)`.
    """
    return (inclusion[rows] * (len(inclusion) / len(rows))).pow(-beta)


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

    Args:
        logprobs: `(rows, horizon)` of the actions under the policy as it is now; so are values and entropy.
        values: of the observations.
        entropy: of the distributions.
        old_logprobs: when the actions were taken.
        old_values: what values are clipped around.
        advantages: normalised and weighted, ready for the loss.
        returns: what values should be.
        weights: `(rows, horizon)` with mean 1, 0 for steps that must not count; None counts all alike.
        clip_coef: how far the ratio may leave 1.
        vf_clip_coef: how far a value may leave the old one.
        vf_coef: weight of the value loss.
        ent_coef: weight of the entropy bonus.

    Returns:
        The scalar loss, the metrics in the order of METRICS, and the ratio.
    """
    mean = functools.partial(_mean, weights=weights)
    logratio = logprobs - old_logprobs
    ratio = logratio.exp()
    clipped_ratio = ratio.clamp(1.0 - clip_coef, 1.0 + clip_coef)
    policy_loss = mean(torch.max(-advantages * ratio, -advantages * clipped_ratio))

    clipped_values = old_values + (values - old_values).clamp(-vf_clip_coef, vf_clip_coef)
    value_loss = 0.5 * mean(torch.max((values - returns).square(), (clipped_values - returns).square()))

    mean_entropy = mean(entropy)
    total = policy_loss + vf_coef * value_loss - ent_coef * mean_entropy

    with torch.no_grad():
        # The two estimates of the KL divergence: joschu.net/blog/kl-approx.html
        old_approx_kl = mean(-logratio)
        approx_kl = mean(ratio - 1.0 - logratio)
        clipfrac = mean(((ratio - 1.0).abs() > clip_coef).float())
        metrics = (policy_loss, value_loss, mean_entropy, old_approx_kl, approx_kl, clipfrac, mean(ratio))
        return PPOLoss(total, torch.stack([metric.detach().float() for metric in metrics]), ratio.detach())


def explained_variance(unexplained: Tensor, spread: Tensor) -> Tensor:
    """1 - Var(returns - values) / Var(returns): 1 is a perfect value function, 0 no better than a constant.

    Args:
        unexplained: the variance of returns - values.
        spread: the variance of returns.

    Returns:
        A scalar.
    """
    return 1.0 - unexplained / spread.clamp(min=1e-8)


def normalize(advantages: Tensor, weights: Tensor | None) -> Tensor:
    """Advantages with mean 0 and standard deviation 1.

    Args:
        advantages: any shape.
        weights: of that shape with mean 1, 0 for steps that must not count; None counts all alike.
    """
    if weights is None:
        spread, mean = torch.var_mean(advantages, correction=0)
    else:
        spread, mean = variance(advantages, weights), _mean(advantages, weights)
    return standardize(advantages, mean, spread)


def standardize(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """Less the mean, over the standard deviation."""
    return (x - mean) / (spread.sqrt() + 1e-8)


def moments(x: Tensor, weights: Tensor | None) -> Tensor:
    """`(3,)` count, mean and variance of what counts; arguments as in `normalize`. All 0 where nothing does."""
    count = torch.full((), x.numel(), device=x.device) if weights is None else weights.count_nonzero()
    return torch.stack([count.float(), _mean(x, weights), variance(x, weights)])


def pooled(parts: Tensor) -> Tensor:
    """`(3,)`, the `moments` of several sets of numbers taken together, from `(sets, 3)`, those of each."""
    counts, means, variances = parts.unbind(1)
    count = counts.sum()
    shares = counts / count.clamp(min=1.0)
    mean = (shares * means).sum()
    return torch.stack([count, mean, (shares * (variances + (means - mean).square())).sum()])


def variance(x: Tensor, weights: Tensor | None) -> Tensor:
    """The mean squared distance from the mean; 0 for a single element."""
    return _mean((x - _mean(x, weights)).square(), weights)


def _mean(x: Tensor, weights: Tensor | None) -> Tensor:
    return x.mean() if weights is None else (x * weights).mean()
