"""The DeepMind Control Suite, through Shimmy."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
from gymnasium.wrappers import FlattenObservation

from pufferlib.extras import import_quietly
from pufferlib.families.gymnasium_entry import build, in_single_precision


def build_dm_control(
    target: str,
    render_mode: str | None = None,
    max_episode_steps: int | None = None,
    width: int = 320,
    height: int = 240,
    camera_id: int = -1,
    **keywords: Any,
) -> gymnasium.Env:
    """Makes an environment whose observations are one flat row: they are dicts of small arrays by themselves.

    Args:
        target: the id.
        render_mode: What render() gives: human for a window, rgb_array for frames, None for nothing.
        max_episode_steps: Steps after which an episode is truncated; None is the task's own limit, mostly 1000.
        width: Of a frame, in pixels.
        height: Of a frame, in pixels.
        camera_id: Which of the cameras of the model looks; -1 is the free one.
        keywords: of the task.
    """
    register_tasks()
    if render_mode is not None:
        keywords.update(width=width, height=height, camera_id=camera_id)
    return in_single_precision(FlattenObservation(build(target, render_mode, max_episode_steps, **keywords)))


def register_tasks() -> None:
    """Has Shimmy register the tasks with Gymnasium."""
    with warnings.catch_warnings():
        # Looking for a display is how dm_control chooses its renderer; without one it takes another.
        warnings.filterwarnings("ignore", r"(?s).*DISPLAY")
        import_quietly("shimmy")
