"""The settings of a run: what describes it on disk, what resumes it, and what makes its policy again.

A file that is missing or damaged, or of another environment, raises CheckpointError.
"""

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
from pufferlib.config.configuration import WRAPPER, policy_class_name
from pufferlib.config.schema import ARGUMENTS, SECTIONS
from pufferlib.errors import CheckpointError, ConfigError, PufferError, nearest
from pufferlib.families import catalog
from pufferlib.policy import NormalizedObservations, init_args, uncompiled
from pufferlib.runs.checkpoint import load, resolve_model, resolve_run, saved_runs
from pufferlib.runs.folder import CONFIG_FILE, read_facts
from pufferlib.runs.making import find_origin
from pufferlib.vector import Vector


def _policy_settings(policy: nn.Module, env_name: str) -> dict[str, Any] | None:
    # By which `load_policy` makes a policy like this one; None for a policy of the user's own class.
    policy, rnn_name, rnn = _without_statistics(policy), None, {}
    name = policy_class_name(env_name, type(policy))
    if name is not None and name.endswith(WRAPPER):
        rnn_name, rnn, policy = name.removesuffix(WRAPPER), init_args(policy), policy.policy
    policy_name, settings = policy_class_name(env_name, type(policy)), init_args(policy)
    if policy_name is None or settings is None or rnn is None:
        return None
    return {"policy_name": policy_name, "rnn_name": rnn_name, "policy": settings, "rnn": rnn}


def _without_statistics(policy: nn.Module) -> nn.Module:  # that the trainer puts around it
    return uncompiled(policy.policy if isinstance(policy, NormalizedObservations) else policy)


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
    return settings | (_policy_settings(policy, settings["env_name"]) or {})


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

# What a part of the saved state was made for. All other settings of a training are read again in every epoch, or by
# every process; so are those that a checkout has added, such as a coefficient for a loss of its own.
_SIZES = ("batch_size", "bptt_horizon", "minibatch_size", "num_minibatches", "max_minibatch_size", "shuffle")
_MOMENTS = ("optimizer", "adam_beta1", "adam_beta2", "adam_eps", "weight_decay")
_STATISTICS = ("normalize_rewards", "normalize_observations", "normalization_clip")
CHANGEABLE = {  # by section; those of `log` all are
    "train": frozenset(TrainConfig.settings()) - {"seed", *_SIZES, *_MOMENTS, *_STATISTICS},
    "vec": frozenset({"num_workers"}),
}

_NOT_COMPARED = {"resume", "load_model_path", "env_name", "log", "solve", "sweep"}


class Change(NamedTuple):
    """A setting that differs from that of the run."""

    section: str  # empty for the keys at the top
    name: str
    before: Any
    now: Any

    @property
    def flag(self) -> str:
        """The flag of the command line."""
        return "--" + (f"{self.section}.{self.name}" if self.section else self.name).replace("_", "-")


def allowed_changes(saved: Mapping[str, Any], settings: Mapping[str, Any], run: str) -> list[Change]:
    """Returns the settings that change when a run is resumed; ConfigError if one of them may not.

    Those that only one of the two configurations has do not count.
    """
    saved, settings = json.loads(json.dumps([saved, settings], default=str))
    found = []
    for key in saved.keys() & settings.keys() - _NOT_COMPARED:
        before, now = saved[key], settings[key]
        if not isinstance(before, dict):
            before, now, key = {key: before}, {key: now}, ""
        found += [Change(key, name, before[name], now[name]) for name in now if name in before]
    changes = sorted(change for change in found if change.before != change.now)
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
    settings: Mapping[str, Any],
    policy: nn.Module | None = None,
    computation: Mapping[str, str | None] | None = None,
    simulator: str | None = None,
) -> dict[str, Any]:
    """Returns the content of `config.json`: the nested dict of `load_config`, and where and how the run computes."""
    policy_class = None
    if policy is not None and _policy_settings(policy, settings["env_name"]) is None:
        kind = type(_without_statistics(policy))
        policy_class = f"{kind.__module__}.{kind.__qualname__}"
    packages = ("pufferlib", "torch", "numpy", "gymnasium")
    return {
        "settings": settings,
        "policy_class": policy_class,
        "computation": computation,
        **({} if simulator is None else {"simulator": simulator}),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
        "git_commit": _git_commit(),
        "seed": settings["train"]["seed"],
        "launch": _launch(),
    }


def read_description(path: Path, env_name: str | None = None) -> dict[str, Any]:
    """Returns the content of a `config.json`, as `check_description` does."""
    return check_description(read_facts(path), path, env_name)


def describe_model(path: Path, env_name: str | None = None) -> dict[str, Any] | None:
    """Returns what describes weights, as `check_description` does; None for nothing.

    It is in their file, in `<name>.json` beside `<name>.pt`, or in the `config.json` of their run.
    """
    found = load(path, has_numbers=False)
    described = found.get("description") if isinstance(found, dict) else None
    if isinstance(described, dict):
        return check_description(described, path, env_name)
    own, of_run = path.with_suffix(".json"), path.with_name(CONFIG_FILE)
    if "settings" in read_facts(own):  # the notes beside a run's best weights have none
        return read_description(own, env_name)
    return read_description(of_run, env_name) if of_run.exists() else None


