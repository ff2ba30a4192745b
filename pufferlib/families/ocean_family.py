"""Ocean as a family of environments."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

from typing_extensions import override

from pufferlib import ocean
from pufferlib.environment import PufferEnv
from pufferlib.families.entry import Entry, Family
from pufferlib.settings.setting import Setting, class_settings

_ID_PREFIX = "pufferlib/"


class OceanEntry(Entry):
    """An environment in C."""

    family = "ocean"

    def __init__(self, name: str):
        self.name = name

    @property
    @override
    def creator(self) -> Callable[..., PufferEnv]:
        return ocean.env_class(self.name)

    @property
    @override
    def settings(self) -> Mapping[str, Setting]:
        return class_settings("env", ocean.env_class(self.name))

    @property
    @override
    def ini_files(self) -> tuple[Path, ...]:
        return (ocean.config_path(self.name),)

    @property
    @override
    def policy_modules(self) -> tuple[str, ...]:
        own = f"pufferlib.ocean.{self.name.removeprefix(ocean.PREFIX)}.torch"
        has_own = importlib.util.find_spec(own) is not None
        return (*([own] if has_own else []), *super().policy_modules)

    @property
    @override
    def agents_per_env(self) -> int:
        return getattr(ocean.env_class(self.name), "agents_per_env", 1)


class OceanFamily(Family):
    """The environments in C; one's id in Gymnasium, such as `pufferlib/squared`, means the same as its name."""

    name = "ocean"
    example = "puffer_squared"
    is_listed_freely = True

    @override
    def owns(self, name: str) -> bool:
        return name.startswith((ocean.PREFIX, _ID_PREFIX))

    @override
    def find(self, name: str) -> Entry | None:
        own = ocean.PREFIX + name.removeprefix(_ID_PREFIX) if name.startswith(_ID_PREFIX) else name
        return OceanEntry(own) if own in ocean.names() else None

    @override
    def names(self) -> list[str]:
        return ocean.names()
