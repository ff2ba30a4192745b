"""Sizes of a trial that fit each other, and the memory that they need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from pufferlib.config import TrainConfig, resolve_sizes
from pufferlib.config.sizes import nearest_divisor
from pufferlib.errors import ConfigError
from pufferlib.spaces import action_dtype, action_shape

_FLOATS, _FLAGS = 4, 4  # of every agent step in a rollout, besides observations and actions: see ppo/rollout.py


def fit_sizes(train: Mapping[str, Any], num_agents: int, device_type: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the `[train]` settings with the nearest sizes that are possible, and a sentence for each repaired one.

    Raises:
        ConfigError: if the sizes still do not fit each other.
    """
    fitted, horizon = dict(train), train["bptt_horizon"]
    unit = num_agents * horizon
    batch = unit if train["batch_size"] == "auto" else unit * max(1, round(train["batch_size"] / unit))
    if train["batch_size"] != "auto":
        fitted["batch_size"] = batch
    if train["minibatch_size"] != "auto":
        fitted["minibatch_size"] = _minibatch_size(train, batch)
    if train["num_iterations"] is None:
        fitted["total_timesteps"] = max(train["total_timesteps"], batch)
    resolve_sizes(TrainConfig.from_dict(fitted), num_agents, device_type)
    reasons = {
        "batch_size": f"a multiple of {num_agents} agents * bptt_horizon {horizon}",
        "minibatch_size": _minibatch_reason(train, batch),
        "total_timesteps": f"at least a batch of {batch}",
    }
    return fitted, [
        f"[train] {name} is {fitted[name]} instead of {train[name]}: {reason}"
        for name, reason in reasons.items()
        if fitted[name] != train[name]
    ]


def rollout_bytes(observation_space: gymnasium.Space, action_space: gymnasium.Space, steps: int) -> int:
    """Returns the memory of a rollout of `steps` agent steps; the spaces are of one agent."""
    observation = math.prod(observation_space.shape or ()) * np.dtype(observation_space.dtype).itemsize
    action = math.prod(action_shape(action_space)) * np.dtype(action_dtype(action_space)).itemsize
    return steps * (observation + action + 4 * _FLOATS + _FLAGS)


def require_memory(needed: int, limit: float) -> None:
    """Raises ConfigError if a rollout needs more bytes than a trial may use."""
    if needed > limit:
        raise ConfigError(
            f"the rollout of a trial must be smaller than its memory of {limit / 1e9:.3g} GB, and takes "
            f"{needed / 1e9:.3g} GB; take smaller batches or fewer environments, or raise [sweep] trial_memory_gb"
        )


def _minibatch_size(train: Mapping[str, Any], batch: int) -> int:
    wanted, horizon = train["minibatch_size"], train["bptt_horizon"]
    if train["shuffle"] == "steps":
        return nearest_divisor(batch, wanted)
    return horizon * min(max(1, round(wanted / horizon)), batch // horizon)


def _minibatch_reason(train: Mapping[str, Any], batch: int) -> str:
    if train["shuffle"] == "steps":
        return f"a divisor of the batch of {batch}"
    return f"a multiple of bptt_horizon {train['bptt_horizon']}, at most the batch of {batch}"
