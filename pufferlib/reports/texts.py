"""Settings, their values and times as short texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pufferlib.metrics.dashboard import count_text, duration_text, number_text


def value_text(value: object) -> str:
    """The value of a setting, such as `4.2M`, `0.9873` or `muon`."""
    if isinstance(value, float):
        return number_text(value)
    return count_text(value) if isinstance(value, int) and abs(value) >= 1e5 else str(value)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """A setting's name without its section, by the whole name; with it where two are alike."""
    keys = [name.rpartition(".")[2] for name in names]
    return {name: key if keys.count(key) == 1 else name for name, key in zip(names, keys, strict=True)}


def settings_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """The values by their short names."""
    names = short_names(list(settings))
    return {names[name]: value_text(value) for name, value in settings.items()}


def cost_text(seconds: float) -> str:
    """Seconds of training, such as `7.4s` or `1m 20s`; `-` where they are not known."""
    return f"{seconds:.1f}s" if 0 <= seconds < 10 else duration_text(seconds)
