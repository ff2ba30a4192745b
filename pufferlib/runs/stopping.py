"""Stops a run on Ctrl-C: after the iteration that is running, at once when pressed twice."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

from pufferlib.errors import RankError

SIGNAL_DEBOUNCE_SECONDS = 20.0
"""How long, with several processes, further signals count as the same one: less than torchrun gives them to end."""


class StopRequest:
    """A context in which the first SIGINT, SIGTERM or SIGHUP sets `requested`, and a second one interrupts at once.

    Python handles no signal while a call of C runs: SIGQUIT alone ends a `c_step` that never returns. A SIGHUP that
    `nohup` has ignored stays ignored. In another thread than the main one this does nothing. When a RankError leaves
    the context, the handlers stay, so that the process can report the lost rank before the signal of torchrun ends it.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, debounce_seconds: float = 0.0):
        """Does nothing before it is entered.

        Args:
            debounce_seconds: how long after a signal further ones count as the same: torchrun forwards the Ctrl-C that
                its processes got from the terminal already.
        """
        self.requested = False
        self._debounce_seconds = debounce_seconds
        self._request_time = 0.0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            is_under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            handled = [number for number in self.SIGNALS if number != signal.SIGHUP or not is_under_nohup]
            self._previous = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        if kind is not None and issubclass(kind, RankError):
            return
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.requested and now - self._request_time >= self._debounce_seconds:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested, self._request_time = True, now
