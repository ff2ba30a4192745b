"""The gradients of a minibatch whose observations lie in the CPU's memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor, nn
from typing_extensions import override

from pufferlib.config import ResolvedTrainConfig
from pufferlib.ppo.gradients import Gradients, Loss
from pufferlib.ppo.losses import ppo_loss
from pufferlib.ppo.rollout import Rollout


class GatheringGradients(Gradients):
    """Gathers observations into memory that is reused, and pinned where a GPU reads it; each thread has its own.

    A fresh tensor of many megabytes costs a page fault for every 4 KB of it.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        config: ResolvedTrainConfig,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
        loss: Loss = ppo_loss,
    ):
        super().__init__(policy, rollout, config, autocast, loss)
        self._memory = threading.local()

    @override
    def gather_observations(self, rows: Tensor) -> Tensor:
        stored, memory = self.rollout.observations, getattr(self._memory, "observations", ())
        if len(memory) < len(rows):
            memory = stored.new_empty((len(rows), *stored.shape[1:]), pin_memory=stored.is_pinned())
            self._memory.observations = memory
        return self.rollout.gather_observations(rows, out=memory[: len(rows)]).to(self.rollout.values.device)
