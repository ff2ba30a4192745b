"""Importing packages that print to stdout when they are imported, which belongs to the program's own output."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

_HIDDEN = "PYGAME_HIDE_SUPPORT_PROMPT"  # pygame's own switch, which counts while it is imported


def import_quietly(module: str) -> ModuleType:
    """Imports a module that imports pygame, without its greeting; the process's environment is as before."""
    if _HIDDEN in os.environ:
        return importlib.import_module(module)
    os.environ[_HIDDEN] = "1"
    try:
        return importlib.import_module(module)
    finally:
        os.environ.pop(_HIDDEN, None)
