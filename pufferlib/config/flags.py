"""Command-line flags `--section.key value`, read as the settings that they name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pufferlib.config.dimensions import PREFIX, dimension_settings
from pufferlib.config.hints import hint_for, with_flags
from pufferlib.config.schema import BaseConfig, LogConfig, SweepConfig, TrainConfig, VecConfig
from pufferlib.config.sections import ARGUMENTS, section_settings
from pufferlib.errors import ConfigError, nearest
from pufferlib.families.catalog import Entry, find
from pufferlib.settings.setting import Section, Setting
from pufferlib.settings.values import fits, parse_value

FIXED = frozenset({"package", "env_name"})  # the environment's name on the command line says both

CONFIG_FILE = Setting(
    "",
    "config",
    str,
    None,
    "An ini of further settings, such as a sweep's best, or the config.json of a run: they come after those of the "
    "environment, before all flags.",
)

Found = list[tuple[Setting, Any]]
"""Settings and their checked values, in the order of the command line."""


class FlagTable:
    """The flags that a command takes for one environment.

    `--train.learning-rate`, `--train.learning_rate` and `--train.learning-rate=0.1` are the same; the keys of `[base]`
    go without a section: `--rnn-name LSTM`.
    """

    def __init__(self, env: str | Entry, options: type[Section] = Section):
        """Collects the flags.

        Args:
            env: the environment that `[env]` belongs to, by name or by its entry in the catalog.
            options: the command's own options, whose flags have no section.

        Raises:
            UnknownEnvironmentError: if there is no such environment.
        """
        self._entry = find(env)
        self._open_sections = set(ARGUMENTS) if self._entry.takes_any_setting else set(ARGUMENTS) - {"env"}
        base = [setting for name, setting in BaseConfig.settings().items() if name not in FIXED]
        sectioned = [
            setting
            for section in (VecConfig.section, TrainConfig.section, LogConfig.section, "env", SweepConfig.section)
            for setting in (section_settings(section, self._entry) or {}).values()
        ]
        own = [CONFIG_FILE, *options.settings().values()]
        self._known = [*own, *base, *sectioned]
        self._settings = {_key(setting.flag): setting for setting in [*own, *sectioned]}
        self._settings |= {name: setting for setting in base for name in (setting.name, f"base.{setting.name}")}

    def parse(self, tokens: Iterable[str]) -> Found:
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
        if section == SweepConfig.section and "." in name:
            return self._dimension_setting(flag, key)
        if section in self._open_sections and name:
            return Setting(section, name, Any, None)  # checked when its class is loaded, or by the environment
        raise ConfigError(f"there is no flag {flag}{self._remedy(key)}")

    def _dimension_setting(self, flag: str, key: str) -> Setting:
        name, _, which = key.removeprefix(PREFIX).rpartition(".")
        if "." not in name:
            raise ConfigError(
                f"there is no flag {flag}; a range is set by --sweep.train.learning-rate.max and the like"
            )
        try:
            settings = dimension_settings(name, self._entry)
        except ConfigError as error:
            raise ConfigError(f"there is no flag {flag}: {error}") from error
        if which not in settings:
            raise ConfigError(f"there is no flag {flag}; --sweep.{name} has {', '.join(settings)}".replace("_", "-"))
        return settings[which]

    def _remedy(self, key: str) -> str:
        section, _, name = key.rpartition(".")
        found = "" if section in ARGUMENTS else hint_for(name)
        if found:
            return f"; {with_flags(found)}"
        same = [one for one in self._known if section and one.section == section]
        runs = [one for one in self._known if one.section != SweepConfig.section]  # what most look for
        near = [one for one in runs if one.name == name]
        for group in (same, runs) if section else (runs, self._known):
            names = [one.name for one in group]
            near = near or [group[names.index(close)] for close in difflib.get_close_matches(name, names, n=1)]
        flags = sorted({one.flag for one in near}, key=lambda flag: not flag.startswith("--train."))
        if not flags:
            return f"; `puffer train {self._entry.name} --help` lists them all"
        return f"; did you mean {' or '.join(map(repr, flags))}?"


def parse_options(tokens: Iterable[str], options: type[Section]) -> tuple[list[str], dict[str, Any]]:
    """Reads what follows a command that takes no environment: words, and its own options anywhere among them.

    A yes-or-no option takes no word that is neither: `--terminal latest` is an option and a word; `--no-video` is
    `--video False`.

    Args:
        tokens: of the command line.
        options: the command's options.

    Returns:
        The words, and the values of all options by name.

    Raises:
        ConfigError: if a flag is unknown, its value is missing or does not fit.
    """
    known = options.settings()
    values = {name: one.default for name, one in known.items()}
    words, waiting = [], list(tokens)
    while waiting:
        token = waiting.pop(0)
        if not token.startswith("-"):
            words.append(token)
            continue
        flag, has_value, text = token.partition("=")
        name = _key(flag)
        refused = name.removeprefix("no_")
        if refused != name and not has_value and _is_switch(known.get(refused)):
            values[refused] = False
            continue
        if name not in known:
            names = {one.flag for one in known.values()}
            raise ConfigError(f"there is no flag {flag}{nearest(flag, names) or f'; there are {_listed(names)}'}")
        if not has_value:
            is_bare = _is_switch(known[name]) and waiting and not fits(parse_value(waiting[0]), bool)
            text = "True" if is_bare else _take_value(known[name], flag, waiting)
        values[name] = known[name].parse(text)
    return words, values


def _is_switch(setting: Setting | None) -> bool:
    return setting is not None and setting.kind in (bool, bool | None)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def apply_flags(found: Iterable[tuple[Setting, Any]], args: dict[str, Any], options: dict[str, Any]) -> None:
    """Writes what `FlagTable.parse` found into the configuration, and a command's own options into `options`."""
    for setting, value in found:
        if not setting.section:
            options[setting.name] = value
        else:
            merge(args, setting.section, {setting.name: value})


def merge(args: dict[str, Any], section: str, values: Mapping[str, Any]) -> None:
    """Writes values of a section, such as `train` or `sweep.train.learning_rate`, into the configuration."""
    if section != BaseConfig.section:
        for name in section.split("."):
            args = args.setdefault(name, {})
    args.update(values)


def _key(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _take_value(setting: Setting, flag: str, waiting: list[str]) -> str:
    # A bare flag of a yes-or-no setting means yes.
    if waiting and not waiting[0].startswith("--"):
        return waiting.pop(0)
    if _is_switch(setting) or setting.kind is Any:
        return "True"
    raise ConfigError(f"{flag} needs a value: {setting.allowed}")
