"""The backend that suits an environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from pufferlib import spaces
from pufferlib.environment import PufferEnv
from pufferlib.vector.gymnasium_vector import GymnasiumVector
from pufferlib.vector.local import LocalVector
from pufferlib.vector.native import Native
from pufferlib.vector.recipe import EnvRecipe
from pufferlib.vector.serial import Serial

QUICK_SECONDS = 50e-6
"""A shorter step gains nothing by worker processes, which take a second to start: 500,000 steps take 25 seconds."""

_TIMED_STEPS = 32


def fitting_backend(env: object) -> type[LocalVector]:
    """The backend that steps an environment best in this process; Serial steps every one."""
    return next((backend for backend in (Native, GymnasiumVector) if backend.can_step(env)), Serial)


def is_quick(creator: Callable, env_kwargs: Mapping[str, Any], seed: int) -> bool:
    """Whether stepping an environment is quicker than handing the step to another process.

    It makes the environment, steps it a few times, and closes it.
    """
    env = EnvRecipe.build(creator, None, dict(env_kwargs), 1, seed).make(0, None)
    try:
        return fitting_backend(env) is Serial and _step_seconds(env, seed) < QUICK_SECONDS
    finally:
        env.close()


def _step_seconds(env: PufferEnv, seed: int) -> float:
    env.reset(seed)
    actions, taken = _some_actions(env), []
    for _ in range(_TIMED_STEPS):
        begin = time.perf_counter()
        env.step(actions)
        taken.append(time.perf_counter() - begin)
        if taken[0] > _TIMED_STEPS * QUICK_SECONDS:
            break
    return float(np.median(taken))


def _some_actions(env: PufferEnv) -> np.ndarray:
    space = env.single_action_space
    actions = np.zeros((env.num_agents, *spaces.action_shape(space)), spaces.action_dtype(space))
    return actions.clip(space.low, space.high).astype(actions.dtype) if isinstance(space, Box) else actions
