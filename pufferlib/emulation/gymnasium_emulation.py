"""Environments and vectors of Gymnasium as PufferEnvs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from typing_extensions import override

from pufferlib.emulation.emulated_env import (
    ACTION_MASK,
    EmulatedEnv,
    LibraryEnv,
    final_observation,
    flat_mask,
    library_seed,
    plain_numbers,
    single_number,
)
from pufferlib.emulation.rows import ActionLayout, row_writer
from pufferlib.environment import StepResult, fitting_actions
from pufferlib.errors import APIUsageError, PufferWarning, kind_of, require_results


class GymnasiumPufferEnv(EmulatedEnv):
    """Steps a `gymnasium.Env` whose observations and actions may have any structure.

    Observations are packed into rows as `emulated` describes (see pufferlib.spaces), unless their space is a
    Box, which stays as it is. Actions are rows of `single_action_space` and reach the environment in its own space,
    clipped to its bounds.

    When an episode ends the environment is reset in the same step. Infos are empty but for such steps, which give

    - where the episode was truncated and not terminated, `{"final_observation": row, "agent_id": 0}` with the last
      observation of the old episode, as `observations` would hold it;
    - one dict of the single numbers in the environment's last info, if there are any, without the names that mean
      something else here (`n`, `agent_id`, `final_observation`).

    Where the environment tells what is allowed, `action_masks` has it: by a method `action_masks()`, as that of
    Stable-Baselines3's contributions, by an attribute of that name, or by `info["action_mask"]`. One that has the last
    name in a method of its class, or in the module of its class or of a wrapper, is reset once when it is taken, with
    its first seed, to see it. An `action_mask` that appears later is an APIUsageError.
    """

    env: gymnasium.Env
    _RESULTS = ("observation", "reward", "terminated", "truncated", "info")  # of a step
    _get_masks: Callable[[], Any] | None = None  # by the method or the attribute of the environment

    @override
    def _describe(self, env: object) -> None:
        if not isinstance(env, gymnasium.Env):
            raise APIUsageError(
                f"GymnasiumPufferEnv takes a gymnasium.Env, got {kind_of(env)}; "
                "a PettingZoo environment goes to PettingZooPufferEnv"
            )
        for name in ("observation_space", "action_space"):
            if not isinstance(getattr(env, name, None), gymnasium.Space):
                raise APIUsageError(f"{type(env).__name__}.{name} must be a gymnasium.Space; set it in __init__")
        self.env = env
        _warn_of_normalizers(env)
        self._take_spaces(self.env.observation_space, self.env.action_space)
        self.num_agents = 1
        self._get_masks = _masks_of(_layers(self.env))
        self.has_action_masks = self._get_masks is not None
        if not self.has_action_masks and _names_masks(self.env):
            _, info = self._reset_inside(library_seed(self._first_seed), self.options)
            self.has_action_masks = ACTION_MASK in (info or {})

    def _write_masks(self, info: Mapping[str, Any] | None) -> None:
        mask = (info or {}).get(ACTION_MASK) if self._get_masks is None else self._get_masks()
        if self.has_action_masks:
            self.action_masks[0] = True if mask is None else flat_mask(mask, self.action_masks.shape[1], self.env)
        elif mask is not None:
            raise _late_mask(self.env)

    @override
    def _connect(self) -> None:
        self._write = row_writer(self._layout, self.observations[0, ...])
        self._to_action = _converter(self._actions)
        self._reward = memoryview(self.rewards)  # takes a number in half the time that the array does
        self._terminal, self._truncation = memoryview(self.terminals), memoryview(self.truncations)

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        actions = fitting_actions(actions, self.actions)
        results = require_results(self.env, "step", self._RESULTS, self.env.step(self._to_action(actions)))
        observation, reward, terminated, truncated, info = results
        self._write(observation)
        try:
            self._reward[0] = reward
        except TypeError:
            self._reward[0] = single_number(reward, self.env)
        self._terminal[0], self._truncation[0] = terminated, truncated
        infos: list[dict] = []
        if terminated or truncated:
            infos = self._end_episode(terminated, info)
        elif self.has_action_masks or (info and ACTION_MASK in info):
            self._write_masks(info)
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def _end_episode(self, terminated: bool, info: Mapping[str, Any]) -> list[dict]:
        infos = [] if terminated else [final_observation(self.observations, 0)]
        numbers = plain_numbers(info)
        self._restart()
        return [*infos, numbers] if numbers else infos

    @override
    def _start_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        observation, info = self._reset_inside(library_seed(seed), options)
        self._write(observation)
        self._write_masks(info)


def _masks_of(layers: Iterable[Any]) -> Callable[[], Any] | None:
    # What returns the masks of the outermost layer that has any; a property may work only after a reset.
    for layer in layers:
        is_property = isinstance(inspect.getattr_static(layer, "action_masks", None), property)
        found = None if is_property else getattr(layer, "action_masks", None)
        if is_property or not (found is None or callable(found)):
            return functools.partial(getattr, layer, "action_masks")
        if found is not None:
            return found
    return None


def _late_mask(env: object) -> APIUsageError:
    return APIUsageError(
        "an action_mask must be seen when an environment is made, got the first one in a later info of "
        f"{env}; give the environment a method action_masks() that returns it"
    )


def _names_masks(env: object) -> bool:
    return any(_names_mask(kind) for layer in _layers(env) for kind in type(layer).__mro__)


def _layers(env: Any) -> list[Any]:
    layers = [env]
    while hasattr(layers[-1], "env") and not any(layers[-1].env is layer for layer in layers):
        layers.append(layers[-1].env)
    return layers


_NORMALIZERS = {"NormalizeObservation": "normalize_observations", "NormalizeReward": "normalize_rewards"}


def _warn_of_normalizers(env: gymnasium.Env) -> None:
    for kind in map(type, _layers(env)):
        if kind.__name__ in _NORMALIZERS and kind.__module__.startswith("gymnasium.wrappers"):
            setting = _NORMALIZERS[kind.__name__]
            warnings.warn(
                f"{kind.__name__} of Gymnasium has statistics of its own in each environment and no saved agent has "
                f"them, so that training and evaluation differ; leave it out, as [train] {setting}=True does the same",
                PufferWarning,
                stacklevel=1,
            )


@functools.lru_cache
def _names_mask(kind: type) -> bool:
    # Whether a class, or a class, function or constant of its module, has the name of the mask.
    module = vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}
    kinds = [kind, *(part for part in module.values() if isinstance(part, type))]
    return any(_is_name(part) for place in (module, *map(vars, kinds)) for part in place.values())


def _is_name(part: object) -> bool:
    part = part.fget if isinstance(part, property) else part
    if isinstance(part, (staticmethod, classmethod, FunctionType)):
        return repr(ACTION_MASK) in repr(getattr(getattr(inspect.unwrap(part), "__code__", None), "co_consts", None))
    return isinstance(part, str) and part == ACTION_MASK


def _converter(layout: ActionLayout) -> Callable[[np.ndarray], Any]:
    split, space = layout.split, layout.space
    if not isinstance(space, Discrete):
        return lambda actions: split(actions[0])
    last, start = int(space.n) - 1, int(space.start)

    def convert(actions: np.ndarray) -> int:  # as `split` does, and faster: this is for every step
        choice = actions.item()
        return start + (choice if 0 <= choice <= last else 0 if choice < 0 else last)

    return convert


_HALVES = (("step_async", "step_wait"), ("send", "recv"))  # of a step, by Gymnasium's own and by ale-py's


class GymnasiumVectorPufferEnv(LibraryEnv):
    """A `gymnasium.vector.VectorEnv` as one PufferEnv: its environment `i` is agent `i`.

    It must reset in the same step (`AutoresetMode.SAME_STEP`), so that no action is swallowed. Rows, actions and infos
    are those of GymnasiumPufferEnv, with an `agent_id` for every environment. At the first reset environment `i` gets
    31 bits of `mix_seed(seed, i)`. Where a step comes in two halves, as of AsyncVectorEnv and ale-py's AtariVectorEnv,
    `start` begins one that runs while the caller does something else.

    Masks are those of GymnasiumPufferEnv. An AsyncVectorEnv is reset once when it is taken, to see whether there are
    any; other vectors where the name stands in them or in their first environment.
    """

    env: VectorEnv
    _get_masks: Callable[[], Sequence] | None = None  # by that of each environment, or of the vector

    @override
    def _describe(self, env: object) -> None:
        if not isinstance(env, VectorEnv):
            raise APIUsageError(
                f"the environment must be a gymnasium.vector.VectorEnv, got {type(env).__name__}; "
                "a single one goes to GymnasiumPufferEnv"
            )
        require_same_step(env)
        self.env = env
        self._take_spaces(self.env.single_observation_space, self.env.single_action_space)
        self.num_agents = self.num_envs = self.env.num_envs
        vector = self.env.unwrapped
        self._get_masks = _masks_of([vector])
        if isinstance(vector, (SyncVectorEnv, AsyncVectorEnv)) and all(vector.call("has_wrapper_attr", "action_masks")):
            self._get_masks = functools.partial(vector.call, "action_masks")
        self.has_action_masks = self._get_masks is not None
        places = (self.env, *getattr(vector, "envs", [])[:1])
        if not self.has_action_masks and (isinstance(vector, AsyncVectorEnv) or any(map(_names_masks, places))):
            self.has_action_masks = ACTION_MASK in self._reset_all(self._first_seed, self.options)[1]

    def _reset_all(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, Any]:
        if self.env.closed:
            raise APIUsageError(
                f"{type(self.env).__name__} is closed, as after an error of an environment or Ctrl-C inside a step; "
                "make a new one"
            )
        seeds = None if seed is None else self.env_seeds(seed)
        if type(self.env.unwrapped).__name__ == "AtariVectorEnv":  # it takes no list, the others no array
            seeds = None if seeds is None else np.array(seeds)
        return self._reset_inside(seeds, options)

    def _write_masks(self, infos: Mapping[str, Any]) -> None:
        if not self.has_action_masks:
            if ACTION_MASK in infos:
                raise _late_mask(self.env)
            return
        if self._get_masks is not None:
            masks, is_told = self._get_masks(), None
        else:  # with Gymnasium's flags of who told one
            masks, is_told = infos.get(ACTION_MASK, ()), infos.get(f"_{ACTION_MASK}")
        self.action_masks[:] = True
        for agent, mask in enumerate(masks):
            if is_told is None or is_told[agent]:
                self.action_masks[agent] = flat_mask(mask, self.action_masks.shape[1], self.env)

    @override
    def _connect(self) -> None:
        self._write = row_writer(self._layout, self.observations)
        self._final_row = np.zeros(self._layout.row_space.shape, self._layout.row_space.dtype)
        self._write_final = row_writer(self._layout, self._final_row)
        self._start, self._finish = _halves(self.env)
        self._is_running = False

    @override
    def _clear_step(self) -> None:
        self._drop_running()
        super()._clear_step()

    @override
    def _start_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        observations, infos = self._reset_all(seed, options)
        self._write(observations)
        self._write_masks(infos)

    def start(self, actions: np.ndarray) -> None:
        """Begins a step, to be finished by `step`, where the vector environment can; else does nothing.

        The actions, as for `step`, are to be left as they are until then.
        """
        if self._start is not None:
            self._start(self._own_actions(actions))
            self._is_running = True

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        """Steps every environment, or waits for what `start` began; see GymnasiumPufferEnv for the infos."""
        with self._keeping_whole():
            results = self._finish() if self._is_running else self.env.step(self._own_actions(actions))
            self._is_running = False
        observations, rewards, terminals, truncations, infos = results
        self._write(observations)
        self.rewards[:] = rewards
        self.terminals[:] = terminals
        self.truncations[:] = truncations
        self._write_masks(infos)
        return self.observations, self.rewards, self.terminals, self.truncations, self._ends(infos)

    def _own_actions(self, actions: np.ndarray) -> Any:
        return self._actions.split(fitting_actions(actions, self.actions))

    def _ends(self, infos: Mapping[str, Any]) -> list[dict]:  # of a step, whose arrays are filled
        reports: list[dict] = []
        for agent in np.flatnonzero(self.terminals | self.truncations).tolist():
            if not self.terminals[agent]:
                if "final_obs" not in infos:
                    raise APIUsageError(
                        "infos of a step that truncates must have final_obs, with the last observation of each "
                        f"environment that ended, got none from {self.env}; write it before the reset"
                    )
                self._write_final(infos["final_obs"][agent])
                reports.append({"final_observation": self._final_row.copy(), "agent_id": agent})
            numbers = self._final_numbers(infos, agent)
            if numbers:
                reports.append(numbers)
        return reports

    def _final_numbers(self, infos: Mapping[str, Any], agent: int) -> dict[str, float]:
        final = infos.get("final_info", {})
        given = {name: values for name, values in final.items() if f"_{name}" in final and final[f"_{name}"][agent]}
        return plain_numbers({name: v[agent] for name, v in given.items() if isinstance(v, np.ndarray)})

    @override
    def render(self) -> np.ndarray | None:
        frames = self.env.render()
        return frames[0] if frames else None

    def _drop_running(self) -> None:
        if self._is_running:
            with self._keeping_whole():
                self._finish()
            self._is_running = False

    @contextlib.contextmanager
    def _keeping_whole(self) -> Iterator[None]:
        # Ends the processes of an AsyncVectorEnv that have answered in part, or not at all: it knows no way back.
        try:
            yield
        except BaseException:
            self._is_running = False
            if isinstance(self.env.unwrapped, AsyncVectorEnv):
                self.env.close(terminate=True)
            raise

    @override
    def close(self) -> None:
        with contextlib.suppress(Exception):  # the results of the step are not wanted
            self._drop_running()
        super().close()


def _halves(env: VectorEnv) -> tuple[Callable | None, Callable | None]:
    # A wrapper has a step of its own, which has no halves.
    for start, finish in _HALVES:
        if hasattr(type(env), start) and hasattr(type(env), finish):
            return getattr(env, start), getattr(env, finish)
    return None, None


def require_same_step(env: VectorEnv) -> None:
    """Raises an APIUsageError with the remedy where a vector does not reset in the step that ends an episode."""
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise APIUsageError(
            f"{type(env).__name__} must reset in the same step, got autoreset_mode {getattr(mode, 'name', mode)}; make "
            f"it with {_remedy(env)}"
        )


def _remedy(env: VectorEnv) -> str:
    mode = "gymnasium.vector.AutoresetMode.SAME_STEP"
    if env.spec is None:
        return f"autoreset_mode={mode}"
    # Without "sync" the id may make a vector environment of its own, which takes no mode.
    return f'gymnasium.make_vec("{env.spec.id}", vectorization_mode="sync", vector_kwargs={{"autoreset_mode": {mode}}})'
