"""Distributions over actions, which a policy's logits stand for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Normal

from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.policy import Logits


def sample_logits(
    logits: Logits,
    action: Tensor | None = None,
    generator: torch.Generator | None = None,
    masks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draws actions, or evaluates given ones.

    Args:
        logits: of one decision per leading index, see `Logits`.
        action: the actions to evaluate: `(...)` for Discrete, `(..., k)` for MultiDiscrete of k parts, for Box of k
            numbers, and for a Tuple of k of both in all. None draws them.
        generator: the random stream to draw from; None is torch's global one.
        masks: `(..., choices)` bool, a column for each choice of each discrete part, the parts in their order. False
            has probability 0: it is never drawn, and the entropy is that over the others. None allows everything.

    Returns:
        The actions (int64; the Normal's dtype; float32 for a Tuple), their log-probability and the entropy of the
        distribution, both of shape `(...)`: sums over the parts and the numbers, which are independent.

    Raises:
        DivergedError: if a logit is NaN. On CUDA, where the check would wait for the GPU, the log-probability is NaN.
    """
    logits = mask_logits(logits, masks)
    parts = (logits,) if isinstance(logits, Tensor | Normal) else logits
    if action is None:
        columns = _draw_noise(parts, generator)
    else:
        columns = _split(action.unsqueeze(-1) if isinstance(logits, Tensor) else action, parts)
    chosen, logprobs, entropies = [], [], []
    for part, column in zip(parts, columns, strict=True):
        if isinstance(part, Normal):
            column, logprob, entropy = _numbers(part, column, is_drawn=action is None)
        else:
            column, logprob, entropy = _choice(part, column, is_drawn=action is None, is_masked=masks is not None)
        chosen.append(column)
        logprobs.append(logprob)
        entropies.append(entropy)
    chosen = _joined(logits, chosen) if action is None else action
    return chosen, sum(logprobs[1:], logprobs[0]), sum(entropies[1:], entropies[0])


def greedy_action(logits: Logits, masks: Tensor | None = None) -> Tensor:
    """The most likely action of those that the masks allow, in the shape that `sample_logits` returns."""
    logits = mask_logits(logits, masks)
    parts = (logits,) if isinstance(logits, Tensor | Normal) else logits
    return _joined(logits, [p.mean if isinstance(p, Normal) else p.argmax(-1, keepdim=True) for p in parts])


def mask_logits(logits: Logits, masks: Tensor | None) -> Logits:
    """The logits with -inf for the choices that `masks` of `sample_logits` do not allow; None leaves them as they are.

    Raises APIUsageError if the masks have not a column for each choice.
    """
    if masks is None:
        return logits
    parts = logits if isinstance(logits, tuple) else (logits,)
    sizes = [part.shape[-1] for part in parts if isinstance(part, Tensor)]
    if not torch.jit.is_tracing() and masks.shape[-1] != sum(sizes):
        raise APIUsageError(f"masks must have a column for each of {sum(sizes)} choices, got {tuple(masks.shape)}")
    of_each = iter(masks.split(sizes, -1))
    masked = [p if isinstance(p, Normal) else p.float().masked_fill(~next(of_each), -torch.inf) for p in parts]
    return tuple(masked) if isinstance(logits, tuple) else masked[0]


def _draw_noise(parts: Sequence[Tensor | Normal], generator: torch.Generator | None) -> Sequence[Tensor]:
    # One uniform number for each choice (..., 1), standard normal ones (..., k) for numbers. Where all parts are
    # choices the numbers of a row follow each other, as in network.cpp.
    if not any(isinstance(part, Normal) for part in parts):
        *rows, _ = parts[0].shape
        return _split(torch.rand(*rows, len(parts), device=parts[0].device, generator=generator), parts)
    noise = []
    for part in parts:
        if isinstance(part, Normal):
            noise.append(torch.randn(part.mean.shape, device=part.mean.device, generator=generator))
        else:
            noise.append(torch.rand(*part.shape[:-1], 1, device=part.device, generator=generator))
    return noise


def _choice(logits: Tensor, column: Tensor, is_drawn: bool, is_masked: bool) -> tuple[Tensor, Tensor, Tensor]:
    # Index (..., 1), log-probability and entropy; the column is the index, or the uniform number that draws it.
    logprobs = logits.float().log_softmax(-1)
    probs = logprobs.exp()
    if is_drawn:
        _refuse_nan(logprobs)
        # Inverse transform: the number of cumulative probabilities that lie at or below one uniform number. Their last
        # is rounded, seldom 1: a number below that last one never leads past the last possible action.
        cumulative = probs.cumsum(-1)
        is_before = cumulative <= column * cumulative[..., -1:]
        column = is_before.sum(-1, keepdim=True).clamp_(max=probs.shape[-1] - 1)
        if is_masked:  # the sums of a GPU may fall by a rounding, and then a choice of probability 0 could follow
            is_beyond = ~is_before & (probs > 0)
            possible = torch.where(is_beyond.any(-1, keepdim=True), is_beyond.float(), probs).argmax(-1, keepdim=True)
            column = torch.where(probs.gather(-1, column) > 0, column, possible)
    # An impossible action has log-probability -inf and adds nothing to the entropy.
    # LaTeX: H = -\sum_i \pi_i \log \pi_i ; H = entropy
    entropy = -(probs * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(-1)
    return column, logprobs.gather(-1, column.long()).squeeze(-1), entropy


def _numbers(distribution: Normal, column: Tensor, is_drawn: bool) -> tuple[Tensor, Tensor, Tensor]:
    # Numbers (..., k), log-probability and entropy; the column is the numbers, or the noise that draws them.
    if is_drawn:
        column = distribution.mean + distribution.stddev * column
        _refuse_nan(column)
    return column, distribution.log_prob(column).sum(-1), distribution.entropy().sum(-1)


def _joined(logits: Logits, columns: list[Tensor]) -> Tensor:
    # One action of its parts: without a dimension for them where one choice is all, in float32 for a Tuple.
    if isinstance(logits, Tensor | Normal):
        return columns[0].squeeze(-1) if isinstance(logits, Tensor) else columns[0]
    is_mixed = any(isinstance(part, Normal) for part in logits)
    return torch.cat([column.float() for column in columns] if is_mixed else columns, -1)


def _split(columns: Tensor, parts: Sequence[Tensor | Normal]) -> Sequence[Tensor]:
    widths = [part.mean.shape[-1] if isinstance(part, Normal) else 1 for part in parts]
    return [columns] if len(parts) == 1 else columns.split(widths, -1)


def _refuse_nan(values: Tensor) -> None:
    if not values.is_cuda and values.isnan().any():
        raise DivergedError("the policy's logits contain NaN; lower the learning rate or check the observations")
