"""What the saved state of every part of a trainer must look like; see `checkpoint_pattern`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import torch
from torch import Tensor

from pufferlib import spaces
from pufferlib.episodes import EpisodeTracker
from pufferlib.errors import CheckpointError
from pufferlib.ppo.collector import CARRIED, Collector
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.normalization import RewardNormalizer
from pufferlib.ppo.rollout import FinalValues, Rollout
from pufferlib.runs import optimizer_state
from pufferlib.runs.checkpoint_pattern import (
    Check,
    Mismatch,
    Pattern,
    any_number,
    check,
    count,
    demand,
    each,
    exactly,
    like,
    maybe,
    number,
    numbers_by_name,
    seconds,
    text,
)
from pufferlib.runs.collector_state import rollout_state
from pufferlib.runs.metadata import check_metadata
from pufferlib.runs.trainer_state import TrainerParts, named_parameters
from pufferlib.vector.base import RESULT_ARRAYS

EPISODE_TOTALS: Pattern = {
    **dict.fromkeys(("count", "length_sum"), count),
    **dict.fromkeys(("return_sum", "return_min", "return_max"), any_number),
}
"""Of `EpisodeTotals.state_dict`."""

REWARD_NORMALIZER: Pattern = {"count": number(0.0), "mean": number(), "variance": number(0.0)}
"""Of `RewardNormalizer.moments`."""


def check_statistics(found: Any, place: str) -> None:
    """Lets pass what `FinishedEpisodes.state_dict` may return.

    Raises:
        Mismatch: for anything else.
    """
    check(found, {"sums": numbers_by_name, "counts": numbers_by_name, "episodes": EPISODE_TOTALS}, place)
    are_counted = found["sums"].keys() == found["counts"].keys() and all(n > 0 for n in found["counts"].values())
    demand(are_counted, place, "sums with a count each", found)


INTERVAL: Pattern = {
    **dict.fromkeys(("seconds", "iteration_seconds"), seconds),
    **dict.fromkeys(("episodes", "before"), check_statistics),
}
"""Of `Report.state_dict`."""


def check_trainer_state(path: Path, state: Any, parts: TrainerParts, world_size: int) -> None:
    """Compares what was loaded from `trainer_state.pt` with what a trainer of such parts would have saved.

    Args:
        path: what messages call it.
        state: that was loaded.
        parts: of the trainer that is to go on.
        world_size: processes now; of a state of more or fewer no more is used, and looked at, than the first interval.

    Raises:
        CheckpointError: at the first difference.
    """
    try:
        check(state, _trainer_pattern(parts), "trainer_state")
        if len(state["ranks"]) == world_size:
            check(state["ranks"], each(_rank_pattern(parts)), "ranks")
        else:
            check(state["ranks"][0].get("interval"), INTERVAL, "ranks[0]['interval']")
    except Mismatch as error:
        raise CheckpointError(
            f"{path} was saved with other settings than these, or is damaged: {error}; "
            "use the settings of the run, or another checkpoint"
        ) from error


def _trainer_pattern(parts: TrainerParts) -> Check:
    def check_whole(found: Any, place: str) -> None:
        check(found, pattern, place)
        epoch, step = found["logged"]
        demand(epoch <= found["epoch"] and step <= found["global_step"], f"{place}['logged']", "the past", found)
        demand(found["untrained_steps"] <= found["global_step"], place, "of more steps", found["untrained_steps"])

    pattern = {
        "format": count,
        "env": text,
        "model": text,
        "epoch": count,
        "global_step": count,
        "untrained_steps": count,
        "uptime": seconds,
        "learning_rate": number(),
        "logged": [count, count],
        "losses": numbers_by_name,
        "learning": learning_pattern(parts),
        "ranks": each(lambda found, place: demand(type(found) is dict, place, "a dict", found), least=1),
        "metadata": check_metadata,
    }
    return check_whole


def _rank_pattern(parts: TrainerParts) -> Pattern:
    collector = parts.collector
    rollout = {
        "content": rollout_pattern(collector.rollout, collector.vecenv.single_action_space),
        "statistics": numbers_by_name,
    }
    return {
        "interval": INTERVAL,
        "generator": generator_pattern(parts.generator.device),
        "torch_generator": generator_pattern(torch.device("cpu")),
        "collector": collector_pattern(collector, parts.reward_normalizer),
        "rollout": maybe(rollout),
    }


def learning_pattern(parts: TrainerParts) -> dict[str, Pattern]:
    """Of `learning_state`, for parts like these."""
    pattern = {"learner": learner_pattern(parts.learner)}
    return pattern if parts.reward_normalizer is None else {**pattern, "reward_normalizer": REWARD_NORMALIZER}


def learner_pattern(learner: Learner) -> Pattern:
    """Of `learner_state`, for a learner with this one's optimizer and parameters."""
    return {
        "optimizer": exactly(learner.config.optimizer),
        "optimizer_state": optimizer_state.state_pattern(learner.optimizer, named_parameters(learner)),
        "learning_rate": number(),
        "minibatches_due": number(-1.0, 1.0),
        "metrics": numbers_by_name,
    }


