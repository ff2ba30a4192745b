"""Starts and ends worker processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

from pufferlib.errors import APIUsageError
from pufferlib.vector.arrays import SharedMemory
from pufferlib.vector.worker import serve

CONTEXTS = (None, "fork", "forkserver", "spawn")
CLOSE_SECONDS = 3.0  # for a worker to finish its step and close its environments
INTERRUPTED_CLOSE_SECONDS = 1.0  # the same where Ctrl-C ended the program, perhaps because a worker hangs
TERMINATE_SECONDS = 1.0  # for a worker to obey SIGTERM


class Interpreter:
    """A worker in a fresh Python interpreter, with the methods of `multiprocessing.Process` that are needed here.

    Unlike a forked child it inherits no locks of other threads, which torch and BLAS do not survive. Unlike the
    standard library's spawn it does not run the main program again, so scripts need no `if __name__ == "__main__"`.
    """

    def __init__(self, connection: Connection, shared: SharedMemory):
        fds = (connection.fileno(), shared.fd)
        program = (
            f"import sys; sys.path[:] = {[str(entry) for entry in sys.path]!r}; "
            f"from pufferlib.vector.worker import main; main({fds[0]}, {fds[1]}, {shared.size})"
        )
        # A session of its own: Ctrl-C in the terminal reaches the parent alone, even while the worker is starting.
        self._process = subprocess.Popen(
            [multiprocessing.spawn.get_executable(), "-c", program],
            stdin=subprocess.DEVNULL,
            pass_fds=fds,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.sentinel: int | None = None  # becomes readable when the process ends
        with contextlib.suppress(AttributeError, OSError):  # not on macOS, not in every container
            self.sentinel = os.pidfd_open(self.pid)

    @property
    def exitcode(self) -> int | None:
        """The code that the process ended with, minus the signal that killed it; None while it runs."""
        return self._process.poll()

    def join(self, timeout: float) -> None:
        """Waits for the end, at most `timeout` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Sends SIGKILL."""
        self._process.kill()

    def close(self) -> None:
        """Closes the sentinel."""
        if self.sentinel is not None:
            os.close(self.sentinel)
            self.sentinel = None


class WorkerHandle:
    """The parent's side of a worker.

    Attributes:
        index: its number.
        envs: the environments it has.
        connection: sends commands, receives replies.
        process: an `Interpreter` or a `multiprocessing.Process`.
    """

    def __init__(
        self, index: int, envs: range, shared: SharedMemory, context: str | None, others: Sequence[WorkerHandle]
    ):
        self.index = index
        self.envs = envs
        self.connection, theirs = multiprocessing.Pipe()
        try:
            if context is None:
                self.process = Interpreter(theirs, shared)
            else:
                inherited = [self.connection, *(other.connection for other in others)] if context == "fork" else []
                process_class = multiprocessing.get_context(context).Process
                # A daemon, because the standard library joins all others at exit before our own clean-up can run.
                self.process = process_class(target=serve, args=(theirs, shared, inherited), daemon=True)
                self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()

    def __str__(self) -> str:
        return f"worker {self.index} (process {self.process.pid}, environments {self.envs.start} to {self.envs[-1]})"

    def describe_end(self) -> str:
        """How the process ended, or that it hung up."""
        self.process.join(TERMINATE_SECONDS)
        code = self.process.exitcode
        if code is None:
            return "closed its connection"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"


def check_context(context: str | None) -> None:
    """Raises an APIUsageError if this platform has no such start method."""
    allowed = [name for name in CONTEXTS if name is None or name in multiprocessing.get_all_start_methods()]
    if context not in allowed:
        raise APIUsageError(f"context must be one of {', '.join(map(repr, allowed))}, got {context!r}")


def end_workers(workers: list[WorkerHandle], owner: int, seconds: float = CLOSE_SECONDS) -> None:
    """Closes the connections, waits, and kills the rest; does nothing in a forked child of the process `owner`."""
    if os.getpid() != owner:
        return
    for handle in workers:
        handle.connection.close()
    _join_all(workers, seconds)
    for handle in workers:
        if handle.process.exitcode is None:
            handle.process.terminate()
    _join_all(workers, TERMINATE_SECONDS)
    while workers:
        process = workers.pop().process
        if process.exitcode is None:
            process.kill()
            process.join(TERMINATE_SECONDS)
        process.close()


def _join_all(workers: Sequence[WorkerHandle], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for handle in workers:
        handle.process.join(max(0.0, deadline - time.monotonic()))
