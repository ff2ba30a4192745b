"""Evaluation while training: the policy plays episodes in environments of its own, with the likeliest actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib.config import ResolvedTrainConfig
from pufferlib.metrics.measures import Phases
from pufferlib.play.player import Episodes, Player, eval_mode
from pufferlib.runs.checkpoint import keep_best
from pufferlib.seeding import mix_seed
from pufferlib.vector import Vector

_SEED_STREAM = 0x6576616C  # no rank of a run has this number, so no training environment has such a seed


class PeriodicEvaluation:
    """Evaluates the policy in evenly spread epochs of a run, and keeps the best weights.

    All evaluations have the same seed, so that two of them differ by the policy alone. They share no state, so that a
    resumed run evaluates like one that never stopped. They leave the training unchanged: they draw none of its random
    numbers or of torch's, and restore the policy's modes and buffers.
    """

    def __init__(
        self,
        config: ResolvedTrainConfig,
        make_vecenv: Callable[[int], Vector] | None,
        policy: nn.Module,
        device: torch.device,
        autocast: Callable[[], AbstractContextManager],
        phases: Phases,
    ):
        self._config = config
        self._seed = mix_seed(config.seed, _SEED_STREAM)
        self._make_vecenv = make_vecenv  # from its seed, at the first evaluation; None where there is none
        self._policy, self._device, self._autocast = policy, device, autocast
        self._phases = phases
        self._player: Player | None = None
        self._metrics: dict[str, float] = {}

    def is_due(self, epoch: int, total: int) -> bool:
        """Returns whether there is an evaluation after `epoch` of `total` epochs, such as the last."""
        count = self._config.evaluations
        # LaTeX: \Big\lfloor \frac{n k}{K} \Big\rfloor > \Big\lfloor \frac{n (k - 1)}{K} \Big\rfloor
        # LaTeX:   ; n = count, k = epoch, K = total
        return epoch * count // total > (epoch - 1) * count // total

    def run(self, folder: Path, facts: dict[str, Any]) -> None:
        """Evaluates, and saves the weights as the `best` of the run's folder if no evaluation there was as good.

        The facts are saved beside them, see `pufferlib.runs.checkpoint.note`.
        """
        with self._phases.phase("evaluation"):
            self._metrics = self._evaluate()
            keep_best(folder, "eval/return_mean", self._policy.state_dict(), {**facts, **self._metrics})

    def take(self) -> dict[str, float]:
        """Returns the metrics of the evaluation since the last call, `eval/...`, if there was one."""
        taken, self._metrics = self._metrics, {}
        return taken

    def close(self) -> None:
        """Closes the environments; may be called twice."""
        if self._player is not None:
            self._player.vecenv.close()
            self._player = None

    def _evaluate(self) -> dict[str, float]:
        try:
            with eval_mode(self._policy, self._device):
                if self._player is None:
                    vecenv = self._make_vecenv(self._seed)
                    self._player = Player(vecenv, self._policy, self._device, autocast=self._autocast)
                player = self._player
                quotas = np.ones_like(player.remaining)
                steps = list(player.play(quotas, self._config.evaluation_max_steps, self._seed))
                return _metrics([*(episodes for step in steps for episodes in step), player.running()])
        except BaseException:
            self.close()  # Ctrl-C may have left the environments in the middle of a step
            raise


def _metrics(episodes: Sequence[Episodes]) -> dict[str, float]:
    returns = np.concatenate([each.returns for each in episodes])
    if not len(returns):
        return {}
    lengths = np.concatenate([each.lengths for each in episodes])
    # LaTeX: \mu = \frac1n \sum_i R_i, \quad \sigma = \sqrt{\tfrac1n \textstyle\sum_i (R_i - \mu)^2}
    # LaTeX:   ; R = returns, n = len(returns), \mu = returns.mean(), \sigma = returns.std()
    numbers = {
        "return_mean": returns.mean(),
        "return_std": returns.std(),
        "return_min": returns.min(),
        "return_max": returns.max(),
        "length_mean": lengths.mean(),
    }
    return {f"eval/{name}": float(number) for name, number in numbers.items()}
