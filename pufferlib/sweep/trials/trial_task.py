"""What a driver asks of the process of a trial, in words that both of them import without waiting for torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pufferlib.errors import ConfigError

Tell = Callable[[dict[str, Any]], None]
"""Sends a message to the driver, see `trial_main.main`."""


@dataclass(frozen=True)
class Task:
    """What a trial is asked to do.

    Attributes:
        env_name: the environment.
        args: its settings, with those of the trial.
        metric: what is searched by, as the user calls it.
        memory_bytes: that it may use.
        is_metric_known: whether another trial has had the metric, so that logs without it prove nothing.
        slot: number of this trial's place among those side by side.
    """

    env_name: str
    args: dict[str, Any]
    metric: str
    memory_bytes: float
    is_metric_known: bool = False
    slot: int = 0


class MissingMetricError(ConfigError):
    """The metric of a sweep does not exist."""


class UnscoredError(ConfigError):
    """A trial ended before anything was scored, which says nothing of its settings but that it was too short."""
