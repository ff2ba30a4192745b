"""Pictures of C environments for `render` of other libraries: off-screen, whether or not there is a display."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferlib.interop.ocean_envs import make_ocean
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.screen import Screen, open_screen

if TYPE_CHECKING:
    from pufferlib.ocean.rendering import Drawing

_screen: Screen | None = None  # a process has one, on which all environments are drawn in turn


class Pictures:
    """Draws C environments; nothing is loaded or opened before the first picture."""

    def __init__(self, env: OceanEnv):
        self._env = env
        self._drawings: dict[int, Drawing] = {}

    def picture(self, index: int = 0) -> np.ndarray:
        """Draws environment `index`, which was reset; shape `(height, width, 3)`, uint8 RGB, owned by the caller.

        Raises:
            MissingExtraError: if raylib or the environment's render module is not installed.
            APIUsageError: if a screen is open that somebody else opened.
        """
        if index not in self._drawings:
            self._drawings[index] = self._env.drawing(index)
        drawing = self._drawings[index]
        screen = _screen_like(drawing)
        screen.begin()
        try:
            drawing.draw()
            return screen.frame()
        finally:
            screen.end()

    def close(self) -> None:
        """Lets go of everything, the screen too, which another picture opens again; twice is harmless."""
        for drawing in self._drawings.values():
            drawing.close()
        if self._drawings:
            _close_screen()
        self._drawings.clear()


class ShownEnv:
    """What one environment of another library does by its `render_mode`; that library's class comes after this one."""

    ocean: OceanEnv
    render_mode: str | None
    _pictures: Pictures

    def render(self) -> np.ndarray | None:
        """The frame, `(height, width, 3)` uint8 RGB; None unless `render_mode` is `rgb_array`."""
        return self._pictures.picture() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Lets go of the environment and of its pictures; twice is harmless."""
        self._pictures.close()
        self.ocean.close()

    def _show(self) -> None:
        if self.render_mode == "human":
            self.ocean.render()


def natural_pace(name: str | type[OceanEnv], env_kwargs: Mapping[str, Any]) -> int:
    """The steps per second that look natural, rounded: what a video is to be shown at."""
    env = make_ocean(name, 1, env_kwargs)
    env.reset()
    drawing = env.drawing()
    drawing.close()
    env.close()
    return round(drawing.steps_per_second)


def _screen_like(drawing: Drawing) -> Screen:
    global _screen
    if _screen is None or _screen is not open_screen() or _screen.size != drawing.size:
        _close_screen()
        _screen = Screen(*drawing.size, drawing.title, is_visible=False, gives_way=True)
    return _screen


def _close_screen() -> None:
    global _screen
    if _screen is not None:
        _screen.close()
        _screen = None
