"""Which segments a minibatch is drawn from, where large advantages are drawn more often."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_NEWTON_STEPS = 8  # enough for 0.5% where probabilities spread evenly over twelve orders of magnitude


def segment_probabilities(advantages: Tensor, alpha: float) -> Tensor:
    """How likely each segment is to be trained on: `w = (sum |A|)^alpha`, `p = (w + 1e-6) / (sum w + 1e-6)`.

    The priorities of Schaul et al. 2015 ("Prioritized Experience Replay") with whole segments as items; alpha 0 makes
    all of them equally likely. `(segments, horizon)` -> `(segments,)`, positive, of sum 1.
    """
    # LaTeX: w_i = \Big( \sum_t \lvert A_{i,t} \rvert \Big)^{\alpha} ; w = weights, A = advantages
    weights = advantages.abs().sum(1).pow(alpha).nan_to_num(0.0, 0.0, 0.0)
    # LaTeX: p_i = \frac{w_i + 10^{-6}}{\sum_j w_j + 10^{-6}} ; p = probabilities
    probabilities = (weights + 1e-6) / (weights.sum() + 1e-6)
    # LaTeX: p_i \leftarrow p_i / \textstyle\sum_j p_j
    return probabilities / probabilities.sum()


def draw_segments(probabilities: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws distinct segments, one after another by their probabilities among those that are left: `(count,)` int64.

    A race of exponential clocks at those rates, the first to ring win (Efraimidis and Spirakis 2006, "Weighted random
    sampling with a reservoir"); torch.multinomial gives the same distribution and waits for a GPU to check its input.
    """
    # LaTeX: \tau_i \sim \text{Exponential}(p_i) ; \tau = times, p = probabilities
    times = torch.empty_like(probabilities).exponential_(generator=generator) / probabilities
    return times.topk(count, largest=False, sorted=False).indices


def inclusion_probabilities(probabilities: Tensor, count: int) -> Tensor:
    """How likely `draw_segments` is to draw each segment: q = 1 - exp(-p t), with the t at which sum q = count.

    In the race of exponential clocks at rates p a clock has rung by time t with that very probability, and t is when
    `count` of them are expected to have. That the race ends when one of them rings, not at a fixed time, is of no
    account but among a handful of segments. Nothing here waits for a GPU, and all of it can be captured.
    The probabilities `(segments,)` are positive and sum to 1; what is returned is in (0, 1], 1 where all are drawn.
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
        # LaTeX: \ell_i = \frac{e^{-p_i t}}{S - m} ; \ell = late, p = -rates, t = time, S = segments, m = count
        late = torch.addcmul(offset, rates, time).exp_()
        ratio = late.sum()
        # LaTeX: t \leftarrow t + \frac{\Lambda \log \Lambda}{\sum_i p_i\, \ell_i}, \quad \Lambda = \sum_i \ell_i
        # LaTeX:   ; \Lambda = ratio
        time = torch.addcdiv(time, torch.xlogy(ratio, ratio), (rates * late).sum(), value=-1.0)
        if time.is_cpu and ratio < 1.0001:  # a step gives twice as many digits; a GPU would have to be waited for
            break
    # LaTeX: q_i = 1 - e^{-p_i t}, \quad \sum_i q_i = m ; q = inclusion_probabilities(probabilities, count), m = count
    return torch.expm1(rates * time).neg().to(probabilities.dtype)


def importance_weights(inclusion: Tensor, rows: Tensor, beta: Tensor | float) -> Tensor:
    """What makes up for drawing some segments more often than others: (q S / m)^-beta, q how likely each is drawn.

    With beta 1 the mean over the m segments drawn is, on average, that over all S; with 0 all of them weigh 1.
    Schaul et al. 2015 write (S p)^-beta, p the probability of one draw, which is q S / m for draws with replacement;
    `draw_segments` draws without, where p would be off by up to 17% (alpha 0.8) and q by at most 1%.

    `inclusion` is what `inclusion_probabilities` returned, `rows`, `(count,)` int64, says which segments were drawn,
    and beta, 0 to 1, how much of it is made up for: `(count,)`.
    """
    # LaTeX: w_i = \Big( q_i\, \frac{S}{m} \Big)^{-\beta}
    # LaTeX:   ; w = importance_weights(inclusion, rows, beta), q = inclusion, S = len(inclusion), m = len(rows)
    return (inclusion[rows] * (len(inclusion) / len(rows))).pow(-beta)
