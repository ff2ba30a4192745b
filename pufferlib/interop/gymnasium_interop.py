"""C environments for Gymnasium, one or a vector, and `make_gymnasium`, `make_gymnasium_vec` and `make_pettingzoo`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TransformObservation
from numpy.typing import ArrayLike
from typing_extensions import override

from pufferlib import spaces
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.emulation.emulated_env import ACTION_MASK
from pufferlib.environment import fitting_actions
from pufferlib.errors import APIUsageError, require_extra
from pufferlib.families import catalog
from pufferlib.interop import spec_of
from pufferlib.interop.ocean_envs import OceanInside, mask_info, ocean_name, write_actions
from pufferlib.ocean.environment import OceanEnv

if TYPE_CHECKING:
    from pettingzoo import ParallelEnv


class OceanGymnasiumEnv(OceanInside, gymnasium.Env):
    """A C environment of one agent, step by step as Gymnasium's users know it; `make_gymnasium_vec` is for speed.

    Observations are copies, infos are empty, `options` have no meaning. After the end of an episode nothing may be
    stepped before `reset`, which continues the environment's random stream unless it is given a seed.

    Where the environment has action masks, infos have `action_mask`, int8 as `Discrete.sample` takes it, but for those
    of an end, and there is a method `action_masks()` for Stable-Baselines3's contributions, which returns bools.

    Arguments are those of `make_gymnasium`; `max_episode_steps` truncates episodes.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "human"]}

    def __init__(
        self,
        name: str | type[OceanEnv],
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **env_kwargs: object,
    ):
        self._open(name, 1, render_mode, env_kwargs, max_episode_steps)
        self.observation_space = self.ocean.single_observation_space
        self.action_space = self.ocean.single_action_space
        self._elapsed = 0  # steps of the episode
        self._is_over = True  # no step is allowed
        self._has_begun = False  # C began the next episode when the last one ended
        if self.ocean.has_action_masks:  # by its presence other libraries know that it has masks
            self.action_masks = lambda: self.ocean.action_masks[0].copy()

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None or not self._has_begun:
            self.ocean.reset(seed)
        self._is_over = self._has_begun = False
        self._elapsed = 0
        self._show()
        return self.ocean.observations[0].copy(), mask_info(self.ocean, 0)

    @override
    def step(self, action: ArrayLike) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self._is_over:
            raise APIUsageError("step() is for an episode under way, and none is; call reset() first")
        write_actions(self.ocean, 0, action)
        self.ocean.step(self.ocean.actions)
        terminated, truncated = bool(self.ocean.terminals[0]), bool(self.ocean.truncations[0])
        self._has_begun = terminated or truncated
        observation = (self._final if self._has_begun else self.ocean.observations)[0]
        self._elapsed += 1
        truncated = truncated or (self._elapsed == self._max_episode_steps and not terminated)
        self._is_over = terminated or truncated
        self._show()
        info = {} if self._is_over else mask_info(self.ocean, 0)
        return observation.copy(), float(self.ocean.rewards[0]), terminated, truncated, info


