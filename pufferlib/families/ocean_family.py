"""Ocean as a family of environments."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from typing_extensions import override

from pufferlib import ocean
from pufferlib.environment import PufferEnv
from pufferlib.families.entry import Entry, Family
from pufferlib.setting import Setting, class_settings

_ID_PREFIX = "pufferlib/"


class OceanEntry(Entry):
    """An environment in C, whose class is imported when something of it is asked for."""

    family = "ocean"

    def __init__(self, name: str):
        self.name = name
        self.ini_files = (ocean.config_path(name),)

    @property
    @override
    def creator(self) -> type[PufferEnv]:
        return ocean.env_class(self.name)

    @property
    @override
    def settings(self) -> Mapping[str, Setting]:
        return class_settings("env", self.creator)

    @property
    @override
    def policy_modules(self) -> tuple[str, ...]:
        own = f"pufferlib.ocean.{self.name.removeprefix(ocean.PREFIX)}.torch"
        has_own = importlib.util.find_spec(own) is not None
        return (*([own] if has_own else []), *super().policy_modules)

    @property
    @override
    def agents_per_env(self) -> int:
        return getattr(self.creator, "agents_per_env", 1)


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
