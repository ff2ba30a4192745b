"""Reads the outline of a `torch.save` file: its structure, with every tensor on the `meta` device.

The file may come from a stranger and be made to exhaust the machine, so this runs before torch reads it. The file is a
zip archive: `data.pkl` describes the content, and one part holds the numbers of each tensor. Nothing in the pickle is
executed, and every size that it claims is compared with the sizes of the parts.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import torch
from torch import Tensor

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

    Raises:
        Refused: if the file is not as `torch.save` writes tensors, numbers, text, lists and dicts, or too large.
        zipfile.BadZipFile: if it is damaged.
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


def _check_content(found: Any) -> None:
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


def _unknown(name: Any) -> Refused:
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
    _ALLOWED = (
        *(
            pickle.PROTO,
            pickle.STOP,
            pickle.MARK,
            pickle.EMPTY_DICT,
            pickle.EMPTY_LIST,
            pickle.EMPTY_TUPLE,
            pickle.NONE,
        ),
        *(pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.BINFLOAT),
        *(pickle.LONG1, pickle.BINUNICODE, pickle.GLOBAL, pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET),
        *(pickle.LONG_BINGET, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.BINPERSID),
    )
    dispatch = {code[0]: pickle._Unpickler.dispatch[code[0]] for code in _ALLOWED}

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
    if count > max(storage.count, MAX_REPEATED) or last >= storage.count:
        raise Refused("a tensor in it has more numbers than are stored")
    return torch.empty_strided(shape, strides, dtype=storage.dtype, device="meta")


def _parameter(found: Any, *others: Any) -> Tensor:
    if not isinstance(found, Tensor):
        raise Refused("a parameter in it is no tensor")
    return found


_CALLS = {
    "collections.OrderedDict": _OrderedDict,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
}
