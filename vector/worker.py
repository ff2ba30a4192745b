"""What runs inside a worker process: environments on shared arrays, driven by messages."""

from __future__ import annotations

import enum
import pickle
import select
import signal
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import gymnasium

from pufferlib.errors import PufferWarning
from pufferlib.vector._native import WorkerBells, bells_bytes, end_with_parent
from pufferlib.vector.arrays import SharedMemory, buffers_in
from pufferlib.vector.group import EnvFacts, Group
from pufferlib.vector.recipe import Recipe

ORPHAN_SECONDS = 5  # for a worker whose parent is gone to finish its step and close its environments
ALERT_SECONDS = 500e-6  # for which a worker that is done looks out for its next command; why so long: bench/NOTES.md
WAKING = b""  # a message that says nothing: it wakes whoever sleeps


class Command(enum.IntEnum):
    """What the parent asks; a message is a pair of a command and its argument."""

    STEP = 0  # None -> infos; needs no message
    RESET = 1  # seeds -> infos
    SNAPSHOT = 2  # None -> snapshots
    RESTORE = 3  # snapshots -> None
    TELL_FINAL_OBSERVATIONS = 4  # None -> None


class Reply(enum.IntEnum):
    """How the worker answers; a message is a pair of a reply and its content."""

    DONE = 0  # what the command gives; an empty list needs no message
    ERROR = 1  # a traceback; the worker ends after it


@dataclass(frozen=True)
class Task:
    """The share of one worker."""

    recipe: Recipe
    facts: EnvFacts
    envs: range
    specs: list[bytes] = field(default_factory=list)  # pickled EnvSpecs, of ids that the parent knows in Gymnasium

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PufferWarning)  # the parent made an environment, and has shown them
            try:
                return Group(self.recipe, self.envs, rows, self.facts)
            except gymnasium.error.UnregisteredEnv:  # by the package that the parent imported
                for spec in map(pickle.loads, self.specs):
                    gymnasium.registry.setdefault(spec.id, spec)
            # The package is imported now, and registers its ids as well.
            warnings.filterwarnings("ignore", ".*Overriding environment", UserWarning)
            return Group(self.recipe, self.envs, rows, self.facts)

    def bells(self, shared: SharedMemory) -> WorkerBells:
        """The worker's side of the bells, which are the end of the memory."""
        size = len(self.envs)
        num_workers = self.recipe.num_envs // size
        return WorkerBells(shared.memory, shared.size - bells_bytes(num_workers), num_workers, self.envs.start // size)


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
    try:
        message = _received(connection)
        if message is None:
            return
        task = pickle.loads(message)  # noqa: S301 - our own parent's
        desk = Desk(connection, task.bells(shared))
        group = task.make(shared)
        actions = {
            Command.STEP: lambda _: group.step(),
            Command.RESET: group.reset,
            Command.SNAPSHOT: lambda _: group.snapshot(),
            Command.RESTORE: group.restore,
            Command.TELL_FINAL_OBSERVATIONS: lambda _: group.tell_final_observations(),
        }
        desk.answer([])
        while (asked := desk.receive()) is not None:
            command, argument = asked
            desk.answer(actions[command](argument))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except BaseException:
        connection.send((Reply.ERROR, traceback.format_exc()))
    finally:
        if group is not None:
            group.close()


class Desk:
    """Where commands arrive and answers leave: by bells in shared memory, and by messages where there is more to say.

    A worker that is done stays awake for a moment, unless another process of the vector uses its core: short steps
    follow each other faster than a kernel wakes a process.
    """

    def __init__(self, connection: Connection, bells: WorkerBells):
        """Talks to the parent at the other end of both."""
        self._connection = connection
        self._bells = bells
        self._early: bytes | None = None  # a message that arrived before its bell rang

    def receive(self) -> tuple[Command, Any] | None:
        """The next command and its argument, None when the parent has closed its end."""
        while not self._bells.watch(ALERT_SECONDS):
            message = _received(self._connection)
            if message is None:
                return None
            self._early = message or self._early
        if not self._bells.is_message():
            self._bells.spread()
            return Command.STEP, None
        message, self._early = self._early, None
        while not message:
            message = _received(self._connection)
            if message is None:
                return None
        return pickle.loads(message)  # noqa: S301 - our own parent's

    def answer(self, content: Any) -> None:
        """Tells the parent that the command is done and what it gave."""
        by_message = content != []
        if by_message:
            self._connection.send((Reply.DONE, content))
        if self._bells.answer(by_message):
            self._connection.send_bytes(WAKING)


def _received(connection: Connection) -> bytes | None:
    """The next message, None when the parent has closed its end."""
    try:
        return connection.recv_bytes()
    except (EOFError, ConnectionResetError):
        return None
