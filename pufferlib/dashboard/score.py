"""Scores, and metrics of a log found by their name or a part of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pufferlib.dashboard.panel import number_text

GROUPS = ("environment", "episode", "eval")  # groups in which a name alone is looked for, in this order

FINAL = "final"  # the group of what the final policy of a run scored: `final/score`, `final/return_mean`, `final/n`

_ALIASES = {
    **dict.fromkeys(("mean_reward", "reward", "return", "episode_return", "episode_reward"), "episode/return_mean"),
    "episode_length": "episode/length_mean",
}
_COUNTS = {  # of the episodes that the means of a group are over
    "environment": "environment/n",
    "episode": "episode/count",
    FINAL: f"{FINAL}/n",
}


def find_metric(wanted: str, names: Iterable[str]) -> str | None:
    """Returns the whole name of the metric that is wanted, None where `names`, those of a log, have none.

    It is wanted by its whole name, such as `losses/entropy`, by that within `environment/`, `episode/` or `eval/`,
    such as `perf`, or by what other libraries call it, such as `mean_reward`.
    """
    names = set(names)
    candidates = [wanted, *(f"{group}/{wanted}" for group in GROUPS), _ALIASES.get(wanted, wanted)]
    return next((name for name in candidates if name in names), None)


def count_name(name: str) -> str | None:
    """Returns the metric with the number of episodes that another one is the mean of; None for other metrics."""
    return _COUNTS.get(name.split("/")[0])


def episode_count(name: str, metrics: Mapping[str, float]) -> float:
    """Returns the number of episodes that a metric of a log is the mean of; 1 for other metrics."""
    return max(float(metrics.get(count_name(name) or "", 1.0)), 1e-9)


@dataclass(frozen=True)
class Score:
    """The mean of one statistic over episodes."""

    mean: float
    standard_error: float  # of the mean; NaN for a single episode
    episodes: int

    def __str__(self) -> str:
        spread = f" +- {self.standard_error:.3f}" if self.episodes > 1 else ""
        return f"{self.mean:.3f}{spread} (n = {self.episodes})"

    @classmethod
    def of(cls, numbers: list[float]) -> Score:
        """The score of one number for each episode, at least one; infinite or NaN where a number is."""
        if not all(map(math.isfinite, numbers)):  # such as what an environment did not measure in an episode
            return cls(sum(numbers) / len(numbers), math.nan, len(numbers))
        # LaTeX: \mathrm{error} = \frac{s}{\sqrt n}, \quad s^2 = \frac{1}{n - 1} \sum_i (x_i - \mu)^2
        # LaTeX:   ; x = numbers, n = len(numbers), s = stdev(numbers), \mu = fmean(numbers)
        error = statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan
        # LaTeX: \mu = \frac1n \sum_i x_i
        return cls(statistics.fmean(numbers), error, len(numbers))


def final_metrics(scores: Mapping[str, Score]) -> dict[str, float]:
    """Returns the metrics of the final policy, and `final/n`, the number of episodes; empty without scores.

    The scores have the names of logs, such as `environment/score` and `episode/return_mean`.
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
