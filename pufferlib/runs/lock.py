"""Who writes to the folder of a run: one process at a time, which the kernel's lock of a file tells."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import sys
import weakref
from pathlib import Path

from pufferlib.errors import CheckpointError
from pufferlib.runs.files import LOCK_FILE

_NO_LOCKS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)

# `struct flock` of the C library, of which Python knows only the bytes: type, origin, start, length, process on Linux.
_FLOCK, _FLOCK_TYPE, _FLOCK_PROCESS = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi0q", 0, 4)

_held: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """The lock of one folder, which the kernel takes from a process that ends.

    Two trainers of one process may follow each other in a folder.
    """

    def __init__(self, folder: Path):
        """Touches nothing.

        Args:
            folder: of the run.
        """
        self.folder = folder
        self._finalizer: weakref.finalize | None = None  # closes the locked file, where there is one
        self._descriptor = -1

    def acquire(self) -> None:
        """Keeps other processes from writing to the folder, which is there.

        Where the file system knows no locks, or this process may not write, nothing is locked.

        Raises:
            CheckpointError: if another process has it.
        """
        if self._finalizer is not None:
            return
        # A lock of lockf belongs to this process alone: workers that it forks, and that may outlive it, do not have it.
        try:
            descriptor = _open(self.folder, os.O_CREAT)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return
            if error.errno in (errno.ELOOP, errno.EINVAL):
                raise CheckpointError(
                    f"{self.folder / LOCK_FILE} must be a regular file, found something else; remove it to go on there"
                ) from error
            raise
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise CheckpointError(
                    f"{self.folder} is being written by {holder or 'another process'}; wait for its end, or begin "
                    "another run"
                ) from error
            if error.errno not in _NO_LOCKS:
                raise
            return
        self._finalizer = weakref.finalize(self, os.close, descriptor)
        self._descriptor = descriptor
        _held.add(self)

    def sign(self) -> None:
        """Says in the locked file who has it; the lock does its work without that, as on a full disk."""
        if self._finalizer is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"process {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Lets other processes write to the folder; calling it twice is harmless."""
        _held.discard(self)
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = None


def writing_process(folder: Path) -> int | None:
    """The number of the process that writes to the folder of a run; None where none does, or nobody can tell.

    Looking takes no lock, so that nobody who begins meanwhile is refused.
    """
    # A process that closes a locked file loses its lock, through whichever descriptor: its own are not looked at.
    if any(_is_same(lock.folder, folder) for lock in list(_held)):
        return os.getpid()
    try:
        descriptor = _open(folder)
    except OSError:
        return None
    try:
        values = [0] * 5
        values[_FLOCK_TYPE] = fcntl.F_WRLCK
        found = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *values)))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None if found[_FLOCK_TYPE] == fcntl.F_UNLCK else found[_FLOCK_PROCESS]


def _open(folder: Path, flags: int = 0) -> int:
    path = folder / LOCK_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it must be a regular file", str(path))
    return descriptor


def _is_same(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False
