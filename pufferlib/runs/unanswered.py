"""What ends a process that answers no signal, as one that loops in C for ever."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable

GRACE_SECONDS = 5.0
"""From the second signal to the end."""

JUST_SECONDS = 0.5
"""How long before it is heard of here a signal may have been answered."""

INTERRUPTED = 130
"""What a shell reports for a program that SIGINT ended."""


class UnansweredSignals:
    """While it is entered, a second signal that the main thread does not answer in time ends the process.

    Python's handlers run between two of its instructions. A `c_step` that never returns keeps the main thread from
    them, and Ctrl-C would do nothing, however often it is pressed. But every signal also writes a byte into a pipe, at
    whose other end a thread waits.
    """

    def __init__(self, signals: Iterable[int], deaf_seconds: float = 0.0):
        """Does nothing before it is entered, by the main thread.

        Args:
            signals: that count.
            deaf_seconds: how long after a signal others are taken for the same one.
        """
        self._signals = frozenset(map(int, signals))
        self._deaf_seconds = deaf_seconds
        self._answer_time = 0.0
        self._pipe: tuple[int, int] | None = None

    def answer(self) -> None:
        """Tells that the main thread has heard of a signal."""
        self._answer_time = time.monotonic()

    def __enter__(self) -> UnansweredSignals:
        pipe = os.pipe()
        os.set_blocking(pipe[1], False)
        earlier = signal.set_wakeup_fd(pipe[1], warn_on_full_buffer=False)
        if earlier != -1:  # somebody else listens already, such as an event loop: this is theirs
            signal.set_wakeup_fd(earlier)
            _close(pipe)
            return self
        self._pipe = pipe
        _entered.add(self)
        threading.Thread(target=self._listen, args=(pipe[0],), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pipe is None:
            return
        signal.set_wakeup_fd(-1)
        os.close(self._pipe[1])  # the thread then reads to the end, and closes the other one
        self._pipe = None
        _entered.discard(self)

    def _listen(self, end: int) -> None:
        last = 0.0
        while number := os.read(end, 1):
            now = time.monotonic()
            if number[0] not in self._signals or (last and now - last < self._deaf_seconds):
                continue
            if last and self._answer_time < now - JUST_SECONDS:
                self._end_unless_answered(now)
            last = now
        os.close(end)

    def _end_unless_answered(self, since: float) -> None:
        while time.monotonic() < since + GRACE_SECONDS:
            time.sleep(0.05)
            if self._pipe is None or self._answer_time >= since - JUST_SECONDS:
                return
        text = (
            f"puffer: two signals were not answered for {GRACE_SECONDS:g} seconds, so the run ends here, not saved "
            "again: something does not return, such as a c_step that loops for ever; `gdb -p` shows where\n"
        )
        os.write(2, text.encode())
        os._exit(INTERRUPTED)


_entered: set[UnansweredSignals] = set()


def _let_go_in_child() -> None:
    for watch in list(_entered):
        watch.__exit__()


os.register_at_fork(after_in_child=_let_go_in_child)


def _close(pipe: tuple[int, int]) -> None:
    for end in pipe:
        os.close(end)
