"""The contract of every backend, and what all share: the order of calls, and snapshots."""

from __future__ import annotations

import abc
import enum
import os
import threading
import weakref
from collections import deque
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, NoReturn

import gymnasium
import numpy as np

from pufferlib import spaces
from pufferlib.environment import Buffers, Origin, PufferEnv, StepResult, fitting_actions
from pufferlib.errors import APIUsageError
from pufferlib.spaces import Layout
from pufferlib.vector.arrays import snapshot_arrays
from pufferlib.vector.batch import Batch
from pufferlib.vector.recipe import AUTO, EnvRecipe, EnvSource, Options


class ReentrancyGuard:
    """Admits one thread at a time and refuses others at once; the thread inside may enter again."""

    def __init__(self):
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise APIUsageError(
                "another thread is inside a call of this vector, which serves one thread at a time; wait for that call "
                "to return first"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


ReceiveResult = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[dict], np.ndarray, np.ndarray]


class State(enum.Enum):
    """The calls that are possible next; the value is the remedy in messages."""

    NEW = "call reset() or async_reset() first"
    READY = "call send() with actions for the batch that was received first"
    MIXED = "call send() for a received batch or recv() for a running one"
    RUNNING = "call recv() to collect a step first"
    CUT_SHORT = "an error or Ctrl-C cut the last call short, call reset() or async_reset() first"
    CLOSED = "the vector is closed, make a new vector"
    HANDED_OVER = "its environment was handed to another vector or trainer, use that one, or give each its own"
    INHERITED = "the vector belongs to the process this one was forked from, make a new vector here"


_ENDED = (State.CLOSED, State.HANDED_OVER, State.INHERITED)

_vectors: weakref.WeakSet[Vector] = weakref.WeakSet()  # of this process


@cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_disown_vectors)


def _disown_vectors() -> None:
    for vecenv in _vectors:
        vecenv._disown()
    _vectors.clear()


