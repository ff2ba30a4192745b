"""How a run is asked to stop: by a signal, which it answers after the iteration that is running."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

from pufferlib.errors import RankError
from pufferlib.runs.unanswered import UnansweredSignals


class StopRequest:
    """While it is entered, the first SIGINT, SIGTERM or SIGHUP only asks to stop; a second one interrupts at once.

    A second one that cannot even interrupt, as nothing returns to Python, ends the process; see UnansweredSignals.

    SIGHUP comes where a terminal is closed, as at the end of an ssh session; `nohup` has it ignored, and so does this.

    Signals belong to the main thread; in another thread this changes nothing. When a RankError leaves it, the first
    signal still ends nothing: torchrun sends one to whoever is left, who has to say first who is gone.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, deaf_seconds: float = 0.0):
        """Changes nothing before it is entered.

        Args:
            deaf_seconds: how long after the first signal others are taken for the same one: torchrun passes on to its
                processes the Ctrl-C that they got from the terminal already.
        """
        self.requested = False
        self._deaf_seconds = deaf_seconds
        self._request_time = 0.0
        self._previous: dict[signal.Signals, Any] = {}
        self._unanswered = UnansweredSignals(self.SIGNALS, deaf_seconds)

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            is_under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            heard = [number for number in self.SIGNALS if number != signal.SIGHUP or not is_under_nohup]
            self._previous = {number: signal.signal(number, self._handle) for number in heard}
            self._unanswered.__enter__()
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        if self._previous:
            self._unanswered.__exit__()
        if kind is not None and issubclass(kind, RankError):
            return
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: object) -> None:
        self._unanswered.answer()
        if self.requested and time.monotonic() - self._request_time >= self._deaf_seconds:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested = True
            self._request_time = time.monotonic()