class OceanVectorEnv(VectorEnv, OceanInside):
    """C environments of one agent each, stepped together, without copies.

    The arrays that `reset` and `step` return are the environments' own, and the next step overwrites them; `copy=True`
    copies them every time. Infos are copies always.

    As `AutoresetMode.SAME_STEP` says, the final observations of episodes that end are in `infos["final_obs"]`, an
    object array `(num_envs,)`, None where `infos["_final_obs"]` is False. `infos` are empty in all other steps, but for
    `action_mask` `(num_envs, choices)` where the environments have action masks, and `_action_mask`, which is False at
    a final observation. With `AutoresetMode.NEXT_STEP` the reward of the step that begins an episode is 0, and
    observations are copies in any case.

    `ocean.episode_statistics()` has the statistics of episodes that ended, but of those that `max_episode_steps` cut.
    Arguments are those of `make_gymnasium_vec`; the `autoreset_mode` may be given by its value.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["rgb_array"],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        name: str | type[OceanEnv],
        num_envs: int = 1,
        render_mode: str | None = None,
        copy: bool = False,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        max_episode_steps: int | None = None,
        **env_kwargs: object,
    ):
        self.closed = True  # as long as there is nothing to close
        mode = AutoresetMode(autoreset_mode)
        if mode is AutoresetMode.DISABLED:
            raise APIUsageError("autoreset_mode must be SAME_STEP or NEXT_STEP, got DISABLED")
        self._open(name, num_envs, render_mode, env_kwargs, max_episode_steps)
        self.metadata["autoreset_mode"] = mode
        self._is_next_step = mode == AutoresetMode.NEXT_STEP
        self.num_envs, self.copy = num_envs, copy
        self.single_observation_space = self.ocean.single_observation_space
        self.single_action_space = self.ocean.single_action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._was_reset = False
        self._ended = np.zeros(num_envs, bool)  # in the last step
        self._elapsed = np.zeros(num_envs, np.int64)  # steps of the episodes
        self.closed = False

    @override
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        """Begins episodes; returns observations of shape `(num_envs, *observation_shape)`, and infos.

        Environment `i` begins its random stream anew with `seed + i`, or with `seed[i]`; None continues it. Options
        have no meaning. An APIUsageError if there is not one seed for every environment, or an option `reset_mask`.
        """
        if options and "reset_mask" in options:
            raise APIUsageError(
                "reset() is for all environments, got a reset_mask; leave it out, an episode that ends is reset at once"
            )
        seeds = self._seeds(seed)
        super().reset(seed=seed if isinstance(seed, int) else None)
        self._begin(seeds)
        self._was_reset = True
        self._ended = np.zeros(self.num_envs, bool)
        observations = self.ocean.observations
        return observations.copy() if self._is_next_step else self._given(observations), self._mask_infos()

    def _begin(self, seeds: Sequence[int | None]) -> None:
        # Without a seed C resets only where it has not begun an episode that was not shown yet.
        binding, handle = self.ocean.binding, self.ocean.handle
        fresh = self._ended & self._is_next_step
        if not fresh.any():
            self.ocean.reset()
            fresh = ~fresh
        for index, seed in enumerate(seeds):
            if not fresh[index] or seed is not None:
                binding.env_reset(binding.vec_env(handle, index), seed)
        self._elapsed[:] = 0
        self._clear_step()

    def _clear_step(self, where: slice | np.ndarray = slice(None)) -> None:
        self.ocean.rewards[where] = 0.0
        self.ocean.terminals[where] = self.ocean.truncations[where] = False

    @override
    def step(self, actions: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Steps every environment, by actions of shape `(num_envs, *action_shape)`.

        Returns observations, rewards (float32), terminations and truncations, `num_envs` rows each, and infos. An
        APIUsageError if the actions have another shape or kind, or nothing was reset yet.
        """
        if not self._was_reset:
            raise APIUsageError("step() is for episodes under way, and none is; call reset() first")
        ocean = self.ocean
        if self._is_next_step and self._ended.any():
            self._step_others(actions)
        else:
            ocean.step(actions)
        if self._max_episode_steps is not None:
            self._cut_episodes()
        self._ended = ended = ocean.terminals | ocean.truncations
        observations, infos = ocean.observations, {}
        if self._is_next_step:
            columns = ended.reshape(-1, *[1] * (observations.ndim - 1))
            observations = np.where(columns, self._final, observations)
        elif ended.any():
            infos = self._final_infos(ended)
        infos |= self._mask_infos()
        results = (observations, ocean.rewards, ocean.terminals, ocean.truncations)
        return (*map(self._given, results), infos)

    def _step_others(self, actions: ArrayLike) -> None:
        ocean = self.ocean
        ocean.actions[...] = fitting_actions(actions, ocean.actions)
        ocean.binding.vec_step_where(ocean.handle, ~self._ended)
        self._clear_step(self._ended)

    def _cut_episodes(self) -> None:
        ocean = self.ocean
        ended = ocean.terminals | ocean.truncations
        self._elapsed += ~(self._ended & self._is_next_step)
        over = (self._elapsed >= self._max_episode_steps) & ~ended
        self._elapsed[ended | over] = 0
        self._final[over] = ocean.observations[over]
        rewards = ocean.rewards[over]
        for index in np.flatnonzero(over).tolist():
            ocean.binding.env_reset(ocean.binding.vec_env(ocean.handle, index))
        ocean.rewards[over] = rewards
        ocean.truncations[over] = True

    def _final_infos(self, ended: np.ndarray) -> dict[str, Any]:
        final = np.full(self.num_envs, None, object)
        for index in np.flatnonzero(ended).tolist():
            final[index] = self._final[index].copy()
        return {"final_obs": final, "_final_obs": ended, "final_info": {}, "_final_info": ended.copy()}

    def _mask_infos(self) -> dict[str, Any]:
        shown = ~(self._ended & self._is_next_step)  # of others the observation is the final one
        if not self.ocean.has_action_masks or not shown.any():
            return {}
        masks = self.ocean.action_masks & shown[:, None]
        return {ACTION_MASK: masks.astype(np.int8), f"_{ACTION_MASK}": shown}

    def _given(self, array: np.ndarray) -> np.ndarray:
        return array.copy() if self.copy else array

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            return range(int(seed), int(seed) + self.num_envs)
        seeds = seed if isinstance(seed, (Sequence, np.ndarray)) else [seed]
        if len(seeds) != self.num_envs:
            raise APIUsageError(f"one seed for each of {self.num_envs} environments is expected, got {seed!r}")
        return seeds

    @override
    def render(self) -> tuple[np.ndarray, ...] | None:
        """The frames of all environments, each `(height, width, 3)` uint8 RGB; None without a `render_mode`."""
        if self.render_mode is None:
            return None
        return tuple(self._picture(index) for index in range(self.num_envs))

    @override
    def close_extras(self, **kwargs: object) -> None:
        OceanInside.close(self)


