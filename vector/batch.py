"""Batches of environments that are received and sent together."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pufferlib.environment import Buffers


@dataclass(frozen=True, eq=False)
class Batch:
    """Environments that are received and sent together."""

    envs: tuple[int, ...]
    buffers: Buffers  # their rows
    agent_ids: np.ndarray  # (rows,) int64


def split(num_envs: int, parts: int) -> Sequence[range]:
    """Equal ranges of neighbouring environments."""
    size = num_envs // parts
    return [range(begin, begin + size) for begin in range(0, num_envs, size)]


def neighbouring_batches(buffers: Buffers, num_envs: int, batch_size: int) -> list[Batch]:
    """Batches of neighbouring environments, as views of the arrays of all."""
    agents, batches = len(buffers.rewards) // num_envs, []
    for envs in split(num_envs, num_envs // batch_size):
        begin, end = envs.start * agents, envs.stop * agents
        batches.append(Batch(tuple(envs), buffers.rows(begin, end), np.arange(begin, end)))
    return batches


class FixedBatches:
    """Batches of neighbouring workers, complete when the last of them is done; their arrays are views."""

    def __init__(self, buffers: Buffers, num_envs: int, batch_size: int, envs_per_worker: int):
        self._batches = neighbouring_batches(buffers, num_envs, batch_size)
        self._workers_per_batch = batch_size // envs_per_worker
        self.clear()

    def clear(self) -> None:
        """Marks every worker as running."""
        self._num_done = [0] * len(self._batches)
        self._complete: deque[Batch] = deque()

    def add(self, worker: int) -> None:
        """Notes that a worker is done."""
        index = worker // self._workers_per_batch
        self._num_done[index] += 1
        if self._num_done[index] == self._workers_per_batch:
            self._complete.append(self._batches[index])

    @property
    def num_missing(self) -> int:
        """The workers that must be done before the next batch can be complete, if they are the right ones."""
        return self._workers_per_batch - max(done for done in self._num_done if done < self._workers_per_batch)

    def take(self) -> Batch | None:
        """The batch that was complete first, None when none is."""
        return self._complete.popleft() if self._complete else None

    def release(self, batch: Batch) -> None:
        """Prepares a batch, whose actions are written, for the next step of its workers."""
        self._num_done[self._batches.index(batch)] = 0

    def batch_of(self, envs: tuple[int, ...]) -> Batch | None:
        """The batch of these environments, None if there is none."""
        return next((batch for batch in self._batches if batch.envs == envs), None)


class MixedBatches:
    """Batches of the workers that are ready first, as copies that stay until they are sent."""

    def __init__(self, buffers: Buffers, num_envs: int, batch_size: int, envs_per_worker: int):
        self._all = buffers
        self._agents_per_env = len(buffers.rewards) // num_envs
        self._envs_per_worker = envs_per_worker
        self._workers_per_batch = batch_size // envs_per_worker
        rows = batch_size * self._agents_per_env
        self._slots = [_empty_like(buffers, rows) for _ in range(num_envs // batch_size)]
        self.clear()

    def clear(self) -> None:
        """Marks every worker as running, and every set of arrays as free."""
        self._ready: deque[int] = deque()
        self._free = deque(self._slots)

    def add(self, worker: int) -> None:
        """Notes that a worker is done."""
        self._ready.append(worker)

    @property
    def num_missing(self) -> int:
        """The workers that must be done before there is a batch."""
        return self._workers_per_batch - len(self._ready)

    def take(self) -> Batch | None:
        """A batch of the workers that were ready first, None when too few are."""
        if len(self._ready) < self._workers_per_batch:
            return None
        return self._gather([self._ready.popleft() for _ in range(self._workers_per_batch)])

    def release(self, batch: Batch) -> None:
        """Copies a batch's actions to its environments, before the next step of its workers."""
        self._all.actions[batch.agent_ids] = batch.buffers.actions
        self._free.append(batch.buffers)

    def batch_of(self, envs: tuple[int, ...]) -> Batch | None:
        """The batch of these environments, None if they are not whole workers."""
        workers = [env // self._envs_per_worker for env in envs[:: self._envs_per_worker]]
        return self._gather(workers) if self._envs_of(workers) == envs else None

    def _gather(self, workers: Sequence[int]) -> Batch:
        envs, slot = self._envs_of(workers), self._free.popleft()
        agents = self._agents_per_env
        agent_ids = np.concatenate([np.arange(env * agents, (env + 1) * agents) for env in envs])
        for name in slot.names:
            np.take(getattr(self._all, name), agent_ids, axis=0, out=getattr(slot, name), mode="clip")
        return Batch(envs, slot, agent_ids)

    def _envs_of(self, workers: Sequence[int]) -> tuple[int, ...]:
        size = self._envs_per_worker
        return tuple(env for worker in workers for env in range(worker * size, (worker + 1) * size))


def _empty_like(buffers: Buffers, rows: int) -> Buffers:
    arrays = {name: getattr(buffers, name) for name in buffers.names}
    return Buffers(**{name: np.zeros((rows, *array.shape[1:]), array.dtype) for name, array in arrays.items()})
