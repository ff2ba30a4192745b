"""The task of one trial, and its configuration: the proposed values in the settings, and sizes that fit."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pufferlib.config import BaseConfig, TrainConfig, VecConfig, check_env, resolve_env_count, resolve_sizes
from pufferlib.config.sections import split_name
from pufferlib.config.sizes import nearest_divisor
from pufferlib.errors import ConfigError
from pufferlib.families import catalog

_EVALUATIONS = 10  # of a trial that is scored by them and configured to have none
_WIDTHS = ("policy.hidden_size", "rnn.hidden_size", "rnn.input_size")  # which a recurrent layer needs to be the same


@dataclass(frozen=True)
class TrialTask:
    """A training to run in a process."""

    number: int  # of the trial; of a confirmation, that of the trial which it confirms
    env_name: str
    args: dict[str, Any]  # its settings, with those of the trial
    metric: str  # what is searched by, as the user calls it
    memory_bytes: float  # that it may use, resident, with all processes that it starts
    log_path: Path  # where its output goes
    is_metric_known: bool = False  # whether another trial has had the metric, so that logs without it prove nothing
    slot: int = 0  # number of its place among those side by side
    values: Mapping[str, Any] = field(default_factory=dict)  # of the settings that the sweep varies, by name
    seed: int | None = None  # of a confirmation; None for a trial


def trial_args(args: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a trial without `[sweep]`, in which settings that others need are repaired.

    `values` are the proposal, by names such as `train.learning_rate`. The trial calls `fit_sizes` once it has made its
    environments. Raises ConfigError if it cannot run.
    """
    if args.get("resume") is not None:
        raise ConfigError(f"the trials of a sweep are new runs, got --resume {args['resume']}; leave it out")
    trial = copy.deepcopy({name: value for name, value in args.items() if name != "sweep"})
    for name, value in values.items():
        section, key = split_name(name)
        _section(trial, section)[key] = value
    train = trial["train"]
    if "train.total_timesteps" in values:
        train["num_iterations"] = None  # it would count in place of the steps
    if "train.num_minibatches" in values and "train.minibatch_size" not in values:
        train["minibatch_size"] = "auto"
    width = next((values[name] for name in _WIDTHS if name in values), None)
    if width is not None and trial["rnn_name"] is not None:
        trial["policy"]["hidden_size"] = width
        trial["rnn"].update({key: width for key in ("hidden_size", "input_size") if key in trial["rnn"]})
    if (args["sweep"].get("metric") or "").startswith("eval/"):
        train["evaluations"] = train["evaluations"] or _EVALUATIONS

    BaseConfig.from_dict({name: value for name, value in trial.items() if not isinstance(value, Mapping)})
    TrainConfig.from_dict(train)
    VecConfig.from_dict(trial["vec"])
    check_env(trial["env_name"], trial["env"])
    if train["batch_size"] != "auto" and trial["env"].get("num_envs") == "auto":
        trial["env"]["num_envs"] = _env_count(trial)
    return trial


def _env_count(args: Mapping[str, Any]) -> int | Literal["auto"]:
    # As many C environments as a batch has room for, if these are fewer than `auto` is.
    agents_per_env, device_type = catalog.find(args["env_name"]).agents_per_env, "cpu"
    if args["train"]["device"] != "cpu":
        from pufferlib.runs.loaders import resolve_device  # not before: it imports torch

        device_type = resolve_device(args["train"]["device"]).type
    buffers = VecConfig.from_dict(args["vec"]).keywords(device_type, 0)["num_envs"]
    segments = round(args["train"]["batch_size"] / args["train"]["bptt_horizon"])
    count = max(1, segments // (buffers * agents_per_env))
    return count if count < resolve_env_count("auto", device_type, buffers, agents_per_env) else "auto"


def fit_sizes(
    train: Mapping[str, Any], num_agents: int, device_type: str, keeps_horizon: bool = False
) -> dict[str, Any]:
    """Returns the `[train]` settings with the nearest sizes that are possible.

    Where a batch is too small for the segments of all agents, these become shorter, or with `keeps_horizon` the batch
    larger. Raises ConfigError if the sizes still do not fit each other.
    """
    fitted, horizon, batch, minibatch = dict(train), train["bptt_horizon"], train["batch_size"], train["minibatch_size"]
    if batch == "auto":
        batch = num_agents * horizon
    else:
        if not keeps_horizon and batch < num_agents * horizon:
            horizon = fitted["bptt_horizon"] = max(1, round(batch / num_agents))
        unit = num_agents * horizon
        batch = fitted["batch_size"] = unit * max(1, round(batch / unit))
    if minibatch != "auto" and train["shuffle"] == "steps":
        fitted["minibatch_size"] = nearest_divisor(batch, minibatch)
    elif minibatch != "auto":
        fitted["minibatch_size"] = horizon * min(max(1, round(minibatch / horizon)), batch // horizon)
    if train["num_iterations"] is None:
        fitted["total_timesteps"] = max(train["total_timesteps"], batch)
    resolve_sizes(TrainConfig.from_dict(fitted), num_agents, device_type)
    return fitted


def trial_settings(args: Mapping[str, Any], trial: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns the settings of a trial that are not those of `args`, and those of certain names, by section."""
    chosen = {split_name(name) for name in names}
    found: dict[str, dict[str, Any]] = {}
    for section in ("base", "vec", "env", "policy", "rnn", "train"):
        before, now = _section(args, section), _section(trial, section)
        for key in ("policy_name", "rnn_name") if section == "base" else now:
            is_changed = key != "data_dir" and (key not in before or before[key] != now[key])
            if is_changed or (section, key) in chosen:
                found.setdefault(section, {})[key] = now[key]
    return found


def _section(args: Mapping[str, Any], section: str) -> dict[str, Any]:
    return args if section == "base" else args[section]
