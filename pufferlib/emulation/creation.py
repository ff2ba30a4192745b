"""Making the environments that are emulated, and seeding their resets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pufferlib.errors import APIUsageError

_SEEDS = 2**32  # the seeds that every library takes: NumPy's RandomState has no more


def make_env(env: object, creator: Callable | None, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """The environment that was given or that the creator makes.

    A class or a function given as the environment is its creator.

    Raises:
        APIUsageError: if not exactly one of them is given.
    """
    if creator is None and (isinstance(env, type) or (callable(env) and not hasattr(env, "step"))):
        env, creator = None, env
    if (env is None) == (creator is None):
        found = "neither" if env is None else "both"
        raise APIUsageError(f"pass exactly one of env and env_creator, got {found}")
    if env is not None:
        if args or kwargs:
            raise APIUsageError("env_args and env_kwargs are for env_creator, got them with env; leave them out")
        return env
    if not callable(creator):
        raise APIUsageError(f"env_creator must be callable, got {type(creator).__name__}; an environment goes to env")
    return creator(*args, **({} if kwargs is None else kwargs))


class SeedOnce:
    """Which seed a reset gets: its own, at first the one that the environment was made with, later none."""

    def __init__(self, seed: int | None):
        self._first = seed

    def next(self, seed: int | None) -> int | None:
        """The seed for this reset: an integer in [0, 2**32), or None to go on with the random streams."""
        seed, self._first = self._first if seed is None else seed, None
        return None if seed is None else int(seed) % _SEEDS
