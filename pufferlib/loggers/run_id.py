"""The names of runs."""

from __future__ import annotations

import secrets
import threading
import time
from datetime import datetime, timezone

_id_lock = threading.Lock()
_last_microsecond = 0  # of the last id, so that ids of one process keep their order


def make_run_id() -> str:
    """A new name for a run, such as `20250131_235959_123456_9f3a1c07`.

    Sorted by name, runs are sorted by the time (UTC) at which they began. No two are alike, in this process or any
    other.
    """
    global _last_microsecond
    with _id_lock:
        _last_microsecond = max(time.time_ns() // 1000, _last_microsecond + 1)
        seconds, microsecond = divmod(_last_microsecond, 1_000_000)
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y%m%d_%H%M%S}_{microsecond:06}_{secrets.token_hex(4)}"
