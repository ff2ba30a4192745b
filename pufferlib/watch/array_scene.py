"""Environments that draw themselves, as those of Gymnasium and PettingZoo do: their pictures on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from pufferlib.emulation.emulated_env import EmulatedEnv
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.families.entry import Entry
from pufferlib.ocean.screen import open_screen
from pufferlib.runs.making import environment_name
from pufferlib.watch.scene import Scene
from pufferlib.watch.texture import Texture

FRAME_RATE = 30.0
"""Steps a second of an environment that does not tell."""

COMFORTABLE = (800, 640)
"""Pixels wide and high up to which small pictures are enlarged."""


def array_settings(entry: Entry) -> Mapping[str, Any]:
    """The settings that an environment is to be made with so that an ArrayScene can show it."""
    return {"render_mode": "rgb_array"} if "render_mode" in entry.settings else {}


class ArrayScene(Scene):
    """Shows what an environment's `render` returns, enlarged by whole numbers where it is small.

    The environment is asked once for each step. At the end of an episode it is asked before it begins the next, so that
    the end is seen.
    """

    def __init__(self, env: PufferEnv):
        """Looks at the environment, which it does not own.

        Args:
            env: one that was reset, and whose `render` returns a frame, `(height, width, 3)` uint8: one of Gymnasium or
                PettingZoo is made with `render_mode="rgb_array"`.

        Raises:
            APIUsageError: if it draws none; the message says which modes it has.
        """
        self.title = environment_name(env)
        self._env = env
        if isinstance(env, EmulatedEnv):
            _require_pictures(env, self.title)
        self._frame = self._rendered()
        self._is_stale = False
        self._has_ended = False
        self._texture = Texture()
        height, width, _ = self._frame.shape
        factor = max(1, min(COMFORTABLE[0] // width, COMFORTABLE[1] // height))
        self.size = (width * factor, height * factor)
        self.steps_per_second = self.frames_per_second = _steps_per_second(env)
        if isinstance(env, EmulatedEnv):
            env.before_restart = self._keep_end

    @override
    def remember(self) -> None:
        self._is_stale = True
        self._has_ended = False

    @override
    def draw(self, x: float, y: float, scale: float, progress: float) -> None:
        screen = open_screen()
        if screen is None:
            raise APIUsageError("there is no screen to draw on; open one first")
        if self._is_stale and not self._has_ended:
            self._frame = self._rendered()
        self._is_stale = False
        width, height = self.size
        self._texture.draw(screen, self._frame, x, y, scale * width, scale * height)

    @override
    def close(self) -> None:
        self._texture.leave()
        if isinstance(self._env, EmulatedEnv) and self._env.before_restart == self._keep_end:
            self._env.before_restart = None

    def _keep_end(self) -> None:
        self._has_ended = True
        self._frame = self._rendered()

    def _rendered(self) -> np.ndarray:
        frame = self._env.render()
        if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            is_array = isinstance(frame, np.ndarray)
            found = f"{frame.dtype} of shape {frame.shape}" if is_array else type(frame).__name__
            raise APIUsageError(
                f"the render() of {self.title} must return a uint8 array of shape (height, width, 3) to be shown, "
                f"got {found}"
            )
        return frame.copy()  # some environments draw into one array again and again


def _require_pictures(env: EmulatedEnv, title: str) -> None:
    # Asks how the environment was made, as a call of its `render` may warn or open a window.
    mode, modes = env.env.render_mode, (env.env.metadata or {}).get("render_modes", ())
    if mode == "rgb_array":
        return
    if "rgb_array" in modes:
        raise APIUsageError(f"{title} is shown by its pictures; make it with render_mode='rgb_array', got {mode!r}")
    offered = f"its render modes are {', '.join(map(str, modes))}" if modes else "it has no render modes"
    raise APIUsageError(f"{title} cannot be shown: it needs the render mode rgb_array, and {offered}")


def _steps_per_second(env: PufferEnv) -> float:
    metadata = getattr(getattr(env, "env", env), "metadata", None) or {}
    rate = metadata.get("render_fps", FRAME_RATE)
    return float(rate) if rate and rate > 0 else FRAME_RATE
