"""What emulation adds to a step: `python -m pytest -n0 bench/emulation.py --benchmark-enable`.

For each environment the microseconds of a step as it is and emulated, and of their difference, in processor time. The
two take turns within one run, a few hundred steps each, and the difference is the median over the turns, as the
machine's speed changes from turn to turn. Episodes end and begin again on both sides.
"""

from __future__ import annotations

import statistics
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from pufferlib.emulation import GymnasiumPufferEnv

STEPS, TURNS = 500, 60


class ThreeLevels(gymnasium.Env):
    """Gives the same observation of six parts again and again, in no time."""

    def __init__(self):
        body = Dict({"speed": Box(-1, 1, (3,), np.float32), "gear": Discrete(4)})
        car = Dict({"body": body, "camera": Box(0, 255, (8, 8), np.uint8)})
        self.observation_space = Dict({"car": car, "goal": Box(-1, 1, (5,), np.float64), "lamps": MultiBinary(3)})
        self.action_space = Discrete(2)
        self.observation = self.observation_space.sample()
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        return self.observation, {}

    def step(self, action):
        self.steps += 1
        return self.observation, 0.0, self.steps % 25 == 0, False, {}


def cart_pole():
    return gymnasium.make("CartPole-v1")


def step_raw(env, actions):
    begin = time.thread_time()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return time.thread_time() - begin


def step_emulated(env, actions):
    begin = time.thread_time()
    for action in actions:
        env.step(action)
    return time.thread_time() - begin


@pytest.mark.parametrize("creator", [cart_pole, ThreeLevels])
def test_emulation(benchmark, creator):
    raw, emulated = creator(), GymnasiumPufferEnv(env_creator=creator)
    raw.reset(seed=1), emulated.reset(seed=1)
    choices = np.random.default_rng(2).integers(0, 2, (STEPS, 1), dtype=np.int32)
    plain, rows = [int(choice[0]) for choice in choices], list(choices)
    step_raw(raw, plain), step_emulated(emulated, rows)
    alone, together, differences = [], [], []
    for _ in range(TURNS):
        before = step_raw(raw, plain)
        together.append(step_emulated(emulated, rows))
        alone.append((before + step_raw(raw, plain)) / 2)
        differences.append(together[-1] - alone[-1])
    microseconds = 1e6 / STEPS
    benchmark.extra_info["steps"] = STEPS
    benchmark.extra_info["values"] = {
        "us a raw step": statistics.median(alone) * microseconds,
        "us an emulated step": statistics.median(together) * microseconds,
        "us added by emulation": statistics.median(differences) * microseconds,
    }
    benchmark.pedantic(step_emulated, (emulated, rows), rounds=20, warmup_rounds=2)
