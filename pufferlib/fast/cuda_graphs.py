"""CUDA graphs: a function on fixed tensors is recorded once and replayed with one launch.

A step of a small policy is some fifty kernels of a few microseconds each, and launching them one by one takes Python
longer than the GPU needs to run them.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import torch

from pufferlib.errors import PufferError, PufferWarning
from pufferlib.extensions.cuda_library import open_driver

_PORTABLE = 1  # CU_MEMHOSTREGISTER_PORTABLE: locked for every context of the process


class PinnedArrays:
    """Locks the memory of existing arrays in place. Where the driver refuses, copies from it are only slower.

    The memory is unlocked by `close`, or when this object is forgotten: an address that stays locked would be read
    as it was before by the next owner of that address.
    """

    def __init__(self, device: torch.device):  # copies from the memory; the driver is called in its context
        self._device = device
        self._locked: dict[int, np.ndarray] = {}  # by address, kept alive until it is unlocked
        self._refused: set[int] = set()
        weakref.finalize(self, _unlock, self._locked, device).atexit = False  # the process takes it with it

    def pin(self, array: np.ndarray) -> bool:
        """Locks the whole memory that an array is part of; returns whether it is locked."""
        memory = whole_memory(array)
        address = memory.ctypes.data
        if address not in self._locked and address not in self._refused:
            size, flags = ctypes.c_size_t(memory.nbytes), ctypes.c_uint(_PORTABLE)
            if _call_driver(self._device, "cuMemHostRegister_v2", address, size, flags):
                self._locked[address] = memory
            else:
                self._refused.add(address)
        return address in self._locked

    def close(self) -> None:
        """Unlocks all memory, which must come before its owner frees it; it may be called again."""
        _unlock(self._locked, self._device)


def _unlock(locked: dict[int, np.ndarray], device: torch.device) -> None:
    if locked and device.type == "cuda":
        torch.cuda.synchronize(device)  # copies may still read it
    while locked:
        address, _ = locked.popitem()
        _call_driver(device, "cuMemHostUnregister", address)


def _call_driver(device: torch.device, function: str, address: int, *arguments: ctypes._SimpleCData) -> bool:
    try:
        driver = open_driver()
    except PufferError:  # as on a GPU that is not NVIDIA's
        return False
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        return getattr(driver, function)(ctypes.c_void_p(address), *arguments) == 0


def whole_memory(array: np.ndarray) -> np.ndarray:
    """All bytes of the memory that an array is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.base is None:
        return array.reshape(-1).view(np.uint8)
    return np.frombuffer(array.base, np.uint8)


WARM_UP = 3
"""Calls before the capture: libraries set up their workspaces and optimizers their state."""

WAITS = "called a synchronizing CUDA operation"
"""Begins torch's warning of a call that waits for the GPU."""

_ONE_CAPTURE = threading.Lock()  # torch allows one at a time

Replay = Callable[[], None]
Capture = Callable[[Callable[[], None], torch.Generator, "torch.cuda.Stream | None"], Replay]


class CapturedCall:
    """A function without arguments or result, replayed as a CUDA graph after its first calls.

    Every call runs the function once, those of the warm-up included. It may read and write only tensors that stay where
    they are; inputs that change lie in them. It may not read a number back from the GPU. Calls that draw from one
    generator may not overlap.

    Where the function waits for the GPU, or the capture fails, a warning says so and the function runs uncaptured.
    """

    def __init__(
        self,
        function: Callable[[], None],
        generator: torch.Generator,  # it draws from this one; replays continue where the last one stopped
        stream: torch.cuda.Stream | None,  # runs it, in the order of the caller's stream; None is the caller's
        capture: Capture | None = None,  # None is `capture_graph`
    ):
        self._function = function
        self._generator = generator
        self._stream = stream
        self._capture = capture or capture_graph
        self._run = function
        self._calls = 0
        self._waits = False

    def __call__(self) -> None:
        """Runs the function once, in the order of the calling stream."""
        with on_stream(self._stream):
            if self._calls == WARM_UP and not self._waits:
                self._run = self._try_to_capture()
            self._calls += 1
            if self._calls > WARM_UP:
                self._run()
                return
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*capturable=True.*")  # AdamW's, of running uncaptured
                if self._calls == WARM_UP:
                    self._run_watched()
                else:
                    self._run()

    def _run_watched(self) -> None:
        # A capture of what waits for the GPU would break, and leave torch's allocator in the middle of it.
        with warnings.catch_warnings(record=True) as caught, ExitStack() as stack:
            warnings.filterwarnings("always", message=WAITS)
            if self._generator.device.type == "cuda":
                stack.callback(torch.cuda.set_sync_debug_mode, torch.cuda.get_sync_debug_mode())
                torch.cuda.set_sync_debug_mode("warn")
            self._run()
        found = [each for each in caught if WAITS in str(each.message)]
        self._waits = bool(found)
        for each in caught:
            if each not in found:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        if found:
            self._warn_of(f"it waits for the GPU, {Path(found[0].filename).name}, line {found[0].lineno}")

    def _warn_of(self, reason: str) -> None:
        warnings.warn(
            f"the policy cannot be captured as a CUDA graph ({reason}), training goes on without; "
            "set [train] cuda_graphs to False to not try",
            PufferWarning,
            stacklevel=4,
        )

    def _try_to_capture(self) -> Replay:
        stream_before = None if self._stream is None else torch.cuda.current_stream(self._stream.device)
        state_before = self._generator.get_state()
        try:
            with _ONE_CAPTURE:
                return self._capture(self._function, self._generator, self._stream)
        except (RuntimeError, PufferError) as error:
            # A broken capture leaves its stream current and the generator waiting for the end of the recording.
            if stream_before is not None:
                torch.cuda.set_stream(stream_before)
            end_recording(self._generator)
            self._generator.set_state(state_before)
            self._stream = None  # its memory still belongs to the recording
            self._warn_of(str(error).splitlines()[0] if str(error) else type(error).__name__)
            return self._function


def capture_graph(function: Callable[[], None], generator: torch.Generator, stream: torch.cuda.Stream | None) -> Replay:
    """Records a function on a stream, without running its kernels; returns its replay."""
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    graph.register_generator_state(generator)
    try:
        # Other threads may allocate meanwhile.
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            function()
    except BaseException:
        with suppress(RuntimeError):  # torch ends the allocations of a recording only after one that succeeded
            torch._C._cuda_endAllocateToPool(generator.device.index, pool)
        raise
    return graph.replay


def end_recording(generator: torch.Generator) -> None:
    """Ends the recording state of a generator after a capture that failed, so that it draws as usual again."""
    # By an empty recording. With a new state, earlier graphs and later calls would draw the same numbers.
    device = generator.device
    if device.type != "cuda":
        return
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    torch.cuda.synchronize(device)  # graphs that still run read what the beginning of a recording overwrites
    try:
        with torch.cuda.stream(torch.cuda.Stream(device)), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Graph is empty.*")
            graph.capture_begin()
            graph.capture_end()
    except RuntimeError:  # the device records nothing any more
        generator.graphsafe_set_state(generator.clone_state())
    torch.cuda.synchronize(device)


@contextmanager
def on_stream(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Makes a stream current, ordered after the caller's stream before and in front of it afterwards; None does not."""
    if stream is None:
        yield
        return
    before = torch.cuda.current_stream(stream.device)
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)
