"""The update phase: minibatches drawn from a rollout, and a step of the optimizer for each."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pufferlib.distributed import Ranks
from pufferlib.fast.cuda_graphs import Capture, CapturedCall
from pufferlib.fast.optimizers import KernelAdam, fit_to_graphs
from pufferlib.metrics.phases import Phases
from pufferlib.ppo import losses
from pufferlib.ppo.advantages import Advantages
from pufferlib.ppo.gradients import NetworkGradients, TorchGradients
from pufferlib.ppo.minibatches import Drawing, Drawn, SegmentDrawing, Share, StepDrawing, present_weights
from pufferlib.ppo.optimizers import make_optimizer, set_learning_rate, take_over
from pufferlib.ppo.rollout import Rollout

_APPROX_KL = losses.METRICS.index("approx_kl")


class Learner:
    """Trains a policy on a rollout that is filled again and again.

    Attributes:
        optimizer: steps the policy's parameters.
        learning_rate: that of the last step.
        minibatches_due: the part of a minibatch that is carried over to the next `learn`.
        metrics: what the last `learn` returned.
        weight_norm: of all parameters after the last `learn`, or on several processes before its last step.
    """

    def __init__(
        self,
        rollout: Rollout,
        gradients: TorchGradients | NetworkGradients,
        device: torch.device,
        generator: torch.Generator,
        phases: Phases,
        ranks: Ranks,
        is_captured: bool = False,
        capture: Capture | None = None,
    ):
        """Makes the optimizer.

        Args:
            rollout: what the collector fills.
            gradients: differentiates the policy; has the settings, and a rollout of its own where single steps are
                trained on.
            device: the policy's.
            generator: draws the minibatches.
            phases: where the time of each phase is added up.
            ranks: the processes whose gradients are averaged.
            is_captured: whether minibatches are replayed as CUDA graphs, where the settings let them; not where other
                processes are waited for.
            capture: as for CapturedCall.
        """
        self.rollout = rollout
        self.config = config = gradients.config
        self.device = device
        self._gradients = gradients
        self._generator = generator
        self._advantages = Advantages(rollout, config)
        self._drawing: Drawing
        if config.shuffle == "steps":
            self._drawing = StepDrawing(rollout, gradients.rollout, config, self._advantages, generator)
        else:
            self._drawing = SegmentDrawing(rollout, config, self._advantages, generator)
        self._phases = phases
        self._ranks = ranks
        self.optimizer = self._make_optimizer()
        can_be_captured = (
            config.optimizer != "sgd"
            and not config.cpu_offload
            and ranks.world_size == 1
            and config.shuffle == "segments"  # of single steps the host keeps the order
        )
        self._is_captured = is_captured and can_be_captured
        self._capture = capture
        self.fit_optimizer()
        self.learning_rate = config.learning_rate
        self._metric_sums = torch.zeros(len(losses.METRICS), device=device)
        self.minibatches_due = 0.0
        self._is_full = True  # no agent was absent from any process's rollout
        self._ahead: tuple[Share, Tensor] | None = None  # the next minibatch, and the moments of all processes' shares
        self._summaries = self._metric_sums[:0]  # of all processes, once they were exchanged
        self.metrics: dict[str, float] = {}
        self.weight_norm = 0.0

    def _make_optimizer(self) -> Optimizer:
        config = self.config
        return make_optimizer(
            config.optimizer,
            self._gradients.all_parameters,
            config.learning_rate,
            (config.adam_beta1, config.adam_beta2),
            config.adam_eps,
            config.weight_decay,
            KernelAdam,
        )

    def follow(self, gradients: TorchGradients | NetworkGradients) -> None:
        """Goes on with the gradients of a policy that was changed; of parameters that stayed the optimizer knows all.

        Args:
            gradients: of the same rollout and settings.
        """
        self._gradients = gradients
        earlier, self.optimizer = self.optimizer, self._make_optimizer()
        take_over(self.optimizer, earlier)
        self.fit_optimizer()

    def fit_optimizer(self) -> None:
        """Readies the optimizer for capture, or for none, after its state was replaced; captures begin anew."""
        fit_to_graphs(self.optimizer, self.device if self._is_captured else None)
        self._graphs: dict[bool, CapturedCall] = {}  # by whether every agent was there

    def prepare(self) -> None:
        """Takes from a new rollout what does not change while it is trained on."""
        with self._phases.queued_phase("advantage"):
            self._advantages.take()

    def learn(self, learning_rate: float, progress: float, is_full: bool) -> dict[str, float]:
        """Trains on the rollout for `update_epochs`; what is left of a minibatch is carried over to the next call.

        After a pass in which the policy went further than `target_kl` there is no other.

        Args:
            learning_rate: for all steps of this call.
            progress: of the whole run, 0 to 1.
            is_full: whether every agent of every process was there at every step.

        Returns:
            The means of losses.METRICS over the minibatches and `explained_variance`, both over all processes; those
            of the last call when less than one minibatch was due.
        """
        self.learning_rate = learning_rate
        set_learning_rate(self.optimizer, learning_rate)
        self._metric_sums.zero_()
        self._is_full = is_full
        self.minibatches_due += self.config.minibatches_per_epoch
        count = math.floor(self.minibatches_due + 1e-6)  # sums of fractions are rounded
        self.minibatches_due -= count
        with self._gradients.limit_caller():
            self._drawing.begin(progress, is_full)
            self._ahead = None
            trained = self._train_minibatches(count)
            if trained:  # else less than one minibatch was due
                with self._phases.queued_phase("learn"):  # here the host waits for the GPU
                    self.metrics = self._read_metrics(trained, trained == count)
        return dict(self.metrics)

    def _train_minibatches(self, count: int) -> int:
        """Returns how many were trained: all `count`, or those up to where `target_kl` ends it."""
        per_pass = math.ceil(self.config.minibatches_per_pass)
        kl_before = self._metric_sums[_APPROX_KL].clone()
        for index in range(count):
            if self._is_captured:
                self._replay_minibatch()
            else:
                self.train_minibatch(summary_count=count if index == count - 1 else 0)
            is_last_of_pass = (index + 1) % per_pass == 0 and index + 1 < count
            if is_last_of_pass and self.config.target_kl is not None:
                kl = float(self._metric_sums[_APPROX_KL] - kl_before) / per_pass  # waits for a GPU
                if self._ranks.start_total(kl).result() > self.config.target_kl * self._ranks.world_size:
                    return index + 1
                kl_before = self._metric_sums[_APPROX_KL].clone()
        return count

    def train_minibatch(self, summary_count: int = 0) -> None:
        """One optimizer step; adds its metrics to their sums on the device.

        Args:
            summary_count: minibatches in the sums by then, where this is the last one: what is to be reported is
                averaged over the processes together with the gradients, as every message is a wait.
        """
        drawn = self._draw_with_others() if self._ranks.world_size > 1 else self._draw()
        with self._phases.queued_phase("learn"):
            self._differentiate(drawn)
        if self._ranks.world_size > 1:
            self._average_gradients(summary_count)
        with self._phases.queued_phase("learn"):
            self._step()

    def _draw(self) -> Drawn:
        with self._phases.queued_phase("advantage"):
            return self._drawing.draw()

    def _draw_with_others(self) -> Drawn:
        """This process's share of the next minibatch, with the moments of all of it."""
        if self._ahead is None:
            with self._phases.queued_phase("advantage"):
                share = self._drawing.draw_share()
                own = share.moments()
            with self._phases.queued_phase("communicate"):
                self._ahead = share, self._ranks.gather_numbers(own)
        (share, of_all), self._ahead = self._ahead, None
        with self._phases.queued_phase("advantage"):
            return share.among(of_all, self._ranks.rank)

    def _average_gradients(self, summary_count: int) -> None:
        """Averages them over all processes; with them goes what to report, or the moments of the next minibatch.

        That can be drawn before the optimizer steps: of the policy it needs what was just found of this minibatch.
        """
        share = None
        with self._phases.queued_phase("advantage"):
            if summary_count:
                told = self._summarize(summary_count)
            else:
                share = self._drawing.draw_share()
                told = share.moments()
        with self._phases.queued_phase("communicate"):
            of_all = self._ranks.average_gradients(self._gradients.parameters, told)
        if share is None:
            self._summaries = of_all
        else:
            self._ahead = share, of_all

    def _replay_minibatch(self) -> None:
        """As `train_minibatch`, by a graph, which hides its parts: the time of all of them is that of `learn`."""
        if self._is_full not in self._graphs:
            stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
            self._graphs[self._is_full] = CapturedCall(self._work, self._generator, stream, self._capture)
        with self._phases.queued_phase("learn"):
            self._graphs[self._is_full]()

    def _work(self) -> None:
        """What a graph records: it reads and writes tensors alone, and times nothing."""
        self._differentiate(self._drawing.draw())
        self._step()

    def _differentiate(self, drawn: Drawn) -> None:
        self._metric_sums += self._gradients.differentiate(drawn)

    def _step(self) -> None:
        self._gradients.clip(self.config.max_grad_norm)
        self.optimizer.step()

    def _summarize(self, count: int) -> Tensor:
        """Of this process: the means over `count` minibatches; the moments of returns - values, and of returns.

        The last of the means is the norm of all weights.
        """
        advantages, values = self._advantages.compute(), self.rollout.values[:, :-1]
        weights = None if self._is_full else present_weights(self.rollout.masks[:, :-1])
        returns = advantages + values
        moments = losses.moments(returns - values, weights), losses.moments(returns, weights)
        norm = nn.utils.get_total_norm([parameter.detach() for parameter in self._gradients.parameters])
        return torch.cat([self._metric_sums / count, norm.float().unsqueeze(0), *moments])

    def _read_metrics(self, count: int, is_exchanged: bool) -> dict[str, float]:
        """The summary of all processes, which the last gradients brought along or not."""
        if not is_exchanged or self._ranks.world_size == 1:
            self._summaries = self._ranks.gather_numbers(self._summarize(count))
        means, *moments = self._summaries.split([len(losses.METRICS) + 1, 3, 3], 1)
        unexplained, spread = (losses.pooled(parts)[2] for parts in moments)
        explained = losses.explained_variance(unexplained, spread)
        # Reading this is the one device synchronisation of `learn`.
        *metrics, self.weight_norm, explained = torch.cat([means.mean(0), explained.unsqueeze(0)]).tolist()
        return dict(zip((*losses.METRICS, "explained_variance"), (*metrics, explained), strict=True))

    @property
    def named_parameters(self) -> dict[str, nn.Parameter]:
        """The policy's, those that are frozen for now included."""
        return dict(self._gradients.policy.named_parameters())
