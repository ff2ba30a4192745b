"""The code inside a Ray actor: environments on arrays of its own, driven by calls."""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pufferlib.vector.arrays import private_buffers
from pufferlib.vector.group import Group
from pufferlib.vector.snapshots import RESULT_ARRAYS
from pufferlib.vector.worker import CommandArgument, WorkerCommand, WorkerReply


class RayWorker:
    """Makes its environments with the first call and steps them with the others; answers as a worker process does."""

    def __init__(self, path: Sequence[str]):
        sys.path += [folder for folder in path if folder not in sys.path]
        self._group: Group | None = None

    def make(self, task: bytes) -> tuple[WorkerReply, Any]:
        """Makes the environments that a pickled WorkerTask describes."""
        return self._answer(self._make, task)

    def obey(self, command: WorkerCommand, argument: CommandArgument | np.ndarray) -> tuple[WorkerReply, Any]:
        """Runs a WorkerCommand; STEP takes the actions and, like RESET, returns `(arrays, pickled infos)`."""
        actions = {
            WorkerCommand.STEP: self._step,
            WorkerCommand.RESET: self._reset,
            WorkerCommand.SNAPSHOT: lambda _: self._group.snapshot(),
            WorkerCommand.RESTORE: lambda snapshots: self._group.restore(snapshots),
            WorkerCommand.TELL_FINAL_OBSERVATIONS: lambda _: self._group.tell_final_observations(),
        }
        return self._answer(actions[command], argument)

    def close(self) -> None:
        """Closes the environments."""
        if self._group is not None:
            self._group.close()

    def _answer(self, call: Callable[[Any], Any], argument: object) -> tuple[WorkerReply, Any]:
        try:
            return WorkerReply.DONE, call(argument)
        except BaseException:  # SystemExit included: it says more than the end of the process would
            return WorkerReply.ERROR, traceback.format_exc()

    def _make(self, content: bytes) -> None:
        task = pickle.loads(content)  # noqa: S301 - our own parent's
        self._buffers = private_buffers(task.info, len(task.envs) * task.info.num_agents)
        self._group = Group(task.recipe, task.envs, self._buffers, task.info)

    def _step(self, actions: np.ndarray) -> tuple[tuple[np.ndarray, ...], bytes]:
        self._buffers.actions[:] = actions
        return self._results(self._group.step())

    def _reset(self, seeds: Sequence[int | None]) -> tuple[tuple[np.ndarray, ...], bytes]:
        return self._results(self._group.reset(seeds))

    def _results(self, infos: list[dict]) -> tuple[tuple[np.ndarray, ...], bytes]:
        # Infos are pickled here, as Ray would hand out their arrays read-only.
        arrays = tuple(getattr(self._buffers, name) for name in RESULT_ARRAYS)
        return arrays, pickle.dumps(infos) if infos else b""
