"""What of a trainer is saved, and how it is put back; `state_patterns` has what it must look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pufferlib.distributed import Ranks, Total
from pufferlib.errors import CheckpointError
from pufferlib.metrics.finite import find_in_state, find_weight
from pufferlib.metrics.moments import Moments
from pufferlib.metrics.report import Report
from pufferlib.ppo.collector import Collector
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.normalization import RewardNormalizer
from pufferlib.runs.collector_state import (
    collector_state,
    load_collector_state,
    load_rollout_state,
    rollout_state,
)
from pufferlib.runs.optimizer_state import load_state_by_name, state_by_name
from pufferlib.seeding import mix_seed


@dataclass(frozen=True)
class TrainerParts:
    """What of a trainer changes while it trains, but for its counts.

    Attributes:
        policy: that is trained.
        learner: steps the optimizer.
        reward_normalizer: scales the rewards, if one does.
        collector: steps the environments and fills the rollout.
        report: what was measured since the last log.
        generator: draws actions and minibatches; on the policy's device.
    """

    policy: nn.Module
    learner: Learner
    reward_normalizer: RewardNormalizer | None
    collector: Collector
    report: Report
    generator: torch.Generator


@dataclass(frozen=True)
class Progress:
    """How far a trainer is.

    Attributes:
        epoch: iterations of `evaluate` and `train` so far.
        global_step: agent steps collected so far, by all processes.
        untrained_steps: those of a rollout that `train` did not learn from yet.
        uptime: seconds of training.
        learning_rate: that the schedule starts from.
        logged_epoch: of the last log.
        logged_step: of the last log.
        losses: of the last update, by name.
    """

    epoch: int
    global_step: int
    untrained_steps: int
    uptime: float
    learning_rate: float
    logged_epoch: int
    logged_step: int
    losses: dict[str, float]


@dataclass
class Collected:
    """A rollout that is yet to be learned from.

    Attributes:
        steps: agent steps of all processes.
        statistics: what `evaluate` returns of it.
        is_returned: whether it has; not yet where a checkpoint brought the rollout.
    """

    steps: Total
    statistics: dict[str, float]
    is_returned: bool = True


class Loaded(NamedTuple):
    """What a trainer gets back beside the state of its parts.

    Attributes:
        progress: from where it goes on.
        statistics: what `evaluate` had returned of the rollout that came back; None where none did.
        metadata: that was saved with it.
    """

    progress: Progress
    statistics: dict[str, float] | None
    metadata: dict[str, Any]


# -------------------------------------------------------------------------------------- what learns beside the weights


def named_parameters(learner: Learner) -> dict[str, nn.Parameter]:
    """The policy's, those that are frozen for now included."""
    return dict(learner.gradients.policy.named_parameters())


def learner_state(learner: Learner) -> dict[str, Any]:
    """What a later process needs of a learner beside the policy's weights."""
    return {
        "optimizer": learner.config.optimizer,
        "optimizer_state": state_by_name(learner.optimizer, named_parameters(learner)),
        "learning_rate": float(learner.learning_rate),
        "minibatches_due": learner.minibatches_due,
        "metrics": dict(learner.metrics),
    }


def load_learner_state(learner: Learner, state: Mapping[str, Any]) -> None:
    """Puts back what `learner_state` returned and `learner_pattern` describes."""
    load_state_by_name(learner.optimizer, named_parameters(learner), state["optimizer_state"])
    learner.learning_rate = state["learning_rate"]
    learner.follow(learner.gradients, learner.optimizer)
    learner.minibatches_due = state["minibatches_due"]
    learner.metrics = dict(state["metrics"])


def learning_state(parts: TrainerParts) -> dict[str, Any]:
    """Of everything that learns beside the policy, by name."""
    state = {"learner": learner_state(parts.learner)}
    if parts.reward_normalizer is not None:
        state["reward_normalizer"] = asdict(parts.reward_normalizer.moments)
    return state


def load_learning_state(parts: TrainerParts, state: Mapping[str, Any]) -> None:
    """Puts back what `learning_state` returned and `learning_pattern` describes."""
    load_learner_state(parts.learner, state["learner"])
    if parts.reward_normalizer is not None:
        parts.reward_normalizer.moments = Moments(**state["reward_normalizer"])


