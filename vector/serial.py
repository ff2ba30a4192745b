"""Everything in this process, one environment after the other: the reference for all other backends."""

from __future__ import annotations

from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
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

    @override
    def _step_group(self, index: int) -> list[dict]:
        return self._groups[index].step()
