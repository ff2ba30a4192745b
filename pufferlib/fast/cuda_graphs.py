"""CUDA graphs: a function on fixed tensors is recorded once and replayed with one launch.

A step of a small policy is some fifty kernels of a few microseconds each, and launching them one by one takes Python
longer than the GPU needs to run them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from pufferlib.errors import PufferWarning

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
