"""What the backends cost: `python -m pytest -n0 bench/vector.py --benchmark-enable`.

One round is a step of every agent. `direct` calls the module's own vec_step, without a vector; `empty` has so few
environments that the time is the overhead of send and recv.
"""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest

from pufferlib import vector
from pufferlib.environment import PufferEnv
from pufferlib.ocean.squared.squared import Squared

NUM_AGENTS = 4096


class IdleEnv(PufferEnv):
    """Does nothing, so that all the time is the backend's."""

    def __init__(self, buf=None, seed=0):
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (4,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.num_agents = 16
        super().__init__(buf)

    def reset(self, seed=None):
        return self.observations, []

    def step(self, actions):
        return self.observations, self.rewards, self.terminals, self.truncations, []


def make(creator, agents_per_env=None, **options):
    kwargs = {} if agents_per_env is None else {"num_envs": agents_per_env}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # more workers than cores
        return vector.make(creator, env_kwargs=kwargs, **options)


def time_steps(benchmark, vecenv):
    """Times a send and a recv of every batch."""
    batches = vecenv.num_envs // vecenv.batch_size
    random = np.random.default_rng(0)
    space = vecenv.single_action_space
    actions = [random.integers(0, space.n, vecenv.agents_per_batch, dtype=np.int32) for _ in range(64)]
    vecenv.async_reset()
    for _ in range(batches - 1):
        vecenv.recv()
        vecenv.send(actions[0])
    step = 0

    def run():
        nonlocal step
        for _ in range(batches):
            vecenv.recv()
            vecenv.send(actions[step % 64])
            step += 1

    benchmark.extra_info["agents"] = vecenv.num_agents
    benchmark.pedantic(run, rounds=200, iterations=5, warmup_rounds=20)
    vecenv.close()


def test_direct(benchmark):
    env = Squared(NUM_AGENTS)
    env.reset()
    random = np.random.default_rng(0)
    actions = [random.integers(0, 5, NUM_AGENTS, dtype=np.int32) for _ in range(64)]
    step = 0

    def run():
        nonlocal step
        env.actions[:] = actions[step % 64]
        env.binding.vec_step(env.handle)
        step += 1

    benchmark.extra_info["agents"] = NUM_AGENTS
    benchmark.pedantic(run, rounds=200, iterations=5, warmup_rounds=20)


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("threads", [1, 2])
def test_native(benchmark, threads, num_envs):
    vecenv = make(Squared, NUM_AGENTS // num_envs, backend="Native", num_envs=num_envs, num_workers=threads)
    time_steps(benchmark, vecenv)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_native_empty(benchmark, threads):
    time_steps(benchmark, make(Squared, 1, backend="Native", num_workers=threads))


def test_serial(benchmark):
    time_steps(benchmark, make(Squared, NUM_AGENTS, backend="Serial"))


@pytest.mark.parametrize("workers", [1, 2])
def test_processes(benchmark, workers):
    vecenv = make(Squared, NUM_AGENTS // 2, backend="Multiprocessing", num_envs=2, num_workers=workers)
    time_steps(benchmark, vecenv)


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("zero_copy", [True, False])
def test_processes_empty(benchmark, zero_copy, batch_size):
    options = {"num_envs": 2, "num_workers": 2, "batch_size": batch_size, "zero_copy": zero_copy}
    time_steps(benchmark, make(IdleEnv, backend="Multiprocessing", **options))
