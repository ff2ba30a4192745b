"""The settings of a run: what describes it on disk, what resumes it, and what makes its policy again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from torch import nn

from pufferlib import distributed, ocean
from pufferlib.config import BaseConfig, LogConfig, TrainConfig, VecConfig, load_config
from pufferlib.config.configuration import policy_class_name, recurrent_name
from pufferlib.config.sections import ARGUMENTS, SECTIONS
from pufferlib.errors import CheckpointError, ConfigError, PufferError, nearest
from pufferlib.families import catalog
from pufferlib.policy import NormalizedObservations, init_args
from pufferlib.reading import read_json
from pufferlib.runs.checkpoint import models, resolve_model, resolve_run
from pufferlib.runs.folder import CONFIG_FILE, TRAINER_STATE
from pufferlib.runs.making import find_origin
from pufferlib.vector import Vector


def policy_settings(policy: nn.Module, env_name: str) -> dict[str, Any] | None:
    """Returns the settings by which `load_policy` makes a policy like this one.

    Returns:
        `policy_name`, `rnn_name`, and the sections `policy` and `rnn`; None for a policy of the user's own class.
    """
    policy, rnn_name, rnn = _without_statistics(policy), None, {}
    layer_name = recurrent_name(env_name, type(policy))
    if layer_name is not None:
        rnn_name, rnn, policy = layer_name, _made_with(policy), policy.policy
    policy_name, settings = policy_class_name(env_name, type(policy)), _made_with(policy)
    if policy_name is None or settings is None or rnn is None:
        return None
    return {"policy_name": policy_name, "rnn_name": rnn_name, "policy": settings, "rnn": rnn}


def class_text(policy: nn.Module) -> str:
    """Returns the class of a policy as text, such as `my_module.MyPolicy`."""
    kind = type(_without_statistics(policy))
    return f"{kind.__module__}.{kind.__qualname__}"


def _without_statistics(policy: nn.Module) -> nn.Module:  # that the trainer puts around it
    return policy.policy if isinstance(policy, NormalizedObservations) else policy


def _made_with(module: nn.Module) -> dict[str, Any] | None:
    return json.loads(json.dumps(init_args(module), default=str))


def settings_of(
    env_name: str, config: Mapping[str, Any], vecenv: Vector, policy: nn.Module, args: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the nested dict of `load_config` that describes a trainer.

    What a ready environment or policy does not say is as in `args`, or else as in the environment's configuration.
    """
    origin = find_origin(vecenv)
    settings = dict(args) if args is not None else _configuration(env_name, origin.env_name if origin else env_name)
    if origin is not None and origin.env_name == settings["env_name"]:
        settings["env"], settings["vec"] = {**settings["env"], **origin.env}, {**settings["vec"], **origin.vec}
    if args is None:
        settings["env_name"] = env_name
    settings["train"] = asdict(TrainConfig.from_dict(config))
    return settings | (policy_settings(policy, settings["env_name"]) or {})


def _configuration(env_name: str, origin_name: str) -> dict[str, Any]:  # of the first that is an environment's
    for name in (env_name, origin_name):
        try:
            if catalog.lookup(name) is not None:
                return load_config(name)
        except PufferError:  # a name of the user's own that looks like a family's
            continue
    sections = {"vec": asdict(VecConfig()), "env": {}, "policy": {}, "rnn": {}, "log": asdict(LogConfig())}
    return {**asdict(BaseConfig()), **sections}


LENGTH = ("total_timesteps", "num_iterations")

# What a part of the saved state was made for. All other settings of a training are read anew in every epoch, or by
# every process; so are those that a checkout has added, such as a coefficient for a loss of its own.
_STREAMS = ("seed", "data_dir")
_SIZES = ("batch_size", "bptt_horizon", "minibatch_size", "num_minibatches", "max_minibatch_size", "shuffle")
_MOMENTS = ("optimizer", "adam_beta1", "adam_beta2", "adam_eps", "weight_decay")
_STATISTICS = ("normalize_rewards", "normalize_observations", "normalization_clip")
CHANGEABLE = {  # by section; those of `log` all are
    "train": frozenset(TrainConfig.settings()) - {*_STREAMS, *_SIZES, *_MOMENTS, *_STATISTICS},
    "vec": frozenset({"num_workers"}),
}

_NOT_COMPARED = {"resume", "env_name", "log", "solve", "sweep"}


