"""The use of CPU and memory by this process and its workers, as fractions of what they may use."""

from __future__ import annotations

import contextlib
import math
import time

import psutil

from pufferlib.machine import core_share, usable_memory_bytes

_LOOK_AGAIN_SECONDS = 5.0  # for processes that began since
_UNREADABLE = (psutil.Error, OSError)  # a process ended just now, or there is no file handle left: no reason to stop


class UsageMeter:
    """Samples the use of this process and its children; CPU use is since the sample before."""

    def __init__(self):
        self._process = psutil.Process()
        self._cores = core_share()
        self._memory = usable_memory_bytes()
        self._seconds, self._processes_until = time.monotonic(), -math.inf
        self._cpu_seconds, _ = self._read()  # by process

    def sample(self) -> dict[str, float]:
        """Returns `cpu` and `memory`, 0 to 1 of what may be used, and `memory_bytes`, resident.

        Memory that worker processes share counts once for each.
        """
        now, (cpu_seconds, memory) = time.monotonic(), self._read()
        # A child that began since the last sample counts whole, one that ended no longer counts.
        busy = sum(seconds - self._cpu_seconds.get(pid, 0.0) for pid, seconds in cpu_seconds.items())
        share = busy / (max(now - self._seconds, 1e-6) * self._cores)
        self._seconds, self._cpu_seconds = now, cpu_seconds
        return {"cpu": _fraction(share), "memory": _fraction(memory / self._memory), "memory_bytes": memory}

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
