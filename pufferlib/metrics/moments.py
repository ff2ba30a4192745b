"""Count, mean and variance of numbers that are seen part after part, or by several processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
import torch
from torch import Tensor
from collections.abc import Sequence
from pufferlib.errors import ConfigError


EPSILON = 1e-8
"""Added to variances before their root divides."""

CHUNK = 1 << 20
"""Numbers that are summed up in double precision at once; a rollout of images is gigabytes of them."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and variance of some numbers; mean and variance may be floats, arrays or tensors."""

    count: float = 0.0
    mean: Any = 0.0
    variance: Any = 1.0

    @classmethod
    def of_rows(cls, rows: Tensor) -> Moments:
        """Returns the moments of `(count, ...)` over the first dimension: float64, on the CPU."""
        whole = cls()
        for part in rows.split(max(1, CHUNK // rows[:1].numel())) if len(rows) else ():
            # LaTeX: \mu = \frac1n \sum_i x_i, \quad \sigma^2 = \frac1n \sum_i (x_i - \mu)^2
            # LaTeX:   ; x = part, n = len(part), \mu = mean, \sigma^2 = variance
            variance, mean = torch.var_mean(part.double(), 0, correction=0)
            whole = whole.merged(cls(len(part), mean.cpu(), variance.cpu()))
        return whole

    def merged(self, other: Moments) -> Moments:
        """The moments of both together (Chan et al. 1979, "Updating Formulae and a Pairwise Algorithm")."""
        if not self.count or not other.count:
            return self if self.count else other
        # LaTeX: n = n_1 + n_2, \quad \delta = \mu_2 - \mu_1
        # LaTeX:   ; n_1 = self.count, n_2 = other.count, \mu_1 = self.mean, \mu_2 = other.mean
        count, delta = self.count + other.count, other.mean - self.mean
        # LaTeX: S = n_1 \sigma_1^2 + n_2 \sigma_2^2
        # LaTeX:   ; S = squares, \sigma_1^2 = self.variance, \sigma_2^2 = other.variance
        squares = self.variance * self.count + other.variance * other.count
        # LaTeX: \sigma^2 = \frac1n \Big( S + \delta^2\, \frac{n_1 n_2}{n} \Big) ; n = count, \sigma^2 = variance
        variance = (squares + delta * delta * (self.count * other.count / count)) / count
        # LaTeX: \mu = \mu_1 + \delta\, \frac{n_2}{n}
        return Moments(count, self.mean + delta * (other.count / count), variance)

    def with_all(self, parts: Iterable[Moments]) -> Moments:
        """The moments of these and of all parts together, one part merged after the other."""
        whole = self
        for part in parts:
            whole = whole.merged(part)
        return whole


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
