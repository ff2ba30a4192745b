"""Facts about Gymnasium spaces that more than one part needs."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from pufferlib.errors import APIUsageError


def action_dtype(space: gymnasium.Space) -> np.dtype:
    """The dtype of an action array: float32 for boxes, int32 for everything discrete."""
    return np.dtype(np.float32 if isinstance(space, Box) and space.dtype.kind == "f" else np.int32)


def joint_space(space: gymnasium.Space, num_agents: int) -> gymnasium.Space:
    """The space of `num_agents` rows of `space`.

    Raises:
        APIUsageError: if the space has no fixed shape; wrap the environment with pufferlib.emulation.
    """
    if isinstance(space, Discrete):
        return MultiDiscrete(np.full(num_agents, space.n))
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(np.broadcast_to(space.nvec, (num_agents, *space.nvec.shape)).copy())
    if isinstance(space, MultiBinary):
        return MultiBinary((num_agents, *space.shape))
    if isinstance(space, Box):
        low = np.broadcast_to(space.low, (num_agents, *space.shape))
        high = np.broadcast_to(space.high, (num_agents, *space.shape))
        return Box(low, high, dtype=space.dtype)
    raise APIUsageError(
        f"a space must be Box, Discrete, MultiDiscrete or MultiBinary, got {type(space).__name__}; "
        "wrap the environment with pufferlib.emulation"
    )
