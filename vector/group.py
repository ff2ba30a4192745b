"""The environments of one process, on their rows of the shared arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pufferlib.emulation.emulated_env import LibraryEnv
from pufferlib.environment import Buffers, PufferEnv, store_result
from pufferlib.errors import APIUsageError, require_results
from pufferlib.vector.arrays import EnvInfo
from pufferlib.vector.recipe import EnvSource
from pufferlib.wrappers import PufferWrapper

_STEP_ARRAYS = ("observations", "rewards", "terminals", "truncations")
_STEP_RESULTS = (*_STEP_ARRAYS, "infos")


class Group:
    """Some environments of a vector, reset and stepped one after the other.

    An environment writes its rows in place. Where it returns or has arrays of its own, as a wrapper that changes the
    rewards, they are copied into the rows. An info with a `final_observation` gets the index of its agent among all
    agents of the vector.
    """

    def __init__(self, source: EnvSource, indices: Sequence[int], buffers: Buffers, driver: EnvInfo):
        self.envs: list[PufferEnv] = []
        self._rows: list[Buffers] = []
        self._first_agents = [index * driver.num_agents for index in indices]
        try:
            for position, index in enumerate(indices):
                begin = position * driver.num_agents
                rows = buffers.rows(begin, begin + driver.num_agents)
                env = source.make(index, rows)
                self.envs.append(env)
                self._rows.append(rows)
                driver.check(env, index)
                if source.fills_buf:
                    _check_rows(env, rows)
            require_distinct(self.envs)
        except BaseException:
            self.close()
            raise

    def reset(self, seeds: Sequence[int | None], tells_final_observations: bool) -> list[dict]:
        """Begins an episode in every environment; returns the infos.

        Where they are asked for, environments that tell final observations only on request do so from now on.
        """
        infos: list[dict] = []
        for env, rows, first, seed in zip(self.envs, self._rows, self._first_agents, seeds, strict=True):
            for flags in (rows.rewards, rows.terminals, rows.truncations):
                flags[:] = 0
            if tells_final_observations and hasattr(env, "tell_final_observations"):
                env.tell_final_observations()
            observations, env_infos = require_results(env, "reset", ("observations", "infos"), env.reset(seed=seed))
            _store(env, rows, "observations", observations)
            _store_masks(env, rows)
            infos += _checked_infos(env, env_infos, first)
        return infos

    def step(self) -> list[dict]:
        """Steps every environment with the actions in its rows; returns the infos."""
        infos: list[dict] = []
        for env, rows, first in zip(self.envs, self._rows, self._first_agents, strict=True):
            *results, env_infos = require_results(env, "step", _STEP_RESULTS, env.step(rows.actions))
            for name, result in zip(_STEP_ARRAYS, results, strict=True):
                _store(env, rows, name, result)
            _store_masks(env, rows)
            infos += _checked_infos(env, env_infos, first)
        return infos

    def actions(self) -> Iterator[tuple[PufferEnv, np.ndarray]]:
        """Every environment with the actions in its rows."""
        return ((env, rows.actions) for env, rows in zip(self.envs, self._rows, strict=True))

    def snapshot(self) -> list[bytes | None]:
        """The snapshot of every environment, None for one that has none."""
        return [env.snapshot() if hasattr(env, "snapshot") else None for env in self.envs]

    def restore(self, snapshots: Sequence[bytes]) -> None:
        """Restores every environment."""
        for env, snapshot in zip(self.envs, snapshots, strict=True):
            env.restore(snapshot)

    def close(self) -> None:
        """Closes every environment, the others too when one fails."""
        while self.envs:
            env = self.envs.pop(0)
            try:
                env.close()
            except BaseException:
                self.close()
                raise


def innermost(env: object) -> object:
    """Returns what is stepped in the end: the environment inside all wrappers, of this library and of Gymnasium."""
    while isinstance(env, (PufferWrapper, LibraryEnv)):
        env = env.env
    return getattr(env, "unwrapped", env)


def require_distinct(envs: Sequence[object]) -> None:
    """Raises an APIUsageError if two of them are one and the same inside."""
    inside = [innermost(env) for env in envs]
    if len({id(env) for env in inside}) < len(inside):
        raise APIUsageError(
            f"an environment creator must return a new environment whenever it is called, got one twice, a "
            f"{type(inside[0]).__name__}; make it inside the function, or give the environment in place of the function"
        )


def _check_rows(env: PufferEnv, rows: Buffers) -> None:
    if isinstance(env, PufferWrapper):  # what it returns is copied
        return
    for name in rows.names:
        array = getattr(env, name)
        if array.ctypes.data != getattr(rows, name).ctypes.data:
            raise APIUsageError(
                f"{type(env).__name__}.{name} must be the array it was given; pass buf on to PufferEnv.__init__, "
                "and make a wrapper a subclass of pufferlib.wrappers.PufferWrapper"
            )


def _store_masks(env: PufferEnv, rows: Buffers) -> None:
    _store(env, rows, "masks", getattr(env, "masks", rows.masks))
    if rows.action_masks is not None:
        _store(env, rows, "action_masks", env.action_masks)


def _store(env: PufferEnv, rows: Buffers, name: str, result: np.ndarray) -> None:
    target = getattr(rows, name)
    if result is target:
        return
    store_result(env, name, target, result)


def _checked_infos(env: PufferEnv, infos: list[dict], first_agent: int) -> list[dict]:
    if not isinstance(infos, list):
        raise APIUsageError(
            f"{type(env).__name__} must return infos as a list of dicts, got {type(infos).__name__}; use [] for none"
        )
    if any("final_observation" in info and "agent_id" not in info for info in infos):
        raise APIUsageError(
            f"{type(env).__name__} must say whose a final_observation is, got an info without agent_id; add the index "
            "of the agent's row"
        )
    return infos_of_vector(infos, first_agent)


def infos_of_vector(infos: list[dict], first_agent: int) -> list[dict]:
    """The infos of an environment with agents counted from its first one among all agents of the vector."""
    return [
        {**info, "agent_id": first_agent + info["agent_id"]} if "final_observation" in info else info for info in infos
    ]
