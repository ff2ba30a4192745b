"""Environments of EnvPool, which steps them in C++ on threads of its own."""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
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
from pufferlib.seeding import mix_seed
from pufferlib.spaces import Layout, in_single_precision, precision_lowered
from pufferlib.vector.base import Vector
from pufferlib.vector.batch import Batch, neighbouring_batches
from pufferlib.vector.recipe import EnvSource, Options, count_batch, count_threads, warn_above_cores

MOST_CHOICES = 1000  # of an integer of an action; others are numbers
SEEDS = 2**31  # an int32 of at least 0 is what EnvPool takes
CHUNKS = 4  # parts in which a batch is received, where other batches run meanwhile
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
    _pool: Pool | None = None  # until the first reset

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
        self._envs = np.arange(self.num_envs, dtype=np.int32)

    @override
    def _start_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        if self._pool is None:
            arrays = {name: getattr(self, name) for name in Buffers.__dataclass_fields__}
            self._pool = Pool(self, Buffers(**arrays), self.num_envs, self._num_threads)
        self._pool.reset(None if seed is None else self.env_seeds(seed))
        self._pool.receive()

    def env_seeds(self, seed: int) -> list[int]:
        """EnvPool's seeds of all environments, for a reset with `seed`."""
        return [mix_seed(seed, index) % SEEDS for index in range(self.num_envs)]

    def make_pool(self, seeds: Sequence[int], **sizes: int) -> Any:
        """Makes EnvPool's vector of such environments, one for each of its seeds."""
        with precision_lowered():
            pool = import_envpool().make_gymnasium(
                self.task, num_envs=len(seeds), env_seed=list(seeds), **sizes, **self._config
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
        self._pool.send(self._envs, fitting_actions(actions, self.actions))
        _, infos = self._pool.receive()
        return self.observations, self.rewards, self.terminals, self.truncations, list(chain.from_iterable(infos))

    @override
    def render(self) -> np.ndarray:
        """The frame of the first environment, `(height, width, 3)` uint8; it was reset before."""
        return self._pool.render()

    @override
    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


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


class Pool:
    """Environments of EnvPool, which fill the rows of some arrays."""

    def __init__(
        self, env: EnvPoolEnv, buffers: Buffers, batch_size: int, num_threads: int, keeps_arrays: bool = False
    ):
        self._env = env
        self._buffers = buffers
        self._sizes = {"batch_size": batch_size, "num_threads": num_threads}
        self._is_partial = batch_size < len(buffers.rewards)
        self._keeps_arrays = keeps_arrays and env.is_plain and not self._is_partial
        self._pool: Any = None  # EnvPool's
        self._staged = buffers.observations  # for as many rows as are received
        if self._is_partial:
            self._staged = np.empty((batch_size, *self._staged.shape[1:]), self._staged.dtype)
        self._write = env.writer(self._staged)
        self._scores = np.zeros(len(buffers.rewards))
        self._action_dtype = np.dtype(env.env.action_array_spec["action"].dtype)
        self.observations = buffers.observations  # EnvPool's own array where it `keeps_arrays`, and the rows as well
        self.num_running = 0  # environments that were sent and not received

    def reset(self, seeds: Sequence[int] | None) -> None:
        """Starts a reset of all environments; none runs. Seeds make them anew, None continues their random streams."""
        if seeds is not None:
            self.close()
            self._pool = self._env.make_pool(seeds, **self._sizes)
        self._pool.async_reset()
        self._scores[:] = 0
        self.num_running = len(self._scores)

    def send(self, envs: np.ndarray, actions: np.ndarray) -> None:
        """Starts a step of some environments, `(count,)` int32, with their rows of actions."""
        split_actions = self._env.action_layout.split_rows(actions)
        self._pool.send(split_actions.astype(self._action_dtype, copy=False), envs)
        self.num_running += len(envs)

    def receive(self) -> tuple[np.ndarray, list[list[dict]]]:
        """Waits for `batch_size` environments, whichever are ready first, and fills their rows.

        Returns the environments, and for each that ended its episode the infos.
        """
        observations, rewards, terminals, truncations, info = self._pool.recv()
        envs, buffers, ended = info["env_id"], self._buffers, terminals | truncations
        self.num_running -= len(envs)
        rows = envs if self._is_partial else slice(None)
        if self._is_partial and self._env.is_plain:
            buffers.observations[envs] = observations
        elif self._keeps_arrays and observations.dtype == buffers.observations.dtype:
            self.observations = observations
        else:
            self._write(observations)
            if self._is_partial:
                buffers.observations[envs] = self._staged
        buffers.rewards[rows] = rewards
        buffers.terminals[rows] = terminals
        buffers.truncations[rows] = truncations
        buffers.masks[rows] = ~ended
        if buffers.action_masks is not None:
            buffers.action_masks[rows] = observations[ACTION_MASK].reshape(len(envs), -1)
        if _SCORED in info:
            self._scores[rows] += info["reward"]
        return envs, self._reports(envs, ended, info) if np.count_nonzero(ended) else []

    def _reports(self, envs: np.ndarray, ended: np.ndarray, info: Mapping[str, Any]) -> list[list[dict]]:
        arrays = ((name, values) for name, values in info.items() if isinstance(values, np.ndarray))
        numbers = {name: values for name, values in arrays if name not in _NO_REPORT and values.ndim == 1}
        reports: list[list[dict]] = []
        for index in ended.nonzero()[0].tolist():
            env = int(envs[index])
            is_terminal = self._buffers.terminals[env]
            report = plain_numbers({name: values[index] for name, values in numbers.items()})
            if _SCORED in info and (info[_SCORED][index] or not is_terminal):
                report["score"], self._scores[env] = float(self._scores[env]), 0.0
            final = [] if is_terminal else [final_observation(self.observations, env)]
            reports.append([*final, report] if report else final)
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
    """Steps environments of EnvPool on `num_workers` threads of its own, all in one pool.

    With a `batch_size` below `num_envs` EnvPool gives environments as they finish, and `recv` returns the first batch
    of which all have, while the others run. A batch is always of the same neighbouring environments.
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
        self._ids = [batch.agent_ids.astype(np.int32) for batch in self._batches]
        self._num_missing = np.zeros(self._num_batches, np.int64)  # agents of each batch that run
        self._infos: list[list[dict]] = [[] for _ in self._batches]
        self._complete: deque[int] = deque()  # batches that were not taken
        size = self.agents_per_batch
        if self._num_batches > 1:
            size = max(part for part in range(1, max(1, size // CHUNKS) + 1) if size % part == 0)
        self._pool = Pool(driver, self._buffers, size, threads, keeps_arrays=True)

    @staticmethod
    def can_step(env: object) -> bool:
        """Whether the environment is one of EnvPool's."""
        return isinstance(env, EnvPoolEnv)

    @override
    def _drain(self) -> None:
        while self._pool.num_running:
            self._pool.receive()
        self._complete.clear()

    @override
    def _start_reset(self, seeds: list[int | None]) -> None:
        for flags in (self._buffers.rewards, self._buffers.terminals, self._buffers.truncations):
            flags[:] = 0
        given = [seed for env_seed in seeds if env_seed is not None for seed in self.driver_env.env_seeds(env_seed)]
        self._pool.reset(given or None)
        self._num_missing[:] = self.agents_per_batch

    @override
    def _start(self, batch: Batch) -> None:
        self._num_missing[batch.envs[0] // self.batch_size] = self.agents_per_batch
        self._pool.send(self._ids[batch.envs[0] // self.batch_size], batch.buffers.actions)

    @override
    def _finish(self) -> tuple[Batch, list[dict]]:
        if self._num_batches == 1:
            _, reports = self._pool.receive()
            return self._whole(), list(chain.from_iterable(reports))
        while not self._complete:
            self._receive()
        index = self._complete.popleft()
        infos, self._infos[index] = self._infos[index], []
        return self._batches[index], infos

    def _whole(self) -> Batch:
        # With EnvPool's own array of the observations, where it keeps those.
        (batch,), rows, observations = self._batches, self._buffers, self._pool.observations
        if observations is rows.observations:
            return batch
        others = rows.actions, rows.rewards, rows.terminals, rows.truncations, rows.masks
        return Batch(batch.envs, Buffers(observations, *others), batch.agent_ids)

    def _receive(self) -> None:
        agents, reports = self._pool.receive()
        batches = agents // self.agents_per_batch
        self._num_missing -= np.bincount(batches, minlength=self._num_batches)
        self._complete.extend(index for index in np.unique(batches).tolist() if not self._num_missing[index])
        if reports:
            ended = agents[(self._buffers.terminals | self._buffers.truncations)[agents]]
            for agent, infos in zip(ended.tolist(), reports, strict=True):
                self._infos[agent // self.agents_per_batch] += infos

    @override
    def _tell_final_observations(self) -> None:
        """They always are told."""

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
        self._pool.close()
