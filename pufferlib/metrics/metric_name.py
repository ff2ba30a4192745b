"""Finds a metric of a log by its name, a part of it, or the word of another library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

GROUPS = ("environment", "episode", "eval")
"""Groups in which a name alone is looked for, in this order."""

FINAL = "final"
"""The group of what the final policy of a run scored: `final/score`, `final/return_mean`, `final/n`."""

_OWN_RETURN = "episode/return_mean"
_ALIASES = {
    **dict.fromkeys(("mean_reward", "reward", "return", "episode_return", "episode_reward"), _OWN_RETURN),
    "episode_length": "episode/length_mean",
}
_COUNTS = {  # of the episodes that the means of a group are over
    "environment": "environment/n",
    "episode": "episode/count",
    FINAL: f"{FINAL}/n",
}


def find_metric(wanted: str, names: Iterable[str]) -> str | None:
    """Returns the metric of a log for a name.

    Args:
        wanted: its whole name, such as `losses/entropy`, or that within `environment/`, `episode/` or `eval/`, such as
            `perf`, or what other libraries call it, such as `mean_reward`.
        names: of the metrics in the log.

    Returns:
        Its whole name; None where there is none.
    """
    names = set(names)
    candidates = [wanted, *(f"{group}/{wanted}" for group in GROUPS), _ALIASES.get(wanted, wanted)]
    return next((name for name in candidates if name in names), None)


def is_mean_over_episodes(name: str) -> bool:
    """Whether a metric is a mean over the episodes that ended, whose number differs from log to log."""
    return count_name(name) is not None


def count_name(name: str) -> str | None:
    """Returns the metric with the number of episodes that another one is the mean of; None for other metrics."""
    return _COUNTS.get(name.split("/")[0])


def episode_count(name: str, metrics: Mapping[str, float]) -> float:
    """Returns the number of episodes that a metric of a log is the mean of; 1 for other metrics."""
    return max(float(metrics.get(count_name(name) or "", 1.0)), 1e-9)