class Vector(abc.ABC):
    """`num_envs` PufferEnvs stepped in batches of `batch_size`; `pufferlib.vector.make` makes one.

    `recv` returns a batch that has finished its step, `send` starts the next step of the batch that was received
    first. All others keep running meanwhile. Where one batch is everything, `reset` and `step` do both in one call. A
    vector belongs to the process that made it: a child made by fork cannot use it. Threads may take turns with it; a
    call, `close` too, while another thread is inside one raises an APIUsageError and changes nothing. After an error or
    Ctrl-C inside a call some environments may have been stepped and others not, so that only a reset is possible.

    Attributes:
        num_envs: PufferEnvs in all.
        num_agents: agents in all.
        agents_per_batch: rows that `recv` gives and `send` takes.
        num_workers: threads or processes that step the environments.
        seed: that `make` was given.
        single_observation_space: of one agent.
        single_action_space: of one agent.
        driver_env: an environment of this process for any other question; do not step it.
        mixes_batches: whether environments that have done different numbers of steps may come in one batch.
        tells_final_observations: whether the infos have final observations of environments in C too, which costs a
            little where limits cut episodes; may be set, and takes effect at the next reset.
        options: of the caller of `make`.
        made_from: how it was made, where that was by the environment's name.
        action_masks: `(agents_per_batch, choices)` bool, what the agents of the batch that `recv` returned last may do,
            a view like the others; None where everything is always allowed. See `PufferEnv.action_masks`.
    """

    driver_env: PufferEnv
    mixes_batches: bool = False
    tells_final_observations: bool = False
    options: Options = Options()
    made_from: Origin | None = None
    action_masks: np.ndarray | None = None
    holder: object | None = None  # what the OrderedVector holds that reset it last; None after any other reset
    _buffers: Buffers  # of all environments, set by the backend

    def __init__(self, source: EnvSource, driver: PufferEnv, num_workers: int, batch_size: int):
        self.num_envs = source.num_envs
        self.seed = source.seed
        self.num_workers = num_workers
        self.batch_size = batch_size
        self.single_observation_space = driver.single_observation_space
        self.single_action_space = driver.single_action_space
        self.agents_per_env = driver.num_agents
        self.num_agents = self.num_envs * driver.num_agents
        self.agents_per_batch = batch_size * driver.num_agents
        self._guard = ReentrancyGuard()
        self._source = source
        self._num_batches = self.num_envs // batch_size
        self._received: deque[Batch] = deque()  # and not yet sent, oldest first
        self._num_running = 0  # batches
        self._idle_state: State | None = State.NEW  # None once it was reset
        _watch_forks()
        _vectors.add(self)

    # ------------------------------------------------------------------------------------------------ for backends

    @abc.abstractmethod
    def _drain(self) -> None:
        """Waits for all that runs and drops its results."""

    @abc.abstractmethod
    def _start_reset(self, seeds: list[int | None]) -> None:
        """Starts the reset of all environments, one seed each; every batch runs afterwards.

        Their infos have final observations from then on if `tells_final_observations` is set.
        """

    @abc.abstractmethod
    def _start(self, batch: Batch) -> None:
        """Starts a step of a received batch with the actions in its buffers."""

    @abc.abstractmethod
    def _finish(self) -> tuple[Batch, list[dict]]:
        """Waits for the next batch and its infos."""

    @abc.abstractmethod
    def _snapshot_envs(self) -> list[bytes | None]:
        """The snapshot of every environment; nothing runs."""

    @abc.abstractmethod
    def _restore_envs(self, snapshots: list[bytes]) -> None:
        """Restores every environment; nothing runs."""

    @abc.abstractmethod
    def _batch_of(self, envs: tuple[int, ...]) -> Batch | None:
        """The batch of these environments with its buffers up to date, None if they cannot form one."""

    @abc.abstractmethod
    def _close(self) -> None:
        """Releases everything; called once."""

    def _disown(self) -> None:
        """Leaves the environments to the parent; called in a child made by fork."""
        self._guard = ReentrancyGuard()  # a thread inside is one of the parent's
        self._idle_as(State.INHERITED)

    # ------------------------------------------------------------------------------------------------- description

    @property
    def emulated(self) -> Layout | None:
        """The layout of packed observations, for `pufferlib.emulation.nativize`; None if they are not packed."""
        return self.driver_env.emulated

    @cached_property
    def observation_space(self) -> gymnasium.Space:
        """The joint space of the agents of one batch."""
        return spaces.joint_space(self.single_observation_space, self.agents_per_batch)

    @cached_property
    def action_space(self) -> gymnasium.Space:
        """The joint space of the agents of one batch."""
        return spaces.joint_space(self.single_action_space, self.agents_per_batch, are_actions=True)

    @property
    def has_action_masks(self) -> bool:
        """Whether `action_masks` are told."""
        return self._buffers.action_masks is not None

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the arrays in a snapshot."""
        return self._buffers.result_names

    @property
    def is_open(self) -> bool:
        """Whether the environments are still this vector's, in this process."""
        return self._idle_state not in _ENDED

    @property
    def is_repeatable(self) -> bool:
        """Whether `again` can make more environments like these."""
        return isinstance(self._source, EnvRecipe)

    @property
    def state(self) -> State:
        """The calls that are possible next."""
        if self._idle_state is not None:
            return self._idle_state
        if not self._received:
            return State.RUNNING
        return State.MIXED if self._num_running else State.READY

    # ------------------------------------------------------------------------------------------------------- calls

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict]]:
        """Begins an episode for every agent; needs one batch to be everything.

        Args:
            seed: environment `i` is reset with `mix_seed(seed, i)`. None continues the random streams, or, at the
                first reset, takes the seed of `make`.

        Returns:
            Observations `(num_agents, *observation_shape)` and infos.

        Raises:
            APIUsageError: if a batch is not everything, or the vector is closed.
        """
        self._require_one_batch("reset", "async_reset() and recv()")
        self.async_reset(seed)
        observations, _, _, _, infos, _, _ = self.recv()
        return observations, infos

    def step(self, actions: np.ndarray) -> StepResult:
        """Steps every agent; needs one batch to be everything.

        Args:
            actions: shape `(num_agents, *action_shape)`, of the action space's kind of dtype.

        Returns:
            Observations, rewards, terminals, truncations (views, overwritten by the next step) and infos.

        Raises:
            APIUsageError: if a batch is not everything, the actions do not fit, or it was not reset.
            WorkerError: if a worker process raised or died.
        """
        self._require_one_batch("step", "send() and recv()")
        self.send(actions)
        return self.recv()[:5]

    def async_reset(self, seed: int | None = None) -> None:
        """Starts a reset of all environments, which one `recv` per batch collects; steps that run are dropped.

        Args:
            seed: as for `reset`.

        Raises:
            APIUsageError: if the vector is closed.
        """
        if seed is not None and (not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0):
            raise APIUsageError(f"seed must be None or an integer of at least 0, got {seed!r}")
        seed = None if seed is None else int(seed)  # one of NumPy's would overflow where seeds are mixed
        with self._guard:
            self._require_open("async_reset")
            continues = seed is None and self.state is not State.NEW
            self._idle_as(State.NEW)  # if the reset fails or is interrupted, only another one is possible
            self._drain()
            self.holder = None
            self._start_reset([None if continues else self._source.env_seed(i, seed) for i in range(self.num_envs)])
            self._num_running = self._num_batches
            self._idle_state = None

    def recv(self) -> ReceiveResult:
        """Waits for a batch to finish its step or reset.

        May be called several times before `send`, until every batch was received.

        Returns:
            Observations, rewards, terminals, truncations, infos, agent_ids, masks. The arrays have `agents_per_batch`
            rows and are views, valid until that batch is sent again; agent_ids are the int64 indices of the rows among
            all `num_agents`; infos is a list of dicts; a row whose mask is False has no agent in it.

        Raises:
            APIUsageError: if nothing runs.
            WorkerError: if a worker process raised or died.
        """
        with self._guard:
            if not self._num_running:
                self._refuse("recv")
            try:
                batch, infos = self._finish()
                self._num_running -= 1
                self._received.append(batch)
            except BaseException:
                self._cut_short()
                raise
        arrays = batch.buffers
        self.action_masks = arrays.action_masks
        return (
            arrays.observations,
            arrays.rewards,
            arrays.terminals,
            arrays.truncations,
            infos,
            batch.agent_ids,
            arrays.masks,
        )

    def send(self, actions: np.ndarray, agent_ids: np.ndarray | None = None) -> None:
        """Starts one step of a batch that was received and not yet sent.

        The actions are copied before returning, so the caller may reuse the array.

        Args:
            actions: shape `(agents_per_batch, *action_shape)`, of the action space's kind of dtype.
            agent_ids: which batch, as `recv` gave them; None is the one that was received first.

        Raises:
            APIUsageError: if that batch is not received, or the actions do not fit.
            WorkerError: if a worker process died.
        """
        with self._guard:
            if not self._received:
                self._refuse("send")
            batch = self._received[0] if agent_ids is None else self._received_batch(agent_ids)
            batch.buffers.actions[...] = fitting_actions(actions, batch.buffers.actions)
            try:
                self._start(batch)  # first, so that a batch which cannot be started can be sent again
                self._received.remove(batch)
                self._num_running += 1
            except KeyboardInterrupt:
                self._cut_short()
                raise

    def _received_batch(self, agent_ids: np.ndarray) -> Batch:
        for batch in self._received:
            if batch.agent_ids is agent_ids or np.array_equal(batch.agent_ids, agent_ids):
                return batch
        raise APIUsageError(f"the batch with agents {agent_ids} is not received; call recv() until it is")

    def snapshot(self) -> dict[str, Any] | None:
        """The whole state as plain data, for a vector made with the same arguments on any backend.

        Returns:
            A dict of `envs` (bytes of every environment), `order` (the environments of every batch, in the order in
            which `send` will take them) and `arrays` (bytes of what the last steps returned); None if an environment
            has no snapshot, or another vector steps it now.

        Raises:
            APIUsageError: if a batch runs.
        """
        if self.state is State.HANDED_OVER:
            return None
        with self._guard:
            if self.state is not State.READY:
                self._refuse("snapshot")
            envs = self._snapshot_envs()
            if any(env is None for env in envs):
                return None
            order = [list(batch.envs) for batch in self._received]
            arrays = {name: getattr(self._buffers, name).tobytes() for name in self._buffers.result_names}
        return {"envs": envs, "order": order, "arrays": arrays}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restores what `snapshot` returned; every batch then counts as received, and the next call is `send`.

        A snapshot of other sizes is refused before anything changes. After one that an environment refuses, the vector
        needs a reset.

        Raises:
            APIUsageError: if the snapshot is of another number of environments, batches or agents, or damaged.
            WorkerError: if an environment in a worker refuses its part; the vector is closed then.
        """
        with self._guard:
            self._require_open("restore")
            arrays = snapshot_arrays(snapshot, self.num_envs, self.batch_size, self._buffers)
            self._drain()
            self._idle_as(State.NEW)
            self._restore_envs(snapshot["envs"])
            for name, array in arrays.items():
                getattr(self._buffers, name)[...] = array
            batches = [self._batch_of(tuple(envs)) for envs in snapshot["order"]]
            if None in batches:
                raise APIUsageError(
                    f"the snapshot's batches {snapshot['order']} cannot be formed here; "
                    "make the vector with its arguments"
                )
            self._received, self.holder = deque(batches), None
            self.action_masks = batches[-1].buffers.action_masks
            self._idle_state = None

    def again(
        self, num_envs: int, seed: int, backend: type[Vector] | None = None, batch_size: int | str = AUTO
    ) -> Vector:
        """Makes a separate vector of environments like these.

        Args:
            num_envs: environments in all, those inside PufferEnvs counted one by one. A creator with a `num_envs` of
                its own makes one PufferEnv of them, or one for each of several arguments; otherwise there are as many
                PufferEnvs as hold them.
            seed: as for `pufferlib.vector.make`.
            backend: None is that of this vector.
            batch_size: as for `pufferlib.vector.make`.

        Raises:
            APIUsageError: if the vector is not repeatable.
        """
        if not self.is_repeatable:
            raise APIUsageError(
                f"again() needs a vector that make() made, got one of the ready {type(self.driver_env).__name__}; "
                "make the vector with pufferlib.vector.make"
            )
        source = self._source.again(num_envs, getattr(self.driver_env, "num_envs", 1), seed)
        driver = source.make(0, None)
        try:
            options = replace(self.options, num_workers=AUTO, batch_size=batch_size)
            vecenv = (backend or type(self))(source, driver, options)
        except BaseException:
            driver.close()
            raise
        vecenv.options = self.options
        return vecenv

    def close(self) -> None:
        """Finishes what runs and releases everything; calling it twice is harmless."""
        if not self.is_open:
            return
        with self._guard:
            self._idle_as(State.CLOSED)
            self._close()

    def __enter__(self) -> Vector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------------ checks

    def _idle_as(self, state: State) -> None:
        self._idle_state = state
        self._num_running = 0
        self._received.clear()

    def _cut_short(self) -> None:
        if self.is_open:
            self._idle_as(State.CUT_SHORT)

    def _refuse(self, call: str) -> NoReturn:
        raise APIUsageError(f"{call}() is not possible now; {self.state.value}")

    def _require_open(self, call: str) -> None:
        if not self.is_open:
            self._refuse(call)

    def _require_one_batch(self, call: str, remedy: str) -> None:
        self._require_open(call)
        if self._num_batches > 1:
            raise APIUsageError(
                f"{call}() needs batch_size to be num_envs {self.num_envs}, got {self.batch_size}; use {remedy}"
            )
