"""Optional packages: whether they are there, what to do where they are not, and how they are imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType

from pufferlib.errors import MissingExtraError

_HIDDEN = "PYGAME_HIDE_SUPPORT_PROMPT"  # pygame's own switch, which counts while it is imported


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # without origin: a mere folder of that name


def require_extra(package: str, extra: str) -> None:
    """Checks that an optional package is installed, without importing it.

    Raises:
        MissingExtraError: naming the extra to install.
    """
    if not is_installed(package):
        raise MissingExtraError(f"the package {package} is not installed; run `pip install 'pufferlib[{extra}]'`")


def import_quietly(module: str) -> ModuleType:
    """Imports a module that imports pygame, without its greeting on stdout; the environment variables are as before."""
    if _HIDDEN in os.environ:
        return importlib.import_module(module)
    os.environ[_HIDDEN] = "1"
    try:
        return importlib.import_module(module)
    finally:
        os.environ.pop(_HIDDEN, None)
