"""Sums of a loss's metrics over minibatches, on the device of the policy: only reading them waits for a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pufferlib.errors import ConfigError


class MetricSums:
    """Metrics of minibatches, added up in memory that stays where it is, so that adding can be captured."""

    def __init__(self):
        self._sums: Tensor | None = None  # `(metrics,)`, once there were any: a loss of one's own has others

    def clear(self) -> None:
        """Starts over."""
        if self._sums is not None:
            self._sums.zero_()

    def add(self, metrics: Tensor) -> None:
        """Adds those of one minibatch, `(metrics,)` float32."""
        if self._sums is None:
            self._sums = torch.zeros_like(metrics)
        self._sums += metrics

    def means(self, count: int) -> Tensor:
        """Over `count` minibatches, `(metrics,)`."""
        return self._sums / count

    def approx_kl(self, names: Sequence[str]) -> Tensor:
        """Returns the sum of the metric `approx_kl`; reading it waits for a GPU."""
        if "approx_kl" not in names:
            raise ConfigError(
                f"[train] target_kl needs a loss that reports approx_kl, got one of {', '.join(names)}; "
                "report it, or set target_kl to None"
            )
        return self._sums[names.index("approx_kl")].clone()
