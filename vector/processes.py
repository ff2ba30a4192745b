"""Python environments in worker processes, on shared memory."""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import cloudpickle
from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, WorkerError
from pufferlib.vector.arrays import SharedMemory, buffer_bytes, buffers_in
from pufferlib.vector.base import Batch, Vector, split
from pufferlib.vector.batching import FixedBatches, MixedBatches
from pufferlib.vector.group import EnvFacts
from pufferlib.vector.launch import WorkerHandle, check_context, end_workers
from pufferlib.vector.recipe import Options, Recipe
from pufferlib.vector.sizes import count_batch, count_workers, warn_above_cores
from pufferlib.vector.worker import Command, Reply, Task


class Multiprocessing(Vector):
    """Steps its environments in `num_workers` processes that write straight into shared arrays.

    Idle workers sleep. `recv` gives the first batch whose workers are all done, so a slow environment holds up its own
    batch alone. A worker that raises or dies ends the vector with a WorkerError at once. Workers end when the vector is
    closed or collected and when this process ends, however it ends; nothing is left behind.

    The creators are pickled by cloudpickle, so functions of the main program and lambdas are welcome. `driver_env` is
    one more environment, in this process.
    """

    def __init__(self, recipe: Recipe, driver: PufferEnv, options: Options):
        """Starts the workers and waits until they have made their environments; see `pufferlib.vector.make`."""
        check_context(options.context)
        num_workers = count_workers(options, recipe.num_envs)
        warn_above_cores(num_workers)
        super().__init__(recipe, driver, num_workers, count_batch(options, recipe.num_envs, recipe.num_envs))
        self.driver_env = driver
        facts = EnvFacts(driver)
        shape = (facts.single_observation_space, facts.single_action_space, self.num_agents)
        shared = SharedMemory(buffer_bytes(*shape))
        self._buffers = buffers_in(shared.memory, *shape)
        self._buffers.masks[:] = True
        envs_per_worker = self.num_envs // num_workers
        batches = FixedBatches if options.zero_copy else MixedBatches
        self._batches = batches(self._buffers, self.num_envs, self.batch_size, envs_per_worker)
        self.mixes_batches = not options.zero_copy and self._num_batches > 1
        self._envs_per_worker = envs_per_worker
        self._num_awaited = 0
        self._infos: list[list[dict]] = [[] for _ in range(num_workers)]
        self._selector = selectors.DefaultSelector()
        self._workers: list[WorkerHandle] = []
        self._end_workers = weakref.finalize(self, end_workers, self._workers, os.getpid())
        try:
            self._start_workers(_pickled_tasks(recipe, facts, num_workers), shared, options.context)
        except BaseException:
            self._close()
            raise
        finally:
            shared.close_fd()

    def _start_workers(self, tasks: list[bytes], shared: SharedMemory, context: str | None) -> None:
        for index, envs in enumerate(split(self.num_envs, self.num_workers)):
            worker = WorkerHandle(index, envs, shared, context, tuple(self._workers))
            self._workers.append(worker)
            self._selector.register(worker.connection, selectors.EVENT_READ, worker)
            if worker.process.sentinel is not None:
                self._selector.register(worker.process.sentinel, selectors.EVENT_READ, worker)
        for worker, task in zip(self._workers, tasks, strict=True):
            self._send_bytes(worker, task)
        self._gather_replies()

    # --------------------------------------------------------------------------------------------------- messages

    def _send_bytes(self, worker: WorkerHandle, message: bytes) -> None:
        self._num_awaited += 1
        try:
            worker.connection.send_bytes(message)
        except OSError:
            self._raise_end(worker)

    def _command(self, worker: WorkerHandle, command: Command, argument: Any = None) -> None:
        self._send_bytes(worker, pickle.dumps((command, argument)))

    def _wait(self) -> list[tuple[WorkerHandle, Any]]:
        """Waits for replies, at least one; returns who answered and what.

        Raises:
            WorkerError: if a worker raised or died.
        """
        events = self._selector.select()
        with self._undivided():
            replies: dict[WorkerHandle, Any] = {}
            for key, _ in events:
                worker = key.data
                if worker in replies:
                    continue
                if key.fileobj is not worker.connection and not worker.connection.poll():
                    self._raise_end(worker)
                replies[worker] = self._reply(worker)
            self._num_awaited -= len(replies)
            return list(replies.items())

    @contextlib.contextmanager
    def _undivided(self) -> Iterator[None]:
        """Closes the vector if Ctrl-C cuts an exchange in two: a later call would wait forever for the other half."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _reply(self, worker: WorkerHandle) -> Any:
        try:
            reply, content = worker.connection.recv()
        except (EOFError, OSError):
            self._raise_end(worker)
        if reply is Reply.ERROR:
            self.close()
            raise WorkerError(f"{worker} raised, so the vector is closed:\n{content}")
        return content

    def _raise_end(self, worker: WorkerHandle) -> NoReturn:
        end = worker.describe_end()
        self.close()
        raise WorkerError(f"{worker} {end}, so the vector is closed; its own output may say why")

    def _gather_replies(self) -> list[Any]:
        """Waits for all that run; returns what each worker answered."""
        contents: list[Any] = [None] * self.num_workers
        while self._num_awaited > 0:
            for worker, content in self._wait():
                contents[worker.index] = content
        return contents

    # --------------------------------------------------------------------------------------------------- contract

    @override
    def _drain(self) -> None:
        self._gather_replies()
        self._batches.clear()

    @override
    def _start_reset(self, seeds: list[int | None]) -> None:
        with self._undivided():
            for worker in self._workers:
                self._command(worker, Command.RESET, seeds[worker.envs.start : worker.envs.stop])

    @override
    def _start(self, batch: Batch) -> None:
        self._batches.release(batch)
        with self._undivided():
            for worker in self._workers_of(batch):
                self._command(worker, Command.STEP)

    @override
    def _finish(self) -> tuple[Batch, list[dict]]:
        while (batch := self._batches.take()) is None:
            for worker, infos in self._wait():
                self._infos[worker.index] = infos
                self._batches.add(worker.index)
        return batch, [info for worker in self._workers_of(batch) for info in self._infos[worker.index]]

    @override
    def _snapshot_envs(self) -> list[bytes | None]:
        for worker in self._workers:
            self._command(worker, Command.SNAPSHOT)
        return [snapshot for snapshots in self._gather_replies() for snapshot in snapshots]

    @override
    def _restore_envs(self, snapshots: list[bytes]) -> None:
        for worker in self._workers:
            self._command(worker, Command.RESTORE, snapshots[worker.envs.start : worker.envs.stop])
        self._gather_replies()

    @override
    def _batch_of(self, envs: tuple[int, ...]) -> Batch | None:
        return self._batches.batch_of(envs)

    def _workers_of(self, batch: Batch) -> list[WorkerHandle]:
        return [self._workers[env // self._envs_per_worker] for env in batch.envs[:: self._envs_per_worker]]

    @override
    def _close(self) -> None:
        self._selector.close()
        self._end_workers()
        self.driver_env.close()


def _pickled_tasks(recipe: Recipe, facts: EnvFacts, num_workers: int) -> Sequence[bytes]:
    try:
        return [cloudpickle.dumps(Task(recipe, facts, envs)) for envs in split(recipe.num_envs, num_workers)]
    except Exception as error:
        raise APIUsageError(
            "Multiprocessing sends the environment creators and their arguments to its workers, but pickling them "
            f"failed ({error}); make them picklable, or use the Serial backend"
        ) from error
