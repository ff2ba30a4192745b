"""Interop: the environments of this library in the interfaces of others.

Importing it registers the Ocean environments with Gymnasium: `pufferlib/breakout` is `puffer_breakout`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import gymnasium
from gymnasium.envs.registration import EnvSpec

_PREFIX = "puffer_"


def register_environments() -> None:
    """Registers every Ocean environment in C that is not registered yet; imports none of them."""
    ocean = Path(importlib.util.find_spec("pufferlib.ocean").origin).parent
    folders = {path.parent for path in ocean.glob("*/binding.*")}
    for name in sorted(_PREFIX + folder.name for folder in folders if (folder / f"{folder.name}.ini").exists()):
        if env_id(name) not in gymnasium.registry:
            gymnasium.register(
                env_id(name),
                entry_point="pufferlib.interop.gymnasium_interop:OceanGymnasiumEnv",
                vector_entry_point="pufferlib.interop.gymnasium_interop:OceanVectorEnv",
                kwargs={"name": name},
            )


def env_id(name: str) -> str:
    """The id in Gymnasium of a name such as `puffer_breakout`."""
    return f"pufferlib/{name.removeprefix(_PREFIX)}"


def spec_of(name: object, **kwargs: object) -> EnvSpec | None:
    """The registration of an environment with the arguments that it was made with; None for a class."""
    if not isinstance(name, str):
        return None
    spec = gymnasium.spec(env_id(name))
    return dataclasses.replace(spec, kwargs=spec.kwargs | kwargs)


register_environments()
