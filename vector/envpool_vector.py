"""Environments of EnvPool, which steps them in C++ on threads of its own."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiDiscrete
from typing_extensions import override

from pufferlib import spaces
from pufferlib.emulation.emulated_env import ACTION_MASK, LibraryEnv, final_observation, plain_numbers
from pufferlib.emulation.rows import ActionLayout, row_writer
from pufferlib.environment import Buffers, PufferEnv, StepResult, fitting_actions
from pufferlib.errors import APIUsageError, MissingExtraError, require_extra
from pufferlib.spaces import Layout, in_single_precision, precision_lowered
from pufferlib.vector.base import Vector
from pufferlib.vector.batch import Batch, neighbouring_batches
from pufferlib.vector.recipe import EnvSource, Options, count_batch, count_threads, warn_above_cores

MOST_CHOICES = 1000  # of an integer of an action; others are numbers
_SCORED = "terminated"  # in the infos of Atari: the game is over, where an episode may be a life
_NO_REPORT = {"env_id", "elapsed_step", "mission_id", "lives", "reward", _SCORED}  # of the infos


def import_envpool() -> ModuleType:
    """EnvPool itself, or a MissingExtraError."""
    require_extra("envpool", "envpool")
    return importlib.import_module("envpool")


def make_spec(task: str, **config: Any) -> Any:
    """EnvPool's description of an environment: its spaces and its configuration; the environment is not made.

    An APIUsageError if several agents act in it, or it has no such setting; a MissingExtraError if EnvPool is not
    installed, or the environment needs a package of the system.
    """
    try:
        spec = import_envpool().make_spec(task, **config)
    except ImportError as error:  # as of Procgen, which names the package that brings Qt 5
        reason = str(error).rstrip(".").replace(". ", "; ")
        raise MissingExtraError(f"envpool/{task} cannot be loaded: {reason}") from error
    except TypeError as error:
        raise APIUsageError(f"envpool/{task} does not take {config}: {str(error).splitlines()[0]}") from error
    except RuntimeError as error:  # as of VizdoomCustom, whose files a setting names
        raise APIUsageError(f"envpool/{task} cannot be made: {str(error).splitlines()[0]}") from error
    if spec.config.max_num_players > 1:
        raise APIUsageError(
            f"envpool/{task} has {spec.config.max_num_players} players, and only environments of one are stepped by "
            "EnvPool here; pettingzoo: has games of several"
        )
    return spec


View = tuple[gymnasium.Space, Callable[[np.ndarray, Any], None] | None]
"""A space to observe in place of EnvPool's, and what writes into rows of it, `(rows, observations)`; None where only
the bounds are others."""

MakeView = Callable[[gymnasium.Space], View]


class EnvPoolEnv(LibraryEnv):
    """`num_envs` environments of EnvPool as one PufferEnv: environment `i` is agent `i`.

    EnvPool gives the first observation of an episode in a step of its own, which ignores the action. So the step that
    ends an episode has its last observation and a mask of False: the agent is absent until the next step, which has
    the first observation of the next episode. Where an episode is truncated, the infos have a `final_observation` too.
    At a reset with a seed environment `i` gets 31 bits of `mix_seed(seed, i)`.

    Integers of an action are choices. An `action_mask` in the observations that has a number for each choice of each
    part is in `action_masks` in their place; one for all parts together, as of Jumanji's Tetris, is observed.

    Attributes:
        task: EnvPool's name of the environments.
        num_envs: how many there are.
        action_layout: from rows of actions to EnvPool's.
    """

    simulator = "EnvPool"

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        num_threads: int = 1,
        render_mode: str | None = None,
        make_view: MakeView | None = None,
        buf: Buffers | None = None,
        seed: int = 0,
        **config: Any,
    ):
        """Describes the environments of a task such as `HalfCheetah-v5`, which the first reset makes.

        EnvPool steps them by `num_threads`. A `render_mode` of `rgb_array` has frames from `render`; `make_view` makes
        of EnvPool's observation space what is observed in its place; further keywords are of EnvPool.
        """
        self.task, self.num_agents, self.num_envs = task, num_envs, num_envs
        self._config = {**config, **({} if render_mode is None else {"render_mode": render_mode})}
        self._num_threads = num_threads
        self._make_view = make_view
        super().__init__(env_creator=make_spec, env_args=(task,), env_kwargs=config, buf=buf, seed=seed)

    @override
    def _describe(self, env: Any) -> None:
        self.env = env  # EnvPool's description
        self.simulator = f"EnvPool {import_envpool().__version__}"
        with precision_lowered():
            space = in_single_precision(_repaired(env.gymnasium_observation_space))
        self.action_layout = ActionLayout(_with_choices(_repaired(env.gymnasium_action_space)))
        shown, self._write = (space, None) if self._make_view is None else self._make_view(space)
        self.has_action_masks = _is_masked(shown, self.action_layout.canonical)
        if self.has_action_masks:
            shown = Dict({name: child for name, child in shown.spaces.items() if name != ACTION_MASK})
        self._layout = Layout.of(shown)
        self.single_observation_space = self._layout.row_space
        self.single_action_space = self.action_layout.canonical

    @override
    def _connect(self) -> None:
        arrays = {name: getattr(self, name) for name in Buffers.__dataclass_fields__}
        self._pool = EnvPoolBatch(self, Buffers(**arrays), self._num_threads)

    @override
    def _start_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        if options:
            raise APIUsageError(f"EnvPool's reset takes no options, got {options}; pass settings of {self.task}")
        self._pool.reset(None if seed is None else self.env_seeds(seed))
        self._pool.receive()

    def make_pool(self, seeds: Sequence[int], num_threads: int) -> Any:
        """Makes EnvPool's vector of such environments, one for each of its seeds."""
        with precision_lowered(), _without_ctrl_c():
            pool = import_envpool().make_gymnasium(
                self.task, num_envs=len(seeds), env_seed=list(seeds), num_threads=num_threads, **self._config
            )
            pool.observation_space  # noqa: B018 - it is made, with that warning, when EnvPool first asks for it
        return pool

    def writer(self, rows: np.ndarray) -> Callable[[Any], None]:
        """Makes the function that writes EnvPool's observations into rows, one for each."""
        return row_writer(self._layout, rows) if self._write is None else partial(self._write, rows)

    @property
    def is_plain(self) -> bool:
        """Whether a row is EnvPool's observation, but for its precision."""
        return self._write is None and not self._layout.is_packed and not self.has_action_masks

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        """Steps every environment; see the class for the infos."""
        self._pool.send(fitting_actions(actions, self.actions))
        infos = self._pool.receive()
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    @override
    def render(self) -> np.ndarray:
        """The frame of the first environment, `(height, width, 3)` uint8; it was reset before."""
        return self._pool.render()

    @override
    def close(self) -> None:
        self._pool.close()


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    # Threads that begin inside, and their processes, such as ViZDoom's, hold back the SIGINT of a terminal.
    if sys.platform == "win32":
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _repaired(space: gymnasium.Space) -> gymnasium.Space:
    # A Box without bounds is declared to begin at the smallest positive number.
    if isinstance(space, Box) and space.dtype.kind == "f" and (space.low == np.finfo(space.dtype).tiny).all():
        return Box(-np.inf, np.inf, space.shape, space.dtype)
    return space


