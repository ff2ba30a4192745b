"""`puffer bench`: how many steps per second one environment makes in this process."""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferlib import ocean
from pufferlib.environment import PufferEnv
from pufferlib.listing import plain_table

MANY = 4096  # environments in the second row: the size at which environments are compared
REPEATS = 7
_ACTION_SETS = 16  # prepared rows of actions, used in turn
_WARM_UP_STEPS = 32


@dataclass(frozen=True)
class Measurement:
    """Steps of one agent per second, over REPEATS repeats."""

    num_envs: int
    num_agents: int
    median: float
    low: float
    high: float


def bench_command(env_name: str, args: dict[str, Any], seconds: float = 2.0) -> None:
    """Prints the speed of `env.step` at [env] num_envs and at 4096, with random actions.

    Args:
        env_name: such as `puffer_breakout`.
        args: the nested dict of `load_config`; `env` counts, and `train.seed`.
        seconds: how long to time each row.
    """
    env_class, arguments, seed = ocean.env_class(env_name), args["env"], args["train"]["seed"]
    sizes = sorted({arguments.get("num_envs", MANY), MANY})
    rows = []
    for num_envs in sizes:
        env = env_class(**{**arguments, "num_envs": num_envs}, seed=seed)
        result = measure(env, num_envs, seed, seconds)
        env.close()
        rates = (f"{rate:,.0f}" for rate in (result.median, result.low, result.high))
        rows.append((str(result.num_envs), str(result.num_agents), *rates))
    print(f"{env_name}: agent steps per second through env.step, one thread, random actions")
    print(plain_table(("environments", "agents", f"median of {REPEATS}", "lowest", "highest"), rows))


def measure(env: PufferEnv, num_envs: int, seed: int, seconds: float) -> Measurement:
    """Times `env.step` with actions that were drawn beforehand.

    Args:
        env: the environment; it is reset first and left in the middle of an episode.
        num_envs: environments it holds, for the report.
        seed: of the environment and of the actions.
        seconds: of all repeats together, at least one step each.
    """
    env.reset(seed)
    actions = itertools.cycle(random_actions(env, seed))
    steps = _steps_within(env, actions, seconds / REPEATS)
    rates = [steps * env.num_agents / _time_steps(env, actions, steps) for _ in range(REPEATS)]
    return Measurement(num_envs, env.num_agents, statistics.median(rates), min(rates), max(rates))


def random_actions(env: PufferEnv, seed: int) -> list[np.ndarray]:
    """Uniform random actions of all agents, as the environment's own array holds them."""
    env.action_space.seed(seed)
    return [env.action_space.sample().astype(env.actions.dtype) for _ in range(_ACTION_SETS)]


def _steps_within(env: PufferEnv, actions: itertools.cycle, seconds: float) -> int:
    """How many steps take about that long; the steps that find it out warm the caches up."""
    _time_steps(env, actions, _WARM_UP_STEPS)
    per_step = _time_steps(env, actions, _WARM_UP_STEPS) / _WARM_UP_STEPS
    return max(1, int(seconds / per_step))


def _time_steps(env: PufferEnv, actions: itertools.cycle, steps: int) -> float:
    begin = time.perf_counter()
    for _ in range(steps):
        env.step(next(actions))
    return time.perf_counter() - begin
