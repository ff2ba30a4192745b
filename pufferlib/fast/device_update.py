"""The update on a GPU in few kernels: the draw of a minibatch, the loss and its gradient; see extensions/ppo.cu."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Normal
from typing_extensions import override

from pufferlib.extensions.cpu_library import STRUCTURES
from pufferlib.extensions.cuda_library import can_run, declared, launch
from pufferlib.ppo.advantages import Minibatch, SegmentMinibatches
from pufferlib.ppo.learner import Gradients
from pufferlib.ppo.losses import METRICS

WARP = 32
SEGMENTS_PER_BLOCK = 4  # a warp for each
DRAWING_THREADS = 1024  # BLOCK of warp.h
THREADS_PER_BLOCK = 128

_launch = functools.partial(launch, "ppo")


def has_kernels(device: torch.device) -> bool:
    """Whether the kernels run on a device; where a GPU of NVIDIA's cannot, the first call says why in a warning."""
    return device.type == "cuda" and torch.version.cuda is not None and can_run("ppo", device)


class DeviceMinibatches(SegmentMinibatches):
    """Draws as SegmentMinibatches does, by other random numbers; by three kernels where every agent was there."""

    def draw_ready(self) -> Minibatch:
        """Draws the next minibatch, ready for the loss."""
        rollout, config = self._rollout, self._config
        if self._advantages.learned is not None or not has_kernels(rollout.values.device):
            return self.draw().ready_for_loss(config.norm_adv)
        advantages, count, steps = self._advantages.compute(), config.minibatch_segments, rollout.horizon
        priorities, means, squares, clocks = advantages.new_empty(4, rollout.segments)
        grid, block = -(-rollout.segments // SEGMENTS_PER_BLOCK), (WARP, SEGMENTS_PER_BLOCK)
        sizes = rollout.segments, steps + 1
        _launch("puffer_segments", grid, block, (advantages, priorities, means, squares, *sizes, (config.prio_alpha,)))
        clocks.exponential_(generator=self._generator)
        rows, moments = clocks.new_empty(count, dtype=torch.int64), clocks.new_empty(2)
        importance = clocks.new_empty(count, 1) if self._is_uneven else None
        drawn = rows, importance, moments, rollout.segments, count, steps
        _launch("puffer_draw", 1, (DRAWING_THREADS, 1), (priorities, means, squares, clocks, self._beta, *drawn))
        old_values, returns, ready = clocks.new_empty(3, count, steps)
        resets = clocks.new_empty(count, steps, dtype=torch.bool)
        given = rows, importance, moments if config.norm_adv else None, advantages, rollout.values
        results = resets, old_values, returns, ready
        _launch(
            "puffer_gather",
            -(-count * steps // THREADS_PER_BLOCK),
            (THREADS_PER_BLOCK, 1),
            (*given, self._advantages.resets, *results, count, steps),
        )
        return Minibatch(rows, resets, old_values, returns, advantages=ready, importance=importance, weights=None)


class DeviceGradients(Gradients):
    """Differentiates PPO's loss by one kernel, and the policy behind it by torch.

    Decisions that have both choices and numbers, or deviations that depend on the observation, are left to torch.
    """

    @functools.cached_property
    def _columns(self) -> Tensor:  # as all constants, made before the capture
        rollout = self.rollout
        return torch.arange(rollout.horizon, device=rollout.values.device) * rollout.segments

    @functools.cached_property
    def _part_sizes(self) -> dict[tuple[int, ...], Tensor]:
        return {}

    @override
    def gather_observations(self, rows: Tensor) -> Tensor:
        places = rows.unsqueeze(1) + self._columns
        gathered = self.rollout.by_column.flatten(0, 1).index_select(0, places.flatten())
        return gathered.unflatten(0, places.shape)

    @override
    def differentiate(self, minibatch: Minibatch) -> Tensor:
        self.clear()
        parts = minibatch.split(self.config.max_minibatch_size // self.rollout.horizon)
        return functools.reduce(torch.add, [self._differentiate(part, len(part) / len(minibatch)) for part in parts])

    def _differentiate(self, part: Minibatch, share: float) -> Tensor:
        logits, values = self.outputs(part)
        decision = (logits,) if isinstance(logits, Tensor | Normal) else logits
        if not (all(isinstance(each, Tensor) for each in decision) or _is_of_one_deviation(decision)):
            loss = self.loss(*self.evaluate_outputs(part, logits, values), **self.coefficients)
            (loss.total * share).backward()
            return self.keep(loss, part.rows) * share
        return self._by_kernel(part, decision, values, share)

    def _by_kernel(self, part: Minibatch, decision: Sequence[Tensor | Normal], values: Tensor, share: float) -> Tensor:
        rollout, count = self.rollout, part.returns.numel()
        outputs = joined([each.mean if isinstance(each, Normal) else each for each in decision], values, count)
        exact = outputs.detach().float()
        gradients = torch.empty_like(exact)
        grid = -(-count // THREADS_PER_BLOCK)
        sums = exact.new_empty(grid * (THREADS_PER_BLOCK // WARP), len(METRICS))
        tensors = {
            **{name: getattr(part, name) for name in ("rows", "old_values", "advantages", "returns", "weights")},
            **{"old_logprobs": rollout.logprobs, "ratios": rollout.ratios, "values": rollout.values},
            **{"outputs": exact, "gradients": gradients, "sums": sums},
        }
        places = {name: None if each is None else each.data_ptr() for name, each in tensors.items()}
        sizes = {"width": exact.shape[-1], "count": count, "horizon": rollout.horizon}
        batch = declared("ppo").structures["PpoBatch"](**places, **sizes)
        names = [name for name, _ in STRUCTURES["PpoCoefficients"]._fields_]
        settings = batch, tuple(self.coefficients[name] for name in names), (share / count,)
        if isinstance(decision[0], Normal):
            deviations = decision[0].stddev.flatten(0, -2)[0]  # those of one step, the same in all
            normal = torch.stack([deviations.log(), deviations]).detach()
            grad_logarithms = exact.new_empty(count, len(deviations))
            of_numbers = rollout.actions, normal, grad_logarithms, len(deviations)
            _launch("puffer_ppo_numbers", grid, (THREADS_PER_BLOCK, 1), (*of_numbers, *settings))
            found = {outputs: gradients.to(outputs.dtype), deviations: grad_logarithms.sum(0) / normal[1]}
            differentiable = [each for each in found if each.requires_grad]
            torch.autograd.backward(differentiable, [found[each] for each in differentiable])
        else:
            parts = tuple(each.shape[-1] for each in decision)
            if parts not in self._part_sizes:
                self._part_sizes[parts] = torch.tensor(parts, device=exact.device)
            of_choices = rollout.actions, self._part_sizes[parts], len(parts)
            _launch("puffer_ppo_choices", grid, (THREADS_PER_BLOCK, 1), (*of_choices, *settings))
            outputs.backward(gradients.to(outputs.dtype))
        return sums.sum(0)


def _is_of_one_deviation(decision: Sequence[Tensor | Normal]) -> bool:
    return len(decision) == 1 and not any(decision[0].stddev.stride()[:-1])


def joined(decision: Sequence[Tensor], values: Tensor, count: int) -> Tensor:
    """One tensor `(count, width)` of logits or means and values; that of the last layer where they are its columns."""
    parts = [*decision, values if values.dim() == decision[0].dim() else values.unsqueeze(-1)]
    layer = values._base
    if layer is None or not _are_columns(parts, layer, count):
        return torch.cat([part.reshape(count, -1) for part in parts], 1)
    return layer


def _are_columns(parts: Sequence[Tensor], layer: Tensor, count: int) -> bool:
    width, place = sum(part.shape[-1] for part in parts), layer.storage_offset()
    for part in parts:
        rows = torch.empty(*part.shape[:-1], width, device="meta")
        if part._base is not layer or (part.storage_offset(), part.stride()) != (place, rows.stride()):
            return False
        place += part.shape[-1]
    return layer.is_contiguous() and (layer.numel(), layer.shape[-1]) == (count * width, width)
