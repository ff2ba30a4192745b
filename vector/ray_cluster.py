"""The Ray cluster that vectors work on: the user's, or a local one that lives as long as they do."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from types import ModuleType

from pufferlib.errors import MissingExtraError

MEMORY_BYTES = 256 << 20  # for objects of a local cluster, beside what the steps of its vector need

_lock = threading.Lock()
_num_users = 0  # vectors on a cluster that was started here


def import_ray() -> ModuleType:
    """Ray itself, or a MissingExtraError."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("the Ray backend needs ray; install it with pip install 'pufferlib[ray]'") from error
    return ray


def join_cluster(num_workers: int, step_bytes: int) -> bool:
    """Connects this process to a cluster; returns whether the caller must call `leave_cluster`.

    An initialised cluster, or the one that RAY_ADDRESS names, is used as it is. Else a local one starts, without
    dashboard and usage statistics.

    Args:
        num_workers: workers that will run on it.
        step_bytes: of the arrays that one step brings.
    """
    global _num_users
    ray = import_ray()
    with _lock:
        if ray.is_initialized() and not _num_users:
            return False
        if not ray.is_initialized():
            _start(ray, num_workers, step_bytes)
        _num_users += 1
        return True


def leave_cluster() -> None:
    """Shuts the cluster down with its last vector."""
    global _num_users
    with _lock:
        _num_users -= 1
        if not _num_users:
            import_ray().shutdown()


def _start(ray: ModuleType, num_workers: int, step_bytes: int) -> None:
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if "RAY_ADDRESS" in os.environ:
        ray.init(**quiet)
        return
    with _default_environment(RAY_USAGE_STATS_ENABLED="0"):
        ray.init(
            "local",
            num_cpus=num_workers,
            include_dashboard=False,
            object_store_memory=MEMORY_BYTES + 8 * step_bytes,
            **quiet,
        )


@contextlib.contextmanager
def _default_environment(**defaults: str) -> Iterator[None]:
    # For the processes that are started meanwhile; what the user set stays.
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
