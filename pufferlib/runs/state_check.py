"""Reads checkpoint files that may come from strangers, and checks them against what the running objects have."""

from __future__ import annotations

import json
import os
import pickletools
import re
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import gymnasium
import numpy as np
import torch
from torch import Tensor

from pufferlib import spaces
from pufferlib.errors import APIUsageError, CheckpointError
from pufferlib.extensions.optimizers import Muon, Sgd
from pufferlib.ppo.collector import BOUNDARY_COLUMNS, Collector
from pufferlib.ppo.opponents import ARRAYS, RESULTS
from pufferlib.ppo.rollout import FinalValues, Rollout
from pufferlib.reading import UnreadableFile
from pufferlib.runs.trainer_state import TrainerParts, rollout_state

MAX_ENTRIES = 2**19  # of the content, seen as a tree
MAX_DEPTH = 500  # of lists and dicts
MAX_REPEATED = 2**16  # numbers of a tensor that refers to stored numbers several times, as `expand` makes one
_CALLED = re.compile(
    r"collections OrderedDict|torch\._utils _rebuild_(tensor_v[23]|parameter)|torch \w+Storage|"
    r"torch\.storage UntypedStorage|torch uint\w+"  # of the types that have no storage of their own
)


def read_archive(file: BinaryIO, has_numbers: bool = True) -> Any:
    """Returns what `torch.save` wrote to an open file, on the CPU; without numbers the tensors are on `meta`.

    Of the names that torch's `weights_only` calls, which run no code of the file, only those of plain tensors are
    allowed: others may fill the memory. An UnreadableFile says what is not as `torch.save` writes it.
    """
    with zipfile.ZipFile(file) as archive:
        if sum(part.file_size for part in archive.infolist()) > os.fstat(file.fileno()).st_size:
            raise UnreadableFile("its parts must lie in it side by side, as they are")
        for name in archive.namelist():
            if name.endswith("data.pkl"):
                _check_names(archive.read(name))
        if has_numbers and archive.testzip() is not None:  # torch compares no checksums
            raise UnreadableFile("a part of it fails the checksum")
    file.seek(0)
    found = torch.load(file, map_location="cpu" if has_numbers else "meta", weights_only=True)
    _check_content(found)
    return found


def _check_names(pickled: bytes) -> None:
    for count, (instruction, value, _) in enumerate(pickletools.genops(pickled)):
        if count > 2 * MAX_ENTRIES:
            raise UnreadableFile(f"its data.pkl must have at most {2 * MAX_ENTRIES:,} instructions")
        if "GLOBAL" in instruction.name and not _CALLED.fullmatch(str(value)):
            raise _unknown(str(value))


def _unknown(name: str) -> UnreadableFile:
    return UnreadableFile(f"it must hold tensors, numbers, text, lists and dicts, found a {ascii(name[:60])[1:-1]}")


