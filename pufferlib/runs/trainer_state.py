"""The state of a trainer as a checkpoint holds it: optimizer, collector, counters and generators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.dashboard.report import Report
from pufferlib.distributed import Ranks
from pufferlib.errors import CheckpointError
from pufferlib.metrics.finite import find_in_state, find_weight, is_finite
from pufferlib.metrics.measures import FinishedEpisodes, Moments
from pufferlib.policy import load_weights
from pufferlib.ppo.collector import BOUNDARY_COLUMNS, Collector
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.opponents import Seen
from pufferlib.ppo.rollout import FinalValues, Rollout
from pufferlib.seeding import mix_seed


def collector_state(collector: Collector) -> dict[str, Any] | None:
    """Returns the state from which a later process continues exactly where a rollout ended.

    None where an environment has no snapshot, a rollout was left in its middle, or a number is not finite.
    """
    collector.follow_episodes()
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
    collector.statistics = FinishedEpisodes.merged([state["statistics"]])


def rollout_state(rollout: Rollout) -> dict[str, Any]:
    """Returns views of everything in a rollout."""
    content = {**vars(rollout), "finals": None if rollout.finals is None else rollout.finals._asdict()}
    if rollout.action_masks is None:
        del content["action_masks"]
    return content


def _load_rollout_state(rollout: Rollout, state: Mapping[str, Any]) -> None:
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


@dataclass(frozen=True)
class TrainerParts:
    """The objects of a trainer whose state is saved; the generator, on the policy's device, draws all of it."""

    policy: nn.Module
    learner: Learner
    collector: Collector
    report: Report
    generator: torch.Generator


@dataclass(frozen=True)
class Progress:
    """The numbers of a trainer that are saved, the same in all processes."""

    epoch: int  # iterations of evaluate and train so far
    global_step: int  # agent steps collected so far, by all processes
    untrained_steps: int  # those of a rollout that train did not learn from yet
    uptime: float  # seconds of training
    learning_rate: float  # from which the schedule starts
    anneal_start: int  # the epoch at which it starts; this one where the rate stays
    end: int  # the epoch at which the run is to end
    logged: list[int]  # epoch and agent step of the last log
    losses: dict[str, float]  # of the last update, by name


def learner_state(learner: Learner) -> dict[str, Any]:
    """Returns the state of a learner beside the policy's weights; that of parameters never stepped is empty."""
    parameters = learner.gradients.policy.named_parameters()  # those that are frozen for now included
    found = {name: learner.optimizer.state.get(parameter, {}) for name, parameter in parameters}
    return {
        "optimizer": learner.config.optimizer,
        "optimizer_state": {
            name: {key: kept for key, kept in state.items() if kept is not None} for name, state in found.items()
        },
        "learning_rate": float(learner.learning_rate),
        "minibatches_due": learner.minibatches_due,
        "metrics": dict(learner.metrics),
    }


@torch.no_grad()
def load_learner_state(learner: Learner, state: Mapping[str, Any]) -> None:
    """Restores what `learner_state` returned."""
    optimizer = learner.optimizer
    stepped = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in learner.gradients.policy.named_parameters():
        optimizer.state.pop(parameter, None)
        saved = state["optimizer_state"][name]
        if parameter in stepped and saved:
            optimizer.state[parameter] = {
                key: found.clone() if key == "step" else torch.zeros_like(parameter).copy_(found)
                for key, found in saved.items()
            }
    learner.learning_rate = state["learning_rate"]
    learner.follow(learner.gradients, optimizer)
    learner.minibatches_due = state["minibatches_due"]
    learner.metrics = dict(state["metrics"])


def learning_state(parts: TrainerParts) -> dict[str, Any]:
    """Returns the state of everything that learns beside the policy, by name."""
    state = {"learner": learner_state(parts.learner)}
    normalizer = parts.collector.reward_normalizer
    if normalizer is not None:
        state["reward_normalizer"] = asdict(normalizer.moments)
    return state


