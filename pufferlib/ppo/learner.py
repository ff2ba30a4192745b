"""The update phase: minibatches drawn from a rollout, and a step of the optimizer for each."""

from __future__ import annotations

import inspect
import math
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pufferlib.config import ResolvedTrainConfig
from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError, ConfigError, DivergedError
from pufferlib.extensions.optimizers import set_learning_rate
from pufferlib.metrics.finite import is_finite
from pufferlib.metrics.measures import MetricSums, Phases
from pufferlib.policy import Logits, training_forward
from pufferlib.ppo import losses
from pufferlib.ppo.advantages import Advantages, Minibatch, SegmentMinibatches, StepMinibatches, mask_weights
from pufferlib.ppo.losses import METRICS, PPOLoss, ppo_loss
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits

Loss = Callable[..., PPOLoss]
"""A function of the signature of `losses.ppo_loss`."""


class Gradients:
    """Differentiates the loss of a policy."""

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,  # is trained on; it may be the `single_steps` of the one that is collected
        config: ResolvedTrainConfig,
        autocast: Callable[[], AbstractContextManager] = nullcontext,  # the precision that the policy computes in
        loss: Loss = ppo_loss,
    ):
        self.policy = policy
        self.rollout = rollout
        self.config = config
        self.all_parameters = list(policy.parameters())  # of the optimizer, in this order: frozen ones too
        self.parameters = [parameter for parameter in self.all_parameters if parameter.requires_grad]
        self.loss, self.coefficients = loss, coefficients(loss, config)
        self.metric_names: tuple[str, ...] = METRICS  # of what `differentiate` returns
        self._forward = training_forward(policy, _compiled(policy, config) if config.compile else policy)
        self._is_recurrent = hasattr(policy, "initial_state")
        self._autocast = autocast
        self._memory = threading.local()

    def differentiate(self, minibatch: Minibatch) -> Tensor:
        """Sets the gradients of the loss over a minibatch, and writes its new ratios and values into the rollout.

        Parts of at most `max_minibatch_size` steps go one after the other: their gradients, and the metrics that are
        returned, `(len(metric_names),)` float32, add up to the means over the whole.
        """
        self.clear()
        parts = minibatch.split(self.config.max_minibatch_size // self.rollout.horizon)
        first, *others = [self._differentiate_part(part, len(minibatch)) for part in parts]
        return sum(others, first)

    def _differentiate_part(self, part: Minibatch, num_rows: int) -> Tensor:
        loss, share = self.loss_of(part, *self.outputs(part)), len(part) / num_rows
        metrics = self.keep(loss, part.rows) * share
        (loss.total * share).backward()
        return metrics

    def clear(self) -> None:
        """Drops all gradients: a parameter that was frozen since would still be stepped."""
        for parameter in self.all_parameters:
            parameter.grad = None

    def outputs(self, minibatch: Minibatch) -> tuple[Logits, Tensor]:
        """The policy's logits and values of a minibatch's steps, by segment where the policy is recurrent."""
        rollout, rows, state = self.rollout, minibatch.rows, {}
        observations = self.gather_observations(rows)
        if self._is_recurrent:
            state = {name: value.index_select(0, rows) for name, value in rollout.states.items()}
            state["resets"] = minibatch.resets
        else:
            observations = observations.flatten(0, 1)
        with self._autocast():
            return self._forward(observations, state)

    def loss_of(self, minibatch: Minibatch, logits: Logits, values: Tensor) -> PPOLoss:
        """The loss of a minibatch, from what `outputs` returned; writes the new values into the rollout."""
        rollout, rows, shape = self.rollout, minibatch.rows, minibatch.returns.shape
        actions, masks = rollout.actions.index_select(0, rows), rollout.action_masks
        masks = None if masks is None else masks[rows].contiguous()
        if not self._is_recurrent:
            actions, masks = actions.flatten(0, 1), None if masks is None else masks.flatten(0, 1)
        _, logprobs, entropy = sample_logits(logits, action=actions, masks=masks)
        logprobs, values, entropy = logprobs.view(shape), values.float().view(shape), entropy.view(shape)
        rollout.values[rows, :-1] = values.detach()
        old = rollout.logprobs[rows], minibatch.old_values
        targets = minibatch.advantages, minibatch.returns, minibatch.weights
        return self.loss(logprobs, values, entropy, *old, *targets, **self.coefficients)

    def gather_observations(self, rows: Tensor) -> Tensor:
        """Returns `(rows, horizon, *observation_shape)` on the policy's device, valid until the thread's next call."""
        rollout, out = self.rollout, None
        steps = rollout.by_column.flatten(0, 1)
        columns = torch.arange(rollout.horizon, device=steps.device) * rollout.segments
        places = rows.to(steps.device).unsqueeze(1) + columns
        if steps.device.type == "cpu":  # a fresh tensor costs a page fault for every 4 KB of it
            memory = getattr(self._memory, "observations", ())
            if len(memory) < places.numel():
                memory = steps.new_empty((places.numel(), *steps.shape[1:]), pin_memory=steps.is_pinned())
                self._memory.observations = memory
            out = memory[: places.numel()]
        gathered = torch.index_select(steps, 0, places.flatten(), out=out)
        return gathered.unflatten(0, places.shape).to(rollout.values.device)

    def keep(self, loss: PPOLoss, rows: Tensor) -> Tensor:
        """Writes the ratios into rows of the rollout; returns the metrics in one tensor, named in `metric_names`."""
        if not isinstance(loss, PPOLoss):
            raise APIUsageError(f"a loss must return a PPOLoss(total, metrics, ratio), got {type(loss).__name__}")
        self.rollout.ratios[rows, :-1] = loss.ratio.detach()  # a loss of a user's own may not have
        self.metric_names = tuple(loss.metrics)
        metrics = [torch.as_tensor(metric, device=loss.total.device).detach() for metric in loss.metrics.values()]
        if any(metric.numel() != 1 for metric in metrics):
            raise APIUsageError("a loss's metrics must be single numbers, got several in one; take their mean")
        return torch.stack([metric.float().reshape(()) for metric in metrics]) if metrics else loss.total.new_zeros(0)

    def clip(self, limit: float) -> None:
        """Scales the parameters' gradients so that the norm of all together is at most `limit`."""
        # LaTeX: \nabla \leftarrow \nabla \min(1, c / (\lVert \nabla \rVert_2 + 10^{-6})) ; c = limit
        nn.utils.clip_grad_norm_(self.parameters, limit)

    def limit_caller(self) -> AbstractContextManager:
        """A context for the thread that steps the environments and the optimizer; subclasses limit its cores."""
        return nullcontext()

    def close(self) -> None:
        """Ends threads; it may be called again."""


def _compiled(policy: nn.Module, config: ResolvedTrainConfig) -> Callable[..., tuple[Logits, Tensor]]:
    called = torch.compile(policy, mode=config.compile_mode, fullgraph=config.compile_fullgraph)

    def call(*inputs: Any) -> tuple[Logits, Tensor]:
        try:
            return called(*inputs)
        except (torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
            reason, *_ = str(error).strip().splitlines()
            line = re.findall(r'File "(.+)", (line \d+)', str(error))[-1:]  # the innermost of the user's own
            where = ", ".join([reason.rstrip("."), *(part for place in line for part in place)])
            raise ConfigError(
                f"[train] compile is True, but torch.compile failed on the policy {type(policy).__name__} ({where}); "
                "mend that, or set compile_fullgraph or compile to False"
            ) from error

    return call


def coefficients(loss: Loss, config: ResolvedTrainConfig) -> dict[str, Any]:
    """Returns the settings that a loss names as its keywords, but for those that a functools.partial has bound.

    Of a loss with `**kwargs` those of `ppo_loss`. Raises APIUsageError for a keyword that is no setting and has no
    default.
    """
    settings = {name: getattr(config, name) for name in config.settings()}
    if not config.clip_vloss:
        settings["vf_clip_coef"] = math.inf
    parameters = [*inspect.signature(loss).parameters.values()]
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        parameters = [*inspect.signature(ppo_loss).parameters.values()]
    bound = getattr(loss, "keywords", {})
    keywords = [each for each in parameters if each.kind is each.KEYWORD_ONLY and each.name not in bound]
    for each in keywords:
        if each.name not in settings and each.default is each.empty:
            raise APIUsageError(
                f"the keywords of a loss must be [train] settings or have defaults, got {each.name!r}; "
                "add it to config/schema.py, or bind it by functools.partial"
            )
    return {each.name: settings[each.name] for each in keywords if each.name in settings}


class Learner:
    """Trains a policy on a rollout that is filled again and again."""

    def __init__(
        self,
        rollout: Rollout,
        gradients: Gradients,  # differentiates the policy, over `rollout` or over its `single_steps`
        optimizer: Optimizer,  # steps `gradients.all_parameters`
        generator: torch.Generator,
        phases: Phases,
        ranks: Ranks | None = None,  # of all that learn together; None for this process alone
    ):
        self.rollout = rollout
        self.config = config = gradients.config
        self.learning_rate = config.learning_rate  # of the last step
        self.follow(gradients, optimizer)
        self.minibatches_due = 0.0  # the fraction of one that is carried over to the next rollout
        self.metrics: dict[str, float] = {}  # of the last `learn`
        self.weight_norm = 0.0  # of all parameters after the last `learn`
        self.skipped_minibatches = 0  # in the last `learn` of this process, by `[train] skip_nonfinite`
        self._advantages = Advantages(rollout, config)
        self._generator = generator
        self._minibatches = self._make_minibatches()
        self._phases = phases
        self._ranks = ranks or Ranks()
        self._is_full = True  # no agent was absent from any process's rollout
        self._due = self._trained = 0  # minibatches of this rollout
        self._stepped = 0  # those that the optimizer stepped for
        self._kl_before: float | Tensor = 0.0  # the sum of approx_kl at the end of the pass before
        self._sums = MetricSums()

    def _make_minibatches(self) -> SegmentMinibatches | StepMinibatches:
        if self.config.shuffle == "steps":
            return StepMinibatches(self.rollout, self.gradients.rollout, self._advantages, self._generator)
        return SegmentMinibatches(self.rollout, self._advantages, self._generator)

    def follow(self, gradients: Gradients, optimizer: Optimizer) -> None:
        """Continues with these, after the policy was changed or the optimizer has loaded a state."""
        self.gradients, self.optimizer = gradients, optimizer
        set_learning_rate(optimizer, self.learning_rate)

    def prepare(self) -> None:
        """Loads from a new rollout what does not change while it is trained on."""
        with self._phases.queued_phase("advantage"):
            self._advantages.load()

    def learn(
        self, learning_rate: float, progress: float, is_full: bool, meanwhile: Callable[[], object] = lambda: None
    ) -> dict[str, float]:
        """Trains on the rollout for `update_epochs`; the fraction of a minibatch is carried over to the next call.

        Args:
            learning_rate: for all steps of this call.
            progress: of the whole run, 0 to 1.
            is_full: whether every agent of every process was there at every step, and after the last one.
            meanwhile: is called when all minibatches are done, or queued on a GPU, which then is waited for.

        Returns:
            The means of the loss's metrics over the minibatches and `explained_variance`, both over all processes;
            those of the last call when less than one minibatch was due.
        """
        self.learning_rate = learning_rate
        set_learning_rate(self.optimizer, learning_rate)
        self._sums.clear()
        self._is_full, self._trained, self._kl_before = is_full, 0, 0.0
        self._stepped = self.skipped_minibatches = 0
        self.minibatches_due += self.config.minibatches_per_epoch
        self._due = math.floor(self.minibatches_due + 1e-6)  # sums of fractions are rounded
        self.minibatches_due -= self._due
        with self.gradients.limit_caller():
            self._minibatches.begin(progress, is_full)
            while self._trained < self._due and not self._is_beyond_target():
                self._trained += self.train_minibatches()
            meanwhile()
            if self._trained:
                with self._phases.queued_phase("learn"):  # here the host waits for the GPU
                    self.metrics = self._read_metrics()
        return dict(self.metrics)

    def require_steps(self) -> None:
        """Raises a DivergedError if there were minibatches, and all of them were skipped."""
        if self.config.skip_nonfinite and self._trained and self._stepped == 0:
            raise DivergedError(
                f"all {self._trained} minibatches had a loss or gradient that is infinite or NaN, and [train] "
                "skip_nonfinite leaves nothing to step by; lower learning_rate, or look at the policy and the loss"
            )

    def train_minibatches(self) -> int:
        """Trains on one minibatch or more, at most those that are due and none of a later pass; returns how many."""
        self.train_minibatch()
        return 1

    def train_minibatch(self) -> None:
        """Makes one optimizer step; adds the minibatch's metrics to their sums on the device."""
        with self._phases.queued_phase("advantage"):
            minibatch = self._minibatches.draw().ready_for_loss(self.config.norm_adv)
        with self._phases.queued_phase("learn"):
            self._differentiate(minibatch)
            self._step()

    def _differentiate(self, minibatch: Minibatch) -> None:
        # Sets the gradients and adds the metrics; a minibatch that is to be skipped leaves nothing behind.
        if not self.config.skip_nonfinite:
            self._sums.add(self.gradients.differentiate(minibatch))
            return
        rollout, rows = self.gradients.rollout, minibatch.rows
        before = [(kept, kept[rows]) for kept in (rollout.values, rollout.ratios)]
        metrics = self.gradients.differentiate(minibatch)
        if all(map(is_finite, (metrics, *(kept[rows] for kept, _ in before)))):
            self._sums.add(metrics)
            return
        self._sums.add(torch.zeros_like(metrics))  # which may be the first
        self.skipped_minibatches += 1
        for kept, rows_before in before:
            kept[rows] = rows_before
        for parameter in self.gradients.parameters:
            if parameter.grad is not None:  # so that no process steps, where they are averaged
                parameter.grad.fill_(math.nan)

    def _step(self) -> None:
        gradients = (parameter.grad for parameter in self.gradients.parameters if parameter.grad is not None)
        if self.config.skip_nonfinite and not all(map(is_finite, gradients)):
            return
        self.gradients.clip(self.config.max_grad_norm)
        self.optimizer.step()
        if len(self.optimizer.param_groups) > 1:  # a user may have added those of a loss, say
            own = set(self.gradients.all_parameters)
            for group in self.optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter not in own:  # which `differentiate` does not clear
                        parameter.grad = None
        self._stepped += 1

    def _is_beyond_target(self) -> bool:
        # Whether a pass has just ended that moved the policy by more than `target_kl`; reading it waits for a GPU.
        per_pass = math.ceil(self.config.batch_size / self.config.minibatch_size)
        if self.config.target_kl is None or not self._trained or self._trained % per_pass:
            return False
        kl_so_far = self._sums.approx_kl(self.gradients.metric_names)
        kl = float(kl_so_far - self._kl_before) / per_pass
        self._kl_before = kl_so_far
        return self._ranks.total(kl) / self._ranks.world_size > self.config.target_kl

    def _read_metrics(self) -> dict[str, float]:
        return self._named(self._summary_of(self._stepped_among(self._trained)))

    def _summary_of(self, count: int | Tensor) -> Tensor:
        # What `_named` takes.
        residuals, returns, weights = self._targets()
        explained = losses.explained_variance(losses.variance(residuals, weights), losses.variance(returns, weights))
        return torch.cat([self._sums.means(count), self._weight_norm(), explained.unsqueeze(0)])

    def _stepped_among(self, count: int) -> int:
        # Those of `count` minibatches that were not skipped, at least one.
        return max(1, count - self.skipped_minibatches)

    def _targets(self) -> tuple[Tensor, Tensor, Tensor | None]:
        # Returns minus values, returns, and the weights of the masks: (S, T) each.
        advantages, values = self._advantages.compute(), self.rollout.values[:, :-1]
        learned = self._advantages.learned
        weights = None if learned is None else mask_weights(learned)
        returns = advantages + values
        return returns - values, returns, weights

    def _weight_norm(self) -> Tensor:
        norm = nn.utils.get_total_norm([parameter.detach() for parameter in self.gradients.parameters])
        return norm.float().unsqueeze(0)

    def _named(self, numbers: Tensor) -> dict[str, float]:
        # From (len(metric_names) + 2,): the metrics, the norm of the weights, the explained variance.
        *means, self.weight_norm, explained = numbers.tolist()  # the one device synchronisation of `learn`
        return dict(zip((*self.gradients.metric_names, "explained_variance"), (*means, explained), strict=True))
