"""The lock of a run's folder, which one process at a time writes to."""

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
    """The lock of one folder; the kernel releases that of a process that ends. Making one touches nothing."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._finalizer: weakref.finalize | None = None  # closes the locked file, where there is one
        self._descriptor = -1

    def acquire(self) -> None:
        """Locks the folder, if the file system has locks and this process may write to it.

        Raises:
            CheckpointError: if another process has locked it.
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
        """Writes the number of this process into the locked file, if the disk has room."""
        if self._finalizer is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"process {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Unlocks the folder; may be called twice."""
        _held.discard(self)
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = None


def writing_process(folder: Path) -> int | None:
    """Returns the number of the process that has locked a folder, without taking the lock; None if none is known."""
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
    path = folder / LOCK_FILE  # no link, which would have another file be written to
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
