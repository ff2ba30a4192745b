"""Several loggers as one."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from pufferlib.errors import PufferWarning
from pufferlib.loggers.logger import Logger
from pufferlib.loggers.run_id import make_run_id


class Loggers(Logger):
    """Passes everything on to every logger; none of them stops the training.

    A PufferWarning says once that a logger raised; it still gets what comes after. Each logger gets its own copies.

    Attributes:
        loggers: those given, flattened.
        run_id: that of the first; a new one when there is none.
    """

    def __init__(self, loggers: Logger | Sequence[Logger] | None = None, settings: Mapping[str, Any] | None = None):
        self.loggers = _flatten(loggers)
        names = [logger.run_id for logger in self.loggers]
        self.run_id = next(filter(None, names), None) or make_run_id()
        self._settings = settings
        self._failed: set[int] = set()  # indices of those that were warned about

    @override
    def describe(self, settings: Mapping[str, Any]) -> None:
        self._settings = None
        # A user's own logger may do without.
        self._each(lambda logger: hasattr(logger, "describe") and logger.describe(_copied(settings)))

    @override
    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        if self._settings is not None:
            self.describe(self._settings)
        self._each(lambda logger: logger.log(_copied(metrics), step))

    @override
    def close(self, model_path: str | os.PathLike | None = None) -> None:
        self._each(lambda logger: logger.close(model_path))

    def _each(self, call: Callable[[Logger], object]) -> None:
        failures = []
        for index, logger in enumerate(self.loggers):
            try:
                call(logger)
            except Exception as error:
                if index not in self._failed:
                    self._failed.add(index)
                    failures.append((logger, error))
        for logger, error in failures:  # only now: where warnings are errors, the other loggers come first
            message = f"{type(logger).__name__} failed and may miss metrics, training goes on ({_one_line(error)})"
            warnings.warn(message, PufferWarning, stacklevel=3)


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _one_line(error: Exception) -> str:
    return " ".join(re.sub(r"\x1b\[[\d;]*m", "", f"{type(error).__name__}: {error}").split())


def _flatten(loggers: Logger | Sequence[Logger] | None) -> tuple[Logger, ...]:
    if loggers is None:
        return ()
    if isinstance(loggers, Loggers):
        return loggers.loggers
    if isinstance(loggers, Sequence):
        return tuple(inner for logger in loggers for inner in _flatten(logger))
    return (loggers,)
