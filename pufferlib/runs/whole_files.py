"""Writes files whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from pufferlib.errors import StorageError

_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "allow more file handles by `ulimit -n`"),
}


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns an OSError, or an error of torch that one caused, into a StorageError of one sentence."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if cause is None or isinstance(error, StorageError):
            raise
        reason = cause.strerror or str(cause)
        remedy = f"what was saved before is whole, {_REMEDIES.get(cause.errno, 'make it writable')} and try again"
        raised = StorageError(f"{path} cannot be written ({reason}); {remedy}")
        raised.strerror = reason
        raise raised from error


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Writes a file so that a kill at any instant leaves either the old one or the new one, whole.

    Raises:
        StorageError: if it cannot be written, as on a full disk; the old one is left as it was.
    """
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