def collector_pattern(collector: Collector, reward_normalizer: RewardNormalizer | None) -> Pattern:
    """Of `collector_state`, for the same environments; the sizes of snapshots are the vector's to check.

    Args:
        collector: of the trainer that is to go on.
        reward_normalizer: scales its rewards, if one does.
    """
    agents, vecenv, rollout = collector.vecenv.num_agents, collector.vecenv, collector.rollout
    pattern = {
        "environments": [_check_bytes] * vecenv.num_envs,
        "arrays": dict.fromkeys(RESULT_ARRAYS, _check_bytes),
        "order": [[count] * vecenv.batch_size] * (vecenv.num_envs // vecenv.batch_size),
        "columns": {name: getattr(rollout, name)[:agents, -1] for name in CARRIED},
        "actor": like(collector.actor.state_dict()),
        "tracker": {name: torch.from_numpy(array) for name, array in EpisodeTracker(agents).state_dict().items()},
        "reward_sums": like(None if reward_normalizer is None else torch.tensor(reward_normalizer.sums)),
        "statistics": check_statistics,
    }
    return maybe(pattern)


def rollout_pattern(rollout: Rollout, action_space: gymnasium.Space) -> Pattern:
    """Of `rollout_state`, for a rollout of these sizes: no index in it leads out of anything.

    Args:
        rollout: of the trainer that is to go on.
        action_space: of one agent.
    """

    def check_actions(found: Any, place: str) -> None:
        check(found, rollout.actions, place)
        if found.is_meta:
            return
        flat = found.reshape(rollout.segments * rollout.horizon, -1)
        for part in spaces.action_parts(action_space):
            chosen = flat[:, part.columns]
            is_possible = part.choices is None or bool(((chosen >= 0) & (chosen < part.choices)).all())
            demand(is_possible, place, f"of {action_space}", found)

    def check_finals(found: Any, place: str) -> None:
        check(found, dict.fromkeys(FinalValues._fields, _check_row), place)
        segments, columns, values = found.values()
        is_row = (segments.dtype, columns.dtype, values.dtype) == (torch.int64, torch.int64, torch.float32) and len(
            segments
        ) == len(columns) == len(values)
        is_inside = is_row and (
            segments.is_meta
            or bool(((segments >= 0) & (segments < rollout.segments)).all())
            and bool(((columns >= 1) & (columns <= rollout.horizon)).all())
        )
        demand(is_inside, place, "places in the rollout and their values", found)

    return {**rollout_state(rollout), "actions": check_actions, "finals": maybe(check_finals)}


def generator_pattern(device: torch.device) -> Check:
    """Of the states that a random generator of the device takes."""

    def check_generator(found: Any, place: str) -> None:
        generator = torch.Generator(device)
        check(found, generator.get_state(), place)
        if found.is_meta:
            return
        try:
            generator.set_state(found)
        except RuntimeError as error:
            raise Mismatch(f"{place} must be the state of a random generator, got other numbers") from error

    return check_generator


def _check_row(found: Any, place: str) -> None:
    is_row = isinstance(found, Tensor) and found.dim() == 1
    check(found, found.new_empty(len(found)) if is_row else torch.empty(0), place)


def _check_bytes(found: Any, place: str) -> None:
    size = found.numel() if isinstance(found, Tensor) else 0
    check(found, torch.empty(size, dtype=torch.uint8, device="meta"), place)
