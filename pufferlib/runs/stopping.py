"""Stops a run on Ctrl-C: after the iteration that is running, at once when pressed twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from pufferlib.errors import RankError

SIGNAL_DEBOUNCE_SECONDS = 20.0  # with several processes: less than torchrun gives them to end

GRACE_SECONDS = 5.0  # between a second signal that the main thread does not answer and the end of the process
_HANDLED_BEFORE_SECONDS = 0.5  # a signal may be handled so long before the watching thread hears of it
_INTERRUPTED = 130  # the exit code that a shell reports for SIGINT
_UNANSWERED = (
    "puffer: two signals were not answered for {:g} seconds, so the run ends here, not saved again: something does not "
    "return, such as a c_step without an end; `gdb -p` shows where\n"
)


class StopRequest:
    """A context in which the first SIGINT, SIGTERM or SIGHUP sets `requested`, and a second one interrupts at once.

    Where the main thread handles no second signal within GRACE_SECONDS, as in a `c_step` that never returns, the
    process ends. In another thread than the main one this does nothing. When a RankError leaves the context, the
    handlers stay, so that the process can report the lost rank before the signal of torchrun ends it.

    For `debounce_seconds` after a signal further ones count as the same: torchrun forwards the Ctrl-C that its
    processes got from the terminal already.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, debounce_seconds: float = 0.0):
        self.requested = False
        self._debounce_seconds = debounce_seconds
        self._request_time = self._handled_time = 0.0
        self._previous: dict[signal.Signals, Any] = {}
        self._wakeup: int | None = None  # the end of a pipe to which Python writes the number of every signal

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            is_under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            handled = [number for number in self.SIGNALS if number != signal.SIGHUP or not is_under_nohup]
            self._previous = {number: signal.signal(number, self._handle) for number in handled}
            self._start_watching()
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        self._stop_watching()
        if kind is not None and issubclass(kind, RankError):
            return
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = self._handled_time = time.monotonic()
        if self.requested and now - self._request_time >= self._debounce_seconds:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested, self._request_time = True, now

    # Python runs handlers between two of its instructions, which a call into C may keep it from. A thread hears of
    # every signal all the same, by the pipe of `set_wakeup_fd`.

    def _start_watching(self) -> None:
        earlier = signal.set_wakeup_fd(-1)
        if earlier != -1:  # an event loop, or an outer StopRequest, uses it
            signal.set_wakeup_fd(earlier)
            return
        reading, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        _watched.add(self)
        threading.Thread(target=self._watch, args=(reading,), daemon=True).start()

    def _stop_watching(self) -> None:
        if self._wakeup is not None:
            signal.set_wakeup_fd(-1)
            os.close(self._wakeup)  # the thread reads to the end, and closes the other end
            self._wakeup = None
            _watched.discard(self)

    def _watch(self, reading: int) -> None:
        last = 0.0
        while number := os.read(reading, 1):
            now = time.monotonic()
            if number[0] not in self.SIGNALS or (last and now - last < self._debounce_seconds):
                continue
            is_second, last = last > 0.0, now
            while is_second and self._wakeup is not None and self._handled_time < now - _HANDLED_BEFORE_SECONDS:
                if time.monotonic() > now + GRACE_SECONDS:
                    os.write(2, _UNANSWERED.format(GRACE_SECONDS).encode())
                    os._exit(_INTERRUPTED)
                time.sleep(0.05)
        os.close(reading)


_watched: set[StopRequest] = set()


def _stop_watching_in_child() -> None:  # a forked process would write its signals into the pipe of its parent
    for request in list(_watched):
        request._stop_watching()


os.register_at_fork(after_in_child=_stop_watching_in_child)
