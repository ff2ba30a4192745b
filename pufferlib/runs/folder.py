"""The folder of a run: made with its first file, described in `config.json`, written by one process at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pufferlib.runs.description import write_description
from pufferlib.runs.files import CONFIG_FILE, LOCK_FILE
from pufferlib.runs.lock import Lock
from pufferlib.runs.whole_files import storing


class RunFolder:
    """The folder that a trainer writes to. Making one touches nothing.

    Attributes:
        path: of the folder.
    """

    def __init__(self, path: Path, describe: Callable[[], dict[str, Any]]):
        """Takes what to write into it.

        Args:
            path: of the folder.
            describe: gives the content of its `config.json`.
        """
        self.path = path
        self._describe = describe
        self._lock = Lock(path)
        self._is_open = False

    def open(self) -> None:
        """Makes the folder this process's own, and describes the run in it; once it is, only what is gone is replaced.

        Raises:
            CheckpointError: if another process is writing to it.
            StorageError: if it cannot be written.
        """
        if self._is_open and not (self.path / CONFIG_FILE).exists():
            self.close()  # somebody removed the folder, and the lock with it
        if not self._is_open:
            is_new = not self.path.exists()
            with storing(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
            self._lock.sign()
            try:
                write_description(self.path, self._describe())
            except BaseException:
                if is_new:
                    self._remove()
                raise
            self._is_open = True

    def _remove(self) -> None:
        self._lock.release()
        with contextlib.suppress(OSError):
            (self.path / LOCK_FILE).unlink()
            self.path.rmdir()

    def describe_anew(self) -> None:
        """Replaces the description in it, if this process has it open.

        Raises:
            StorageError: if it cannot be written.
        """
        if self._is_open:
            write_description(self.path, self._describe())

    def lock(self) -> None:
        """Keeps other processes from writing to the folder, which is there, before anything is read or written in it.

        Raises:
            CheckpointError: if another process has it.
        """
        self._lock.acquire()

    def close(self) -> None:
        """Lets other processes write to it; calling it twice is harmless."""
        self._is_open = False
        self._lock.release()
