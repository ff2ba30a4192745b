"""Names of environments as text: how files have them, and which ones are near to another."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_PROCGEN = "bigfish bossfight caveflyer chaser climber coinrun dodgeball fruitbot heist jumper leaper miner ninja"
_LIBRARIES = {
    "procgen": _PROCGEN + " plunder starpilot",
    "minerl": "minecraft minedojo",
    "crafter": "craftax",
    "nle": "nethack minihack",
    "vizdoom": "doom",
    "gfootball": "football grf",
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
}
"""What people call families besides their names."""


def family_meant(name: str, families: Iterable[str]) -> str | None:
    """The family whose name, or another word for it, somebody gave for an environment; None where it is none."""
    word = _first_word(name)
    for family in families:
        if word in (family, *_OTHER_WORDS.get(family, "").split()):
            return family
    return None


def library_meant(name: str) -> str | None:
    """The library without a family of its own that a name comes from, None where it is not known."""
    words = {_first_word(name), _word(name), name.lower().removeprefix("puffer_")}
    return next((each for each, others in _LIBRARIES.items() if words & {each, *others.split()}), None)


def _first_word(name: str) -> str:
    return re.split(r"[/:-]", name.lower())[0]


def slug(name: str) -> str:
    """A name as files and folders have it: `ALE/Pong-v5` is `ALE_Pong-v5`; none leads to another folder."""
    return re.sub(r"[^\w.-]+|^\.+|^$", "_", name)


def nearest_names(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Ends an error message about a name that nobody has: which known ones are near, empty where none is.

    Beside what `pufferlib.errors.nearest` finds, `pong` finds `ALE/Pong-v5`, by the word without the rest.

    Args:
        name: nobody has it.
        known: those that there are.
        prefix: what to write before those that are told.
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3) or _of_near_words(name, known)
    return f"; did you mean {' or '.join(repr(prefix + each) for each in close)}?" if close else ""


def _of_near_words(name: str, known: list[str]) -> list[str]:
    words: dict[str, list[str]] = {}
    for each in known:
        words.setdefault(_word(each), []).append(each)
    close = difflib.get_close_matches(_word(name), words, n=3, cutoff=0.75)
    return [each for word in close for each in words[word]][:3]


def _word(name: str) -> str:
    last = re.split(r"[/:]", name)[-1].removeprefix("puffer_")
    return re.sub(r"[-_]v\d+$", "", last).lower()
