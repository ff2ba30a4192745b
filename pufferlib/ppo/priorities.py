"""Draws segments for a minibatch, those of large advantages more often."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_NEWTON_STEPS = 8  # enough for 0.5% where probabilities spread evenly over twelve orders of magnitude


def segment_probabilities(advantages: Tensor, alpha: float) -> Tensor:
    """The priority of each segment by the size of its advantages.

    The priorities of Schaul et al. 2015 ("Prioritized Experience Replay") with whole segments as items; alpha 0 makes
    all of them equally likely. `(segments, horizon)` -> `(segments,)`, positive, of sum 1.
    """
    # LaTeX: w_i = \big( \sum_t \lvert A_{i,t} \rvert \big)^{\alpha} ; w = weights, A = advantages
    weights = advantages.abs().sum(1).pow(alpha).nan_to_num(0.0, 0.0, 0.0)
    # LaTeX: p_i = \frac{w_i + 10^{-6}}{\sum_j w_j + 10^{-6}} ; p = probabilities
    probabilities = (weights + 1e-6) / (weights.sum() + 1e-6)
    return probabilities / probabilities.sum()


def draw_segments(probabilities: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws distinct segments, one after another by the probabilities of those that are left: `(count,)` int64.

    A race of exponential clocks at those rates, the first to ring win (Efraimidis and Spirakis 2006, "Weighted random
    sampling with a reservoir"); torch.multinomial gives the same distribution and waits for a GPU to check its input.
    """
    times = torch.empty_like(probabilities).exponential_(generator=generator) / probabilities
    return times.topk(count, largest=False, sorted=False).indices


def inclusion_probabilities(probabilities: Tensor, count: int) -> Tensor:
    """The probability that `draw_segments` draws each segment: q = 1 - exp(-p t), with the t at which sum q = count.

    In the race of exponential clocks at rates p a clock has rung by time t with that very probability, and `count` of
    them are expected to have. The race ends when a clock rings, not at a fixed time, which matters only among a handful
    of segments. Nothing here waits for a GPU, and all of it can be captured as a CUDA graph.

    The probabilities `(segments,)` are positive and sum to 1; the result is in (0, 1], 1 where all are drawn.
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
    # LaTeX: q_i = 1 - e^{-p_i t}, \quad \sum_i q_i = m ; q = inclusion_probabilities, p = probabilities, m = count
    return torch.expm1(rates * time).neg().to(probabilities.dtype)


def importance_weights(inclusion: Tensor, rows: Tensor, beta: Tensor | float) -> Tensor:
    """Importance weights of the segments that were drawn, `(count,)`: they correct for the uneven draws.

    With beta 1 the mean over the m segments drawn is, on average, that over all S; with 0 all of them weigh 1.
    Schaul et al. 2015 write (S p)^-beta, p the probability of one draw, which is q S / m for draws with replacement;
    `draw_segments` draws without, where p would be off by up to 17% (alpha 0.8) and q by at most 1%.

    Args:
        inclusion: from `inclusion_probabilities`.
        rows: `(count,)` int64, the segments that were drawn.
        beta: how much is corrected, 0 to 1.
    """
    # LaTeX: w_i = ( q_i S / m )^{-\beta} ; w = importance_weights, q = inclusion, S = len(inclusion), m = len(rows)
    return (inclusion[rows] * (len(inclusion) / len(rows))).pow(-beta)
