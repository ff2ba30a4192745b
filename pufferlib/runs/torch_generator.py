"""Torch's own generator, which the whole program shares: borrowed by one thread at a time, and given back as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

_lock = threading.RLock()


@contextmanager
def borrowed_generator(seed: int | None = None, devices: Iterable[torch.device] = ()) -> Iterator[None]:
    """While entered, torch's generator is this thread's alone among those that borrow it.

    Layers draw their first weights from it. Two threads that seeded it without waiting for each other would get weights
    of neither seed, and would not put back what they found.

    Args:
        seed: what torch's generator on the CPU begins from; None leaves it as it is.
        devices: whose generators are put back too.
    """
    with _lock, torch.random.fork_rng(list(devices)):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield
