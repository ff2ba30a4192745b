"""Saves and restores a collector and its rollout, so that a resumed run continues in the middle of episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pufferlib.metrics.finite import is_finite
from pufferlib.ppo.collector import BOUNDARY_COLUMNS, Collector
from pufferlib.ppo.rollout import FinalValues, Rollout


def collector_state(collector: Collector) -> dict[str, Any] | None:
    """Returns the state from which a later process continues exactly where a rollout ended.

    Returns:
        None where an environment has no snapshot, a failed or interrupted rollout left steps that were never received,
        or rewards, returns or recurrent states are not finite.
    """
    returns = torch.from_numpy(collector.tracker.returns)
    numbers = [collector.host_buffers["rewards"][-1], returns, *collector.actor.states.values()]
    environments = collector.batches.snapshot() if all(map(is_finite, numbers)) else None
    if environments is None:
        return None
    normalizer = collector.reward_normalizer
    return {
        "environments": [_as_tensor(env) for env in environments["envs"]],
        "arrays": {name: _as_tensor(array) for name, array in environments["arrays"].items()},
        "order": environments["order"],
        "columns": {
            name: memory[-1, _last_group(collector)].clone() for name, memory in collector.host_buffers.items()
        },
        "actor": collector.actor.state_dict(),
        "tracker": {name: torch.from_numpy(array) for name, array in collector.tracker.state_dict().items()},
        "reward_sums": None if normalizer is None else torch.tensor(normalizer.sums),
        "statistics": collector.statistics.state_dict(),
    }


def load_collector_state(collector: Collector, state: Mapping[str, Any]) -> None:
    """Restores what `collector_state` returned; if the environments refuse it, nothing changes."""
    envs = [env.numpy().tobytes() for env in state["environments"]]
    arrays = {name: array.numpy().tobytes() for name, array in state["arrays"].items()}
    collector.batches.restore({"envs": envs, "order": state["order"], "arrays": arrays})
    collector.forget()
    group = _last_group(collector)
    for name, column in state["columns"].items():
        collector.host_buffers[name][-1, group] = column
    _, terminals, truncations, masks, pending = (collector.host_buffers[name][-1, group] for name in BOUNDARY_COLUMNS)
    tracker = collector.tracker
    tracker.load_state_dict({name: array.numpy() for name, array in state["tracker"].items()})
    tracker.is_pending[:] = pending.numpy()
    tracker.begin(slice(None), (terminals | truncations).numpy(), masks.numpy())
    collector.actor.load_state_dict(state["actor"])
    if collector.reward_normalizer is not None:
        collector.reward_normalizer.sums[:] = state["reward_sums"].numpy()
    collector.statistics.load_state_dict(state["statistics"])


def rollout_state(rollout: Rollout) -> dict[str, Any]:
    """Returns views of everything in a rollout."""
    return {**vars(rollout), "finals": None if rollout.finals is None else rollout.finals._asdict()}


def load_rollout_state(rollout: Rollout, state: Mapping[str, Any]) -> None:
    """Restores what `rollout_state` returned of a rollout of the same sizes."""
    for name, kept in vars(rollout).items():
        if isinstance(kept, Tensor):
            kept.copy_(state[name])
    for name, kept in rollout.states.items():
        kept.copy_(state["states"][name])
    finals, device = state["finals"], rollout.values.device
    rollout.finals = finals and FinalValues(**{name: tensor.to(device) for name, tensor in finals.items()})


def _last_group(collector: Collector) -> slice:  # its segments
    return slice(collector.rollout.segments - collector.vecenv.num_agents, None)


def _as_tensor(content: bytes) -> Tensor:  # which a checkpoint holds without pickling objects
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
