"""Page-locked memory: a GPU copies from it without the CPU."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext

import numpy as np
import torch

_PORTABLE = 1  # CU_MEMHOSTREGISTER_PORTABLE: locked for every context of the process


class PinnedArrays:
    """Locks the memory of existing arrays in place. Where the driver refuses, copies from it are only slower."""

    def __init__(self, device: torch.device, driver: ctypes.CDLL | None = None):
        """Locks nothing yet.

        Args:
            device: copies from the memory; the driver is called in its context.
            driver: libcuda; None opens it when it is first needed.
        """
        self._device = device
        self._driver = driver
        self._locked: dict[int, np.ndarray] = {}  # by address, kept alive until it is unlocked
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
        """Unlocks all memory, which must come before its owner frees it; it may be called again."""
        while self._locked:
            address, _ = self._locked.popitem()
            self._call("cuMemHostUnregister", address)

    def _call(self, function: str, address: int, *arguments: ctypes._SimpleCData) -> bool:
        if self._driver is None:
            self._driver = ctypes.CDLL("libcuda.so.1")
        with torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext():
            return getattr(self._driver, function)(ctypes.c_void_p(address), *arguments) == 0


def whole_memory(array: np.ndarray) -> np.ndarray:
    """All bytes of the memory that an array is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.base is None:
        return array.reshape(-1).view(np.uint8)
    return np.frombuffer(array.base, np.uint8)
