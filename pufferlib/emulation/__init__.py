"""Environments of Gymnasium and PettingZoo, single and in vectors, as PufferEnvs.

Their observations are packed into rows, as pufferlib.spaces has them, and rows of actions are taken apart for
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferlib.emulation.gymnasium_emulation import GymnasiumPufferEnv
from pufferlib.emulation.pettingzoo_emulation import PettingZooPufferEnv
from pufferlib.spaces import Layout, unpack

if TYPE_CHECKING:
    from pufferlib.emulation.tensors import nativize

__all__ = ["GymnasiumPufferEnv", "Layout", "PettingZooPufferEnv", "nativize", "unpack"]


def __getattr__(name: str) -> Any:
    if name != "nativize":
        raise AttributeError(f"module 'pufferlib.emulation' has no attribute {name!r}")
    from pufferlib.emulation.tensors import nativize  # not before it is used: workers do without torch

    globals()[name] = nativize
    return nativize
