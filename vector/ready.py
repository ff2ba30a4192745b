"""A vector of one environment that exists already."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from typing_extensions import override

from pufferlib import spaces
from pufferlib.emulation import as_puffer_env
from pufferlib.environment import Buffers, PufferEnv, check_env
from pufferlib.errors import APIUsageError
from pufferlib.vector.arrays import private_buffers
from pufferlib.vector.base import Vector
from pufferlib.vector.group import innermost
from pufferlib.vector.native import Device, Native
from pufferlib.vector.recipe import AUTO, EnvRecipe, EnvSource, Options
from pufferlib.vector.serial import GymnasiumVector, LocalVector, Serial

QUICK_SECONDS = 50e-6
"""A shorter step gains nothing by worker processes, which take a second to start: 500,000 steps take 25 seconds."""

_TIMED_STEPS = 32


def fitting_backend(env: object) -> type[LocalVector]:
    """The backend that steps an environment best in this process; Serial steps every one."""
    return next((backend for backend in (Native, GymnasiumVector) if backend.can_step(env)), Serial)


def is_quick(creator: Callable, env_kwargs: Mapping[str, Any], seed: int) -> bool:
    """Whether stepping an environment is quicker than handing the step to another process.

    It makes the environment, steps it a few times, and closes it.
    """
    env = EnvRecipe.build(creator, None, dict(env_kwargs), 1, seed).make(0, None)
    try:
        return fitting_backend(env) is Serial and _step_seconds(env, seed) < QUICK_SECONDS
    finally:
        env.close()


def _step_seconds(env: PufferEnv, seed: int) -> float:
    env.reset(seed)
    taken: list[float] = []
    with contextlib.suppress(Exception):  # training will raise it, in this process
        for _ in range(_TIMED_STEPS):
            actions, begin = _some_actions(env), time.perf_counter()
            env.step(actions)
            taken.append(time.perf_counter() - begin)
            if taken[0] > _TIMED_STEPS * QUICK_SECONDS:
                break
    return float(np.median(taken)) if taken else 0.0


def _some_actions(env: PufferEnv) -> np.ndarray:
    # The first choice that is allowed, and the number in the bounds that is closest to 0.
    space = env.single_action_space
    actions = np.zeros((env.num_agents, *spaces.action_shape(space)), spaces.action_dtype(space))
    if isinstance(space, Box):
        return actions.clip(space.low, space.high).astype(actions.dtype)
    if getattr(env, "has_action_masks", False):
        return spaces.allowed_actions(actions, env.action_masks, space)
    return actions


# By id() of the innermost one, as an environment may be unhashable; an entry vanishes with its value, and so before an
# id is reused.
_vectors: weakref.WeakValueDictionary[int, LocalVector] = weakref.WeakValueDictionary()
_closed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def adopt(env: Any, num_workers: int | str = AUTO, seed: int = 0, may_be_lent: bool = False) -> Vector:
    """Makes a vector of one environment that exists already; closing the vector closes the environment.

    Native steps an Ocean environment on its own arrays, unless its class overrides `step`. Serial steps every other one
    and copies its results into arrays of the vector, so that a wrapper may return arrays of its own. The rollout is
    that of `pufferlib.vector.make` with one such environment.

    An environment serves one vector at a time: the vector that had it before can be closed but no longer stepped.

    Args:
        env: a PufferEnv, anything with its spaces, `num_agents`, `reset`, `step` and `close`, such as a wrapper, or
            what `as_puffer_env` makes one of.
        num_workers: threads of Native.
        seed: the environment is reset with `mix_seed(seed, 0)`.
        may_be_lent: whether a trainer may take an Ocean environment to its GPU: Device steps it then, and its own
            arrays are out of date while it is lent.

    Raises:
        APIUsageError: if it is no PufferEnv, or it was closed with an earlier vector.
    """
    env = as_puffer_env(env)
    check_env(env)
    inside = innermost(env)
    if id(inside) in _closed:
        raise APIUsageError(
            f"the environment {type(env).__name__} was closed together with its trainer or vector; make a new one"
        )
    backend = fitting_backend(env)
    if may_be_lent and backend is Native:
        backend = Device
    vecenv = backend(ReadyEnv(env, seed, issubclass(backend, Native)), env, Options(num_workers))
    holder = _vectors.get(id(inside))
    if holder is not None:
        holder.hand_over()
    _vectors[id(inside)] = vecenv
    return vecenv


class ReadyEnv(EnvSource):
    """A source with one environment, which exists already."""

    num_envs = 1
    fills_buf = False

    def __init__(self, env: PufferEnv, seed: int, keeps_arrays: bool):
        self.env = env
        self.seed = seed
        self._keeps_arrays = keeps_arrays

    @override
    def make(self, index: int, buf: Buffers | None) -> PufferEnv:
        return self.env

    @override
    def allocate(self, driver: PufferEnv) -> Buffers:
        if self._keeps_arrays:
            return Buffers(**{name: getattr(driver, name) for name in Buffers.__dataclass_fields__})
        return private_buffers(driver, driver.num_agents)

    @override
    def note_closed(self) -> None:
        with contextlib.suppress(TypeError):  # a class with __slots__ and without __weakref__
            inside = innermost(self.env)
            _closed[id(inside)] = inside
