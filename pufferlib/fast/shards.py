"""Work on a CPU in a few large shares, one thread each.

Small networks are made of small operations. Giving each of them to all cores costs a barrier per operation, which is
slow, and far slower where the cores are shared with others. A share of the rows for each core costs one barrier per
pass and keeps a core's data in its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch


class ThreadedChunks:
    """Runs one function over shares of some rows at the same time, each on one torch thread.

    Args:
        count: shares, at least 1; one share runs in the calling thread with all of torch's threads.
    """

    def __init__(self, count: int):
        self.count = count
        self._pool = None if count == 1 else ThreadPoolExecutor(count, "shard", initializer=_use_one_thread)

    def run(self, function: Callable[[slice], Any], rows: int) -> list[Any]:
        """Calls `function(share)` for consecutive slices that cover `range(rows)`; waits for all.

        Fewer rows than shares leave some shares out.

        Returns:
            The results in the order of the rows.
        """
        if self._pool is None:
            return [function(slice(0, rows))]
        bounds = np.linspace(0, rows, min(self.count, rows) + 1).astype(int).tolist()
        shares = [slice(begin, end) for begin, end in zip(bounds, bounds[1:], strict=False)]
        futures = [self._pool.submit(function, share) for share in shares]
        return [future.result() for future in futures]

    def close(self) -> None:
        """Ends the threads; calling it twice is harmless."""
        if self._pool is not None:
            self._pool.shutdown()


def _use_one_thread() -> None:
    torch.set_num_threads(1)  # of the operations that this thread starts


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Gives the calling thread's torch operations so many threads while it is entered."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """Keeps the calling thread's own torch operations off the cores of other threads while it is entered."""
    return torch_threads(1)
