"""What a training measures: moments of numbers, finished episodes, the seconds of phases, the use of the hardware.

Counts, means and variances can be merged, as several processes do.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from pufferlib.environment import EpisodeTracker
from pufferlib.errors import APIUsageError, ConfigError
from pufferlib.machine import core_share, usable_memory_bytes
from pufferlib.spaces import is_number

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
    are no numbers are ignored, and so is NaN.
    """

    def __init__(self):
        self.episodes = EpisodeTotals()  # those that an EpisodeTracker followed
        self._sums, self._counts = Counter[str](), Counter[str]()  # of reported values, and of their episodes

    def add(self, infos: Iterable[Mapping[str, Any]]) -> None:
        """Adds the reports of one step."""
        for info in infos:
            count = info.get("n", 1.0)
            if not is_number(count):
                raise APIUsageError(
                    f"the n of an info must be the number of episodes that it is a mean of, got {count!r}; give it "
                    "another name if it is something else"
                )
            count = float(count)
            if not count > 0.0:
                continue
            for name, value in info.items():
                if name != "n" and is_number(value) and not math.isnan(value):
                    text = str.__str__(name) if isinstance(name, str) else str(name)  # the name without its class
                    self._sums[text] += float(value) * count
                    self._counts[text] += count

    def means(self) -> dict[str, float]:
        """The mean of every reported value, and `n`, the number of episodes; empty when none was reported."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        return {**means, "n": max(self._counts.values())} if means else {}

    def metrics(self) -> dict[str, float]:
        """Returns the metrics of tracked episodes as `episode/<name>`, and `means()` as `environment/<name>`."""
        return {**prefixed("episode", self.episodes.metrics()), **prefixed("environment", self.means())}

    def take(self) -> dict[str, float]:
        """Returns `means()`, and the metrics of tracked episodes as `episode/<name>`; starts over."""
        taken = {**self.means(), **prefixed("episode", self.episodes.metrics())}
        self._sums.clear()
        self._counts.clear()
        self.episodes = EpisodeTotals()
        return taken

    def merge(self, other: FinishedEpisodes) -> None:
        """Adds the episodes that another one holds, such as those of a later interval or of another process."""
        self.episodes.merge(other.episodes)
        self._sums.update(other._sums)  # a Counter adds
        self._counts.update(other._counts)

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
            whole._sums.update(state["sums"])
            whole._counts.update(state["counts"])
            whole.episodes.merge(EpisodeTotals(**state["episodes"]))
        return whole

    def state_dict(self) -> dict[str, dict[str, float]]:
        """Sums, counts and extremes: plain numbers in plain dicts."""
        return {"sums": dict(self._sums), "counts": dict(self._counts), "episodes": dict(vars(self.episodes))}


def prefixed(prefix: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics under `prefix/<name>`."""
    return {f"{prefix}/{name}": value for name, value in metrics.items()}


class Phase:
    """Adds the seconds spent in `with` statements to its sum; on a CUDA device those of the work that they queue, too.

    Events in the stream time that work, and nothing waits for them. It is a class, which costs half of a generator.
    """

    __slots__ = ("_begin", "_device", "_event", "_idle", "_queued", "device_seconds", "seconds")

    def __init__(self, device: torch.device | None = None):
        self.seconds = self._begin = 0.0
        self.device_seconds = 0.0  # of the work that the device is known to have done
        self._device = device
        self._idle: list[torch.cuda.Event] = []  # to be used again
        self._queued: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()  # begin and end, the oldest first

    def __enter__(self) -> None:
        self._begin = time.perf_counter()
        if self._device is not None:
            self._event = self._mark()

    def __exit__(self, *_: object) -> None:
        if self._device is not None:
            self._queued.append((self._event, self._mark()))
        self.seconds += time.perf_counter() - self._begin

    def _mark(self) -> torch.cuda.Event:
        if not self._idle:
            self.read()  # so that their number stays bounded by the GPU's backlog
        event = self._idle.pop() if self._idle else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def read(self) -> None:
        """Adds up what the device has done by now; the rest waits for the next call."""
        while self._queued and self._queued[0][1].query():
            begin, end = self._queued.popleft()
            self.device_seconds += begin.elapsed_time(end) / 1e3
            self._idle += begin, end


@contextlib.contextmanager
def _labelled(label: AbstractContextManager[Any], phase: Phase) -> Iterator[None]:
    with label, phase:
        yield


class Phases:
    """The phases that the time of a process goes to, each with its seconds.

    Phases do not nest, and none begins or ends inside the capture of a CUDA graph. Every phase also enters what `label`
    gives for its name, as for a profiler, unless it is None.
    """

    def __init__(self, device: torch.device | None = None):
        self._device = device if device is not None and device.type == "cuda" else None
        self._phases: defaultdict[str, Phase] = defaultdict(Phase)
        self.label: Callable[[str], AbstractContextManager[Any]] | None = None
        self._since = time.perf_counter()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Times the body of a `with` statement by the clock on the wall."""
        phase = self._phases[name]
        return phase if self.label is None else _labelled(self.label(name), phase)

    def queued_phase(self, name: str) -> AbstractContextManager[None]:
        """Times the body as `phase` does, and on a GPU also what it queues; a name is always used in one way."""
        if self._device is not None and name not in self._phases:
            self._phases[name] = Phase(self._device)
        return self.phase(name)

    def shares(self) -> dict[str, float]:
        """The share of each phase in the time since the last `reset`, and that of all `other` time: together 1."""
        elapsed = self._elapsed()
        shares = {name: phase.seconds / elapsed for name, phase in self._phases.items() if phase.seconds}
        return {**shares, "other": 1.0 - sum(shares.values())}

    def device_shares(self) -> dict[str, float]:
        """The share of the same time that the GPU spent on each queued phase; empty without one."""
        elapsed = self._elapsed()
        for phase in self._phases.values():
            phase.read()
        return {name: phase.device_seconds / elapsed for name, phase in self._phases.items() if phase.device_seconds}

    def reset(self) -> None:
        """Starts over; what the GPU has still to do counts when it is done."""
        for phase in self._phases.values():
            phase.seconds = phase.device_seconds = 0.0
        self._since = time.perf_counter()

    def leave_out(self, seconds: float) -> None:
        """Leaves out some time, in which no phase ran."""
        self._since += seconds

    def _elapsed(self) -> float:
        return max(time.perf_counter() - self._since, 1e-9)


_LOOK_AGAIN_SECONDS = 5.0  # for processes that began since
_UNREADABLE = (psutil.Error, OSError)  # a process ended just now, or there is no file handle left: no reason to stop


class HardwareMeter:
    """Samples the use of this process and its children, of the CPU since the sample before, and of its GPU."""

    def __init__(self, device: torch.device):
        self._device, self._processes = device, [psutil.Process()]
        self._cores, self._memory = core_share(), usable_memory_bytes()
        self._processes_until = -math.inf
        self._read()  # psutil has the use of the CPU since it was asked before

    def sample(self) -> dict[str, float]:
        """Returns `cpu` and `memory`, 0 to 1 of what may be used, and `memory_bytes`, resident.

        A GPU has `gpu`, 0 to 1, the part of the driver's last sampling period in which a kernel ran; `gpu_memory_bytes`
        in use, and `gpu_memory`, 0 to 1.
        """
        cores, memory = self._read()
        used = {"cpu": min(cores / self._cores, 1.0), "memory": min(memory / self._memory, 1.0), "memory_bytes": memory}
        if self._device.type == "cuda":
            # Of the whole GPU, other processes included. What the driver does not answer is no reason to stop: torch
            # asks for the use by the package nvidia-ml-py, and a slice of a GPU does not tell it.
            with contextlib.suppress(Exception):
                free, total = torch.cuda.mem_get_info(self._device)
                used |= {"gpu_memory": 1.0 - free / total, "gpu_memory_bytes": total - free}
            with contextlib.suppress(Exception):
                used["gpu"] = torch.cuda.utilization(self._device) / 100
        return used

    def _read(self) -> tuple[float, int]:
        # Finding the children reads every process of the machine, so the list is kept for a while.
        if time.monotonic() >= self._processes_until:
            with contextlib.suppress(*_UNREADABLE):
                known = {process: process for process in self._processes}  # which remember when they were asked
                children = self._processes[0].children(recursive=True)
                self._processes[1:] = [known.get(child, child) for child in children]
            self._processes_until = time.monotonic() + _LOOK_AGAIN_SECONDS
        percent, memory = 0.0, 0
        for process in self._processes:
            with contextlib.suppress(*_UNREADABLE):
                percent += process.cpu_percent()
                memory += process.memory_info().rss
        return percent / 100, memory
