"""PettingZoo and packages that are made like it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
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
_NAME = re.compile(r"pettingzoo:(?P<folder>\w+)/(?P<env>\w+_v\d+)")
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
        if name not in self.names():
            return None
        parts = _NAME.fullmatch(name)
        package = next(package for package in _parent_packages() if _folder_name(package) == parts["folder"])
        module = f"{package}.{parts['env']}"
        found = _import_env(module)
        settings = keyword_settings(getattr(found, "raw_env", _creator(found)))
        return Entry(name, self.name, partial(make_pettingzoo_env, module), settings, recipe=None)

    @override
    def names(self) -> list[str]:
        """The names of all environments, found without importing one; some need packages besides."""
        return sorted(
            f"{_PREFIX}{_folder_name(package)}/{path.stem}"
            for package in _parent_packages()
            for path in _package_path(package).glob("*_v*.py")
            if _NAME.fullmatch(f"{_PREFIX}{_folder_name(package)}/{path.stem}")
        )


def _parent_packages() -> Iterator[str]:
    for folder in sorted(_package_path("pettingzoo").iterdir()):
        if (folder / "__init__.py").exists() and folder.name not in ("test", "utils"):
            yield f"pettingzoo.{folder.name}"
    yield from (package for package in _SISTERS if is_installed(package.split(".")[0]))


def _folder_name(package: str) -> str:
    return package.removeprefix("pettingzoo.").split(".")[0]


def _package_path(package: str) -> Path:
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
