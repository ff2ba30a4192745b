"""What a policy that is known is worth in an environment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pufferlib.ocean.environment import OceanEnv


def play(env: OceanEnv, policy: Callable[[np.ndarray], np.ndarray], steps: int, seed: int = 1) -> dict[str, float]:
    """The statistics of so many steps of a policy, a function from observations to actions."""
    env.report_interval = 10**9
    env.reset(seed)
    for _ in range(steps):
        env.step(np.asarray(policy(env.observations)).reshape(env.actions.shape))
    (statistics,) = env.episode_statistics()
    return statistics
