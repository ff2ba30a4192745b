"""From files and flags to a configuration: `load_config`, and the classes behind a policy's name."""

from __future__ import annotations

import configparser
import contextlib
import dataclasses
import importlib
import inspect
import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pufferlib.config.flags import CONFIG_FILE, FIXED, FlagTable, Found, apply_flags, merge
from pufferlib.config.schema import AUTO_SINGLE_ENVS, BaseConfig, require_known
from pufferlib.config.sections import (
    ARGUMENTS,
    DEFAULT_DIMENSIONS,
    PREFIX,
    SECTIONS,
    check_section,
    dimensions_of,
    require_sections,
    section_settings,
)
from pufferlib.errors import APIUsageError, ConfigError, import_named, nearest, with_colon
from pufferlib.families import catalog
from pufferlib.families.catalog import Entry, find
from pufferlib.reading import read_bytes, read_json
from pufferlib.setting import Setting, class_settings

_CONFIGS = [config for name, config in SECTIONS.items() if name not in ("base", "solve")]
WRAPPER = "Wrapper"  # with which the name of a recurrent layer's class ends: LSTM is LSTMWrapper


def load_config(env_name: str, argv: Sequence[str] | None = None, config: str | Path | None = None) -> dict[str, Any]:
    """Returns the settings of an environment: the defaults, then its family's ini and its own, a file's, and flags.

    The result depends on nothing else: not on the program's command line, not on the working directory.

    Args:
        env_name: such as `puffer_breakout`, `CartPole-v1` or `my_module:MyEnv`; or a class or function that makes one.
        argv: flags as `puffer train` takes them after the name, such as `["--train.seed", "3"]`, or `sys.argv[1:]` for
            those of your own script; None for none.
        config: an ini of further settings, such as a sweep's best, or the `config.json` of a run; what it does not
            name stays. The flag `--config` does the same.

    Returns:
        A dict of its own for each call. Keys `package`, `env_name`, `policy_name`, `rnn_name`, `load_model_path`,
        `resume`, and the dicts `vec`, `env`, `policy`, `rnn`, `train`, `selfplay`, `log` and `sweep`, which also holds
        what a sweep varies as `args["sweep"]["train"]["learning_rate"] = {"distribution": ..., "min": ..., "max":
        ...}`; also `solve` (`metric`, `threshold`) where the environment names its learning threshold.

    Raises:
        UnknownEnvironmentError: if there is no such environment.
        MissingExtraError: if what it needs is not installed.
        ConfigError: if an ini or a flag holds an unknown section or key, or a value of the wrong type.
        APIUsageError: if `argv` is no list of texts.
    """
    entry = find(env_name)
    args: dict[str, Any] = {name: {} for name in ("vec", *ARGUMENTS, "train", "selfplay", "log", "sweep")}
    for config_class in (BaseConfig, *_CONFIGS):
        merge(args, config_class.section, dataclasses.asdict(config_class()))
    for name, given in DEFAULT_DIMENSIONS.items():
        merge(args, f"{PREFIX}{name}", given)
    for source in entry.ini_files:
        apply_flags(_checked(source, read_ini(source), entry, are_texts=True), args)
    if not entry.ini_files:
        _merge_chosen(args, entry)
    args |= {"package": entry.family, "env_name": entry.name}
    if isinstance(argv, str) or not all(isinstance(token, str) for token in argv or ()):
        raise APIUsageError(f"argv must be a list of texts, such as sys.argv[1:], got {argv!r}")
    flags = FlagTable(entry).parse(argv) if argv else []
    if config is not None:
        apply_flags(_settings_in(Path(config), entry, flags), args)
    apply_flags(with_files(entry, flags), args)
    return args


def is_policy_named(found: Found) -> bool:
    """Returns whether the user names the policy by a flag."""
    return any((setting.section, setting.name) == ("base", "policy_name") for setting, _ in found)


def _merge_chosen(args: dict[str, Any], entry: Entry) -> None:
    # The settings of an environment without an ini follow from its spaces, so it is made once. An environment that
    # takes `num_envs` is a full vector, and keeps the defaults; so does one that takes other arguments.
    # Not before: they import Gymnasium, which takes longer than all else on the way to --help.
    from pufferlib.config.automatic import PPO_DEFAULTS, Facts, environment_count
    from pufferlib.vector.recipe import EnvRecipe

    if "num_envs" in entry.settings:
        return
    with contextlib.suppress(APIUsageError):
        env = EnvRecipe.build(entry.creator, None, None, 1, 0).make(0, None)
        env.close()
        count = environment_count(env)
        facts = Facts.of(env, count * env.num_agents)
        sizes = {"batch_size": "auto", "bptt_horizon": facts.num_steps}
        lengths = {"total_timesteps": 1_000_000, "checkpoint_interval": 100}  # as families/discrete.ini has them
        args |= facts.settings("base")
        args["vec"] |= {"num_envs": count} if count < AUTO_SINGLE_ENVS else {}
        args["policy"] |= facts.settings("policy")
        args["train"] |= {**PPO_DEFAULTS, **facts.settings("train"), **sizes, **lengths}


