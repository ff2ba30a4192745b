"""The base of the backends whose environments live in other processes, driven by commands and replies."""

from __future__ import annotations

import abc
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn, Protocol

import cloudpickle
import gymnasium
from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, WorkerError
from pufferlib.vector.arrays import EnvInfo
from pufferlib.vector.base import Vector
from pufferlib.vector.batch import Batch, FixedBatches, MixedBatches, split
from pufferlib.vector.recipe import EnvRecipe, Options, count_batch
from pufferlib.vector.worker import WorkerTask


class Handle(Protocol):
    """The parent's side of a worker; its `str` says which one it is."""

    index: int
    envs: range


class RemoteVector(Vector):
    """A vector of `num_workers` workers with equally many environments; a subclass talks to them."""

    _workers: list[Any]  # a Handle each, set by the subclass

    def __init__(self, recipe: EnvRecipe, driver: PufferEnv, options: Options, num_workers: int):
        super().__init__(recipe, driver, num_workers, count_batch(options, recipe.num_envs, recipe.num_envs))
        self.driver_env = driver
        self.mixes_batches = not options.zero_copy and self._num_batches > 1
        self._envs_per_worker = self.num_envs // num_workers
        self._num_awaited = 0  # replies
        self._infos: list[list[dict]] = [[] for _ in range(num_workers)]

    def _form_batches(self, options: Options) -> None:
        batches = FixedBatches if options.zero_copy else MixedBatches
        self._batches = batches(self._buffers, self.num_envs, self.batch_size, self._envs_per_worker)

    # ------------------------------------------------------------------------------------------------- for subclasses

    @abc.abstractmethod
    def _command(self, worker: Handle, command: str, *arguments: Any) -> None:
        """Has a worker call a method of its `Group`; one reply more is awaited."""

    @abc.abstractmethod
    def _wait(self, least: int) -> list[tuple[Handle, Any]]:
        """Waits for replies; returns them with their workers, and awaits that many less.

        The caller can use `least` and more; fewer may be returned, and none. WorkerError if a worker raised, died, or
        took too long.
        """

    @contextlib.contextmanager
    def _undivided(self) -> Iterator[None]:
        # If Ctrl-C cuts an exchange in two, a later call would wait forever for its other half.
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _raise_error(self, worker: Handle, report: str) -> NoReturn:
        self.close()
        raise WorkerError(f"{worker} raised, so the vector is closed:\n{report}")

    def _ask_all(self, command: str, *by_env: list) -> list[Any]:
        with self._undivided():
            for worker in self._workers:
                self._command(worker, command, *(each[worker.envs.start : worker.envs.stop] for each in by_env))
            return self._gather_replies()

    def _gather_replies(self) -> list[Any]:
        contents: list[Any] = [None] * self.num_workers
        while self._num_awaited > 0:
            for worker, content in self._wait(self._num_awaited):
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
                own = seeds[worker.envs.start : worker.envs.stop]
                self._command(worker, "reset", own, self.tells_final_observations)

    @override
    def _start(self, batch: Batch) -> None:
        self._batches.release(batch)
        with self._undivided():
            for worker in self._workers_of(batch):
                self._command(worker, "step")

    @override
    def _finish(self) -> tuple[Batch, list[dict]]:
        while (batch := self._batches.take()) is None:
            for worker, infos in self._wait(self._batches.num_missing):
                self._infos[worker.index] = infos
                self._batches.add(worker.index)
        return batch, [info for worker in self._workers_of(batch) for info in self._infos[worker.index]]

    @override
    def _snapshot_envs(self) -> list[bytes | None]:
        return [snapshot for snapshots in self._ask_all("snapshot") for snapshot in snapshots]

    @override
    def _restore_envs(self, snapshots: list[bytes]) -> None:
        self._ask_all("restore", snapshots)

    @override
    def _batch_of(self, envs: tuple[int, ...]) -> Batch | None:
        return self._batches.batch_of(envs)

    def _workers_of(self, batch: Batch) -> list[Any]:
        return [self._workers[env // self._envs_per_worker] for env in batch.envs[:: self._envs_per_worker]]


def pickled_tasks(recipe: EnvRecipe, info: EnvInfo, num_workers: int, backend: str) -> list[bytes]:
    """The task of every worker; an APIUsageError if a creator or an argument cannot be pickled."""
    try:
        specs = _registered_elsewhere()
        return [
            cloudpickle.dumps(WorkerTask(recipe, info, envs, specs)) for envs in split(recipe.num_envs, num_workers)
        ]
    except Exception as error:
        raise APIUsageError(
            f"{backend} sends the environment creators and their arguments to its workers, but pickling them "
            f"failed ({error}); make them picklable, or use the Serial backend"
        ) from error


def _registered_elsewhere() -> list[bytes]:
    # An id that an imported package or the program registered is unknown to a fresh interpreter. An entry point is text
    # or a class or function; a worker loads them, and so imports the packages, only where it does not know an id.
    specs = []
    for spec in gymnasium.registry.values():
        entry_point = spec.entry_point
        if not str(entry_point).startswith("gymnasium."):
            with contextlib.suppress(Exception):  # its keywords may be anything
                if isinstance(entry_point, str) and entry_point.startswith("__main__:"):
                    spec = replace(spec, entry_point=getattr(sys.modules["__main__"], entry_point.partition(":")[2]))
                specs.append(cloudpickle.dumps(spec))
    return specs
