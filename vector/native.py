"""C environments on a pool of C threads, or on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.ocean.environment import OceanEnv
from pufferlib.vector._native import Stepper
from pufferlib.vector.base import State
from pufferlib.vector.batch import Batch
from pufferlib.vector.group import infos_of_vector
from pufferlib.vector.recipe import AUTO, EnvSource, Options, count_batch, count_threads, warn_above_cores
from pufferlib.vector.serial import LocalVector


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
        for index in range(len(self._groups)):  # also one whose start was cut short
            self._stepper.finish(index)
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


class Device(Native):
    """Native with one batch by default, whose environments a trainer on a GPU can borrow.

    It copies them to the GPU's memory between two of this vector's steps and steps them there. Any call of this vector
    that depends on the environments first brings them back, and continues their episodes on threads here.
    """

    def __init__(self, source: EnvSource, driver: PufferEnv, options: Options):
        self._bring_back: Callable[[], None] | None = None
        batch_size = source.num_envs if options.batch_size == AUTO else options.batch_size
        super().__init__(source, driver, replace(options, batch_size=batch_size))

    @property
    def is_lent(self) -> bool:
        """Whether a trainer steps the environments now."""
        return self._bring_back is not None

    def lend(self, bring_back: Callable[[], None]) -> list[PufferEnv]:
        """Lends the environments; an APIUsageError if a batch runs, is not everything, or they are lent already.

        `bring_back` writes the present state of the environments into them and their arrays; it is called once, before
        they are used here again.
        """
        self._require_one_batch("lend", "Native")
        with self._guard:
            if self.state is not State.READY:
                self._refuse("lend")
            if self.is_lent:
                raise APIUsageError("the environments are lent to another trainer; close it first")
            self._bring_back = bring_back
            return [env for group in self._groups for env in group.envs]

    def take_back(self) -> None:
        """Brings the environments back, where they are lent."""
        bring_back, self._bring_back = self._bring_back, None
        if bring_back is not None:
            bring_back()

    @property
    def driver_env(self) -> PufferEnv:
        """As of `Vector`."""
        self.take_back()
        return self._driver_env

    @driver_env.setter
    def driver_env(self, env: PufferEnv) -> None:
        self._driver_env = env

    @property
    @override
    def envs(self) -> list[PufferEnv]:
        self.take_back()
        return super().envs

    @override
    def _start_reset(self, seeds: list[int | None]) -> None:
        self.take_back()  # a reset without a seed continues their random streams
        super()._start_reset(seeds)

    @override
    def send(self, actions: np.ndarray, agent_ids: np.ndarray | None = None) -> None:
        self.take_back()  # with the actions of the last step, which those replace
        super().send(actions, agent_ids)

    @override
    def _snapshot_envs(self) -> list[bytes | None]:
        self.take_back()
        return super()._snapshot_envs()

    @override
    def _restore_envs(self, snapshots: list[bytes]) -> None:
        self.take_back()
        super()._restore_envs(snapshots)

    @override
    def _close(self) -> None:
        self._bring_back = None
        super()._close()

    @override
    def hand_over(self) -> None:
        if self.is_open:
            self.take_back()
        super().hand_over()
