"""Reads files that may come from strangers: only regular files, and only up to a size."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

MAX_JSON_BYTES = 4 * 2**20  # Python takes up to 25 times as much memory for it
MAX_LINE_BYTES = 2**20  # of a file of lines of JSON, such as metrics
MAX_LEVELS = 100  # of lists and dicts in each other in JSON

_KINDS = {"p": "a FIFO", "c": "a device", "b": "a device", "s": "a socket", "d": "a folder"}  # as `ls -l` has them


class UnreadableFile(OSError):
    """A file is not regular, too large, or not written as it should be; `strerror` or the message says which."""


def open_regular(path: Path) -> BinaryIO:
    """Opens a regular file, or a link to one, for reading; anything else is an UnreadableFile."""
    try:
        mode = os.stat(path).st_mode  # before it is opened, which alone has effects on some devices
        if not stat.S_ISREG(mode):
            found = _KINDS.get(stat.filemode(mode)[0], "something else")
            raise UnreadableFile(None, f"it must be a regular file, found {found}", str(path))
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb")
    except ValueError as error:  # a path with a zero byte
        raise FileNotFoundError(2, str(error), str(path)) from error


def read_bytes(path: Path) -> bytes:
    """Returns the content of a regular file of at most MAX_JSON_BYTES; else raises an UnreadableFile."""
    with open_regular(path) as file:
        content = file.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise UnreadableFile(None, f"it must have at most {MAX_JSON_BYTES:,} bytes, found more", str(path))
    return content


def read_json(path: Path) -> Any:
    """Returns the content of a regular file of JSON; raises as `read_bytes` and `parse_json` do."""
    return parse_json(read_bytes(path))


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Returns the complete lines of an open file without their ends, except those that are too long."""
    is_within = False
    while line := file.readline(MAX_LINE_BYTES):
        is_end = line.endswith(b"\n")
        if is_end and not is_within:
            yield line[:-1]
        is_within = not is_end


def parse_json(text: bytes) -> Any:
    """Returns the content of a text of JSON; a ValueError if it is none in UTF-8, or nested too deeply."""
    try:
        found = json.loads(text.decode())
        is_deep = text.count(b"[") + text.count(b"{") > MAX_LEVELS and _levels(found) > MAX_LEVELS
    except RecursionError:
        is_deep = True
    if is_deep:
        raise ValueError("it is nested too deeply")
    return found


def _levels(value: object) -> int:
    if not isinstance(value, (list, dict)):
        return 0
    return 1 + max(map(_levels, value.values() if isinstance(value, dict) else value), default=0)
