"""The configuration: defaults, then the environment's ini, then what the user changes.

`load_config` returns a nested dict to edit freely; `check_config` and the dataclasses of `schema` check it.
"""

from __future__ import annotations

import configparser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pufferlib.config.classes import catalog, check_env, env_settings, policy_arguments, policy_classes
from pufferlib.config.schema import BaseConfig, LogConfig, SolveConfig, TrainConfig, VecConfig
from pufferlib.config.sizes import ResolvedTrainConfig, resolve, resolve_env_count
from pufferlib.errors import APIUsageError, ConfigError, nearest
from pufferlib.settings import hints
from pufferlib.settings.setting import Section, Setting, check_arguments, require_known
from pufferlib.settings.values import parse_value

__all__ = [
    "BaseConfig",
    "LogConfig",
    "ResolvedTrainConfig",
    "SolveConfig",
    "TrainConfig",
    "VecConfig",
    "check_arguments",
    "check_config",
    "check_env",
    "env_settings",
    "load_config",
    "policy_arguments",
    "policy_classes",
    "require_sections",
    "resolve",
    "resolve_env_count",
]

DEFAULTS = Path(__file__).with_name("default.ini")
SECTIONS = {"base": BaseConfig, "vec": VecConfig, "train": TrainConfig, "log": LogConfig, "solve": SolveConfig}
ARGUMENTS = ("env", "policy", "rnn")  # sections whose keys are the keyword arguments of a class


def load_config(env_name: str, argv: Sequence[str] | None = None) -> dict[str, Any]:
    """The settings of an environment: default.ini, overridden by its family's ini and its own, and by flags if given.

    The result depends on nothing else: not on the program's command line, not on the working directory.

    Args:
        env_name: such as `puffer_breakout` or `CartPole-v1`, any name of `pufferlib.families.catalog`.
        argv: flags as `puffer train` takes them after the name, such as `["--train.seed", "3"]`, or `sys.argv[1:]` for
            those of a script of one's own; None for none.

    Returns:
        A dict of its own for each call. Keys `package`, `env_name`, `policy_name`, `rnn_name`, `load_model_path`,
        `resume`, and the dicts `vec`, `env`, `policy`, `rnn`, `train` and `log`; also `solve` (`metric`, `threshold`)
        where the environment names its learning threshold.

    Raises:
        UnknownEnvironmentError: if there is no such environment.
        MissingExtraError: if what it needs is not installed.
        ConfigError: if an ini or a flag holds an unknown section or key, or a value of the wrong type.
        APIUsageError: if `argv` is no list of texts.
    """
    entry = catalog().find(env_name)
    args: dict[str, Any] = {name: {} for name in ("vec", *ARGUMENTS, "train", "log")}
    for source in (DEFAULTS, *entry.ini_files):
        for section, texts in _read_ini(source).items():
            _merge(args, section, _parse_section(source, section, texts, env_name))
    args |= {"package": entry.family, "env_name": entry.name}
    if argv is not None:
        _apply_flags(args, env_name, argv)
    return args


def _apply_flags(args: dict[str, Any], env_name: str, argv: Sequence[str]) -> None:
    from pufferlib.config import flags  # which needs this module

    if isinstance(argv, str) or not all(isinstance(token, str) for token in argv):
        raise APIUsageError(f"argv must be a list of texts, such as sys.argv[1:], got {argv!r}")
    flags.apply(flags.FlagTable(Section, env_name).parse(argv), args, {})


def check_config(args: Mapping[str, Any]) -> None:
    """Checks every setting, those of the environment's and the policy's classes included.

    It imports torch, for the policy's class.

    Raises:
        ConfigError: naming the first setting that is unknown, of the wrong type or out of bounds.
        UnknownEnvironmentError: if there is no such environment.
    """
    base = {name: value for name, value in args.items() if not isinstance(value, Mapping)}
    require_sections(args)
    BaseConfig.from_dict(base)
    VecConfig.from_dict(args["vec"])
    TrainConfig.from_dict(args["train"])
    LogConfig.from_dict(args.get("log", {}))  # runs of earlier versions have none
    check_env(args["env_name"], args["env"])
    policy_class, rnn_class = policy_classes(args)
    policy_arguments(args, "policy", policy_class)
    if rnn_class is not None:
        policy_arguments(args, "rnn", rnn_class)


def require_sections(args: Mapping[str, Any]) -> None:
    """Checks that every key at the top of a configuration is one that counts.

    Raises:
        ConfigError: naming the first that does not, and the nearest that do.
    """
    known = [*BaseConfig.settings(), *SECTIONS, *ARGUMENTS]
    for name in args:
        if name not in known:
            found = hints.remedy(BaseConfig.section, str(name), known) or f"; it has {', '.join(known)}"
            raise ConfigError(f"there is no {name!r} in the configuration{found}")


def section_settings(section: str, env_name: str | None) -> Mapping[str, Setting] | None:
    """The settings of a section by name; None where they are known only once the policy's class is loaded.

    Args:
        section: a name in SECTIONS or ARGUMENTS.
        env_name: the environment whose `[env]` is meant; without one, that section is not known either.
    """
    if section in SECTIONS:
        return SECTIONS[section].settings()
    return env_settings(env_name) if section == "env" and env_name else None


def _merge(args: dict[str, Any], section: str, values: Mapping[str, Any]) -> None:
    (args if section == "base" else args.setdefault(section, {})).update(values)


def _read_ini(path: Path) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=("#", ";"))
    parser.optionxform = str  # keys keep their case
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} must be an ini file, found {' '.join(str(error).split())}") from error
    return {section: dict(parser[section]) for section in parser.sections()}


def _parse_section(path: Path, section: str, texts: Mapping[str, str], env_name: str) -> dict[str, Any]:
    _require_section(path, section, [*SECTIONS, *ARGUMENTS])
    settings = section_settings(section, env_name)
    if settings is None:
        return {name: parse_value(text) for name, text in texts.items()}
    try:
        require_known(section, texts, settings)
        return {name: settings[name].parse(text) for name, text in texts.items()}
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _require_section(path: Path, section: str, known: Iterable[str]) -> None:
    if section not in known:
        remedy = nearest(section, known) or f"; there are {', '.join(known)}"
        raise ConfigError(f"{path}: there is no section [{section}]{remedy}")