class Change(NamedTuple):
    """A setting that differs from that of the run."""

    section: str  # empty for the keys at the top
    name: str
    before: Any
    now: Any

    @property
    def flag(self) -> str:
        """Returns the flag of the command line."""
        return "--" + (f"{self.section}.{self.name}" if self.section else self.name).replace("_", "-")


def find_changes(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Change]:
    """Returns the settings in which two configurations differ; those that only one of them has do not count."""
    saved, settings = json.loads(json.dumps([saved, settings], default=str))
    found = []
    for key in saved.keys() & settings.keys() - _NOT_COMPARED:
        before, now = saved[key], settings[key]
        if not isinstance(before, dict):
            before, now, key = {key: before}, {key: now}, ""
        found += [Change(key, name, before[name], now[name]) for name in now if name in before]
    return sorted(change for change in found if change.before != change.now)


def allowed_changes(saved: Mapping[str, Any], settings: Mapping[str, Any], run: str) -> list[Change]:
    """Returns the settings that change when a run is resumed.

    Raises:
        ConfigError: if one may not change.
    """
    changes = find_changes(saved, settings)
    for change in changes:
        if change.name not in CHANGEABLE.get(change.section, ()):
            raise ConfigError(
                f"{run} was begun with {change.flag} {change.before} and cannot go on with {change.now}; leave it as "
                "it was, or begin a new run from its weights by --load-model-path"
            )
    return changes


