"""The `[train]` settings from the keywords of `PuffeRL(env, policy, learning_rate=3e-4, ...)`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from pufferlib.config import TrainConfig
from pufferlib.config.automatic import BATCH_SIZE, NUM_STEPS, PPO_DEFAULTS, Choice
from pufferlib.config.sizes import nearest_divisor
from pufferlib.errors import APIUsageError, ConfigError

ALIASES = {"n_epochs": "update_epochs", "num_steps": "bptt_horizon"}  # the names of other libraries

DEFAULTS = {**PPO_DEFAULTS, "log_interval": 1}  # users call `train` in loops of their own and look at each result

_LEAST_STEPS = 16  # a batch that could only be cut into shorter segments is taken for a mistake
_MINIBATCHES = 4


def named_settings(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `[train]` settings that keywords give, by their own names.

    Raises:
        APIUsageError: if a setting is given by both its names.
    """
    given = dict(keywords)
    for alias, name in ALIASES.items():
        if alias in given and name in given:
            raise APIUsageError(f"{alias} and {name} are two names of one setting, got both; pass one")
        if alias in given:
            given[name] = given.pop(alias)
    if isinstance(given.get("device"), torch.device):
        given["device"] = str(given["device"])
    return given


def settings_from_keywords(keywords: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """Returns the `[train]` settings that keywords ask for; sizes are those of all processes.

    Raises:
        APIUsageError: if a setting is given by both its names.
        ConfigError: if a value is wrong, or `batch_size` does not divide; the message names the nearest that do.
    """
    given = named_settings(keywords)
    has_end = given.get("total_timesteps") is not None or given.get("num_iterations") is not None
    automatic = {**DEFAULTS, "anneal_lr": has_end, **choice.settings("train")}
    if given.get("prio_alpha"):
        automatic["shuffle"] = "segments"  # only these are drawn by priority
    chosen = TrainConfig.from_dict({**automatic, **given})
    settings = {name: getattr(chosen, name) for name in TrainConfig.settings()}
    if "minibatch_size" not in given:
        settings["minibatch_size"] = "auto"
    _fit_sizes(settings, given, automatic, choice)
    if "total_timesteps" not in given:
        settings["total_timesteps"] = max(chosen.total_timesteps, settings["batch_size"])
    return settings


def _fit_sizes(settings: dict[str, Any], given: dict[str, Any], automatic: dict[str, Any], choice: Choice) -> None:
    num_agents = choice.facts.num_agents
    least = automatic.get("batch_size", BATCH_SIZE)
    if "bptt_horizon" not in given:
        is_given = given.get("batch_size", "auto") != "auto"
        settings["bptt_horizon"] = (
            _num_steps(settings["batch_size"], num_agents) if is_given else choice.facts.num_steps
        )
    num_steps = settings["bptt_horizon"]
    unit = num_agents * num_steps
    if "batch_size" not in given:
        settings["batch_size"] = _batch_size(settings, least, unit)
    elif settings["batch_size"] == "auto":
        settings["batch_size"] = unit
    _require_multiple(settings["batch_size"], unit, f"{num_agents} agents * num_steps {num_steps}")
    if "minibatch_size" not in given:
        settings["minibatch_size"] = _minibatch_size(settings, automatic["minibatch_size"], least, choice)


def _batch_size(settings: dict[str, Any], least: int, unit: int) -> int:
    minibatch = settings["minibatch_size"]
    if minibatch != "auto" and minibatch <= BATCH_SIZE:
        least = max(least, minibatch)
        if settings["shuffle"] == "steps" and math.lcm(unit, minibatch) <= BATCH_SIZE:
            unit = math.lcm(unit, minibatch)  # every step belongs to one minibatch
    return math.ceil(least / unit) * unit


def _minibatch_size(settings: dict[str, Any], wanted: int, least: int, choice: Choice) -> int:
    # Single steps: what is wanted, and more as the batch is larger. Segments: a quarter of the batch, but of a full
    # vector what is wanted if that is less.
    batch_size, world_size = settings["batch_size"], choice.facts.world_size
    share = min(max(wanted, wanted * batch_size // least), batch_size)
    if settings["shuffle"] == "steps":
        return world_size * nearest_divisor(batch_size // world_size, share / world_size)
    row = settings["bptt_horizon"] * world_size  # agent steps of one segment in every process
    quarter = math.ceil(batch_size // row / _MINIBATCHES) * row
    return min(quarter, math.ceil(share / row) * row) if choice.facts.is_full_vector else quarter


def _num_steps(batch_size: int, num_agents: int) -> int:
    _require_multiple(batch_size, num_agents, f"{num_agents} agents")
    steps = batch_size // num_agents
    found = max(count for count in range(1, NUM_STEPS + 1) if steps % count == 0)
    if found < min(steps, _LEAST_STEPS):
        _require_multiple(batch_size, num_agents * NUM_STEPS, f"{num_agents} agents * num_steps {NUM_STEPS}")
    return found


def _require_multiple(batch_size: int, unit: int, reason: str) -> None:
    if batch_size % unit:
        below, above = batch_size // unit * unit, math.ceil(batch_size / unit) * unit
        near = f"{below} or {above}" if below else f"{above}"
        raise ConfigError(f"batch_size must be a multiple of {unit} ({reason}), got {batch_size}; the nearest: {near}")
