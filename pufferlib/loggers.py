"""Where the metrics of a run go: nowhere, or one JSON object per line."""

from __future__ import annotations

import json
import math
import os
import secrets
import threading
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from typing_extensions import override

from pufferlib.errors import APIUsageError

_id_lock = threading.Lock()
_last_microsecond = 0  # of the last id, so that ids of one process keep their order


def make_run_id() -> str:
    """A new name for a run, such as `20250131_235959_123456_9f3a1c07`.

    Sorted by name, runs are sorted by the time (UTC) at which they began. No two are alike, in this process or any
    other.
    """
    global _last_microsecond
    with _id_lock:
        _last_microsecond = max(time.time_ns() // 1000, _last_microsecond + 1)
        seconds, microsecond = divmod(_last_microsecond, 1_000_000)
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y%m%d_%H%M%S}_{microsecond:06}_{secrets.token_hex(4)}"


class Logger(Protocol):
    """What the trainer asks of a logger."""

    run_id: str

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


class JsonLogger(Logger):
    """Appends one JSON object per `log` to a file: `{"step": 65536, "losses/entropy": 1.2, ...}`.

    Each line is whole and on its way to the disk when `log` returns. A number that is not finite becomes null, as JSON
    has no other word for it.

    Attributes:
        path: the file.
        run_id: the name of the file's folder unless given.
    """

    def __init__(self, path: str | os.PathLike, resume_step: int | None = None, run_id: str | None = None):
        """Opens the file, making its folder; what a killed run left of a line is dropped.

        Args:
            path: such as `experiments/puffer_squared_<run id>/metrics.jsonl`.
            resume_step: lines after this agent step are dropped, as the run will write them again; None keeps all.
            run_id: the run's name.
        """
        self.path = Path(path)
        self.run_id = run_id or self.path.absolute().parent.name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            _rewrite(self.path, math.inf if resume_step is None else resume_step)
        self._file = self.path.open("a", encoding="utf-8")

    @override
    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        if self._file.closed:
            raise APIUsageError(f"the logger of {self.path} is closed; make a new JsonLogger to go on")
        line = {"step": int(step), **{name: _plain(value) for name, value in metrics.items()}}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()

    @override
    def close(self, model_path: str | os.PathLike | None = None) -> None:
        self._file.close()


def _plain(value: Any) -> Any:
    """A number, a bool or text as JSON writes it; NumPy's numbers and one-element tensors included."""
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    number = value.item() if hasattr(value, "item") else value
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _rewrite(path: Path, last_step: float) -> None:
    """Keeps the whole lines up to `last_step`; the old file stays until the new one is complete."""
    text = path.read_text(encoding="utf-8", errors="replace")
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
