"""Messages between processes that train together: torch's collective operations, waited for in turns.

On CPUs such an operation may wait for a process that is gone until its timeout, minutes later: Gloo does not notice it
where the rest of a message cannot be sent, nor where a child of that process holds its connections open. So the wait is
divided into turns, and lost processes are looked for after each.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

TURN = timedelta(seconds=1)
"""The time between two looks for lost processes: far longer than a message takes."""


class Messages:
    """Sends numbers and objects to all processes of a group and waits for theirs.

    Every method is called by all of them. It raises RuntimeError where a message does not get through.

    Args:
        is_any_lost: whether a process of the group is known to have ended; it may raise RuntimeError.
        group: of torch; None is its default one.
    """

    def __init__(self, is_any_lost: Callable[[], bool], group: dist.ProcessGroup | None = None):
        self.group = group
        self._is_any_lost = is_any_lost

    def start_sum(self, tensor: Tensor) -> dist.Work:
        """Starts to replace a tensor by its sum over all processes; `wait` ends it."""
        return dist.all_reduce(tensor, group=self.group, async_op=True)

    def sum(self, tensor: Tensor) -> None:
        """Replaces a tensor by its sum over all processes."""
        self.wait(self.start_sum(tensor), tensor)

    def broadcast(self, tensor: Tensor) -> None:
        """Overwrites a tensor with the first process's."""
        self.wait(dist.broadcast(tensor, 0, group=self.group, async_op=True), tensor)

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Returns the tensors of all processes by rank; they have one shape and dtype."""
        tensors = [torch.empty_like(tensor) for _ in range(dist.get_world_size(self.group))]
        self.wait(dist.all_gather(tensors, tensor, group=self.group, async_op=True), tensor)
        return tensors

    def gather_objects(self, value: Any) -> list[Any]:
        """Returns the values of all processes by rank; anything that pickle takes."""
        content = _pickled(value)
        sizes = [int(size) for size in self.gather(torch.tensor([len(content)]))]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(content)] = content
        return [_unpickled(other[:size]) for other, size in zip(self.gather(padded), sizes, strict=True)]

    def broadcast_object(self, value: Any) -> Any:
        """Returns the first process's value; anything that pickle takes."""
        content = _pickled(value)
        size = torch.tensor([len(content)])
        self.broadcast(size)
        if dist.get_rank() != 0:
            content = torch.zeros(int(size), dtype=torch.uint8)
        self.broadcast(content)
        return _unpickled(content)

    def wait(self, work: dist.Work, tensor: Tensor) -> None:
        """Waits until an operation has ended, or for two turns after a process was lost.

        Args:
            work: of the operation.
            tensor: of the operation; NCCL watches over those of a GPU by itself.
        """
        if not tensor.is_cpu:
            work.wait()
            return
        was_lost = False
        while True:
            try:
                work.wait(TURN)
                return
            except RuntimeError:
                if work.is_completed():
                    work.wait()  # it ended just now, well or not
                    return
                is_lost = self._is_any_lost()
                if was_lost and is_lost:  # a message that was being sent has arrived by now
                    raise
                was_lost = is_lost


def abandon_groups() -> None:
    """Keeps torch's process groups from being destroyed when the process ends.

    Their threads may still wait for a lost process, and the destructors would wait for these threads.
    """
    for group in list(dist.distributed_c10d._world.pg_map):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _pickled(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)


def _unpickled(content: Tensor) -> Any:
    return pickle.loads(content.numpy().tobytes())  # noqa: S301 - another process's of this training
