"""A file that holds studies: Optuna's journal, which several drivers append to."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from functools import partial
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

from pufferlib.errors import ConfigError
from pufferlib.reading import MAX_LINE_BYTES, open_regular, parse_json

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_BLOCK = 65_536
_BEGINNING = b'{"op_code":'


def open_journal(path: Path) -> JournalStorage:
    """Opens the storage in a file, which is made with its folder where it is not there.

    Raises:
        ConfigError: if the file is no journal, or damaged; it stays as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        _require_journal(path)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path)))
    except OSError:
        raise
    except Exception as error:  # each kind of entry fails in a way of its own
        raise _no_journal(path, f"entries that do not belong together ({type(error).__name__})") from error


def _require_journal(path: Path) -> None:
    """Looks at every line before Optuna does, which takes what it finds, and before anything is removed of the file."""
    with open_regular(path) as file:
        for number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES), b""), 1):
            if not line.endswith(b"\n"):  # what a killed process left, or another one is writing
                is_strange = number == 1 and line[: len(_BEGINNING)] != _BEGINNING[: len(line)]
                if is_strange or len(line) == MAX_LINE_BYTES:
                    raise _no_journal(path, f"something else in line {number}")
                return
            try:
                entry = parse_json(line)
            except ValueError as error:
                raise _no_journal(path, f"something else in line {number}") from error
            if not isinstance(entry, dict) or type(entry.get("op_code")) is not int:
                raise _no_journal(path, f"something else in line {number}")


def _no_journal(path: Path, found: str) -> ConfigError:
    return ConfigError(
        f"[sweep] storage {str(path)!r} cannot be opened: it must be a journal of sweeps, found {found}; mend it, or "
        "name another one by --storage"
    )


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
