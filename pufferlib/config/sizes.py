"""Batch and minibatch sizes, once the number of agents is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from typing_extensions import override

from pufferlib.config.schema import Auto, TrainConfig
from pufferlib.errors import ConfigError

_AUTO_MINIBATCH = {"cuda": 65_536}  # agent steps that keep a device busy
_AUTO_MINIBATCH_CPU = 16_384  # larger ones fall out of a core's cache
AUTO_AGENTS = {"cuda": 8_192}  # agents in all that keep a device busy in each step
AUTO_AGENTS_CPU = 1_024  # enough that Python's share of a step is small; more fall out of the cache


@dataclass(frozen=True)
class ResolvedTrainConfig(TrainConfig):
    """A TrainConfig in which every size is an integer and all of them fit each other; made by `resolve`."""

    @override
    def __post_init__(self):
        super().__post_init__()
        _require_fitting_sizes(self)

    @property
    def segments(self) -> int:
        """Segments in a batch."""
        return self.batch_size // self.bptt_horizon

    @property
    def minibatch_segments(self) -> int:
        """Segments in a minibatch."""
        return self.minibatch_size // self.bptt_horizon

    @property
    def accumulation_steps(self) -> int:
        """Backward passes in one optimizer step."""
        return -(-self.minibatch_size // self.max_minibatch_size)

    @property
    def minibatches_per_epoch(self) -> float:
        """Optimizer steps per batch; its fraction is carried over to the next batch."""
        return self.update_epochs * self.batch_size / self.minibatch_size

    @property
    def total_epochs(self) -> int:
        """Batches until at least total_timesteps are done."""
        return self.num_iterations or -(-self.total_timesteps // self.batch_size)


def resolve_env_count(num_envs: int | Auto, device_type: str, num_buffers: int, agents_per_env: int) -> int:
    """The C environments in each PufferEnv.

    Args:
        num_envs: [env] num_envs.
        device_type: `cpu`, `cuda` or `mps`, the policy's.
        num_buffers: PufferEnvs, [vec] num_envs.
        agents_per_env: agents in each C environment.
    """
    if num_envs != "auto":
        return num_envs
    return max(1, AUTO_AGENTS.get(device_type, AUTO_AGENTS_CPU) // (num_buffers * agents_per_env))


def resolve(config: TrainConfig, num_agents: int, device_type: str) -> ResolvedTrainConfig:
    """Fills in every size that is 'auto' and checks that all of them are possible.

    Args:
        config: the settings as the user gave them.
        num_agents: agents of the vector, all PufferEnvs together.
        device_type: `cpu`, `cuda` or `mps`.

    Raises:
        ConfigError: if a size is impossible; the message names the nearest that are possible.
    """
    horizon = config.bptt_horizon
    batch_size = num_agents * horizon if config.batch_size == "auto" else config.batch_size
    _require_multiple("batch_size", batch_size, num_agents * horizon, f"{num_agents} agents * bptt_horizon {horizon}")
    minibatch_size = config.minibatch_size
    if minibatch_size == "auto":
        limit = _AUTO_MINIBATCH.get(device_type, _AUTO_MINIBATCH_CPU)
        minibatch_size = horizon * _even_share(batch_size // horizon, max(1, limit // horizon))
    values = {name: getattr(config, name) for name in config.settings()}
    values["batch_size"], values["minibatch_size"] = batch_size, minibatch_size
    if config.max_minibatch_size == "auto":
        values["max_minibatch_size"] = minibatch_size
    if config.num_iterations is not None:
        values["total_timesteps"] = config.num_iterations * batch_size
    return ResolvedTrainConfig(**values)


def _even_share(segments: int, limit: int) -> int:
    """The size of equal minibatches of at most `limit` segments, as few of them as possible."""
    count = -(-segments // limit)
    return -(-segments // count)


def _require_multiple(name: str, value: int, unit: int, reason: str) -> None:
    if value % unit == 0:
        return
    below, above = value // unit * unit, math.ceil(value / unit) * unit
    nearest = f"{below} or {above}" if below else f"{above}"
    raise ConfigError(f"[train] {name} must be a multiple of {unit} ({reason}), got {value}; the nearest: {nearest}")


def _require_fitting_sizes(config: ResolvedTrainConfig) -> None:
    reason = "bptt_horizon"
    _require_multiple("batch_size", config.batch_size, config.bptt_horizon, reason)
    _require_multiple("minibatch_size", config.minibatch_size, config.bptt_horizon, reason)
    if config.minibatch_size > config.batch_size:
        raise ConfigError(
            f"[train] minibatch_size must be at most the batch of {config.batch_size} agent steps, "
            f"got {config.minibatch_size}; set it to 'auto' or have more environments"
        )
    if config.minibatch_size > config.max_minibatch_size:
        _require_multiple("max_minibatch_size", config.max_minibatch_size, config.bptt_horizon, reason)
        _require_multiple("minibatch_size", config.minibatch_size, config.max_minibatch_size, "max_minibatch_size")
    if config.total_timesteps < config.batch_size:
        raise ConfigError(
            f"[train] total_timesteps must be at least one batch of {config.batch_size} agent steps, "
            f"got {config.total_timesteps}; ask for more steps or have fewer environments"
        )
