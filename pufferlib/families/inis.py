"""The ini files of an emulated environment.

From the general to the particular: a recipe for its kind of actions, `discrete.ini` or `continuous.ini`, what its
family differs in, and what it differs in itself, in `tuned/`. Each file holds only what it changes.
"""

from __future__ import annotations

from pathlib import Path

from gymnasium.spaces import Box

from pufferlib.families.entry import Entry
from pufferlib.families.names import slug

_FOLDER = Path(__file__).parent


def ini_files(entry: Entry, recipe: str | None) -> tuple[Path, ...]:
    """The files that there are.

    Args:
        entry: the environment.
        recipe: the name of the first file; None makes the environment once and looks at its actions.
    """
    names = [recipe or _fitting_recipe(entry), entry.family, f"tuned/{slug(entry.name)}"]
    return tuple(path for name in dict.fromkeys(names) if (path := _FOLDER / f"{name}.ini").exists())


def _fitting_recipe(entry: Entry) -> str:
    env = entry.creator(buf=None, seed=0)
    try:
        return "continuous" if isinstance(env.single_action_space, Box) else "discrete"
    finally:
        env.close()
