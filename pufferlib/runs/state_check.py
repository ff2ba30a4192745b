"""Compares what a checkpoint holds with what a trainer would have saved, before anything of it is used.

A file may be damaged, edited, or of a trainer with other settings, and kernels and environments trust what they are
given. `compare` takes an expected value of the same structure, whose leaves are:

- a tensor, for one of its dtype and shape in memory;
- `int` for a count, `float` for a finite number, another type for itself;
- a function of what was found and its place that raises Mismatch;
- any other plain value, for an equal one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any
import torch
from torch import Tensor
import json
from collections.abc import Mapping
import numpy as np
from pufferlib.errors import APIUsageError
from pathlib import Path
from pufferlib import spaces
from pufferlib.errors import CheckpointError
from pufferlib.extensions.optimizers import Muon, Sgd
from pufferlib.ppo.collector import BOUNDARY_COLUMNS, Collector
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.rollout import FinalValues
from pufferlib.runs.trainer_state import rollout_state
from pufferlib.runs.trainer_state import TrainerParts, named_parameters
from pufferlib.vector.base import RESULT_ARRAYS


Check = Callable[[Any, str], None]

MAX_COUNT = 2**53  # a float64, as JSON and loggers have it, still tells it from the next one


class Mismatch(Exception):
    """A value differs from the expected one; the message has the place, the expected and the found value."""


def compare(found: Any, expected: Any, place: str) -> None:
    """Compares what was loaded with what is expected, see the top of this file; `place` is for messages.

    Raises:
        Mismatch: at the first difference.
    """
    if isinstance(expected, Tensor):
        require(_is_like(found, expected), place, describe(expected), found)
    elif isinstance(expected, dict):
        require(type(found) is dict, place, f"a dict of {_join(expected)}", found)
        for name in (*expected, *found):
            require(name in found, place, f"a dict with {name!r}", found)
            require(name in expected, place, f"a dict without {name!r}, only of {_join(expected) or 'nothing'}", found)
        for name, part in expected.items():
            compare(found[name], part, f"{place}[{name!r}]")
    elif isinstance(expected, list):
        require(type(found) is list and len(found) == len(expected), place, f"a list of {len(expected)}", found)
        for index, part in enumerate(expected):
            compare(found[index], part, f"{place}[{index}]")
    elif expected is int:
        require(type(found) is int and 0 <= found <= MAX_COUNT, place, "an integer of at least 0", found)
    elif expected is float:
        finite()(found, place)
    elif isinstance(expected, type):
        require(type(found) is expected, place, f"a {expected.__name__}", found)
    elif callable(expected):
        expected(found, place)
    else:
        require(type(found) is type(expected) and found == expected, place, repr(expected), found)


def require(is_met: bool, place: str, expected: str, found: Any) -> None:
    """Raises Mismatch unless the condition is met."""
    if not is_met:
        raise Mismatch(f"{place} must be {expected}, got {describe(found)}")


def finite(low: float = -math.inf, high: float = math.inf) -> Check:
    """Expects a finite number in a range."""

    def check(found: Any, place: str) -> None:
        is_number = type(found) in (int, float) and abs(found) <= 1e300  # false for NaN
        words = "" if low == -math.inf else f" from {low:g} to {high:g}"
        require(is_number and low <= found <= high, place, f"a finite number{words}", found)

    return check


def any_number(found: Any, place: str) -> None:
    """Expects a number; an environment or a formula may have made it infinite or NaN."""
    require(type(found) is float or (type(found) is int and abs(found) <= MAX_COUNT), place, "a number", found)


def dict_of(expected: Any) -> Check:
    """Expects a dict from text to values like the expected one."""

    def check(found: Any, place: str) -> None:
        require(type(found) is dict and all(type(name) is str for name in found), place, "a dict of names", found)
        compare(found, dict.fromkeys(found, expected), place)

    return check


def optional(expected: Any, absent: Any = None) -> Check:
    """Expects a value like the expected one, or `absent`."""

    def check(found: Any, place: str) -> None:
        if type(found) is not type(absent) or found != absent:
            compare(found, expected, place)

    return check


def describe(found: Any) -> str:
    """Describes a value in a few words."""
    if isinstance(found, Tensor):
        layout = "" if found.layout is torch.strided else f" {str(found.layout).removeprefix('torch.')}"
        return f"{str(found.dtype).removeprefix('torch.')} of shape {tuple(found.shape)}{layout}"
    if isinstance(found, dict):
        return f"a dict of {_join(found)}" if found else "an empty dict"
    if isinstance(found, (list, tuple)):
        return f"a {type(found).__name__} of {len(found)}"
    if found is None or isinstance(found, (bool, int, float, str)):
        words = repr(found)
        return words if len(words) <= 60 else f"{words[:57]}..."
    return type(found).__name__


def _is_like(found: Any, expected: Tensor) -> bool:
    return (
        isinstance(found, Tensor)
        and found.layout is torch.strided
        and found.device.type == "cpu"
        and not found.requires_grad
        and (found.dtype, found.shape) == (expected.dtype, expected.shape)
        and not found.is_conj()
        and not found.is_neg()
    )


def _join(names: Iterable[object]) -> str:
    words = [str(name)[:60] for name in names]
    return ", ".join(words[:4] + ["..."] * (len(words) > 4))


MAX_METADATA = 2**20  # letters as JSON; `archive` refuses a file with many more


def plain_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the metadata as a checkpoint holds it, with Python's numbers in place of NumPy's.

    Raises:
        APIUsageError: if a value is no number, text, None, list or dict, naming its key, or if there are too many.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise APIUsageError(f"metadata must be a dict, got {type(metadata).__name__}")
    found = _plain(metadata, "metadata")
    size = len(json.dumps(found))
    if size > MAX_METADATA:
        raise APIUsageError(
            f"metadata must have at most {MAX_METADATA:,} letters as JSON, got {size:,}; keep it in another file"
        )
    return found


def _plain(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise APIUsageError(f"the keys of {place} must be text, got {key!r}; use str({key!r})")
        return {str(key): _plain(entry, f"{place}[{key!r}]") for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry, f"{place}[{index}]") for index, entry in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    for kind in (bool, int, float, str):  # subclasses too, which a checkpoint could not hold as they are
        if isinstance(value, kind):
            return kind(value)
    raise APIUsageError(
        f"{place} must be a number, text, None, or a list or dict of them, got {type(value).__name__}; "
        "convert it first, as with .item() or .tolist()"
    )


def check_metadata(found: Any, place: str) -> None:
    """Raises Mismatch for metadata that `plain_metadata` would not return."""
    require(type(found) is dict, place, "a dict", found)
    try:
        plain_metadata(found)
    except (APIUsageError, RecursionError) as error:
        raise Mismatch(f"{place} must be plain numbers, text, lists and dicts ({error})") from error


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
