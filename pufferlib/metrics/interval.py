"""What is measured from one log to the next."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from pufferlib.metrics.finished_episodes import FinishedEpisodes
from pufferlib.metrics.hardware import HardwareMeter
from pufferlib.metrics.phases import DeviceClock, Phase, Phases


class Interval:
    """Time and episodes since the last log, and the episodes of all intervals before.

    Attributes:
        episodes: those that ended in the interval.
        phases: where the time of each phase is added up.
        iteration: adds up the wall time of iterations.
    """

    def __init__(self, device: torch.device):
        """Begins the first interval of a run that trains on `device`."""
        self.episodes = FinishedEpisodes()
        self.phases = Phases(DeviceClock.of(device))
        self.iteration = Phase()
        self._before = FinishedEpisodes()  # of the intervals that were ended
        self._hardware = HardwareMeter(device)
        self._begin = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time of the interval, that before a resume included."""
        return time.perf_counter() - self._begin

    def metrics(self, iterations: int) -> dict[str, float]:
        """The metrics that `PuffeRL.mean_and_log` describes, but for what is not measured here.

        Args:
            iterations: how many took the time of `iteration`, at least 1.
        """
        since_start = FinishedEpisodes()
        since_start.merge(self._before)
        since_start.merge(self.episodes)
        return {
            "iteration_seconds": self.iteration.seconds / iterations,
            **self.episodes.metrics(),
            **prefixed("since_start", since_start.metrics()),
            **prefixed("performance", self.phases.shares()),
            **prefixed("device", self.phases.device_shares()),
        }

    def sample_hardware(self) -> dict[str, float]:
        """The use of the machine since the last sample, as `hardware/cpu` and so on."""
        return prefixed("hardware", self._hardware.sample())

    def end(self) -> None:
        """Begins the next interval."""
        self._before.merge(self.episodes)
        self.episodes.take()
        self.phases.reset()
        self.iteration.seconds = 0.0
        self._begin = time.perf_counter()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time inside does not count; to be entered before anything of the interval, or after a resume."""
        seconds = self.seconds
        yield
        self._begin = time.perf_counter() - seconds
        self.phases.reset()

    def close(self) -> None:
        """Lets go of the hardware's drivers; calling it twice is harmless."""
        self._hardware.close()

    def state_dict(self) -> dict[str, Any]:
        """What a later process needs to end the interval."""
        return {
            "seconds": self.seconds,
            "iteration_seconds": self.iteration.seconds,
            "episodes": self.episodes.state_dict(),
            "before": self._before.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts back what `state_dict` returned."""
        self._begin = time.perf_counter() - state["seconds"]
        self.iteration.seconds = state["iteration_seconds"]
        self.episodes.load_state_dict(state["episodes"])
        self._before.load_state_dict(state["before"])


def prefixed(prefix: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics under `prefix/<name>`."""
    return {f"{prefix}/{name}": value for name, value in metrics.items()}
