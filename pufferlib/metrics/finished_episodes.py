"""Statistics of finished episodes: counts, means and variances that several processes can merge."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pufferlib.environment import EpisodeTracker
from pufferlib.errors import ConfigError

EPSILON = 1e-8  # added to variances before their root divides

CHUNK = 1 << 20  # numbers that are summed up in double precision at once; a rollout of images is gigabytes of them


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
        return functools.reduce(Moments.merged, parts, self)


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

    def means(self, count: int | Tensor) -> Tensor:
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


@dataclass
class EpisodeTotals:
    """Sums and extremes over finished episodes, in plain numbers."""

    count: int = 0
    return_sum: float = 0.0
    return_min: float = math.inf
    return_max: float = -math.inf
    length_sum: int = 0

    def add(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Adds episodes, which may be none: `(episodes,)` each."""
        if len(returns):  # no episodes have no smallest return
            total, least, most = float(returns.sum()), float(returns.min()), float(returns.max())
            self.merge(EpisodeTotals(len(returns), total, least, most, int(lengths.sum())))

    def merge(self, other: EpisodeTotals) -> None:
        """Adds the episodes that another one holds."""
        self.count += other.count
        self.return_sum += other.return_sum
        self.return_min = min(self.return_min, other.return_min)
        self.return_max = max(self.return_max, other.return_max)
        self.length_sum += other.length_sum

    def metrics(self) -> dict[str, float]:
        """`return_mean, return_min, return_max, length_mean` and `count`; empty when no episode ended."""
        if not self.count:
            return {}
        return {
            "return_mean": self.return_sum / self.count,
            "return_min": self.return_min,
            "return_max": self.return_max,
            "length_mean": self.length_sum / self.count,
            "count": self.count,
        }


class FinishedEpisodes:
    """Adds up finished episodes until they are taken: what environments report in their infos, and what was tracked.

    An info that holds `n` gives means over `n` finished episodes; one without speaks of a single episode. Values that
    are no numbers are ignored.
    """

    def __init__(self):
        self.episodes = EpisodeTotals()  # those that an EpisodeTracker followed
        self._sums: dict[str, float] = {}
        self._counts: dict[str, float] = {}

    def add(self, infos: Iterable[Mapping[str, Any]]) -> None:
        """Adds the reports of one step."""
        for info in infos:
            count = float(info.get("n", 1.0))
            if count <= 0.0:
                continue
            for name, value in info.items():
                if name == "n" or not is_number(value):
                    continue
                self._sums[name] = self._sums.get(name, 0.0) + float(value) * count
                self._counts[name] = self._counts.get(name, 0.0) + count

    def means(self) -> dict[str, float]:
        """The mean of every reported value, and `n`, the number of episodes; empty when none was reported."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        return {**means, "n": max(self._counts.values())} if means else {}

    def tracked(self) -> dict[str, float]:
        """Returns `episode/return_mean, return_min, return_max, length_mean, count`; empty when no episode ended."""
        return {f"episode/{name}": value for name, value in self.episodes.metrics().items()}

    def metrics(self) -> dict[str, float]:
        """Returns `tracked()`, and `means()` as `environment/<name>`."""
        return {**self.tracked(), **{f"environment/{name}": value for name, value in self.means().items()}}

    def take(self) -> dict[str, float]:
        """Returns `means()` and `tracked()`, and starts over."""
        taken = {**self.means(), **self.tracked()}
        self._sums.clear()
        self._counts.clear()
        self.episodes = EpisodeTotals()
        return taken

    def merge(self, other: FinishedEpisodes) -> None:
        """Adds the episodes that another one holds, such as those of a later interval or of another process."""
        self.episodes.merge(other.episodes)
        for name, total in other._sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + total
            self._counts[name] = self._counts.get(name, 0.0) + other._counts[name]

    def take_over(self, tracker: EpisodeTracker, reports: dict[int, FinishedEpisodes]) -> None:
        """Adds the episodes that ended in a rollout, tracked and reported; clears the reports.

        The reports are by batch, and added in that order, whichever came first: sums of numbers are rounded.
        """
        _, returns, lengths = tracker.take()
        self.episodes.add(returns, lengths)
        for batch in sorted(reports):
            self.merge(reports[batch])
        reports.clear()

    @classmethod
    def merged(cls, states: Iterable[Mapping[str, dict[str, float]]]) -> FinishedEpisodes:
        """The episodes of several, of which each gave its `state_dict`."""
        whole = cls()
        for state in states:
            part = cls()
            part.load_state_dict(state)
            whole.merge(part)
        return whole

    def state_dict(self) -> dict[str, dict[str, float]]:
        """Sums, counts and extremes: plain numbers in plain dicts."""
        return {"sums": dict(self._sums), "counts": dict(self._counts), "episodes": dict(vars(self.episodes))}

    def load_state_dict(self, state: Mapping[str, dict[str, float]]) -> None:
        """Restores the state of `state_dict`."""
        self._sums, self._counts = dict(state["sums"]), dict(state["counts"])
        self.episodes = EpisodeTotals(**state["episodes"])


def is_number(value: object) -> bool:
    """Whether it is one number: of Python, of NumPy, or a tensor without dimensions."""
    is_single = getattr(value, "ndim", 0) == 0
    return is_single and hasattr(value, "__float__") and not isinstance(value, (str, bytes))
