"""The update phase: minibatches drawn from a rollout, and a step of the optimizer for each."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pufferlib.errors import ConfigError
from pufferlib.metrics.phases import Phases
from pufferlib.ppo import losses
from pufferlib.ppo.gradients import Gradients
from pufferlib.ppo.minibatches import Advantages, Minibatch, SegmentMinibatches, StepMinibatches, present_weights
from pufferlib.ppo.optimizers import set_learning_rate
from pufferlib.ppo.rollout import Rollout


class Learner:
    """Trains a policy on a rollout that is filled again and again.

    Attributes:
        gradients: differentiates the policy; has the settings.
        optimizer: steps the policy's parameters.
        learning_rate: that of the last step.
        minibatches_due: the fraction of a minibatch that is carried over to the next rollout.
        metrics: what the last `learn` returned.
        weight_norm: of all parameters after the last `learn`.
    """

    def __init__(
        self,
        rollout: Rollout,
        gradients: Gradients,
        optimizer: Optimizer,
        generator: torch.Generator,
        phases: Phases,
    ):
        """Allocates.

        Args:
            rollout: what the collector fills.
            gradients: as above; of `rollout`, or of its `single_steps` where these are trained on.
            optimizer: of `gradients.all_parameters`.
            generator: draws the minibatches.
            phases: where the time of each phase is added up.
        """
        self.rollout = rollout
        self.config = config = gradients.config
        self.gradients = gradients
        self.optimizer = optimizer
        self.learning_rate = config.learning_rate
        self.minibatches_due = 0.0
        self.metrics: dict[str, float] = {}
        self.weight_norm = 0.0
        self._advantages = Advantages(rollout, config)
        if config.shuffle == "steps":
            self._minibatches = StepMinibatches(rollout, gradients.rollout, self._advantages, generator)
        else:
            self._minibatches = SegmentMinibatches(rollout, self._advantages, generator)
        self._generator = generator
        self._phases = phases
        self._is_full = True  # no agent was absent from any process's rollout
        self._metric_sums: Tensor | None = None  # over the minibatches of a rollout, once there was one

    def follow(self, gradients: Gradients, optimizer: Optimizer) -> None:
        """Goes on with the gradients of a policy that was changed, of the same rollout, and with its optimizer.

        To be called also when the optimizer has loaded a state.
        """
        self.gradients, self.optimizer = gradients, optimizer
        set_learning_rate(optimizer, self.learning_rate)

    @property
    def named_parameters(self) -> dict[str, nn.Parameter]:
        """The policy's, those that are frozen for now included."""
        return dict(self.gradients.policy.named_parameters())

    def prepare(self) -> None:
        """Takes from a new rollout what does not change while it is trained on."""
        with self._phases.queued_phase("advantage"):
            self._advantages.take()

    def learn(self, learning_rate: float, progress: float, is_full: bool) -> dict[str, float]:
        """Trains on the rollout for `update_epochs`; what is left of a minibatch is carried over to the next call.

        Args:
            learning_rate: for all steps of this call.
            progress: of the whole run, 0 to 1.
            is_full: whether every agent of every process was there at every step.

        Returns:
            The means of the loss's metrics over the minibatches and `explained_variance`, both over all processes;
            those of the last call when less than one minibatch was due.
        """
        self.learning_rate = learning_rate
        set_learning_rate(self.optimizer, learning_rate)
        if self._metric_sums is not None:
            self._metric_sums.zero_()
        self._is_full = is_full
        self.minibatches_due += self.config.minibatches_per_epoch
        count = math.floor(self.minibatches_due + 1e-6)  # sums of fractions are rounded
        self.minibatches_due -= count
        with self.gradients.limit_caller():
            self._minibatches.begin(progress, is_full)
            trained = self._train_minibatches(count)
            if trained:
                with self._phases.queued_phase("learn"):  # here the host waits for the GPU
                    self.metrics = self._read_metrics(trained)
        return dict(self.metrics)

    def _train_minibatches(self, count: int) -> int:
        """Returns how many were trained: all `count`, or those up to the end of a pass that went beyond `target_kl`."""
        per_pass = math.ceil(self.config.minibatches_per_pass)
        kl_before = 0.0
        for index in range(count):
            self.train_minibatch()
            is_last_of_pass = (index + 1) % per_pass == 0 and index + 1 < count
            if is_last_of_pass and self.config.target_kl is not None:
                kl_so_far = self._approx_kl()
                if self._is_beyond_target(float(kl_so_far - kl_before) / per_pass):
                    return index + 1
                kl_before = kl_so_far
        return count

    def _approx_kl(self) -> Tensor:
        """The sum over the minibatches so far; whoever reads it waits for a GPU."""
        names = self.gradients.metric_names
        if "approx_kl" not in names:
            raise ConfigError(
                f"[train] target_kl needs a loss that reports approx_kl, got one of {', '.join(names)}; "
                "report it, or set target_kl to None"
            )
        return self._metric_sums[names.index("approx_kl")].clone()

    def train_minibatch(self) -> None:
        """One optimizer step; adds the minibatch's metrics to their sums on the device."""
        with self._phases.queued_phase("advantage"):
            minibatch = self._minibatches.draw().ready_for_loss(self.config.norm_adv)
        with self._phases.queued_phase("learn"):
            self._differentiate(minibatch)
            self._step()

    def _differentiate(self, minibatch: Minibatch) -> None:
        """Sets the gradients, those of one part of at most `max_minibatch_size` steps after the other."""
        for parameter in self.gradients.all_parameters:  # a frozen one may have one from before, and would be stepped
            parameter.grad = None
        parts = minibatch.split(self.gradients.most_rows)
        metrics = sum(self.gradients.differentiate(part, len(minibatch)) for part in parts)
        if self._metric_sums is None:
            self._metric_sums = torch.zeros_like(metrics)
        self._metric_sums += metrics

    def _step(self) -> None:
        self.gradients.clip(self.config.max_grad_norm)
        self.optimizer.step()

    def _read_metrics(self, count: int) -> dict[str, float]:
        """The means over `count` minibatches, and how much of the returns the values explain."""
        residuals, returns, weights = self._targets()
        explained = losses.explained_variance(losses.variance(residuals, weights), losses.variance(returns, weights))
        return self._named(torch.cat([self._metric_sums / count, self._weight_norm(), explained.unsqueeze(0)]))

    def _targets(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns less values, returns, and weights that count only who was there: `(S, T)` each."""
        advantages, values = self._advantages.compute(), self.rollout.values[:, :-1]
        weights = None if self._is_full else present_weights(self.rollout.masks[:, :-1])
        returns = advantages + values
        return returns - values, returns, weights

    def _weight_norm(self) -> Tensor:
        norm = nn.utils.get_total_norm([parameter.detach() for parameter in self.gradients.parameters])
        return norm.float().unsqueeze(0)

    def _named(self, numbers: Tensor) -> dict[str, float]:
        """The metrics by name: `(len(metric_names) + 2,)`, these, the norm of the weights, the explained variance."""
        *means, self.weight_norm, explained = numbers.tolist()  # the one device synchronisation of `learn`
        return dict(zip((*self.gradients.metric_names, "explained_variance"), (*means, explained), strict=True))

    def _is_beyond_target(self, kl: float) -> bool:
        return kl > self.config.target_kl
