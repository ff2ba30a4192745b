"""Environments in Python, by backend: `python -m pytest -n0 bench/python_envs.py --benchmark-enable`.

One round is `STEPS` steps of every environment with random actions. `busy` is an environment of 100 or 500 microseconds
a step; beside it stands how many times as fast as Serial the workers are, in rounds that take turns so that a busy
machine slows both: the median over the rounds, and the fastest tenth of each side, which others disturbed least. Where
another program holds one of two cores all the time, neither says what two free cores would give. `atari` steps Pong
with the usual preprocessing: in this process, in workers, and in ale-py's own vector environment.
"""

from __future__ import annotations

import statistics
import time

import gymnasium
import numpy as np
import pytest

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.families import catalog

STEPS = 16
WORKERS = 2


class Busy(gymnasium.Env):
    """Waits for a while in every step and does nothing else; an episode is 200 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, microseconds):
        self.seconds = microseconds * 1e-6

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(8, np.float32), {}

    def step(self, action):
        end = time.perf_counter() + self.seconds
        self.steps += 1
        while time.perf_counter() < end:
            pass
        return np.zeros(8, np.float32), 0.0, False, self.steps == 200, {}


def busy(buf, seed, microseconds):
    return GymnasiumPufferEnv(Busy(microseconds), buf=buf, seed=seed)


def stepper(vecenv):
    """A function that makes `STEPS` steps of all agents."""
    random = np.random.default_rng(0)
    actions = random.integers(0, vecenv.single_action_space.n, (STEPS, vecenv.num_agents), dtype=np.int32)
    vecenv.reset()

    def run():
        for row in actions:
            vecenv.step(row)

    return run


@pytest.mark.parametrize(("num_envs", "microseconds"), [(8, 100), (64, 100), (8, 500)])
@pytest.mark.parametrize("backend", ["Multiprocessing"])
def test_busy(benchmark, backend, num_envs, microseconds):
    kwargs = {"num_envs": num_envs, "env_kwargs": {"microseconds": microseconds}}
    with (
        vector.make(busy, backend="Serial", **kwargs) as serial,
        vector.make(busy, backend=backend, num_workers=WORKERS, **kwargs) as workers,
    ):
        run_serial, run_workers = stepper(serial), stepper(workers)
        seconds = []

        def serial_before():
            begin = time.perf_counter()
            run_serial()
            seconds.append(time.perf_counter() - begin)

        benchmark.extra_info["steps"] = STEPS * num_envs
        benchmark.pedantic(run_workers, setup=serial_before, rounds=60, warmup_rounds=2)
        serial_seconds, workers_seconds = seconds[2:], benchmark.stats.stats.data
        benchmark.extra_info["values"] = {
            "of Serial's rate": statistics.median(np.divide(serial_seconds, workers_seconds).tolist()),
            "of Serial's rate, fastest tenths": np.quantile(serial_seconds, 0.1) / np.quantile(workers_seconds, 0.1),
        }


@pytest.mark.parametrize("num_envs", [8, 16, 64])
@pytest.mark.parametrize("backend", ["Serial", "Multiprocessing", "ale-py"])
def test_atari(benchmark, backend, num_envs):
    name = "ALE/Pong-v5"
    entry = catalog.find(name)
    if backend == "ale-py":
        vecenv = entry.make_vector({}, num_envs=num_envs)
    else:
        vecenv = vector.make(
            entry.creator,
            num_envs=num_envs,
            backend=backend,
            num_workers=WORKERS if backend == "Multiprocessing" else "auto",
        )
    with vecenv:
        run = stepper(vecenv)
        benchmark.extra_info["steps"] = STEPS * num_envs
        benchmark.pedantic(run, rounds=5, warmup_rounds=1)
