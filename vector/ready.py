"""A vector of one environment that exists already."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from typing_extensions import override

from pufferlib.emulation.wrapping import as_puffer_env
from pufferlib.environment import Buffers, PufferEnv, check_env
from pufferlib.errors import APIUsageError
from pufferlib.vector.arrays import private_buffers
from pufferlib.vector.base import Vector
from pufferlib.vector.choice import fitting_backend
from pufferlib.vector.device import Device
from pufferlib.vector.local import LocalVector
from pufferlib.vector.native import Native
from pufferlib.vector.recipe import AUTO, EnvSource, Options

# By id(), as an environment may be unhashable; an entry vanishes with its value, and so before an id is reused.
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
    if id(env) in _closed:
        raise APIUsageError(
            f"the environment {type(env).__name__} was closed together with its trainer or vector; make a new one"
        )
    holder = _vectors.get(id(env))
    if holder is not None:
        holder.hand_over()
    backend = fitting_backend(env)
    if may_be_lent and backend is Native:
        backend = Device
    vecenv = backend(ReadyEnv(env, seed, issubclass(backend, Native)), env, Options(num_workers))
    _vectors[id(env)] = vecenv
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
            return Buffers(*(getattr(driver, name) for name in Buffers.__dataclass_fields__))
        return private_buffers(driver, driver.num_agents)

    @override
    def note_closed(self) -> None:
        with contextlib.suppress(TypeError):  # a class with __slots__ and without __weakref__
            _closed[id(self.env)] = self.env
