"""A file that holds studies: Optuna's journal, which several drivers append to."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_BLOCK = 65_536


def open_journal(path: Path) -> JournalStorage:
    """Opens the storage in a file, which is made with its folder where it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path)))


class JournalLock(JournalFileSymlinkLock):
    """Who may append to a journal: a lock that the kernel takes from a process which is killed.

    Optuna's own lock outlives its holder for half a minute; it is what remains where the file system knows no locks.
    Half a line, which a process that was killed or found the disk full left behind, is removed before another comes
    after it and makes the whole file unreadable.
    """

    def __init__(self, path: Path):
        """Opens a file beside the journal.

        Args:
            path: of the journal, which need not be there yet.
        """
        super().__init__(str(path))
        self._path = path
        self._descriptor: int | None = None
        self._has_locks = True

    def acquire(self) -> bool:
        """Waits until nobody else appends."""
        self._has_locks = self._has_locks and self._lock()
        if not self._has_locks:
            super().acquire()
        _remove_half_line(self._path)
        return True

    def release(self) -> None:
        """Lets others append."""
        if not self._has_locks:
            super().release()
        elif self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _lock(self) -> bool:
        self._descriptor = os.open(f"{self._path}.flock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            os.close(self._descriptor)
            self._descriptor = None
            if error.errno not in _NO_LOCKS:
                raise
            return False
        return True


def _remove_half_line(path: Path) -> None:
    """Cuts a file after its last whole line."""
    with contextlib.suppress(FileNotFoundError), path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        if end == 0:
            return
        file.seek(end - 1)
        if file.read(1) == b"\n":
            return
        position = end
        while position > 0:
            position = max(0, position - _BLOCK)
            file.seek(position)
            newline = file.read(min(_BLOCK, end - position)).rfind(b"\n")
            if newline >= 0:
                position += newline + 1
                break
        file.truncate(position)
