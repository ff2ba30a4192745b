"""The sections of a configuration, the keyword arguments of an environment, and the dimensions of a sweep."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from typing_extensions import override

from pufferlib.config.schema import ARGUMENTS, SECTIONS, BaseConfig, remedy, require_known
from pufferlib.config.sizes import AUTO_AGENTS_CPU, AUTO_AGENTS_CUDA
from pufferlib.errors import APIUsageError, ConfigError, kind_of, nearest
from pufferlib.families.catalog import Entry, find
from pufferlib.setting import Section, Setting, setting, shown

PREFIX = "sweep."  # of the sections of dimensions
SWEPT = ("base", "vec", "env", "policy", "rnn", "train")  # sections whose settings a sweep may vary
_MULTIPLE = re.compile(r"(\d+\.?\d*|\.\d+)x")


def section_settings(section: str, env: str | Entry | None) -> Mapping[str, Setting] | None:
    """Returns the settings of a section by name; None where they are known only once the policy's class is loaded.

    A dimension such as `sweep.train.gamma` is a section too. Without an environment `[env]` is not known either. Raises
    ConfigError if there is no such section, or a dimension is of no setting.
    """
    if section.startswith(PREFIX):
        swept, key = split_name(section.removeprefix(PREFIX))
        _known_settings(swept, [key], env)
        return dimension_keys(f"{swept}.{key}")
    if section in SECTIONS:
        return SECTIONS[section].settings()
    if section not in ARGUMENTS:
        known = [*SECTIONS, *ARGUMENTS]
        found = nearest(section, known) or f"; there are {', '.join(known)}"
        raise ConfigError(f"there is no section [{section}]{found}")
    return env_settings(env) if section == "env" and env else None


def env_settings(env: str | Entry) -> Mapping[str, Setting]:
    """Returns the keyword arguments of an environment, by name; `num_envs` may be 'auto' too. Raises as `find`."""
    found = dict(find(env).settings)
    if "num_envs" in found:
        count = found["num_envs"]
        agents = f"auto is {AUTO_AGENTS_CPU} agents in all on a CPU and up to {AUTO_AGENTS_CUDA} on CUDA."
        found["num_envs"] = dataclasses.replace(count, kind=int | Literal["auto"], meaning=f"{count.meaning} {agents}")
    return found


def _known_settings(section: str, names: Iterable[str], env: str | Entry | None) -> Mapping[str, Setting]:
    # Those of a section that must have settings of these names, as far as that is known.
    known = section_settings(section, env)
    if known is not None and not (section == "env" and find(env).takes_any_setting):
        require_known(section, names, known)
    return known or {}


def check_section(section: str, given: Mapping[str, Any], env: str | Entry, are_texts: bool = False) -> dict[str, Any]:
    """Returns the values of a section, or their texts in a file, converted to the types of its settings.

    Those of settings that only a class knows stay as they are, or as their texts look. Raises ConfigError, naming the
    first setting that is unknown or whose value does not fit.
    """
    if not isinstance(given, Mapping):
        expected = "a dict of a range or a list of values" if section.startswith(PREFIX) else "a section of its own"
        raise ConfigError(f"[{section}] must be {expected}, got {shown(given)}")
    known = _known_settings(section, given, env)
    found = {}
    for name, value in given.items():
        one = known.get(name) or Setting(section, name)
        found[name] = one.parse(value) if are_texts else one.check(value) if name in known else value
    return found


def require_sections(args: Mapping[str, Any]) -> None:
    """Raises ConfigError for what is no dict, and for its first key that does not count, with the nearest."""
    if not isinstance(args, Mapping):
        raise ConfigError(f"the configuration must be a dict, got {kind_of(args)}; load_config returns it")
    known = [*BaseConfig.settings(), *SECTIONS, *ARGUMENTS]
    for name in args:
        if name not in known:
            found = remedy(str(name), known) or f"; it has {', '.join(known)}"
            raise ConfigError(f"there is no {name!r} in the configuration{found}")


def require_whole(env_name: object, args: Mapping[str, Any]) -> None:
    """Raises APIUsageError for an environment without a name, ConfigError for a configuration that lacks a section."""
    if not isinstance(env_name, str):
        remedy = "PuffeRL trains what has no name"
        raise APIUsageError(f"env_name must be text, such as 'my_module:MyEnv', got {kind_of(env_name)}; {remedy}")
    require_sections(args)
    for name in ("train", *ARGUMENTS):
        if not isinstance(args.get(name), Mapping):
            raise ConfigError(f"the configuration needs a section {name!r}, found none; edit what load_config returns")


class _Bound(Setting):
    # An end of a range: a number, or a multiple of the configured value.
    @property
    @override
    def allowed(self) -> str:
        return "a number, or a multiple of the configured value such as 0.1x"

    @override
    def check(self, value: object) -> Any:
        if isinstance(value, str) and multiple(value) is None:
            raise ConfigError(f"{self.label} must be {self.allowed}, got {shown(value)}")
        return super().check(value)


DEFAULT_DIMENSIONS = {
    "train.total_timesteps": {"distribution": "log_normal", "min": "0.05x", "max": "2x"},
    "train.learning_rate": {"distribution": "log_normal", "min": "0.1x", "max": "10x"},
    "train.gamma": {"distribution": "logit_normal", "min": 0.8, "max": 0.9998},
    "train.gae_lambda": {"distribution": "logit_normal", "min": 0.6, "max": 0.998},
    "train.ent_coef": {"distribution": "log_normal", "min": 1e-5, "max": 0.2},
    "train.update_epochs": {"distribution": "log_normal", "min": "0.25x", "max": "2x"},
}
"""The dimensions of a sweep of any environment; its inis change them and add others."""


def split_name(name: str) -> tuple[str, str]:
    """Returns the section and the key of a dimension's name; ConfigError if it is of no section that can be varied."""
    section, _, key = name.partition(".")
    if section in SWEPT and key and "." not in key:
        return section, key
    found = nearest(section, SWEPT) if key else ""
    found = found or f"; name a setting of {', '.join(SWEPT)}, such as [sweep.train.learning_rate]"
    raise ConfigError(f"there is no section [{PREFIX}{name}]{found}")