def check_description(found: Mapping[str, Any], path: Path, env_name: str | None = None) -> dict[str, Any]:
    """Returns a description whose `settings` have their names and sections; their values are not checked.

    They must be of the environment `env_name`, if that is given.
    """
    settings, policy_class = found.get("settings"), found.get("policy_class")
    if not isinstance(settings, dict) or not isinstance(settings.get("env_name"), str):
        raise CheckpointError(f"{path} must hold the settings of the run, found none that can be read")
    if env_name not in (None, settings["env_name"]):
        raise CheckpointError(f"{path} must be of a run of {env_name}, got one of {settings['env_name']}")
    sections = (*SECTIONS, *ARGUMENTS)
    for name in ("vec", "env", "policy", "rnn", "train", *(name for name in sections if name in settings)):
        if not isinstance(settings.get(name), dict):
            found_type = type(settings.get(name)).__name__
            raise CheckpointError(
                f"{path} must hold a section {name!r} of the run, found {found_type}; use the file that the run wrote"
            )
    for name in ("policy_name", "rnn_name"):
        if name not in settings:
            raise CheckpointError(f"{path} must say the {name} of the run; use the file that the run wrote")
    try:
        BaseConfig.from_dict({name: value for name, value in settings.items() if name not in sections})
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error
    if not isinstance(policy_class, str):  # a file of others' imports nothing, whatever it says
        policy_class = settings["policy_name"] if ":" in settings["policy_name"] else None
    return {**found, "policy_class": policy_class}


def restarted_run(data_dir: str | Path, env_name: str) -> Path | None:
    """Returns the folder of the run that torchrun restarts after one of its processes failed.

    None where this is no restart, or the run had not saved a checkpoint yet.
    """
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0:
        return None
    launch, runs = _launch(), saved_runs(data_dir, env_name)
    return next((run for run in runs if read_facts(run / CONFIG_FILE).get("launch") == launch), None)


def _launch() -> str | None:  # one start of torchrun, which may start its processes several times
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    agent = psutil.Process(os.getppid())
    return f"{os.environ['TORCHELASTIC_RUN_ID']} {agent.pid} {agent.create_time()}"


def _git_commit() -> str | None:  # None where the library does not run from a checkout
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():  # git would find the repository that an environment with the library lies in
        return None
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def find_run(env_name: str, args: Mapping[str, Any]) -> tuple[Path | None, list[Change]]:
    """Returns the folder of the run to continue, asked for or restarted by torchrun, and the settings that change."""
    data_dir, resume = args["train"]["data_dir"], args.get("resume")
    folder = resolve_run(data_dir, env_name, resume) if resume else restarted_run(data_dir, env_name)
    if folder is None or not (folder / CONFIG_FILE).exists():
        return folder, []
    described = read_description(folder / CONFIG_FILE, env_name)
    saved, known = described["settings"], getattr(catalog.lookup(env_name), "settings", {})
    saved = {**saved, "env": {name: one.default for name, one in known.items()} | saved["env"]}
    if described["policy_class"] is not None:  # of which only the tensors tell whether it is the same
        saved = {name: value for name, value in saved.items() if name not in ("policy_name", "policy")}
    return folder, allowed_changes(saved, args, str(folder))


def run_settings(env_name: str, args: Mapping[str, Any], is_policy_named: bool) -> dict[str, Any]:
    """Returns the settings of the run to resume, where `resume` is its folder; the first process looks for all.

    A policy of a class of one's own raises CheckpointError, unless the caller names it; so do a loss and wrappers.
    """

    def find() -> dict[str, Any]:
        folder = resolve_run(args["train"]["data_dir"], env_name, args["resume"])
        described = read_description(folder / CONFIG_FILE, env_name)
        remedy = "call trainer.load_checkpoint(folder) there to continue it"
        if not is_policy_named:
            _require_named_policy(described, folder, remedy)
        for part in ("loss", "wrappers"):
            if found := described.get(part):
                raise CheckpointError(f"{folder} was trained with the {part} {found} of your own program; {remedy}")
        return {**described["settings"], "resume": str(folder)}

    return distributed.connect().from_first(find)


def model_settings(env_name: str, args: Mapping[str, Any], is_policy_named: bool) -> dict[str, Any]:
    """Returns the settings that a model was trained with, on the device of `args`, or `args` if no file has them."""
    path = resolve_model(args["train"]["data_dir"], env_name, args["load_model_path"])
    described = describe_model(path, env_name)
    if described is None:
        return {**args, "load_model_path": str(path)}
    if not is_policy_named:
        _require_named_policy(described, path.parent, "load the weights into it there")
    saved = described["settings"]
    train = {**saved["train"], "device": args["train"]["device"]}
    return {**saved, "train": train, "resume": None, "load_model_path": str(path)}


def _require_named_policy(described: Mapping[str, Any], folder: Path, remedy: str) -> None:
    name = described["policy_class"]
    if name is not None:
        raise CheckpointError(
            f"{folder} was trained with the policy {name} of your own program; {remedy}, or name its class by "
            "--policy-name module:Class"
        )


WEIGHTS = "pretrained.pt"


def pretrained_names() -> list[str]:
    """Returns the environments that have a trained agent, in alphabetical order."""
    return [name for name in ocean.names() if ocean.config_path(name).with_name(WEIGHTS).exists()]


def pretrained_path(env_name: str) -> Path:
    """Returns the path of the weights of an environment's trained agent; CheckpointError if it has none."""
    known = pretrained_names()
    if env_name not in known:
        catalog.find(env_name)
        remedy = nearest(env_name, known) or f"; {', '.join(known)} have one"
        raise CheckpointError(f"no trained agent of {env_name} comes with the package{remedy}")
    return ocean.config_path(env_name).with_name(WEIGHTS)
