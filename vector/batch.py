"""Batches: environments that are received and sent together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pufferlib.environment import Buffers


@dataclass(frozen=True, eq=False)
class Batch:
    """Environments that are received and sent together."""

    envs: tuple[int, ...]
    buffers: Buffers  # their rows
    agent_ids: np.ndarray  # (rows,) int64

    @classmethod
    def consecutive(cls, buffers: Buffers, envs: range, agents_per_env: int) -> Batch:
        """The batch of neighbouring environments, as views of the arrays of all."""
        begin, end = envs.start * agents_per_env, envs.stop * agents_per_env
        return cls(tuple(envs), buffers.rows(begin, end), np.arange(begin, end))


def split(num_envs: int, parts: int) -> Sequence[range]:
    """Equal ranges of neighbouring environments."""
    size = num_envs // parts
    return [range(begin, begin + size) for begin in range(0, num_envs, size)]
