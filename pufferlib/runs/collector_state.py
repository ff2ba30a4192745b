"""What of a collector and its rollout is saved, and how it is put back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pufferlib.metrics.finite import is_finite
from pufferlib.ppo.collector import CARRIED, Collector
from pufferlib.ppo.rollout import FinalValues, Rollout


def collector_state(collector: Collector) -> dict[str, Any] | None:
    """Everything a later process needs to go on exactly where a rollout ended.

    Returns:
        None where it cannot be told: an environment has no snapshot, a failed or interrupted rollout left steps that
        were never received, or what was received is not finite.
    """
    environments = collector.batches.snapshot() if _is_finite(collector) else None
    if environments is None:
        return None
    normalizer = collector.reward_normalizer
    return {
        "environments": [_as_tensor(env) for env in environments["envs"]],
        "arrays": {name: _as_tensor(array) for name, array in environments["arrays"].items()},
        "order": environments["order"],
        "columns": {name: memory[-1, _last(collector)].clone() for name, memory in collector.given.items()},
        "actor": collector.actor.state_dict(),
        "tracker": {name: torch.from_numpy(array) for name, array in collector.tracker.state_dict().items()},
        "reward_sums": None if normalizer is None else torch.tensor(normalizer.sums),
        "statistics": collector.statistics.state_dict(),
    }


def load_collector_state(collector: Collector, state: Mapping[str, Any]) -> None:
    """Puts back what `collector_state` returned; what the environments refuse leaves all as it was."""
    envs = [env.numpy().tobytes() for env in state["environments"]]
    arrays = {name: array.numpy().tobytes() for name, array in state["arrays"].items()}
    collector.batches.restore({"envs": envs, "order": state["order"], "arrays": arrays})
    collector.forget()
    for name, column in state["columns"].items():
        collector.given[name][-1, _last(collector)] = column
    _, terminals, truncations, masks, pending = (collector.given[name][-1, _last(collector)] for name in CARRIED)
    tracker = collector.tracker
    tracker.load_state_dict({name: array.numpy() for name, array in state["tracker"].items()})
    tracker.is_pending[:] = pending.numpy()
    tracker.begin(slice(None), (terminals | truncations).numpy(), masks.numpy())
    collector.actor.load_state_dict(state["actor"])
    if collector.reward_normalizer is not None:
        collector.reward_normalizer.sums[:] = state["reward_sums"].numpy()
    collector.statistics.load_state_dict(state["statistics"])


def rollout_state(rollout: Rollout) -> dict[str, Any]:
    """Everything in a rollout: views."""
    return {**vars(rollout), "finals": None if rollout.finals is None else rollout.finals._asdict()}


def load_rollout_state(rollout: Rollout, state: Mapping[str, Any]) -> None:
    """Puts back what `rollout_state` of a rollout of these sizes returned."""
    for name, kept in vars(rollout).items():
        if isinstance(kept, Tensor):
            kept.copy_(state[name])
    for name, kept in rollout.states.items():
        kept.copy_(state["states"][name])
    finals, device = state["finals"], rollout.values.device
    rollout.finals = finals and FinalValues(**{name: each.to(device) for name, each in finals.items()})


def _last(collector: Collector) -> slice:
    return slice(collector.rollout.segments - collector.vecenv.num_agents, None)


def _is_finite(collector: Collector) -> bool:
    returns = torch.from_numpy(collector.tracker.returns)
    return all(map(is_finite, [collector.given["rewards"][-1], returns, *collector.actor.states.values()]))


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
