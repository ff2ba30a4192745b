"""Distributions over actions: what a policy's logits mean."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Normal

from pufferlib.errors import DivergedError
from pufferlib.policy import Logits


def sample_logits(
    logits: Logits, action: Tensor | None = None, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Draws actions, or evaluates given ones.

    Args:
        logits: of one decision per leading index, see `Logits`.
        action: the actions to evaluate: `(...)` for Discrete, `(..., k)` for MultiDiscrete of k parts, for Box of k
            numbers, and for a Tuple of k of both in all. None draws them.
        generator: the random stream to draw from; None is torch's global one.

    Returns:
        The actions (int64; the Normal's dtype; float32 for a Tuple), their log-probability and the entropy of the
        distribution, both of shape `(...)`: sums over the parts and the numbers, which are independent.

    Raises:
        DivergedError: if a logit is NaN. On CUDA nobody waits for the answer: the log-probability is NaN.
    """
    if isinstance(logits, Normal):
        return _normal(logits, action, generator)
    if isinstance(logits, Tensor):
        return _categorical(logits, action, generator)
    if _is_mixed(logits):
        return _mixed(logits, action, generator)
    return _choices(logits, action, generator)


def greedy_action(logits: Logits) -> Tensor:
    """The most likely action, in the shape that `sample_logits` returns."""
    if isinstance(logits, Normal):
        return logits.mean
    if isinstance(logits, Tensor):
        return logits.argmax(-1)
    if _is_mixed(logits):
        parts = [part.mean if isinstance(part, Normal) else part.argmax(-1, keepdim=True) for part in logits]
        return torch.cat([part.float() for part in parts], -1)
    return torch.stack([part.argmax(-1) for part in logits], -1)


def _choices(
    parts: tuple[Tensor, ...], action: Tensor | None, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Of rows with one choice for every part; the random numbers of a row follow each other, as in network.cpp."""
    given: list[Tensor | None] = [None] * len(parts)
    uniforms: list[Tensor | None] = [None] * len(parts)
    if action is None:
        uniforms = list(_uniform(parts[0], len(parts), generator).split(1, -1))
    else:
        given = list(action.unbind(-1))
    results = [_choice(*of_part) for of_part in zip(parts, given, uniforms, strict=True)]
    actions, logprobs, entropies = zip(*results, strict=True)
    return torch.stack(actions, -1), sum(logprobs), sum(entropies)


def _categorical(
    logits: Tensor, action: Tensor | None, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    return _choice(logits, action, None if action is not None else _uniform(logits, 1, generator))


def _uniform(logits: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """So many numbers for every row of logits."""
    return torch.rand(*logits.shape[:-1], count, device=logits.device, generator=generator)


def _choice(logits: Tensor, action: Tensor | None, uniform: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluates an action, or draws one by a number of each row."""
    logprobs = logits.float().log_softmax(-1)
    probs = logprobs.exp()
    if action is None:
        _refuse_nan(logprobs)
        # Inverse transform: the number of cumulative probabilities that lie at or below one uniform number. Their last
        # is rounded, seldom 1: a number below that last one never leads past the last possible action.
        cumulative = probs.cumsum(-1)
        action = (cumulative <= uniform * cumulative[..., -1:]).sum(-1).clamp_(max=probs.shape[-1] - 1)
    chosen = logprobs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)
    # An impossible action has log-probability -inf and adds nothing to the entropy.
    entropy = -(probs * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(-1)
    return action, chosen, entropy


def _normal(distribution: Normal, action: Tensor | None, generator: torch.Generator | None):
    if action is None:
        noise = torch.randn(distribution.mean.shape, device=distribution.mean.device, generator=generator)
        action = distribution.mean + distribution.stddev * noise
        _refuse_nan(action)
    return action, distribution.log_prob(action).sum(-1), distribution.entropy().sum(-1)


def _is_mixed(logits: tuple[Tensor | Normal, ...]) -> bool:
    return any(isinstance(part, Normal) for part in logits)


def _mixed(
    logits: tuple[Tensor | Normal, ...], action: Tensor | None, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Of rows that have one number for every tensor and as many as a Normal has."""
    widths = [part.mean.shape[-1] if isinstance(part, Normal) else 1 for part in logits]
    given = [None] * len(widths) if action is None else action.split(widths, -1)
    columns, logprobs, entropies = [], [], []
    for part, chosen in zip(logits, given, strict=True):
        if isinstance(part, Normal):
            numbers, logprob, entropy = _normal(part, chosen, generator)
        else:
            index, logprob, entropy = _categorical(part, None if chosen is None else chosen.squeeze(-1), generator)
            numbers = index.unsqueeze(-1)
        columns.append(numbers.float())
        logprobs.append(logprob)
        entropies.append(entropy)
    return torch.cat(columns, -1) if action is None else action, sum(logprobs), sum(entropies)


def _refuse_nan(values: Tensor) -> None:
    if not values.is_cuda and values.isnan().any():
        raise DivergedError("the policy's logits contain NaN; lower the learning rate or check the observations")
