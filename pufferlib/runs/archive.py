"""What a file of `torch.save` holds, found out without torch reading it: a stranger's may be made to exhaust a machine.

Such a file is a zip archive of stored parts: `data.pkl`, a pickle that says what there is, and one part for the numbers
of each tensor. Here the pickle is followed, and nothing of it is run: what it describes are tensors without memory, and
numbers, text, lists and dicts. What it claims is compared with the sizes of the parts, and theirs with the file's.
"""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, BinaryIO

import torch
from torch import Tensor

MOST_DIRECTORY = 4 * 2**20
"""Bytes of an archive's list of parts: some 40,000 tensors."""

MOST_PICKLE = 8 * 2**20
"""Bytes of `data.pkl`."""

MOST_INSTRUCTIONS = 2**19
"""Of `data.pkl`: a tensor has some 25, a number in a list one."""

MOST_DEPTH = 500
"""Of lists and dicts in each other."""

MOST_REPEATED = 2**16
"""Numbers of a tensor that has some of those that are stored several times, as `expand` makes one."""

_END, _END64, _PLACE64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")

_DTYPES = {
    **{"Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16},
    **{"Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8},
    **{"Bool": torch.bool, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128},
}


class Refused(ValueError):
    """A file is not as `torch.save` writes it; the message says in what."""


def outline(file: BinaryIO) -> Any:
    """What `torch.load` would return of an open file, with every tensor on torch's `meta` device.

    Raises:
        Refused: if the archive, or the pickle in it, is not as `torch.save` writes it of tensors, numbers, text, lists
            and dicts, or holds more of them than this reads.
        zipfile.BadZipFile: if it is damaged.
    """
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        sizes = _part_sizes(archive, os.fstat(file.fileno()).st_size)
        folder = PurePosixPath(next(iter(sizes), "")).parts[:1]  # torch takes that of the first part
        name = "/".join((*folder, "data.pkl"))
        if not folder or sizes.get(name, MOST_PICKLE + 1) > MOST_PICKLE:
            raise Refused(f"it must have a part data.pkl of at most {MOST_PICKLE:,} bytes")
        data = archive.read(name)
    prefix = f"{folder[0]}/data/"
    numbers = {part.removeprefix(prefix): size for part, size in sizes.items() if part.startswith(prefix)}
    found = _Pickle(data, numbers).follow()
    _check_nesting(found)
    return found


def _check_directory(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END64.size - _PLACE64.size - _END.size))
    tail = file.read()
    if len(tail) < _END.size or not tail[-_END.size :].startswith(b"PK\5\6"):
        raise Refused("it is no archive of torch.save")
    end, length, begin = size - _END.size, *_END.unpack(tail[-_END.size :])[5:7]
    place = tail[-_END.size - _PLACE64.size : -_END.size]
    if place.startswith(b"PK\6\7"):
        end -= _PLACE64.size + _END64.size
        if end < 0 or _PLACE64.unpack(place)[2] != end or not tail.startswith(b"PK\6\6"):
            raise Refused("its list of parts is not where it says")
        length, begin = _END64.unpack(tail[: _END64.size])[8:10]
    if begin + length != end or length > MOST_DIRECTORY:
        raise Refused(f"it must end with a list of its parts of at most {MOST_DIRECTORY:,} bytes")


def _part_sizes(archive: zipfile.ZipFile, file_size: int) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in archive.infolist():
        if part.compress_type != zipfile.ZIP_STORED or part.file_size != part.compress_size or part.flag_bits & 1:
            raise Refused("its parts must be stored as they are, found a compressed one")
        sizes[part.filename] = part.file_size
    are_unique = len({name.casefold() for name in sizes}) == len(archive.infolist())
    if not are_unique or sum(sizes.values()) > file_size:
        raise Refused("its parts must lie in it side by side, and have names of their own")
    return sizes


def _check_nesting(found: Any) -> None:
    count, waiting = 0, [(found, 0)]
    while waiting:
        part, depth = waiting.pop()
        count += 1
        if isinstance(part, (_Name, _Storage)):
            found = part if isinstance(part, _Name) else "part of a tensor"
            raise Refused(f"it must hold tensors, numbers, text, lists and dicts, found a {_short(found)}")
        if isinstance(part, _OrderedDict):
            _check_versions(part.attributes)
        if isinstance(part, (list, tuple, dict)):
            waiting += [(each, depth + 1) for each in (part.values() if isinstance(part, dict) else part)]
        if depth > MOST_DEPTH or count + len(waiting) > MOST_INSTRUCTIONS:
            raise Refused(f"it must have at most {MOST_INSTRUCTIONS:,} entries, {MOST_DEPTH} deep")


def _check_versions(attributes: Mapping[str, Any]) -> None:
    versions = attributes.get("_metadata", {})
    are_plain = isinstance(versions, dict) and all(
        isinstance(name, str) and isinstance(each, dict) and all(type(value) is int for value in each.values())
        for name, each in versions.items()
    )
    if not are_plain or attributes.keys() - {"_metadata"}:
        raise Refused("a dict in it must have no attributes but the versions of modules")


class _OrderedDict(dict):
    attributes: Mapping[Any, Any] = MappingProxyType({})


class _Storage:
    def __init__(self, dtype: torch.dtype, count: int):
        self.dtype = dtype
        self.count = count


class _Name(str):
    """A class or function that the pickle names."""


class _Pickle:
    def __init__(self, data: bytes, sizes: Mapping[str, int]):
        self._data = data
        self._sizes = sizes
        self._position = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def follow(self) -> Any:
        """What it describes."""
        try:
            for _ in range(MOST_INSTRUCTIONS):
                code = self._take(1)
                if code == pickle.STOP:
                    break
                _INSTRUCTIONS[code](self)
            else:
                raise Refused(f"its data.pkl must have at most {MOST_INSTRUCTIONS:,} instructions")
        except Refused:
            raise
        except Exception as error:  # an instruction was given something of another type
            raise Refused("its data.pkl is none of torch.save") from error
        if len(self._stack) != 1 or self._marks:
            raise Refused("its data.pkl is none of torch.save")
        return self._stack[0]

    def _take(self, count: int) -> bytes:
        found = self._data[self._position : self._position + count]
        if len(found) < count:
            raise Refused("its data.pkl is cut off")
        self._position += count
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def push_number(self, form: str) -> None:
        self.push(self._number(form))

    def push_long(self) -> None:
        self.push(int.from_bytes(self._take(self._number("<B")), "little", signed=True))

    def push_text(self) -> None:
        self.push(self._take(self._number("<I")).decode("utf-8", "surrogatepass"))

    def push_name(self) -> None:
        end = self._data.index(b"\n", self._data.index(b"\n", self._position, self._position + 200) + 1)
        module, name, _ = self._take(min(end + 1 - self._position, 400)).decode().split("\n")
        self.push(_Name(f"{module}.{name}"))

    def remember(self, form: str) -> None:
        self._memo[self._number(form)] = self._stack[-1]

    def recall(self, form: str) -> None:
        self.push(self._memo[self._number(form)])

    def mark(self) -> None:
        self._marks.append(len(self._stack))
        if len(self._marks) > 2 * MOST_DEPTH:
            raise Refused(f"its data.pkl must be at most {MOST_DEPTH} deep")

    def _pop_to_mark(self) -> list[Any]:
        begin = self._marks.pop()
        found = self._stack[begin:]
        del self._stack[begin:]
        return found

    def _pop(self, count: int) -> list[Any]:
        if len(self._stack) - (self._marks[-1] if self._marks else 0) < count:
            raise Refused("its data.pkl takes what is not there")
        found = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return found

    def push_tuple(self, count: int | None) -> None:
        self.push(tuple(self._pop_to_mark() if count is None else self._pop(count)))

    def append(self, is_one: bool) -> None:
        items, target = self._pop(1) if is_one else self._pop_to_mark(), self._stack[-1]
        if type(target) is not list:
            raise Refused("its data.pkl appends to what is no list")
        target += items

    def set_items(self, is_one: bool) -> None:
        pairs, target = self._pop(2) if is_one else self._pop_to_mark(), self._stack[-1]
        keys = pairs[::2]
        if not isinstance(target, dict) or len(pairs) % 2 or not all(type(key) in (str, int) for key in keys):
            raise Refused("the keys of its dicts must be text or integers")
        target.update(zip(keys, pairs[1::2], strict=True))

    def push_storage(self) -> None:
        (named,) = self._pop(1)
        word, kind, key, _, count = named
        if type(word) is not str or type(kind) is not _Name or type(key) is not str:
            raise Refused("its data.pkl names no numbers of a tensor")
        module, _, name = kind.rpartition(".")
        dtype = _DTYPES.get(name.removesuffix("Storage"))
        if word != "storage" or module != "torch" or dtype is None:
            raise Refused(f"it must hold tensors of plain numbers, found a {_short(kind)}")
        if type(count) is not int or count * dtype.itemsize != self._sizes[key]:
            raise Refused("its tensors must have as many numbers as its data.pkl says")
        self.push(_Storage(dtype, count))

    def call(self) -> None:
        name, given = self._pop(2)
        make = _CALLS.get(name) if type(name) is _Name else None
        if make is None:
            raise Refused(f"it must hold tensors, numbers, text, lists and dicts, found a {_short(name)}")
        self.push(make(*given))

    def build(self) -> None:
        (attributes,) = self._pop(1)
        target = self._stack[-1]
        if type(target) is not _OrderedDict or not isinstance(attributes, dict):
            raise Refused("its data.pkl gives attributes to what has none")
        target.attributes = {**target.attributes, **attributes}


def _short(name: Any) -> str:
    return ascii(str(name)[:60]).strip("'") if isinstance(name, str) else type(name).__name__


def _tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any, hooks: Any, bits: Any = None
) -> Tensor:
    are_plain = type(requires_grad) is bool and type(hooks) is _OrderedDict and not hooks and not bits
    are_sizes = all(type(size) is int and 0 <= size < 2**62 for size in (offset, *shape, *strides))
    if not isinstance(storage, _Storage) or not are_plain or not are_sizes or len(shape) != len(strides):
        raise Refused("a tensor in it has no sizes")
    count = 1
    for size in shape:
        count *= size
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if count else -1
    if count > max(storage.count, MOST_REPEATED) or last >= storage.count:
        raise Refused("a tensor in it has more numbers than are stored")
    return torch.empty_strided(shape, strides, dtype=storage.dtype, device="meta")