def make_gymnasium(name: str | type[OceanEnv], render_mode: str | None = None, **env_kwargs: object) -> gymnasium.Env:
    """Makes one environment of one agent, as `gymnasium.Env`.

    `gymnasium.make("pufferlib/breakout")` makes the same with Gymnasium's usual wrappers around it. A name of
    Gymnasium's, such as `ALE/Pong-v5` or `MiniGrid-DoorKey-5x5-v0`, leads to the environment that is trained in, with
    the wrappers of its family, and float32 where its own observations are float64.

    Args:
        name: `puffer_breakout` and the like, a class of C environments, or a name of Gymnasium's.
        render_mode: `rgb_array` for frames from `render`, `human` for a window that follows every step, or None.
        env_kwargs: of the environment, such as `frameskip`; in C `seed` is that of the first episode, where `reset`
            gives none.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name; the message lists the nearest.
        MissingExtraError: if a package that it needs is not installed.
        APIUsageError: if it is neither in C nor Gymnasium's, has several agents, or an argument is out of its range.
    """
    entry = catalog.find(name) if isinstance(name, str) else None
    if entry is not None and entry.family != "ocean":
        made = entry.creator(**({} if render_mode is None else {"render_mode": render_mode}), **env_kwargs)
        if not isinstance(made, GymnasiumPufferEnv):
            made.close()
            raise APIUsageError(
                f"an environment in C or of Gymnasium's, with one agent, is expected, got {entry.name}; "
                "pufferlib.make makes others"
            )
        space = made.env.observation_space  # in single precision, which its observations may not be
        return TransformObservation(made.env, partial(spaces.as_declared, space=space), space)
    own = ocean_name(name)
    env = OceanGymnasiumEnv(own, render_mode, **env_kwargs)
    env.spec = spec_of(own, render_mode=render_mode, **env_kwargs)
    return env


def make_gymnasium_vec(
    name: str | type[OceanEnv],
    num_envs: int = 1,
    render_mode: str | None = None,
    copy: bool = False,
    **env_kwargs: object,
) -> OceanVectorEnv:
    """Makes many environments of one agent each, as one `gymnasium.vector.VectorEnv` without copies.

    `gymnasium.make_vec("pufferlib/breakout", num_envs=64)` makes the same. What is returned by `reset` and `step` is
    overwritten by the next step, unless `copy` is set: see OceanVectorEnv.

    Args:
        name: `puffer_breakout` and the like, or a class of C environments.
        num_envs: environments, at least 1.
        render_mode: `rgb_array` or None.
        copy: whether `reset` and `step` return copies, for code that keeps what they returned.
        env_kwargs: of the environment.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name; the message lists the nearest.
        APIUsageError: if it is not in C, has several agents, or an argument is out of its range.
    """
    own = ocean_name(name)
    envs = OceanVectorEnv(own, num_envs, render_mode, copy, **env_kwargs)
    envs.spec = spec_of(own, num_envs=num_envs, render_mode=render_mode, copy=copy, **env_kwargs)
    return envs


def make_pettingzoo(name: str | type[OceanEnv], render_mode: str | None = None, **env_kwargs: object) -> ParallelEnv:
    """Makes one environment in C of any number of agents, as a `pettingzoo.ParallelEnv`.

    Args:
        name: `puffer_breakout` and the like, or a class of C environments.
        render_mode: `rgb_array`, `human` or None.
        env_kwargs: of the environment.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name; the message lists the nearest.
        MissingExtraError: if PettingZoo is not installed.
        APIUsageError: if it is not in C, or an argument is out of its range.
    """
    require_extra("pettingzoo", "pettingzoo")
    from pufferlib.interop.pettingzoo_interop import OceanParallelEnv

    return OceanParallelEnv(ocean_name(name), render_mode, **env_kwargs)
