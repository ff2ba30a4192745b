"""Opens the compiled CPU kernels, plain C libraries beside this file."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path

import torch

from pufferlib.errors import PufferError

POINTER, INT64, FLOAT, DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_double

SIGNATURES = {
    "puffer_advantage": [*[POINTER] * 5, *[INT64] * 2, *[FLOAT] * 4, POINTER],
    "puffer_mingru_forward": [*[POINTER] * 6, *[INT64] * 3, POINTER],
    "puffer_mingru_backward": [*[POINTER] * 10, *[INT64] * 3, POINTER],
    "puffer_mingru_exp": [POINTER, POINTER, INT64],
    "puffer_orthogonalize": [*[POINTER] * 2, *[INT64] * 5, *[FLOAT] * 3],
    "puffer_adam_step": [POINTER, INT64, POINTER],
    "puffer_clip_gradients": [POINTER, INT64, DOUBLE],
    "puffer_chain_size": [POINTER] * 2,
    "puffer_network_sizes": [POINTER, INT64, INT64, POINTER],
    "puffer_network_structures": [POINTER],
    "puffer_network_pack": [POINTER],
    "puffer_network_act": [POINTER, POINTER],
    "puffer_network_learn": [POINTER, POINTER],
}


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels, with the argument types of their functions declared.

    Raises:
        PufferError: if they were not built.
    """
    return declare(open_library("cpu_kernels"))


def open_library(name: str) -> ctypes.CDLL:
    """Opens a compiled library of this folder.

    Raises:
        PufferError: if it was not built.
    """
    spec = importlib.util.find_spec(f"pufferlib.extensions.{name}")
    if spec is None or spec.origin is None:
        raise PufferError(
            f"expected the compiled kernels in {Path(__file__).parent}, found none; "
            "build them with `python setup.py build_ext --inplace`"
        )
    return ctypes.CDLL(spec.origin)


def declare(opened: ctypes.CDLL) -> ctypes.CDLL:
    """Gives the functions of an opened kernel library their argument types; returns it."""
    for name, argument_types in SIGNATURES.items():
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
            return None if function is None else ctypes.cast(function, POINTER).value
    return None
