"""Positions made by hand: the C struct of an environment, read and written by the names of its members."""

from __future__ import annotations

from typing import Any

import numpy as np
from test_forged_snapshots import content_of, sealed, struct_size

from pufferlib.ocean.environment import OceanEnv

POINTERS = ("observations", "actions", "rewards", "terminals", "truncations", "final_observations")


def struct_layout(*members: tuple, pointers: tuple[str, ...] = POINTERS) -> np.dtype:
    """The layout of a C struct: its pointers, then `members` as NumPy's `(name, type)` or `(name, type, length)`."""
    return np.dtype([*((name, np.uint64) for name in pointers), *members], align=True)


def position(env: OceanEnv, layout: np.dtype, index: int = 0) -> np.void:
    """A copy of environment `index`, its members by name."""
    snapshot = env.snapshot()
    return np.frombuffer(content_of(snapshot), layout, 1, _offset(snapshot, env, layout, index))[0].copy()


def put(env: OceanEnv, layout: np.dtype, index: int = 0, **members: Any) -> None:
    """Changes members of environment `index`; its observation follows with the next step."""
    snapshot, changed = env.snapshot(), position(env, layout, index)
    for name, value in members.items():
        changed[name] = value
    content, at = bytearray(content_of(snapshot)), _offset(snapshot, env, layout, index)
    content[at : at + layout.itemsize] = changed.tobytes()
    env.restore(sealed(snapshot, bytes(content)))


def _offset(snapshot: bytes, env: OceanEnv, layout: np.dtype, index: int) -> int:
    """Where the struct begins in the snapshot's content; asserts that the layout is as long as C says."""
    size = struct_size(snapshot)
    assert layout.itemsize == size, f"the struct has {size} bytes, the layout {layout.itemsize}; name all members"
    return index * (len(content_of(snapshot)) // env.num_envs)
