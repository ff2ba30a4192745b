"""The sections of the configuration by name: those that the schema declares, and those that a class does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pufferlib.config.environments import env_settings
from pufferlib.config.hints import remedy
from pufferlib.config.schema import BaseConfig, LogConfig, SolveConfig, SweepConfig, TrainConfig, VecConfig
from pufferlib.errors import ConfigError
from pufferlib.families.catalog import Entry
from pufferlib.settings.setting import Setting

SECTIONS = {
    config.section: config for config in (BaseConfig, VecConfig, TrainConfig, LogConfig, SolveConfig, SweepConfig)
}
ARGUMENTS = ("env", "policy", "rnn")  # sections whose keys are the keyword arguments of a class


def section_settings(section: str, entry: Entry | None) -> Mapping[str, Setting] | None:
    """The settings of a section by name; None where they are known only once the policy's class is loaded.

    Args:
        section: a name in SECTIONS or ARGUMENTS.
        entry: the environment whose `[env]` is meant; without one, that section is not known either.
    """
    if section in SECTIONS:
        return SECTIONS[section].settings()
    return env_settings(entry) if section == "env" and entry else None


def require_sections(args: Mapping[str, Any]) -> None:
    """Checks that every key at the top of a configuration is one that counts.

    Raises:
        ConfigError: naming the first that does not, and the nearest that do.
    """
    known = [*BaseConfig.settings(), *SECTIONS, *ARGUMENTS]
    for name in args:
        if name not in known:
            found = remedy(str(name), known) or f"; it has {', '.join(known)}"
            raise ConfigError(f"there is no {name!r} in the configuration{found}")
