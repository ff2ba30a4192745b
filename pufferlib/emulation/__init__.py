"""Environments of Gymnasium and PettingZoo, single and in vectors, as PufferEnvs: what wraps one, and what makes it.

Their observations are packed into rows, as pufferlib.spaces has them, and rows of actions are taken apart for them.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.vector import VectorEnv

from pufferlib.emulation.emulated_env import is_refusal
from pufferlib.emulation.gymnasium_emulation import GymnasiumPufferEnv, GymnasiumVectorPufferEnv
from pufferlib.emulation.pettingzoo_emulation import PettingZooPufferEnv
from pufferlib.environment import PUFFER_ENV_PARTS, PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.spaces import Layout, unpack

if TYPE_CHECKING:
    from pufferlib.emulation.tensors import nativize

__all__ = ["GymnasiumPufferEnv", "Layout", "PettingZooPufferEnv", "nativize", "unpack"]


def __getattr__(name: str) -> Callable:
    if name != "nativize":
        raise AttributeError(f"module 'pufferlib.emulation' has no attribute {name!r}")
    from pufferlib.emulation.tensors import nativize  # not before it is used: workers do without torch

    globals()[name] = nativize
    return nativize


# By id(), as an environment may be unhashable; an entry vanishes with its value, which holds what it wraps.
_wrapped: weakref.WeakValueDictionary[int, PufferEnv] = weakref.WeakValueDictionary()


def wrapper_of(env: object) -> type[PufferEnv] | None:
    """The class that makes a PufferEnv of an environment that is none yet; None for everything else."""
    if isinstance(env, VectorEnv):
        return GymnasiumVectorPufferEnv
    if all(hasattr(env, name) for name in PUFFER_ENV_PARTS):
        return None
    if isinstance(env, gymnasium.Env):
        return GymnasiumPufferEnv
    return PettingZooPufferEnv if isinstance(env, _pettingzoo_kinds()) else None


def as_puffer_env(env: object) -> Any:
    """A Gymnasium or PettingZoo environment as a PufferEnv, the same one every time; everything else as it is.

    Raises APIUsageError if it is a vector environment that was closed, or cannot be stepped.
    """
    wrapper = wrapper_of(env)
    if wrapper is None:
        return env
    if isinstance(env, VectorEnv) and env.closed:
        raise APIUsageError(f"the vector environment {type(env).__name__} is closed; make a new one")
    wrapped = _wrapped.get(id(env)) or wrapper(env)
    _wrapped[id(env)] = wrapped
    return wrapped


def make_puffer_env(creator: Callable, args: Sequence, kwargs: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """Calls a creator, and wraps environments of Gymnasium and PettingZoo.

    A PufferEnv is made with `given`, which is `buf` and `seed` or one of them: its creator must take them. The creator
    of another environment need not; they then go to the wrapper.
    """
    mismatch = _mismatch(creator, args, {**kwargs, **given})
    is_given = mismatch is None and not makes_others(creator)
    if is_given and (twice := [name for name in given if name in kwargs]):
        raise APIUsageError(
            f"{' and '.join(twice)} must not be among the arguments of an environment, which gets its own; give a seed "
            "to what makes it"
        )
    refusal = None if is_given else _mismatch(creator, args, kwargs)
    if refusal is not None:
        raise APIUsageError(
            f"{_described(creator)} does not accept the arguments that it is given ({refusal}); "
            "check their names and number, and give what is missing by functools.partial or a default"
        ) from refusal
    try:
        env = creator(*args, **kwargs, **(given if is_given else {}))
    except TypeError as error:
        # A function with `**kwargs`, such as PettingZoo's `parallel_env`, may pass the keywords to one that takes none.
        # One that it names itself was refused further inside, by a mistake of the author's.
        unnamed = [name for name in given if name not in _parameters(creator)]
        if not (is_given and unnamed and is_refusal(error, unnamed)):
            raise
        env = creator(*args, **kwargs)
    wrapper = wrapper_of(env)
    if wrapper is not None:
        return wrapper(env, **given)
    if mismatch is not None and isinstance(env, PufferEnv):  # else the caller says that it is none
        raise APIUsageError(
            f"what makes a PufferEnv is called with {' and '.join(given)}, but {_described(creator)} does not accept "
            f"that ({mismatch}); take them and pass buf on to super().__init__"
        ) from mismatch
    return env


def makes_others(creator: Callable) -> bool:
    """Whether it makes no PufferEnv, so that keywords of one are lost in its `**kwargs` unless it names them."""
    inner = creator.func if isinstance(creator, partial) else creator  # Python itself joins partials of partials
    if inner in (gymnasium.make, gymnasium.make_vec):
        return True
    others = (gymnasium.Env, VectorEnv, *_pettingzoo_kinds())
    is_other = isinstance(inner, type) and issubclass(inner, others) and not issubclass(inner, PufferEnv)
    return is_other and "buf" not in inspect.signature(inner).parameters


def _pettingzoo_kinds() -> tuple[type, ...]:
    pettingzoo = sys.modules.get("pettingzoo")  # imported where one of its environments was made
    return () if pettingzoo is None else (pettingzoo.ParallelEnv, pettingzoo.AECEnv)


def _described(creator: Callable) -> str:
    inner = creator.func if isinstance(creator, partial) else creator
    return f"{getattr(inner, '__name__', inner)!s}{inspect.signature(inner)}"


def _parameters(creator: Callable) -> Iterable[str]:
    try:
        return inspect.signature(creator).parameters
    except ValueError:  # a builtin that does not tell
        return ()


def _mismatch(creator: Callable, args: Sequence, kwargs: Mapping[str, Any]) -> Exception | None:
    try:
        inspect.signature(creator).bind(*args, **kwargs)
    except (TypeError, ValueError) as error:  # a partial with wrong keywords, or a builtin that does not tell
        return error if isinstance(error, TypeError) or isinstance(creator, partial) else None
    return None
