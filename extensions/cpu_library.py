"""Opens the compiled CPU kernels, plain C libraries beside this file, and the threads that they run on.

What they take is written in cpu_kernels.h and read from there: `CONSTANTS` and `STRUCTURES` by name, and the arguments
of functions.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import weakref
from pathlib import Path

import torch

from pufferlib.errors import APIUsageError, PufferError
from pufferlib.extensions import declarations

_HEADER = Path(__file__).with_name("cpu_kernels.h").read_text(encoding="utf-8")
_DECLARED = declarations.read(_HEADER)
CONSTANTS, STRUCTURES = _DECLARED.constants, _DECLARED.structures


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels, with the argument types of their functions declared.

    Raises a PufferError if they were not built, or from another cpu_kernels.h than the one beside this file.
    """
    opened = open_library("cpu_kernels")
    expected, found = declarations.fingerprint(_HEADER), "an earlier version"
    function = getattr(opened, "puffer_declarations", None)
    if function is not None:
        function.argtypes, function.restype = [], ctypes.c_char_p
        found = function().decode()
    if found != expected:
        raise PufferError(
            f"expected kernels built from cpu_kernels.h as it is now, {expected}, found those of {found}; "
            "rebuild them with `python setup.py build_ext --inplace`"
        )
    return declare(opened)


def open_library(name: str) -> ctypes.CDLL:
    """Opens a compiled library of this folder; a PufferError if it was not built."""
    spec = importlib.util.find_spec(f"pufferlib.extensions.{name}")
    if spec is None or spec.origin is None:
        raise PufferError(
            f"expected the compiled kernels in {Path(__file__).parent}, found none; "
            "build them with `python setup.py build_ext --inplace`"
        )
    return ctypes.CDLL(spec.origin)


def declare(opened: ctypes.CDLL) -> ctypes.CDLL:
    """Gives the functions of an opened kernel library their argument types; returns it."""
    for name, argument_types in _DECLARED.functions.items():
        function = getattr(opened, name)
        function.argtypes, function.restype = argument_types, None
    return opened


@functools.cache
def parallel_for() -> int | None:
    """The address of torch's parallel loop, None where torch has none to offer (before 2.10)."""
    folder = Path(torch.__file__).parent / "lib"
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        if (folder / name).exists():
            function = getattr(ctypes.CDLL(str(folder / name)), "torch_parallel_for", None)
            return None if function is None else ctypes.cast(function, ctypes.c_void_p).value
    return None


class ThreadPool:
    """A fixed set of threads, the caller included, for kernels; they end with this object.

    It is the pool that environments are stepped on. Torch's own parallel loop gives every thread its part beforehand
    and waits for the last of them. Where other programs use a core, its thread may not have begun when the rest is
    done. This pool's threads take work when they run, and a thread that has not begun by the end is not waited for.

    Raises a PufferError if the pool was not built, or threads run out. Its `size` is at least 1.
    """

    def __init__(self, size: int):
        self.size = size
        self._start()

    def _start(self) -> None:
        library = _thread_pool()
        pool = library.pool_create(self.size)
        if not pool:
            raise PufferError(f"cannot start {self.size - 1} threads; ask for fewer with torch.set_num_threads")
        self._owner = os.getpid()
        self._handle = STRUCTURES["KernelThreads"](run=ctypes.cast(library.pool_run, ctypes.c_void_p), pool=pool)
        self._finalizer = weakref.finalize(self, library.pool_destroy, pool)

    @property
    def address(self) -> int:
        """The KernelThreads of kernels. Threads do not survive a fork: in a child they are started again."""
        if self._owner != os.getpid():
            self._finalizer()  # frees the memory of the pool that was left behind
            self._start()
        return ctypes.addressof(self._handle)


@functools.cache
def _thread_pool() -> ctypes.CDLL:
    library = open_library("thread_pool")
    library.pool_create.argtypes, library.pool_create.restype = [ctypes.c_int], ctypes.c_void_p
    library.pool_destroy.argtypes, library.pool_destroy.restype = [ctypes.c_void_p], None
    return library


LANES = CONSTANTS["MATMUL_LANES"]


def padded(columns: int) -> int:
    """Columns up to a whole number of registers."""
    return -(-columns // LANES) * LANES


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    shape: tuple[int, ...],
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Raises an APIUsageError unless a tensor is exactly of this shape, device and dtype, and contiguous."""
    if tensor.dtype == dtype and tensor.shape == shape and tensor.device == device and tensor.is_contiguous():
        return
    raise APIUsageError(
        f"{name} must be {_describe(dtype, shape, device, 'contiguous')}, got "
        f"{_describe(tensor.dtype, tensor.shape, tensor.device, _layout(tensor))}; "
        "convert it with .to(device, dtype) and .contiguous() before the call"
    )


def _describe(dtype: torch.dtype, shape: tuple[int, ...], device: torch.device, layout: str) -> str:
    return f"{layout} {str(dtype).removeprefix('torch.')} of shape {tuple(shape)} on {device}"


def _layout(tensor: torch.Tensor) -> str:
    return "contiguous" if tensor.is_contiguous() else f"strided {tensor.stride()}"
