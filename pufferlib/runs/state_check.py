"""Checks what a checkpoint file holds before torch reads it, and against what the running objects have.

The file may come from a stranger and be made to exhaust the machine. It is a zip archive: `data.pkl` describes the
content, and one part holds the numbers of each tensor. Nothing in the pickle is executed, and every size that it claims
is compared with the sizes of the parts.
"""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import gymnasium
import numpy as np
import torch
from torch import Tensor

from pufferlib import spaces
from pufferlib.errors import APIUsageError, CheckpointError
from pufferlib.extensions.optimizers import Muon, Sgd
from pufferlib.ppo.collector import BOUNDARY_COLUMNS
from pufferlib.ppo.rollout import FinalValues, Rollout
from pufferlib.runs.trainer_state import TrainerParts, named_parameters, rollout_state
from pufferlib.vector.base import RESULT_ARRAYS

MAX_DIRECTORY_BYTES = 4 * 2**20  # of the archive's list of parts: some 40,000 tensors
MAX_PICKLE_BYTES = 8 * 2**20
MAX_ENTRIES = 2**19  # of the content, seen as a tree
MAX_READS = 2 * MAX_ENTRIES  # of the pickle: one for each instruction, one for each of its operands
MAX_DEPTH = 500  # of lists and dicts
MAX_REPEATED = 2**16  # numbers of a tensor that refers to stored numbers several times, as `expand` makes one

_END, _END64, _LOCATOR64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")

