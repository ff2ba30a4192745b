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

from pufferlib.emulation.actions import ActionLayout
from pufferlib.emulation.creation import make_env
from pufferlib.emulation.emulated_env import warn_of_left_out
from pufferlib.emulation.infos import plain_numbers
from pufferlib.emulation.packing import row_writer
from pufferlib.environment import Buffers, PufferEnv, StepResult
from pufferlib.errors import APIUsageError
from pufferlib.seeding import mix_seed
from pufferlib.spaces.layout import Layout, unpack

_SEEDS = 2**31  # what every generator that an environment may use takes as a seed
_HALVES = (("step_async", "step_wait"), ("send", "recv"))  # of a step, by Gymnasium's own and by ale-py's


class GymnasiumVectorPufferEnv(PufferEnv):
    """A `gymnasium.vector.VectorEnv` as one PufferEnv: its environment `i` is agent `i`.

    It must reset in the same step (`AutoresetMode.SAME_STEP`), so that no action is swallowed. Observations are copied
    once, into the arrays of the PufferEnv; rows, actions and infos are those of GymnasiumPufferEnv, with an `agent_id`
    for every environment. Where a step comes in two halves, as of AsyncVectorEnv and ale-py's AtariVectorEnv, `start`
    begins one that goes on while the caller does something else.

    Attributes:
        env: the vector environment.
    """

    env: VectorEnv

    def __init__(
        self,
        env: VectorEnv | Callable[..., VectorEnv] | None = None,
        env_creator: Callable[..., VectorEnv] | None = None,
        env_args: Sequence[Any] = (),
        env_kwargs: Mapping[str, Any] | None = None,
        buf: Buffers | None = None,
        seed: int = 0,
    ):
        """Takes a vector environment, or makes one as `env_creator(*env_args, **env_kwargs)`.

        Args:
            env: the vector environment, closed with this one, or a function in the place of `env_creator`.
            env_creator: makes it where `env` is not given.
            env_args: for `env_creator`.
            env_kwargs: for `env_creator`.
            buf: the arrays to fill, `env.num_envs` rows.
            seed: of the first reset, where that gives none; environment `i` gets 31 bits of `mix_seed(seed, i)`.

        Raises:
            APIUsageError: if not exactly one of `env` and `env_creator` is given, it resets in another way, or one of
                its spaces has a part that rows cannot hold.
        """
        self.env = make_env(env, env_creator, env_args, env_kwargs)
        _check(self.env)
        self._layout = Layout.of(self.env.single_observation_space)
        warn_of_left_out(self.env, self._layout.left_out)
        self._actions = ActionRows(self.env.single_action_space)
        self.single_observation_space = self._layout.row_space
        self.single_action_space = self._actions.canonical
        self.num_agents = self.num_envs = self.env.num_envs
        super().__init__(buf)
        views = _as_leaves(self._layout, unpack(self.observations, self._layout))
        self._leaves = [(leaf.path, view) for leaf, view in zip(self._layout.leaves, views, strict=True)]
        self._final_row = np.zeros(self._layout.row_space.shape, self._layout.row_space.dtype)
        self._write_final = row_writer(self._layout, self._final_row)
        self._start, self._finish = _halves(self.env)
        self._is_running = False
        self._is_closed = False
        self._seed: int | None = seed  # until the first reset

    @property
    @override
    def emulated(self) -> Layout | None:
        return self._layout if self._layout.is_packed else None

    @override
    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict]]:
        self._drop_running()
        seed, self._seed = self._seed if seed is None else seed, None
        observations, _ = self.env.reset(seed=None if seed is None else self._env_seeds(seed))
        self._write(observations)
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
        """Steps every environment, or waits for what `start` began; see GymnasiumPufferEnv for the infos."""
        if self._is_running:
            self._is_running = False
            results = self._finish()
        else:
            results = self.env.step(self._actions.for_env(actions))
        observations, rewards, terminals, truncations, infos = results
        self._write(observations)
        self.rewards[:] = rewards
        self.terminals[:] = terminals
        self.truncations[:] = truncations
        self._follow(infos)
        has_ends = self.terminals.any() or self.truncations.any()
        return self.observations, self.rewards, self.terminals, self.truncations, self._ends(infos) if has_ends else []

    def _follow(self, infos: Mapping[str, Any]) -> None:
        """For subclasses: called in every step, when the arrays are filled."""

    def _write(self, observations: Any) -> None:
        for path, view in self._leaves:
            part = observations
            for key in path:
                part = part[key]
            view[...] = part

    def _ends(self, infos: Mapping[str, Any]) -> list[dict]:
        reports: list[dict] = []
        for agent in np.flatnonzero(self.terminals | self.truncations).tolist():
            if not self.terminals[agent]:
                reports.append({"final_observation": self._final_observation(infos, agent), "agent_id": agent})
            numbers = self._final_numbers(infos, agent)
            if numbers:
                reports.append(numbers)
        return reports

    def _final_observation(self, infos: Mapping[str, Any], agent: int) -> np.ndarray:
        if "final_obs" not in infos:
            raise APIUsageError(
                f"{type(self.env).__name__} must give 'final_obs' in its infos where an episode is truncated, got "
                f"{sorted(infos)}; Gymnasium's vector environments do with AutoresetMode.SAME_STEP"
            )
        self._write_final(infos["final_obs"][agent])
        return self._final_row.copy()

    def _final_numbers(self, infos: Mapping[str, Any], agent: int) -> dict[str, float]:
        final = infos.get("final_info", {})
        given = {name: values for name, values in final.items() if f"_{name}" in final and final[f"_{name}"][agent]}
        return plain_numbers({name: v[agent] for name, v in given.items() if isinstance(v, np.ndarray)})

    def _env_seeds(self, seed: int) -> list[int] | np.ndarray:
        seeds = [mix_seed(seed, index) % _SEEDS for index in range(self.num_agents)]
        atari = sys.modules.get("ale_py.vector_env")
        is_atari = atari is not None and isinstance(self.env.unwrapped, atari.AtariVectorEnv)
        return np.array(seeds) if is_atari else seeds  # it takes no list, the others no array

    @override
    def render(self) -> np.ndarray | None:
        """The frame of the first environment, None where there is none."""
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
    """The actions of all environments: rows of the canonical space, and what a vector environment takes.

    Attributes:
        canonical: the space of one row.
    """

    def __init__(self, space: gymnasium.Space):
        self._layout = ActionLayout(space)
        self._space = space
        self.canonical = self._layout.canonical
        self._bounds = _bounds(space)

    def for_env(self, rows: np.ndarray) -> Any:
        """Rows `(num_envs, *row_shape)` as actions inside the bounds of the environment's own space."""
        if self._bounds is not None:  # all at once: these are the spaces that fast environments have
            low, high, start = self._bounds
            actions = rows.reshape(len(rows), *self._space.shape)
            return (np.clip(actions, low, high) + start).astype(self._space.dtype, copy=False)
        return self._layout.split_rows(rows)


