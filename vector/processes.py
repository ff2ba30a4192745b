"""Python environments in worker processes, on shared memory."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.spawn
import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, WorkerError
from pufferlib.vector._native import ParentBells, bells_bytes
from pufferlib.vector.arrays import EnvInfo, SharedMemory, buffer_bytes, buffers_in
from pufferlib.vector.batch import split
from pufferlib.vector.recipe import EnvRecipe, Options, check_workers, count_workers, warn_above_cores
from pufferlib.vector.remote import RemoteVector, pickled_tasks
from pufferlib.vector.worker import WAKING, serve

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
        self.terminate, self.kill = self._process.terminate, self._process.kill
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

    def close(self) -> None:
        """Closes the sentinel."""
        if self.sentinel is not None:
            os.close(self.sentinel)
            self.sentinel = None


class WorkerHandle:
    """The parent's side of a worker, which has some environments."""

    def __init__(self, index: int, envs: range, shared: SharedMemory, context: str | None):
        self.index = index
        self.envs = envs
        self.connection, theirs = multiprocessing.Pipe()  # for commands and replies
        try:
            if context is None:
                self.process: Interpreter | BaseProcess = Interpreter(theirs, shared)
            else:
                inherited = self.connection if context == "fork" else None
                process_class = multiprocessing.get_context(context).Process
                # A daemon, because the standard library joins all others at exit before our own clean-up can run.
                self.process = process_class(target=serve, args=(theirs, shared, inherited), daemon=True)
                self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()
        # Told after the end as well, when a process of the standard library knows its number no more.
        self._name = f"worker {index} (process {self.process.pid}, environments {envs.start} to {envs[-1]})"

    def __str__(self) -> str:
        return self._name

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
    try:
        for handle in workers:
            handle.connection.close()
        _join_all(workers, seconds)
        for handle in workers:
            if handle.process.exitcode is None:
                handle.process.terminate()
        _join_all(workers, TERMINATE_SECONDS)
    finally:  # also where Ctrl-C cuts the waiting short
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