def load_learning_state(parts: TrainerParts, state: Mapping[str, Any]) -> None:
    """Restores what `learning_state` returned."""
    load_learner_state(parts.learner, state["learner"])
    normalizer = parts.collector.reward_normalizer
    if normalizer is not None:
        normalizer.moments = Moments(**state["reward_normalizer"])


def find_nonfinite(parts: TrainerParts) -> str | None:
    """Describes the first number that is not finite: of the weights, the optimizer or statistics."""
    state = learning_state(parts)
    state["optimizer_state"] = state.pop("learner")["optimizer_state"]
    found = (find_in_state(part, name) for name, part in state.items())
    return find_weight(parts.policy) or next((words for words in found if words is not None), None)


def rank_state(parts: TrainerParts, statistics: dict[str, float] | None) -> dict[str, Any]:
    """Returns the state that differs between processes; with statistics, that of a rollout not learned from too."""
    collector, pool = collector_state(parts.collector), parts.collector.pool
    rollout = {"content": rollout_state(parts.collector.rollout), "statistics": statistics}
    return {
        **({} if pool is None else {"pool": pool.state_dict()}),
        "interval": parts.report.state_dict(),
        "generator": parts.generator.get_state(),
        "torch_generator": torch.get_rng_state(),
        "collector": collector,
        "rollout": None if statistics is None or collector is None else rollout,
    }


def load_trainer_state(
    path: Path, parts: TrainerParts, ranks: Ranks, weights: Mapping[str, Tensor], state: Mapping[str, Any]
) -> tuple[Progress, dict[str, float] | None]:
    """Restores a trainer; other episodes begin for another number of processes, or without snapshots.

    The state is one that `check_trainer_state` accepted; if the environments refuse their snapshots, nothing changes.
    Returns the progress, and the statistics of the rollout that was restored, if one was.
    """
    own = state["ranks"][ranks.rank] if len(state["ranks"]) == ranks.world_size else None
    continues = own is not None and own["collector"] is not None
    if continues:  # first, as environments may refuse
        try:
            load_collector_state(parts.collector, own["collector"])
        except Exception as error:  # environments may raise what they like
            raise CheckpointError(
                f"{path}: the environments refused their snapshots ({error}); "
                "use the settings of the run, or another checkpoint"
            ) from error
    progress, statistics = Progress(**{field.name: state[field.name] for field in fields(Progress)}), None
    collector, pool = parts.collector, parts.collector.pool
    if own is None:
        first = state["ranks"][0]
        if pool is not None:
            pool.load_members(first["pool"], parts.policy)
        parts.generator.manual_seed(mix_seed(ranks.seed(parts.learner.config.seed), progress.epoch))
        parts.report.load_state_dict(first["interval"])
        if not ranks.is_first:
            parts.report.episodes.take()  # they are the first one's
    else:
        if pool is not None:
            arrays = (collector.actor.last_observations, collector.actor.last_action_masks)
            last = Seen(*(None if array is None else array.cpu().numpy() for array in arrays))
            seen = {rows.start: last.of(rows) for rows in collector.batches.held}
            pool.load_state_dict(own["pool"], parts.policy, seen)
        parts.generator.set_state(own["generator"])
        torch.set_rng_state(own["torch_generator"])
        parts.report.load_state_dict(own["interval"])
    if not continues:
        collector.reset(mix_seed(ranks.seed(collector.vecenv.seed), progress.epoch))
        step = progress.global_step - progress.untrained_steps  # the rollout is lost
        logged = [progress.logged[0], min(progress.logged[1], step)]
        progress = replace(progress, global_step=step, untrained_steps=0, logged=logged)
    elif own["rollout"] is not None:
        _load_rollout_state(collector.rollout, own["rollout"]["content"])
        parts.learner.prepare()
        statistics = own["rollout"]["statistics"]
    load_weights(parts.policy, weights)
    load_learning_state(parts, state["learning"])
    return progress, statistics