@dataclasses.dataclass(frozen=True)
class _Dimension(Section):
    distribution: Literal["uniform", "int_uniform", "uniform_pow2", "log_normal", "logit_normal"] | None = setting(
        None, "How values are spread over the range; none takes the dimension out of the sweep."
    )
    min: float | str | None = setting(None, "The least value.")
    max: float | str | None = setting(None, "The largest one.")
    mean: float | None = setting(
        None,
        "Where the search starts; None is the configured value where that lies in the range, else the middle.",
    )
    scale: float | Literal["auto"] = setting(
        "auto",
        "Standard deviation of the first trials around the mean, as a part of the range; auto is 0.3.",
        "(0, 1]",
    )


def dimension_keys(name: str) -> Mapping[str, Setting]:
    """Returns the keys of `[sweep.NAME]`, whether there is such a setting or not."""
    kinds = {"min": _Bound, "max": _Bound}
    return {
        key: kinds.get(key, Setting)(**{**vars(one), "section": f"{PREFIX}{name}"})
        for key, one in _Dimension.settings().items()
    }


def multiple(text: str) -> float | None:
    """Returns the factor that a bound such as `0.1x` stands for, None where the text is no such."""
    return float(text[:-1]) if _MULTIPLE.fullmatch(text) else None


def dimensions_of(sweep: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the dimensions in the section `sweep` of a configuration by name, those taken out included."""
    return {
        f"{section}.{key}": given
        for section, settings in sweep.items()
        if isinstance(settings, Mapping)
        for key, given in settings.items()
    }
