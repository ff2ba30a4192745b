"""Checks the loaded state of a trainer against the trainer that is to go on from it; see `checkpoint_pattern`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pufferlib import spaces
from pufferlib.errors import CheckpointError
from pufferlib.extensions.optimizers import Muon, Sgd
from pufferlib.ppo.collector import BOUNDARY_COLUMNS, Collector
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.rollout import FinalValues
from pufferlib.runs.checkpoint_pattern import (
    Check,
    Mismatch,
    any_number,
    compare,
    dict_of,
    finite,
    optional,
    require,
)
from pufferlib.runs.collector_state import rollout_state
from pufferlib.runs.metadata import check_metadata
from pufferlib.runs.trainer_state import TrainerParts, named_parameters
from pufferlib.vector.base import RESULT_ARRAYS

_numbers = dict_of(any_number)
_seconds = finite(0.0, 1e10)


def _check_statistics(found: Any, place: str) -> None:  # of FinishedEpisodes
    returns = dict.fromkeys(("return_sum", "return_min", "return_max"), any_number)
    episodes = {"count": int, "length_sum": int, **returns}
    compare(found, {"sums": _numbers, "counts": _numbers, "episodes": episodes}, place)
    are_counted = found["sums"].keys() == found["counts"].keys() and all(n > 0 for n in found["counts"].values())
    require(are_counted, place, "sums with a count each", found)


_INTERVAL = {  # of Report
    **dict.fromkeys(("seconds", "iteration_seconds"), _seconds),
    **dict.fromkeys(("episodes", "before"), _check_statistics),
}


def check_trainer_state(path: Path, state: Any, parts: TrainerParts, world_size: int) -> None:
    """Checks what was loaded from `trainer_state.pt` against the parts of the trainer that is to go on.

    Of a state of more or fewer processes only the first interval is used, and checked.

    Raises:
        CheckpointError: at the first difference.
    """
    expected = {
        **{"format": int, "env": str, "model": str, "metadata": check_metadata},
        **{"epoch": int, "global_step": int, "untrained_steps": int, "logged": [int, int]},
        **{"uptime": _seconds, "learning_rate": float, "losses": _numbers},
        **{"learning": expected_learning(parts), "ranks": list},
    }
    try:
        compare(state, expected, "trainer_state")
        epoch, step = state["logged"]
        is_past = epoch <= state["epoch"] and max(step, state["untrained_steps"]) <= state["global_step"]
        require(is_past, "trainer_state", "of fewer logged and untrained steps than all", state)
        ranks = state["ranks"]
        require(bool(ranks) and all(type(rank) is dict for rank in ranks), "ranks", "a list of dicts", ranks)
        if len(ranks) == world_size:
            compare(ranks, [_expected_rank(parts)] * world_size, "ranks")
        else:
            compare(ranks[0].get("interval"), _INTERVAL, "ranks[0]['interval']")
    except Mismatch as error:
        raise CheckpointError(
            f"{path} was saved with other settings than these, or is damaged: {error}; "
            "use the settings of the run, or another checkpoint"
        ) from error


def expected_learning(parts: TrainerParts) -> dict[str, Any]:
    """Returns what `learning_state` of parts like these may return, for `compare`."""
    learner = parts.learner
    expected = {
        "learner": {
            "optimizer": learner.config.optimizer,
            "optimizer_state": _expected_optimizer(learner),
            "learning_rate": float,
            "minibatches_due": finite(-1.0, 1.0),
            "metrics": _numbers,
        }
    }
    if parts.reward_normalizer is not None:
        expected["reward_normalizer"] = {"count": finite(0.0), "mean": float, "variance": finite(0.0)}
    return expected


def _expected_optimizer(learner: Learner) -> dict[str, Any]:
    expected = {}
    for name, parameter in named_parameters(learner).items():
        if isinstance(learner.optimizer, Sgd) or (isinstance(learner.optimizer, Muon) and parameter.dim() == 2):
            state = {"momentum_buffer": parameter.detach()}
        else:
            state = {"step": _check_step, "exp_avg": parameter.detach(), "exp_avg_sq": parameter.detach()}
        expected[name] = optional(state, {})  # one that was never stepped has none
    return expected


def _check_step(found: Any, place: str) -> None:
    compare(found, torch.zeros(()), place)
    require(bool(found >= 0.0), place, "a count", found)


def _expected_rank(parts: TrainerParts) -> dict[str, Any]:
    rollout = {"content": _expected_rollout(parts.collector), "statistics": _numbers}
    return {
        "interval": _INTERVAL,
        "generator": _generator(parts.generator.device),
        "torch_generator": _generator(torch.device("cpu")),
        "collector": optional(_expected_collector(parts.collector)),
        "rollout": optional(rollout),
    }


def _expected_collector(collector: Collector) -> dict[str, Any]:
    vecenv, rollout, normalizer = collector.vecenv, collector.rollout, collector.reward_normalizer
    return {
        "environments": [_check_bytes] * vecenv.num_envs,  # the vector checks the sizes of snapshots
        "arrays": dict.fromkeys(RESULT_ARRAYS, _check_bytes),
        "order": [[int] * vecenv.batch_size] * (vecenv.num_envs // vecenv.batch_size),
        "columns": {name: getattr(rollout, name)[: vecenv.num_agents, -1] for name in BOUNDARY_COLUMNS},
        "actor": collector.actor.state_dict(),
        "tracker": {name: torch.from_numpy(array) for name, array in collector.tracker.state_dict().items()},
        "reward_sums": None if normalizer is None else torch.tensor(normalizer.sums),
        "statistics": _check_statistics,
    }


def _expected_rollout(collector: Collector) -> dict[str, Any]:
    rollout, space = collector.rollout, collector.vecenv.single_action_space

    def check_actions(found: Any, place: str) -> None:  # kernels read them as indices
        compare(found, rollout.actions, place)
        flat = found.reshape(rollout.segments * rollout.horizon, -1)
        for part in spaces.action_parts(space):
            chosen = flat[:, part.columns]
            is_possible = part.choices is None or bool(((chosen >= 0) & (chosen < part.choices)).all())
            require(is_possible, place, f"of {space}", found)

    def check_finals(found: Any, place: str) -> None:  # and these
        compare(found, dict.fromkeys(FinalValues._fields, Tensor), place)
        segments, columns, values = found.values()
        size = segments.numel()
        index = torch.empty(size, dtype=torch.int64, device="meta")
        compare(list(found.values()), [index, index, index.float()], place)
        is_inside = (segments >= 0) & (segments < rollout.segments) & (columns >= 1) & (columns <= rollout.horizon)
        require(bool(is_inside.all()), place, "places in the rollout", found)

    return {**rollout_state(rollout), "actions": check_actions, "finals": optional(check_finals)}


def _generator(device: torch.device) -> Check:
    def check(found: Any, place: str) -> None:
        generator = torch.Generator(device)
        compare(found, generator.get_state(), place)
        try:
            generator.set_state(found)
        except RuntimeError as error:
            raise Mismatch(f"{place} must be the state of a random generator, got other numbers") from error

    return check


def _check_bytes(found: Any, place: str) -> None:
    size = found.numel() if isinstance(found, Tensor) else 0
    compare(found, torch.empty(size, dtype=torch.uint8, device="meta"), place)
