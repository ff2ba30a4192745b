"""One thread at a time inside a vector."""

from __future__ import annotations

import threading

from pufferlib.errors import APIUsageError


class ReentrancyGuard:
    """Admits one thread at a time and refuses others at once; the thread inside may enter again."""

    def __init__(self):
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise APIUsageError(
                "another thread is inside a call of this vector, which serves one thread at a time; wait for that call "
                "to return first"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()
