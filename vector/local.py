"""What the backends share that hold their environments in this process."""

from __future__ import annotations

from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.vector.base import State, Vector
from pufferlib.vector.batch import Batch, split
from pufferlib.vector.group import EnvFacts, Group
from pufferlib.vector.recipe import EnvSource


class LocalVector(Vector):
    """A vector whose environments live here, one `Group` per batch; a subclass says how a group is stepped."""

    def __init__(self, source: EnvSource, driver: PufferEnv, num_workers: int, batch_size: int):
        super().__init__(source, driver, num_workers, batch_size)
        facts = EnvFacts(driver)
        self._buffers = source.allocate(driver)
        self._batches = [
            Batch.consecutive(self._buffers, envs, facts.num_agents) for envs in split(self.num_envs, self._num_batches)
        ]
        self._groups: list[Group] = []
        try:
            for batch in self._batches:
                self._groups.append(Group(source, batch.envs, batch.buffers, facts))
        except BaseException:
            self._close()
            raise
        self.driver_env = self._groups[0].envs[0]

    @property
    def envs(self) -> list[PufferEnv]:
        """All environments in their order, to be looked at; none when the vector is closed."""
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

    def _reset_groups(self, seeds: list[int | None]) -> list[list[dict]]:
        return [
            group.reset(seeds[batch.envs[0] : batch.envs[-1] + 1])
            for group, batch in zip(self._groups, self._batches, strict=True)
        ]

    def _group_index(self, batch: Batch) -> int:
        return batch.envs[0] // self.batch_size

    def hand_over(self) -> None:
        """Ends the vector and leaves its environments open, for another vector to step."""
        with self._one_thread:
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
