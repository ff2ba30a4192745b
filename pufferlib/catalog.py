"""The catalog: where every name of an environment leads.

`find` answers for `puffer_squared` and `CartPole-v1`, `ALE/Pong-v5`, `dm_control/cheetah/run`,
`pettingzoo:butterfly/pistonball_v6`, for other ids of Gymnasium and for callables. Everything that needs an environment
by its name asks here: the configuration, the trainer's loaders, `pufferlib.make` and the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pufferlib.environment import PufferEnv
from pufferlib.errors import UnknownEnvironmentError, nearest
from pufferlib.families.entry import Entry, Family

__all__ = ["Entry", "Family", "families", "find", "slug"]


def families() -> list[Family]:
    """All families, installed or not; Ocean is the first."""
    from pufferlib.families.ocean_family import OceanFamily

    return [OceanFamily()]


def find(name: str | Callable[..., PufferEnv]) -> Entry:
    """The environment that a name leads to.

    Args:
        name: of an environment, or a callable that makes PufferEnvs as `creator(buf=..., seed=..., **settings)`.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name; the message lists the nearest.
        MissingExtraError: if there is, and what it needs is not installed.
    """
    for family in families():
        if family.owns(name):
            found = family.find(name)
            if found is not None:
                return found
    known = [each for family in families() if family.is_installed for each in family.names()]
    remedy = nearest(name, known) or ";"
    raise UnknownEnvironmentError(f"there is no environment {name!r}{remedy} `puffer envs` lists them")


def slug(name: str) -> str:
    """A name as files and folders have it: `ALE/Pong-v5` is `ALE_Pong-v5`."""
    return re.sub(r"[^\w.-]+", "_", name)
