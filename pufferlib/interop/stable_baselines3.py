"""Vector environments as Stable-Baselines3 takes them."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from typing_extensions import override

from pufferlib.emulation.gymnasium_emulation import require_same_step
from pufferlib.errors import APIUsageError, require_extra

require_extra("stable_baselines3", "sb3")
from stable_baselines3.common.vec_env import VecEnv, VecMonitor  # noqa: E402  # after the sentence of what is missing

Indices = int | Iterable[int] | None


def as_vec_env(envs: VectorEnv) -> VecMonitor:
    """Makes a vector environment one of Stable-Baselines3, with the returns and lengths of episodes in its infos.

        model = PPO("MlpPolicy", as_vec_env(pufferlib.make_gymnasium_vec("puffer_cartpole", 64)))

    Args:
        envs: what `pufferlib.make_gymnasium_vec` returns, or another `gymnasium.vector.VectorEnv` that resets in the
            same step; it is closed with the result.

    Raises:
        MissingExtraError: when this module is imported, if Stable-Baselines3 is not installed.
        APIUsageError: if it is no vector environment, or one that resets in another way.
    """
    return VecMonitor(SameStepVecEnv(envs))


class SameStepVecEnv(VecEnv):
    """A `gymnasium.vector.VectorEnv` behind Stable-Baselines3's VecEnv.

    Observations and rewards are copies, since its algorithms look at those of the last step after the next one. The
    info of an episode's end holds what the environment says there, `terminal_observation`, and `TimeLimit.truncated`
    where a limit cut it. The environments are one object, so `get_attr`, `set_attr` and `env_method` ask that and
    answer alike for all.
    """

    def __init__(self, envs: VectorEnv):
        if not isinstance(envs, VectorEnv):
            raise APIUsageError(
                f"a gymnasium.vector.VectorEnv is expected, got {type(envs).__name__}; make one with "
                "pufferlib.make_gymnasium_vec"
            )
        require_same_step(envs)
        self.envs = envs
        self._actions: np.ndarray | None = None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    @override
    def reset(self) -> np.ndarray:
        is_seeded = any(seed is not None for seed in self._seeds)
        options = self._options[0]
        if any(other != options for other in self._options):
            raise APIUsageError(
                "set_options() must give all environments the same options, as one call resets them, got several; pass "
                "one dict"
            )
        observations, _ = self.envs.reset(seed=list(self._seeds) if is_seeded else None, options=options or None)
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return deepcopy(observations)

    @override
    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    @override
    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict]]:
        observations, rewards, terminations, truncations, infos = self.envs.step(self._actions)
        rows: list[dict] = [{} for _ in range(self.num_envs)]
        ends, final = terminations | truncations, infos.get("final_info", {})
        for index in np.flatnonzero(ends).tolist():
            rows[index] = {
                **{name: final[name][index] for name in final if f"_{name}" in final and final[f"_{name}"][index]},
                "terminal_observation": infos["final_obs"][index],
                "TimeLimit.truncated": bool(truncations[index] and not terminations[index]),
            }
        return deepcopy(observations), np.array(rewards, np.float32), ends, rows

    @override
    def get_images(self) -> list[np.ndarray | None]:
        """The frames of all environments, for a video or a window of Stable-Baselines3."""
        return list(self.envs.render() or [None] * self.num_envs)

    @override
    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        return [getattr(self.envs, attr_name)] * len(list(self._get_indices(indices)))

    @override
    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        setattr(self.envs, attr_name, value)

    @override
    def env_method(
        self, method_name: str, *method_args: object, indices: Indices = None, **method_kwargs: object
    ) -> list:
        result = getattr(self.envs, method_name)(*method_args, **method_kwargs)
        return [result] * len(list(self._get_indices(indices)))

    @override
    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))

    @override
    def close(self) -> None:
        self.envs.close()
