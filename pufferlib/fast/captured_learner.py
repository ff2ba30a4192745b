"""The update phase by a CUDA graph: a minibatch, from the draw to the optimizer's step, is one launch."""

from __future__ import annotations

import torch
from torch.optim import Optimizer
from typing_extensions import override

from pufferlib.fast.cuda_graphs import Capture, CapturedCall
from pufferlib.fast.optimizers import fit_to_graphs
from pufferlib.metrics.phases import Phases
from pufferlib.ppo.gradients import Gradients
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.rollout import Rollout


class CapturedLearner(Learner):
    """Records the first minibatches and replays them; all of their time counts as phase `learn`."""

    def __init__(
        self,
        rollout: Rollout,
        gradients: Gradients,
        optimizer: Optimizer,
        generator: torch.Generator,
        phases: Phases,
        *,
        capture: Capture | None = None,
    ):
        super().__init__(rollout, gradients, optimizer, generator, phases)
        self._capture = capture
        self.follow(self.gradients, self.optimizer)

    @override
    def follow(self, gradients: Gradients, optimizer: Optimizer) -> None:
        super().follow(gradients, optimizer)
        fit_to_graphs(optimizer, self.rollout.values.device)
        self._graphs: dict[bool, CapturedCall] = {}  # by whether every agent was there

    @override
    def train_minibatch(self) -> None:
        if self._is_full not in self._graphs:
            device = self.rollout.values.device
            stream = torch.cuda.Stream(device) if device.type == "cuda" else None
            self._graphs[self._is_full] = CapturedCall(self._work, self._generator, stream, self._capture)
        with self._phases.queued_phase("learn"):
            self._graphs[self._is_full]()

    def _work(self) -> None:
        # A graph records this: it reads and writes tensors alone, and times nothing.
        minibatch = self._minibatches.draw().ready_for_loss(self.config.norm_adv)
        self._sums.add(self.gradients.differentiate(minibatch))
        self._step()
