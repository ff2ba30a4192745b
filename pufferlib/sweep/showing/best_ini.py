"""The ini file of the settings that a sweep found, for `puffer train ENV --config FILE`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from pufferlib.errors import ConfigError
from pufferlib.metrics.output import printable
from pufferlib.settings.values import format_value, parse_value

_COMMENT = re.compile(r"\s[;#]|^[;#]")  # what an ini would cut off
_NAME = re.compile(r"[A-Za-z_][\w.-]*")  # of a section or a key


def best_ini(env_name: str, settings: Mapping[str, Mapping[str, Any]], comments: Iterable[str]) -> str:
    """Returns the text of an ini file that begins with comments; settings at the top are in `base`.

    Raises:
        ConfigError: if an ini cannot hold a name or a value.
    """
    header = [*comments, f"puffer train {shlex.quote(env_name)} --config THIS_FILE"]
    lines = [f"; {printable(' '.join(line.split()))}" for line in header]
    for section, values in settings.items():
        lines += ["", f"[{section}]", *(f"{key} = {_ini_value(section, key, value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _ini_value(section: str, key: str, value: object) -> str:
    if not (_NAME.fullmatch(section) and _NAME.fullmatch(key)):
        raise ConfigError(f"a setting of an ini must have a name of letters, digits and _, got {f'{section}.{key}'!r}")
    for text in (format_value(value), repr(value)):
        if parse_value(text) == value and text.isprintable() and not _COMMENT.search(text):
            return text
    raise ConfigError(f"[{section}] {key} must be a number, a text or a list to be written to an ini, got {value!r}")
