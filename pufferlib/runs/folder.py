"""The folder of a run: made with its first file, described in `config.json`, written by one process at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pufferlib.errors import CheckpointError
from pufferlib.runs.description import CONFIG_FILE, write_description
from pufferlib.runs.whole_files import storing

LOCK_FILE = ".lock"

_NO_LOCKS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


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
        self._lock: weakref.finalize | None = None  # closes the locked file, where there is one
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
            with storing(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                self.lock()
            self._sign()
            write_description(self.path, self._describe())
            self._is_open = True

    def lock(self) -> None:
        """Keeps other processes from writing to the folder, which is there; the kernel unlocks it when this one ends.

        Two trainers of one process may follow each other in a folder. Where the file system knows no locks, or this
        process may not write, nothing is locked.

        Raises:
            CheckpointError: if another process has it.
        """
        if self._lock is not None:
            return
        # A lock of lockf belongs to this process alone: workers that it forks, and that may outlive it, do not have it.
        try:
            descriptor = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return
            raise
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise CheckpointError(
                    f"{self.path} is being written by {holder or 'another process'}; wait for its end, or begin "
                    "another run"
                ) from error
            if error.errno not in _NO_LOCKS:
                raise
            return
        self._lock = weakref.finalize(self, os.close, descriptor)
        self._descriptor = descriptor

    def _sign(self) -> None:
        """Says in the locked file who has it; it does its work without that, as on a full disk."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"process {os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Lets other processes write to it; calling it twice is harmless."""
        self._is_open = False
        if self._lock is not None:
            self._lock()
            self._lock = None
