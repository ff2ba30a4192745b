"""Loggers: the protocol, run ids, several at once, and the JSON lines of a run's folder."""

from __future__ import annotations

import enum
import json
import math
import os
import re
import secrets
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from typing_extensions import override

from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.reading import open_regular


def make_run_id() -> str:
    """A new name for a run, such as `20250131_235959_123456_9f3a1c07`.

    Names are sorted as the times (UTC) at which runs began. No two are alike, in this process or any other.
    """
    return f"{datetime.now(timezone.utc):%Y%m%d_%H%M%S_%f}_{secrets.token_hex(4)}"


class Logger(Protocol):
    """The protocol of loggers.

    Making one touches neither disk nor network: every process of a distributed run makes the loggers, and only one of
    them uses them.
    """

    run_id: str

    def describe(self, settings: Mapping[str, Any]) -> None:
        """Takes the settings of the run, a nested dict, before the first log; a logger may do without."""
        return  # in each, as type checkers take an empty body for an abstract method

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Takes the metrics at one agent step; steps never go back."""
        return

    def close(self, model_path: str | os.PathLike | None = None) -> None:
        """Ends the run; `model_path` is its final model, if there is one. Calling it twice is harmless."""
        return


class NoLogger(Logger):
    """Keeps nothing but the run's name."""

    def __init__(self, run_id: str | None = None):
        self.run_id = run_id or make_run_id()


# States of a LazyLogger; in one that is given up, a second attempt to open would keep the training waiting again.
_State = enum.Enum("_State", "NEW OPEN GIVEN_UP CLOSED")


class LazyLogger(Logger):
    """Opens its run with the first call; when that fails, the call raises and the calls after it do nothing."""

    def __init__(self, run_id: str | None = None):
        self.run_id = run_id or make_run_id()
        self._state = _State.NEW

    @override
    def describe(self, settings: Mapping[str, Any]) -> None:
        if self._is_open():
            self._describe(settings)

    @override
    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Takes the metrics at one agent step; an APIUsageError where the logger is closed."""
        if self._is_open():
            # NumPy's numbers and tensors of one element become Python's.
            plain = {name: value.item() if hasattr(value, "item") else value for name, value in metrics.items()}
            self._log(plain, int(step))

    @override
    def close(self, model_path: str | os.PathLike | None = None) -> None:
        was_open = self._state is _State.OPEN
        self._state = _State.CLOSED
        if was_open:
            self._close(None if model_path is None else os.fspath(model_path))

    def _is_open(self) -> bool:
        if self._state is _State.CLOSED:
            name = type(self).__name__
            raise APIUsageError(f"the logger of run {self.run_id} is closed; make a new {name} to continue")
        if self._state is _State.NEW:
            self._state = _State.GIVEN_UP
            self._open()
            self._state = _State.OPEN
        return self._state is _State.OPEN

    def _open(self) -> None: ...  # begins the run, or continues it

    def _describe(self, settings: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def _log(self, metrics: Mapping[str, Any], step: int) -> None: ...  # plain numbers, text and None

    def _close(self, model_path: str | None) -> None: ...  # ends the run that was opened


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a nested dict in which everything but containers, numbers, bools and None is text."""
    return json.loads(json.dumps(settings, default=str))


def is_offline(mode: str | None, variable: str) -> bool:
    """Whether a logger works without its server: by the mode, or by an environment variable such as `WANDB_MODE`."""
    if mode not in (None, "online", "offline"):
        raise APIUsageError(f"mode must be 'online', 'offline' or None, got {mode!r}")
    return (mode or os.environ.get(variable)) == "offline"


class Loggers(Logger):
    """Passes everything on to every logger, in copies of its own; none of them stops the training.

    A PufferWarning says once that a logger raised; it still gets what comes after. The run's name is that of the first.
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
            reason = " ".join(re.sub(r"\x1b\[[\d;]*m", "", f"{type(error).__name__}: {error}").split())
            message = f"{type(logger).__name__} failed and may miss metrics, training goes on ({reason})"
            warnings.warn(message, PufferWarning, stacklevel=3)


def _copied(value: object) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _flatten(loggers: Logger | Sequence[Logger] | None) -> tuple[Logger, ...]:
    if loggers is None:
        return ()
    if isinstance(loggers, Loggers):
        return loggers.loggers
    if not isinstance(loggers, Sequence):
        return (loggers,)
    return tuple(inner for logger in loggers for inner in _flatten(logger))


METRICS_FILE = "metrics.jsonl"
"""Its name in the folder of a run."""


class JsonLogger(LazyLogger):
    """Appends one JSON object per `log` to a file: `{"step": 65536, "losses/entropy": 1.2, ...}`.

    Each line is whole and on its way to the disk when `log` returns; one that finds the disk full is left out. A number
    that is not finite becomes null. Opening makes the file's folder and drops what a killed run left of a line; between
    two lines the file is closed, so that one that was removed comes back.

    Args:
        path: such as `experiments/puffer_squared_<run id>/metrics.jsonl`.
        resume_step: lines after this agent step are dropped, as the run will write them again; None keeps all.
        run_id: the run's name; None is that of the file's folder.
    """

    def __init__(self, path: str | os.PathLike, resume_step: int | None = None, run_id: str | None = None):
        self.path = Path(path)
        super().__init__(run_id or self.path.absolute().parent.name)
        self._resume_step = resume_step

    def continue_in(self, path: str | os.PathLike, resume_step: int | None) -> None:
        """Writes to another file from now on, such as that of a run which is resumed."""
        self.close()
        self.path, self._resume_step = Path(path), resume_step
        self._state = _State.NEW

    @override
    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            _rewrite(self.path, math.inf if self._resume_step is None else self._resume_step)

    @override
    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in metrics.items()
        }
        line = f"{json.dumps({'step': step} | finite | {'step': step}, allow_nan=False)}\n".encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            try:
                while line:
                    line = line[file.write(line) :]  # a disk that becomes full takes a part before it refuses the rest
            except OSError:
                file.truncate(size)
                raise


def _rewrite(path: Path, last_step: float) -> None:
    with open_regular(path) as old:
        text = old.read().decode(errors="replace")
    kept = "".join(line for line in text.splitlines(keepends=True) if _is_kept(line, last_step))
    if kept == text:
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(kept)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _is_kept(line: str, last_step: float) -> bool:
    if not line.endswith("\n"):
        return False
    try:
        return json.loads(line)["step"] <= last_step
    except (json.JSONDecodeError, KeyError, TypeError):  # torn in the middle of a line
        return False
