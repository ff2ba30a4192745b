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

    Every call does the function's work once, those of the warm-up included. All that the function reads and writes must
    be tensors that stay where they are; what is different in each call lies in them. It may not ask the GPU for a
    number. Calls that draw from one generator may not overlap.

    Where the capture fails, as it does for a policy that synchronises, the function goes on as it is, with a warning.
    """

    def __init__(
        self,
        function: Callable[[], None],
        generator: torch.Generator,
        stream: torch.cuda.Stream | None,
        capture: Capture | None = None,
    ):
        """Captures nothing yet.

        Args:
            function: what to run.
            generator: the random stream that it draws from; replays go on where the last one stopped.
            stream: where it runs, in the order of the caller's stream; None is that one.
            capture: runs the function while recording it, returns what replays it; None is `capture_graph`.
        """
        self._function = function
        self._generator = generator
        self._stream = stream
        self._capture = capture or capture_graph
        self._run = function
        self._calls = 0

    def __call__(self) -> None:
        """Does the function's work once, in the order of the calling stream."""
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
    """Records a function on a stream, without running its kernels; returns what replays it."""
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=stream):
        function()
    return graph.replay


def end_recording(generator: torch.Generator) -> None:
    """Has a generator draw as usual again after a recording that broke, which did not tell it of its end.

    An empty recording tells it. Another state would do too, but graphs that were recorded before keep the one they
    know: they and whatever comes later would then draw the same numbers.
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
    """Makes a stream current, after what the one before has been given to do and before what it will; None does not."""
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
