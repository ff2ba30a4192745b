"""The update phase: minibatches drawn from a rollout, and a step of the optimizer for each."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib import losses
from pufferlib.cuda_graphs import Capture, CapturedCall
from pufferlib.distributed import Ranks
from pufferlib.extensions import compute_puff_advantage
from pufferlib.gradients import Drawn, NetworkGradients, TorchGradients
from pufferlib.optimizers import fit_to_graphs, make_optimizer, set_learning_rate
from pufferlib.profile import Profile
from pufferlib.rollout import Rollout


class Learner:
    """Trains a policy on a rollout that is filled again and again.

    Before each minibatch the advantages of all segments are computed anew from the values and ratios as they are by
    then; segments are drawn by the size of their advantages, without replacement.

    Attributes:
        optimizer: steps the policy's parameters.
        learning_rate: that of the last step.
    """

    def __init__(
        self,
        gradients: TorchGradients | NetworkGradients,
        device: torch.device,
        generator: torch.Generator,
        profile: Profile,
        ranks: Ranks,
        is_captured: bool = False,
        capture: Capture | None = None,
    ):
        """Makes the optimizer.

        Args:
            gradients: differentiates the policy; has the rollout and the settings.
            device: the policy's.
            generator: draws the minibatches.
            profile: where the time of each phase is added up.
            ranks: the processes whose gradients are averaged.
            is_captured: whether minibatches are replayed as CUDA graphs, where the settings let them; not where other
                processes are waited for.
            capture: as for CapturedCall.
        """
        self.rollout = rollout = gradients.rollout
        self.config = config = gradients.config
        self.device = device
        self._gradients = gradients
        self._generator = generator
        self._profile = profile
        self._ranks = ranks
        self.optimizer = make_optimizer(
            config.optimizer,
            gradients.parameters,
            config.learning_rate,
            (config.adam_beta1, config.adam_beta2),
            config.adam_eps,
            config.weight_decay,
        )
        can_be_captured = config.optimizer != "sgd" and not config.cpu_offload and ranks.world_size == 1
        self._is_captured = is_captured and can_be_captured
        self._capture = capture
        self._fit_optimizer()
        self.learning_rate = config.learning_rate
        self._metric_sums = torch.zeros(len(losses.METRICS), device=device)
        self._beta = torch.zeros((), device=device)  # of the importance weights: (S p)^-beta
        self._inputs = AdvantageInputs(rollout)
        self._minibatches_due = 0.0
        self._is_full = True  # no agent was absent from the rollout
        self._summary = self._metric_sums[:0]  # of all processes, once it was exchanged
        self._metrics: dict[str, float] = {}

    def _fit_optimizer(self) -> None:
        """Readies the optimizer for capture, or for none; captures begin anew."""
        fit_to_graphs(self.optimizer, self.device if self._is_captured else None)
        self._graphs: dict[bool, CapturedCall] = {}  # by whether every agent was there

    def prepare(self) -> None:
        """Takes from a new rollout what does not change while it is trained on."""
        with self._profile.queued_phase("advantage"):
            self._inputs.take(self.rollout)

    def learn(self, learning_rate: float, progress: float, is_full: bool) -> dict[str, float]:
        """Trains on the rollout for `update_epochs`; what is left of a minibatch is carried over to the next call.

        Args:
            learning_rate: for all steps of this call.
            progress: of the whole run, 0 to 1.
            is_full: whether every agent was there at every step.

        Returns:
            The means of losses.METRICS over the minibatches and `explained_variance`, both over all processes; those
            of the last call when less than one minibatch was due.
        """
        self.learning_rate = learning_rate
        set_learning_rate(self.optimizer, learning_rate)
        config = self.config
        self._beta.fill_(config.prio_beta0 + (1.0 - config.prio_beta0) * config.prio_alpha * progress)
        self._metric_sums.zero_()
        self._is_full = is_full
        self._minibatches_due += config.minibatches_per_epoch
        count = math.floor(self._minibatches_due + 1e-6)  # sums of fractions are rounded
        self._minibatches_due -= count
        with self._gradients.limit_caller():
            for index in range(count):
                if self._is_captured:
                    self._replay_minibatch()
                else:
                    self.train_minibatch(summary_count=count if index == count - 1 else 0)
            if count:  # else less than one minibatch was due
                with self._profile.queued_phase("learn"):  # here the host waits for the GPU
                    self._metrics = self._read_metrics(count)
        return dict(self._metrics)

    def train_minibatch(self, summary_count: int = 0) -> None:
        """One optimizer step; adds its metrics to their sums on the device.

        Args:
            summary_count: minibatches in the sums by then, where this is the last one: what is to be reported is
                averaged over the processes together with the gradients, as every message is a wait.
        """
        with self._profile.queued_phase("advantage"):
            drawn = self._draw()
        with self._profile.queued_phase("learn"):
            self._differentiate(drawn)
        if self._ranks.world_size > 1:
            with self._profile.queued_phase("communicate"):
                own = self._summarize(summary_count) if summary_count else self._metric_sums[:0]
                self._summary = self._ranks.average_gradients(self._gradients.parameters, own)
        with self._profile.queued_phase("learn"):
            self._step()

    def _replay_minibatch(self) -> None:
        """As `train_minibatch`, by a graph, which hides its parts: the time of all of them is that of `learn`."""
        if self._is_full not in self._graphs:
            stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
            self._graphs[self._is_full] = CapturedCall(self._work, self._generator, stream, self._capture)
        with self._profile.queued_phase("learn"):
            self._graphs[self._is_full]()

    def _work(self) -> None:
        """What a graph records: it reads and writes tensors alone, and times nothing."""
        self._differentiate(self._draw())
        self._step()

    def _draw(self) -> Drawn:
        """Draws a minibatch by the advantages as they are now."""
        rollout, config = self.rollout, self.config
        advantages = self.compute_advantages()
        probabilities = losses.segment_probabilities(self._present(advantages), config.prio_alpha)
        rows = losses.draw_segments(probabilities, config.minibatch_segments, self._generator)
        importance = (rollout.segments * probabilities[rows]).pow(-self._beta).unsqueeze(1)
        weights = self._weights(rows)
        chosen = advantages[rows]
        normalized = importance * losses.normalize(chosen, weights)
        return Drawn(rows, chosen, normalized, weights, self._inputs.resets)

    def _differentiate(self, drawn: Drawn) -> None:
        self.optimizer.zero_grad()
        self._metric_sums += self._gradients.differentiate(drawn)

    def _step(self) -> None:
        nn.utils.clip_grad_norm_(self._gradients.parameters, self.config.max_grad_norm)
        self.optimizer.step()

    def compute_advantages(self) -> Tensor:
        """Advantages `(segments, horizon)` from the values and ratios as they are now; a view of a reused tensor."""
        rollout, config, inputs = self.rollout, self.config, self._inputs
        rewards = losses.bootstrap_truncations(
            rollout.rewards, rollout.values, inputs.cuts, config.gamma, out=inputs.rewards
        )
        compute_puff_advantage(
            rollout.values,
            rewards,
            inputs.ends,
            rollout.ratios,
            inputs.advantages,
            config.gamma,
            config.gae_lambda,
            config.vtrace_rho_clip,
            config.vtrace_c_clip,
        )
        return inputs.advantages[:, :-1]

    def _present(self, advantages: Tensor) -> Tensor:
        """The advantages with 0 for absent agents."""
        return advantages if self._is_full else advantages * self.rollout.masks[:, :-1]

    def _weights(self, rows: Tensor | slice) -> Tensor | None:
        """`(rows, horizon)` with mean 1 and 0 for absent agents; None when every agent was there."""
        if self._is_full:
            return None
        present = self.rollout.masks[rows, :-1].float()
        return present / present.mean().clamp(min=1e-8)

    def _summarize(self, count: int) -> Tensor:
        """The means over `count` minibatches, and the explained variance."""
        advantages, values = self.compute_advantages(), self.rollout.values[:, :-1]
        explained = losses.explained_variance(values, advantages + values, self._weights(slice(None))).unsqueeze(0)
        return torch.cat([self._metric_sums / count, explained])

    def _read_metrics(self, count: int) -> dict[str, float]:
        """The summary of all processes: the one device synchronisation of `learn`."""
        summary = self._summary if self._ranks.world_size > 1 else self._summarize(count)
        return dict(zip((*losses.METRICS, "explained_variance"), summary.tolist(), strict=True))

    def state_dict(self) -> dict[str, Any]:
        """What a later process needs beside the policy's weights."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "minibatches_due": self._minibatches_due,
            "metrics": dict(self._metrics),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts back what `state_dict` returned."""
        self.optimizer.load_state_dict(state["optimizer"])
        self._fit_optimizer()
        self.learning_rate = float(self.optimizer.param_groups[0]["lr"])
        self._minibatches_due = state["minibatches_due"]
        self._metrics = dict(state["metrics"])


class AdvantageInputs:
    """What the advantages of one rollout are computed from again and again, in the form that the kernel takes.

    Attributes:
        ends: `(S, T + 1)` float32, 1 where the observation is the first of an episode.
        resets: `(S, T)` bool, the same for the columns that are trained on.
        cuts: `(S, T + 1)` float32, 1 where a limit ended the episode and the task did not.
        rewards: `(S, T + 1)` float32, to be written.
        advantages: `(S, T + 1)` float32, to be written.
    """

    def __init__(self, rollout: Rollout):
        self.ends, self.cuts, self.rewards, self.advantages = (torch.zeros_like(rollout.values) for _ in range(4))
        self.resets = torch.zeros_like(rollout.logprobs, dtype=torch.bool)

    def take(self, rollout: Rollout) -> None:
        """Takes the ends of episodes from a rollout that was just filled."""
        ends = rollout.terminals | rollout.truncations
        self.ends.copy_(ends)
        self.resets.copy_(ends[:, :-1])
        self.cuts.copy_(rollout.truncations & ~rollout.terminals)
