"""Gymnasium's vector environments: many environments behind one object, here as one PufferEnv."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from typing_extensions import override

from pufferlib.environment import Buffers, PufferEnv, StepResult
from pufferlib.errors import APIUsageError
from pufferlib.seeding import mix_seed

_SEED_BITS = 31  # what every generator that an environment may use takes as a seed
_START_AND_FINISH = (("step_async", "step_wait"), ("send", "recv"))  # of Gymnasium's own and of ale-py's


class GymnasiumVectorPufferEnv(PufferEnv):
    """A `gymnasium.vector.VectorEnv` as one PufferEnv: environment `i` of it is agent `i`.

    It must reset in the same step (`AutoresetMode.SAME_STEP`), so that no action is swallowed. Its observations are
    copied once, into the arrays of the PufferEnv. Where it says what it does in two calls, as AsyncVectorEnv and
    ale-py's AtariVectorEnv do, `start` begins a step that runs while the caller does something else.

    A step whose episode was cut short (truncated and not terminated) adds `{"final_observation": row, "agent_id": i}`
    to the infos, and the end of every episode a dict of the numbers in Gymnasium's final info, where there are any.

    Attributes:
        env: the vector environment.
    """

    def __init__(
        self,
        env: VectorEnv | None = None,
        env_creator: Callable[..., VectorEnv] | None = None,
        env_args: Sequence = (),
        env_kwargs: Mapping[str, Any] | None = None,
        buf: Buffers | None = None,
        seed: int = 0,
    ):
        """Takes a vector environment, or makes one as `env_creator(*env_args, **env_kwargs)`.

        Args:
            env: the vector environment; closed with this one.
            env_creator: makes it, where `env` is None.
            env_args: for `env_creator`.
            env_kwargs: for `env_creator`.
            buf: the arrays to fill, `env.num_envs` rows; None allocates them.
            seed: of the first reset that is given none; environment `i` gets 31 bits of `mix_seed(seed, i)`.

        Raises:
            APIUsageError: if not exactly one of `env` and `env_creator` is given, or it cannot be stepped as described.
        """
        if (env is None) == (env_creator is None):
            raise APIUsageError(
                f"{type(self).__name__} takes exactly one of env and env_creator, "
                f"got {'none' if env is None else 'both'}"
            )
        self.env = env if env_creator is None else env_creator(*env_args, **(env_kwargs or {}))
        try:
            _check_vector_env(self.env)
            self.single_observation_space = _observation_space(self.env)
            self._actions = ActionRows(self.env.single_action_space)
            self.single_action_space = self._actions.space
            self.num_agents = self.env.num_envs
            super().__init__(buf)
        except BaseException:
            if env is None:
                self.env.close()
            raise
        self._start, self._finish = _start_and_finish(self.env)
        self._is_running = False
        self._is_closed = False
        self._seed: int | None = seed  # None once it was used

    @override
    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict]]:
        self._drop_running()
        seed, self._seed = self._seed if seed is None else seed, None
        observations, _ = self.env.reset(seed=None if seed is None else self._env_seeds(seed))
        self.observations[:] = observations
        self.rewards[:] = 0
        self.terminals[:] = self.truncations[:] = False
        return self.observations, []

    def start(self, actions: np.ndarray) -> None:
        """Begins a step, to be finished by `step`, where the vector environment can; else does nothing.

        Args:
            actions: as for `step`, to be left as they are until then.
        """
        if self._start is not None:
            self._start(self._actions.for_env(actions))
            self._is_running = True

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        if self._is_running:
            self._is_running = False
            results = self._finish()
        else:
            results = self.env.step(self._actions.for_env(actions))
        observations, rewards, terminals, truncations, infos = results
        self.observations[:] = observations
        self.rewards[:] = rewards
        self.terminals[:] = terminals
        self.truncations[:] = truncations
        has_ends = self.terminals.any() or self.truncations.any()
        return self.observations, self.rewards, self.terminals, self.truncations, self._ends(infos) if has_ends else []

    def _ends(self, infos: Mapping[str, Any]) -> list[dict]:
        """What the agents whose episode has ended report."""
        reports: list[dict] = []
        for agent in np.flatnonzero(self.terminals | self.truncations).tolist():
            if not self.terminals[agent]:
                reports.append({"final_observation": self._final_row(infos, agent), "agent_id": agent})
            numbers = _numbers_of(infos.get("final_info", {}), agent)
            if numbers:
                reports.append(numbers)
        return reports

    def _final_row(self, infos: Mapping[str, Any], agent: int) -> np.ndarray:
        if "final_obs" not in infos:
            raise APIUsageError(
                f"{type(self.env).__name__} must give 'final_obs' in its infos where an episode is truncated, got "
                f"{sorted(infos)}; Gymnasium's vector environments do with AutoresetMode.SAME_STEP"
            )
        return np.array(infos["final_obs"][agent], self.observations.dtype)

    def _env_seeds(self, seed: int) -> list[int] | np.ndarray:
        seeds = [mix_seed(seed, index) & ((1 << _SEED_BITS) - 1) for index in range(self.num_agents)]
        atari = sys.modules.get("ale_py.vector_env")
        if atari is not None and isinstance(self.env.unwrapped, atari.AtariVectorEnv):
            return np.array(seeds)  # it takes no list, the others no array
        return seeds

    @override
    def render(self) -> np.ndarray | None:
        frames = self.env.render()
        return frames[0] if frames else None

    def _drop_running(self) -> None:
        if self._is_running:
            self._is_running = False
            self._finish()

    @override
    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(Exception):  # nobody will see what the step had to say
            self._drop_running()
        self.env.close()


class ActionRows:
    """The actions of a vector environment as rows of a PufferEnv: one-dimensional, discrete ones counted from 0.

    Attributes:
        space: of one row.
    """

    def __init__(self, space: gymnasium.Space):
        """Prepares for the single action space of a vector environment.

        Raises:
            APIUsageError: if it is of another kind.
        """
        self._shape = space.shape
        self._dtype = space.dtype
        self._lowest = self._highest = None
        self._first = 0  # or what to add to each number
        if isinstance(space, Discrete):
            self.space, self._first = Discrete(space.n), int(space.start)
        elif isinstance(space, MultiDiscrete):
            self.space, self._first = MultiDiscrete(space.nvec.ravel()), space.start
        elif isinstance(space, MultiBinary):
            self.space = MultiDiscrete(np.full(space.shape, 2).ravel())
        elif isinstance(space, Box) and space.dtype.kind == "f":
            self._lowest, self._highest = space.low, space.high
            self.space = Box(*(limit.ravel().astype(np.float32) for limit in (space.low, space.high)))
        else:
            raise APIUsageError(
                "the actions of a vector environment must be Discrete, MultiDiscrete, MultiBinary or a Box of floats, "
                f"got {space}; step its environments one by one with pufferlib.emulation.GymnasiumPufferEnv"
            )

    def for_env(self, rows: np.ndarray) -> np.ndarray:
        """Rows as the vector environment takes them: its shape and dtype, inside the bounds."""
        actions = rows.reshape(len(rows), *self._shape)
        if self._lowest is not None:
            return np.clip(actions, self._lowest, self._highest, dtype=self._dtype)
        return (actions + self._first).astype(self._dtype, copy=False)


def _check_vector_env(env: Any) -> None:
    if not isinstance(env, VectorEnv):
        raise APIUsageError(
            f"the environment must be a gymnasium.vector.VectorEnv, got {type(env).__name__}; "
            "a single one goes into pufferlib.emulation.GymnasiumPufferEnv"
        )
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise APIUsageError(
            f"{type(env).__name__} must reset in the same step, got autoreset_mode {getattr(mode, 'name', mode)}; make "
            'it with gymnasium.make_vec(id, vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})'
        )
    batch_size = getattr(env, "batch_size", env.num_envs)
    if batch_size != env.num_envs:
        raise APIUsageError(
            f"{type(env).__name__} must step all of its {env.num_envs} environments at once, got batch_size "
            f"{batch_size}; leave that out, and make several vector environments to overlap them"
        )


def _observation_space(env: VectorEnv) -> gymnasium.Space:
    space = env.single_observation_space
    if not isinstance(space, Box):
        raise APIUsageError(
            f"the observations of a vector environment must be a Box, got {space}; "
            "step its environments one by one with pufferlib.emulation.GymnasiumPufferEnv"
        )
    return space


def _start_and_finish(env: VectorEnv) -> tuple[Callable | None, Callable | None]:
    """The two halves of a step; a wrapper has one of its own and so no halves."""
    for start, finish in _START_AND_FINISH:
        if hasattr(type(env), start) and hasattr(type(env), finish):
            return getattr(env, start), getattr(env, finish)
    return None, None


def _numbers_of(final_info: Mapping[str, Any], agent: int) -> dict[str, float]:
    """The scalars of one environment among the batched infos of all that have ended."""
    numbers = {}
    for name, values in final_info.items():
        is_number = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf"
        is_given = final_info.get(f"_{name}")
        if is_number and not name.startswith("_") and (is_given is None or is_given[agent]):
            numbers[name] = float(values[agent])
    return numbers
