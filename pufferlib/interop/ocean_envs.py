"""The C environments behind every interface of another library."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferlib import ocean
from pufferlib.environment import fitting_actions
from pufferlib.errors import APIUsageError
from pufferlib.families import catalog
from pufferlib.ocean.environment import OceanEnv

_NEVER = 2**62  # steps; statistics are read when somebody asks for them
_OURS = ("num_envs", "buf", "report_interval")  # keywords of OceanEnv that the interfaces decide


def ocean_name(name: object) -> str | type[OceanEnv] | None:
    """What `make_ocean` takes for a name that the catalog knows, or for a class; None where it is nothing in C.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name.
    """
    if _is_class(name):
        return name
    entry = catalog.find(name)
    return entry.name if entry.family == "ocean" and _is_class(entry.creator) else None


def make_ocean(name: str | type[OceanEnv], num_envs: int, env_kwargs: Mapping[str, Any]) -> OceanEnv:
    """Makes C environments that keep their final observations, with a seed by chance where none is given.

    Raises:
        UnknownEnvironmentError: if there is no Ocean environment of that name.
        MissingExtraError: if it was not compiled.
        APIUsageError: if an argument is one of those that the interface decides, or out of its range.
        TypeError: if the environment does not know one.
    """
    wrong = [keyword for keyword in _OURS if keyword in env_kwargs]
    if wrong:
        raise APIUsageError(f"{wrong[0]} is not an argument of the environment here; leave it out")
    creator = name if _is_class(name) else ocean.env_class(name)
    settings = {"seed": secrets.randbits(63), **env_kwargs}
    env = creator(num_envs=num_envs, report_interval=_NEVER, **settings)
    env.keep_final_observations()
    return env


def require_one_agent(env: OceanEnv) -> None:
    """Refuses environments of several agents.

    Raises:
        APIUsageError: with the function that takes them.
    """
    if env.agents_per_env != 1:
        env.close()
        raise APIUsageError(
            f"an environment of one agent is expected, got {type(env).__name__} with {env.agents_per_env}; "
            "pufferlib.make_pettingzoo makes those of several"
        )


def write_actions(env: OceanEnv, row: int, action: ArrayLike) -> None:
    """Writes one agent's action into the environment's own array.

    Raises:
        APIUsageError: if it has another shape or kind than the space.
    """
    rows = env.actions[row : row + 1]
    rows[...] = fitting_actions(np.asarray(action)[np.newaxis], rows)


def _is_class(name: object) -> bool:
    return isinstance(name, type) and issubclass(name, OceanEnv)
