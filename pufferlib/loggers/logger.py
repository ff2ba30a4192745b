"""The protocol of loggers, and the base of those that open something."""

from __future__ import annotations

import enum
import json
import math
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.loggers.run_id import make_run_id


class Logger(Protocol):
    """The protocol of loggers.

    Making one touches neither disk nor network: every process of a distributed run makes the loggers, and only one of
    them uses them.
    """

    run_id: str

    def describe(self, settings: Mapping[str, Any]) -> None:
        """Takes the settings of the run, a nested dict, before the first log; a logger may do without."""

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Takes the metrics at one agent step; steps never go back."""

    def close(self, model_path: str | os.PathLike | None) -> None:
        """Ends the run; `model_path` is its final model, if there is one. Calling it twice is harmless."""


class NoLogger(Logger):
    """Keeps nothing but the run's name."""

    def __init__(self, run_id: str | None = None):
        self.run_id = run_id or make_run_id()

    @override
    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        pass

    @override
    def close(self, model_path: str | os.PathLike | None = None) -> None:
        pass


class LoggerState(enum.Enum):
    """The state of a lazy logger."""

    NEW = enum.auto()
    OPEN = enum.auto()
    GIVEN_UP = enum.auto()  # opening failed; a second attempt would keep the training waiting again
    CLOSED = enum.auto()


class LazyLogger(Logger):
    """Opens its run with the first call; a logger without calls leaves no trace.

    When opening fails, that call raises and the calls after it do nothing.

    Attributes:
        run_id: the run's name; a new one unless given.
    """

    def __init__(self, run_id: str | None = None):
        self.run_id = run_id or make_run_id()
        self._state = LoggerState.NEW

    @override
    def describe(self, settings: Mapping[str, Any]) -> None:
        if self._is_open():
            self._describe(settings)

    @override
    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Takes the metrics at one agent step.

        Raises:
            APIUsageError: if the logger is closed.
        """
        if self._is_open():
            self._log({name: plain(value) for name, value in metrics.items()}, int(step))

    @override
    def close(self, model_path: str | os.PathLike | None = None) -> None:
        was_open = self._state is LoggerState.OPEN
        self._state = LoggerState.CLOSED
        if was_open:
            self._close(None if model_path is None else os.fspath(model_path))

    def _is_open(self) -> bool:
        if self._state is LoggerState.CLOSED:
            name = type(self).__name__
            raise APIUsageError(f"the logger of run {self.run_id} is closed; make a new {name} to go on")
        if self._state is LoggerState.NEW:
            self._state = LoggerState.GIVEN_UP
            self._open()
            self._state = LoggerState.OPEN
        return self._state is LoggerState.OPEN

    @abstractmethod
    def _open(self) -> None:
        """Begins the run, or goes on with it."""

    def _describe(self, settings: Mapping[str, Any]) -> None:
        """Takes the settings."""

    @abstractmethod
    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Takes metrics that `plain` has converted."""

    @abstractmethod
    def _close(self, model_path: str | None) -> None:
        """Ends the run that was opened."""


def plain(value: Any) -> Any:
    """A number, a bool, text or None; NumPy's numbers and one-element tensors are converted to Python's."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    return value.item() if hasattr(value, "item") else value


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a nested dict in which everything but containers, numbers, bools and None is text."""
    return json.loads(json.dumps(settings, default=str))


def is_finite(value: object) -> bool:
    """Whether it is a number, and neither infinite nor NaN."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def is_offline(mode: str | None, variable: str) -> bool:
    """Whether a logger works without its server.

    Args:
        mode: `online`, `offline`, or None for what the environment variable says.
        variable: such as `WANDB_MODE`.

    Raises:
        APIUsageError: if the mode is another one.
    """
    if mode not in (None, "online", "offline"):
        raise APIUsageError(f"mode must be 'online', 'offline' or None, got {mode!r}")
    return (mode or os.environ.get(variable)) == "offline"