def _check_content(found: object) -> None:
    count, waiting = 0, [(found, 0)]
    while waiting:
        part, depth = waiting.pop()
        count += 1
        if isinstance(part, OrderedDict) and not _has_versions_alone(part):
            raise UnreadableFile("a dict in it must have no attributes but the versions of modules")
        if isinstance(part, dict) and not all(type(key) in (str, int) for key in part):
            raise UnreadableFile("the keys of its dicts must be text or integers")
        if isinstance(part, Tensor) and part.numel() > max(len(part.untyped_storage()) // part.itemsize, MAX_REPEATED):
            raise UnreadableFile("a tensor in it has more numbers than are stored")
        children = part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ()
        if not isinstance(part, (Tensor, int, float, str, type(None), list, tuple, dict)):
            raise _unknown(type(part).__name__)
        waiting += [(child, depth + 1) for child in children]
        if depth > MAX_DEPTH or count + len(waiting) > MAX_ENTRIES:
            raise UnreadableFile(f"it must have at most {MAX_ENTRIES:,} entries, {MAX_DEPTH} deep")


def _has_versions_alone(weights: OrderedDict) -> bool:
    attributes = vars(weights)
    versions = attributes.get("_metadata", {})
    return (
        attributes.keys() <= {"_metadata"}
        and isinstance(versions, dict)
        and all(
            isinstance(entry, dict) and all(type(value) is int for value in entry.values())
            for entry in versions.values()
        )
    )


MAX_COUNT = 2**53  # a float64, as JSON and loggers have it, still tells it from the next one


class Mismatch(Exception):
    """A value differs from the expected one; the message has the place, the expected and the found value."""


def compare(found: object, expected: object, place: str) -> None:
    """Compares what was loaded with what is expected; raises Mismatch at the first difference, with its place.

    Expected may be a tensor, whose dtype and shape count; a dtype for a row of any length; a dict or a list of expected
    values; `int` for one of at least 0; `float` for any finite number; another type; a tuple of a value that may stand
    there and of what is expected otherwise; a function of what was found and its place; or a value itself.
    """
    if isinstance(expected, Tensor):
        is_like = isinstance(found, Tensor) and (found.dtype, found.shape) == (expected.dtype, expected.shape)
        _require(is_like, place, describe(expected), found)
    elif isinstance(expected, torch.dtype):
        is_row = isinstance(found, Tensor) and (found.dtype, found.dim()) == (expected, 1)
        _require(is_row, place, f"a row of {str(expected).removeprefix('torch.')}", found)
    elif isinstance(expected, dict):
        _require(type(found) is dict, place, f"a dict of {_join(expected)}", found)
        for name in (*expected, *found):
            is_in_both = name in expected and name in found
            text = f"a dict {'with' if name in expected else 'without'} {str(name)[:60]!r}"
            _require(is_in_both, place, text, found)
        for name, part in expected.items():
            compare(found[name], part, f"{place}[{name!r}]")
    elif isinstance(expected, list):
        _require(type(found) is list and len(found) == len(expected), place, f"a list of {len(expected)}", found)
        for index, part in enumerate(expected):
            compare(found[index], part, f"{place}[{index}]")
    elif isinstance(expected, tuple):
        if type(found) is not type(expected[0]) or found != expected[0]:
            compare(found, expected[1], place)
    elif expected is int:
        _require(type(found) is int and 0 <= found <= MAX_COUNT, place, "an integer of at least 0", found)
    elif expected is float:
        is_number = type(found) in (int, float) and abs(found) <= 1e300  # false for NaN
        _require(is_number, place, "a finite number", found)
    elif isinstance(expected, type):
        _require(type(found) is expected, place, f"a {expected.__name__}", found)
    elif callable(expected):
        expected(found, place)
    else:
        _require(type(found) is type(expected) and found == expected, place, repr(expected), found)


def _require(is_met: bool, place: str, expected: str, found: object) -> None:
    if not is_met:
        raise Mismatch(f"{place} must be {expected}, got {describe(found)}")


def describe(found: object) -> str:
    """Describes a value in a few words."""
    if isinstance(found, Tensor):
        return f"{str(found.dtype).removeprefix('torch.')} of shape {tuple(found.shape)}"
    if isinstance(found, dict):
        return f"a dict of {_join(found)}" if found else "an empty dict"
    if isinstance(found, (list, tuple)):
        return f"a {type(found).__name__} of {len(found)}"
    if found is None or isinstance(found, (bool, int, float, str)):
        words = repr(found)
        return words if len(words) <= 60 else f"{words[:57]}..."
    return type(found).__name__


def _join(names: Iterable[object]) -> str:
    words = [str(name)[:60] for name in names]
    return ", ".join(words[:4] + ["..."] * (len(words) > 4))


MAX_METADATA = 2**20  # letters as JSON; a file with many more is refused


def plain_metadata(metadata: object) -> dict[str, Any]:
    """Returns the metadata as a checkpoint holds it: as JSON does, with Python's numbers in place of NumPy's.

    A value that is no number, text, None, list or dict raises APIUsageError, and so do too many of them.
    """
    if not isinstance(metadata, (Mapping, type(None))):
        raise APIUsageError(f"metadata must be a dict, got {type(metadata).__name__}")
    try:
        text = json.dumps(dict(metadata or {}), default=np.generic.item)
    except (TypeError, ValueError, RecursionError) as error:
        raise APIUsageError(
            f"metadata must be numbers, text, None, or lists and dicts of them by text ({error}); convert it first, as "
            "with .item() or .tolist()"
        ) from error
    if len(text) > MAX_METADATA:
        raise APIUsageError(
            f"metadata must have at most {MAX_METADATA:,} letters as JSON, got {len(text):,}; keep it in another file"
        )
    return json.loads(text)


def _check_numbers(found: object, place: str) -> None:  # which may be infinite or NaN
    are_numbers = type(found) is dict and all(
        type(name) is str and (type(value) is float or (type(value) is int and abs(value) <= MAX_COUNT))
        for name, value in found.items()
    )
    _require(are_numbers, place, "numbers by name", found)


def _check_statistics(found: object, place: str) -> None:  # of FinishedEpisodes
    compare(found, dict.fromkeys(("sums", "counts", "episodes"), _check_numbers), place)
    names = {"count", "length_sum", "return_sum", "return_min", "return_max"}
    are_counted = found["sums"].keys() == found["counts"].keys() and all(n > 0 for n in found["counts"].values())
    _require(are_counted and found["episodes"].keys() == names, place, "sums with a count each", found)


_INTERVAL = {  # of Report
    **dict.fromkeys(("seconds", "iteration_seconds"), float),
    **dict.fromkeys(("episodes", "before"), _check_statistics),
}
PROGRESS = {
    **dict.fromkeys(("epoch", "global_step", "anneal_start", "end"), int),
    **dict.fromkeys(("uptime", "learning_rate"), float),
}


def check_trainer_state(path: Path, state: dict[str, Any], parts: TrainerParts, world_size: int) -> None:
    """Checks what was loaded from `trainer_state.pt` against the parts of the trainer that is to continue.

    Of a state of more or fewer processes only the first interval and the members of the pool are used, and checked.
    """
    expected = {
        **{"format": int, "env": str, "model": str, "metadata": dict},
        **{**PROGRESS, "untrained_steps": int, "logged": [int, int], "losses": _check_numbers},
        **{"learning": expected_learning(parts), "ranks": list},
    }
    try:
        compare(state, expected, "trainer_state")
        epoch, step = state["logged"]
        is_past = (
            max(epoch, state["anneal_start"]) <= state["epoch"]
            and max(step, state["untrained_steps"]) <= state["global_step"]
        )
        _require(is_past, "trainer_state", "with no count beyond its own epoch and steps", state)
        ranks = state["ranks"]
        _require(bool(ranks) and all(type(rank) is dict for rank in ranks), "ranks", "a list of dicts", ranks)
        if len(ranks) == world_size:
            compare(ranks, [_expected_rank(parts)] * world_size, "ranks")
        else:
            compare(ranks[0].get("interval"), _INTERVAL, "ranks[0]['interval']")
            if parts.collector.pool is not None:
                pool, place = ranks[0].get("pool"), "ranks[0]['pool']"
                expected = _expected_members(parts.collector, pool, place)
                compare({name: pool.get(name) for name in expected}, expected, place)
    except Mismatch as error:
        raise CheckpointError(
            f"{path} was saved with other settings than these, or is damaged: {error}; "
            "use the settings of the run, or another checkpoint"
        ) from error


def expected_learning(parts: TrainerParts) -> dict[str, Any]:
    """Returns what `learning_state` of parts like these may return, for `compare`."""
    learner, of_optimizer = parts.learner, {}
    for name, parameter in learner.gradients.policy.named_parameters():
        if isinstance(learner.optimizer, Sgd) or (isinstance(learner.optimizer, Muon) and parameter.dim() == 2):
            state = {"momentum_buffer": parameter.detach()}
        else:
            state = {"step": torch.zeros(()), "exp_avg": parameter.detach(), "exp_avg_sq": parameter.detach()}
        of_optimizer[name] = ({}, state)  # one that was never stepped has none
    expected = {
        "learner": {
            "optimizer": learner.config.optimizer,
            "optimizer_state": of_optimizer,
            **{"learning_rate": float, "minibatches_due": _check_due, "metrics": _check_numbers},
        }
    }
    if parts.collector.reward_normalizer is not None:
        expected["reward_normalizer"] = dict.fromkeys(("count", "mean", "variance"), float)
    return expected


def _expected_rank(parts: TrainerParts) -> dict[str, Any]:
    collector = parts.collector
    vecenv, rollout, normalizer = collector.vecenv, collector.rollout, collector.reward_normalizer
    content = {
        **rollout_state(rollout),
        "actions": partial(_check_actions, rollout, vecenv.single_action_space),
        "finals": (None, partial(_check_finals, rollout)),
    }
    of_collector = {
        "environments": [torch.uint8] * vecenv.num_envs,  # the vector checks the sizes of snapshots
        "arrays": dict.fromkeys(vecenv.result_names, torch.uint8),
        "order": [[int] * vecenv.batch_size] * (vecenv.num_envs // vecenv.batch_size),
        "columns": {name: getattr(rollout, name)[: vecenv.num_agents, -1] for name in BOUNDARY_COLUMNS},
        "actor": collector.actor.state_dict(),
        "tracker": {name: torch.from_numpy(array) for name, array in collector.tracker.state_dict().items()},
        "reward_sums": None if normalizer is None else torch.tensor(normalizer.sums),
        "statistics": _check_statistics,
    }
    return {
        **({} if collector.pool is None else {"pool": partial(_check_pool, collector)}),
        "interval": _INTERVAL,
        "generator": partial(_check_generator, parts.generator.device),
        "torch_generator": partial(_check_generator, torch.device("cpu")),
        "collector": (None, of_collector),
        "rollout": (None, {"content": content, "statistics": _check_numbers}),
    }


def _expected_members(collector: Collector, found: object, place: str) -> dict[str, Any]:
    # Of the state of a pool, what also another number of processes continues with.
    pool, weights = collector.pool, dict(collector.actor.policy.state_dict())
    _require(type(found) is dict and type(found.get("names")) is list, place, "a pool of opponents", found)
    count, fixed = len(found["names"]), [member.name for member in pool.members[: pool.num_fixed]]
    _require(count <= pool.capacity - pool.num_fixed, place, f"of a pool_size of {count} or more", found["names"])
    known = found.setdefault("fixed", fixed)  # earlier checkpoints do not tell
    _require(known == fixed, f"{place}['fixed']", f"the pool_members {', '.join(fixed)}", known)
    return {
        **{name: torch.from_numpy(getattr(pool, name)) for name in RESULTS},
        **{"fixed": [str] * len(fixed), "names": [str] * count, "weights": [weights] * count, "next_snapshot": int},
    }


def _check_pool(collector: Collector, found: object, place: str) -> None:
    pool, states = collector.pool, collector.actor.states
    expected, fixed = _expected_members(collector, found, place), pool.members[: pool.num_fixed]
    expected |= {
        **{name: torch.from_numpy(getattr(pool, name)) for name in ARRAYS},
        "generator": partial(_check_generator, pool.generator.device),
        "states": [*(member.states for member in fixed), *[states] * len(found["names"])],
    }
    compare(found, expected, place)
    for name in ("opponents", "_players"):  # which are read as indices
        is_member = (found[name] >= -1) & (found[name] < len(expected["states"]))
        _require(bool(is_member.all()), place, "of members", found[name])


def _check_actions(rollout: Rollout, space: gymnasium.Space, found: object, place: str) -> None:
    compare(found, rollout.actions, place)
    flat = found.reshape(rollout.segments * rollout.horizon, -1)
    for part in spaces.action_parts(space):  # kernels read them as indices
        chosen = flat[:, part.columns]
        is_possible = part.choices is None or bool(((chosen >= 0) & (chosen < part.choices)).all())
        _require(is_possible, place, f"of {space}", found)


def _check_finals(rollout: Rollout, found: object, place: str) -> None:
    compare(found, dict(zip(FinalValues._fields, (torch.int64, torch.int64, torch.float32), strict=True)), place)
    segments, columns, values = (found[name] for name in FinalValues._fields)
    _require(len(segments) == len(columns) == len(values), place, "a column and a value for each segment", found)
    is_inside = (segments >= 0) & (segments < rollout.segments) & (columns >= 1) & (columns <= rollout.horizon)
    _require(bool(is_inside.all()), place, "places in the rollout", found)  # kernels read these as indices too


def _check_generator(device: torch.device, found: object, place: str) -> None:
    generator = torch.Generator(device)
    compare(found, generator.get_state(), place)
    try:
        generator.set_state(found)
    except RuntimeError as error:
        raise Mismatch(f"{place} must be the state of a random generator, got other numbers") from error


def _check_due(found: object, place: str) -> None:  # a large one would be so many minibatches, and train for ever
    compare(found, float, place)
    _require(-1.0 <= found <= 1.0, place, "a part of a minibatch, -1 to 1", found)
