"""The update on a GPU in few kernels: the draw of a minibatch, the loss and its gradient; see extensions/ppo.cu."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Normal
from typing_extensions import override

from pufferlib.extensions import ppo
from pufferlib.fast.followed import stale_files
from pufferlib.ppo.advantages import Minibatch, SegmentMinibatches
from pufferlib.ppo.learner import Gradients


class DeviceMinibatches(SegmentMinibatches):
    """Draws as SegmentMinibatches does, by other random numbers; by three kernels where every agent was there.

    Where advantages.py or losses.py was edited, it draws by them.
    """

    def draw_ready(self) -> Minibatch:
        """Draws the next minibatch, ready for the loss."""
        config, values = self._config, self._rollout.values
        if self._advantages.learned is not None or stale_files() or not ppo.has_kernels(values.device):
            return self.draw().ready_for_loss(config.norm_adv)
        beta = self._beta if self._is_uneven else None
        drawing = ppo.Draw(config.minibatch_segments, config.prio_alpha, beta, config.norm_adv, self._generator)
        found = ppo.draw_minibatch(self._advantages.compute(), values, self._advantages.resets, drawing)
        return Minibatch(**found, weights=None)


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
    def _differentiate_part(self, part: Minibatch, num_rows: int) -> Tensor:
        (logits, values), share = self.outputs(part), len(part) / num_rows
        decision = (logits,) if isinstance(logits, Tensor | Normal) else logits
        are_choices = all(isinstance(each, Tensor) for each in decision)
        if not are_choices and (len(decision) > 1 or any(decision[0].stddev.stride()[:-1])):
            loss = self.loss_of(part, logits, values)
            (loss.total * share).backward()
            return self.keep(loss, part.rows) * share
        return self._by_kernel(part, decision, values, share)

    def _by_kernel(self, part: Minibatch, decision: Sequence[Tensor | Normal], values: Tensor, share: float) -> Tensor:
        rollout, count = self.rollout, part.returns.numel()
        outputs = joined([each.mean if isinstance(each, Normal) else each for each in decision], values, count)
        exact = outputs.detach().float()
        gradients = torch.empty_like(exact)
        tensors = {
            **{name: getattr(part, name) for name in ("rows", "old_values", "advantages", "returns", "weights")},
            **{"old_logprobs": rollout.logprobs, "ratios": rollout.ratios, "values": rollout.values},
            **{"outputs": exact, "gradients": gradients},
        }
        differentiate = functools.partial(
            ppo.differentiate_loss,
            tensors=tensors,
            horizon=rollout.horizon,
            coefficients=self.coefficients,
            share=share,
        )
        if isinstance(decision[0], Normal):
            deviations = decision[0].stddev.flatten(0, -2)[0]  # those of one step, the same in all
            normal = torch.stack([deviations.log(), deviations]).detach()
            numbers = ppo.Numbers(rollout.actions, normal, exact.new_empty(count, len(deviations)))
            metrics = differentiate(numbers)
            found = {outputs: gradients.to(outputs.dtype), deviations: numbers.gradients.sum(0) / normal[1]}
            differentiable = [each for each in found if each.requires_grad]
            torch.autograd.backward(differentiable, [found[each] for each in differentiable])
        else:
            sizes = tuple(each.shape[-1] for each in decision)
            if sizes not in self._part_sizes:
                self._part_sizes[sizes] = torch.tensor(sizes, device=exact.device)
            metrics = differentiate(ppo.Choices(rollout.actions, self._part_sizes[sizes]))
            outputs.backward(gradients.to(outputs.dtype))
        return metrics


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
