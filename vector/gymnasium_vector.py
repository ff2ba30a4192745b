"""The backend for Gymnasium's vector environments."""

from __future__ import annotations

from typing_extensions import override

from pufferlib.emulation.gymnasium_vector_env import GymnasiumVectorPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.vector.batch import Batch
from pufferlib.vector.recipe import AUTO, EnvSource, Options
from pufferlib.vector.serial import Serial
from pufferlib.vector.sizes import count_batch


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
