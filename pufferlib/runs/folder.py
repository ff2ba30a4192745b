"""The folder of a run: names, notes, whole files and the lock of the process that writes; it needs no torch."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import stat
import struct
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pufferlib.errors import CheckpointError, StorageError
from pufferlib.families.entry import slug
from pufferlib.reading import read_json

CONFIG_FILE = "config.json"
LOCK_FILE = ".lock"
TRAINER_STATE = "trainer_state.pt"

NAMED = ("best", "last")  # weights with names of their own, `best.pt` with a note `best.json`


def read_facts(path: Path) -> dict[str, Any]:
    """Returns what a file of JSON, such as the note beside weights, says by name; empty where it cannot be read."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def find_folder(
    word: str, data_dir: Path, is_run: Callable[[Path], bool], prefix: str = "", kind: str = "runs"
) -> Path | None:
    """Returns the folder of the run that a word means, None if there is none; CheckpointError if there are several.

    The word is a path to the folder or to a file in it, the folder's name in `data_dir`, a run id, or the end of one.
    The names of all folders have the prefix, such as `puffer_pong_`; `kind` names them in the message.
    """
    path, ending = Path(word), slug(f"_{word}")
    for folder in (path.parent if path.is_file() else path, data_dir / word, data_dir / slug(f"{prefix}{word}")):
        if is_run(folder):
            return folder
    found = [folder for folder in data_dir.glob(f"{prefix}*") if folder.name.endswith(ending) and is_run(folder)]
    if len(found) > 1:
        names = " and ".join(sorted(folder.name for folder in found)[:3])
        raise CheckpointError(f"{len(found)} {kind} end with {word!r}, such as {names}; write more of it")
    return found[0] if found else None


def free_folder(path: Path) -> Path:
    """Returns the path, or the first with a number behind it, such as `NAME_2`, at which there is no run."""
    numbered = (path.with_name(f"{path.name}_{number}") for number in itertools.count(2))
    return next(found for found in itertools.chain([path], numbered) if not os.path.exists(found / CONFIG_FILE))


_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "allow more file handles by `ulimit -n`"),
    errno.ENOENT: "make the folder {} first",
}


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns an OSError into a StorageError of one sentence."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno, "make it writable").format(path.parent)
        raised = StorageError(
            f"{path} cannot be written ({reason}); what was saved before is whole, {remedy} and try again"
        )
        raised.strerror = reason
        raise raised from error


def write_json(path: Path, facts: Mapping[str, object]) -> None:
    """Writes a file of JSON as `write_atomically` does; what JSON does not know becomes text."""
    write_atomically(path, (json.dumps(dict(facts), indent=2, default=str) + "\n").encode())


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Writes a file so that a kill or a full disk, a StorageError, leaves either the old or the new one whole."""
    with storing(path):
        _write_atomically(path, content)


def _write_atomically(path: Path, content: bytes | memoryview) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


_NO_LOCKS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)

# `struct flock` of the C library, of which Python knows only the bytes: type, origin, start, length, process on Linux.
_FLOCK, _FLOCK_TYPE, _FLOCK_PROCESS = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi0q", 0, 4)

_locked: weakref.WeakSet[RunFolder] = weakref.WeakSet()  # by this process


class RunFolder:
    """The folder that a trainer writes to; the kernel unlocks that of a process that ends."""

    def __init__(self, path: Path, describe: Callable[[], Mapping[str, object]]):
        self.path = path
        self._describe = describe
        self._is_open = False
        self._unlock: weakref.finalize | None = None

    def open(self) -> None:
        """Makes and locks the folder, and describes the run in it; once it is open, makes it again if it is gone.

        Raises CheckpointError if another process is writing to it, and StorageError if it cannot be written.
        """
        if self._is_open and not (self.path / CONFIG_FILE).exists():
            self.close()  # the folder was removed, and the lock with it
        if self._is_open:
            return
        is_new = not self.path.exists()
        self.lock()
        try:
            write_json(self.path / CONFIG_FILE, self._describe())
        except BaseException:
            if is_new:  # leave nothing of a folder in which nothing could be written
                self.close()
                with contextlib.suppress(OSError):
                    (self.path / LOCK_FILE).unlink()
                    self.path.rmdir()
            raise
        self._is_open = True

    def update_description(self) -> None:
        """Writes `config.json` again, if this process has the folder open; a full disk raises StorageError."""
        if self._is_open:
            write_json(self.path / CONFIG_FILE, self._describe())

    @property
    def is_lost(self) -> bool:
        """Whether another trainer of this process writes to it: two would mix their files."""
        return self._unlock is None and bool(_holders(self.path))

    def take_over(self) -> None:
        """Locks the folder, which is lost to the trainer of this process that had it before."""
        for holder in _holders(self.path):
            if holder is not self:
                holder.close()
        self.lock()

    def lock(self) -> None:
        """Makes the folder and locks it, if the file system has locks and this process may write to it; see `open`."""
        if self._unlock is not None:
            return
        with storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = _open(self.path, os.O_CREAT)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EINVAL):
                    raise CheckpointError(
                        f"{self.path / LOCK_FILE} must be a regular file, found something else; remove it to go on "
                        "there"
                    ) from error
                if error.errno in _NO_LOCKS:
                    return
                raise
            try:
                # A lock of lockf belongs to this process alone: workers that it forks, and that may outlive it, have
                # none.
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    number = writing_process(self.path)
                    holder = "another process" if number is None else f"process {number}"
                    raise CheckpointError(
                        f"{self.path} is being written by {holder}; wait for its end, or begin another run"
                    ) from error
                if error.errno in _NO_LOCKS:
                    return
                raise
        self._unlock = weakref.finalize(self, os.close, descriptor)
        _locked.add(self)

    def close(self) -> None:
        """Lets other processes write to it; may be called twice."""
        self._is_open = False
        _locked.discard(self)
        if self._unlock is not None:
            self._unlock()
            self._unlock = None


def _holders(folder: Path) -> list[RunFolder]:  # those of this process that have it locked: at most one
    found = []
    for own in list(_locked):
        with contextlib.suppress(OSError):
            found += [own] if os.path.samefile(own.path, folder) else []
    return found


def writing_process(folder: Path) -> int | None:
    """Returns the number of the process that has locked a folder, without taking the lock; None if none is known."""
    # A process that closes a locked file loses its lock, through whichever descriptor: its own are not looked at.
    if _holders(folder):
        return os.getpid()
    try:
        descriptor = _open(folder)
    except OSError:
        return None
    values = [0] * 5
    values[_FLOCK_TYPE] = fcntl.F_WRLCK
    try:
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
