"""Threads for kernels that must not wait for a core that others use: the pool that environments are stepped on.

Torch's own parallel loop gives every thread its part beforehand and waits for the last of them. Where other programs
use a core, its thread may not have begun when the rest is done. This pool's threads take work when they run, and a
thread that has not begun by the end is not waited for.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref

from pufferlib.errors import PufferError
from pufferlib.extensions.cpu_library import STRUCTURES, open_library


class ThreadPool:
    """A fixed set of threads, the caller included; they end with this object.

    Attributes:
        size: threads, at least 1.

    Raises:
        PufferError: if the pool was not built, or threads run out.
    """

    def __init__(self, size: int):
        self.size = size
        self._start()

    def _start(self) -> None:
        library = _library()
        pool = library.pool_create(self.size)
        if not pool:
            raise PufferError(f"cannot start {self.size - 1} threads; ask for fewer with torch.set_num_threads")
        self._owner = os.getpid()
        self._handle = STRUCTURES["KernelThreads"](run=ctypes.cast(library.pool_run, ctypes.c_void_p), pool=pool)
        self._finalizer = weakref.finalize(self, library.pool_destroy, pool)

    @property
    def address(self) -> int:
        """The KernelThreads of kernels. Threads do not survive a fork: in a child they are started again."""
        if self._owner != os.getpid():
            self._finalizer()  # frees the memory of the pool that was left behind
            self._start()
        return ctypes.addressof(self._handle)


@functools.cache
def _library() -> ctypes.CDLL:
    library = open_library("thread_pool")
    library.pool_create.argtypes, library.pool_create.restype = [ctypes.c_int], ctypes.c_void_p
    library.pool_destroy.argtypes, library.pool_destroy.restype = [ctypes.c_void_p], None
    return library
