"""C environments on a pool of C threads."""

from __future__ import annotations

from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.ocean.environment import OceanEnv
from pufferlib.vector._native import Stepper
from pufferlib.vector.batch import Batch
from pufferlib.vector.group import infos_of_vector
from pufferlib.vector.local import LocalVector
from pufferlib.vector.recipe import EnvSource, Options
from pufferlib.vector.sizes import count_batch, count_threads, warn_above_cores


def is_stepped_in_c(creator: object) -> bool:
    """Whether a creator is a class of Ocean that leaves `step` to C, so that Native and Device can step it."""
    return isinstance(creator, type) and issubclass(creator, OceanEnv) and creator.step is OceanEnv.step


class Native(LocalVector):
    """Steps the C environments behind Ocean's PufferEnvs without their Python methods.

    `send` hands a batch to the threads and returns at once; `recv` waits for the batch that was sent first, and helps:
    the caller is one of the `num_workers`, so a vector with one worker has no threads and works inside `recv`. Idle
    threads sleep.

    Attributes:
        tells_owners: whether every report in the infos of a batch has an `agent_id`, the first agent of its
            environment, which separates the reports of several environments; may be set.
    """

    tells_owners: bool = False

    def __init__(self, source: EnvSource, driver: PufferEnv, options: Options):
        if not self.can_step(driver):
            raise APIUsageError(
                f"Native steps Ocean environments in C, past their Python step(), got {type(driver).__name__}; "
                "use the Serial or Multiprocessing backend"
            )
        batch_size = count_batch(options, source.num_envs, 1)
        num_threads = count_threads(options)
        warn_above_cores(num_threads)
        super().__init__(source, driver, num_threads, batch_size)
        handles = [[env.handle for env in group.envs] for group in self._groups]
        try:
            self._stepper = Stepper(handles, self.num_workers)
        except BaseException as error:
            super()._close()
            if isinstance(error, MemoryError):  # its sentence, as a mistake of the user's
                raise APIUsageError(str(error)) from error
            raise

    @staticmethod
    def can_step(env: object) -> bool:
        """Whether stepping the handle of an environment is the same as calling its `step`."""
        return isinstance(env, OceanEnv) and type(env).step is OceanEnv.step and "step" not in vars(env)

    @override
    def _drain(self) -> None:
        for batch, _ in self._running:
            self._stepper.finish(self._group_index(batch))
        super()._drain()

    @override
    def _start(self, batch: Batch) -> None:
        self._stepper.start(self._group_index(batch))
        super()._start(batch)

    @override
    def _step_group(self, index: int) -> list[dict]:
        self._stepper.finish(index)
        envs = zip(self._batches[index].envs, self._groups[index].envs, strict=True)
        return [info for number, env in envs for info in self._with_owners(env.report(), number)]

    def _with_owners(self, infos: list[dict], env_index: int) -> list[dict]:
        first_agent = env_index * self.agents_per_env
        if self.tells_owners:
            infos = [{"agent_id": 0, **info} for info in infos]
            return [{**info, "agent_id": first_agent + info["agent_id"]} for info in infos]
        return infos_of_vector(infos, first_agent)

    @override
    def _close(self) -> None:
        if hasattr(self, "_stepper"):
            self._stepper.close()
        super()._close()
