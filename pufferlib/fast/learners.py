"""Optimizers by kernels, and learners that replay CUDA graphs or average gradients over processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, optimizer as optimizers
from typing_extensions import override

from pufferlib.extensions.adam import AdamBatch, can_step
from pufferlib.extensions.cpu_library import STRUCTURES
from pufferlib.extensions.optimizers import Adam
from pufferlib.fast.cpu import NetworkGradients
from pufferlib.fast.cuda_graphs import Capture, CapturedCall
from pufferlib.fast.device_update import DeviceMinibatches
from pufferlib.ppo import losses
from pufferlib.ppo.advantages import Minibatch
from pufferlib.ppo.learner import Gradients, Learner


class KernelAdam(Adam):
    """AdamW with torch's settings and torch's state; on a CPU one kernel steps all parameters at once.

    Torch steps where the kernel does not fit: other devices and types, or a learning rate that is a tensor.
    """

    @functools.cached_property
    def _batches(self) -> dict[int, AdamBatch]:
        return {}  # by group

    @override
    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        batches = self._find_batches()
        if closure is not None or None in batches:
            super().step(closure)
            return
        for batch in batches:
            batch.step()

    def steps_of_one_batch(self) -> AdamBatch | None:
        """All parameters that have gradients, to be stepped without `step`; None where that leaves out anything."""
        of_all = optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks
        is_replaced = "step" in vars(self)  # as a scheduler of torch does, or a limit for weights
        if any((is_replaced, self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks, *of_all)):
            return None
        batches = self._find_batches()
        return batches[0] if len(batches) == 1 else None

    def _find_batches(self) -> list[AdamBatch | None]:
        return [self._find_batch(index, group) for index, group in enumerate(self.param_groups)]

    def _find_batch(self, index: int, group: dict[str, Any]) -> AdamBatch | None:
        # None where the kernel does not fit.
        if isinstance(group["lr"], Tensor) or group["capturable"] or group["amsgrad"] or group["maximize"]:
            return None
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self.state[parameter] for parameter in parameters]
        settings = STRUCTURES["AdamSettings"](
            learning_rate=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            epsilon=group["eps"],
            weight_decay=group["weight_decay"],
        )
        batch = self._batches.get(index)
        if batch is None or not batch.holds(parameters, states):
            if not can_step(parameters) or not can_step([parameter.grad for parameter in parameters]):
                return None
            for parameter, state in zip(parameters, states, strict=True):
                if not state:
                    state["step"] = torch.tensor(0.0, dtype=torch.float32)
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
            batch = self._batches[index] = AdamBatch(parameters, states, settings)
        batch.settings = settings
        return batch


def fit_to_graphs(optimizer: Optimizer, device: torch.device) -> None:
    """Lets the steps of `muon` or `adam` be captured as a CUDA graph.

    The learning rate becomes a tensor on the device, and Adam counts its steps there. Loading a state replaces both, so
    call this after it.
    """
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(float(group["lr"]), dtype=torch.float32, device=device)
        if "capturable" in group:
            group["capturable"] = device.type != "cpu"
            group["fused"] = True if device.type != "cpu" else None  # one kernel for all parameters
    for state in optimizer.state.values():
        if "step" in state:
            state["step"] = state["step"].to(device)


def take_over(optimizer: Optimizer, earlier: Optimizer) -> None:
    """Copies hooks, settings, and the state of parameters that kept shape, of an earlier optimizer of the same kind."""
    optimizer._optimizer_step_pre_hooks = earlier._optimizer_step_pre_hooks
    optimizer._optimizer_step_post_hooks = earlier._optimizer_step_post_hooks
    for group, before in zip(optimizer.param_groups, earlier.param_groups, strict=False):
        group.update({name: each for name, each in before.items() if name != "params"})
    own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for parameter, state in earlier.state.items():
        kept = [each for name, each in state.items() if name != "step" and each is not None]
        like = parameter.shape, parameter.dtype, parameter.device
        if parameter in own and all((each.shape, each.dtype, each.device) == like for each in kept):
            optimizer.state[parameter] = state


_MOST_NUMBERS = 1 << 22  # of observations in one call of the kernel, which Ctrl-C waits for


class StepsLearner(Learner):
    """Learns from single steps by one call of the kernel for a pass, where the kernel has both policy and optimizer.

    It takes less time for a few dozen steps than torch's calls to gather them and Python's to begin.
    """

    @override
    def train_minibatches(self) -> int:
        adam = None
        if isinstance(self.gradients, NetworkGradients):
            adam = self.gradients.prepare_steps(self.optimizer)
        if adam is None:
            return super().train_minibatches()
        size, observations = self.config.minibatch_steps, self.rollout.observations
        most = _MOST_NUMBERS // (size * observations[0, 0].numel())
        with self._phases.queued_phase("advantage"):
            drawn = self._minibatches.draw(min(self._due - self._trained, max(1, most)))
        with self._phases.queued_phase("learn"):
            self._sums.add(self.gradients.train(drawn, size, adam))
        count = len(drawn) // size
        self._stepped += count
        return count


class CapturingLearner(Learner):
    """A learner that replays parts of its work, whose tensors stay where they are."""

    capture: Capture | None = None  # what records; None is `capture_graph`

    @override
    def _make_minibatches(self) -> DeviceMinibatches:
        return DeviceMinibatches(self.rollout, self._advantages, self._generator)

    @override
    def follow(self, gradients: Gradients, optimizer: Optimizer) -> None:
        super().follow(gradients, optimizer)
        fit_to_graphs(optimizer, self.rollout.values.device)
        self._count = self.rollout.values.new_zeros(())  # of the minibatches that are summed up
        # By what they do or hold, and whether every agent was there.
        self._graphs: dict[tuple[Callable[..., None], tuple[bool, ...], bool], CapturedCall] = {}
        self._held: dict[tuple[str, bool], Tensor] = {}

    def _run(self, work: Callable[..., None], *arguments: bool) -> None:
        # A graph records the work: it reads and writes tensors alone, and times nothing.
        key = work, arguments, self._is_full
        if key not in self._graphs:
            device = self.rollout.values.device
            stream = torch.cuda.Stream(device) if device.type == "cuda" else None
            self._graphs[key] = CapturedCall(functools.partial(work, *arguments), self._generator, stream, self.capture)
        self._graphs[key]()

    def _hold(self, name: str, tensor: Tensor) -> None:
        # For other parts, in memory that is made before the capture.
        key = name, self._is_full
        if key not in self._held:
            self._held[key] = torch.empty_like(tensor)
        self._held[key].copy_(tensor)

    def _get(self, name: str) -> Tensor | None:
        return self._held.get((name, self._is_full))


class CapturedLearner(CapturingLearner):
    """Records the first minibatches and replays them; all of their time counts as phase `learn`."""

    @override
    def train_minibatch(self) -> None:
        with self._phases.queued_phase("learn"):
            self._run(self._work)

    def _work(self) -> None:
        minibatch = self._minibatches.draw_ready()
        self._sums.add(self.gradients.differentiate(minibatch))
        self._step()

    @override
    def _read_metrics(self) -> dict[str, float]:
        self._count.fill_(self._trained)
        self._run(self._summarize)
        return self._named(self._get("summary"))

    def _summarize(self) -> None:
        self._hold("summary", self._summary_of(self._count))


class DistributedLearner(Learner):
    """Learns together with the other processes: gradients are averaged, in one message for each minibatch.

    Every message waits for the slowest process. So the moments of the next minibatch, or the metrics at the end, go
    along with the gradients.
    """

    _ahead: tuple[Minibatch, Tensor] | None = None  # the next minibatch, and the moments of all shares
    _summaries: Tensor | None = None  # of all processes, once they were exchanged

    @override
    def train_minibatch(self) -> None:
        minibatch = self._next_minibatch()
        with self._phases.queued_phase("learn"):
            self._differentiate(minibatch)
        self._average_gradients()
        with self._phases.queued_phase("learn"):
            self._step()

    def _next_minibatch(self) -> Minibatch:
        if self._ahead is None or self._trained == 0:  # `target_kl` may have ended an earlier call
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
                payload = self._summarize(self._stepped_among(self._due))
        with self._phases.queued_phase("communicate"):
            all_moments = self._ranks.average_gradients(self.gradients.parameters, payload)
        is_last = share is None
        self._summaries, self._ahead = (all_moments, None) if is_last else (None, (share, all_moments))

    def _summarize(self, count: int | Tensor) -> Tensor:
        # Of this process: the means over `count` minibatches, the norm of all weights, and the moments of targets.
        residuals, returns, weights = self._targets()
        of_targets = moments(residuals, weights), moments(returns, weights)
        return torch.cat([self._sums.means(count), self._weight_norm(), *of_targets])

    @override
    def _read_metrics(self) -> dict[str, float]:
        if self._summaries is None:  # `target_kl` ended it before the last minibatch
            self._summaries = self._ranks.gather_numbers(self._summarize(self._stepped_among(self._trained)))
        means, *parts = self._summaries.split([self._summaries.shape[1] - 6, 3, 3], 1)
        unexplained, spread = (merge_moments(part)[2] for part in parts)
        explained = losses.explained_variance(unexplained, spread)
        return self._named(torch.cat([means.mean(0), explained.unsqueeze(0)]))


class CapturedDistributedLearner(CapturingLearner, DistributedLearner):
    """Replays a graph up to the message of each minibatch and another one behind it."""

    @override
    def train_minibatch(self) -> None:
        is_last = self._trained + 1 == self._due
        if self._trained == 0:
            with self._phases.queued_phase("advantage"):
                self._run(self._draw)
            with self._phases.queued_phase("communicate"):
                self._hold("all moments", self._ranks.gather_numbers(self._get("moments")))
        with self._phases.queued_phase("learn"):
            self._count.fill_(self._due)
            self._run(self._differentiate_share, is_last)
        with self._phases.queued_phase("communicate"):
            self._ranks.start_sum(self._get(f"message {is_last}"))()
        with self._phases.queued_phase("learn"):
            self._run(self._step_together, is_last)
        self._summaries = self._get("summaries") if is_last else None

    def _draw(self) -> None:
        share = self._minibatches.draw()
        for field in fields(Minibatch):
            if (tensor := getattr(share, field.name)) is not None:
                self._hold(field.name, tensor)
        self._hold("moments", self._moments(share))

    def _differentiate_share(self, is_last: bool) -> None:
        share = Minibatch(**{field.name: self._get(field.name) for field in fields(Minibatch)})
        ready = normalize_across_ranks(share, self._get("all moments"), self._ranks.rank, self.config.norm_adv)
        self._sums.add(self.gradients.differentiate(ready))
        if not is_last:
            self._draw()
        payload = self._summarize(self._count) if is_last else self._get("moments")
        places = payload.new_zeros(self._ranks.world_size, len(payload))  # one for each process
        places[self._ranks.rank] = payload
        message = [parameter.grad.flatten() for parameter in self._trainable()]
        self._hold(f"message {is_last}", torch.cat([*message, places.flatten()]))

    def _trainable(self) -> list[nn.Parameter]:
        # The same in all processes.
        return [each for each in self.gradients.parameters if each.grad is not None]

    def _step_together(self, is_last: bool) -> None:
        message, trainable = self._get(f"message {is_last}"), self._trainable()
        sizes = [parameter.numel() for parameter in trainable]
        *sums, places = message.split([*sizes, len(message) - sum(sizes)])
        for parameter, total in zip(trainable, sums, strict=True):
            parameter.grad = (total / self._ranks.world_size).view_as(parameter)
        self._hold("summaries" if is_last else "all moments", places.view(self._ranks.world_size, -1))
        self._step()


def normalize_across_ranks(share: Minibatch, all_moments: Tensor, rank: int, is_normalized: bool) -> Minibatch:
    """Makes a process's part of a minibatch ready for gradients that are averaged over all processes.

    Each step of a present agent then counts the same in all processes. `all_moments` are `(processes, 3)` of all parts,
    or `(processes, 0)`; where `is_normalized`, advantages get mean 0 and deviation 1 over all parts.
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
