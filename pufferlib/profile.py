"""Where the time goes: seconds of each phase since the last look."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Profile:
    """Adds up wall-clock seconds by phase. Phases do not nest."""

    def __init__(self):
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._since = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times the body of a `with` statement."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - begin

    def shares(self) -> dict[str, float]:
        """The share of each phase in the time since the last `reset`, in 0..1."""
        elapsed = max(time.perf_counter() - self._since, 1e-9)
        return {name: seconds / elapsed for name, seconds in self._seconds.items()}

    def reset(self) -> None:
        """Starts over."""
        self._seconds.clear()
        self._since = time.perf_counter()
