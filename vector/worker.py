"""The code inside a worker process: environments on shared arrays, driven by messages."""

from __future__ import annotations

import contextlib
import pickle
import select
import signal
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection

import cloudpickle
import gymnasium

from pufferlib.environment import Buffers
from pufferlib.errors import PufferWarning
from pufferlib.vector._native import WorkerBells, bells_bytes, end_with_parent
from pufferlib.vector.arrays import EnvInfo, SharedMemory, buffers_in
from pufferlib.vector.group import Group
from pufferlib.vector.recipe import EnvRecipe

ORPHAN_SECONDS = 5  # for a worker whose parent is gone to finish its step and close its environments
ALERT_SECONDS = 500e-6  # for which a worker that is done polls for its next command; why so long: bench/NOTES.md
WAKING = b""  # an empty message, which wakes a sleeper


@dataclass(frozen=True)
class WorkerTask:
    """The share of one worker."""

    recipe: EnvRecipe
    info: EnvInfo
    envs: range
    specs: list[bytes]  # pickled EnvSpecs, of ids that the parent knows in Gymnasium

    def rows(self, shared: SharedMemory) -> Buffers:
        """The arrays of the environments in the memory."""
        agents = self.info.num_agents
        buffers = buffers_in(shared.memory, self.info, self.recipe.num_envs * agents)
        return buffers.rows(self.envs.start * agents, self.envs.stop * agents)

    def make(self, rows: Buffers) -> Group:
        """Makes the environments on their arrays."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PufferWarning)  # the parent made an environment, and has shown them
            try:
                return Group(self.recipe, self.envs, rows, self.info)
            except gymnasium.error.UnregisteredEnv:  # by the package that the parent imported
                for pickled in self.specs:
                    with contextlib.suppress(Exception):  # a module that is not found here; the next call says so
                        spec = pickle.loads(pickled)  # noqa: S301 - our own parent's
                        gymnasium.registry.setdefault(spec.id, spec)
            # The package is imported now, and registers its ids as well.
            warnings.filterwarnings("ignore", ".*Overriding environment", UserWarning)
            return Group(self.recipe, self.envs, rows, self.info)

    def bells(self, shared: SharedMemory) -> WorkerBells:
        """The worker's side of the bells, which are the end of the memory."""
        size = len(self.envs)
        num_workers = self.recipe.num_envs // size
        return WorkerBells(shared.memory, shared.size - bells_bytes(num_workers), num_workers, self.envs.start // size)


def main(connection_fd: int, memory_fd: int, memory_size: int) -> None:
    """Serves a parent that started this interpreter; both descriptors are inherited."""
    shared = SharedMemory(memory_size, memory_fd)
    serve(Connection(connection_fd), shared)


def serve(connection: Connection, shared: SharedMemory, inherited: Connection | None = None) -> None:
    """Makes the environments of the first message and runs commands until the parent closes the connection or dies.

    It ignores Ctrl-C, which the parent handles. It sends an exception of an environment, SystemExit included, with its
    traceback. If the parent dies while an environment hangs, this process is killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if inherited is not None:  # the parent's end, which the parent alone must have open
        inherited.close()
    shared.close_fd()
    end_with_parent(ORPHAN_SECONDS)
    if _has_hung_up(connection):  # before the watch began
        return
    try:
        _obey(connection, shared)
    except (BrokenPipeError, ConnectionResetError):
        return  # the parent is gone


def _has_hung_up(connection: Connection) -> bool:
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLHUP)
    return bool(poll.poll(0))


def _obey(connection: Connection, shared: SharedMemory) -> None:
    group = None
    try:
        task = pickle.loads(connection.recv_bytes())  # noqa: S301 - our own parent's
        channel = WorkerChannel(connection, task.bells(shared))
        group = task.make(task.rows(shared))
        channel.answer([])
        while True:
            command, arguments = channel.receive()
            channel.answer(getattr(group, command)(*arguments))
    except BaseException:  # the end of the connection as well, where this is sent in vain
        connection.send((None, traceback.format_exc()))
    finally:
        if group is not None:
            group.close()


class WorkerChannel:
    """Receives commands and sends replies: by bells in shared memory, and by messages where there is content.

    A worker that is done stays awake for a moment, unless another process of the vector uses its core: short steps
    follow each other faster than a kernel wakes a process.
    """

    def __init__(self, connection: Connection, bells: WorkerBells):
        self._connection = connection
        self._bells = bells
        self._early: bytes | None = None  # a message that arrived before its bell rang

    def receive(self) -> tuple[str, tuple]:
        """The next command, a method of Group, and its arguments; an EOFError when the parent has closed its end."""
        while not self._bells.watch(ALERT_SECONDS):
            self._early = self._connection.recv_bytes() or self._early
        if not self._bells.is_message():
            self._bells.spread()
            return "step", ()
        message, self._early = self._early, None
        while not message:
            message = self._connection.recv_bytes()
        return pickle.loads(message)  # noqa: S301 - our own parent's

    def answer(self, content: list | None) -> None:
        """Sends the parent the result of the command, with None for an error; an empty list needs no message."""
        by_message = content != []
        if by_message:
            try:
                self._connection.send((content, None))
            except (pickle.PicklingError, AttributeError, TypeError):  # infos with classes of the main program
                self._connection.send_bytes(cloudpickle.dumps((content, None)))
        if self._bells.answer(by_message):
            self._connection.send_bytes(WAKING)
