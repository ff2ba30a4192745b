"""The task of one trial, and its configuration: the proposed values in the settings, and sizes that fit."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


def trial_args(args: Mapping[str, Any], values: Mapping[str, Any], cores: int) -> tuple[dict[str, Any], list[str]]:
    """Returns the configuration of a trial without `[sweep]`, and a sentence for each setting that was repaired.

    The trial calls `fit_sizes` once it has made its environments. Raises ConfigError if it cannot run.

    Args:
        args: the nested dict of `load_config` of the sweep; it stays as it is.
        values: the proposal, by names such as `train.learning_rate`.
        cores: that the trial may use.
    """
    if args.get("resume") is not None:
        raise ConfigError(f"the trials of a sweep are new runs, got --resume {args['resume']}; leave it out")
    trial = copy.deepcopy({name: value for name, value in args.items() if name != "sweep"})
    notes: list[str] = []

    def change(name: str, value: object, reason: str) -> None:
        section, key = split_name(name)
        place = _section(trial, section)
        notes.append(f"[{section}] {key} is {value} instead of {place.get(key)}: {reason}")
        place[key] = value

    for name, value in values.items():
        section, key = split_name(name)
        _section(trial, section)[key] = value
    train, vec = trial["train"], trial["vec"]
    if "train.total_timesteps" in values and train["num_iterations"] is not None:
        change("train.num_iterations", None, "the sweep varies total_timesteps")
    if "train.num_minibatches" in values and "train.minibatch_size" not in values and train["minibatch_size"] != "auto":
        change("train.minibatch_size", "auto", "the sweep varies num_minibatches")
    varied = [name for name in _WIDTHS if name in values]
    for name in _WIDTHS if varied and trial["rnn_name"] is not None else ():
        section, key = split_name(name)
        if (section == "policy" or key in trial["rnn"]) and trial[section].get(key) != values[varied[0]]:
            change(name, values[varied[0]], f"it must be {varied[0]}")
    if (args["sweep"].get("metric") or "").startswith("eval/") and not train["evaluations"]:
        change("train.evaluations", _EVALUATIONS, "the metric comes from evaluations")
    if vec["num_workers"] != "auto" and vec["num_workers"] > cores:
        change("vec.num_workers", "auto", f"the trial may use {cores} cores")

    BaseConfig.from_dict({name: value for name, value in trial.items() if not isinstance(value, Mapping)})
    TrainConfig.from_dict(train)
    VecConfig.from_dict(vec)
    check_env(trial["env_name"], trial["env"])

    if train["batch_size"] != "auto" and trial["env"].get("num_envs") == "auto":
        most, batch, horizon = _room_for_envs(trial), train["batch_size"], train["bptt_horizon"]
        if most is not None:
            change("env.num_envs", most, f"a batch of {batch} has this many segments of {horizon}")
    return trial, notes


def _room_for_envs(args: Mapping[str, Any]) -> int | None:
    # How many C environments a batch has room for; None where it has room for as many as `auto` is.
    agents_per_env, device_type = catalog.find(args["env_name"]).agents_per_env, "cpu"
    if args["train"]["device"] != "cpu":
        from pufferlib.runs.loaders import resolve_device  # not before: it imports torch

        device_type = resolve_device(args["train"]["device"]).type
    buffers = VecConfig.from_dict(args["vec"]).keywords(device_type, 0)["num_envs"]
    segments = round(args["train"]["batch_size"] / args["train"]["bptt_horizon"])
    count = max(1, segments // (buffers * agents_per_env))
    return count if count < resolve_env_count("auto", device_type, buffers, agents_per_env) else None


def fit_sizes(
    train: Mapping[str, Any], num_agents: int, device_type: str, keeps_horizon: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Returns the `[train]` settings with the nearest sizes that are possible, and a sentence for each repaired one.

    Where a batch is too small for the segments of all agents, these become shorter, or with `keeps_horizon` the batch
    larger. Raises ConfigError if the sizes still do not fit each other.
    """
    fitted, reasons = dict(train), {}
    horizon, batch, minibatch = train["bptt_horizon"], train["batch_size"], train["minibatch_size"]
    if batch == "auto":
        batch = num_agents * horizon
    else:
        if not keeps_horizon and batch < num_agents * horizon:
            horizon = fitted["bptt_horizon"] = max(1, round(batch / num_agents))
            reasons["bptt_horizon"] = f"a batch of {batch} has this many steps of {num_agents} agents"
        unit = num_agents * horizon
        batch = fitted["batch_size"] = unit * max(1, round(batch / unit))
        reasons["batch_size"] = f"a multiple of {num_agents} agents * bptt_horizon {horizon}"
    if minibatch != "auto" and train["shuffle"] == "steps":
        fitted["minibatch_size"] = nearest_divisor(batch, minibatch)
        reasons["minibatch_size"] = f"a divisor of the batch of {batch}"
    elif minibatch != "auto":
        fitted["minibatch_size"] = horizon * min(max(1, round(minibatch / horizon)), batch // horizon)
        reasons["minibatch_size"] = f"a multiple of bptt_horizon {horizon}, at most the batch of {batch}"
    if train["num_iterations"] is None:
        fitted["total_timesteps"] = max(train["total_timesteps"], batch)
        reasons["total_timesteps"] = f"at least a batch of {batch}"
    resolve_sizes(TrainConfig.from_dict(fitted), num_agents, device_type)
    return fitted, [
        f"[train] {name} is {fitted[name]} instead of {train[name]}: {reason}"
        for name, reason in reasons.items()
        if fitted[name] != train[name]
    ]


def trial_settings(args: Mapping[str, Any], trial: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns the settings of a trial that the sweep chose, and those that were repaired.

    They are `{section: {setting: value}}`; settings without a section are in `base`. `args` are the sweep's, `trial` is
    the result of `trial_args`, `names` are those of the dimensions.
    """
    chosen: dict[str, dict[str, Any]] = {}
    for name in names:
        section, key = split_name(name)
        chosen.setdefault(section, {})[key] = _section(trial, section)[key]
    for section in ("vec", "env", "policy", "rnn", "train"):
        for key, value in trial[section].items():
            if key not in args[section] or args[section][key] != value:
                chosen.setdefault(section, {})[key] = value
    return chosen


def _section(args: Mapping[str, Any], section: str) -> dict[str, Any]:
    return args if section == "base" else args[section]
