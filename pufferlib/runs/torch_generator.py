"""Torch's own random generator, which the whole program shares."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

_lock = threading.RLock()


@contextmanager
def borrowed_generator(seed: int | None = None, devices: Iterable[torch.device] = ()) -> Iterator[None]:
    """Gives torch's generator to one thread at a time, and restores it and those of the devices afterwards.

    It is what layers draw their weights from; `seed` is that of the CPU, None leaves it as it is.
    """
    with _lock, torch.random.fork_rng(list(devices)):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield
