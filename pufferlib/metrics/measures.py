"""The seconds of each phase, of this process and of its GPU, and how busy the hardware is."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import psutil
import torch

from pufferlib.machine import core_share, usable_memory_bytes


class Phase:
    """Adds the seconds spent in `with` statements to its sum; a class, which costs half of a generator."""

    __slots__ = ("_begin", "seconds")

    def __init__(self):
        self.seconds = self._begin = 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.seconds += time.perf_counter() - self._begin


class DeviceClock:
    """Times what is queued on a GPU by events in its stream, and never waits for them."""

    def __init__(self, make_event: Callable[[], torch.cuda.Event], current_stream: Callable[[], torch.cuda.Stream]):
        self.seconds: dict[str, float] = {}  # by phase, of the work that the GPU is known to have done
        self._make_event, self._current_stream = make_event, current_stream
        self._idle: list[torch.cuda.Event] = []  # events to be used again
        # phase, begin and end, the oldest first
        self._queued: deque[tuple[str, torch.cuda.Event, torch.cuda.Event]] = deque()

    @classmethod
    def of(cls, device: torch.device) -> DeviceClock | None:
        """The clock of a CUDA device; None for any other, whose work is done when a call returns."""
        if device.type != "cuda":
            return None
        return cls(lambda: torch.cuda.Event(enable_timing=True), lambda: torch.cuda.current_stream(device))

    def mark(self) -> torch.cuda.Event:
        """Queues an event."""
        if not self._idle:
            self.read()  # so that their number stays bounded by the GPU's backlog
        event = self._idle.pop() if self._idle else self._make_event()
        event.record(self._current_stream())
        return event

    def add(self, name: str, begin: torch.cuda.Event, end: torch.cuda.Event) -> None:
        """Adds the time between two marks to a phase, as soon as it is known."""
        self._queued.append((name, begin, end))

    def read(self) -> None:
        """Adds up what the GPU has done by now; the rest waits for the next call."""
        while self._queued and self._queued[0][2].query():
            name, begin, end = self._queued.popleft()
            self.seconds[name] = self.seconds.get(name, 0.0) + begin.elapsed_time(end) / 1e3
            self._idle += begin, end


class QueuedPhase(Phase):
    """A phase whose `with` statements queue work on a GPU: adds to the sums of both clocks."""

    __slots__ = ("_clock", "_event", "_name")

    def __init__(self, name: str, clock: DeviceClock):
        super().__init__()
        self._name, self._clock = name, clock
        self._event: torch.cuda.Event | None = None

    def __enter__(self) -> None:
        super().__enter__()
        self._event = self._clock.mark()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._clock.add(self._name, self._event, self._clock.mark())
        super().__exit__(kind, error, trace)


@contextlib.contextmanager
def _labelled(label: AbstractContextManager[Any], phase: Phase) -> Iterator[None]:
    with label, phase:
        yield


class Phases:
    """The phases that the time of a process goes to, each with its seconds.

    Phases do not nest, and none begins or ends inside the capture of a CUDA graph.
    """

    def __init__(self, clock: DeviceClock | None = None):
        self._clock = clock
        self._phases: dict[str, Phase] = {}
        self._mark: Callable[[str], AbstractContextManager[Any]] | None = None
        self._since = time.perf_counter()

    @contextlib.contextmanager
    def marked(self, mark: Callable[[str], AbstractContextManager[Any]]) -> Iterator[None]:
        """While it is entered, every phase also enters what `mark` gives for its name, as a profiler's label."""
        self._mark = mark
        try:
            yield
        finally:
            self._mark = None

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Times the body of a `with` statement by the clock on the wall."""
        phase = self._phases.get(name)
        if phase is None:
            phase = self._phases[name] = Phase()
        return phase if self._mark is None else _labelled(self._mark(name), phase)

    def queued_phase(self, name: str) -> AbstractContextManager[None]:
        """Times the body as `phase` does, and on a GPU also what it queues; a name is always used in one way."""
        if self._clock is not None and name not in self._phases:
            self._phases[name] = QueuedPhase(name, self._clock)
        return self.phase(name)

    def shares(self) -> dict[str, float]:
        """The share of each phase in the time since the last `reset`, and that of all `other` time: together 1."""
        elapsed = self._elapsed()
        shares = {name: phase.seconds / elapsed for name, phase in self._phases.items() if phase.seconds}
        return {**shares, "other": 1.0 - sum(shares.values())}

    def device_shares(self) -> dict[str, float]:
        """The share of the same time that the GPU spent on each queued phase; empty without a clock."""
        if self._clock is None:
            return {}
        self._clock.read()
        elapsed = self._elapsed()
        return {name: seconds / elapsed for name, seconds in self._clock.seconds.items()}

    def reset(self) -> None:
        """Starts over; what the GPU has still to do counts when it is done."""
        for phase in self._phases.values():
            phase.seconds = 0.0
        if self._clock is not None:
            self._clock.seconds.clear()
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
        self._device, self._process = device, psutil.Process()
        self._cores, self._memory = core_share(), usable_memory_bytes()
        self._seconds, self._processes_until = time.monotonic(), -math.inf
        self._cpu_seconds, _ = self._read()  # by process

    def sample(self) -> dict[str, float]:
        """Returns `cpu` and `memory`, 0 to 1 of what may be used, and `memory_bytes`, resident.

        A GPU has `gpu`, 0 to 1, the part of the driver's last sampling period in which a kernel ran; `gpu_memory_bytes`
        in use, and `gpu_memory`, 0 to 1.
        """
        now, (cpu_seconds, memory) = time.monotonic(), self._read()
        # A child that began since the last sample counts whole, one that ended no longer counts.
        busy = sum(seconds - self._cpu_seconds.get(pid, 0.0) for pid, seconds in cpu_seconds.items())
        share = busy / (max(now - self._seconds, 1e-6) * self._cores)
        self._seconds, self._cpu_seconds = now, cpu_seconds
        used = {"cpu": _fraction(share), "memory": _fraction(memory / self._memory), "memory_bytes": memory}
        return {**used, **_gpu_use(self._device)}

    def _read(self) -> tuple[dict[int, float], int]:
        # Finding the children reads every process of the machine, so the list is kept for a while.
        now = time.monotonic()
        if now >= self._processes_until:
            self._processes = [self._process]
            with contextlib.suppress(*_UNREADABLE):
                self._processes += self._process.children(recursive=True)
            self._processes_until = now + _LOOK_AGAIN_SECONDS
        cpu_seconds, memory = {}, 0
        for process in self._processes:
            with contextlib.suppress(*_UNREADABLE):
                times = process.cpu_times()
                cpu_seconds[process.pid] = times.user + times.system
            with contextlib.suppress(*_UNREADABLE):
                memory += process.memory_info().rss
        return cpu_seconds, memory


def _fraction(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


def _gpu_use(device: torch.device) -> dict[str, float]:
    # Of the whole GPU, other processes included. What the driver does not answer is no reason to stop: torch asks for
    # the use by the package nvidia-ml-py, and a slice of a GPU does not tell it.
    found: dict[str, float] = {}
    if device.type == "cuda":
        with contextlib.suppress(Exception):
            free, total = torch.cuda.mem_get_info(device)
            found |= {"gpu_memory": 1.0 - free / total, "gpu_memory_bytes": total - free}
        with contextlib.suppress(Exception):
            found["gpu"] = torch.cuda.utilization(device) / 100
    return found
