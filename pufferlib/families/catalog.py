"""The catalog: where every name of an environment leads."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pufferlib.errors import CheckpointError, UnknownEnvironmentError, with_colon
from pufferlib.families.entry import Entry, Family, callable_entry, nearest_names, slug, word_of

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
    remedy = _of_family(name) or _of_library(name) or with_colon(name) or _nearest(name) or ";"
    raise UnknownEnvironmentError(f"there is no environment {name!r}{remedy} `puffer envs` lists all names")


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


_PROCGEN = (
    "bigfish bossfight caveflyer chaser climber coinrun dodgeball fruitbot heist jumper leaper miner ninja plunder "
    "starpilot"
)
_LIBRARIES = {
    "minerl": "minecraft minedojo",
    "crafter": "craftax",
    "nle": "nethack minihack",
    "stable_retro": "retro sonic mario",
    "gym_microrts": "microrts",
    "smac": "starcraft smacv2",
    "metadrive": "carla",
    "dmlab": "deepmind_lab",
    "bsuite": "",
    "griddly": "",
    "pokegym": "pokemon pokemon_red",
    "nmmo": "neural_mmo nmmo3 neuralmmo",
}
"""Libraries that no family is for, with words by which people ask for their environments."""

_OTHER_WORDS = {
    "atari": "ale arcade",
    "mujoco": "robotics",
    "dm_control": "dmc deepmind_control dmcontrol",
    "minigrid": "babyai gridworld",
    "pettingzoo": "butterfly mpe sisl magent multiagent_particle",
    "box2d": "lunar_lander",
    "classic_control": "classic",
    "toy_text": "toytext",
    "envpool": f"procgen {_PROCGEN} vizdoom doom gfootball football grf metaworld jumanji myosuite highway",
}
"""Other words for families."""


def _of_family(name: str) -> str:
    word = _first_word(name)
    meant = (one for one in families() if word in (one.name, *_OTHER_WORDS.get(one.name, "").split()))
    family = next(meant, None)
    if family is None or family.owns(name):
        return ""
    return f"; {family.name} is a family, with environments such as {family.example!r}: `puffer envs {family.name}`;"


def _of_library(name: str) -> str:
    words = {_first_word(name), word_of(name), name.lower().removeprefix("puffer_")}
    library = next((each for each, others in _LIBRARIES.items() if words & {each, *others.split()}), None)
    if library is None:
        return ""
    return (
        f"; it belongs to the library {library}, which is no family here: train {library}:ID where it registers ids "
        "with Gymnasium, or pass PuffeRL a function that makes the environment;"
    )


def _first_word(name: str) -> str:
    return re.split(r"[/:-]", name.lower())[0]


def _nearest(name: str) -> str:
    owner = _owner(name)
    near = "" if owner is None else owner.nearest(name)
    near = near or nearest_names(name, [each for one in families() if one.is_installed for each in one.names()])
    if not near and owner is None and re.search(r"-v\d+$", name):
        return f"; one that a module of yours registers is called my_module:{name};"
    return near


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
