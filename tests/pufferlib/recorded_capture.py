"""What a CUDA graph does, on a CPU: a recording of operations on fixed tensors, which a replay does again."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SYNCHRONIZING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select"}  # on a GPU they wait for it


class RecordedCapture(TorchDispatchMode):
    """Records every operation of a function with the very tensors that it took and gave.

    Replays run no Python of the function. So whatever it keeps in Python, or reads from tensors that are other ones at
    the next call, stays as it was when it was recorded; and an operation that asks a GPU for a number is an error.

    Attributes:
        recordings: the operations of every capture so far.
    """

    def __init__(self):
        super().__init__()
        self.recordings = []

    def __call__(self, function, generator, stream):
        recording = []
        self.recordings.append(recording)
        with self:
            function()
        is_done = True  # by the recording, where a GPU would only have taken notes

        @torch.no_grad()
        def replay():
            nonlocal is_done
            if not is_done:
                for operation, arguments, keywords, results in recording:
                    again = tree_leaves(operation(*arguments, **keywords))
                    for result, new in zip(results, again, strict=True):
                        if is_other_memory(result, new):
                            result.copy_(new)
            is_done = False

        return replay

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        name = operation._schema.name
        if name in SYNCHRONIZING:
            raise RuntimeError(f"{name} is not permitted while a stream is captured")
        results = operation(*arguments, **(keywords or {}))
        self.recordings[-1].append((operation, arguments, keywords or {}, tree_leaves(results)))
        return results


def is_other_memory(result, new):
    """Whether an operation gave new memory, and no view of what it took."""
    return isinstance(result, torch.Tensor) and result.numel() > 0 and result.data_ptr() != new.data_ptr()


class FakeCapture:
    """Records what is captured; its replays run the function."""

    def __init__(self, error=None):
        self.captured = []
        self.replays = 0
        self.error = error

    def __call__(self, function, generator, stream):
        self.captured.append(function)
        if self.error is not None:
            torch.rand(1, generator=generator)  # a broken capture has used the generator
            raise self.error

        def replay():
            self.replays += 1
            function()

        return replay
