"""The memory under the arrays of a vector."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Protocol

import gymnasium
import numpy as np

from pufferlib.environment import Buffers

ALIGNMENT = 128  # bytes: two cache lines, which processors fetch in pairs


class HasSpaces(Protocol):
    """Anything with the spaces of one agent: an environment or an `EnvInfo`."""

    single_observation_space: gymnasium.Space
    single_action_space: gymnasium.Space


def buffer_bytes(env: HasSpaces, rows: int) -> int:
    """The size of the memory that `buffers_in` needs."""
    return _layout(env, rows)[1]


def buffers_in(memory: mmap.mmap, env: HasSpaces, rows: int) -> Buffers:
    """Lays the arrays of `rows` agents out in page-aligned memory, which they keep alive."""
    arrays = {name: np.ndarray(shape, dtype, memory, offset) for name, shape, dtype, offset in _layout(env, rows)[0]}
    return Buffers(**arrays)


def private_buffers(env: HasSpaces, rows: int) -> Buffers:
    """Zeroed arrays (masks are all True) of this process alone: a forked child has a copy."""
    memory = mmap.mmap(-1, buffer_bytes(env, rows), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _ask_for_huge_pages(memory)
    buffers = buffers_in(memory, env, rows)
    buffers.masks[:] = True
    return buffers


def _ask_for_huge_pages(memory: mmap.mmap) -> None:
    # A step that touches many megabytes takes half the time on large pages.
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel built without them
            memory.madvise(mmap.MADV_HUGEPAGE)


def _layout(env: HasSpaces, rows: int) -> tuple[list[tuple[str, tuple[int, ...], np.dtype, int]], int]:
    # The name, shape, dtype and offset of each array of `Buffers`, and the bytes in all.
    layout, offset = [], 0
    no_rows = Buffers.empty(env.single_observation_space, env.single_action_space, 0)
    for name in Buffers.__dataclass_fields__:
        array = getattr(no_rows, name)
        shape = (rows, *array.shape[1:])
        layout.append((name, shape, array.dtype, offset))
        size = int(np.prod(shape)) * array.dtype.itemsize
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    return layout, offset


class SharedMemory:
    """Zeroed memory without a name, shared with the processes that receive it.

    It vanishes with the last process that maps it, however that ends, so there is nothing to clean up.

    Attributes:
        fd: its file descriptor; the owner closes it when all workers have theirs.
        memory: the memory, alive while any array on it is.
    """

    def __init__(self, size: int, fd: int | None = None):
        self.size = size
        self.fd = _unnamed_file() if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, size)
        self.memory = mmap.mmap(self.fd, size)
        _ask_for_huge_pages(self.memory)

    def __reduce__(self):
        return _attach, (self.size, reduction.DupFd(self.fd))

    def close_fd(self) -> None:
        """Closes the file descriptor; the memory stays."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("pufferlib")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _attach(size: int, duplicate) -> SharedMemory:
    return SharedMemory(size, duplicate.detach())
