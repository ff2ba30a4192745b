"""The score of a policy: the mean of a statistic over whole episodes, and its standard error."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from pufferlib.metrics.dashboard import number_text
from pufferlib.metrics.metric_name import FINAL, find_metric


@dataclass(frozen=True)
class Score:
    """The mean of one statistic over episodes."""

    mean: float
    standard_error: float  # of the mean; NaN for a single episode
    episodes: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} +- {self.standard_error:.3f} (n = {self.episodes})"

    @classmethod
    def of(cls, numbers: list[float]) -> Score:
        """The score of one number for each episode, at least one."""
        # LaTeX: \mathrm{error} = \frac{s}{\sqrt n}, \quad s^2 = \frac{1}{n - 1} \sum_i (x_i - \mu)^2
        # LaTeX:   ; x = numbers, n = len(numbers), s = stdev(numbers), \mu = fmean(numbers)
        error = statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan
        # LaTeX: \mu = \frac1n \sum_i x_i
        return cls(statistics.fmean(numbers), error, len(numbers))


def final_metrics(scores: Mapping[str, Score]) -> dict[str, float]:
    """Returns the metrics of the final policy, and `final/n`, the number of episodes; empty without scores.

    Args:
        scores: by the names of logs, such as `environment/score` and `episode/return_mean`.
    """
    if not scores:
        return {}
    means = {f"{FINAL}/{name.partition('/')[2]}": score.mean for name, score in scores.items()}
    return {**means, f"{FINAL}/n": max(score.episodes for score in scores.values())}


def final_text(scores: Mapping[str, Score], metric: str | None) -> str:
    """One line on the final policy: what its environment is solved by, return and length, and of how many episodes."""
    solved_by = None if metric is None else find_metric(metric, scores)
    names = dict.fromkeys([solved_by, "environment/score", "episode/return_mean", "episode/length_mean"])
    shown = {name: scores[name] for name in names if name in scores} or dict(scores)
    parts = [f"{name.partition('/')[2].removesuffix('_mean')} {error_text(score)}" for name, score in shown.items()]
    episodes = max(score.episodes for score in shown.values())
    return f"the final policy: {', '.join(parts)}, over {episodes:,} whole episode{'s' * (episodes != 1)}"


def error_text(score: Score) -> str:
    """A mean with its standard error, such as `0.292 ± 0.014`; without it where that is not known."""
    if not math.isfinite(score.standard_error):
        return number_text(score.mean)
    return f"{number_text(score.mean)} ± {float(f'{score.standard_error:.2g}'):g}"
