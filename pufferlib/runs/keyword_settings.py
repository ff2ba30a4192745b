"""From the keywords of `PuffeRL(env, policy, learning_rate=3e-4, ...)` to the `[train]` settings."""

from __future__ import annotations

import math
from typing import Any

import torch

from pufferlib.config import TrainConfig
from pufferlib.errors import APIUsageError, ConfigError

ALIASES = {"n_epochs": "update_epochs", "num_steps": "bptt_horizon"}
"""Keywords by which settings are known to users of other libraries."""

DEFAULTS = {
    "learning_rate": 3e-4,
    "update_epochs": 4.0,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_coef": 0.2,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    # What a learning rate of 3e-4 is made for.
    "optimizer": "adam",
    "adam_beta1": 0.9,
    "adam_eps": 1e-5,
    # The trainer sees the rewards as they are.
    "reward_clip": 0.0,
    "normalize_rewards": False,
    "vf_clip_coef": 0.2,
    # Users call `train` in loops of their own and look at each result.
    "log_interval": 1,
}
"""Where the keywords' defaults differ from those of `[train]`, or are promised; sizes follow the number of agents."""

BATCH_SIZE = 32_768  # rounded up to whole segments of all agents
NUM_STEPS = 128
_LEAST_STEPS = 16  # a batch that could only be cut into shorter segments is taken for a mistake
_MINIBATCHES = 4


def settings_from_keywords(keywords: dict[str, Any], num_agents: int, world_size: int = 1) -> dict[str, Any]:
    """The `[train]` settings that keywords ask for.

    Args:
        keywords: names of settings or of ALIASES; all are known.
        num_agents: agents of the environment.
        world_size: processes that train together, each with as many agents; sizes are those of all.

    Raises:
        APIUsageError: if a setting is given by both its names.
        ConfigError: if a value is wrong, or `batch_size` does not divide; the message names the nearest that do.
    """
    given = dict(keywords)
    for alias, name in ALIASES.items():
        if alias in given and name in given:
            raise APIUsageError(f"{alias} and {name} are two names of one setting, got both; pass one")
        if alias in given:
            given[name] = given.pop(alias)
    if isinstance(given.get("device"), torch.device):
        given["device"] = str(given["device"])
    has_end = given.get("total_timesteps") is not None or given.get("num_iterations") is not None
    chosen = TrainConfig.from_dict({**DEFAULTS, "anneal_lr": has_end, **given})
    settings = {name: getattr(chosen, name) for name in TrainConfig.settings()}
    _fit_sizes(settings, given, num_agents * world_size, world_size)
    if "total_timesteps" not in given:
        settings["total_timesteps"] = max(chosen.total_timesteps, settings["batch_size"])
    return settings


def _fit_sizes(settings: dict[str, Any], given: dict[str, Any], num_agents: int, world_size: int) -> None:
    """Fills in the sizes that were not given, so that every batch is made of whole segments of all agents."""
    if "bptt_horizon" not in given:
        batch_size = given.get("batch_size", "auto")
        settings["bptt_horizon"] = NUM_STEPS if batch_size == "auto" else _num_steps(settings["batch_size"], num_agents)
    num_steps = settings["bptt_horizon"]
    unit = num_agents * num_steps
    if "batch_size" not in given:
        settings["batch_size"] = math.ceil(BATCH_SIZE / unit) * unit
    elif settings["batch_size"] == "auto":
        settings["batch_size"] = unit
    _require_multiple(settings["batch_size"], unit, f"{num_agents} agents * num_steps {num_steps}")
    if "minibatch_size" not in given:
        row = num_steps * world_size  # agent steps of one segment in every process
        settings["minibatch_size"] = math.ceil(settings["batch_size"] // row / _MINIBATCHES) * row


def _num_steps(batch_size: int, num_agents: int) -> int:
    """The largest number of steps up to NUM_STEPS of which a batch is a whole number of segments for all agents."""
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
