"""The metrics of a run: collected, averaged, logged and shown."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pufferlib.dashboard.panel import Dashboard
from pufferlib.metrics.measures import FinishedEpisodes, HardwareMeter, Phase, Phases, prefixed


class Report:
    """Measures an interval from one log to the next, adds up all intervals before, and shows both.

    Its `counts` are the metrics `agent_steps`, `epoch` and `learning_rate` of now.
    """

    def __init__(self, device: torch.device, total_steps: int, dashboard_seconds: float):
        self.episodes = FinishedEpisodes()  # that ended in the interval
        self.phases = Phases(device)
        self.iteration = Phase()  # the wall time of iterations
        self.losses: dict[str, float] = {}  # of the last update, by name
        self.metrics: dict[str, float] = {}  # of the last log; empty before it, and after a checkpoint was loaded
        self.logged_epoch = self.logged_step = 0  # of the last log, and its agent steps
        self._before = FinishedEpisodes()  # of the intervals that were ended
        self._hardware = HardwareMeter(device)
        self._start = self._begin = time.perf_counter()  # of the run, and of the interval
        self.total_steps, self._dashboard_seconds = total_steps, dashboard_seconds  # agent steps of the whole run
        self._dashboard: Dashboard | None = None
        self._shown_epoch = 0  # last log that the dashboard showed
        self._shown_time = -math.inf

    @property
    def uptime(self) -> float:
        """Seconds of training, those before a resume included."""
        return time.perf_counter() - self._start

    @property
    def seconds(self) -> float:
        """Wall time of the interval, that before a resume included."""
        return time.perf_counter() - self._begin

    def sps(self, agent_steps: int) -> float:
        """Agent steps per second since the last log, or of that log until a step is collected."""
        if agent_steps == self.logged_step:
            return self.metrics.get("sps", 0.0)
        return (agent_steps - self.logged_step) / max(self.seconds, 1e-9)

    def log(
        self, counts: Mapping[str, float], evaluation: Mapping[str, float], episodes: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Ends the interval, and returns the metrics that `PuffeRL.mean_and_log` describes.

        Those of an `evaluation` in the interval are added; `episodes` are the `state_dict` of those of every process.
        """
        self.episodes = FinishedEpisodes.merged(episodes)
        hardware = prefixed("hardware", self._hardware.sample())
        self.metrics = {**self._measured(counts), **evaluation, **hardware}
        self.end_interval()
        self.logged_epoch, self.logged_step = counts["epoch"], counts["agent_steps"]
        return dict(self.metrics)

    def _measured(self, counts: Mapping[str, float]) -> dict[str, float]:
        since_start = FinishedEpisodes.merged([self._before.state_dict(), self.episodes.state_dict()])
        return {
            **counts,
            "sps": self.sps(counts["agent_steps"]),
            "uptime": self.uptime,
            **prefixed("losses", self.losses),
            "iteration_seconds": self.iteration.seconds / (counts["epoch"] - self.logged_epoch),
            **self.episodes.metrics(),
            **prefixed("since_start", since_start.metrics()),
            **prefixed("performance", self.phases.shares()),
            **prefixed("device", self.phases.device_shares()),
        }

    def end_interval(self) -> None:
        """Begins the next one."""
        self._before.merge(self.episodes)
        self.episodes.take()
        self.phases.reset()
        self.iteration.seconds = 0.0
        self._begin = time.perf_counter()

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leaves the time inside out; to be entered where no phase runs."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begin
            self._start, self._begin = self._start + seconds, self._begin + seconds
            self.phases.leave_out(seconds)

    def show(self, title: str, facts: Callable[[], Mapping[str, str]], counts: Mapping[str, float]) -> None:
        """Shows the metrics: a panel on a terminal or in a notebook, refreshed now and then; else a line per log."""
        if self._dashboard is None:
            self._dashboard = Dashboard(title, facts(), self.total_steps)
        now = time.perf_counter()
        if not self._dashboard.is_panel:
            is_due = self._shown_epoch != self.logged_epoch
        else:
            is_over = counts["agent_steps"] >= self.total_steps  # the last panel stays on the screen
            is_due = is_over or now - self._shown_time >= self._dashboard_seconds
        if is_due:
            is_logged = counts["epoch"] == self.logged_epoch
            self._dashboard.total_steps = self.total_steps
            self._dashboard.show(self.metrics if is_logged else {**self.metrics, **self._measured(counts)})
            self._shown_epoch, self._shown_time = self.logged_epoch, now

    def show_soon(self) -> None:
        """Makes the next `show` redraw, however recent the last one was."""
        self._shown_time = -math.inf

    def close(self) -> None:
        """Gives the terminal back until the next `show`; may be called twice."""
        if self._dashboard is not None:
            self._dashboard.close()
            self._dashboard = None

    def resume(self, uptime: float, logged_epoch: int, logged_step: int, losses: Mapping[str, float]) -> None:
        """Continues after a checkpoint was loaded, without the metrics of before."""
        self._start = time.perf_counter() - uptime
        self.logged_epoch, self.logged_step = logged_epoch, logged_step
        self.losses, self.metrics = dict(losses), {}
        self._shown_epoch = logged_epoch

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the interval."""
        return {
            "seconds": self.seconds,
            "iteration_seconds": self.iteration.seconds,
            "episodes": self.episodes.state_dict(),
            "before": self._before.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state of `state_dict`."""
        self._begin = time.perf_counter() - state["seconds"]
        self.iteration.seconds = state["iteration_seconds"]
        self.episodes = FinishedEpisodes.merged([state["episodes"]])
        self._before = FinishedEpisodes.merged([state["before"]])