class Multiprocessing(RemoteVector):
    """Steps its environments in `num_workers` processes that write straight into shared arrays.

    Steps are requested and answered in shared memory. Messages carry everything else, such as infos, and wake sleepers:
    `recv` sleeps until enough workers for a batch are done, and a worker sleeps when it has had nothing to do for a
    moment. `recv` returns the first batch whose workers are all done, so a slow environment delays its own batch alone.
    A worker that raises or dies ends the vector with a WorkerError at once, and one that takes longer than
    `step_timeout_seconds` is killed first. Workers end when the vector is closed or collected and when this process
    ends, in whichever way; they leave nothing behind. Workers that share a core move to a free one; no core is
    reserved.

    cloudpickle sends the creators, so they may be lambdas and functions of the main program. `driver_env` is one more
    environment, in this process.
    """

    def __init__(self, recipe: EnvRecipe, driver: PufferEnv, options: Options):
        check_context(options.context)
        num_workers = count_workers(options, recipe.num_envs)
        check_workers(num_workers)
        warn_above_cores(num_workers)
        self._workers: list[WorkerHandle] = []
        super().__init__(recipe, driver, options, num_workers)
        self._timeout = options.step_timeout_seconds
        self._asked: dict[WorkerHandle, float] = {}  # when, those that have not answered, oldest first; with a timeout
        self._contents: dict[WorkerHandle, Any] = {}  # of answers by message
        info = EnvInfo(driver)
        arrays_bytes = buffer_bytes(info, self.num_agents)
        shared = SharedMemory(arrays_bytes + bells_bytes(num_workers))
        self._bells = ParentBells(shared.memory, arrays_bytes, num_workers)
        self._buffers = buffers_in(shared.memory, info, self.num_agents)
        self._form_batches(options)
        self._selector = selectors.DefaultSelector()
        self._end_workers = weakref.finalize(self, end_workers, self._workers, os.getpid())
        try:
            self._start_workers(pickled_tasks(recipe, info, num_workers, "Multiprocessing"), shared, options.context)
        except BaseException:
            self._close()
            raise
        finally:
            shared.close_fd()

    def _start_workers(self, tasks: list[bytes], shared: SharedMemory, context: str | None) -> None:
        for index, envs in enumerate(split(self.num_envs, self.num_workers)):
            worker = WorkerHandle(index, envs, shared, context)
            self._workers.append(worker)
            self._selector.register(worker.connection, selectors.EVENT_READ, worker)
            if worker.process.sentinel is not None:
                self._selector.register(worker.process.sentinel, selectors.EVENT_READ, worker)
        for worker, task in zip(self._workers, tasks, strict=True):
            self._num_awaited += 1  # no worker sleeps before its first message
            self._send_bytes(worker, task)
        self._gather_replies()

    # --------------------------------------------------------------------------------------------------- messages

    def _send_bytes(self, worker: WorkerHandle, message: bytes) -> None:
        try:
            worker.connection.send_bytes(message)
        except OSError:
            self._raise_end(worker)

    @override
    def _command(self, worker: WorkerHandle, command: str, *arguments: Any) -> None:
        if self._timeout is not None:
            self._asked[worker] = time.monotonic()
        by_message = command != "step"
        if by_message:
            self._send_bytes(worker, pickle.dumps((command, arguments)))
        self._num_awaited += 1
        if self._bells.ask(worker.index, by_message):
            self._send_bytes(worker, WAKING)

    @override
    def _wait(self, least: int) -> list[tuple[WorkerHandle, Any]]:
        events = self._selector.select(self._patience()) if self._bells.fall_asleep(least) else []
        with self._undivided():
            self._bells.wake_up()
            for key, _ in events:
                worker = key.data
                if key.fileobj is worker.connection:
                    self._read(worker)
                elif not worker.connection.poll():
                    self._raise_end(worker)
            answers = self._bells.answers()
            replies = [self._reply(self._workers[index], by_message) for index, by_message in answers]
            self._num_awaited -= len(replies)
            self._end_overdue()
            return replies

    def _patience(self) -> float | None:
        if not self._asked or self._timeout is None:
            return None
        return max(0.0, next(iter(self._asked.values())) + self._timeout - time.monotonic())

    def _end_overdue(self) -> None:
        if self._patience() != 0.0:
            return
        latest = time.monotonic() - self._timeout
        overdue = [worker for worker, asked in self._asked.items() if asked <= latest]
        for worker in overdue:
            worker.process.kill()
        self.close()
        verb = "was" if len(overdue) == 1 else "were"
        raise WorkerError(
            f"{' and '.join(map(str, overdue))} took longer than step_timeout_seconds {self._timeout:g} and {verb} "
            "killed, so the vector is closed; look for a deadlock in the environment, or give it more time"
        )

    def _reply(self, worker: WorkerHandle, by_message: bool) -> tuple[WorkerHandle, Any]:
        self._asked.pop(worker, None)
        if not by_message:
            return worker, []
        while worker not in self._contents:
            self._read(worker)
        return worker, self._contents.pop(worker)

    def _read(self, worker: WorkerHandle) -> None:
        # A waking message, an error, or an answer whose bell may have yet to ring.
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            self._raise_end(worker)
        if message == WAKING:
            return
        content, error = pickle.loads(message)  # noqa: S301 - our own worker's
        if error is not None:
            self._raise_error(worker, error)
        self._contents[worker] = content
        self._asked.pop(worker, None)

    def _raise_end(self, worker: WorkerHandle) -> NoReturn:
        end = worker.describe_end()
        self.close()
        raise WorkerError(f"{worker} {end}, so the vector is closed; its own output may say why")

    @override
    def _disown(self) -> None:
        super()._disown()
        for worker in self._workers:  # which otherwise sees no end of the connection while this process lives
            worker.connection.close()

    @override
    def _close(self) -> None:
        self._selector.close()
        is_interrupted = isinstance(sys.exc_info()[1], KeyboardInterrupt)
        if (detached := self._end_workers.detach()) is not None:
            _, end, arguments, _ = detached
            end(*arguments, INTERRUPTED_CLOSE_SECONDS if is_interrupted else CLOSE_SECONDS)
        self.driver_env.close()
