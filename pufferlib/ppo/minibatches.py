"""Which part of a rollout the next minibatch is."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from pufferlib.config import ResolvedTrainConfig
from pufferlib.ppo import losses
from pufferlib.ppo.advantages import Advantages
from pufferlib.ppo.rollout import Rollout


@dataclass(frozen=True)
class Drawn:
    """The rows of a minibatch, each of the steps of a segment; of one step where single steps are drawn.

    Attributes:
        rows: `(count,)` int64, their places in the rollout that is trained on.
        old_values: `(count, steps)`, what values are clipped around.
        returns: `(count, steps)`, what values should be.
        normalized: `(count, steps)`, advantages ready for the loss.
        weights: `(count, steps)` with mean 1 over all processes, 0 for absent agents; None when every agent was there.
        resets: `(all rows, steps)` bool, of the whole rollout: where an episode begins.
    """

    rows: Tensor
    old_values: Tensor
    returns: Tensor
    normalized: Tensor
    weights: Tensor | None
    resets: Tensor


@dataclass(frozen=True)
class Share:
    """What one process drew of a minibatch, whose moments are those of all processes together.

    Attributes:
        rows: as in Drawn, as are the next two and `resets`.
        old_values: what values are clipped around.
        returns: what values should be.
        advantages: `(count, steps)`.
        importance: `(count, 1)`, the weights that make up for uneven draws; None for none.
        weights: `(count, steps)` with mean 1 in this share; None when every agent was there, in all processes.
        resets: where an episode begins.
        norm_adv: whether advantages are normalised.
    """

    rows: Tensor
    old_values: Tensor
    returns: Tensor
    advantages: Tensor
    importance: Tensor | None
    weights: Tensor | None
    resets: Tensor
    norm_adv: bool

    def moments(self) -> Tensor:
        """What the other processes have to know: losses.moments of the advantages, or nothing, `(0,)`."""
        if not self.norm_adv and self.weights is None:
            return self.advantages.new_empty(0)
        return losses.moments(self.advantages, self.weights)

    def alone(self) -> Drawn:
        """The minibatch, where this share is all of it."""
        return self._drawn(
            losses.normalize(self.advantages, self.weights) if self.norm_adv else self.advantages, self.weights
        )

    def among(self, of_all: Tensor, rank: int) -> Drawn:
        """This share of a minibatch, ready for gradients that are averaged over all processes.

        Each present step then counts the same, whichever process it belongs to, however few there are.

        Args:
            of_all: `(processes, 3)` or `(processes, 0)`, the `moments` of all.
            rank: of this process.
        """
        if not of_all.numel():
            return self.alone()
        count, mean, variance = losses.pooled(of_all).unbind()
        weights = self.weights
        if weights is not None:
            weights = weights * (of_all[rank, 0] * len(of_all) / count.clamp(min=1.0))
        return self._drawn(
            losses.standardize(self.advantages, mean, variance) if self.norm_adv else self.advantages, weights
        )

    def _drawn(self, advantages: Tensor, weights: Tensor | None) -> Drawn:
        if self.importance is not None:
            advantages = advantages * self.importance
        return Drawn(self.rows, self.old_values, self.returns, advantages, weights, self.resets)


class Drawing(abc.ABC):
    """Draws minibatches from one rollout after the other."""

    @abc.abstractmethod
    def begin(self, progress: float, is_full: bool) -> None:
        """Turns to a rollout that was just filled.

        Args:
            progress: of the whole run, 0 to 1.
            is_full: whether every agent of every process was there at every step.
        """

    @abc.abstractmethod
    def draw_share(self) -> Share:
        """This process's share of the next minibatch."""

    def draw(self) -> Drawn:
        """The next minibatch of a process that trains alone."""
        return self.draw_share().alone()


class SegmentDrawing(Drawing):
    """Draws distinct segments by the size of their advantages, which are computed anew for each minibatch.

    Of several processes each draws as many, from its own.
    """

    def __init__(
        self, rollout: Rollout, config: ResolvedTrainConfig, advantages: Advantages, generator: torch.Generator
    ):
        self._rollout = rollout
        self._config = config
        self._advantages = advantages
        self._generator = generator
        self._beta = torch.zeros((), device=rollout.values.device)  # of the importance weights
        # Whether some segments are drawn more often than others, and importance weights are not all 1.
        self._is_uneven = config.prio_alpha > 0 and config.minibatch_segments < rollout.segments
        self._is_full = True

    @override
    def begin(self, progress: float, is_full: bool) -> None:
        config = self._config
        self._beta.fill_(config.prio_beta0 + (1.0 - config.prio_beta0) * config.prio_alpha * progress)
        self._is_full = is_full

    @override
    def draw_share(self) -> Share:
        rollout, config = self._rollout, self._config
        advantages = self._advantages.compute()
        present = advantages if self._is_full else advantages * rollout.masks[:, :-1]
        probabilities = losses.segment_probabilities(present, config.prio_alpha)
        rows = losses.draw_segments(probabilities, config.minibatch_segments, self._generator)
        weights = None if self._is_full else present_weights(rollout.masks[rows, :-1])
        chosen, old_values = advantages[rows], rollout.values[rows, :-1]
        importance = None
        if self._is_uneven:
            inclusion = losses.inclusion_probabilities(probabilities, len(rows))
            importance = losses.importance_weights(inclusion, rows, self._beta).unsqueeze(1)
        returns, resets = chosen + old_values, self._advantages.resets
        return Share(rows, old_values, returns, chosen, importance, weights, resets, config.norm_adv)


class StepDrawing(Drawing):
    """Goes through all steps in random order, pass after pass; advantages and returns stay what they were at first.

    Those of absent agents come along with weight 0.
    """

    def __init__(
        self,
        rollout: Rollout,
        steps: Rollout,
        config: ResolvedTrainConfig,
        advantages: Advantages,
        generator: torch.Generator,
    ):
        """`steps` are the `single_steps` of `rollout`, which are trained on."""
        self._rollout = rollout
        self._steps = steps
        self._config = config
        self._advantages = advantages
        self._generator = generator
        self._resets = torch.zeros(steps.segments, 1, dtype=torch.bool, device=rollout.values.device)

    @override
    def begin(self, progress: float, is_full: bool) -> None:
        rollout = self._rollout
        self._steps.take_steps(rollout)
        advantages, values = by_step(self._advantages.compute()), by_step(rollout.values[:, :-1])
        self._numbers = torch.stack([advantages, values, advantages + values])  # gathered together: one call, not three
        self._masks = None if is_full else by_step(rollout.masks[:, :-1])
        self._order = torch.empty(0)
        self._place = 0

    @override
    def draw_share(self) -> Share:
        if self._place >= len(self._order):
            device = self._rollout.values.device
            self._order = torch.randperm(self._steps.segments, generator=self._generator, device=device)
            self._place = 0
        rows = self._order[self._place : self._place + self._config.minibatch_steps]
        self._place += len(rows)
        weights = None if self._masks is None else present_weights(self._masks[rows])
        chosen, old_values, returns = self._numbers.index_select(1, rows).unbind()
        return Share(rows, old_values, returns, chosen, None, weights, self._resets, self._config.norm_adv)


def present_weights(masks: Tensor) -> Tensor:
    """1 for agents that were there and 0 for absent ones, times what makes the mean 1."""
    present = masks.float()
    return present / present.mean().clamp(min=1e-8)


def by_step(x: Tensor) -> Tensor:
    """`(S, T)` -> `(T * S, 1)`, a copy in the order of `Rollout.single_steps`."""
    return x.T.reshape(-1, 1)
