"""PettingZoo and packages that are made like it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from typing_extensions import override

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import MissingExtraError, import_quietly, is_installed
from pufferlib.families.entry import Entry, Family, keyword_settings

_PREFIX = "pettingzoo:"
_SISTERS = ("mpe2", "magent2.environments")  # families that became packages of their own


def make_pettingzoo_env(module: str, buf: Buffers | None = None, seed: int = 0, **settings: Any) -> PufferEnv:
    """Makes and emulates one environment of a module such as `pettingzoo.butterfly.pistonball_v6`."""
    return PettingZooPufferEnv(env_creator=_creator(_import_env(module)), env_kwargs=settings, buf=buf, seed=seed)


class PettingZoo(Family):
    """Environments of several agents, named `pettingzoo:<family>/<name>_v<version>`."""

    name = "pettingzoo"
    example = "pettingzoo:butterfly/knights_archers_zombies_v10"
    packages = ("pettingzoo",)
    extra = "pettingzoo"
    is_listed_freely = True

    @override
    def owns(self, name: str) -> bool:
        return name.startswith(_PREFIX)

    @override
    def find(self, name: str) -> Entry | None:
        self.require()
        module = _modules().get(name)
        if module is None:
            return None
        found = _import_env(module)
        settings = keyword_settings(getattr(found, "raw_env", _creator(found)))
        return Entry(name, self.name, partial(make_pettingzoo_env, module), settings, recipe=None)

    @override
    def names(self) -> list[str]:
        """The names of all environments, found without importing one; some need packages besides."""
        return sorted(_modules())


def _modules() -> dict[str, str]:
    # By name.
    folders = (each for each in _folder("pettingzoo").iterdir() if (each / "__init__.py").exists())
    packages = [f"pettingzoo.{each.name}" for each in folders if each.name not in ("test", "utils")]
    packages += [package for package in _SISTERS if is_installed(package.split(".")[0])]
    found = {}
    for package in packages:
        family = package.removeprefix("pettingzoo.").split(".")[0]
        for path in _folder(package).glob("*_v*.py"):
            if re.fullmatch(r"\w+_v\d+", path.stem):
                found[f"{_PREFIX}{family}/{path.stem}"] = f"{package}.{path.stem}"
    return found


def _folder(package: str) -> Path:
    top, *rest = package.split(".")
    return Path(importlib.util.find_spec(top).origin).parent.joinpath(*rest)


def _import_env(module: str) -> ModuleType:
    try:
        return import_quietly(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{module} needs the package {error.name}, which is not installed; "
            "run `pip install 'pufferlib[pettingzoo]'`, or pip install that package"
        ) from error


def _creator(module: ModuleType) -> Callable[..., Any]:
    # The parallel form where there is one, else that of turns, which emulation converts.
    return getattr(module, "parallel_env", None) or module.env
