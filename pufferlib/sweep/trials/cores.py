"""The cores of processes that run side by side."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

from pufferlib.machine import usable_cores

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def core_shares(num_workers: int) -> list[list[int]]:
    """Divides the cores that this process may use among processes that run side by side.

    Threads of one core stay together. Where a control group grants less time than there are cores, that many are chosen
    at random, because other programs on the machine choose too. Where there are more processes than cores, several
    share one.

    Returns:
        Numbers of cores for each worker, for `os.sched_setaffinity`; empty lists where the system has no such call.
    """
    if not hasattr(os, "sched_getaffinity"):  # macOS
        return [[] for _ in range(num_workers)]
    cores = sorted(os.sched_getaffinity(0), key=_place)
    if num_workers == 1:
        return [cores]
    if usable_cores() < len(cores):
        chosen = set(random.Random().sample(cores, usable_cores()))
        cores = [core for core in cores if core in chosen]
    if num_workers >= len(cores):
        return [[cores[worker % len(cores)]] for worker in range(num_workers)]
    bounds = [worker * len(cores) // num_workers for worker in range(num_workers + 1)]
    return [cores[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]


def _place(core: int) -> tuple[int, int]:
    with contextlib.suppress(OSError, ValueError):
        first = Path(_SIBLINGS.format(core)).read_text().replace("-", ",").split(",")[0]
        return int(first), core
    return core, core
