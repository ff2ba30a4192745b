"""The errors a user can make, one class per kind of mistake.

Every message is one sentence that says what was expected, what was found, and what to do. The command line prints the
sentence and exits with code 2; a program that imports the library catches `PufferError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PufferError(Exception):
    """The base of all errors below."""


class APIUsageError(PufferError, ValueError):
    """A call with arguments, or at a moment, that it is not made for."""


class ConfigError(PufferError, ValueError):
    """A setting that is unknown, of the wrong type, out of range, or impossible with another one."""


class UnknownEnvironmentError(PufferError, LookupError):
    """A name that no environment answers to."""


class CheckpointError(PufferError, ValueError):
    """A checkpoint that is missing, damaged, or made for another policy."""


class DivergedError(PufferError, ValueError):
    """A reward, an observation, a loss or a weight became infinite or NaN: training cannot go on from it."""


class StorageError(PufferError, OSError):
    """A file of a run that cannot be written, as on a full disk."""


class ExportError(PufferError, ValueError):
    """A policy that a format cannot express."""


class MissingExtraError(PufferError, ImportError):
    """An optional package is not installed, or an environment in C not compiled."""


class WorkerError(PufferError, RuntimeError):
    """An environment process raised or died."""


class RankError(PufferError, RuntimeError):
    """A process of a run on several failed, is gone, or holds something else than the others."""


class CallbackError(PufferError, RuntimeError):
    """A callback of `learn` raised; what it raised is the cause."""


def nearest(name: str, candidates: Iterable[str], count: int = 3) -> str:
    """Ends an error message about an unknown name: `; did you mean 'gamma'?`, or an empty string."""
    close = difflib.get_close_matches(name, list(candidates), n=count)
    return f"; did you mean {' or '.join(repr(match) for match in close)}?" if close else ""
