"""The arrays of a vector: what they are of, their memory, and snapshots of what is in them."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

import gymnasium
import numpy as np

from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.machine import require_step_memory
from pufferlib.spaces import Layout

ALIGNMENT = 128  # bytes: two cache lines, which processors fetch in pairs


class EnvInfo:
    """The facts that all environments of a vector share; small enough to send to workers."""

    def __init__(self, env: PufferEnv):
        self.single_observation_space: gymnasium.Space = env.single_observation_space
        self.single_action_space: gymnasium.Space = env.single_action_space
        self.num_agents: int = env.num_agents
        self.has_action_masks: bool = getattr(env, "has_action_masks", False)
        self.emulated: Layout | None = getattr(env, "emulated", None)

    def check(self, env: PufferEnv, index: int) -> None:
        """Raises an APIUsageError if another environment differs."""
        for name, expected in vars(self).items():
            found = getattr(env, name, False if name == "has_action_masks" else None)
            if found == expected:
                continue
            if name == "emulated":  # too long to show
                raise APIUsageError(
                    "all environments of a vector must have the same observation structure, environment 0 and "
                    f"environment {index} differ; make them with the same arguments"
                )
            raise APIUsageError(
                f"all environments of a vector must have the same {name}, environment 0 has {expected}, "
                f"environment {index} has {found}"
            )


def buffer_bytes(env: PufferEnv | EnvInfo, rows: int) -> int:
    """The size of the memory that `buffers_in` needs; a MemoryLackError where the machine has less."""
    size = _layout(env, rows)[1]
    require_step_memory(size, rows)
    return size


def buffers_in(memory: mmap.mmap, env: PufferEnv | EnvInfo, rows: int) -> Buffers:
    """Lays the arrays of `rows` agents out in page-aligned memory, which they keep alive: zeros, and masks of True."""
    arrays = {name: np.ndarray(shape, dtype, memory, offset) for name, shape, dtype, offset in _layout(env, rows)[0]}
    buffers = Buffers(**arrays)
    for name in {"masks", "action_masks"}.intersection(buffers.names):
        getattr(buffers, name)[:] = True
    return buffers


def private_buffers(env: PufferEnv | EnvInfo, rows: int) -> Buffers:
    """Zeroed arrays (all masks are True) of this process alone: a forked child has a copy."""
    memory = mmap.mmap(-1, buffer_bytes(env, rows), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _ask_for_huge_pages(memory)
    return buffers_in(memory, env, rows)


def _ask_for_huge_pages(memory: mmap.mmap) -> None:
    # A step that touches many megabytes takes half the time on large pages.
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel built without them
            memory.madvise(mmap.MADV_HUGEPAGE)


def _layout(env: PufferEnv | EnvInfo, rows: int) -> tuple[list[tuple[str, tuple[int, ...], np.dtype, int]], int]:
    # The name, shape, dtype and offset of each array of `Buffers`, and the bytes in all.
    layout, offset = [], 0
    has_action_masks = getattr(env, "has_action_masks", False)  # not of an environment of another base class
    no_rows = Buffers.empty(env.single_observation_space, env.single_action_space, 0, has_action_masks)
    for name in no_rows.names:
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


def snapshot_arrays(
    snapshot: dict[str, Any], num_envs: int, batch_size: int, buffers: Buffers
) -> dict[str, np.ndarray]:
    """The arrays in what `Vector.snapshot` returned, which is checked: an APIUsageError if its sizes are others."""
    is_sound = (
        isinstance(snapshot, dict)
        and {"envs", "order", "arrays"} <= snapshot.keys()
        and isinstance(snapshot["envs"], list)
        and all(isinstance(env, bytes) for env in snapshot["envs"])
        and isinstance(snapshot["order"], list)
        and all(isinstance(batch, list) and all(type(env) is int for env in batch) for batch in snapshot["order"])
        and isinstance(snapshot["arrays"], dict)
        and all(isinstance(snapshot["arrays"].get(name), bytes) for name in buffers.result_names)
    )
    if not is_sound:
        raise APIUsageError(
            "a vector's snapshot must be a dict of envs (bytes), order (lists of integers) and arrays (bytes by name), "
            "got something else; pass what snapshot() returned"
        )
    envs, order = snapshot["envs"], snapshot["order"]
    if len(envs) != num_envs or [len(batch) for batch in order] != [batch_size] * (num_envs // batch_size):
        raise APIUsageError(
            f"the snapshot must be of {num_envs} environments in batches of {batch_size}, got "
            f"{len(envs)} in batches of {sorted({len(batch) for batch in order})}; use a vector of those sizes"
        )
    if sorted(env for batch in order for env in batch) != list(range(num_envs)):
        raise APIUsageError(
            f"the snapshot's batches {order} must have each of {num_envs} environments once; take another snapshot"
        )
    return {name: _array(name, snapshot["arrays"][name], getattr(buffers, name)) for name in buffers.result_names}


def _array(name: str, content: bytes, like: np.ndarray) -> np.ndarray:
    if like.nbytes != len(content):
        raise APIUsageError(
            f"the snapshot's {name} must be {like.nbytes} bytes, got {len(content)}; use a vector of the same agents"
        )
    if like.dtype == bool and content.strip(b"\0\1"):  # NumPy counts such bytes as what they are, and writes too far
        raise APIUsageError(f"the snapshot's {name} must be bytes of 0 and 1, got others; take another snapshot")
    return np.frombuffer(content, like.dtype).reshape(like.shape)
