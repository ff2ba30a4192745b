"""Backends whose environments live in this process: Serial, and Gymnasium's own vectors."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack

from typing_extensions import override

from pufferlib.emulation.gymnasium_emulation import GymnasiumVectorPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.vector.arrays import EnvInfo
from pufferlib.vector.base import State, Vector
from pufferlib.vector.batch import Batch, neighbouring_batches
from pufferlib.vector.group import Group, require_distinct
from pufferlib.vector.recipe import AUTO, EnvSource, Options, count_batch


class LocalVector(Vector):
    """A vector with one `Group` of environments per batch."""

    def __init__(self, source: EnvSource, driver: PufferEnv, num_workers: int, batch_size: int):
        super().__init__(source, driver, num_workers, batch_size)
        info = EnvInfo(driver)
        self._buffers = source.allocate(driver)
        self._batches = neighbouring_batches(self._buffers, self.num_envs, self.batch_size)
        self._groups: list[Group] = []
        try:
            for batch in self._batches:
                self._groups.append(Group(source, batch.envs, batch.buffers, info))
            envs = self.envs
            require_distinct(envs if any(driver is env for env in envs) else [driver, *envs])
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
    def _drain(self) -> None:
        self._running.clear()

    @override
    def _start_reset(self, seeds: list[int | None]) -> None:
        for group, batch in zip(self._groups, self._batches, strict=True):
            own = seeds[batch.envs[0] : batch.envs[-1] + 1]
            self._running.append((batch, group.reset(own, self.tells_final_observations)))

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

    def _step_group(self, index: int) -> list[dict]:
        return self._groups[index].step()

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
        with ExitStack() as closing:  # the others too when one fails
            if has_envs:
                closing.callback(self._source.note_closed)
            for group in reversed(self._groups):
                closing.callback(group.close)


class Serial(LocalVector):
    """Steps its environments in `recv`, batch after batch in the order they were sent."""

    def __init__(self, source: EnvSource, driver: PufferEnv, options: Options):
        if options.num_workers not in (AUTO, 1):
            raise APIUsageError(
                f"Serial has one worker, got num_workers {options.num_workers!r}; "
                "use 'auto', or the Multiprocessing backend"
            )
        super().__init__(source, driver, 1, count_batch(options, source.num_envs, source.num_envs))


class GymnasiumVector(Serial):
    """Steps Gymnasium's vector environments, which bring their own threads or processes.

    With `num_envs` of at least 2 and `batch_size` 1, the default, all others step while the policy works on one.
    """

    def __init__(self, source: EnvSource, driver: PufferEnv, options: Options):
        if not self.can_step(driver):
            raise APIUsageError(
                f"GymnasiumVector steps gymnasium.vector.VectorEnv, got {type(driver).__name__}; "
                "use the Serial or Multiprocessing backend"
            )
        if options.num_workers not in (AUTO, 1):
            raise APIUsageError(
                "GymnasiumVector leaves threads and processes to the vector environment, got num_workers "
                f"{options.num_workers!r}; use 'auto' and tell the vector environment itself"
            )
        super().__init__(source, driver, Options(batch_size=count_batch(options, source.num_envs, 1)))

    @staticmethod
    def can_step(env: object) -> bool:
        """Whether the environment separates the start of a step from its end."""
        return isinstance(env, GymnasiumVectorPufferEnv)

    @override
    def _start(self, batch: Batch) -> None:
        for env, actions in self._groups[self._group_index(batch)].actions():
            env.start(actions)
        super()._start(batch)
