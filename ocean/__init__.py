"""Ocean: environments written in plain C, one folder each.

A folder `ocean/<name>/` with a `<name>.py` and a `<name>.ini` is the environment `puffer_<name>`; there is no list to
keep. The class is the one PufferEnv that `<name>.py` defines.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path

from pufferlib.environment import PufferEnv
from pufferlib.errors import MissingExtraError, UnknownEnvironmentError, nearest

PREFIX = "puffer_"
_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The names of all environments, such as `puffer_breakout`, in alphabetical order."""
    return sorted(PREFIX + name for name in os.listdir(_FOLDER) if os.path.exists(f"{_FOLDER}/{name}/{name}.ini"))


def config_path(name: str) -> Path:
    """The ini file of an environment.

    Raises:
        UnknownEnvironmentError: if there is no such environment; the message lists the nearest names.
    """
    if name not in names():
        raise UnknownEnvironmentError(
            f"there is no environment {name!r}{nearest(name, names()) or ';'} `puffer envs` lists all {len(names())}"
        )
    folder = name.removeprefix(PREFIX)
    return _FOLDER / folder / f"{folder}.ini"


def env_class(name: str) -> type[PufferEnv]:
    """The class behind a name such as `puffer_breakout`.

    Raises:
        UnknownEnvironmentError: if there is no such environment.
        MissingExtraError: if it was not compiled.
    """
    folder = config_path(name).stem
    try:
        module = importlib.import_module(f"pufferlib.ocean.{folder}.{folder}")
    except ImportError as error:
        if importlib.util.find_spec(f"pufferlib.ocean.{folder}.binding") is not None:
            raise
        raise MissingExtraError(
            f"{name} is not compiled; run `python setup.py build_ext --inplace`, or `pip install -e .`, in the checkout"
        ) from error
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, PufferEnv) and value.__module__ == module.__name__:
            return value
    raise UnknownEnvironmentError(f"{module.__file__} must define a subclass of PufferEnv, found none")


def env_creator(name: str = "puffer_squared") -> type[PufferEnv]:
    """The class behind a name, as PufferLib 3.0 calls it; see `env_class`."""
    return env_class(name)
