"""The kernels of environments run thread by thread on a CPU, in place of a GPU that is not there."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pufferlib.extensions import cuda_library
from pufferlib.fast.device_envs import device_code

TESTS = Path(__file__).parents[1]
KERNELS = ("puffer_env_attach", "puffer_env_step", "puffer_env_take_logs")
PLAY = "puffer_env_play"
SHARED_BYTES = 227 * 1024
"""Of a block on an H100."""

ATTRIBUTES = {8: SHARED_BYTES, 9: 100}
"""Of a kernel: the most bytes that a block may have, and per cent of memory that is shared, not a cache."""

LAUNCH = """
extern "C" void launch_{0}(unsigned grid, unsigned block_x, unsigned block_y, void** arguments) {{
    cuda_on_cpu::launch({0}, grid, block_x, block_y, arguments, {1});
}}
"""
SHARED = "float4 block_memory[cuda_on_cpu::SHARED_BYTES / sizeof(float4)];"

needs_emulator = pytest.mark.skipif(
    shutil.which("g++") is None or sys.platform != "linux", reason="needs g++ and the coroutines of glibc"
)


class NoDevice(contextlib.nullcontext):
    """In place of torch.cuda.device, which must be a class."""

    def __init__(self, device):
        super().__init__()


LIBRARIES = tempfile.TemporaryDirectory(prefix="emulated_device_")


@functools.cache
def compile_emulated(folder: Path, code: str | None = None) -> ctypes.CDLL:
    """The device code of the environment in a folder, with warnings as errors; compiled once for all tests."""
    launches = "".join(LAUNCH.format(kernel, "nullptr") for kernel in KERNELS)
    if code is None:
        code = device_code(folder)
    else:
        launches += SHARED + LAUNCH.format(PLAY, "block_memory")
    target = Path(LIBRARIES.name, f"{folder.name}-{len(os.listdir(LIBRARIES.name))}.so")
    source = target.with_suffix(".cpp")
    source.write_text(f'#include "cuda_on_cpu.h"\n{code}{launches}')
    places = (TESTS / "extensions", folder.parent / "include", folder, cuda_library.FOLDER)
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared", "-Wall", "-Wextra"]
    flags += ["-Wno-unused-parameter", "-Wno-unused-function", "-Werror", *(f"-I{place}" for place in places)]
    subprocess.run(["g++", *flags, str(source), "-o", str(target)], check=True, timeout=600)
    return ctypes.CDLL(str(target))


@pytest.fixture
def device_emulator(monkeypatch):
    """Has launches of environments' kernels run on the CPU; gives how often each was launched."""
    launched: dict[str, int] = {}

    @functools.cache
    def library(program):
        from pufferlib import ocean

        name, _, plays = program.name.partition("-")
        folder = ocean.config_path(f"puffer_{name}").parent
        code = program.source.decode() if plays else None
        return compile_emulated(folder, code)

    def kernel(program, function, device_index):
        return library(program)["launch_" + function]

    def driver(function, kernel, *arguments):
        if function == "cuLaunchKernel":
            launch(kernel, *arguments)
        else:
            attribute, value = arguments
            assert function == "cuFuncSetAttribute" and 0 < value <= ATTRIBUTES[attribute]

    def launch(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, extra):
        assert (grid_y, grid_z, block_z, extra) == (1, 1, 1, None)
        assert shared <= SHARED_BYTES
        name = kernel.__name__.removeprefix("launch_")
        launched[name] = launched.get(name, 0) + 1
        kernel(grid_x, block_x, block_y, arguments)

    monkeypatch.setattr(cuda_library, "_driver", driver)
    for place in ("pufferlib.extensions.cuda_library.shared_memory", "pufferlib.fast.device_collector.shared_memory"):
        monkeypatch.setattr(place, lambda device: SHARED_BYTES)
    monkeypatch.setattr(cuda_library, "_kernel", kernel)
    monkeypatch.setattr(cuda_library, "_module", lambda program, device_index: library(program))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", NoDevice)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    return launched
