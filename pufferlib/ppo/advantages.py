"""Advantages of a rollout, and the minibatches drawn from it by their size."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from pufferlib.config import ResolvedTrainConfig
from pufferlib.extensions.advantage import compute_puff_advantage
from pufferlib.ppo import losses
from pufferlib.ppo.rollout import Rollout

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

    `inclusion` is of `inclusion_probabilities`; `rows` are the segments that were drawn.
    """
    # LaTeX: w_i = ( q_i S / m )^{-\beta} ; w = importance_weights, q = inclusion, S = len(inclusion), m = len(rows)
    return (inclusion[rows] * (len(inclusion) / len(rows))).pow(-beta)


@dataclass(frozen=True)
class Minibatch:
    """Rows of a rollout, each of the steps of a segment; of one step where single steps are drawn."""

    rows: Tensor  # (count,) int64, of the rollout that is trained on
    resets: Tensor  # (count, steps) bool, where an episode begins
    old_values: Tensor  # (count, steps) float32, what values are clipped around
    returns: Tensor  # (count, steps) float32, what values should be
    advantages: Tensor  # (count, steps) float32; `ready_for_loss` normalises and weighs them
    importance: Tensor | None  # (count, 1) float32, the weights that make up for uneven draws; None for none
    weights: Tensor | None  # (count, steps) float32 with mean 1, 0 for absent agents; None when every agent was there

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice | Tensor) -> Minibatch:
        """Some of the rows."""
        tensors = ((field.name, getattr(self, field.name)) for field in fields(self))
        return replace(self, **{name: tensor[part] for name, tensor in tensors if tensor is not None})

    def split(self, size: int) -> list[Minibatch]:
        """Parts of at most `size` rows."""
        return [self[begin : begin + size] for begin in range(0, len(self), size)]

    def ready_for_loss(self, is_normalized: bool) -> Minibatch:
        """Returns it with advantages times their importance, of mean 0 and deviation 1 before if `is_normalized`."""
        return self.weighted(losses.normalize(self.advantages, self.weights) if is_normalized else self.advantages)

    def weighted(self, advantages: Tensor) -> Minibatch:
        """Returns it with these advantages times their importance."""
        return replace(self, advantages=advantages if self.importance is None else advantages * self.importance)


class Advantages:
    """The advantages of a rollout, computed again whenever its values and ratios have changed."""

    def __init__(self, rollout: Rollout, config: ResolvedTrainConfig):
        self._rollout = rollout
        self.config = config
        # (S, T), set where an episode begins, and where an absent agent waits for its next one.
        self.resets = torch.zeros_like(rollout.logprobs, dtype=torch.bool)
        # All (S, T + 1) float32: 1 where the observation is not of the same episode as the one before; 1 where a limit
        # ended the episode and no value of its final observation is known; rewards; rewards with all bootstraps; the
        # result.
        self._ends, self._cuts, self._rewards, self._bootstrapped, self._result = (
            torch.zeros_like(rollout.values) for _ in range(5)
        )
        # (S, T) bool, the steps to learn from: those of agents that were there, but for a last own move of which
        # nothing is known that follows, see `compute_puff_advantage`. None where these are all.
        self.learned: Tensor | None = None
        self._absence: tuple[Tensor, Tensor, Tensor] | None = None  # kept, as CUDA graphs read the same memory again

    def load(self) -> None:
        """Loads the rewards and the ends of episodes of the rollout, which was just filled."""
        rollout, finals = self._rollout, self._rollout.finals
        ends = rollout.terminals | rollout.truncations | rollout.pending
        self._ends.copy_(ends)
        self.resets.copy_(ends[:, :-1])
        self._rewards.copy_(rollout.rewards)
        if not self.config.truncation_bootstrap:
            self._cuts.zero_()
            return
        self._cuts.copy_(rollout.truncations & ~rollout.terminals)
        if finals is not None:
            # LaTeX: r \leftarrow r + \gamma V_{\text{final}} ; r = self._rewards, V_{\text{final}} = finals.values
            self._rewards[finals.segments, finals.columns] += self.config.gamma * finals.values
            self._cuts[finals.segments, finals.columns] = 0.0

    def begin(self, is_full: bool) -> None:
        """Begins to learn from the rollout that `load` loaded; says whether no agent was absent from it."""
        if is_full:
            self.learned = None
            return
        if self._absence is None:
            zeros = torch.zeros_like(self._ends)
            self._absence = torch.zeros_like(self.resets), zeros, zeros.long()
        self.learned, present, acted = self._absence
        masks = self._rollout.masks
        present.copy_(masks)
        columns = torch.arange(masks.shape[1], device=masks.device)
        acted.copy_((columns * masks).cummax(1).values)
        is_known = (present + self._ends)[:, 1:].flip(1).cumsum(1).flip(1) > 0
        self.learned.copy_(masks[:, :-1] & is_known)

    def compute(self) -> Tensor:
        """Computes `(S, T)` from the values and ratios as they are now; the next call overwrites it."""
        rollout, config = self._rollout, self.config
        values, present = rollout.values, None
        if self.learned is not None:  # a limit that cuts an episode of a waiting agent: its last own value
            _, present, acted = self._absence
            values = values.gather(1, acted)
        rewards = bootstrap_truncations(self._rewards, values, self._cuts, config.gamma, out=self._bootstrapped)
        compute_puff_advantage(
            rollout.values,
            rewards,
            terminals=self._ends,
            ratio=rollout.ratios,
            advantages=self._result,
            gamma=config.gamma,
            gae_lambda=config.gae_lambda,
            vtrace_rho_clip=config.vtrace_rho_clip,
            vtrace_c_clip=config.vtrace_c_clip,
            present=present,
        )
        return self._result[:, :-1]


