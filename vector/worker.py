"""What runs inside a worker process: environments on shared arrays, driven by messages."""

from __future__ import annotations

import enum
import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from pufferlib.vector._native import end_with_parent
from pufferlib.vector.arrays import SharedMemory, buffers_in
from pufferlib.vector.group import EnvFacts, Group
from pufferlib.vector.recipe import Recipe

ORPHAN_SECONDS = 5  # for a worker whose parent is gone to finish its step and close its environments
ALERT_SECONDS = 500e-6  # for which a worker that is done looks out for its next command; why so long: bench/NOTES.md


class Command(enum.IntEnum):
    """What the parent asks; a message is a pair of a command and its argument."""

    STEP = 0  # None -> infos
    RESET = 1  # seeds -> infos
    SNAPSHOT = 2  # None -> snapshots
    RESTORE = 3  # snapshots -> None


class Reply(enum.IntEnum):
    """How the worker answers; a message is a pair of a reply and its content."""

    DONE = 0  # what the command gives
    ERROR = 1  # a traceback; the worker ends after it


@dataclass(frozen=True)
class Task:
    """The share of one worker."""

    recipe: Recipe
    facts: EnvFacts
    envs: range

    def make(self, shared: SharedMemory) -> Group:
        """Makes the environments on their rows of the memory."""
        agents = self.facts.num_agents
        buffers = buffers_in(
            shared.memory,
            self.facts.single_observation_space,
            self.facts.single_action_space,
            self.recipe.num_envs * agents,
        )
        rows = buffers.rows(self.envs.start * agents, self.envs.stop * agents)
        return Group(self.recipe, self.envs, rows, self.facts)


def main(connection_fd: int, memory_fd: int, memory_size: int) -> None:
    """Serves a parent that started this interpreter; both descriptors are inherited."""
    shared = SharedMemory(memory_size, memory_fd)
    serve(Connection(connection_fd), shared)


def serve(connection: Connection, shared: SharedMemory, inherited: Iterable[Connection] = ()) -> None:
    """Makes the environments that the first message describes and obeys until the parent closes the connection or dies.

    Ctrl-C is the parent's business. An exception of an environment, SystemExit included, is sent with its traceback. If
    the parent dies while an environment hangs, this process is killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in inherited:  # ends of the parent, which must be the only one to have them open
        other.close()
    shared.close_fd()
    end_with_parent(ORPHAN_SECONDS)
    if _has_hung_up(connection):  # before the watch began
        return
    try:
        _obey(connection, shared)
    except (BrokenPipeError, ConnectionResetError):
        return  # the parent is gone, there is nobody to tell


def _has_hung_up(connection: Connection) -> bool:
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLHUP)
    return bool(poll.poll(0))


def _obey(connection: Connection, shared: SharedMemory) -> None:
    group = None
    inbox = Inbox(connection)
    try:
        message = inbox.receive()
        if message is None:
            return
        group = pickle.loads(message).make(shared)
        actions = {
            Command.STEP: lambda _: group.step(),
            Command.RESET: group.reset,
            Command.SNAPSHOT: lambda _: group.snapshot(),
            Command.RESTORE: group.restore,
        }
        connection.send((Reply.DONE, None))
        while (message := inbox.receive()) is not None:
            command, argument = pickle.loads(message)
            connection.send((Reply.DONE, actions[command](argument)))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except BaseException:
        connection.send((Reply.ERROR, traceback.format_exc()))
    finally:
        if group is not None:
            group.close()


class Inbox:
    """What the parent sends.

    A worker that is done stays awake for a moment, and offers its core to others meanwhile: short steps follow each
    other faster than a kernel wakes a process, and kernels tend to wake all workers on the core of the parent.
    """

    def __init__(self, connection: Connection):
        """Receives from `connection`."""
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def receive(self) -> bytes | None:
        """The next message, None when the parent has closed its end."""
        deadline = time.perf_counter() + ALERT_SECONDS
        while not self._poll.poll(0) and time.perf_counter() < deadline:
            os.sched_yield()
        try:
            return self._connection.recv_bytes()
        except (EOFError, ConnectionResetError):
            return None
