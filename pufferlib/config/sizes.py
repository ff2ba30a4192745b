"""Batch and minibatch sizes, once the number of agents is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from typing_extensions import override

from pufferlib.config.schema import Auto, TrainConfig
from pufferlib.errors import ConfigError
from pufferlib.setting import setting

_MOST_STEPS_CUDA = 65_536  # of an automatic minibatch on each device: more do not keep it busier
_MOST_STEPS_CPU = 16_384  # of all processes on CPUs: larger ones fall out of a core's cache
_LEAST_STEPS = 256  # gradients of fewer are mostly noise
AUTO_AGENTS_CUDA = 8_192  # agents at most, which keep a device busy in each step
_LEAST_BATCHES = 64  # of a training with so many agents: few large batches learn less than many small ones
AUTO_AGENTS_CPU = 1_024  # enough that Python's share of a step is small; more fall out of the cache


@dataclass(frozen=True)
class ResolvedTrainConfig(TrainConfig):
    """A TrainConfig in which every size is an integer and all of them fit each other; made by `resolve_sizes`.

    Sizes in agent steps are those of all processes; sizes in segments are this one's.
    """

    world_size: int = setting(1, "Processes that train together.", "[1, inf)")

    @override
    def __post_init__(self):
        super().__post_init__()
        _require_fitting_sizes(self)

    @property
    def segments(self) -> int:
        """Segments in a batch."""
        return self.batch_size // (self.bptt_horizon * self.world_size)

    @property
    def minibatch_segments(self) -> int:
        """Segments in a minibatch."""
        return self.minibatch_size // (self.bptt_horizon * self.world_size)

    @property
    def minibatch_steps(self) -> int:
        """Agent steps of this process in a minibatch."""
        return self.minibatch_size // self.world_size

    @property
    def accumulation_steps(self) -> int:
        """Backward passes in one optimizer step."""
        return -(-self.minibatch_size // (self.max_minibatch_size * self.world_size))

    @property
    def minibatches_per_epoch(self) -> float:
        """Optimizer steps per batch; its fraction is carried over to the next batch."""
        return self.update_epochs * self.batch_size / self.minibatch_size

    @property
    def total_epochs(self) -> int:
        """Batches until at least total_timesteps are done."""
        return self.num_iterations or -(-self.total_timesteps // self.batch_size)

    def anneal_epochs(self, start: int) -> int:
        """Batches over which the learning rate is annealed, if that starts after so many."""
        if self.anneal_timesteps == "auto":
            return max(1, self.total_epochs - start)
        return -(-self.anneal_timesteps // self.batch_size)


def resolve_env_count(
    num_envs: int | Auto,
    device_type: str,
    num_buffers: int,
    agents_per_env: int,
    world_size: int = 1,
    train: TrainConfig | None = None,
) -> int:
    """Returns the number of C environments in each PufferEnv of a process, for `[env] num_envs`.

    Processes that train on CPUs share the agents. Each GPU gets as many as keep it busy, or half as many, and so on,
    but no fewer than a CPU, where a training of these steps would have fewer than 64 batches.
    """
    if num_envs != "auto":
        return num_envs
    agents = AUTO_AGENTS_CUDA if device_type == "cuda" else AUTO_AGENTS_CPU // world_size
    if train is not None and train.num_iterations is None:
        most = train.total_timesteps / (_LEAST_BATCHES * train.bptt_horizon * world_size)
        while agents > max(most, AUTO_AGENTS_CPU):
            agents //= 2
    return max(1, agents // (num_buffers * agents_per_env))


def resolve_sizes(config: TrainConfig, num_agents: int, device_type: str, world_size: int = 1) -> ResolvedTrainConfig:
    """Fills in every size that is 'auto' and checks that all of them are possible.

    `num_agents` are those of this process's vector; every process has as many. Raises ConfigError if a size is
    impossible; the message names the nearest that are possible.
    """
    horizon = config.bptt_horizon
    row = world_size * horizon  # agent steps of one segment in every process
    batch_size = num_agents * row if config.batch_size == "auto" else config.batch_size
    reason = f"{_processes_text(world_size)}{num_agents} agents * bptt_horizon {horizon}"
    require_multiple("[train] batch_size", batch_size, num_agents * row, reason)
    minibatch_size = config.minibatch_size
    if minibatch_size == "auto":
        most = world_size * _MOST_STEPS_CUDA if device_type == "cuda" else _MOST_STEPS_CPU
        wanted = min(max(batch_size // config.num_minibatches, _LEAST_STEPS), most)
        segments = batch_size // row
        count = -(-segments // max(1, wanted // row))  # minibatches, of which the last is about as large as the others
        minibatch_size = row * -(-segments // count)
        if config.shuffle == "steps" and batch_size % minibatch_size:
            minibatch_size = world_size * nearest_divisor(batch_size // world_size, wanted / world_size)
    values = {**vars(config), "batch_size": batch_size, "minibatch_size": minibatch_size, "world_size": world_size}
    if config.max_minibatch_size == "auto":
        values["max_minibatch_size"] = minibatch_size // world_size
    if config.num_iterations is not None:
        values["total_timesteps"] = config.num_iterations * batch_size
    return ResolvedTrainConfig(**values)


def nearest_divisor(number: int, wanted: float) -> int:
    """Returns the divisor of a number that is the nearest to another one, above 0, by their ratio."""
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return min((*small, *(number // each for each in small)), key=lambda each: abs(math.log(each / wanted)))


def _processes_text(world_size: int) -> str:
    return f"{world_size} processes * " if world_size > 1 else ""


def require_multiple(name: str, value: int, unit: int, reason: str) -> None:
    """Raises ConfigError for a size that is no multiple of a unit, with the nearest that are."""
    if value % unit == 0:
        return
    below, above = value // unit * unit, math.ceil(value / unit) * unit
    nearest = f"{below} or {above}" if below else f"{above}"
    raise ConfigError(f"{name} must be a multiple of {unit} ({reason}), got {value}; the nearest: {nearest}")


def _require_fitting_sizes(config: ResolvedTrainConfig) -> None:
    world_size, batch, total = config.world_size, config.batch_size, config.total_timesteps
    processes, row = _processes_text(world_size), config.bptt_horizon * world_size
    if config.shuffle == "steps":
        _require_whole_passes(config)
    else:
        require_multiple("[train] minibatch_size", config.minibatch_size, row, f"{processes}bptt_horizon")
    if config.minibatch_size > batch:
        raise ConfigError(
            f"[train] minibatch_size must be at most the batch of {batch} agent steps, "
            f"got {config.minibatch_size}; set it to 'auto' or have more environments"
        )
    unit = config.max_minibatch_size * world_size
    if config.minibatch_size > unit:
        if config.shuffle == "segments":
            require_multiple(
                "[train] max_minibatch_size", config.max_minibatch_size, config.bptt_horizon, "bptt_horizon"
            )
        require_multiple("[train] minibatch_size", config.minibatch_size, unit, f"{processes}max_minibatch_size")
    if total >= batch:
        return
    agents, each = total // row, " in each process" if world_size > 1 else ""
    fewer = f"have at most {agents} agent{'s' * (agents != 1)}{each} at this bptt_horizon of {config.bptt_horizon}"
    if agents == 0:
        fewer = f"have a bptt_horizon of at most {max(1, total // world_size)} and fewer agents"
    raise ConfigError(
        f"[train] total_timesteps must be at least one batch of {batch} agent steps, got {total}; ask for {batch} or "
        f"more, or {fewer}"
    )


def _require_whole_passes(config: ResolvedTrainConfig) -> None:
    if config.prio_alpha:
        raise ConfigError(
            f"[train] prio_alpha must be 0 where shuffle is 'steps', got {config.prio_alpha}; only segments are drawn "
            "by priority"
        )
    size, batch = config.minibatch_size, config.batch_size
    if size <= batch and (batch % size or size % config.world_size):
        nearest = config.world_size * nearest_divisor(batch // config.world_size, size / config.world_size)
        reason = f"{_processes_text(config.world_size)}a divisor of the batch of {batch} agent steps"
        raise ConfigError(f"[train] minibatch_size must be {reason}, got {size}; the nearest: {nearest}")
