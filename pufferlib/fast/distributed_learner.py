"""The update phase of several processes: each differentiates its part of a minibatch, and all step alike."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.optim import Optimizer
from typing_extensions import override

from pufferlib.distributed import Ranks
from pufferlib.metrics.phases import Phases
from pufferlib.ppo import losses
from pufferlib.ppo.gradients import Gradients
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.minibatches import Minibatch
from pufferlib.ppo.rollout import Rollout


class DistributedLearner(Learner):
    """Learns together with the other processes: gradients are averaged, in one message for each minibatch.

    Every message waits for the slowest process. So the moments of the next minibatch, or the metrics at the end, go
    along with the gradients.
    """

    def __init__(
        self,
        rollout: Rollout,
        gradients: Gradients,
        optimizer: Optimizer,
        generator: torch.Generator,
        phases: Phases,
        *,
        ranks: Ranks,
    ):
        super().__init__(rollout, gradients, optimizer, generator, phases)
        self._ranks = ranks
        self._ahead: tuple[Minibatch, Tensor] | None = None  # the next minibatch, and the moments of all shares
        self._summaries: Tensor | None = None  # of all processes, once they were exchanged

    @override
    def learn(self, learning_rate: float, progress: float, is_full: bool) -> dict[str, float]:
        self._ahead = self._summaries = None
        return super().learn(learning_rate, progress, is_full)

    @override
    def train_minibatch(self) -> None:
        minibatch = self._next_minibatch()
        with self._phases.queued_phase("learn"):
            self._differentiate(minibatch)
        self._average_gradients()
        with self._phases.queued_phase("learn"):
            self._step()

    def _next_minibatch(self) -> Minibatch:
        if self._ahead is None:
            with self._phases.queued_phase("advantage"):
                share = self._minibatches.draw()
                own = self._moments(share)
            with self._phases.queued_phase("communicate"):
                self._ahead = share, self._ranks.gather_numbers(own)
        (share, all_moments), self._ahead = self._ahead, None
        with self._phases.queued_phase("advantage"):
            return normalize_across_ranks(share, all_moments, self._ranks.rank, self.config.norm_adv)

    def _moments(self, share: Minibatch) -> Tensor:
        # What the other processes need of this part: (3,), or nothing, (0,).
        if not self.config.norm_adv and share.weights is None:
            return share.advantages.new_empty(0)
        return moments(share.advantages, share.weights)

    def _average_gradients(self) -> None:
        # The moments of the next minibatch go along, or the summary after the last. It can be drawn before the
        # optimizer steps, as it needs of the policy only what was just found of this minibatch.
        share = None
        with self._phases.queued_phase("advantage"):
            if self._trained + 1 < self._due:
                share = self._minibatches.draw()
                payload = self._moments(share)
            else:
                payload = self._summarize(self._due)
        with self._phases.queued_phase("communicate"):
            all_moments = self._ranks.average_gradients(self.gradients.parameters, payload)
        if share is None:
            self._summaries = all_moments
        else:
            self._ahead = share, all_moments

    @override
    def _mean_over_processes(self, number: float) -> float:
        return self._ranks.start_total(number).result() / self._ranks.world_size

    def _summarize(self, count: int) -> Tensor:
        # Of this process: the means over `count` minibatches, the norm of all weights, and the moments of targets.
        residuals, returns, weights = self._targets()
        of_targets = moments(residuals, weights), moments(returns, weights)
        return torch.cat([self._means(count), self._weight_norm(), *of_targets])

    @override
    def _read_metrics(self) -> dict[str, float]:
        if self._summaries is None:  # `target_kl` ended it before the last minibatch
            self._summaries = self._ranks.gather_numbers(self._summarize(self._trained))
        means, *parts = self._summaries.split([self._summaries.shape[1] - 6, 3, 3], 1)
        unexplained, spread = (merge_moments(part)[2] for part in parts)
        explained = losses.explained_variance(unexplained, spread)
        return self._named(torch.cat([means.mean(0), explained.unsqueeze(0)]))


def normalize_across_ranks(share: Minibatch, all_moments: Tensor, rank: int, is_normalized: bool) -> Minibatch:
    """Makes a process's part of a minibatch ready for gradients that are averaged over all processes.

    Each step of a present agent then counts the same in all processes.

    Args:
        share: of this process.
        all_moments: `(processes, 3)` or `(processes, 0)`, of all parts.
        rank: of this process.
        is_normalized: whether advantages get mean 0 and deviation 1 over all parts.
    """
    if not all_moments.numel():
        return share.ready_for_loss(is_normalized)
    count, center, spread = merge_moments(all_moments).unbind()
    if share.weights is not None:
        share = replace(share, weights=share.weights * (all_moments[rank, 0] * len(all_moments) / count.clamp(min=1.0)))
    return share.weighted(losses.standardize(share.advantages, center, spread) if is_normalized else share.advantages)


def moments(x: Tensor, weights: Tensor | None) -> Tensor:
    """`(3,)` count, weighted mean and variance; arguments as for `losses.normalize`. All 0 where every weight is."""
    count = torch.full((), x.numel(), device=x.device) if weights is None else weights.count_nonzero()
    return torch.stack([count.float(), losses.mean(x, weights), losses.variance(x, weights)])


def merge_moments(parts: Tensor) -> Tensor:
    """`(3,)`, the `moments` of several sets of numbers together, from those of each, `(sets, 3)`."""
    counts, means, variances = parts.unbind(1)
    count = counts.sum()
    shares = counts / count.clamp(min=1.0)
    center = (shares * means).sum()
    return torch.stack([count, center, (shares * (variances + (means - center).square())).sum()])
