"""Requests of a driver to the process of a trial, importable without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pufferlib.errors import ConfigError

Tell = Callable[[dict[str, Any]], None]
"""Sends a message to the driver, see `trial_main.main`."""


@dataclass(frozen=True)
class TrialTask:
    """A request to train."""

    env_name: str  # the environment
    args: dict[str, Any]  # its settings, with those of the trial
    metric: str  # what is searched by, as the user calls it
    memory_bytes: float  # that it may use
    is_metric_known: bool = False  # whether another trial has had the metric, so that logs without it prove nothing
    slot: int = 0  # number of this trial's place among those side by side


class MissingMetricError(ConfigError):
    """The metric of a sweep does not exist."""


class UnscoredError(ConfigError):
    """A trial was too short: it ended before anything was scored."""
