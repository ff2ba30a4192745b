"""From files and flags to a configuration: `load_config`."""

from __future__ import annotations

import configparser
import contextlib
import itertools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pufferlib.config.dimensions import PREFIX, check_dimension, dimensions_of, parse_dimension
from pufferlib.config.environments import takes_any_setting
from pufferlib.config.flags import CONFIG_FILE, FIXED, FlagTable, Found, apply_flags, merge
from pufferlib.config.schema import AUTO_SINGLE_ENVS
from pufferlib.config.sections import ARGUMENTS, SECTIONS, section_settings
from pufferlib.errors import APIUsageError, ConfigError, nearest
from pufferlib.families import catalog
from pufferlib.families.catalog import Entry
from pufferlib.reading import read_bytes, read_json
from pufferlib.settings.setting import Setting, require_known
from pufferlib.settings.values import parse_value

DEFAULTS = Path(__file__).with_name("default.ini")


def load_config(env_name: str, argv: Sequence[str] | None = None, config: str | Path | None = None) -> dict[str, Any]:
    """The settings of an environment: default.ini, overridden by its family's ini and its own, a file's, and flags.

    The result depends on nothing else: not on the program's command line, not on the working directory.

    Args:
        env_name: such as `puffer_breakout` or `CartPole-v1`, any name of `pufferlib.families.catalog`.
        argv: flags as `puffer train` takes them after the name, such as `["--train.seed", "3"]`, or `sys.argv[1:]` for
            those of a script of one's own; None for none.
        config: an ini of further settings, such as a sweep's best, or the `config.json` of a run; what it does not
            name stays. The flag `--config` does the same.

    Returns:
        A dict of its own for each call. Keys `package`, `env_name`, `policy_name`, `rnn_name`, `load_model_path`,
        `resume`, and the dicts `vec`, `env`, `policy`, `rnn`, `train`, `log` and `sweep`, which also holds what a sweep
        varies as `args["sweep"]["train"]["learning_rate"] = {"distribution": ..., "min": ..., "max": ...}`; also
        `solve` (`metric`, `threshold`) where the environment names its learning threshold.

    Raises:
        UnknownEnvironmentError: if there is no such environment.
        MissingExtraError: if what it needs is not installed.
        ConfigError: if an ini or a flag holds an unknown section or key, or a value of the wrong type.
        APIUsageError: if `argv` is no list of texts.
    """
    entry = catalog.find(env_name)
    args: dict[str, Any] = {name: {} for name in ("vec", *ARGUMENTS, "train", "log", "sweep")}
    for source in (DEFAULTS, *entry.ini_files):
        for section, texts in read_ini(source).items():
            merge(args, section, _parse_section(source, section, texts, env_name))
    if not entry.ini_files:
        _merge_chosen(args, entry)
    args |= {"package": entry.family, "env_name": entry.name}
    if config is not None:
        apply_flags(_settings_in(Path(config), args["env_name"], env_name), args, {})
    if argv is not None:
        _require_texts(argv)
        apply_flags(with_files(env_name, FlagTable(env_name).parse(argv)), args, {})
    return args


def _merge_chosen(args: dict[str, Any], entry: Entry) -> None:
    """Has the settings of an environment without an ini follow from its spaces, which it is made once to show.

    Of one that takes `num_envs`, and so is a full vector, default.ini has them, as of one that takes other arguments.
    """
    # Not before: they import Gymnasium, which takes longer than all else on the way to --help.
    from pufferlib.config.automatic import PPO_DEFAULTS, Facts, choose
    from pufferlib.vector.recipe import EnvRecipe

    if "num_envs" in entry.settings:
        return
    with contextlib.suppress(APIUsageError):
        env = EnvRecipe.build(entry.creator, None, None, 1, 0).make(0, None)
        env.close()
        facts = Facts.of(env, AUTO_SINGLE_ENVS * env.num_agents)
        choice = choose(facts)
        sizes = {"batch_size": "auto", "bptt_horizon": facts.num_steps}
        lengths = {"total_timesteps": 1_000_000, "checkpoint_interval": 100}  # as families/discrete.ini has them
        merge(args, "train", {**PPO_DEFAULTS, **choice.settings("train"), **sizes, **lengths})
        merge(args, "base", choice.settings("base"))
        merge(args, "policy", choice.settings("policy"))


def with_files(env_name: str, found: Found) -> Found:
    """What a command line holds, with the settings in the files that `--config` names in the place of those flags.

    They come first: any flag counts over them.

    Args:
        env_name: the environment.
        found: by `FlagTable.parse`.

    Raises:
        ConfigError: if there is no such file, or it holds an unknown section or key, or a wrong value.
    """
    name = catalog.find(env_name).name
    inside = [_settings_in(Path(value), name, env_name) for setting, value in found if setting is CONFIG_FILE]
    return [*itertools.chain(*inside), *(pair for pair in found if pair[0] is not CONFIG_FILE)]