def _bounds(space: gymnasium.Space) -> tuple[Any, Any, Any] | None:
    # Lowest, highest, and the number to add; None for structures and boxes of integers.
    if isinstance(space, Discrete):
        return 0, int(space.n) - 1, int(space.start)
    if isinstance(space, MultiDiscrete):
        return 0, space.nvec - 1, space.start
    if isinstance(space, MultiBinary):
        return 0, 1, 0
    if isinstance(space, Box) and space.dtype.kind == "f":
        return space.low, space.high, 0
    return None


def _as_leaves(layout: Layout, unpacked: Any) -> list[np.ndarray]:
    leaves = []
    for leaf in layout.leaves:
        part = unpacked
        for key in leaf.path:
            part = part[key]
        leaves.append(part)
    return leaves


def _halves(env: VectorEnv) -> tuple[Callable | None, Callable | None]:
    # A wrapper has a step of its own, which has no halves.
    for start, finish in _HALVES:
        if hasattr(type(env), start) and hasattr(type(env), finish):
            return getattr(env, start), getattr(env, finish)
    return None, None


def _check(env: object) -> None:
    if not isinstance(env, VectorEnv):
        raise APIUsageError(
            f"the environment must be a gymnasium.vector.VectorEnv, got {type(env).__name__}; "
            "a single one goes to GymnasiumPufferEnv"
        )
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise APIUsageError(
            f"{type(env).__name__} must reset in the same step, got autoreset_mode {getattr(mode, 'name', mode)}; make "
            f"it with {_remedy(env)}"
        )
    batch_size = getattr(env, "batch_size", env.num_envs)
    if batch_size != env.num_envs:
        raise APIUsageError(
            f"{type(env).__name__} must step all of its {env.num_envs} environments at once, got batch_size "
            f"{batch_size}; leave that out, and make several vector environments to overlap them"
        )


def _remedy(env: VectorEnv) -> str:
    mode = "gymnasium.vector.AutoresetMode.SAME_STEP"
    if env.spec is None:
        return f"autoreset_mode={mode}"
    # Without "sync" the id may make a vector environment of its own, which takes no mode.
    return f'gymnasium.make_vec("{env.spec.id}", vectorization_mode="sync", vector_kwargs={{"autoreset_mode": {mode}}})'
