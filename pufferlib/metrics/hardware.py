"""The use of the machine as metrics: CPU, memory, and an NVIDIA GPU where the run trains on one."""

from __future__ import annotations

import contextlib
import importlib
import math
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import psutil
import torch

from pufferlib.machine import core_share, usable_memory_bytes

_LOOK_AGAIN_SECONDS = 5.0  # for processes that began since
_UNREADABLE = (psutil.Error, OSError)  # a process ended just now, or there is no file handle left: no reason to stop


class HardwareMeter:
    """Samples the use of this process and its children, of the CPU since the sample before, and of its GPU."""

    def __init__(self, device: torch.device):
        self._gpu = GpuMeter(gpu_uuid(device))
        self._process = psutil.Process()
        self._cores = core_share()
        self._memory = usable_memory_bytes()
        self._seconds, self._processes_until = time.monotonic(), -math.inf
        self._cpu_seconds, _ = self._read()  # by process

    def sample(self) -> dict[str, float]:
        """Returns `cpu` and `memory`, 0 to 1 of what may be used, `memory_bytes`, resident, and what GpuMeter samples.

        Memory that worker processes share counts once for each.
        """
        now, (cpu_seconds, memory) = time.monotonic(), self._read()
        # A child that began since the last sample counts whole, one that ended no longer counts.
        busy = sum(seconds - self._cpu_seconds.get(pid, 0.0) for pid, seconds in cpu_seconds.items())
        share = busy / (max(now - self._seconds, 1e-6) * self._cores)
        self._seconds, self._cpu_seconds = now, cpu_seconds
        used = {"cpu": _fraction(share), "memory": _fraction(memory / self._memory), "memory_bytes": memory}
        return {**used, **self._gpu.sample()}

    def _read(self) -> tuple[dict[int, float], int]:
        # Finding the children reads every process of the machine, so the list is kept for a while.
        now = time.monotonic()
        if now >= self._processes_until:
            self._processes = [self._process]
            with contextlib.suppress(*_UNREADABLE):
                self._processes += self._process.children(recursive=True)
            self._processes_until = now + _LOOK_AGAIN_SECONDS
        cpu_seconds, memory = {}, 0
        for process in self._processes:
            with contextlib.suppress(*_UNREADABLE):
                times = process.cpu_times()
                cpu_seconds[process.pid] = times.user + times.system
            with contextlib.suppress(*_UNREADABLE):
                memory += process.memory_info().rss
        return cpu_seconds, memory

    def close(self) -> None:
        """Releases the driver; may be called twice."""
        self._gpu.close()


def _fraction(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


class GpuMeter:
    """Asks NVIDIA's driver about the GPU of a UUID, by the package nvidia-ml-py of the extra `gpu`.

    The driver's numbers are of the whole GPU, with other processes. Numbers that the package, the driver or this GPU
    does not have are left out silently.
    """

    def __init__(self, uuid: str | None, driver: ModuleType | None = None):
        self._driver: ModuleType | None = None
        self._handle: Any = None
        driver = driver or (_import_driver() if uuid else None)
        if uuid is None or driver is None:
            return
        try:
            driver.nvmlInit()
        except driver.NVMLError:
            return
        self._driver = driver
        for kind in ("GPU", "MIG"):  # the second for a slice of a GPU, which tells its memory and not its use
            name = f"{kind}-{uuid}"
            self._handle = self._handle or self._ask(lambda name=name: driver.nvmlDeviceGetHandleByUUID(name))

    def sample(self) -> dict[str, float]:
        """Returns `gpu`, 0 to 1: the part of the driver's last sampling period, up to a second, in which a kernel ran.

        And `gpu_memory_bytes`, in use, and `gpu_memory`, their fraction of all there is.
        """
        if self._handle is None:
            return {}
        found = {}
        rates = self._ask(lambda: self._driver.nvmlDeviceGetUtilizationRates(self._handle))
        if rates is not None:
            found["gpu"] = rates.gpu / 100
        memory = self._ask(lambda: self._driver.nvmlDeviceGetMemoryInfo(self._handle))
        if memory is not None:
            found |= {"gpu_memory": memory.used / memory.total, "gpu_memory_bytes": memory.used}
        return found

    def close(self) -> None:
        """Releases the driver; may be called twice."""
        if self._driver is not None:
            self._handle = None
            self._ask(self._driver.nvmlShutdown)
            self._driver = None

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._driver.NVMLError:
            return None


def gpu_uuid(device: torch.device) -> str | None:
    """Returns the UUID of a CUDA device, the same in every process while indices differ; None without one."""
    if device.type != "cuda" or torch.version.cuda is None:  # ROCm's devices are called cuda as well
        return None
    return str(torch.cuda.get_device_properties(device).uuid)


def _import_driver() -> ModuleType | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # another package of the same module warns of being out of date
            return importlib.import_module("pynvml")
    except ImportError:
        return None
