"""Environments in C as pictures: one drawn anywhere on the screen, or by itself as a frame."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from pufferlib.errors import APIUsageError, MissingExtraError
from pufferlib.ocean import screen
from pufferlib.ocean.screen import Screen, has_display


class Drawing:
    """Draws one environment on the screen that is open, in motion from one step to the next.

    The environment is never changed by it. It must be open when it is drawn, and must not be stepped by another thread
    in that moment.

    Attributes:
        size: width and height of the picture at scale 1, in pixels.
        steps_per_second: of the environment that look natural to a person.
        frames_per_second: different pictures that it has for a second at that pace, as many as are worth drawing.
        title: for a window.
    """

    frames_per_second = 60.0

    def __init__(self, name: str, env: object):
        """Makes the drawing; this needs no screen.

        The name is that of the environment's folder, such as `breakout`, and `env` a handle of one environment of that
        folder's binding, which is kept alive. TypeError if it is none, ValueError if it is closed, RuntimeError if it
        was never reset; MissingExtraError if raylib or the render module is not installed.
        """
        self._module = _render_module(name)
        self._binding = importlib.import_module(f"pufferlib.ocean.{name}.binding")
        self._env = env
        self._before = self._binding.env_state(env)
        self._picture = self._module.open(self._before)
        width, height, self.steps_per_second, self.title = self._module.describe(self._picture)
        self.size = (width, height)

    def remember(self) -> None:
        """Keeps the state as it is, which motion starts from: call it before the environment steps."""
        self._before = self._binding.env_state(self._env)

    def draw(self, x: float = 0.0, y: float = 0.0, scale: float = 1.0, progress: float = 1.0) -> None:
        """Draws the environment; call it between `begin` and `end` of the open screen.

        Args:
            x: pixels of the screen to the left side of the picture.
            y: pixels of the screen to its top.
            scale: pixels of the screen for one of `size`, 0.001 to 1000.
            progress: the part of the step since `remember` that is over, 0 to 1; beyond that as 0 and 1.

        Raises:
            APIUsageError: if no picture was begun on a screen, a number is NaN, or the scale is out of range.
            ValueError: if the environment is closed.
        """
        shown = screen.open_screen()
        if shown is None:
            raise APIUsageError("there is no screen to draw on; open a Screen first")
        fonts = shown.welcome(self).fonts
        now = self._binding.env_state(self._env)
        try:
            self._module.draw(self._picture, fonts, self._before, now, x, y, scale, progress)
        except ValueError as error:
            raise APIUsageError(str(error)) from error

    def leave(self) -> None:
        """Lets go of what was loaded for the screen; drawing again loads it again."""
        self._module.close(self._picture)

    close = leave  # may be called twice


@dataclass
class _Shown:
    """The environment that `render` drew last."""

    name: str
    env: object
    drawing: Drawing
    screen: Screen
    scale: float  # pixels of the screen for one of the drawing's
    due: float  # when the next step is to be seen, by time.monotonic()


_shown: _Shown | None = None


def render(name: str, env: object) -> np.ndarray:
    """Draws one environment, opening a screen if none is open: a window where there is a display.

    In a window it waits, so that each call shows one step at the pace that looks natural.

    Args:
        name: the environment's folder name, such as `breakout`.
        env: an environment handle of that environment's binding; it is kept alive until another one is drawn or the
            window is closed. One that wants a window of another size gets a new window. Off-screen all kinds of
            environments take turns, and any other screen that is opened ends that.

    Returns:
        The frame, shape `(height, width, 3)`, uint8 RGB, owned by the caller; smaller than off-screen in a window that
        is scaled down to fit the display.

    Raises:
        MissingExtraError: if raylib or the environment's render module is not installed.
        APIUsageError: if the window shows another kind of environment, or another screen is open.
        DisplayError: if there is no display to open the window on.
    """
    global _shown
    if _shown is not None and _shown.name != name and not _shown.screen.gives_way:
        raise APIUsageError(
            f"the window shows {_shown.name}, got {name}; call close() on the {_shown.name} environment first"
        )
    if _shown is None or _shown.env is not env or screen.open_screen() is not _shown.screen:
        _shown = _show(name, env)
    shown = _shown
    shown.screen.begin()
    try:
        shown.drawing.draw(scale=shown.scale)
        frame = shown.screen.frame()
    finally:
        shown.screen.end()
    if has_display():
        time.sleep(max(0.0, shown.due - time.monotonic()))
        shown.due = max(shown.due, time.monotonic()) + 1.0 / shown.drawing.steps_per_second
    return frame


def close() -> None:
    """Closes the window that `render` opened, if it is open."""
    global _shown
    if _shown is not None:
        _shown.screen.close()
        _shown = None


def _show(name: str, env: object) -> _Shown:
    # The screen of the environment that was drawn last if it is of the same size, else a new one.
    drawing = Drawing(name, env)
    last = _shown if _shown is not None and screen.open_screen() is _shown.screen else None
    if last is not None and last.drawing.size == drawing.size:
        return _Shown(name, env, drawing, last.screen, last.scale, time.monotonic())
    if last is not None:
        last.screen.close()
    if not has_display():
        opened = Screen(*drawing.size, drawing.title, is_visible=False, gives_way=True)
        return _Shown(name, env, drawing, opened, 1.0, time.monotonic())
    width, height = drawing.size

    def lay_out(limit: tuple[int, int]) -> tuple[int, int]:
        scale = min(1.0, limit[0] / width, limit[1] / height)
        return round(scale * width), round(scale * height)

    opened = screen.open_window(lay_out, drawing.title, drawing.size)
    return _Shown(name, env, drawing, opened, opened.size[0] / width, time.monotonic())


def _render_module(name: str) -> ModuleType:
    screen.raylib()
    try:
        return importlib.import_module(f"pufferlib.ocean.{name}.render")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"pufferlib was built without the render module of {name}; reinstall it where raylib can be installed"
        ) from error
