"""The list of settings that `puffer VERB [ENV] --help` prints."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from pufferlib.config.dimensions import DEFAULT_DIMENSIONS, dimension_keys, dimensions_of
from pufferlib.config.flags import FIXED
from pufferlib.config.schema import BaseConfig, SweepConfig
from pufferlib.config.sections import ARGUMENTS, section_settings
from pufferlib.families.catalog import Entry, find
from pufferlib.settings.setting import Setting
from pufferlib.settings.values import format_value

_INDENT = " " * 6
_NO_ENVIRONMENT = "name an environment to see its own settings and values"
_NO_CLASS = "keyword arguments of the class in pufferlib.models; its own defaults hold for those not named here"


def settings_text(env_name: str | None, args: Mapping[str, Any]) -> str:
    """Every setting by section: its flag, its value for this environment, and what it means.

    Args:
        env_name: the environment, or None for the settings that all of them share.
        args: the values to show: what `load_config` returned, or an empty dict for the defaults.
    """
    entry = None if env_name is None else find(env_name)
    sections = ("base", "vec", *ARGUMENTS, "train", "log", "sweep")
    return "\n".join(_section_text(section, entry, args) for section in sections)


def options_text(settings: Iterable[Setting]) -> str:
    """The lines of some settings, each with its default."""
    return "".join(_setting_text(one, one.default) for one in settings)


def _section_text(section: str, entry: Entry | None, args: Mapping[str, Any]) -> str:
    values = args if section == BaseConfig.section else args.get(section, {})
    known = section_settings(section, entry)
    if known is None:
        note = _NO_ENVIRONMENT if entry is None else _NO_CLASS
        lines = "".join(_setting_text(Setting(section, name, Any, value), value) for name, value in values.items())
        return f"[{section}] {note}\n{lines}"
    shown = [one for one in known.values() if one.name not in FIXED]
    lines = "".join(_setting_text(one, values.get(one.name, one.default)) for one in shown)
    return f"[{section}]\n{lines}" + (_dimensions_text(values) if section == SweepConfig.section else "")


def _dimensions_text(sweep: Mapping[str, Any]) -> str:
    ranges = (dimensions_of(sweep) or DEFAULT_DIMENSIONS).items()
    lines = "".join(f"  {name} {' '.join(str(value) for value in given.values())}\n" for name, given in ranges)
    flags = "".join(_setting_text(one, one.default) for one in dimension_keys("SECTION.SETTING").values())
    return f"\n[sweep.SECTION.SETTING] what a sweep varies\n{lines}{flags}"


def _setting_text(setting: Setting, value: object) -> str:
    meaning = setting.meaning if setting.kind is Any else f"{setting.meaning} Takes {setting.allowed}.".strip()
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    wrapped = textwrap.fill(meaning, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)
    return f"  {setting.flag} {format_value(value)}\n" + (f"{wrapped}\n" if meaning else "")
