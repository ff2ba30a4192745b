"""The library's errors, one class per kind of mistake.

Every message is one sentence with the expected, the found and the remedy. The command line prints it and exits with
code 2; a program that imports the library catches `PufferError`.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any


class PufferError(Exception):
    """The base of all errors below."""


class APIUsageError(PufferError, ValueError):
    """A call with wrong arguments, or at the wrong time."""


class ConfigError(PufferError, ValueError):
    """A setting that is unknown, of the wrong type, out of range, or impossible with another one."""


class UnknownEnvironmentError(PufferError, LookupError):
    """A name that no environment has."""


class CheckpointError(PufferError, ValueError):
    """A checkpoint that is missing, damaged, or made for another policy."""


class DivergedError(PufferError, ValueError):
    """A reward, an observation, a loss or a weight became infinite or NaN, so that training cannot continue."""


class StorageError(PufferError, OSError):
    """A file of a run that cannot be written, as on a full disk."""


class ExportError(PufferError, ValueError):
    """A policy that a format cannot express."""


class MissingExtraError(PufferError, ImportError):
    """An optional package is not installed, or an environment in C not compiled."""


class MemoryLackError(PufferError, MemoryError):
    """Sizes that need more memory than the machine, or its container, has; nothing was allocated."""


class DisplayError(PufferError, RuntimeError):
    """No window can be opened: there is no display, or the one that DISPLAY names does not answer."""


class WorkerError(PufferError, RuntimeError):
    """An environment process raised or died."""


class RankError(PufferError, RuntimeError):
    """One process of several in a run failed, disappeared, or differs from the others."""


class CallbackError(PufferError, RuntimeError):
    """A callback of `learn` raised the error that is the cause."""


class PufferWarning(RuntimeWarning):
    """A problem that does not stop the work; on the command line it is one sentence as well."""


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Ends an error message about an unknown name: `; did you mean 'gamma'?`, or an empty string."""
    close = difflib.get_close_matches(name, list(candidates))
    return f"; did you mean {' or '.join(repr(match) for match in close)}?" if close else ""


def with_colon(name: str) -> str:
    """Ends an error message about `module.attribute` like `nearest`, with a colon; empty where there is no module."""
    module, _, attribute = name.rpartition(".")
    package = module.partition(".")[0]  # to find what is inside would run it
    is_there = ":" not in name and package.isidentifier() and importlib.util.find_spec(package) is not None
    return f"; did you mean '{module}:{attribute}'?" if is_there else ""


def kind_of(value: object) -> str:
    """`the class X` for a class, else the name of a value's type, for messages."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def require_results(env: object, call: str, names: Sequence[str], results: Any) -> Any:
    """What an environment's call returned; an APIUsageError where it is no tuple of the parts that are named."""
    is_tuple = isinstance(results, (tuple, list))
    if is_tuple and len(results) == len(names):
        return results
    found = f"{len(results)} of them" if is_tuple else kind_of(results)
    kind = type(getattr(env, "unwrapped", env)).__name__
    raise APIUsageError(f"{kind}.{call}() must return {', '.join(names)}, got {found}; return all")


_FEWER = "have fewer or smaller environments, batches or layers"

_LACKS = {
    "(CUDA|HIP) out of memory|CUDA error: out of memory": (
        "there is not enough memory on the GPU",
        "try a smaller --train.minibatch-size, --train.cpu-offload True, or fewer or smaller environments and layers",
    ),
    "can't allocate memory|not enough memory|out of memory|Cannot allocate memory|Storage size calculation overflowed"
    "|array is too big": ("there is not enough memory", _FEWER),
    "Too many open files": (
        "there are not enough file handles",
        "allow more by `ulimit -n`, or have fewer workers and loggers",
    ),
    "can't start new thread|Resource temporarily unavailable": (
        "no more processes or threads may be started",
        "allow more by `ulimit -u`, or have fewer workers and threads",
    ),
    "File too large": (
        "files and shared memory may not be as large as this needs",
        f"allow larger ones by `ulimit -f`, or {_FEWER}",
    ),
}
"""Messages of Python, NumPy, torch and the kernel, as patterns: their meaning, and the remedy."""


def describe_lack(error: Exception) -> str | None:
    """The sentence for an error from a lack of memory, files, processes or the like; None for other errors."""
    found = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({found or 'Python had none left'}); {_FEWER}"
    if not isinstance(error, (OSError, RuntimeError, ValueError)):
        return None
    for pattern, (lack, remedy) in _LACKS.items():
        if re.search(pattern, found):
            return f"{lack} ({found}); {remedy}"
    return None


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # without origin: a mere folder of that name


def require_extra(package: str, extra: str) -> None:
    """Raises a MissingExtraError unless an optional package is installed, which is not imported."""
    if not is_installed(package):
        raise MissingExtraError(f"the package {package} is not installed; run `pip install 'pufferlib[{extra}]'`")


@contextlib.contextmanager
def default_environment(**defaults: str) -> Iterator[None]:
    """Sets environment variables meanwhile, those that are not set already; afterwards they are as before."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def import_quietly(module: str) -> ModuleType:
    """Imports a module that imports pygame, without its greeting on stdout."""
    with default_environment(PYGAME_HIDE_SUPPORT_PROMPT="1"):  # pygame's own switch
        return importlib.import_module(module)


def import_named(name: str) -> ModuleType:
    """Imports the module of `module:attribute`; APIUsageError if there is none, else what the import raises."""
    module = name.rpartition(":")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks another one
        raise APIUsageError(
            f"{name!r} must begin with a module, and there is no module {module!r} in {os.getcwd()}, on "
            "PYTHONPATH or among the installed packages; check its spelling, or install it"
        ) from error
