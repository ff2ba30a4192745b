"""Everything in this process, one environment after the other: the reference for all other backends."""

from __future__ import annotations

from collections import deque

from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.vector.batch import Batch
from pufferlib.vector.local import LocalVector
from pufferlib.vector.recipe import AUTO, EnvSource, Options
from pufferlib.vector.sizes import count_batch


class Serial(LocalVector):
    """Steps its environments in `recv`, batch after batch in the order they were sent."""

    def __init__(self, source: EnvSource, driver: PufferEnv, options: Options):
        if options.num_workers not in (AUTO, 1):
            raise APIUsageError(
                f"Serial has one worker, got num_workers {options.num_workers!r}; "
                "use 'auto', or the Multiprocessing backend"
            )
        super().__init__(source, driver, 1, count_batch(options, source.num_envs, source.num_envs))
        self._running: deque[tuple[Batch, list[dict] | None]] = deque()  # infos where only they are left to collect

    @override
    def _drain(self) -> None:
        self._running.clear()

    @override
    def _start_reset(self, seeds: list[int | None]) -> None:
        self._running.extend(zip(self._batches, self._reset_groups(seeds), strict=True))

    @override
    def _start(self, batch: Batch) -> None:
        self._running.append((batch, None))

    @override
    def _finish(self) -> tuple[Batch, list[dict]]:
        batch, infos = self._running[0]
        if infos is None:
            infos = self._groups[self._group_index(batch)].step()
        self._running.popleft()
        return batch, infos
