"""The catalog: where every name of an environment leads."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pufferlib.errors import CheckpointError, UnknownEnvironmentError
from pufferlib.families.entry import Entry, Family, callable_entry, nearest_names, slug

if TYPE_CHECKING:
    from pufferlib.environment import PufferEnv

__all__ = ["Entry", "Family", "families", "find", "find_recorded", "lookup", "needs_module", "slug"]


@functools.cache
def families() -> tuple[Family, ...]:
    """All families, installed or not; the first that owns a name answers for it."""
    # Not before a name is looked up: they import Gymnasium, which takes longer than all else on the way to --help.
    from pufferlib.families.envpool_family import EnvPoolFamily
    from pufferlib.families.registered import ANY_OTHER, FAMILIES, OceanFamily, PettingZoo

    return (OceanFamily(), *FAMILIES, PettingZoo(), EnvPoolFamily(), ANY_OTHER)


def find(name: str | Callable[..., PufferEnv] | Entry) -> Entry:
    """The environment that a name leads to, or a callable that makes PufferEnvs; an entry leads to itself.

    Raises an UnknownEnvironmentError that lists the nearest names, or a MissingExtraError if something is missing.
    """
    found = lookup(name)
    if found is not None:
        return found
    raise UnknownEnvironmentError(f"there is no environment {name!r}{_remedy(name)} `puffer envs` lists all names")


def find_recorded(name: str) -> Entry:
    """The environment of a name that a file has, such as the `config.json` of a run, as `find` does.

    A name `module:MyEnv` is a CheckpointError: importing a module runs its code, and a file may be anybody's.
    """
    if needs_module(name):
        raise CheckpointError(
            f"the file names the environment {name}, and a module is imported only where you name it yourself; "
            f"pass env={name!r}, or the class"
        )
    return find(name)


def needs_module(name: str) -> bool:
    """Whether finding this environment imports a module that the name names."""
    return ":" in name and not name.startswith("pettingzoo:")


def _remedy(name: str) -> str:
    word = re.split(r"[/:-]", name.lower())[0]
    family = next((one for one in families() if one.name == word and not one.owns(name)), None)
    if family is not None:
        return f"; {word} is a family, with environments such as {family.example!r}: `puffer envs {word}`;"
    owner = _owner(name)
    near = "" if owner is None else owner.nearest(name)
    near = near or nearest_names(name, [each for one in families() if one.is_installed for each in one.names()])
    if near or owner is not None:
        return near or ";"
    return (
        f"; train its_module:{name} if another library or a module of yours registers it with Gymnasium, or pass "
        "PuffeRL a function that makes it;"
    )


def lookup(name: str | Callable[..., PufferEnv] | Entry) -> Entry | None:
    """The environment that a name leads to, None where there is no such environment; see `find`."""
    if isinstance(name, Entry):
        return name
    if not isinstance(name, str):
        return callable_entry(name)
    owner = _owner(name)
    return None if owner is None else owner.find(name)


def _owner(name: str) -> Family | None:
    return next((family for family in families() if family.owns(name)), None)
