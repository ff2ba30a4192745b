"""Who is inside a vector: one thread at a time."""

from __future__ import annotations

import threading

from pufferlib.errors import APIUsageError


class OneThread:
    """Lets one thread in at a time and refuses the others at once; the thread that is in may come in again."""

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
