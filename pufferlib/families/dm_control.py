"""The DeepMind Control Suite, through Shimmy."""

from __future__ import annotations

import re
import warnings
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import FlattenObservation
from typing_extensions import override

from pufferlib.extras import import_quietly
from pufferlib.families.entry import Entry
from pufferlib.families.gymnasium_entry import GymnasiumFamily, build, in_single_precision


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
    _register()
    if render_mode is not None:
        keywords.update(width=width, height=height, camera_id=camera_id)
    return in_single_precision(FlattenObservation(build(target, render_mode, max_episode_steps, **keywords)))


class DmControl(GymnasiumFamily):
    """Tasks of robots, named `dm_control/<domain>/<task>` or as Shimmy registers them."""

    name = "dm_control"
    example = "dm_control/cheetah/run"
    packages = ("shimmy", "dm_control", "imageio")
    extra = "dm_control"
    recipe = "continuous"
    builder = staticmethod(build_dm_control)
    fixed = frozenset({"domain_name", "task_name"})
    is_closed = True  # all else would be taken for arguments of the renderer

    @override
    def owns(self, name: str) -> bool:
        return name.startswith("dm_control/")

    @override
    def find(self, name: str) -> Entry | None:
        return super().find(re.sub(r"^dm_control/(\w+)/(\w+)$", r"dm_control/\1-\2-v0", name))

    @override
    def register(self) -> None:
        _register()

    @override
    def lists(self, spec: EnvSpec) -> bool:
        return super().lists(spec) and spec.name != "compatibility-env"  # which is nothing by itself


def _register() -> None:
    with warnings.catch_warnings():
        # Looking for a display is how dm_control chooses its renderer; without one it takes another.
        warnings.filterwarnings("ignore", r"(?s).*DISPLAY")
        import_quietly("shimmy")
