"""Steps per second of every environment: `python -m pytest -n0 bench/env.py --benchmark-enable`.

4,096 environments, or as many as have 4,096 agents together, with random actions prepared outside the clock.
`one_thread` is the path of a user's own loop, `env.step`; `native` is the Native backend with two such sets, so that
two threads are busy.
"""

from __future__ import annotations

import numpy as np
import pytest

from pufferlib import ocean, vector
from pufferlib.ocean.environment import OceanEnv

COMPILED = [name for name in ocean.names() if issubclass(ocean.env_class(name), OceanEnv)]
NUM_AGENTS = 4096  # about; whole environments
STEPS = 64  # in one round
NUM_ACTION_SETS = 16


def make(name, **kwargs):
    env_class = ocean.env_class(name)
    return env_class(num_envs=max(1, NUM_AGENTS // env_class.agents_per_env), **kwargs)


def random_actions(space, shape, dtype):
    """A few arrays of actions, used in turn."""
    space.seed(0)
    rows = np.array([space.sample() for _ in range(NUM_ACTION_SETS * 1024)], dtype)
    generator = np.random.default_rng(0)
    return [rows[generator.integers(len(rows), size=shape[0])].reshape(shape) for _ in range(NUM_ACTION_SETS)]


@pytest.mark.parametrize("name", COMPILED)
def test_one_thread(benchmark, name):
    env = make(name, report_interval=10**9)
    env.reset(seed=0)
    actions = random_actions(env.single_action_space, env.actions.shape, env.actions.dtype)

    def run():
        for i in range(STEPS):
            env.step(actions[i % NUM_ACTION_SETS])

    benchmark.extra_info["steps"] = STEPS * env.num_agents
    benchmark.pedantic(run, rounds=15, warmup_rounds=3)
    env.close()


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("threads", [1, 2])
def test_native(benchmark, name, threads):
    envs = vector.make(make, env_args=(name,), backend="Native", num_envs=2, num_workers=threads, batch_size=1)
    envs.async_reset(seed=0)
    driver = envs.driver_env
    shape = (envs.agents_per_batch, *driver.actions.shape[1:])
    actions = random_actions(envs.single_action_space, shape, driver.actions.dtype)

    def run():
        for i in range(2 * STEPS):
            envs.recv()
            envs.send(actions[i % NUM_ACTION_SETS])

    benchmark.extra_info["steps"] = 2 * STEPS * envs.agents_per_batch
    benchmark.pedantic(run, rounds=15, warmup_rounds=3)
    envs.close()
