"""Scenes: they draw one environment, of Ocean or of any other family."""

from __future__ import annotations

import numpy as np

from pufferlib.emulation.emulated_env import EmulatedEnv
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.rendering import Drawing
from pufferlib.ocean.screen import raylib
from pufferlib.runs.making import environment_name


def draw_picture(picture: np.ndarray, x: float, y: float, width: float, height: float) -> None:
    """Draws a picture, pixel by pixel where it is enlarged; between `begin` and `end` of the open screen."""
    library = raylib()
    picture = np.ascontiguousarray(picture)
    rows, columns, _ = picture.shape
    data = library.ffi.from_buffer(picture)
    texture = library.LoadTextureFromImage((data, columns, rows, 1, library.PIXELFORMAT_UNCOMPRESSED_R8G8B8))
    library.DrawTexturePro(texture, (0, 0, columns, rows), (x, y, width, height), (0, 0), 0.0, (255, 255, 255, 255))
    library.rlDrawRenderBatchActive()  # now, as the texture goes
    library.UnloadTexture(texture)


FRAME_RATE = 30.0  # steps a second of an environment that does not tell

COMFORTABLE = (800, 640)  # pixels wide and high up to which small pictures are enlarged


class ArrayScene:
    """Shows what the `render` of an environment that was reset returns, enlarged by whole numbers where it is small.

    The environment is asked once for each step. At the end of an episode it is asked before it begins the next, so that
    the end is seen.

    Attributes: as those of an environment in C, see `pufferlib.ocean.rendering.Drawing`.

    Raises APIUsageError if it draws none: one of Gymnasium or PettingZoo is made with `render_mode="rgb_array"`.
    """

    def __init__(self, env: PufferEnv):
        self.title = environment_name(env)
        self._env = env
        if isinstance(env, EmulatedEnv):
            _require_pictures(env, self.title)
        self._frame = self._rendered()
        self._is_stale = False
        height, width, _ = self._frame.shape
        factor = max(1, min(COMFORTABLE[0] // width, COMFORTABLE[1] // height))
        self.size = (width * factor, height * factor)
        rate = (getattr(getattr(env, "env", env), "metadata", None) or {}).get("render_fps", FRAME_RATE)
        self.steps_per_second = self.frames_per_second = float(rate) if rate and rate > 0 else FRAME_RATE
        if isinstance(env, EmulatedEnv):
            env.before_restart = self._keep_end

    def remember(self) -> None:
        """Has the next `draw` ask for a new picture; to be called before the environment steps."""
        self._is_stale = True

    def draw(self, x: float, y: float, scale: float, progress: float) -> None:
        """Draws the newest picture, the same for any progress; call it between `begin` and `end` of the screen."""
        if self._is_stale:
            self._frame = self._rendered()
        self._is_stale = False
        width, height = self.size
        draw_picture(self._frame, x, y, scale * width, scale * height)

    def close(self) -> None:
        """Lets go of the environment, which stays open."""
        if isinstance(self._env, EmulatedEnv):
            self._env.before_restart = None

    def _keep_end(self) -> None:
        self._frame, self._is_stale = self._rendered(), False

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


Scene = Drawing | ArrayScene
"""Draws one environment onto the open screen."""


def make_scene(env: PufferEnv) -> Scene:
    """Returns the scene of an environment."""
    return env.drawing() if isinstance(env, OceanEnv) else ArrayScene(env)
