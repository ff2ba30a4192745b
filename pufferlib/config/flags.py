"""Command-line flags: `--section.key value`, read against the settings they name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pufferlib.config import ARGUMENTS, section_settings
from pufferlib.config.classes import takes_any_setting
from pufferlib.config.schema import BaseConfig, LogConfig, TrainConfig, VecConfig
from pufferlib.config.settings import Section, Setting
from pufferlib.errors import ConfigError, nearest

FIXED = frozenset({"package", "env_name"})  # the environment's name on the command line says both


class FlagTable:
    """The flags that a command takes for one environment.

    `--train.learning-rate`, `--train.learning_rate` and `--train.learning-rate=0.1` are the same; the keys of `[base]`
    go without a section: `--rnn-name LSTM`.
    """

    def __init__(self, options: type[Section], env_name: str):
        """Collects the flags.

        Args:
            options: the command's own options, whose flags have no section.
            env_name: the environment that `[env]` belongs to.

        Raises:
            UnknownEnvironmentError: if there is no such environment.
        """
        self._open_sections = set(ARGUMENTS) if takes_any_setting(env_name) else set(ARGUMENTS) - {"env"}
        base = [setting for name, setting in BaseConfig.settings().items() if name not in FIXED]
        sectioned = [
            setting
            for section in (VecConfig.section, TrainConfig.section, LogConfig.section, "env")
            for setting in (section_settings(section, env_name) or {}).values()
        ]
        self._settings = {_key(setting.flag): setting for setting in [*options.settings().values(), *sectioned]}
        self._settings |= {name: setting for setting in base for name in (setting.name, f"base.{setting.name}")}

    def parse(self, tokens: Iterable[str]) -> list[tuple[Setting, Any]]:
        """The settings and checked values that a command line holds, in its order.

        Raises:
            ConfigError: if a flag is unknown, its value is missing or does not fit, or something is no flag at all.
        """
        waiting = list(tokens)
        found = []
        while waiting:
            token = waiting.pop(0)
            if not token.startswith("--"):
                raise ConfigError(f"expected a flag such as --train.seed 1, got {token!r}; the environment comes first")
            flag, has_value, text = token.partition("=")
            setting = self._setting(flag)
            if not has_value:
                text = _take_value(setting, flag, waiting)
            found.append((setting, setting.parse(text)))
        return found

    def _setting(self, flag: str) -> Setting:
        key = _key(flag)
        section, _, name = key.partition(".")
        if key in self._settings:
            return self._settings[key]
        if section in self._open_sections and name:
            return Setting(section, name, Any, None)  # checked when its class is loaded, or by the environment
        known = [f"--{name.replace('_', '-')}" for name in self._settings]
        remedy = nearest(f"--{key.replace('_', '-')}", known, count=1) or "; --help lists them all"
        raise ConfigError(f"there is no flag {flag}{remedy}")


def apply(found: Iterable[tuple[Setting, Any]], args: dict[str, Any], options: dict[str, Any]) -> None:
    """Writes what `FlagTable.parse` found into the configuration, and a command's own options into `options`."""
    for setting, value in found:
        if not setting.section:
            options[setting.name] = value
        elif setting.section == BaseConfig.section:
            args[setting.name] = value
        else:
            args.setdefault(setting.section, {})[setting.name] = value


def _key(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _take_value(setting: Setting, flag: str, waiting: list[str]) -> str:
    """Takes the value from the tokens that follow; a bare flag of a yes-or-no setting means yes."""
    if waiting and not waiting[0].startswith("--"):
        return waiting.pop(0)
    if setting.kind in (bool, Any):
        return "True"
    raise ConfigError(f"{flag} needs a value: {setting.allowed}")
