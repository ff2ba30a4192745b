"""The numbers of batches and workers, checked before anything runs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.machine import usable_cores
from pufferlib.vector.recipe import AUTO, Options

MAX_WORKERS = 1024  # threads or processes of one machine; more is a slip of the finger


def is_count(value: object) -> bool:
    """Whether a value is an integer of at least 1; True and 2.0 are none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1


def count_batch(options: Options, num_envs: int, default: int) -> int:
    """The environments per batch; an APIUsageError names the nearest valid sizes."""
    size = default if options.batch_size == AUTO else options.batch_size
    divisors = [divisor for divisor in range(1, num_envs + 1) if num_envs % divisor == 0]
    _check_choice("batch_size", size, divisors, f"a divisor of num_envs {num_envs}")
    return size


def count_threads(options: Options) -> int:
    """The threads of a pool, the caller included; checked by `check_workers`."""
    threads = min(usable_cores(), MAX_WORKERS) if options.num_workers == AUTO else options.num_workers
    check_workers(threads)
    return threads


def check_workers(workers: object) -> None:
    """Raises an APIUsageError if a number of threads or processes is no count, or more than a machine has."""
    if not is_count(workers) or workers > MAX_WORKERS:
        raise APIUsageError(f"num_workers must be 'auto' or an integer from 1 to {MAX_WORKERS}, got {workers!r}")


def count_workers(options: Options, num_envs: int, cores: int | None = None) -> int:
    """The number of worker processes: all have equally many environments, and a batch consists of whole workers.

    Args:
        options: of the caller of `make`.
        num_envs: environments in all.
        cores: for 'auto'; None is those that this process may use.

    Raises:
        APIUsageError: if that is impossible; the message names the nearest valid numbers.
    """
    batch_size = count_batch(options, num_envs, num_envs)
    valid = [
        workers
        for workers in range(1, num_envs + 1)
        if num_envs % workers == 0 and batch_size % (num_envs // workers) == 0
    ]
    if options.num_workers == AUTO:
        cores = usable_cores() if cores is None else cores
        return max((workers for workers in valid if workers <= cores), default=valid[0])
    rule = f"a divisor of num_envs {num_envs} with whole workers in a batch of {batch_size}"
    _check_choice("num_workers", options.num_workers, valid, rule)
    return options.num_workers


def checked_timeout(seconds: object) -> float | None:
    """The limit of a step, None for none; an APIUsageError if it is no number above 0."""
    if seconds is None:
        return None
    if not isinstance(seconds, (int, float, np.number)) or isinstance(seconds, bool) or not 0 < seconds < np.inf:
        raise APIUsageError(f"step_timeout_seconds must be None or a number above 0, got {seconds!r}")
    return float(seconds)


def _check_choice(name: str, value: object, valid: Sequence[int], rule: str) -> None:
    if is_count(value) and value in valid:
        return
    if not is_count(value):
        raise APIUsageError(f"{name} must be 'auto' or an integer of at least 1, got {value!r}; valid: {list(valid)}")
    below, above = [v for v in valid if v < value], [v for v in valid if v > value]
    near = " or ".join(str(choice) for choice in (*below[-1:], *above[:1]))
    raise APIUsageError(f"{name} must be {rule}, got {value}; the nearest is {near}")


def warn_above_cores(workers: int, cores: int | None = None) -> None:
    """Warns the caller of `make`, when a backend's constructor calls this; None is the cores of this process."""
    cores = usable_cores() if cores is None else cores
    if workers > cores:
        warnings.warn(
            f"num_workers {workers} is more than the {cores} cores this process may use; fewer are likely to be "
            "faster, unless the environments wait rather than compute",
            PufferWarning,
            stacklevel=4,
        )
