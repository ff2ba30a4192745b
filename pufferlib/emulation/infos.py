"""What emulated environments report beside their arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_RESERVED = ("n", "agent_id", "final_observation")  # these have a meaning in the infos of a PufferEnv


def final_observation(observations: np.ndarray, agent: int) -> dict[str, Any]:
    """The info of an agent whose episode was cut off: a copy of its row, which the next observation overwrites."""
    return {"final_observation": observations[agent, ...].copy(), "agent_id": agent}


def plain_numbers(info: Mapping[str, Any]) -> dict[str, float]:
    """The entries of an info that are single numbers or flags."""
    return {
        name: float(value)
        for name, value in info.items()
        if isinstance(name, str) and name not in _RESERVED and _is_number(value)
    }


def _is_number(value: object) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float))