_DTYPES = {
    **{"Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16},
    **{"Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8},
    **{"Bool": torch.bool, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128},
}


class Refused(ValueError):
    """A file is not as `torch.save` writes it; the message says why."""


def outline(file: BinaryIO) -> Any:
    """Returns what `torch.load` would return of an open file, with every tensor on torch's `meta` device.

    Raises Refused if the file is not as `torch.save` writes tensors, numbers, text, lists and dicts, or too large, and
    BadZipFile if it is damaged.
    """
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        sizes = _part_sizes(archive, os.fstat(file.fileno()).st_size)
        folder = PurePosixPath(next(iter(sizes), "")).parts[:1]  # torch takes that of the first part
        name = "/".join((*folder, "data.pkl"))
        if not folder or sizes.get(name, MAX_PICKLE_BYTES + 1) > MAX_PICKLE_BYTES:
            raise Refused(f"it must have a part data.pkl of at most {MAX_PICKLE_BYTES:,} bytes")
        data = archive.read(name)
    prefix = f"{folder[0]}/data/"
    numbers = {part.removeprefix(prefix): size for part, size in sizes.items() if part.startswith(prefix)}
    reader = _OutlinePickle(data, numbers)
    try:
        found = reader.load()
    except Refused:
        raise
    except Exception as error:  # an instruction was given something of another type
        raise Refused("its data.pkl was not written by torch.save") from error
    if reader.stack or reader.metastack:
        raise Refused("its data.pkl was not written by torch.save")
    _check_content(found)
    return found


def _check_directory(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END64.size - _LOCATOR64.size - _END.size))
    tail = file.read()
    if len(tail) < _END.size or not tail[-_END.size :].startswith(b"PK\5\6"):
        raise Refused("it is no archive of torch.save")
    end, length, begin = size - _END.size, *_END.unpack(tail[-_END.size :])[5:7]
    locator = tail[-_END.size - _LOCATOR64.size : -_END.size]
    if locator.startswith(b"PK\6\7"):
        end -= _LOCATOR64.size + _END64.size
        if end < 0 or _LOCATOR64.unpack(locator)[2] != end or not tail.startswith(b"PK\6\6"):
            raise Refused("its list of parts is not where it says")
        length, begin = _END64.unpack(tail[: _END64.size])[8:10]
    if begin + length != end or length > MAX_DIRECTORY_BYTES:
        raise Refused(f"it must end with a list of its parts of at most {MAX_DIRECTORY_BYTES:,} bytes")


def _part_sizes(archive: zipfile.ZipFile, file_size: int) -> dict[str, int]:
    parts = archive.infolist()
    if any(part.compress_type or part.file_size != part.compress_size or part.flag_bits & 1 for part in parts):
        raise Refused("its parts must be stored as they are, found a compressed one")
    sizes = {part.filename: part.file_size for part in parts}
    if len({name.casefold() for name in sizes}) < len(parts) or sum(sizes.values()) > file_size:
        raise Refused("its parts must lie in it side by side, and have names of their own")
    return sizes


def _check_content(found: object) -> None:
    count, waiting = 0, [(found, 0)]
    while waiting:
        part, depth = waiting.pop()
        count += 1
        children = dict.values(part) if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ()
        if isinstance(part, dict) and not all(type(key) in (str, int) for key in part):
            raise Refused("the keys of its dicts must be text or integers")
        if isinstance(part, _OrderedDict):
            _check_attributes(vars(part))
        elif type(part) not in (Tensor, int, float, bool, str, type(None), list, tuple, dict):
            raise _unknown(part)
        waiting += [(child, depth + 1) for child in children]
        if depth > MAX_DEPTH or count + len(waiting) > MAX_ENTRIES:
            raise Refused(f"it must have at most {MAX_ENTRIES:,} entries, {MAX_DEPTH} deep")


def _check_attributes(attributes: dict[str, Any]) -> None:
    versions = attributes.get("_metadata", {})
    are_plain = isinstance(versions, dict) and all(
        isinstance(name, str) and isinstance(entry, dict) and all(type(value) is int for value in entry.values())
        for name, entry in versions.items()
    )
    if not are_plain or attributes.keys() - {"_metadata"}:
        raise Refused("a dict in it must have no attributes but the versions of modules")


def _unknown(name: object) -> Refused:
    words = ascii(str(name)[:60]).strip("'") if isinstance(name, str) else type(name).__name__
    return Refused(f"it must hold tensors, numbers, text, lists and dicts, found a {words}")


class _OrderedDict(dict):
    pass


class _Storage:
    def __init__(self, dtype: torch.dtype, count: int):
        self.dtype, self.count = dtype, count


class _Name(str):  # of a class or function that the pickle names
    __slots__ = ()


class _LimitedFile(io.BytesIO):
    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        found = super().read(size)
        if self.reads > MAX_READS or len(found) < (size or 0):
            raise Refused(f"its data.pkl must be whole, and have at most {MAX_ENTRIES:,} instructions")
        return found

    def readline(self, size: int | None = -1) -> bytes:
        return super().readline(400)  # a name of a module or class


class _OutlinePickle(pickle._Unpickler):  # the one in Python: that in C cannot be restricted to some instructions
    _ALLOWED = """PROTO STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1
        BINFLOAT BINUNICODE GLOBAL BINPUT LONG_BINPUT BINGET LONG_BINGET TUPLE TUPLE1 TUPLE2 TUPLE3 BINPERSID"""
    dispatch = {code[0]: pickle._Unpickler.dispatch[code[0]] for code in map(vars(pickle).get, _ALLOWED.split())}

    def __init__(self, data: bytes, sizes: dict[str, int]):
        super().__init__(_LimitedFile(data))
        self._sizes = sizes

    def find_class(self, module: str, name: str) -> _Name:
        return _Name(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        word, kind, key, _, count = pid
        if word != "storage" or type(kind) is not _Name or type(key) is not str or type(count) is not int:
            raise Refused("its data.pkl names no numbers of a tensor")
        module, _, name = kind.rpartition(".")
        dtype = _DTYPES.get(name.removesuffix("Storage"))
        if module != "torch" or dtype is None:
            raise _unknown(kind)
        if count * dtype.itemsize != self._sizes[key]:
            raise Refused("its tensors must have as many numbers as its data.pkl says")
        return _Storage(dtype, count)

    def load_reduce(self) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        if type(name) is not _Name or name not in _CALLS:
            raise _unknown(name)
        self.append(_CALLS[name](*arguments))

    def load_build(self) -> None:
        attributes, target = self.stack.pop(), self.stack[-1]
        if type(target) is not _OrderedDict or not isinstance(attributes, dict):
            raise Refused("its data.pkl gives attributes to what has none")
        vars(target).update(attributes)

    def _extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, dict):
            keys = values[::2]
            if not all(type(key) in (str, int) for key in keys):  # hashing a deep tuple would crash Python
                raise Refused("the keys of its dicts must be text or integers")
            target.update(zip(keys, values[1::2], strict=True))
        elif type(target) is list:
            target += values
        else:
            raise Refused("its data.pkl appends to what is no list")

    def load_append(self) -> None:
        self._extend([self.stack.pop()])

    def load_setitem(self) -> None:
        value = self.stack.pop()
        self._extend([self.stack.pop(), value])

    def load_items(self) -> None:
        self._extend(self.pop_mark())

    dispatch |= {pickle.REDUCE[0]: load_reduce, pickle.BUILD[0]: load_build, pickle.SETITEM[0]: load_setitem}
    dispatch |= {pickle.APPEND[0]: load_append, pickle.APPENDS[0]: load_items, pickle.SETITEMS[0]: load_items}


def _tensor(*arguments: Any) -> Tensor:
    storage, offset, shape, strides, requires_grad, hooks, *bits = arguments
    are_plain = type(requires_grad) is bool and type(hooks) is _OrderedDict and not hooks and not any(bits)
    are_sizes = all(type(size) is int and 0 <= size < 2**62 for size in (offset, *shape, *strides))
    if not isinstance(storage, _Storage) or not are_plain or not are_sizes or len(shape) != len(strides):
        raise Refused("a tensor in it has no sizes")
    count = math.prod(shape)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if count else -1
    if count > max(storage.count, MAX_REPEATED) or last >= storage.count:
        raise Refused("a tensor in it has more numbers than are stored")
    return torch.empty_strided(shape, strides, dtype=storage.dtype, device="meta")


def _parameter(found: object, *others: object) -> Tensor:
    if not isinstance(found, Tensor):
        raise Refused("a parameter in it is no tensor")
    return found


_CALLS = {
    "collections.OrderedDict": _OrderedDict,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
}


Check = Callable[[Any, str], None]  # of what was found and its place; raises Mismatch

MAX_COUNT = 2**53  # a float64, as JSON and loggers have it, still tells it from the next one


class Mismatch(Exception):
    """A value differs from the expected one; the message has the place, the expected and the found value."""


def compare(found: object, expected: object, place: str) -> None:
    """Compares what was loaded with what is expected; raises Mismatch at the first difference, with its place.

    Expected may be a tensor, whose dtype and shape count; a dict or a list of expected values; `int` for one of at
    least 0; `float` for any finite number; another type; a `Check`; or a value itself.
    """
    if isinstance(expected, Tensor):
        _require(_is_like(found, expected), place, describe(expected), found)
    elif isinstance(expected, dict):
        _require(type(found) is dict, place, f"a dict of {_join(expected)}", found)
        for name in (*expected, *found):
            _require(name in found, place, f"a dict with {name!r}", found)
            _require(name in expected, place, f"a dict without {name!r}, only of {_join(expected) or 'nothing'}", found)
        for name, part in expected.items():
            compare(found[name], part, f"{place}[{name!r}]")
    elif isinstance(expected, list):
        _require(type(found) is list and len(found) == len(expected), place, f"a list of {len(expected)}", found)
        for index, part in enumerate(expected):
            compare(found[index], part, f"{place}[{index}]")
    elif expected is int:
        _require(type(found) is int and 0 <= found <= MAX_COUNT, place, "an integer of at least 0", found)
    elif expected is float:
        finite()(found, place)
    elif isinstance(expected, type):
        _require(type(found) is expected, place, f"a {expected.__name__}", found)
    elif callable(expected):
        expected(found, place)
    else:
        _require(type(found) is type(expected) and found == expected, place, repr(expected), found)


def _require(is_met: bool, place: str, expected: str, found: object) -> None:
    if not is_met:
        raise Mismatch(f"{place} must be {expected}, got {describe(found)}")


def finite(low: float = -math.inf, high: float = math.inf) -> Check:
    """Expects a finite number in a range."""

    def check(found: Any, place: str) -> None:
        is_number = type(found) in (int, float) and abs(found) <= 1e300  # false for NaN
        words = "" if low == -math.inf else f" from {low:g} to {high:g}"
        _require(is_number and low <= found <= high, place, f"a finite number{words}", found)

    return check


def _check_numbers(found: Any, place: str) -> None:  # an environment or a formula may have made them infinite or NaN
    _require(type(found) is dict and all(type(name) is str for name in found), place, "a dict of names", found)
    for name, value in found.items():
        is_number = type(value) is float or (type(value) is int and abs(value) <= MAX_COUNT)
        _require(is_number, f"{place}[{name!r}]", "a number", value)


def _optional(expected: object, absent: object = None) -> Check:
    def check(found: Any, place: str) -> None:
        if type(found) is not type(absent) or found != absent:
            compare(found, expected, place)

    return check


def describe(found: object) -> str:
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


def _is_like(found: object, expected: Tensor) -> bool:
    return (
        isinstance(found, Tensor)
        and found.layout is torch.strided
        and found.device.type == "cpu"
        and not (found.requires_grad or found.is_conj() or found.is_neg())
        and (found.dtype, found.shape) == (expected.dtype, expected.shape)
    )


def _join(names: Iterable[object]) -> str:
    words = [str(name)[:60] for name in names]
    return ", ".join(words[:4] + ["..."] * (len(words) > 4))


MAX_METADATA = 2**20  # letters as JSON; `outline` refuses a file with many more


def plain_metadata(metadata: object) -> dict[str, Any]:
    """Returns the metadata as a checkpoint holds it, with Python's numbers in place of NumPy's.

    The APIUsageError for a value that is no number, text, None, list or dict names its key; there may not be too many.
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


def _plain(value: object, place: str) -> Any:
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


def check_metadata(found: object, place: str) -> None:
    """Raises Mismatch for metadata that `plain_metadata` would not return."""
    _require(type(found) is dict, place, "a dict", found)
    try:
        plain_metadata(found)
    except (APIUsageError, RecursionError) as error:
        raise Mismatch(f"{place} must be plain numbers, text, lists and dicts ({error})") from error


def _check_statistics(found: Any, place: str) -> None:  # of FinishedEpisodes
    compare(found, dict.fromkeys(("sums", "counts", "episodes"), _check_numbers), place)
    names = dict.fromkeys(("return_sum", "return_min", "return_max"), lambda found, place: None)  # any numbers
    compare(found["episodes"], {"count": int, "length_sum": int, **names}, f"{place}['episodes']")
    are_counted = found["sums"].keys() == found["counts"].keys() and all(n > 0 for n in found["counts"].values())
    _require(are_counted, place, "sums with a count each", found)


_SECONDS = finite(0.0, 1e10)
_INTERVAL = {  # of Report
    **dict.fromkeys(("seconds", "iteration_seconds"), _SECONDS),
    **dict.fromkeys(("episodes", "before"), _check_statistics),
}
PROGRESS = {"epoch": int, "global_step": int, "uptime": _SECONDS, "learning_rate": float}


def check_trainer_state(path: Path, state: dict[str, Any], parts: TrainerParts, world_size: int) -> None:
    """Checks what was loaded from `trainer_state.pt` against the parts of the trainer that is to continue.

    Of a state of more or fewer processes only the first interval is used, and checked. CheckpointError names the first
    difference.
    """
    expected = {
        **{"format": int, "env": str, "model": str, "metadata": check_metadata},
        **{**PROGRESS, "untrained_steps": int, "logged": [int, int], "losses": _check_numbers},
        **{"learning": expected_learning(parts), "ranks": list},
    }
    try:
        compare(state, expected, "trainer_state")
        epoch, step = state["logged"]
        is_past = epoch <= state["epoch"] and max(step, state["untrained_steps"]) <= state["global_step"]
        _require(is_past, "trainer_state", "of fewer logged and untrained steps than all", state)
        ranks = state["ranks"]
        _require(bool(ranks) and all(type(rank) is dict for rank in ranks), "ranks", "a list of dicts", ranks)
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
    learner, of_optimizer = parts.learner, {}
    for name, parameter in named_parameters(learner).items():
        if isinstance(learner.optimizer, Sgd) or (isinstance(learner.optimizer, Muon) and parameter.dim() == 2):
            state = {"momentum_buffer": parameter.detach()}
        else:
            state = {"step": _check_step, "exp_avg": parameter.detach(), "exp_avg_sq": parameter.detach()}
        of_optimizer[name] = _optional(state, {})  # one that was never stepped has none
    expected = {
        "learner": {
            "optimizer": learner.config.optimizer,
            "optimizer_state": of_optimizer,
            "learning_rate": float,
            "minibatches_due": finite(-1.0, 1.0),
            "metrics": _check_numbers,
        }
    }
    if parts.reward_normalizer is not None:
        expected["reward_normalizer"] = {"count": finite(0.0), "mean": float, "variance": finite(0.0)}
    return expected


def _check_step(found: Any, place: str) -> None:
    compare(found, torch.zeros(()), place)
    _require(bool(found >= 0.0), place, "a count", found)


def _expected_rank(parts: TrainerParts) -> dict[str, Any]:
    collector = parts.collector
    vecenv, rollout, normalizer = collector.vecenv, collector.rollout, collector.reward_normalizer
    content = {
        **rollout_state(rollout),
        "actions": partial(_check_actions, rollout, vecenv.single_action_space),
        "finals": _optional(partial(_check_finals, rollout)),
    }
    of_collector = {
        "environments": [_check_bytes] * vecenv.num_envs,  # the vector checks the sizes of snapshots
        "arrays": dict.fromkeys(RESULT_ARRAYS, _check_bytes),
        "order": [[int] * vecenv.batch_size] * (vecenv.num_envs // vecenv.batch_size),
        "columns": {name: getattr(rollout, name)[: vecenv.num_agents, -1] for name in BOUNDARY_COLUMNS},
        "actor": collector.actor.state_dict(),
        "tracker": {name: torch.from_numpy(array) for name, array in collector.tracker.state_dict().items()},
        "reward_sums": None if normalizer is None else torch.tensor(normalizer.sums),
        "statistics": _check_statistics,
    }
    return {
        "interval": _INTERVAL,
        "generator": partial(_check_generator, parts.generator.device),
        "torch_generator": partial(_check_generator, torch.device("cpu")),
        "collector": _optional(of_collector),
        "rollout": _optional({"content": content, "statistics": _check_numbers}),
    }


def _check_actions(rollout: Rollout, space: gymnasium.Space, found: Any, place: str) -> None:
    compare(found, rollout.actions, place)
    flat = found.reshape(rollout.segments * rollout.horizon, -1)
    for part in spaces.action_parts(space):  # kernels read them as indices
        chosen = flat[:, part.columns]
        is_possible = part.choices is None or bool(((chosen >= 0) & (chosen < part.choices)).all())
        _require(is_possible, place, f"of {space}", found)


def _check_finals(rollout: Rollout, found: Any, place: str) -> None:
    compare(found, dict.fromkeys(FinalValues._fields, Tensor), place)
    segments, columns, values = found.values()
    index = torch.empty(segments.numel(), dtype=torch.int64, device="meta")
    compare([segments, columns, values], [index, index, index.float()], place)
    is_inside = (segments >= 0) & (segments < rollout.segments) & (columns >= 1) & (columns <= rollout.horizon)
    _require(bool(is_inside.all()), place, "places in the rollout", found)  # kernels read these as indices too


def _check_generator(device: torch.device, found: Any, place: str) -> None:
    generator = torch.Generator(device)
    compare(found, generator.get_state(), place)
    try:
        generator.set_state(found)
    except RuntimeError as error:
        raise Mismatch(f"{place} must be the state of a random generator, got other numbers") from error


def _check_bytes(found: Any, place: str) -> None:
    size = found.numel() if isinstance(found, Tensor) else 0
    compare(found, torch.empty(size, dtype=torch.uint8, device="meta"), place)