def with_new_length(settings: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    """Returns the settings, without `num_iterations` of the run if `total_timesteps` is changed."""
    changed = {change.name for change in changes if change.section == "train"}
    if "total_timesteps" in changed and "num_iterations" not in changed:
        return {**settings, "train": {**settings["train"], "num_iterations": None}}
    return settings


def describe_run(
    args: dict[str, Any], policy_class: str | None = None, computation: dict[str, str | None] | None = None
) -> dict[str, Any]:
    """Returns the content of `config.json`.

    Args:
        args: the nested dict of `load_config`.
        policy_class: the policy's class if it is the user's own, which the settings cannot name.
        computation: what computes the policy, and why it is nothing faster.
    """
    packages = ("pufferlib", "torch", "numpy", "gymnasium")
    return {
        "settings": args,
        "policy_class": policy_class,
        "computation": computation,
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
        "git_commit": _git_commit(),
        "seed": args["train"]["seed"],
        "launch": _launch(),
    }


def saved_settings(folder: Path, env_name: str) -> dict[str, Any]:
    """Returns the settings that the run in `folder` was started with.

    Raises:
        CheckpointError: if its `config.json` is missing or damaged, or it was a run of another environment.
    """
    return read_settings(folder / CONFIG_FILE, env_name)


def find_description(model: Path) -> Path | None:
    """Returns the file that describes weights: `<name>.json` beside `<name>.pt`, else that of the run."""
    own, of_run = model.with_suffix(".json"), model.with_name(CONFIG_FILE)
    if _read(own, "settings") is not None:  # the notes beside a run's best weights have none
        return own
    return of_run if of_run.exists() else None


def read_settings(path: Path, env_name: str | None = None) -> dict[str, Any]:
    """Returns the settings in a file that `find_description` found.

    Raises:
        CheckpointError: if it is missing or damaged, or they are of another environment.
    """
    settings = require_settings(_read(path, "settings"), path)
    if env_name not in (None, settings["env_name"]):
        raise CheckpointError(f"{path.parent} must be of a run of {env_name}, got one of {settings['env_name']}")
    return settings


def require_settings(found: Any, path: Path) -> dict[str, Any]:
    """Returns what a file holds if its names and sections are those of a run's settings; values are not checked.

    Raises:
        CheckpointError: if they are not.
    """
    if not isinstance(found, dict) or not isinstance(found.get("env_name"), str):
        raise CheckpointError(f"{path} must hold the settings of the run, found none that can be read")
    required = ("vec", "env", "policy", "rnn", "train")
    for section in (*required, *(name for name in (*SECTIONS, *ARGUMENTS) if name in found)):
        if not isinstance(found.get(section), dict):
            raise CheckpointError(
                f"{path} must hold a section {section!r} of the run, found {type(found.get(section)).__name__}; use "
                "the file that the run wrote"
            )
    missing = [name for name in ("policy_name", "rnn_name") if name not in found]
    if missing:
        raise CheckpointError(f"{path} must say the {missing[0]} of the run; use the file that the run wrote")
    try:
        BaseConfig.from_dict({name: value for name, value in found.items() if name not in (*SECTIONS, *ARGUMENTS)})
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error
    return found


def own_policy_class(path: Path) -> str | None:
    """Returns the class of the policy that a file names if it is one of the user's own, which no setting names."""
    found = _read(path, "policy_class")
    return found if isinstance(found, str) else None


def _read(path: Path, key: str) -> Any:  # None where it cannot be read or lacks the key
    try:
        return read_json(path)[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def restarted_run(data_dir: str | Path, env_name: str) -> Path | None:
    """Returns the folder of the run that torchrun is restarting after one of its processes failed.

    Returns:
        None where this is no restart, or the run had not saved a checkpoint yet.

    Raises:
        ConfigError: if the environment variable with the number of restarts is no number.
    """
    count = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if not count.isdecimal():
        raise ConfigError(f"TORCHELASTIC_RESTART_COUNT must be a number of restarts, got {count!r}; torchrun sets it")
    if int(count) == 0:
        return None
    launch = _launch()
    folders = {path.parent for path in models(data_dir, env_name)}
    folders = [folder for folder in folders if (folder / TRAINER_STATE).exists()]
    return max((folder for folder in folders if _read(folder / CONFIG_FILE, "launch") == launch), default=None)


def _launch() -> str | None:  # one start of torchrun, which may start its processes several times
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    agent = psutil.Process(os.getppid())
    return f"{os.environ['TORCHELASTIC_RUN_ID']} {agent.pid} {agent.create_time()}"


def _git_commit() -> str | None:  # None where the library does not run from a checkout
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def run_settings(env_name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of the run to resume, where `resume` is its folder; the first process looks for all.

    Raises:
        CheckpointError: if there is no such run, or its policy is of a class that no setting names.
    """

    def find() -> dict[str, Any]:
        folder = resolve_run(args["train"]["data_dir"], env_name, args["resume"])
        _require_named_policy(folder / CONFIG_FILE, "call trainer.load_checkpoint(folder) there to go on with it")
        return {**saved_settings(folder, env_name), "resume": str(folder)}

    return distributed.connect().from_first(find)


def model_settings(env_name: str, args: Mapping[str, Any], is_policy_named: bool) -> dict[str, Any]:
    """Returns the settings that a model was trained with, on the device of `args`, or `args` if no file has them.

    Where `args` name the policy's class (`is_policy_named`), the run does not have to.

    Returns:
        A dict of its own, whose `load_model_path` is the model's path.

    Raises:
        CheckpointError: if there is no such model, or its policy is of a class that no setting names.
    """
    path = resolve_model(args["train"]["data_dir"], env_name, args["load_model_path"])
    described = find_description(path)
    if described is None:
        return {**args, "load_model_path": str(path)}
    if not is_policy_named:
        _require_named_policy(described, "load the weights into it there, or name a class by --policy-name")
    saved = read_settings(described, env_name)
    train = {**saved["train"], "device": args["train"]["device"]}
    return {**saved, "train": train, "resume": None, "load_model_path": str(path)}


def _require_named_policy(described: Path, remedy: str) -> None:
    found = own_policy_class(described)
    if found is not None:
        folder = described.parent
        raise CheckpointError(f"{folder} was trained with the policy {found} of your own program; {remedy}")


WEIGHTS = "pretrained.pt"


def pretrained_names() -> list[str]:
    """Returns the environments that have a trained agent, in alphabetical order."""
    return [name for name in ocean.names() if _place(name).exists()]


def pretrained_path(env_name: str) -> Path:
    """Returns the path of the weights of an environment's trained agent.

    Args:
        env_name: such as `puffer_breakout`.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name.
        CheckpointError: if it has no trained agent; the message says which ones have.
    """
    if env_name not in pretrained_names():
        catalog.find(env_name)
        known = pretrained_names()
        remedy = nearest(env_name, known) or f"; {', '.join(known)} have one"
        raise CheckpointError(f"no trained agent of {env_name} comes with the package{remedy}")
    return _place(env_name)


def pretrained_facts(env_name: str) -> dict[str, Any]:
    """Describes the trained agent of an environment.

    Returns:
        `settings`, the nested dict of `load_config` that it was trained with; `command`, which makes it; `steps` of
        training; `seed`; `score`, by `greedy` and `sampled` and there by statistic, each with `mean`, `standard_error`
        and `episodes`; and `versions` of the packages.

    Raises:
        UnknownEnvironmentError, CheckpointError: as for `pretrained_path`.
    """
    return json.loads(pretrained_path(env_name).with_suffix(".json").read_text())


def _place(env_name: str) -> Path:
    return ocean.config_path(env_name).with_name(WEIGHTS)
