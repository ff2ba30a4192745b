"""The use of CPU and memory by this process and its workers, as fractions of what they may use."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass

import psutil

from pufferlib.machine import core_share, usable_memory_bytes

_LOOK_AGAIN_SECONDS = 5.0  # for processes that began since
_UNREADABLE = (psutil.Error, OSError)  # a process ended just now, or there is no file handle left: no reason to stop


@dataclass(frozen=True)
class Usage:
    """One sample."""

    cpu_fraction: float  # 0 to 1: 1 when every core that may be used was busy since the last sample
    memory_bytes: int  # resident; memory that worker processes share counts once for each
    memory_fraction: float  # 0 to 1, of the memory that may be used


class UsageMeter:
    """Samples the use of this process and its children; CPU use is since the sample before."""

    def __init__(self):
        self._process = psutil.Process()
        self._cores = core_share()
        self._memory = usable_memory_bytes()
        self._wall_seconds, self._processes_until = time.monotonic(), -math.inf
        self._cpu_seconds = self._cpu_seconds_by_process()

    def sample(self) -> Usage:
        """The use since the last sample, or since this meter was made."""
        now, by_process = time.monotonic(), self._cpu_seconds_by_process()
        # A child that began since the last sample counts whole, one that ended no longer counts.
        busy = sum(seconds - self._cpu_seconds.get(pid, 0.0) for pid, seconds in by_process.items())
        elapsed = max(now - self._wall_seconds, 1e-6)
        self._wall_seconds, self._cpu_seconds = now, by_process
        memory = self._memory_bytes()
        return Usage(_fraction(busy / (elapsed * self._cores)), memory, _fraction(memory / self._memory))

    def _processes(self) -> list[psutil.Process]:
        # Finding the children reads every process of the machine, so the list is kept for a while.
        now = time.monotonic()
        if now >= self._processes_until:
            self._found = [self._process]
            with contextlib.suppress(*_UNREADABLE):
                self._found += self._process.children(recursive=True)
            self._processes_until = now + _LOOK_AGAIN_SECONDS
        return self._found

    def _cpu_seconds_by_process(self) -> dict[int, float]:
        found = {}
        for process in self._processes():
            try:
                times = process.cpu_times()
            except _UNREADABLE:
                continue
            found[process.pid] = times.user + times.system
        return found

    def _memory_bytes(self) -> int:
        total = 0
        for process in self._processes():
            try:
                total += process.memory_info().rss
            except _UNREADABLE:
                continue
        return total


def _fraction(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0
