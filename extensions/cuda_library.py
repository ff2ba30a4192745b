"""Loads and launches the CUDA kernels through the driver, which every machine with a GPU has.

A kernel file `<name>.cu` holds device code only. Where nvcc was present at build time, `<name>-<hash>.fatbin` lies
beside it; elsewhere, where a source was changed since, or where the driver does not accept that one, NVRTC, which torch
carries, compiles the file at first use, as it does a Program, which has no file: for the device's architecture, or for
the nearest one that NVRTC knows where the device is newer. The result is kept in the user's cache folder under a hash
of all that went into it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pufferlib.errors import PufferError, PufferWarning
from pufferlib.extensions.cuda_sources import STANDARD_HEADERS, fatbin_name, hash_sources, read_sources
from pufferlib.extensions.declarations import Declarations, read

FOLDER = Path(__file__).parent
OPTIONS = ("--std=c++17",)
INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
MAX_DYNAMIC_SHARED_SIZE_BYTES, PREFERRED_SHARED_MEMORY_CARVEOUT = 8, 9  # CU_FUNC_ATTRIBUTE_..., of cuda.h


@dataclass(frozen=True, eq=False)
class Program:
    """Kernels that are no file of this folder.

    Attributes:
        name: of the compiled file in the cache, and in messages.
        source: CUDA code.
        headers: what it may include, by name; NVRTC has none of its own.
        options: for the compiler.
    """

    name: str
    source: bytes
    headers: Mapping[str, bytes]
    options: tuple[str, ...] = OPTIONS


def launch(
    program: str | Program,
    function: str,
    grid: int,
    block: tuple[int, int],
    arguments: tuple[torch.Tensor | int | tuple[float, ...] | ctypes.Structure | None, ...],
    shared_bytes: int = 0,
) -> None:
    """Runs a kernel on the current stream of its tensors' device, without waiting for it.

    Args:
        program: the file that holds the kernel, without `.cu`, or what else it is compiled from.
        function: the kernel.
        grid: number of blocks; with 0 nothing happens.
        block: threads in x and y.
        arguments: in the kernel's order: a tensor (first of all) is passed as its address, None as a null pointer, an
            integer as `long long`, a tuple of floats as a struct of them, a structure as it is.
        shared_bytes: of memory for each block; above 48 KiB only after `reserve_shared`.

    Raises:
        PufferError: if the kernel cannot be compiled, loaded or launched.
    """
    if grid == 0:
        return
    device = arguments[0].device
    values = [_as_argument(argument) for argument in arguments]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    with torch.cuda.device(device):
        kernel = _kernel(program, function, device.index)
        stream = torch.cuda.current_stream(device).cuda_stream
        _driver("cuLaunchKernel", kernel, grid, 1, 1, *block, 1, shared_bytes, ctypes.c_void_p(stream), pointers, None)


def prepare(program: str | Program, device: torch.device) -> None:
    """Compiles and loads kernels before they are needed; raises a PufferError if that is not possible."""
    with torch.cuda.device(device):
        _module(program, torch.cuda.current_device())


def is_nvidia(device: torch.device) -> bool:
    """Whether a device is a GPU of NVIDIA's; torch names those of others `cuda`, too."""
    return device.type == "cuda" and torch.version.cuda is not None


@functools.cache
def can_run(program: str, device: torch.device) -> bool:
    """Whether a kernel file can be compiled and loaded; where it cannot, the first call says why in a warning."""
    try:
        prepare(program, device)
    except PufferError as error:
        warnings.warn(f"torch computes what the kernel {program} would: {error}", PufferWarning, stacklevel=3)
        return False
    return True


@functools.cache
def declared(program: str) -> Declarations:
    """The structures that a kernel file takes, which it declares itself."""
    return read((FOLDER / f"{program}.cu").read_text())


def shared_memory(device: torch.device) -> int:
    """Bytes that a block of threads can have."""
    properties = torch.cuda.get_device_properties(device)
    return getattr(properties, "shared_memory_per_block_optin", 48 * 1024)


