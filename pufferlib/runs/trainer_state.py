"""The state of a trainer's parts, as checkpoints hold it: taken, compared with what it must be, and put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pufferlib.errors import CheckpointError
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.normalization import RewardNormalizer
from pufferlib.ppo.optimizers import set_learning_rate
from pufferlib.runs.checkpoint_pattern import Mismatch, Pattern, check, each
from pufferlib.runs.optimizer_state import load_state_by_name, state_by_name
from pufferlib.runs.state_patterns import INTERVAL, REWARD_NORMALIZER, learner_pattern


def learner_state(learner: Learner) -> dict[str, Any]:
    """What a later process needs of a learner beside the policy's weights."""
    return {
        "optimizer": learner.config.optimizer,
        "optimizer_state": state_by_name(learner.optimizer, learner.named_parameters),
        "learning_rate": float(learner.learning_rate),
        "minibatches_due": learner.minibatches_due,
        "metrics": dict(learner.metrics),
    }


def load_learner_state(learner: Learner, state: dict[str, Any]) -> None:
    """Puts back what `learner_state` returned and `learner_pattern` describes."""
    load_state_by_name(learner.optimizer, learner.named_parameters, state["optimizer_state"])
    learner.fit_optimizer()
    learner.learning_rate = state["learning_rate"]
    set_learning_rate(learner.optimizer, learner.learning_rate)
    learner.minibatches_due = state["minibatches_due"]
    learner.metrics = dict(state["metrics"])


def learning_state(learner: Learner, reward_normalizer: RewardNormalizer | None) -> dict[str, Any]:
    """Of everything that learns beside the policy, by name."""
    state = {"learner": learner_state(learner)}
    return state if reward_normalizer is None else {**state, "reward_normalizer": reward_normalizer.state_dict()}


def learning_pattern(learner: Learner, reward_normalizer: RewardNormalizer | None) -> dict[str, Pattern]:
    """Of `learning_state`, for parts like these."""
    pattern = {"learner": learner_pattern(learner)}
    return pattern if reward_normalizer is None else {**pattern, "reward_normalizer": REWARD_NORMALIZER}


def load_learning_state(learner: Learner, reward_normalizer: RewardNormalizer | None, state: dict[str, Any]) -> None:
    """Puts back what `learning_state` returned and `learning_pattern` describes."""
    load_learner_state(learner, state["learner"])
    if reward_normalizer is not None:
        reward_normalizer.load_state_dict(state["reward_normalizer"])


def check_trainer_state(path: Path, state: Any, shared: Pattern, own: Pattern, world_size: int) -> None:
    """Compares what was loaded from `trainer_state.pt` with what a trainer would have saved.

    Args:
        path: what messages call it.
        state: that was loaded.
        shared: what all processes have together.
        own: what every one of them has in the list `ranks`.
        world_size: processes now; of a state of more or fewer no more is used, and looked at, than the first interval.

    Raises:
        CheckpointError: at the first difference.
    """
    try:
        check(state, shared, "trainer_state")
        if len(state["ranks"]) == world_size:
            check(state["ranks"], each(own), "ranks")
        else:
            check(state["ranks"][0].get("interval"), INTERVAL, "ranks[0]['interval']")
    except Mismatch as error:
        raise CheckpointError(
            f"{path} was saved with other settings than these, or is damaged: {error}; "
            "use the settings of the run, or another checkpoint"
        ) from error