def find_not_finite(parts: TrainerParts, learning_rate: float) -> str | None:
    """Names the first number that nobody can go on from: of the weights, the optimizer, statistics or learning rate."""
    state = learning_state(parts)
    state |= {"optimizer_state": state.pop("learner")["optimizer_state"], "learning_rate": learning_rate}
    found = (find_in_state(part, name) for name, part in state.items())
    return find_weight(parts.policy) or next((each for each in found if each is not None), None)


# ------------------------------------------------------------------------------------------------------- one whole run


def shared_state(parts: TrainerParts, progress: Progress) -> dict[str, Any]:
    """What all processes have in common, but for the weights."""
    return {
        "epoch": progress.epoch,
        "global_step": progress.global_step,
        "untrained_steps": progress.untrained_steps,
        "uptime": progress.uptime,
        "learning_rate": float(progress.learning_rate),
        "logged": [progress.logged_epoch, progress.logged_step],
        "losses": progress.losses,
        "learning": learning_state(parts),
    }


def rank_state(parts: TrainerParts, statistics: dict[str, float] | None) -> dict[str, Any]:
    """What differs between processes.

    Args:
        parts: of this process.
        statistics: what `evaluate` returned of a rollout that is yet to be learned from; None where there is no such
            rollout. One is not kept where environments have no snapshots.
    """
    collector = collector_state(parts.collector)
    rollout = {"content": rollout_state(parts.collector.rollout), "statistics": statistics}
    return {
        "interval": parts.report.state_dict(),
        "generator": parts.generator.get_state(),
        "torch_generator": torch.get_rng_state(),
        "collector": collector,
        "rollout": None if statistics is None or collector is None else rollout,
    }


def load_trainer_state(
    path: Path, parts: TrainerParts, ranks: Ranks, weights: Mapping[str, Tensor], state: Mapping[str, Any]
) -> Loaded:
    """Puts back what was saved in the folder of a run, as far as there are as many processes again.

    Where there are not, or where environments have no snapshots, other episodes are begun.

    Args:
        path: of `trainer_state.pt`, for messages.
        parts: of this process.
        ranks: this process among all.
        weights: of the policy.
        state: that `check_trainer_state` let pass.

    Raises:
        CheckpointError: if the environments refuse their snapshots; then all is as it was.
    """
    own = state["ranks"][ranks.rank] if len(state["ranks"]) == ranks.world_size else None
    goes_on = own is not None and own["collector"] is not None
    if goes_on:  # first, as environments may refuse
        _load_environments(path, parts.collector, own["collector"])
    logged_epoch, logged_step = state["logged"]
    names = ("epoch", "global_step", "untrained_steps", "uptime", "learning_rate", "losses")
    kept = {name: state[name] for name in names}
    progress = Progress(**kept, logged_epoch=logged_epoch, logged_step=logged_step)
    parts.report.load_state_dict((own or state["ranks"][0])["interval"])
    _load_random_state(parts, ranks, own, progress.epoch)
    statistics = None
    if not goes_on:
        progress = _begin_anew(parts.collector, ranks, progress)
    elif own["rollout"] is not None:
        load_rollout_state(parts.collector.rollout, own["rollout"]["content"])
        parts.learner.prepare()
        statistics = own["rollout"]["statistics"]
    parts.policy.load_state_dict(weights)
    load_learning_state(parts, state["learning"])
    return Loaded(progress, statistics, dict(state["metadata"]))


def _load_environments(path: Path, collector: Collector, state: dict[str, Any]) -> None:
    try:
        load_collector_state(collector, state)
    except Exception as error:  # environments may raise what they like
        raise CheckpointError(
            f"{path}: the environments refused their snapshots ({error}); "
            "use the settings of the run, or another checkpoint"
        ) from error


def _load_random_state(parts: TrainerParts, ranks: Ranks, own: Mapping[str, Any] | None, epoch: int) -> None:
    if own is not None:
        parts.generator.set_state(own["generator"])
        torch.set_rng_state(own["torch_generator"])
        return
    if not ranks.is_first:
        parts.report.episodes.take()  # they are the first one's
    parts.generator.manual_seed(mix_seed(ranks.seed(parts.learner.config.seed), epoch))


def _begin_anew(collector: Collector, ranks: Ranks, progress: Progress) -> Progress:
    collector.reset(mix_seed(ranks.seed(collector.vecenv.seed), progress.epoch))
    step = progress.global_step - progress.untrained_steps  # nobody will learn from those
    return replace(progress, global_step=step, untrained_steps=0, logged_step=min(progress.logged_step, step))
