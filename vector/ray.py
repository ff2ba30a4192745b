"""Python environments in Ray actors, on this machine or on many."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import traceback
import weakref
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from typing_extensions import override

from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import WorkerError, default_environment, require_extra
from pufferlib.machine import usable_cores
from pufferlib.vector.arrays import EnvInfo, buffer_bytes, private_buffers
from pufferlib.vector.batch import split
from pufferlib.vector.group import Group
from pufferlib.vector.processes import CLOSE_SECONDS
from pufferlib.vector.recipe import AUTO, EnvRecipe, Options, count_workers, warn_above_cores
from pufferlib.vector.remote import RemoteVector, pickled_tasks

MEMORY_BYTES = 256 << 20  # for objects of a local cluster, beside what the steps of its vector need

_lock = threading.Lock()
_num_users = 0  # vectors on a cluster that was started here


def import_ray() -> ModuleType:
    """Ray itself, or a MissingExtraError."""
    require_extra("ray", "ray")
    import ray

    return ray


def join_cluster(num_workers: int, step_bytes: int) -> bool:
    """Connects this process to a cluster; returns whether the caller must call `leave_cluster`.

    An initialised cluster, or the one that RAY_ADDRESS names, is used as it is. Else a local one starts, without
    dashboard and usage statistics, for some workers and the bytes of the arrays that one step brings.
    """
    global _num_users
    ray = import_ray()
    with _lock:
        if ray.is_initialized() and not _num_users:
            return False
        if not ray.is_initialized():
            _start(ray, num_workers, step_bytes)
        _num_users += 1
        return True


def leave_cluster() -> None:
    """Shuts the cluster down with its last vector."""
    global _num_users
    with _lock:
        _num_users -= 1
        if not _num_users:
            import_ray().shutdown()


def _start(ray: ModuleType, num_workers: int, step_bytes: int) -> None:
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if "RAY_ADDRESS" in os.environ:
        ray.init(**quiet)
        return
    with default_environment(RAY_USAGE_STATS_ENABLED="0"):
        ray.init(
            "local",
            num_cpus=num_workers,
            include_dashboard=False,
            object_store_memory=MEMORY_BYTES + 8 * step_bytes,
            **quiet,
        )


class RayWorker:
    """Makes its environments when it is told `make` and steps them later; answers as a worker process does."""

    def __init__(self, path: Sequence[str]):
        sys.path += [folder for folder in path if folder not in sys.path]
        self._group: Group | None = None

    def obey(self, command: str, *arguments: Any) -> tuple[Any, str | None]:
        """Calls a method of the Group, which `make` makes by a pickled WorkerTask.

        `step` takes the actions and, like `reset`, gives `(arrays, pickled infos)`. Beside the result is the traceback
        of an error.
        """
        own = {"make": self._make, "step": self._step, "reset": self._reset}.get(command)
        try:
            return (own or getattr(self._group, command))(*arguments), None
        except BaseException:  # SystemExit included: it says more than the end of the process would
            return None, traceback.format_exc()

    def close(self) -> None:
        """Closes the environments."""
        if self._group is not None:
            self._group.close()

    def _make(self, content: bytes) -> None:
        task = pickle.loads(content)  # noqa: S301 - our own parent's
        self._buffers = private_buffers(task.info, len(task.envs) * task.info.num_agents)
        self._group = task.make(self._buffers)

    def _step(self, actions: np.ndarray) -> tuple[tuple[np.ndarray, ...], bytes]:
        self._buffers.actions[:] = actions
        return self._results(self._group.step())

    def _reset(self, *arguments: Any) -> tuple[tuple[np.ndarray, ...], bytes]:
        return self._results(self._group.reset(*arguments))

    def _results(self, infos: list[dict]) -> tuple[tuple[np.ndarray, ...], bytes]:
        # Infos are pickled here, as Ray would hand out their arrays read-only.
        arrays = tuple(getattr(self._buffers, name) for name in self._buffers.result_names)
        return arrays, pickle.dumps(infos) if infos else b""


class RayHandle:
    """The parent's side of an actor."""

    def __init__(self, index: int, envs: range, actor: Any):
        self.index = index
        self.envs = envs
        self.actor = actor

    def __str__(self) -> str:
        actor = self.actor._actor_id.hex()
        return f"worker {self.index} (actor {actor}, environments {self.envs.start} to {self.envs[-1]})"


