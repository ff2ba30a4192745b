"""MiniGrid and BabyAI: small grid worlds seen from above, in part."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from typing_extensions import override

from pufferlib.extras import import_quietly
from pufferlib.families.gymnasium_entry import build


class OneHotView(gymnasium.ObservationWrapper):
    """What the agent sees and where it looks, as zeros and ones; the mission's text is left out.

    A cell has three numbers, its object, colour and state, which name things and measure nothing: each becomes one-hot.
    """

    DIRECTIONS = 4

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        constants = importlib.import_module("minigrid.core.constants")
        kinds = [
            len(getattr(constants, name)) for name in ("OBJECT_TO_IDX", "COLOR_TO_IDX", "STATE_TO_IDX")
        ]  # closed, open and locked
        offsets = np.cumsum([0, *kinds[:-1]])
        width, height, _ = env.observation_space["image"].shape
        cells = np.arange(width * height)[:, None] * sum(kinds)
        self._first = cells + offsets  # where the ones of each number of each cell begin
        self._size = width * height * sum(kinds)
        self.observation_space = Box(0, 1, (self._size + self.DIRECTIONS,), np.uint8)

    @override
    def observation(self, observation: dict[str, Any]) -> np.ndarray:
        """The flat row: the one-hot numbers of every cell, then the direction."""
        row = np.zeros(self._size + self.DIRECTIONS, np.uint8)
        row[self._first + observation["image"].reshape(-1, 3)] = 1
        row[self._size + observation["direction"]] = 1
        return row


def build_minigrid(
    target: str, render_mode: str | None = None, max_episode_steps: int | None = None, **keywords: Any
) -> gymnasium.Env:
    """Makes a grid world with observations for a network.

    Args:
        target: the id.
        render_mode: What render() gives: human for a window, rgb_array for frames, None for nothing.
        max_episode_steps: Steps after which an episode is truncated; None leaves that to the task's own max_steps.
        keywords: of the environment's class.
    """
    register_grids()
    return OneHotView(build(target, render_mode, max_episode_steps, **keywords))


def register_grids() -> None:
    """Has MiniGrid register its environments with Gymnasium."""
    import_quietly("minigrid")
