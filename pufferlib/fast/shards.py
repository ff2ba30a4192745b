"""Work on a CPU in a few large chunks, one thread each.

Small networks are made of small operations. Giving each of them to all cores costs a barrier per operation, which is
slow, and far slower where other programs use the cores. A chunk of the rows for each core costs one barrier per pass
and keeps a core's data in its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch


class ThreadedChunks:
    """Runs one function over chunks of some rows at the same time, each on one torch thread.

    Args:
        count: chunks, at least 1; a single one runs in the calling thread with all of torch's threads.
    """

    def __init__(self, count: int):
        self.count = count
        self._pool = None if count == 1 else ThreadPoolExecutor(count, "chunk", initializer=_use_one_thread)

    def run(self, function: Callable[[slice], Any], rows: int) -> list[Any]:
        """Calls `function(chunk)` for consecutive slices of `range(rows)`; returns the results in order."""
        if self._pool is None:
            return [function(slice(0, rows))]
        bounds = np.linspace(0, rows, min(self.count, rows) + 1).astype(int).tolist()
        chunks = [slice(begin, end) for begin, end in zip(bounds, bounds[1:], strict=False)]
        futures = [self._pool.submit(function, chunk) for chunk in chunks]
        return [future.result() for future in futures]

    def close(self) -> None:
        """Ends the threads; it may be called again."""
        if self._pool is not None:
            self._pool.shutdown()


def _use_one_thread() -> None:
    torch.set_num_threads(1)  # of the operations that this thread starts


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Lets the calling thread's torch operations use `count` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """Keeps the calling thread's torch operations off the cores of other threads."""
    return torch_threads(1)
