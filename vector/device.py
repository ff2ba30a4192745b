"""C environments that a trainer may take to its GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.vector.base import State
from pufferlib.vector.native import Native
from pufferlib.vector.recipe import AUTO, EnvSource, Options


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
        """Lends the environments, all of which were received and none sent.

        Args:
            bring_back: writes the present state of the environments into them and their arrays; it is called once,
                before they are used here again.

        Raises:
            APIUsageError: if a batch runs, is not everything, or they are lent already.
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
