"""The CUDA kernels of extensions/ run lane by lane on a CPU, in place of a GPU that is not there."""

import contextlib
import ctypes
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import pufferlib.extensions
from pufferlib.extensions import cuda_library, mingru

FOLDER = Path(pufferlib.extensions.__file__).parent
HERE = Path(__file__).parent
LIBRARIES = tempfile.TemporaryDirectory(prefix="emulated_cuda_")

needs_emulator = pytest.mark.skipif(
    shutil.which("g++") is None or sys.platform != "linux", reason="needs g++ and the coroutines of glibc"
)


@functools.cache
def emulated():
    """All kernels, compiled once for all tests."""
    target = Path(LIBRARIES.name, "kernels.so")
    command = ["g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}"]
    subprocess.run([*command, *map(str, HERE.glob("emulated_*.cpp")), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


@pytest.fixture
def on_emulator(monkeypatch):
    """Has `cuda_library.launch` run on the emulator, and MinGRU take CPU tensors for CUDA ones; gives the launches."""
    launched = []

    def driver(function, kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, extra):
        assert (function, grid_y, grid_z, block_z, shared, extra) == ("cuLaunchKernel", 1, 1, 1, 0, None)
        launched.append(kernel.__name__.removeprefix("launch_"))
        kernel(grid_x, block_x, block_y, arguments)

    monkeypatch.setattr(cuda_library, "_driver", driver)
    monkeypatch.setattr(cuda_library, "_kernel", lambda name, function, device: emulated()["launch_" + function])
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(cuda_library, "can_run", lambda program, device: True)
    monkeypatch.setattr(mingru, "_run_cpu", mingru._run_cuda)
    return launched
