"""One JSON object per line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from pufferlib.loggers.logger import LazyLogger


class JsonLogger(LazyLogger):
    """Appends one JSON object per `log` to a file: `{"step": 65536, "losses/entropy": 1.2, ...}`.

    Each line is whole and on its way to the disk when `log` returns. A number that is not finite becomes null, as JSON
    has no other word for it. Opening makes the file's folder and drops what a killed run left of a line.

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

    @override
    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            _rewrite(self.path, math.inf if self._resume_step is None else self._resume_step)
        self._file = self.path.open("a", encoding="utf-8")

    @override
    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        line = {"step": step, **{name: _finite(value) for name, value in metrics.items()}}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()

    @override
    def _close(self, model_path: str | None) -> None:
        self._file.close()


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