def with_files(env: str | Entry, found: Found) -> Found:
    """Puts the settings in the files that `--config` names in the place of that flag, before all others.

    Raises ConfigError if there is no such file, or it holds an unknown section or key, or a wrong value, or if the
    description of a run names a policy in a module, and no flag does.
    """
    paths = [Path(value) for setting, value in found if setting is CONFIG_FILE]
    inside = itertools.chain(*[_settings_in(path, find(env), found) for path in paths])
    return followed_by(inside, [pair for pair in found if pair[0] is not CONFIG_FILE])


def followed_by(earlier: Iterable[tuple[Setting, Any]], later: Found) -> Found:
    """Puts settings after others, without those of the earlier ones that would count in place of a later one."""
    names = {(setting.section, setting.name) for setting, _ in later}
    over = {other for flag, other in _OVER.items() if flag in names} - names  # what `apply_flags` has them take out
    return [*(pair for pair in earlier if (pair[0].section, pair[0].name) not in over), *later]


_OVER = {("train", "num_minibatches"): ("train", "minibatch_size"), ("base", "rnn_name"): ("train", "shuffle")}


def environment_in_files(tokens: Sequence[str]) -> str | None:
    """Returns the `[base] env_name` of the first file that a command line's `--config` names with one; else None.

    Raises ConfigError if a file cannot be read, or holds no settings, or is the description of a run and names an
    environment in a module.
    """
    following = (value for flag, value in itertools.pairwise(tokens) if flag == CONFIG_FILE.flag)
    attached = (token.partition("=")[2] for token in tokens if token.startswith(f"{CONFIG_FILE.flag}="))
    for path in map(Path, (*following, *attached)):
        sections, is_description = _read(path)
        name = sections.get("base", {}).get("env_name")
        if is_description and ":" in str(name):
            raise _unnamed(path, f"the environment {name}", "name it before --config")
        if name and isinstance(name, str):
            return name
    return None


def _unnamed(path: Path, what: str, remedy: str) -> ConfigError:
    # The description of a run may come from a stranger, and an import runs code.
    return ConfigError(
        f"{path} is for {what}, and a module is imported only where you name it yourself; {remedy} if you trust it"
    )


def read_ini(path: Path) -> dict[str, dict[str, str]]:
    """Returns the texts of an ini file, by section and key; ConfigError if it is no ini file."""
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=("#", ";"), default_section="")
    parser.optionxform = str  # keys keep their case
    try:
        parser.read_string(read_bytes(path).decode("utf-8-sig"))
    except (configparser.Error, UnicodeDecodeError) as error:
        found = " ".join(str(error).split())
        raise ConfigError(f"{path} must be an ini file, found {found[:200]}") from error
    return {section: dict(parser[section]) for section in parser.sections()}


def _settings_in(path: Path, entry: Entry, flags: Found) -> Found:
    sections, is_description = _read(path)
    made_for = sections.get("base", {}).get("env_name", entry.name)
    if made_for != entry.name:
        command = f"puffer train {shlex.quote(str(made_for))}"
        remedy = f"`{command}` takes it" if is_description else "leave out its env_name to try it"
        raise ConfigError(f"{path} must be for {entry.name}, found one for {made_for}; {remedy}")
    policy = sections.get("base", {}).get("policy_name")
    if is_description and ":" in str(policy) and not is_policy_named(flags):
        raise _unnamed(path, f"the policy {policy}", f"add --policy-name {shlex.quote(str(policy))}")
    swept = sections.get(f"{PREFIX}base.policy_name")
    if is_description and ":" in str(list(swept.values()) if isinstance(swept, Mapping) else swept):
        raise _unnamed(path, "a sweep over policies in modules", "write them into an ini")
    return _checked(path, sections, entry, are_texts=not is_description)


def _checked(path: Path, sections: Mapping[str, Mapping[str, Any]], entry: Entry, are_texts: bool) -> Found:
    found: Found = []
    for section, given in sections.items():
        try:
            if isinstance(given, list):  # what a sweep in Python gave a dimension in place of a range
                section_settings(section, entry)
                above, _, key = section.rpartition(".")
                found.append((Setting(above, key), given))
                continue
            checked = check_section(section, given, entry, are_texts)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
        fixed = FIXED if section == BaseConfig.section else ()
        found += [(Setting(section, key), value) for key, value in checked.items() if key not in fixed]
    return found


def _read(path: Path) -> tuple[dict[str, dict[str, Any]], bool]:
    # The settings in a user's file by section, and whether it describes a run: its values then have their types.
    try:
        is_description = read_bytes(path).lstrip().startswith(b"{")
        return _described(path) if is_description else read_ini(path), is_description
    except OSError as error:
        raise ConfigError(f"--config must name a file of settings, got {str(path)!r} ({error.strerror})") from error