def environment_in_files(tokens: Sequence[str]) -> str | None:
    """The environment that a command line is for by the files that its `--config` names.

    Args:
        tokens: flags, as `puffer train` takes them.

    Returns:
        The `[base] env_name` of the first file that has one; None where none does.

    Raises:
        ConfigError: if a file cannot be read, or holds no settings.
    """
    following = (value for flag, value in itertools.pairwise(tokens) if flag == CONFIG_FILE.flag)
    attached = (token.partition("=")[2] for token in tokens if token.startswith(f"{CONFIG_FILE.flag}="))
    names = (_read(Path(path))[0].get("base", {}).get("env_name") for path in (*following, *attached))
    return next(filter(None, names), None)


def read_ini(path: Path) -> dict[str, dict[str, str]]:
    """The texts of an ini file, by section and key.

    Raises:
        ConfigError: if it is no ini file.
    """
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=("#", ";"))
    parser.optionxform = str  # keys keep their case
    try:
        parser.read_string(read_bytes(path).decode())
    except (configparser.Error, UnicodeDecodeError) as error:
        found = " ".join(str(error).split())
        raise ConfigError(f"{path} must be an ini file, found {found[:200]}") from error
    return {section: dict(parser[section]) for section in parser.sections()}


def _settings_in(path: Path, name: str, env_name: str) -> Found:
    """The settings in a file of the user's: an ini, which may say for which environment it is, or a run's description.

    Where a run lay, and what it went on with, is not taken.
    """
    sections, is_description = _read(path)
    made_for = sections.get("base", {}).get("env_name", name)
    if made_for != name:
        command = f"puffer train {shlex.quote(made_for)}"
        remedy = f"`{command}` takes it" if is_description else "leave out its env_name to try it"
        raise ConfigError(f"{path} must be for {name}, found one for {made_for}; {remedy}")
    read = _check_section if is_description else _parse_section
    parsed = {section: read(path, section, given, env_name) for section, given in sections.items()}
    return [
        (Setting(section, key, Any, None), value)
        for section, values in parsed.items()
        for key, value in values.items()
        if section != "base" or key not in FIXED
    ]


def _read(path: Path) -> tuple[dict[str, dict[str, Any]], bool]:
    """The settings in a file of the user's by section, and whether it describes a run: then they have their types."""
    try:
        is_description = read_bytes(path).lstrip().startswith(b"{")
        return _described(path) if is_description else read_ini(path), is_description
    except OSError as error:
        raise ConfigError(f"--config must name a file of settings, got {str(path)!r} ({error.strerror})") from error


def _described(path: Path) -> dict[str, dict[str, Any]]:
    """The settings in a run's `config.json` by section, as an ini would have them."""
    try:
        settings = read_json(path)["settings"]
        base = {name: value for name, value in settings.items() if not isinstance(value, Mapping) and name != "resume"}
        settings["train"].pop("data_dir", None)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} must be an ini file or the config.json of a run, found neither") from error
    sections = {"base": base, **{name: dict(value) for name, value in settings.items() if isinstance(value, Mapping)}}
    for name, given in dimensions_of(sections.get("sweep", {})).items():
        sections[f"{PREFIX}{name}"] = given
        sections["sweep"].pop(name.partition(".")[0], None)
    return sections


def _require_texts(argv: Sequence[str]) -> None:
    if isinstance(argv, str) or not all(isinstance(token, str) for token in argv):
        raise APIUsageError(f"argv must be a list of texts, such as sys.argv[1:], got {argv!r}")


def _parse_section(path: Path, section: str, texts: Mapping[str, str], env_name: str) -> dict[str, Any]:
    try:
        if section.startswith(PREFIX):
            return parse_dimension(section.removeprefix(PREFIX), texts, env_name)
        _require_section(section)
        settings = section_settings(section, env_name)
        if settings is None:
            return {name: parse_value(text) for name, text in texts.items()}
        if section in SECTIONS:
            SECTIONS[section].require_known(texts)
        else:
            require_known(section, texts, settings)
        return {name: settings[name].parse(text) for name, text in texts.items()}
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _check_section(path: Path, section: str, values: Mapping[str, Any], env_name: str) -> dict[str, Any]:
    """The same for values that have their types already."""
    try:
        if section.startswith(PREFIX):
            return check_dimension(section.removeprefix(PREFIX), values, env_name)
        _require_section(section)
        settings = section_settings(section, env_name)
        if settings is None or (section == "env" and takes_any_setting(env_name)):
            return dict(values)
        require_known(section, values, settings)
        return {name: settings[name].check(value) for name, value in values.items()}
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _require_section(section: str) -> None:
    known = [*SECTIONS, *ARGUMENTS]
    if section not in known:
        remedy = nearest(section, known) or f"; there are {', '.join(known)}"
        raise ConfigError(f"there is no section [{section}]{remedy}")
