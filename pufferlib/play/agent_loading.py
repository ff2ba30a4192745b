"""Agents from the files of trainings, and from the package."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from pufferlib import ocean, vector
from pufferlib.config import TrainConfig, check_config, check_env
from pufferlib.environment import PufferEnv
from pufferlib.errors import CheckpointError, PufferError, UnknownEnvironmentError, nearest
from pufferlib.families import catalog
from pufferlib.families.entry import importable_name
from pufferlib.play.agent import Agent
from pufferlib.policy import normalized
from pufferlib.runs.checkpoint import load_policy_weights, read_outline
from pufferlib.runs.description import (
    check_description,
    find_description,
    pretrained_names,
    pretrained_path,
    read_description,
)
from pufferlib.runs.folder import NAMED
from pufferlib.runs.loaders import load_policy, resolve_device
from pufferlib.runs.making import ready_env

_BY_HAND = "make such a module and pass it, as load_agent(path, policy=module)"


def load_agent(
    source: str | Path, env: object = None, device: str = "cpu", seed: int = 0, policy: nn.Module | None = None
) -> Agent:
    """Loads an agent that was trained by PufferLib.

    Args:
        source: the folder of a run, of which the best weights are taken where evaluations found any, else the newest;
            or a file: weights in such a folder, weights beside a description of their own (`mine.json` beside
            `mine.pt`), or a file of `trainer.save_checkpoint(path)`; or the name of an environment of Ocean, such as
            `puffer_breakout`, for the agent of the package. Write `./puffer_breakout` for a folder of that name.
        env: the environment, where it has no known name: a class, a function, a name such as `package.module:MyEnv`, or
            a ready environment or vector. None is the one that it was trained in; a module that only the file names is
            not imported.
        device: `cpu`, `cuda`, `mps`, or `auto` for the first of cuda, mps and cpu that exists. A single row is fastest
            on the CPU.
        seed: of sampled actions.
        policy: a module of the class that was trained, where that is one of your own; it is moved to `device` and gets
            the weights. None makes the policy that the settings name.

    Returns:
        An agent with the settings that it was trained with. Only the spaces of the environment are used; one that is
        made for that is closed again.

    Raises:
        CheckpointError: if the file is missing or damaged, a weight is infinite or NaN, the settings of its training
            are unknown, its policy has a class of your own and is not given, or its environment has no name and is not
            given.
        ConfigError: if the settings do not fit this version of PufferLib.
        MissingExtraError: if the environment needs a package that is not installed.
    """
    path = _path_of(source)
    described = _description(path)
    own_class = described["policy_class"]
    if own_class is not None and policy is None:
        raise CheckpointError(f"{path} was trained with the policy {own_class}, a class of your own; {_BY_HAND}")
    settings = described["settings"]
    settings |= {"train": {**settings["train"], "device": device}, "load_model_path": None, "resume": None}
    with closing(_make_named(settings, path)) if env is None else ready_env(_as_recorded(env, settings)) as shown:
        if policy is None:
            policy = load_policy(settings, shown, _known_name(settings["env_name"], env), path)
        else:
            train = TrainConfig.from_dict(settings["train"])
            if train.normalize_observations:
                policy = normalized(shown, policy, train.normalization_clip)
            policy = policy.to(resolve_device(device))
        load_policy_weights(policy, path)
        agent = Agent(policy, shown, {**settings, "load_model_path": str(path)}, seed)
    agent.env = _as_recorded(env, settings)
    return agent


def trained_in(source: str | Path) -> str:
    """Returns the name of the environment that an agent was trained in; the source is as for `load_agent`."""
    return _description(_path_of(source))["settings"]["env_name"]


def _path_of(source: str | Path) -> Path:
    return pretrained_path(source) if source in ocean.names() else _find_weights(Path(source))


def _find_weights(path: Path) -> Path:
    if not path.exists():
        remedy = nearest(str(path), pretrained_names()) or f"; agents of {', '.join(pretrained_names())} come along"
        raise CheckpointError(f"there is no file and no folder of a run {path}{remedy}")
    if not path.is_dir():
        return path
    named = [path / f"{name}.pt" for name in NAMED]
    numbered = sorted(path.glob("model_*.pt"), key=lambda model: (model.stat().st_mtime_ns, model.name), reverse=True)
    for found in (*named, *numbered):
        if found.exists():
            return found
    raise CheckpointError(f"there are no weights in {path}; pass the folder of a run that saved some")


def _description(path: Path) -> Mapping[str, Any]:
    found = read_outline(path)
    described = found.get("description") if isinstance(found, dict) else None
    if isinstance(described, dict):
        return check_description(described, path)
    file = find_description(path)
    if file is None:
        raise CheckpointError(
            f"{path} does not say what it was trained with; load it from its run's folder, or {_BY_HAND}"
        )
    return read_description(file)


def _as_recorded(env: object, settings: Mapping[str, Any]) -> object:
    if isinstance(env, str):
        is_same = env == settings["env_name"] and catalog.needs_module(env)
        creator = catalog.find(env).creator if is_same else env
    else:
        creator = env
        is_same = callable(env) and not isinstance(env, vector.Vector) and importable_name(env) == settings["env_name"]
    return partial(creator, **settings["env"]) if is_same else env


def _known_name(env_name: str, env: object) -> str | None:
    # None where a policy of the environment's own need not exist: `env` is given, and its name is unknown here.
    if env is not None and catalog.needs_module(env_name):
        return None
    try:
        catalog.lookup(env_name)
    except PufferError:
        if env is None:
            raise
        return None
    return env_name


def _make_named(settings: Mapping[str, Any], path: Path) -> PufferEnv:
    name = settings["env_name"]
    try:
        entry = catalog.find_recorded(name)
        check_config(settings)
        arguments = check_env(name, settings["env"])
    except UnknownEnvironmentError as error:
        raise CheckpointError(
            f"{path} was trained in {name}, which is no name of an environment; pass its class or function as env="
        ) from error
    single = {"num_envs": 1} if "num_envs" in entry.settings else {}
    return entry.creator(**{**arguments, **single})
