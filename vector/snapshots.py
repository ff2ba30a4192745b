"""Checks a vector's snapshot before any of it is restored: it may come from a stranger's file."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pufferlib.environment import Buffers
from pufferlib.errors import APIUsageError

RESULT_ARRAYS = ("observations", "rewards", "terminals", "truncations", "masks")  # what a step writes


class VectorSnapshot(NamedTuple):
    """The checked parts of a snapshot."""

    envs: list[bytes]
    order: list[tuple[int, ...]]  # the environments of every batch
    arrays: dict[str, np.ndarray]  # of RESULT_ARRAYS, shaped as the vector's


def checked_snapshot(snapshot: dict[str, Any], num_envs: int, batch_size: int, buffers: Buffers) -> VectorSnapshot:
    """The parts of what `Vector.snapshot` returned.

    Raises:
        APIUsageError: if it is no snapshot, or not of these sizes.
    """
    is_sound = (
        isinstance(snapshot, dict)
        and {"envs", "order", "arrays"} <= snapshot.keys()
        and isinstance(snapshot["envs"], list)
        and all(isinstance(env, bytes) for env in snapshot["envs"])
        and isinstance(snapshot["order"], list)
        and all(isinstance(batch, list) and all(type(env) is int for env in batch) for batch in snapshot["order"])
        and isinstance(snapshot["arrays"], dict)
        and all(isinstance(snapshot["arrays"].get(name), bytes) for name in RESULT_ARRAYS)
    )
    if not is_sound:
        raise APIUsageError(
            "a vector's snapshot must be a dict of envs (bytes), order (lists of integers) and arrays (bytes by name), "
            "got something else; pass what snapshot() returned"
        )
    envs, order = snapshot["envs"], [tuple(batch) for batch in snapshot["order"]]
    if len(envs) != num_envs or [len(batch) for batch in order] != [batch_size] * (num_envs // batch_size):
        raise APIUsageError(
            f"the snapshot must be of {num_envs} environments in batches of {batch_size}, got "
            f"{len(envs)} in batches of {sorted({len(batch) for batch in order})}; use a vector of those sizes"
        )
    if sorted(env for batch in order for env in batch) != list(range(num_envs)):
        raise APIUsageError(
            f"the snapshot's batches {order} must have each of {num_envs} environments once; take another snapshot"
        )
    arrays = {name: _array(name, snapshot["arrays"][name], getattr(buffers, name)) for name in RESULT_ARRAYS}
    return VectorSnapshot(envs, order, arrays)


def _array(name: str, content: bytes, like: np.ndarray) -> np.ndarray:
    if like.nbytes != len(content):
        raise APIUsageError(
            f"the snapshot's {name} must be {like.nbytes} bytes, got {len(content)}; use a vector of the same agents"
        )
    if like.dtype == bool and content.strip(b"\0\1"):  # NumPy counts such bytes as what they are, and writes too far
        raise APIUsageError(f"the snapshot's {name} must be bytes of 0 and 1, got others; take another snapshot")
    return np.frombuffer(content, like.dtype).reshape(like.shape)
