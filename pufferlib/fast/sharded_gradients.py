"""The gradients of a minibatch in a few large chunks, one thread each, on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from typing_extensions import override

from pufferlib.config import ResolvedTrainConfig
from pufferlib.fast.gathering_gradients import GatheringGradients
from pufferlib.fast.shards import ThreadedChunks, one_thread, torch_threads
from pufferlib.ppo.gradients import Loss
from pufferlib.ppo.losses import ppo_loss
from pufferlib.ppo.minibatches import Minibatch
from pufferlib.ppo.rollout import Rollout

_MIN_CHUNK_STEPS = 128  # steps of a minibatch that are worth a thread of their own


class ThreadedGradients(GatheringGradients):
    """Gives each thread a chunk of the segments; the results are added in order, so the sum is always the same.

    Where rows cannot be computed apart, one call computes all of them, with torch's own threads.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        config: ResolvedTrainConfig,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
        loss: Loss = ppo_loss,
        *,
        are_rows_apart: bool,  # whether threads may call the policy and the loss at the same time, see RowWise
    ):
        super().__init__(policy, rollout, config, autocast, loss)
        self._num_threads = torch.get_num_threads()
        most = max(1, self.config.minibatch_steps // _MIN_CHUNK_STEPS) if are_rows_apart else 1
        self._chunks = ThreadedChunks(min(self._num_threads, most))
        self._are_rows_apart = are_rows_apart

    @override
    def differentiate(self, minibatch: Minibatch) -> Tensor:
        if not self._are_rows_apart:
            with torch_threads(self._num_threads):
                return super().differentiate(minibatch)
        self.clear()
        parts = minibatch.split(self.config.max_minibatch_size // self.rollout.horizon)
        return sum(self._differentiate_part(part, len(minibatch)) for part in parts)

    def _differentiate_part(self, part: Minibatch, num_rows: int) -> Tensor:
        def differentiate_chunk(rows: slice) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            chunk = part[rows]
            loss = self.loss(*self.evaluate(chunk), **self.coefficients)
            fraction = len(chunk) / num_rows
            metrics = self.keep(loss, chunk.rows) * fraction
            return metrics, torch.autograd.grad(loss.total * fraction, self.parameters, allow_unused=True)

        metrics, gradients = zip(*self._chunks.run(differentiate_chunk, len(part)), strict=True)
        for parameter, *parts in zip(self.parameters, *gradients, strict=True):
            for gradient in parts:
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        return sum(metrics)

    @override
    def limit_caller(self) -> AbstractContextManager:
        return one_thread()

    @override
    def close(self) -> None:
        self._chunks.close()
