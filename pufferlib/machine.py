"""The cores and the memory that this process may use, within the limits of its control groups.

On Linux a container, a batch system or systemd limits processes by control groups of version 2 or 1. They are nested,
and the tightest limit around the process holds. Unreadable limits are ignored.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pufferlib.errors import MemoryLackError

_GROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")  # lines of `hierarchy:controllers:path`; version 2 names no controllers


def usable_cores() -> int:
    """Whole cores for threads and processes: those of `core_share`, with a broken quota rounded; at least 1."""
    return max(1, round(_granted_cores()) // _processes_here())


def core_share() -> float:
    """Cores' worth of time: the affinity mask, cut down by the quotas of control groups, over LOCAL_WORLD_SIZE."""
    return _granted_cores() / _processes_here()


def usable_memory_bytes() -> int:
    """The machine's memory, cut down by the limits of control groups."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_limits("memory", _memory_limit)])


def require_memory(needed_bytes: float, what: str, remedy: str) -> None:
    """Raises MemoryLackError if so many bytes do not fit into usable memory; `what` is the subject of its message."""
    usable = usable_memory_bytes()
    if needed_bytes > usable:
        sizes = f"at least {needed_bytes / 2**30:,.1f} GiB of memory, and there are {usable / 2**30:,.1f}"
        raise MemoryLackError(f"{what} needs {sizes}; {remedy}")


def require_step_memory(needed_bytes: float, num_agents: int) -> None:
    """Raises MemoryLackError if the arrays of a step of so many agents do not fit into usable memory."""
    agents = f"{num_agents:,} agent{'' if num_agents == 1 else 's'}"
    require_memory(needed_bytes, f"a step of {agents}", "have fewer environments, or smaller observations")


def _granted_cores() -> float:
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity masks
        cores = os.cpu_count() or 1
    return min([cores, *_limits("cpu", _cpu_limit)])


def _processes_here() -> int:
    text = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, int(text)) if text.isdigit() else 1


def _limits(controller: str, limit: Callable[[Path], float]) -> Iterator[float]:
    for group in _groups_around(controller):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):  # no such file, or no number in it
            found = limit(group)
            if found > 0:  # version 1 writes -1 where there is no quota
                yield found


def _groups_around(controller: str) -> set[Path]:
    # Inside a container the path may be one that only the machine outside sees; the container's own group is then
    # the outermost that is seen.
    roots = {"": _GROUPS, controller: _GROUPS / controller}
    folders = {*roots.values()}
    with contextlib.suppress(OSError, ValueError):
        for line in _MEMBERSHIP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for name in roots.keys() & set(controllers.split(",")):
                group = roots[name] / path.lstrip("/")
                folders |= {group, *group.parents}
    return folders


def _cpu_limit(group: Path) -> float:
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()  # a quota of "max" is no number, and no limit
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota) / int(period)


def _memory_limit(group: Path) -> int:
    name = "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
    return int((group / name).read_text())
