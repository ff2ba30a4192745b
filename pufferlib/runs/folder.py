"""The folder of a run: made with its first file, described in `config.json`, written by one process at a time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pufferlib.runs.files import CONFIG_FILE, LOCK_FILE
from pufferlib.runs.lock import Lock
from pufferlib.runs.whole_files import storing, write_atomically


class RunFolder:
    """The folder that a trainer writes to. Making one touches nothing.

    Attributes:
        path: of the folder.
    """

    def __init__(self, path: Path, describe: Callable[[], dict[str, Any]]):
        self.path = path
        self._describe = describe
        self._lock = Lock(path)
        self._is_open = False

    def open(self) -> None:
        """Makes and locks the folder, and describes the run in it; once it is open, makes it again if it is gone.

        Raises:
            CheckpointError: if another process is writing to it.
            StorageError: if it cannot be written.
        """
        if self._is_open and not (self.path / CONFIG_FILE).exists():
            self.close()  # the folder was removed, and the lock with it
        if self._is_open:
            return
        is_new = not self.path.exists()
        self.lock()
        self._lock.sign()
        try:
            write_description(self.path, self._describe())
        except BaseException:
            if is_new:  # leave nothing of a folder in which nothing could be written
                self._lock.release()
                with contextlib.suppress(OSError):
                    (self.path / LOCK_FILE).unlink()
                    self.path.rmdir()
            raise
        self._is_open = True

    def update_description(self) -> None:
        """Writes `config.json` again, if this process has the folder open; a full disk raises StorageError."""
        if self._is_open:
            write_description(self.path, self._describe())

    def lock(self) -> None:
        """Makes the folder, and keeps other processes from writing to it.

        Raises:
            CheckpointError: if another process is writing to it.
        """
        with storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()

    def close(self) -> None:
        """Lets other processes write to it; may be called twice."""
        self._is_open = False
        self._lock.release()


def write_description(folder: Path, description: dict[str, Any]) -> None:
    """Writes `config.json` into the run's folder."""
    text = json.dumps(description, indent=2, default=str) + "\n"
    write_atomically(folder / CONFIG_FILE, text.encode())
