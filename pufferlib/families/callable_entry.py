"""A function of the user's that makes environments, as an entry of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from pufferlib.families.entry import Entry
from pufferlib.families.keywords import keyword_settings
from pufferlib.settings.setting import Setting

if TYPE_CHECKING:
    from pufferlib.environment import PufferEnv


class CallableEntry(Entry):
    """Something to call as `creator(buf=..., seed=..., **settings)`; it has no configuration of its own."""

    family = "callable"

    def __init__(self, creator: Callable[..., PufferEnv]):
        """Takes a function or a class."""
        named = creator
        while isinstance(named, partial):
            named = named.func
        self.name = getattr(named, "__name__", type(named).__name__).lower()
        self._creator = creator
        self._settings, self.takes_any_setting = keyword_settings(creator)

    @property
    @override
    def creator(self) -> Callable[..., PufferEnv]:
        return self._creator

    @property
    @override
    def settings(self) -> Mapping[str, Setting]:
        return self._settings

    @property
    @override
    def ini_files(self) -> tuple[Path, ...]:
        return ()
