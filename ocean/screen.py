"""raylib's one window of this process, seen by a person or off-screen.

raylib is loaded when it is first needed: training never needs it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np

from pufferlib.errors import APIUsageError, DisplayError, MissingExtraError, import_quietly, is_installed

FONT = Path(__file__).parent / "assets" / "roboto_medium.ttf"

BACKGROUND = (6, 24, 24)
"""The colours of all pictures, red, green and blue."""
PANEL = (12, 44, 44)
CYAN = (0, 187, 187)
RED = (187, 0, 0)
WHITE = (241, 241, 241)

_open_screen: Screen | None = None


class Guest(Protocol):
    """Something that holds textures of a screen."""

    def leave(self) -> None:
        """Lets go of them: the screen is about to close."""


class Screen:
    """A window, or a picture in memory, to draw on; a process has one at a time.

    A picture begins with `begin` and ends with `end`; everything is drawn in between, in pixels from the left top
    corner, later above earlier. It takes no time of its own: who wants 60 pictures a second waits in between. A call
    that needs a picture under way, or an open screen, raises an APIUsageError without one.

    Attributes:
        size: width and height in pixels.
        gives_way: whether it closes by itself when another is opened.
        is_drawing: whether it is between `begin` and `end`.
    """

    def __init__(self, width: int, height: int, title: str, is_visible: bool, gives_way: bool = False):
        """Opens it.

        Args:
            width: pixels, 1 to 16384.
            height: pixels, 1 to 16384.
            title: of the window.
            is_visible: False keeps it off-screen, which needs no display.
            gives_way: whether it closes by itself, between pictures, when another is to be opened: for single pictures,
                whose next one may open it again.

        Raises:
            APIUsageError: if the size is out of range, or another screen is open: close that one first.
            MissingExtraError: if raylib is not installed, or was not when pufferlib was built.
            DisplayError: if there is no display to open a window on.
        """
        global _open_screen
        if not (1 <= width <= 16384 and 1 <= height <= 16384):
            raise APIUsageError(f"a screen is 1 to 16384 pixels wide and high, got {width} x {height}")
        if _open_screen is not None and _open_screen.gives_way and not _open_screen.is_drawing:
            _open_screen.close()
        if _open_screen is not None:
            raise APIUsageError("a screen is open already, and a process has one at a time; call its close() first")
        self._native = _native()
        self.is_drawing = False
        self._guests: weakref.WeakSet[Guest] = weakref.WeakSet()
        self.size = (width, height)
        self.gives_way = gives_way
        with _video_driver(is_visible):
            is_open = self._native.open(width, height, title, not is_visible, FONT.read_bytes())
        if not is_open:
            raise DisplayError(
                f"no window can be opened, as {display_trouble()}; "
                "without DISPLAY and WAYLAND_DISPLAY everything is drawn off-screen"
            )
        _open_screen = self

    def begin(self) -> None:
        """Starts a picture, on the background colour; APIUsageError if one was begun and not ended."""
        self._require_open()
        if self.is_drawing:
            raise APIUsageError("begin() was called twice; call end() when a picture is drawn")
        self._native.begin()
        self.is_drawing = True

    def end(self) -> None:
        """Shows the picture that was begun, and takes note of the keys and the mouse since the last; never waits."""
        self._require_drawing("end")
        self.is_drawing = False
        self._native.end()

    def frame(self) -> np.ndarray:
        """Reads what was drawn since `begin`, `(height, width, 3)` uint8 RGB; call it before `end`."""
        self._require_drawing("frame")
        width, height = self.size
        frame = np.empty((height, width, 3), np.uint8)
        self._native.frame(frame)
        return frame

    def rectangle(
        self, x: float, y: float, width: float, height: float, color: tuple[int, ...], radius: float = 0.0
    ) -> None:
        """Fills an upright rectangle, some 20 times as fast as raylib's own does off-screen.

        Its left top corner is at x and y, and its corners have the radius, all in pixels. The color is red, green, blue
        and, if it is not opaque, alpha, 0 to 255; other numbers are an APIUsageError.
        """
        self._require_drawing("rectangle")
        self._native.rectangle(x, y, width, height, radius, _rgba(color))

    def line(self, points: np.ndarray, color: tuple[int, ...], width: float = 2.0) -> None:
        """Draws straight strokes of a width from point to point, with soft edges and round ends, all in pixels.

        Points are `(count, 2)`, x and y; fewer than two draw nothing, another shape is an APIUsageError.
        """
        self._require_drawing("line")
        corners = np.ascontiguousarray(points, np.float32)
        if corners.ndim != 2 or corners.shape[1] != 2:
            raise APIUsageError(f"points must have shape (count, 2), got {corners.shape}; pass x and y of each")
        self._native.line(corners, width, _rgba(color))

    def text(self, string: str, x: float, y: float, size: int, color: tuple[int, ...]) -> None:
        """Writes one line, whose left top corner is at x and y; the size is from one line to the next, 4 to 400 pixels.

        Capitals are 0.6 of that high. The string is printable ASCII and ° ± · × – …; other characters become a question
        mark.
        """
        self._require_drawing("text")
        self._native.text(string, x, y, size, _rgba(color))

    def text_width(self, string: str, size: int) -> float:
        """How wide `text` will write a string, in pixels."""
        self._require_open()
        return self._native.text_width(string, size)

    def is_closing(self) -> bool:
        """Whether the person closed the window or pressed ESC; False when it is closed."""
        return _open_screen is self and self._native.is_closing()

    def close(self) -> None:
        """Closes it; twice is harmless."""
        global _open_screen
        if _open_screen is not self:
            return
        if self.is_drawing:
            self.end()
        for guest in [*self._guests]:
            guest.leave()
        _open_screen = None
        self._native.close()

    def welcome(self, guest: Guest) -> ModuleType:
        """Lets something draw that may load textures; it is told to leave before the screen closes.

        Returns the compiled module of the screen, whose `fonts` the render modules write with.
        """
        self._require_drawing("draw")
        self._guests.add(guest)
        return self._native

    def _require_open(self) -> None:
        if _open_screen is not self:
            raise APIUsageError("the screen is closed; make a new one")

    def _require_drawing(self, call: str) -> None:
        self._require_open()
        if not self.is_drawing:
            raise APIUsageError(f"{call}() was called with no picture begun; call begin() first")


def open_screen() -> Screen | None:
    """The screen of this process, None when there is none."""
    return _open_screen


def has_display() -> bool:
    """Whether a window would be seen by a person."""
    if os.environ.get("SDL_VIDEO_DRIVER") in ("dummy", "offscreen"):
        return False
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def display_trouble() -> str:
    """Why no window can be opened here, for a message: there is no display, or it does not answer."""
    named = [f"{name}={os.environ[name]}" for name in ("DISPLAY", "WAYLAND_DISPLAY") if os.environ.get(name)]
    return f"no display answers at {' or '.join(named)}" if named else "there is no display"


def open_window(lay_out: Callable[[tuple[int, int]], tuple[int, int]], title: str, limit: tuple[int, int]) -> Screen:
    """Opens a window that fits the display, which is only known once a window is open.

    Args:
        lay_out: arranges what is to be seen within a width and a height, in pixels, and returns those that it takes.
        title: of the window.
        limit: width and height that the window may have on a display of any size.

    Raises:
        DisplayError: if there is no display to open a window on.
    """
    screen = Screen(*lay_out(limit), title, is_visible=True)
    room = display_room()
    if screen.size[0] > room[0] or screen.size[1] > room[1]:
        screen.close()
        screen = Screen(*lay_out((min(limit[0], room[0]), min(limit[1], room[1]))), title, is_visible=True)
    return screen


def display_room() -> tuple[int, int]:
    """Pixels that a window may have, on the display where one is open: what is left beside bars and frames."""
    library = raylib()
    display = library.GetCurrentMonitor()
    return int(0.98 * library.GetMonitorWidth(display)), int(0.9 * library.GetMonitorHeight(display))


@cache
def raylib() -> ModuleType:
    """The module `raylib`, which calls the library that the render modules draw with; MissingExtraError without it."""
    spec = importlib.util.find_spec("raylib")
    libraries = sorted(Path(spec.origin).parent.glob("_raylib_cffi*.so")) if spec and spec.origin else []
    if not libraries:
        raise MissingExtraError("drawing needs raylib; install raylib-software (Linux) or raylib (macOS)")
    _let_pygame_go_first()
    ctypes.CDLL(str(libraries[0]), mode=ctypes.RTLD_GLOBAL)  # the render modules find its functions
    logger = logging.getLogger("raylib")  # warns of its version when it is imported
    was_disabled, logger.disabled = logger.disabled, True
    try:
        import raylib as module
    finally:
        logger.disabled = was_disabled
    return module


def _rgba(color: tuple[int, ...]) -> tuple[int, ...]:
    if len(color) not in (3, 4) or not all(0 <= part <= 255 for part in color):
        raise APIUsageError(f"a colour is three or four numbers from 0 to 255, got {color}")
    return (*color, 255)[:4]


def _let_pygame_go_first() -> None:
    # Environments of Gymnasium draw with it; imported later, it would take the SDL inside of raylib for its own.
    if sys.platform == "linux" and is_installed("pygame"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of how it is packaged
            import_quietly("pygame")


def _native() -> ModuleType:
    raylib()
    try:
        from pufferlib.ocean import _screen
    except ImportError as error:
        raise MissingExtraError(
            "pufferlib was built without its screen; reinstall it where raylib can be installed"
        ) from error
    return _screen


@contextmanager
def _video_driver(is_visible: bool) -> Iterator[None]:
    # For SDL, which raylib on Linux opens its window with. By itself it would hand every picture to OpenGL, which takes
    # ten times as long where that is software too.
    wanted = {"SDL_FRAMEBUFFER_ACCELERATION": os.environ.get("SDL_FRAMEBUFFER_ACCELERATION", "0")}
    if not is_visible:
        wanted["SDL_VIDEO_DRIVER"] = "dummy"
    chosen = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in chosen.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
