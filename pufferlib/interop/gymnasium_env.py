"""One C environment as a `gymnasium.Env`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.interop.ocean_envs import make_ocean, require_one_agent, write_actions
from pufferlib.interop.pictures import Pictures, ShownEnv, natural_pace
from pufferlib.ocean.environment import OceanEnv


class OceanGymnasiumEnv(ShownEnv, gymnasium.Env):
    """A C environment of one agent, step by step as Gymnasium's users know it.

    Observations are copies, and the last one of an episode is what the episode came to. After it nothing may be stepped
    before `reset`, which goes on with the environment's random stream unless it is given a seed. Rewards are floats,
    infos empty, `options` have no meaning.

    For speed there is `pufferlib.make_gymnasium_vec`: a thousand environments step there while a few do here.

    Attributes:
        ocean: the environment itself.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "human"]}

    def __init__(
        self,
        name: str | type[OceanEnv],
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **env_kwargs: Any,
    ):
        """Makes the environment.

        Args:
            name: of an Ocean environment, such as `puffer_breakout`, or a class of C environments.
            render_mode: `rgb_array` for frames from `render`, `human` for a window that follows every step, or None.
            max_episode_steps: after which an episode is truncated; None leaves that to the environment.
            env_kwargs: of the environment's class, such as `frameskip`; `seed` is that of the first episode, where
                `reset` gives none.

        Raises:
            UnknownEnvironmentError: if there is no Ocean environment of that name.
            APIUsageError: if the render mode is unknown, an argument out of its range, or the environment has several
                agents.
        """
        self.render_mode = checked_mode(render_mode, self.metadata["render_modes"])
        if render_mode is not None:
            self.metadata = {**self.metadata, "render_fps": natural_pace(name, env_kwargs)}
        self.ocean = make_ocean(name, 1, env_kwargs)
        require_one_agent(self.ocean)
        self.observation_space = self.ocean.single_observation_space
        self.action_space = self.ocean.single_action_space
        self._pictures = Pictures(self.ocean)
        self._final = self.ocean.keep_final_observations()[0]
        self._max_episode_steps = checked_limit(max_episode_steps)
        self._elapsed = 0  # steps of the episode
        self._is_over = True  # no step is allowed
        self._has_begun = False  # C began the next episode when the last one ended

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None or not self._has_begun:
            self.ocean.reset(seed)
        self._is_over = self._has_begun = False
        self._elapsed = 0
        self._show()
        return self.ocean.observations[0].copy(), {}

    @override
    def step(self, action: ArrayLike) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self._is_over:
            raise APIUsageError("step() is for an episode under way, and none is; call reset() first")
        write_actions(self.ocean, 0, action)
        self.ocean.step(self.ocean.actions)
        terminated, truncated = bool(self.ocean.terminals[0]), bool(self.ocean.truncations[0])
        self._has_begun = terminated or truncated
        observation = self._final if self._has_begun else self.ocean.observations[0]
        self._elapsed += 1
        truncated = truncated or (self._elapsed == self._max_episode_steps and not terminated)
        self._is_over = terminated or truncated
        self._show()
        return observation.copy(), float(self.ocean.rewards[0]), terminated, truncated, {}


def checked_mode(render_mode: str | None, modes: list[str]) -> str | None:
    """The render mode.

    Raises:
        APIUsageError: if it is none of the modes.
    """
    if render_mode is not None and render_mode not in modes:
        raise APIUsageError(f"render_mode must be one of {modes} or None, got {render_mode!r}")
    return render_mode


def checked_limit(max_episode_steps: int | None) -> int | None:
    """The steps after which an episode is truncated.

    Raises:
        APIUsageError: if they are no integer, or below 1.
    """
    if max_episode_steps is not None and not (isinstance(max_episode_steps, int) and max_episode_steps >= 1):
        raise APIUsageError(f"max_episode_steps must be an integer from 1, or None, got {max_episode_steps!r}")
    return max_episode_steps