def _described(path: Path) -> dict[str, dict[str, Any]]:
    # The settings in a run's `config.json`, as an ini would have them, without its folder and what it began from.
    try:
        settings, begun = read_json(path)["settings"], ("resume", "load_model_path")
        base = {name: value for name, value in settings.items() if not isinstance(value, Mapping) and name not in begun}
        settings["train"].pop("data_dir", None)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} must be an ini file or the config.json of a run, found neither") from error
    sections = {"base": base, **{name: dict(value) for name, value in settings.items() if isinstance(value, Mapping)}}
    for name, given in dimensions_of(sections.get("sweep", {})).items():
        sections[f"{PREFIX}{name}"] = given
        sections["sweep"].pop(name.partition(".")[0], None)
    return sections


def policy_classes(args: Mapping[str, Any]) -> tuple[type, type | None]:
    """Returns the class of the policy, and that of the recurrent layer around it or None.

    Both are looked for in an Ocean environment's own `torch.py`, where it has one, then in `pufferlib.models`; a policy
    of `module:Class` in that module. Raises ConfigError if there is no class of that name, APIUsageError if there is no
    such module.
    """
    modules = _policy_modules(args["env_name"])
    rnn_name = args["rnn_name"]
    rnn_class = None if rnn_name is None else _find(modules, "rnn_name", rnn_name, WRAPPER)
    module, _, policy_name = args["policy_name"].rpartition(":")
    if module:
        modules = [import_named(args["policy_name"])]
    return _find(modules, "policy_name", policy_name, ""), rnn_class


def policy_class_name(env_name: str, kind: type) -> str | None:
    """Returns the name by which `policy_classes` finds a class, None where it finds none or another one."""
    found = (vars(module).get(kind.__name__) for module in _policy_modules(env_name))
    first = next((each for each in found if isinstance(each, type)), None)
    return kind.__name__ if first is kind else None


def policy_arguments(args: Mapping[str, Any], section: str, cls: type) -> dict[str, Any]:
    """Returns the keyword arguments of the class that `policy_name` or `rnn_name` chose, as the types that it declares.

    The environment's inis speak of the class that they name: where another one was chosen, what they say and it does
    not have is left out. Raises ConfigError if a name is unknown or a value has the wrong type.
    """
    given, known = args[section], class_settings(section, cls)
    if any(name not in known for name in given):
        preset = load_config(args["env_name"])
        if preset[f"{section}_name"] != args[f"{section}_name"]:
            before = preset[section].items()
            given = {name: value for name, value in given.items() if name in known or (name, value) not in before}
    require_known(section, given, known)
    return {name: known[name].check(value) for name, value in given.items()}


def _policy_modules(env_name: str) -> list[ModuleType]:
    entry = catalog.lookup(env_name) if isinstance(env_name, str) else None
    return [importlib.import_module(name) for name in (entry or Entry).policy_modules]


def _find(modules: list[ModuleType], setting: str, name: str, suffix: str) -> type:
    # Classes with the suffix are recurrent layers, which are no policies; nor are classes that need more than an
    # environment, such as parts of policies. Those that a module imports are found, too, but not offered.
    taken = ("env", "policy") if suffix else ("env",)
    classes = {
        found.removesuffix(suffix): value
        for module in reversed(modules)
        for found, value in vars(module).items()
        if isinstance(value, type) and not found.startswith("_") and found.endswith(WRAPPER) == bool(suffix)
    }
    small = name.removesuffix(suffix).casefold()
    for found, value in classes.items():
        if found.casefold() == small and _takes(value, taken):
            return value
    own = {module.__name__ for module in modules}
    offered = [found for found, value in classes.items() if value.__module__ in own and _takes(value, taken)]
    remedy = (not suffix and with_colon(name)) or nearest(name, offered) or f"; there are {', '.join(offered)}"
    raise ConfigError(f"[base] {setting} must name a class that takes {' and '.join(taken)}, found no {name!r}{remedy}")


def _takes(kind: type, arguments: Sequence[str]) -> bool:
    try:
        inspect.signature(kind).bind(*arguments)
    except (TypeError, ValueError):  # or a builtin that does not tell
        return False
    return True


def check_config(args: Mapping[str, Any]) -> None:
    """Checks every setting, those of the environment's and the policy's classes included.

    It imports torch, for the policy's class. Raises ConfigError, naming the first setting that is unknown, of the wrong
    type or out of bounds, and UnknownEnvironmentError if there is no such environment.
    """
    require_sections(args)
    BaseConfig.from_dict({name: value for name, value in args.items() if not isinstance(value, Mapping)})
    for config_class in _CONFIGS:
        config_class.from_dict(args.get(config_class.section, {}))
    entry = find(args["env_name"])
    for name, given in dimensions_of(args.get("sweep", {})).items():
        if isinstance(given, (list, tuple)):
            section_settings(f"{PREFIX}{name}", entry)
        else:
            check_section(f"{PREFIX}{name}", given, entry)
    check_section("env", args["env"], entry)
    for section, kind in zip(("policy", "rnn"), policy_classes(args), strict=True):
        if kind is not None:
            policy_arguments(args, section, kind)
