"""Page-locked memory: the GPU copies from it by itself, while the CPU goes on."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext

import numpy as np
import torch

_PORTABLE = 1  # CU_MEMHOSTREGISTER_PORTABLE: locked for every context of the process


class PinnedArrays:
    """Locks the memory under arrays of others in place, so that nothing is copied to a second place first.

    Where the driver refuses, nothing is lost but speed: copies from such memory are then made in two stages.
    """

    def __init__(self, device: torch.device, driver: ctypes.CDLL | None = None):
        """Locks nothing yet.

        Args:
            device: that copies from the memory; the driver is called in its context, whatever device is current.
            driver: libcuda, opened when it is first needed.
        """
        self._device = device
        self._driver = driver
        self._locked: dict[int, np.ndarray] = {}  # the memory by its address, kept alive until it is let go
        self._refused: set[int] = set()

    def pin(self, array: np.ndarray) -> bool:
        """Locks the whole memory that an array is part of; returns whether it is locked."""
        memory = whole_memory(array)
        address = memory.ctypes.data
        if address not in self._locked and address not in self._refused:
            if self._call("cuMemHostRegister_v2", address, ctypes.c_size_t(memory.nbytes), ctypes.c_uint(_PORTABLE)):
                self._locked[address] = memory
            else:
                self._refused.add(address)
        return address in self._locked

    def close(self) -> None:
        """Lets go of all memory, before its owner does; calling it twice is harmless."""
        while self._locked:
            address, _ = self._locked.popitem()
            self._call("cuMemHostUnregister", address)

    def _call(self, function: str, address: int, *arguments: ctypes._SimpleCData) -> bool:
        if self._driver is None:
            self._driver = ctypes.CDLL("libcuda.so.1")
        with torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext():
            return getattr(self._driver, function)(ctypes.c_void_p(address), *arguments) == 0


def whole_memory(array: np.ndarray) -> np.ndarray:
    """The bytes that an array is a view into, all of them."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.base is None:
        return array.reshape(-1).view(np.uint8)
    return np.frombuffer(array.base, np.uint8)
