"""Writes default.ini from the schema: `python -m pufferlib.config.defaults`."""

from __future__ import annotations

from pufferlib.config.configuration import DEFAULTS
from pufferlib.config.schema import BaseConfig, LogConfig, SweepConfig, TrainConfig, VecConfig
from pufferlib.config.sections import ARGUMENTS, DEFAULT_DIMENSIONS, PREFIX
from pufferlib.setting import Section, format_value

_HEADER = """\
; The defaults of every setting. The environment's own ini comes after this file, the command line after that.
; Made from schema.py by `python -m pufferlib.config.defaults`: change a default there.
"""
_DIMENSIONS = """
; What a sweep varies, a section for each setting. min and max are numbers, or multiples of the configured value such as
; 2x; mean, where it starts, is that value unless it is given; distribution = none takes a setting out.
"""


def render() -> str:
    """The text of default.ini."""
    written = {config.section: _settings_text(config) for config in (BaseConfig, VecConfig)}
    written |= {section: "; Keyword arguments of the class; its own defaults hold.\n" for section in ARGUMENTS}
    written |= {config.section: _settings_text(config) for config in (TrainConfig, LogConfig, SweepConfig)}
    written[SweepConfig.section] += _DIMENSIONS
    written |= {f"{PREFIX}{name}": _dimension_text(name) for name in DEFAULT_DIMENSIONS}
    return _HEADER + "".join(f"\n[{section}]\n{text}" for section, text in written.items())


def _settings_text(config: type[Section]) -> str:
    return "".join(
        f"; {setting.meaning}\n{setting.name} = {format_value(setting.default)}\n"
        for setting in config.settings().values()
    )


def _dimension_text(name: str) -> str:
    return "".join(f"{key} = {format_value(value)}\n" for key, value in DEFAULT_DIMENSIONS[name].items())


if __name__ == "__main__":
    DEFAULTS.write_text(render(), encoding="utf-8")