def _with_choices(space: gymnasium.Space) -> gymnasium.Space:
    # EnvPool declares an array of integers as a Box.
    if isinstance(space, Box) and space.dtype.kind in "iu" and space.shape:
        counts = space.high.astype(np.int64) - space.low + 1
        if counts.max() <= MOST_CHOICES:
            return MultiDiscrete(counts.ravel(), space.dtype, start=space.low.ravel())
    return space


def _is_masked(space: gymnasium.Space, action_space: gymnasium.Space) -> bool:
    if not isinstance(space, Dict) or ACTION_MASK not in space.spaces:
        return False
    choices = [part.choices for part in spaces.action_parts(action_space)]
    shape = choices if len(choices) == 1 else [len(choices), choices[0]]
    return len(set(choices)) == 1 and list(space[ACTION_MASK].shape) == shape


class EnvPoolBatch:
    """Environments of EnvPool, which fill the rows of some arrays; the infos call the first of them `first_agent`.

    Attributes:
        observations: the rows, or EnvPool's own array of them where it `keeps_arrays`.
    """

    def __init__(
        self, env: EnvPoolEnv, buffers: Buffers, num_threads: int, first_agent: int = 0, keeps_arrays: bool = False
    ):
        self._env = env
        self._first_agent = first_agent
        self._buffers = buffers
        self._num_threads = num_threads
        self._keeps_arrays = keeps_arrays and env.is_plain
        self._pool: Any = None  # EnvPool's
        self._write = env.writer(buffers.observations)
        self._envs = np.arange(len(buffers.rewards), dtype=np.int32)
        self._scores = np.zeros(len(self._envs))
        self._action_dtype = np.dtype(env.env.action_array_spec["action"].dtype)
        self.observations = buffers.observations

    def reset(self, seeds: Sequence[int] | None) -> None:
        """Starts a reset; nothing runs. Seeds make the environments anew, None continues their random streams."""
        if seeds is not None:
            self.close()
            self._pool = self._env.make_pool(seeds, self._num_threads)
        self._pool.async_reset()
        self._scores[:] = 0

    def send(self, actions: np.ndarray) -> None:
        """Starts a step with rows of actions."""
        split_actions = self._env.action_layout.split(actions)
        self._pool.send(split_actions.astype(self._action_dtype, copy=False), self._envs)

    def receive(self) -> list[dict]:
        """Waits for what was started, fills the rows and returns the infos of the episodes that ended."""
        observations, rewards, terminals, truncations, info = self._pool.recv()
        buffers, ended = self._buffers, terminals | truncations
        if self._keeps_arrays and observations.dtype == buffers.observations.dtype:
            self.observations = observations
        else:
            self._write(observations)
        buffers.rewards[:] = rewards
        buffers.terminals[:] = terminals
        buffers.truncations[:] = truncations
        buffers.masks[:] = ~ended
        if buffers.action_masks is not None:
            buffers.action_masks[:] = observations[ACTION_MASK].reshape(len(ended), -1)
        if _SCORED in info:
            self._scores += info["reward"]
        return self._reports(ended, info) if np.count_nonzero(ended) else []

    def _reports(self, ended: np.ndarray, info: Mapping[str, Any]) -> list[dict]:
        arrays = ((name, values) for name, values in info.items() if isinstance(values, np.ndarray))
        numbers = {name: values for name, values in arrays if name not in _NO_REPORT and values.ndim == 1}
        reports: list[dict] = []
        for env in ended.nonzero()[0].tolist():
            is_terminal = self._buffers.terminals[env]
            if not is_terminal:
                reports.append(final_observation(self.observations, env) | {"agent_id": self._first_agent + env})
            report = plain_numbers({name: values[env] for name, values in numbers.items()})
            if _SCORED in info and (info[_SCORED][env] or not is_terminal):
                report["score"], self._scores[env] = float(self._scores[env]), 0.0
            reports += [report] if report else []
        return reports

    def render(self) -> np.ndarray:
        """The frame of the first environment."""
        return self._pool.render(env_ids=[0])[0]

    def close(self) -> None:
        """Ends EnvPool's threads, which finish their steps first."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


class EnvPool(Vector):
    """Steps environments of EnvPool on `num_workers` threads of its own.

    With a `batch_size` below `num_envs` each batch of neighbouring environments is a pool with as many threads. `recv`
    waits for the batch that was sent first, while the others run.
    """

    def __init__(self, source: EnvSource, driver: PufferEnv, options: Options):
        if not self.can_step(driver):
            raise APIUsageError(
                f"EnvPool steps environments that it has itself, got {type(driver).__name__}; "
                "use the Serial or Multiprocessing backend"
            )
        threads = count_threads(options)
        warn_above_cores(threads)
        super().__init__(source, driver, threads, count_batch(options, source.num_envs, source.num_envs))
        self.driver_env: EnvPoolEnv = driver
        self._buffers = source.allocate(driver)
        self._batches = neighbouring_batches(self._buffers, self.num_envs, self.batch_size)
        self._pools = [
            EnvPoolBatch(driver, batch.buffers, threads, int(batch.agent_ids[0]), True) for batch in self._batches
        ]
        self._running: deque[int] = deque()  # the pools that were sent, oldest first

    @staticmethod
    def can_step(env: object) -> bool:
        """Whether the environment is one of EnvPool's."""
        return isinstance(env, EnvPoolEnv)

    @override
    def _drain(self) -> None:
        while self._running:
            self._pools[self._running.popleft()].receive()

    @override
    def _start_reset(self, seeds: list[int | None]) -> None:
        for flags in (self._buffers.rewards, self._buffers.terminals, self._buffers.truncations):
            flags[:] = 0
        given = [seed for env_seed in seeds if env_seed is not None for seed in self.driver_env.env_seeds(env_seed)]
        for index, (pool, batch) in enumerate(zip(self._pools, self._batches, strict=True)):
            pool.reset([given[agent] for agent in batch.agent_ids] if given else None)
            self._running.append(index)

    @override
    def _start(self, batch: Batch) -> None:
        index = batch.envs[0] // self.batch_size
        self._pools[index].send(batch.buffers.actions)
        self._running.append(index)

    @override
    def _finish(self) -> tuple[Batch, list[dict]]:
        index = self._running.popleft()
        batch, pool = self._batches[index], self._pools[index]
        infos = pool.receive()
        rows, observations = batch.buffers, pool.observations
        if observations is rows.observations:
            return batch, infos
        others = rows.actions, rows.rewards, rows.terminals, rows.truncations, rows.masks
        return Batch(batch.envs, Buffers(observations, *others), batch.agent_ids), infos

    @override
    def _snapshot_envs(self) -> list[bytes | None]:
        return [None] * self.num_envs  # EnvPool gives no state

    @override
    def _restore_envs(self, snapshots: list[bytes]) -> None:
        self.driver_env.restore(snapshots[0])

    @override
    def _batch_of(self, envs: tuple[int, ...]) -> Batch | None:
        return None

    @override
    def _close(self) -> None:
        for pool in self._pools:
            pool.close()
