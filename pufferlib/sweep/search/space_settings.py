"""From the configuration to what a sweep varies."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

from pufferlib.config import policy_classes
from pufferlib.config.dimensions import check_dimension, dimensions_of, multiple, split_name
from pufferlib.config.sections import section_settings
from pufferlib.errors import ConfigError, nearest
from pufferlib.families.catalog import find
from pufferlib.settings.setting import Setting, class_settings
from pufferlib.sweep.search.space import AUTO_SCALE, Choice, Dimension, SearchSpace

_SEARCH_ORDER = ("train", "env", "policy", "rnn", "vec", "base")  # where a name without a section is looked for


def space_of(args: Mapping[str, Any]) -> SearchSpace:
    """What the `[sweep.SECTION.SETTING]` sections of a configuration vary, in their order.

    Args:
        args: the nested dict of `load_config`, which also holds the values that the search starts at. A range is a
            dict, values to choose from are a list.

    Raises:
        ConfigError: if there is no such setting, its range does not fit it, or nothing is varied.
    """
    dimensions = []
    for name, given in dimensions_of(args["sweep"]).items():
        if isinstance(given, (list, tuple)):
            dimensions.append(_choice(args, name, given))
        elif given.get("distribution", "") is not None:
            dimensions.append(_range(args, name, given))
    if not dimensions:
        raise ConfigError("a sweep needs something to vary, found no dimension; add a section [sweep.SECTION.SETTING]")
    return SearchSpace(tuple(dimensions))


def choices_of(env_name: str, args: Mapping[str, Any], search_space: Mapping[str, Any]) -> SearchSpace:
    """What a search space of Python varies.

    Args:
        env_name: the environment.
        args: its configuration, which holds the values that the search starts at.
        search_space: by the name of a setting, such as `train.learning_rate` or `learning_rate` (of `train` where it
            has one, else of `env`, `policy`, `rnn`, `vec`): a list of values, or a dict with the keys of
            `[sweep.SECTION.SETTING]` for a range.

    Raises:
        ConfigError: if a setting does not exist, is named twice, or a value does not fit it.
    """
    args = {**args, "env_name": env_name}
    found: dict[str, dict[str, Any]] = {}
    for given_name, given in search_space.items():
        section, key = split_name(resolved_name(args, given_name))
        if key in found.get(section, {}):
            raise ConfigError(f"{given_name!r} is {section}.{key}, which the search space names twice; name it once")
        if not isinstance(given, (list, tuple, Mapping)):
            raise ConfigError(f"{given_name!r} must be a list of values or a dict of a range, got {given!r}")
        found.setdefault(section, {})[key] = given
    return space_of({**args, "sweep": found})


def resolved_name(args: Mapping[str, Any], name: str) -> str:
    """The full name, such as `train.learning_rate`, of a setting that is called by it or by its last part.

    Args:
        args: the nested dict of `load_config`.
        name: what is called; `n_epochs` and `num_steps` are names too, as keywords of PuffeRL.

    Raises:
        ConfigError: if there is no such setting; the message names the nearest.
    """
    if "." in name:
        return name
    known = [(section, key) for section in _SEARCH_ORDER for key in _settings(args, section)]
    for section, key in known:
        if key == name:
            return f"{section}.{key}"
    from pufferlib.runs.keyword_settings import ALIASES  # not before: it imports torch

    if name in ALIASES:
        return f"train.{ALIASES[name]}"
    remedy = nearest(name, [key for _, key in known]) or "; `puffer train --help` lists all"
    raise ConfigError(f"there is no setting {name!r} that a sweep could vary{remedy}")


def _choice(args: Mapping[str, Any], name: str, values: list | tuple) -> Choice:
    setting = _setting(args, name)
    return Choice(name, tuple(setting.check(value) for value in values))


def _range(args: Mapping[str, Any], name: str, given: Mapping[str, Any]) -> Dimension:
    setting, checked = _setting(args, name), check_dimension(name, given, find(args["env_name"]))
    missing = [key for key in ("distribution", "min", "max") if checked.get(key) is None]
    if missing:
        raise ConfigError(f"[sweep.{name}] needs {', '.join(missing)}; a range has distribution, min and max")
    configured = _configured(args, setting)
    is_integer = _is_integer(setting, configured)
    distribution = checked["distribution"]
    low, high = (_bound(setting, key, checked[key], configured, distribution) for key in ("min", "max"))
    if is_integer:
        low, high = math.ceil(low), math.floor(high)
    mean = checked.get("mean")
    if mean is None and _is_number(configured) and low <= configured <= high:
        mean = configured
    scale = checked.get("scale", "auto")
    scale = AUTO_SCALE if scale == "auto" else scale
    return Dimension(name, distribution, setting.check(low), setting.check(high), mean, scale, is_integer)


def _bound(setting: Setting, key: str, bound: float | str, configured: Any, distribution: str) -> float:
    """An end of a range; one that is a multiple of the configured value is rounded to what the distribution has."""
    if not isinstance(bound, str):
        return bound
    if not _is_number(configured):
        raise ConfigError(
            f"[sweep.{setting.section}.{setting.name}] {key} is {bound} of the configured value, which is "
            f"{configured!r}; write a number"
        )
    value = configured * (multiple(bound) or 0.0)
    if distribution == "uniform_pow2" and value > 0:
        return 2.0 ** round(math.log2(value))
    return float(f"{value:.12g}")


def _is_integer(setting: Setting, configured: Any) -> bool:
    """Whether only whole numbers are values of a setting.

    Raises:
        ConfigError: if no number is.
    """
    union = get_origin(setting.kind) in (Union, types.UnionType)
    kinds = get_args(setting.kind) if union else (setting.kind,)
    if float in kinds:
        return False
    if int in kinds or (Any in kinds and _is_number(configured)):
        return int in kinds or isinstance(configured, int)
    if Any in kinds:
        return False
    name = f"{setting.section}.{setting.name}"
    raise ConfigError(f"[sweep.{name}] must be a number to have a range, and takes {setting.allowed}; sweep another")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _configured(args: Mapping[str, Any], setting: Setting) -> Any:
    values = args if setting.section == "base" else args[setting.section]
    return values.get(setting.name, setting.default)


def _setting(args: Mapping[str, Any], name: str) -> Setting:
    """The setting of a dimension's name.

    Raises:
        ConfigError: if there is none.
    """
    section, key = split_name(name)
    known = _settings(args, section)
    if key in known:
        return known[key]
    if section == "env" and find(args["env_name"]).takes_any_setting:
        return Setting(section, key, Any, None)
    remedy = nearest(key, known) or f"; it has {', '.join(known) or 'none'}"
    raise ConfigError(f"[sweep.{name}] must name a setting, and [{section}] has no {key!r}{remedy}")


def _settings(args: Mapping[str, Any], section: str) -> Mapping[str, Setting]:
    found = section_settings(section, find(args["env_name"]))
    if found is not None:
        return found
    kind = policy_classes(args)[section == "rnn"]
    return {} if kind is None else class_settings(section, kind)