def reserve_shared(program: str | Program, function: str, device: torch.device, shared_bytes: int, blocks: int) -> None:
    """Lets a kernel have `shared_bytes` for each block, at most `shared_memory` of the device.

    A multiprocessor sets aside what `blocks` need, and caches with the rest. Raises a PufferError if the kernel cannot
    be compiled or loaded, or the memory cannot be had.
    """
    percent = min(100, -(-100 * blocks * shared_bytes // shared_memory(device)))
    with torch.cuda.device(device):
        kernel = _kernel(program, function, torch.cuda.current_device())
        _driver("cuFuncSetAttribute", kernel, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        _driver("cuFuncSetAttribute", kernel, PREFERRED_SHARED_MEMORY_CARVEOUT, percent)


def _as_argument(argument):
    if argument is None:
        return ctypes.c_void_p(0)
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, tuple):
        return (ctypes.c_float * len(argument))(*argument)
    return argument if isinstance(argument, ctypes.Structure) else ctypes.c_longlong(argument)


@functools.cache
def open_driver() -> ctypes.CDLL:
    """The library of the driver; raises a PufferError if there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise PufferError(f"expected NVIDIA's driver library to run a kernel on the GPU, found none: {error}") from None


def _status(function: str, *arguments) -> int:
    status = getattr(open_driver(), function)(*arguments)
    if status == INVALID_CONTEXT:  # the first call of a thread
        context = ctypes.c_void_p()  # torch's, of the device
        open_driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), torch.cuda.current_device())
        open_driver().cuCtxSetCurrent(context)
        status = getattr(open_driver(), function)(*arguments)
    return status


def _driver(function: str, *arguments) -> None:
    status = _status(function, *arguments)
    if status != 0:
        message = ctypes.c_char_p()
        open_driver().cuGetErrorName(status, ctypes.byref(message))
        text = (message.value or b"an unknown error").decode()
        raise PufferError(f"{function} must succeed to run a kernel on the GPU, it returned {status} ({text})")


@functools.cache
def _kernel(program: str | Program, function: str, device_index: int) -> ctypes.c_void_p:
    # The device's context is current.
    kernel = ctypes.c_void_p()
    _driver("cuModuleGetFunction", ctypes.byref(kernel), _module(program, device_index), function.encode())
    return kernel


@functools.cache
def _module(program: str | Program, device_index: int) -> ctypes.c_void_p:
    module = ctypes.c_void_p()
    if isinstance(program, str):
        built = FOLDER / fatbin_name(FOLDER, program)
        if built.exists() and _status("cuModuleLoadData", ctypes.byref(module), built.read_bytes()) == 0:
            return module
    architecture = architecture_for(*torch.cuda.get_device_capability(device_index), _known_architectures())
    if _status("cuModuleLoadData", ctypes.byref(module), machine_code(program, architecture)) != 0:
        # The file in the cache may be damaged.
        _driver("cuModuleLoadData", ctypes.byref(module), machine_code(program, architecture, is_cached=False))
    return module


def architecture_for(major: int, minor: int, known: Sequence[int]) -> str:
    """What NVRTC compiles for, so that a device of compute capability `major`.`minor` runs it.

    Machine code runs on later devices of the same major; the driver compiles PTX for all later ones. `known` are the
    architectures that NVRTC can compile for, such as 90 for sm_90.
    """
    capability = 10 * major + minor
    usable = [each for each in known if each <= capability]
    if not usable:
        return f"sm_{capability}"  # NVRTC says that it is too old
    return f"{'sm' if max(usable) // 10 == major else 'compute'}_{max(usable)}"


def machine_code(program: str | Program, architecture: str, is_cached: bool = True) -> bytes:
    """Compiles for "sm_90" to machine code, for "compute_90" to PTX, or takes the result from the cache.

    Without `is_cached` it compiles anew, and replaces what the cache has. Raises a PufferError if NVRTC is missing or
    rejects the code.
    """
    nvrtc = _open_nvrtc()
    if isinstance(program, str):
        source, headers = read_sources(FOLDER, program)
        # The functions that cpu_kernels.h declares are no kernels, and are not called.
        program = Program(program, source, headers | STANDARD_HEADERS, (*OPTIONS, "-default-device"))
    key = hash_sources(program.source, dict(program.headers), _version(nvrtc, program.options))
    folder = _cache_folder()
    cached = None if folder is None else folder / f"{program.name}-{architecture}-{key}.cubin"
    if is_cached and cached is not None:
        with contextlib.suppress(OSError):  # there is none, or it is another user's
            return cached.read_bytes()
    code = _compile(nvrtc, program, architecture)
    if cached is not None:
        _keep(cached, code)
    return code


@functools.cache
def _open_nvrtc() -> ctypes.CDLL:
    file_name = f"libnvrtc.so.{(torch.version.cuda or '13').split('.')[0]}"
    folders = [folder for entry in sys.path for folder in sorted(Path(entry).glob("nvidia/*/lib"))]
    folders += [Path(torch.__file__).parent / "lib", Path(sys.prefix) / "lib"]
    found = [str(folder / file_name) for folder in folders if (folder / file_name).exists()]
    for candidate in (*found, file_name):  # torch's own comes before one of the system
        try:
            if candidate in found:
                for builtins in sorted(Path(candidate).parent.glob("libnvrtc-builtins.so*")):
                    ctypes.CDLL(str(builtins))  # NVRTC looks for it by its name alone, not beside itself
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    raise PufferError(
        f"expected {file_name} among torch's libraries to compile the CUDA kernels, found none; "
        "install nvidia-cuda-nvrtc, or rebuild pufferlib with nvcc on the PATH"
    )


def _version(nvrtc: ctypes.CDLL, options: tuple[str, ...]) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value} {options}"


def _known_architectures() -> list[int]:
    nvrtc, count = _open_nvrtc(), ctypes.c_int()
    nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    known = (ctypes.c_int * count.value)()
    nvrtc.nvrtcGetSupportedArchs(known)
    return list(known)


def _cache_folder() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pufferlib"
    except RuntimeError:  # a user without a home
        return None


def _keep(path: Path, code: bytes) -> None:
    # Under a temporary name first: another process may be doing the same.
    with contextlib.suppress(OSError):  # a read-only home costs a compilation per process, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(code)
        os.replace(file.name, path)


def _compile(nvrtc: ctypes.CDLL, code: Program, architecture: str) -> bytes:
    program = ctypes.c_void_p()
    count = len(code.headers)
    contents = (ctypes.c_char_p * count)(*code.headers.values())
    names = (ctypes.c_char_p * count)(*(header.encode() for header in code.headers))
    file_name = f"{code.name}.cu"
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), code.source, file_name.encode(), count, contents, names)
    options = [f"--gpu-architecture={architecture}".encode(), *(option.encode() for option in code.options)]
    try:
        if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) != 0:
            log = _output(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise PufferError(f"{file_name} must compile for {architecture}, NVRTC says: {log}")
        return _output(nvrtc, program, "CUBIN" if architecture.startswith("sm_") else "PTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _output(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw
