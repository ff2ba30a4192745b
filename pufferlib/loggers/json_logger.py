"""One JSON object per line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from pufferlib.loggers.logger import LazyLogger, LoggerState
from pufferlib.reading import open_regular

METRICS_FILE = "metrics.jsonl"
"""Its name in the folder of a run."""


class JsonLogger(LazyLogger):
    """Appends one JSON object per `log` to a file: `{"step": 65536, "losses/entropy": 1.2, ...}`.

    Each line is whole and on its way to the disk when `log` returns; one that finds the disk full is left out. A number
    that is not finite becomes null, as JSON has no other word for it. Opening makes the file's folder and drops what a
    killed run left of a line; between two lines the file is closed, so that one that was removed comes back.

    Attributes:
        path: the file.
        run_id: the name of the file's folder unless given.
    """

    def __init__(self, path: str | os.PathLike, resume_step: int | None = None, run_id: str | None = None):
        """Touches no file yet.

        Args:
            path: such as `experiments/puffer_squared_<run id>/metrics.jsonl`.
            resume_step: lines after this agent step are dropped, as the run will write them again; None keeps all.
            run_id: the run's name.
        """
        self.path = Path(path)
        super().__init__(run_id or self.path.absolute().parent.name)
        self._resume_step = resume_step

    def go_on(self, path: str | os.PathLike, resume_step: int) -> None:
        """Writes to another file from now on, that of a run which is resumed."""
        self.close()
        self.path, self._resume_step = Path(path), resume_step
        self._state = LoggerState.NEW

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
        line = {"step": step, **finite}
        _append(self.path, f"{json.dumps(line, allow_nan=False)}\n".encode())

    @override
    def _close(self, model_path: str | None) -> None:
        """Nothing: the file is closed already."""


def _append(path: Path, line: bytes) -> None:
    # The whole line or nothing of it.
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
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
