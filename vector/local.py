"""The base of the backends whose environments live in this process."""

from __future__ import annotations

import abc
from collections import deque

from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.vector.base import State, Vector
from pufferlib.vector.batch import Batch, split
from pufferlib.vector.group import EnvInfo, Group
from pufferlib.vector.recipe import EnvSource


class LocalVector(Vector):
    """A vector with one `Group` of environments per batch; a subclass steps a group."""

    def __init__(self, source: EnvSource, driver: PufferEnv, num_workers: int, batch_size: int):
        super().__init__(source, driver, num_workers, batch_size)
        info = EnvInfo(driver)
        self._buffers = source.allocate(driver)
        self._batches = [
            Batch.consecutive(self._buffers, envs, info.num_agents) for envs in split(self.num_envs, self._num_batches)
        ]
        self._groups: list[Group] = []
        try:
            for batch in self._batches:
                self._groups.append(Group(source, batch.envs, batch.buffers, info))
        except BaseException:
            self._close()
            raise
        self.driver_env = self._groups[0].envs[0]
        self._running: deque[tuple[Batch, list[dict] | None]] = deque()  # infos where only they are left to collect

    @property
    def envs(self) -> list[PufferEnv]:
        """All environments in their order, to read; none when the vector is closed."""
        return [env for group in self._groups for env in group.envs]

    @override
    def _batch_of(self, envs: tuple[int, ...]) -> Batch | None:
        batch = self._batches[envs[0] // self.batch_size]
        return batch if batch.envs == envs else None

    @override
    def _snapshot_envs(self) -> list[bytes | None]:
        return [snapshot for group in self._groups for snapshot in group.snapshot()]

    @override
    def _restore_envs(self, snapshots: list[bytes]) -> None:
        for group, batch in zip(self._groups, self._batches, strict=True):
            group.restore(snapshots[batch.envs[0] : batch.envs[-1] + 1])

    @override
    def _tell_final_observations(self) -> None:
        for group in self._groups:
            group.tell_final_observations()

    @override
    def _drain(self) -> None:
        self._running.clear()

    @override
    def _start_reset(self, seeds: list[int | None]) -> None:
        for group, batch in zip(self._groups, self._batches, strict=True):
            self._running.append((batch, group.reset(seeds[batch.envs[0] : batch.envs[-1] + 1])))

    @override
    def _start(self, batch: Batch) -> None:
        self._running.append((batch, None))

    @override
    def _finish(self) -> tuple[Batch, list[dict]]:
        batch, infos = self._running[0]
        if infos is None:
            infos = self._step_group(self._group_index(batch))
        self._running.popleft()
        return batch, infos

    @abc.abstractmethod
    def _step_group(self, index: int) -> list[dict]:
        """Finishes a step of a batch; returns its infos."""

    def _group_index(self, batch: Batch) -> int:
        return batch.envs[0] // self.batch_size

    def hand_over(self) -> None:
        """Ends the vector but leaves its environments open, for another vector."""
        with self._guard:
            if not self.is_open:
                return
            self._drain()
            for group in self._groups:
                group.envs.clear()
            self.close()
            self._idle_as(State.HANDED_OVER)

    @override
    def _close(self) -> None:
        has_envs = any(group.envs for group in self._groups)
        for group in self._groups:
            group.close()
        if has_envs:
            self._source.note_closed()