class SegmentMinibatches:
    """Draws distinct segments by the size of their advantages, which are computed again for each minibatch."""

    def __init__(self, rollout: Rollout, advantages: Advantages, generator: torch.Generator):
        self._rollout = rollout
        self._config = config = advantages.config
        self._advantages = advantages
        self._generator = generator
        self._beta = rollout.values.new_zeros(())  # of the importance weights
        # Whether some segments are drawn more often than others, and importance weights are not all 1.
        self._is_uneven = config.prio_alpha > 0 and config.minibatch_segments < rollout.segments

    def begin(self, progress: float, is_full: bool) -> None:
        """Begins with a rollout that was just filled; arguments as for `Learner.learn`."""
        config = self._config
        # The schedule of PufferLib 3.0, which ends at beta_0 + (1 - beta_0) alpha; that of Schaul et al. ends at 1.
        # docs/trainer/update.md has a measurement of both.
        # LaTeX: \beta = \beta_0 + (1 - \beta_0) \alpha p ; \beta = self._beta, \alpha = config.prio_alpha, p = progress
        self._beta.fill_(config.prio_beta0 + (1.0 - config.prio_beta0) * config.prio_alpha * progress)
        self._advantages.begin(is_full)

    def draw(self) -> Minibatch:
        """Draws the next minibatch; each of several processes draws its part from its own rollout."""
        rollout, config = self._rollout, self._config
        advantages, learned = self._advantages.compute(), self._advantages.learned
        present = advantages if learned is None else advantages * learned
        probabilities = segment_probabilities(present, config.prio_alpha)
        rows = draw_segments(probabilities, config.minibatch_segments, self._generator)
        importance = None
        if self._is_uneven:
            inclusion = inclusion_probabilities(probabilities, len(rows))
            importance = importance_weights(inclusion, rows, self._beta).unsqueeze(1)
        weights = None if learned is None else mask_weights(learned[rows])
        chosen, old_values = advantages[rows], rollout.values[rows, :-1]
        # LaTeX: R = A + V ; R = returns, A = chosen, V = old_values
        resets, returns = self._advantages.resets[rows], chosen + old_values
        return Minibatch(
            rows, resets, old_values, returns=returns, advantages=chosen, importance=importance, weights=weights
        )


class StepMinibatches:
    """Goes through all steps in random order, pass after pass; advantages and returns stay as they were at first.

    It is called like SegmentMinibatches. `steps` are the `single_steps` of the rollout, which are trained on; those of
    absent agents have weight 0.
    """

    def __init__(self, rollout: Rollout, steps: Rollout, advantages: Advantages, generator: torch.Generator):
        self._rollout = rollout
        self._steps = steps
        self._advantages = advantages
        self._generator = generator
        self._resets = torch.zeros(steps.segments, 1, dtype=torch.bool, device=rollout.values.device)

    def begin(self, progress: float, is_full: bool) -> None:
        """Begins with a rollout that was just filled."""
        rollout = self._rollout
        self._steps.copy_steps_from(rollout)
        self._advantages.begin(is_full)
        advantages, values = _by_step(self._advantages.compute()), _by_step(rollout.values[:, :-1])
        self._numbers = torch.stack([advantages, values, advantages + values])  # gathered together: one call, not three
        learned = self._advantages.learned
        self._masks = None if learned is None else _by_step(learned)
        self._order = torch.empty(0)
        self._place = 0

    def draw(self, minibatches: int = 1) -> Minibatch:
        """Draws the steps of so many minibatches of a pass; at its end there may be fewer."""
        if self._place >= len(self._order):
            device = self._rollout.values.device
            self._order = torch.randperm(self._steps.segments, generator=self._generator, device=device)
            self._place = 0
        rows = self._order[self._place : self._place + minibatches * self._advantages.config.minibatch_steps]
        self._place += len(rows)
        weights = None if self._masks is None else mask_weights(self._masks[rows])
        chosen, old_values, returns = self._numbers.index_select(1, rows).unbind()
        resets = self._resets[: len(rows)]
        return Minibatch(rows, resets, old_values, returns=returns, advantages=chosen, importance=None, weights=weights)


def bootstrap_truncations(rewards: Tensor, values: Tensor, cuts: Tensor, gamma: float, out: Tensor) -> Tensor:
    """Adds gamma * V to the reward of every step that a limit cut, V of the observation acted on.

    Pardo et al. 2018 ("Time Limits in Reinforcement Learning") ask for the value of the true final observation, and
    `Advantages` takes it where the rollout has it. This is for environments that do not return that observation: the
    one a step earlier is the nearest.

    All are `(S, T + 1)`; column t of `rewards` and of `cuts`, 1 or 0, belongs to the action of column t - 1, and so
    column 0 of `out` to none of these segments: it is left as it was.
    """
    # LaTeX: r'_t = r_t + \gamma c_t V_{t-1} ; r' = out, r = rewards, c = cuts, V = values
    torch.addcmul(rewards[:, 1:], cuts[:, 1:], values[:, :-1], value=gamma, out=out[:, 1:])
    return out


def mask_weights(masks: Tensor) -> Tensor:
    """Weights with mean 1: equal where the mask is set, 0 elsewhere."""
    present = masks.float()
    return present / present.mean().clamp(min=1e-8)


def _by_step(x: Tensor) -> Tensor:
    return x.T.reshape(-1, 1)  # a copy in the order of Rollout.single_steps