def _parameter(found: Any, *others: Any) -> Tensor:
    if not isinstance(found, Tensor):
        raise Refused("a parameter in it is no tensor")
    return found


_CALLS: dict[Any, Callable[..., Any]] = {
    "collections.OrderedDict": _OrderedDict,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
}

_INSTRUCTIONS: dict[bytes, Callable[[_Pickle], None]] = {
    pickle.PROTO: lambda each: each._take(1) and None,
    pickle.EMPTY_DICT: lambda each: each.push({}),
    pickle.EMPTY_LIST: lambda each: each.push([]),
    pickle.EMPTY_TUPLE: lambda each: each.push(()),
    pickle.NONE: lambda each: each.push(None),
    pickle.NEWTRUE: lambda each: each.push(True),
    pickle.NEWFALSE: lambda each: each.push(False),
    pickle.BININT: lambda each: each.push_number("<i"),
    pickle.BININT1: lambda each: each.push_number("<B"),
    pickle.BININT2: lambda each: each.push_number("<H"),
    pickle.BINFLOAT: lambda each: each.push_number(">d"),
    pickle.LONG1: _Pickle.push_long,
    pickle.BINUNICODE: _Pickle.push_text,
    pickle.GLOBAL: _Pickle.push_name,
    pickle.BINPUT: lambda each: each.remember("<B"),
    pickle.LONG_BINPUT: lambda each: each.remember("<I"),
    pickle.BINGET: lambda each: each.recall("<B"),
    pickle.LONG_BINGET: lambda each: each.recall("<I"),
    pickle.MARK: _Pickle.mark,
    pickle.TUPLE: lambda each: each.push_tuple(None),
    pickle.TUPLE1: lambda each: each.push_tuple(1),
    pickle.TUPLE2: lambda each: each.push_tuple(2),
    pickle.TUPLE3: lambda each: each.push_tuple(3),
    pickle.APPEND: lambda each: each.append(True),
    pickle.APPENDS: lambda each: each.append(False),
    pickle.SETITEM: lambda each: each.set_items(True),
    pickle.SETITEMS: lambda each: each.set_items(False),
    pickle.BINPERSID: _Pickle.push_storage,
    pickle.REDUCE: _Pickle.call,
    pickle.BUILD: _Pickle.build,
}
