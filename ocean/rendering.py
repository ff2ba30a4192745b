"""The window that environments are drawn into.

raylib has one window per process, so this module holds the one that is open. raylib is loaded when something is first
drawn: training never needs it.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from pufferlib.errors import APIUsageError, MissingExtraError

_raylib: ctypes.CDLL | None = None
_window: ModuleType | None = None  # the render module whose window is open


def has_display() -> bool:
    """Whether a window would be seen by a person."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def render(name: str, env: object) -> np.ndarray:
    """Draws one environment, opening the window if it is not open.

    Args:
        name: the environment's folder name, such as `breakout`.
        env: an environment handle of that environment's binding; it is kept alive until another one is drawn or the
            window is closed. One that wants a window of another size gets a new window.

    Returns:
        The frame, shape `(height, width, 3)`, uint8 RGB, owned by the caller.

    Raises:
        MissingExtraError: if raylib or the environment's render module is not installed.
        APIUsageError: if the window shows another kind of environment.
        RuntimeError: if no window can be opened.
    """
    global _window
    module = _render_module(name)
    if _window is not module:
        if _window is not None:
            shown = _window.__name__.split(".")[-2]
            raise APIUsageError(f"the window shows {shown}, got {name}; call close() on the {shown} environment first")
        module.open(env, has_display())
        _window = module
    try:
        height, width, pixels = module.draw(env)
    except RuntimeError:  # the window is gone: the next call opens one
        close()
        raise
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3).copy()


def is_closing() -> bool:
    """Whether the person closed the window or pressed ESC; False when no window is open."""
    return _window is not None and _window.is_closing()


def close() -> None:
    """Closes the window if one is open."""
    global _window
    if _window is not None:
        _window.close()
        _window = None


def _render_module(name: str) -> ModuleType:
    _load_raylib()
    try:
        return importlib.import_module(f"pufferlib.ocean.{name}.render")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"pufferlib was built without the render module of {name}; reinstall it where raylib can be installed"
        ) from error


def _load_raylib() -> None:
    """Makes raylib's C functions visible to the render modules; without a display it will draw off-screen."""
    global _raylib
    if _raylib is not None:
        return
    spec = importlib.util.find_spec("raylib")
    libraries = sorted(Path(spec.origin).parent.glob("_raylib_cffi*.so")) if spec and spec.origin else []
    if not libraries:
        raise MissingExtraError("drawing needs raylib; install raylib-software (Linux) or raylib (macOS)")
    if not has_display():
        os.environ.setdefault("SDL_VIDEO_DRIVER", "dummy")
    _raylib = ctypes.CDLL(str(libraries[0]), mode=ctypes.RTLD_GLOBAL)
