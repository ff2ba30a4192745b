"""Our environments in other libraries: `python -m pytest -n0 bench/interop.py --benchmark-enable`.

Cartpole beside Gymnasium's own, in its vector environment that computes with NumPy and in one of single environments:
steps alone, and rollouts by Stable-Baselines3's PPO, which is a forward pass and its bookkeeping besides.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import pufferlib

STEPS = 32  # in one round
MAKERS = {
    "ours": lambda num_envs: pufferlib.make_gymnasium_vec("puffer_cartpole", num_envs),
    "ours, next step": lambda num_envs: pufferlib.make_gymnasium_vec(
        "puffer_cartpole", num_envs, autoreset_mode=AutoresetMode.NEXT_STEP
    ),
    "Gymnasium's, NumPy": lambda num_envs: gymnasium.make_vec("CartPole-v1", num_envs),
    "Gymnasium's, single": lambda num_envs: gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="sync"),
}


@pytest.mark.parametrize(
    ("kind", "num_envs"),
    [(kind, num_envs) for kind in MAKERS for num_envs in (64, 4096) if num_envs == 64 or "single" not in kind],
)
def test_steps(benchmark, kind, num_envs):
    envs = MAKERS[kind](num_envs)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 2, (STEPS, num_envs))

    def run():
        for row in actions:
            envs.step(row)

    benchmark.extra_info["steps"] = STEPS * num_envs
    benchmark.pedantic(run, rounds=15, warmup_rounds=2)
    envs.close()


@pytest.mark.parametrize("kind", ["ours", "Gymnasium's, single"])
def test_rollouts_of_stable_baselines3(benchmark, kind, num_envs=64):
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    from pufferlib.interop.stable_baselines3 import as_vec_env

    envs = as_vec_env(MAKERS[kind](num_envs)) if kind == "ours" else make_vec_env("CartPole-v1", num_envs)
    model = PPO("MlpPolicy", envs, n_steps=STEPS, seed=0, device="cpu")
    _, callback = model._setup_learn(10**9)

    def run():
        model.collect_rollouts(envs, callback, model.rollout_buffer, STEPS)

    benchmark.extra_info["steps"] = STEPS * num_envs
    benchmark.pedantic(run, rounds=15, warmup_rounds=2)
    envs.close()
