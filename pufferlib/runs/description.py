"""`config.json`, which describes a run: its settings, the versions that it ran with, the launch that it belongs to."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from pufferlib.config import BaseConfig
from pufferlib.config.sections import ARGUMENTS, SECTIONS
from pufferlib.errors import CheckpointError, ConfigError
from pufferlib.reading import read_json
from pufferlib.runs.checkpoint import models
from pufferlib.runs.files import CONFIG_FILE, TRAINER_STATE


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
