"""CUDA graphs: a function on fixed tensors is recorded once and replayed with one launch.

A step of a small policy is some fifty kernels of a few microseconds each, and launching them one by one takes Python
longer than the GPU needs to run them.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from pufferlib.errors import PufferWarning

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


WARM_UP = 3
"""Calls before the capture: libraries set up their workspaces and optimizers their state."""

Replay = Callable[[], None]
Capture = Callable[[Callable[[], None], torch.Generator, "torch.cuda.Stream | None"], Replay]


class CapturedCall:
    """A function without arguments or result, replayed as a CUDA graph after its first calls.

    Every call runs the function once, those of the warm-up included. It may read and write only tensors that stay where
    they are; inputs that change lie in them. It may not read a number back from the GPU. Calls that draw from one
    generator may not overlap.

    Where the capture fails, as for a policy that synchronises, a warning says so and the function runs uncaptured.
    """

    def __init__(
        self,
        function: Callable[[], None],
        generator: torch.Generator,
        stream: torch.cuda.Stream | None,
        capture: Capture | None = None,
    ):
        """Stores the arguments; the capture comes after WARM_UP calls.

        Args:
            function: to run.
            generator: it draws from this one; replays continue where the last one stopped.
            stream: that it runs on, in the order of the caller's stream; None is the caller's.
            capture: runs the function while recording it, returns a replay; None is `capture_graph`.
        """
        self._function = function
        self._generator = generator
        self._stream = stream
        self._capture = capture or capture_graph
        self._run = function
        self._calls = 0

    def __call__(self) -> None:
        """Runs the function once, in the order of the calling stream."""
        with on_stream(self._stream):
            if self._calls == WARM_UP:
                self._run = self._try_to_capture()
            self._calls += 1
            if self._calls > WARM_UP:
                self._run()
                return
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*capturable=True.*")  # AdamW's, of running uncaptured
                self._run()

    def _try_to_capture(self) -> Replay:
        stream_before = None if self._stream is None else torch.cuda.current_stream(self._stream.device)
        state_before = self._generator.get_state()
        try:
            return self._capture(self._function, self._generator, self._stream)
        except RuntimeError as error:
            # A broken capture leaves its stream current and the generator waiting for the end of the recording.
            if stream_before is not None:
                torch.cuda.set_stream(stream_before)
            end_recording(self._generator)
            self._generator.set_state(state_before)
            self._stream = None  # its memory still belongs to the recording
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            warnings.warn(
                f"the policy cannot be captured as a CUDA graph ({reason}), training goes on without; "
                "set [train] cuda_graphs to False to not try",
                PufferWarning,
                stacklevel=3,
            )
            return self._function


def capture_graph(function: Callable[[], None], generator: torch.Generator, stream: torch.cuda.Stream | None) -> Replay:
    """Records a function on a stream, without running its kernels; returns its replay."""
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=stream):
        function()
    return graph.replay


def end_recording(generator: torch.Generator) -> None:
    """Ends the recording state of a generator after a capture that failed, so that it draws as usual again.

    An empty recording does so. A new state would do too, but graphs that were recorded before keep the old one: they
    and later draws would then give the same numbers.
    """
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
