"""What runs inside a Ray actor: environments on arrays of its own, driven by calls."""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from pufferlib.vector.arrays import private_buffers
from pufferlib.vector.group import Group
from pufferlib.vector.snapshots import RESULT_ARRAYS
from pufferlib.vector.worker import Command, Reply


class RayWorker:
    """Makes its environments with the first call and steps them with the others; answers as a worker process does."""

    def __init__(self, path: Sequence[str]):
        sys.path += [folder for folder in path if folder not in sys.path]
        self._group: Group | None = None

    def make(self, task: bytes) -> tuple[Reply, Any]:
        """Makes the environments that a pickled Task describes."""
        return self._answer(self._make, task)

    def obey(self, command: Command, argument: Any) -> tuple[Reply, Any]:
        """Does what a Command says; STEP takes the actions and, like RESET, gives `(arrays, pickled infos)`."""
        actions = {
            Command.STEP: self._step,
            Command.RESET: self._reset,
            Command.SNAPSHOT: lambda _: self._group.snapshot(),
            Command.RESTORE: lambda snapshots: self._group.restore(snapshots),
            Command.TELL_FINAL_OBSERVATIONS: lambda _: self._group.tell_final_observations(),
        }
        return self._answer(actions[command], argument)

    def close(self) -> None:
        """Closes the environments."""
        if self._group is not None:
            self._group.close()

    def _answer(self, call: Any, argument: Any) -> tuple[Reply, Any]:
        try:
            return Reply.DONE, call(argument)
        except BaseException:  # SystemExit included: it says more than the end of the process would
            return Reply.ERROR, traceback.format_exc()

    def _make(self, content: bytes) -> None:
        task = pickle.loads(content)  # noqa: S301 - our own parent's
        facts = task.facts
        rows = len(task.envs) * facts.num_agents
        self._buffers = private_buffers(facts.single_observation_space, facts.single_action_space, rows)
        self._group = Group(task.recipe, task.envs, self._buffers, facts)

    def _step(self, actions: np.ndarray) -> tuple[tuple[np.ndarray, ...], bytes]:
        self._buffers.actions[:] = actions
        return self._results(self._group.step())

    def _reset(self, seeds: Sequence[int | None]) -> tuple[tuple[np.ndarray, ...], bytes]:
        return self._results(self._group.reset(seeds))

    def _results(self, infos: list[dict]) -> tuple[tuple[np.ndarray, ...], bytes]:
        # Infos are pickled here, as Ray would hand out their arrays read-only.
        arrays = tuple(getattr(self._buffers, name) for name in RESULT_ARRAYS)
        return arrays, pickle.dumps(infos) if infos else b""