class Ray(RemoteVector):
    """Steps its environments in `num_workers` actors of a Ray cluster and copies their results into local arrays.

    It uses the cluster that `ray.init` has connected to or that RAY_ADDRESS names, and leaves it running; else a local
    one starts with the first such vector of the process and ends with the last. The machines of a cluster need the same
    packages. Batches, errors and rollouts are those of Multiprocessing, which is faster on one machine.
    """

    def __init__(self, recipe: EnvRecipe, driver: PufferEnv, options: Options):
        self._ray = import_ray()
        info = EnvInfo(driver)
        agents = recipe.num_envs * info.num_agents
        num_workers = count_workers(options, recipe.num_envs)  # also where there is no such number, before Ray starts
        is_ours = join_cluster(max(num_workers, usable_cores()), buffer_bytes(info, agents))
        self._workers: list[RayHandle] = []
        self._end = weakref.finalize(self, _end_actors, self._workers, is_ours, os.getpid())
        try:
            cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            if options.num_workers == AUTO and not is_ours:
                num_workers = count_workers(options, recipe.num_envs, cores)
            warn_above_cores(num_workers, usable_cores() if is_ours else cores)
            super().__init__(recipe, driver, options, num_workers)
            self._buffers = private_buffers(info, agents)
            self._form_batches(options)
            self._running: dict[Any, RayHandle] = {}  # by the object that the reply will be
            self._start_actors(pickled_tasks(recipe, info, num_workers, "Ray"))
        except BaseException:
            self._end()
            raise

    def _start_actors(self, tasks: list[bytes]) -> None:
        actor_class = self._ray.remote(RayWorker).options(max_restarts=0, scheduling_strategy="SPREAD")
        path = [folder or os.getcwd() for folder in sys.path]
        envs = split(self.num_envs, self.num_workers)
        self._workers += [RayHandle(index, each, actor_class.remote(path)) for index, each in enumerate(envs)]
        for worker, task in zip(self._workers, tasks, strict=True):
            self._command(worker, "make", task)
        self._gather_replies()

    # --------------------------------------------------------------------------------------------------- messages

    @override
    def _command(self, worker: RayHandle, command: str, *arguments: Any) -> None:
        if command == "step":
            arguments = (self._rows(worker).actions,)
        self._running[worker.actor.obey.remote(command, *arguments)] = worker
        self._num_awaited += 1

    @override
    def _wait(self, least: int) -> list[tuple[RayHandle, Any]]:
        ready, _ = self._ray.wait(list(self._running))
        with self._undivided():
            replies = [(self._running[reply], self._content(reply)) for reply in ready]
            for reply in ready:
                del self._running[reply]
            self._num_awaited -= len(replies)
            return replies

    def _content(self, answer: Any) -> Any:
        worker = self._running[answer]
        try:
            content, report = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self.close()
            raise WorkerError(f"{worker} is lost, so the vector is closed; Ray says: {error}") from error
        if report is not None:
            self._raise_error(worker, report)
        if not isinstance(content, tuple):
            return content
        arrays, infos = content
        rows = self._rows(worker)
        for name, array in zip(rows.result_names, arrays, strict=True):
            getattr(rows, name)[:] = array
        return pickle.loads(infos) if infos else []  # noqa: S301 - our own actor's

    def _rows(self, worker: RayHandle) -> Buffers:
        agents = self.agents_per_env
        return self._buffers.rows(worker.envs.start * agents, worker.envs.stop * agents)

    @override
    def _close(self) -> None:
        self._end()
        self.driver_env.close()


def _end_actors(workers: list[RayHandle], is_ours: bool, owner: int) -> None:
    # Does nothing in a forked child of the process `owner`.
    ray = import_ray()
    if os.getpid() != owner:
        return
    if ray.is_initialized():
        with contextlib.suppress(ray.exceptions.RayError):
            closed = [worker.actor.close.remote() for worker in workers]
            ray.wait(closed, num_returns=len(closed), timeout=CLOSE_SECONDS) if closed else None
        for worker in workers:
            with contextlib.suppress(ray.exceptions.RayError, ValueError):  # it is gone already
                ray.kill(worker.actor)
    workers.clear()
    if is_ours:
        leave_cluster()
