"""Where the time goes: seconds of each phase since the last look."""

from __future__ import annotations

import time
from types import TracebackType


class Phase:
    """Adds the seconds spent in `with` statements to its sum; a class, which costs half of a generator."""

    __slots__ = ("_begin", "seconds")

    def __init__(self):
        self.seconds = 0.0
        self._begin = 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.seconds += time.perf_counter() - self._begin


class Profile:
    """Adds up wall-clock seconds by phase. Phases do not nest."""

    def __init__(self):
        self._phases: dict[str, Phase] = {}
        self._since = time.perf_counter()

    def phase(self, name: str) -> Phase:
        """Times the body of a `with` statement."""
        if name not in self._phases:
            self._phases[name] = Phase()
        return self._phases[name]

    def shares(self) -> dict[str, float]:
        """The share of each phase in the time since the last `reset`, in 0..1."""
        elapsed = max(time.perf_counter() - self._since, 1e-9)
        return {name: phase.seconds / elapsed for name, phase in self._phases.items() if phase.seconds}

    def reset(self) -> None:
        """Starts over."""
        for phase in self._phases.values():
            phase.seconds = 0.0
        self._since = time.perf_counter()
