"""`puffer bench`: the steps per second of one environment in this process."""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferlib.config import check_env, env_settings, resolve_env_count
from pufferlib.environment import PufferEnv
from pufferlib.families import catalog
from pufferlib.metrics.output import printable
from pufferlib.play.plain_table import plain_table

LARGE_NUM_ENVS = 4096  # of the second row: the size at which environments are compared
REPEATS = 7
_ACTION_SETS = 16  # prepared rows of actions, used in turn
_WARM_UP_STEPS = 32


@dataclass(frozen=True)
class Measurement:
    """Steps of one agent per second, over REPEATS repeats."""

    num_agents: int
    median: float
    low: float
    high: float


def bench_command(env_name: str, args: dict[str, Any], seconds: float = 2.0) -> None:
    """Prints the speed of `env.step` at [env] num_envs and at 4096, with random actions.

    Args:
        env_name: such as `puffer_breakout`.
        args: the nested dict of `load_config`, of which `env` and `train.seed` are used.
        seconds: of timing for each row.
    """
    creator, arguments, seed = catalog.find(env_name).creator, check_env(env_name, args["env"]), args["train"]["seed"]
    rows = []
    for size in _sizes(env_name, arguments):
        env = creator(**{**arguments, **size}, seed=seed)
        result = measure(env, seed, seconds)
        env.close()
        rates = (f"{rate:,.0f}" for rate in (result.median, result.low, result.high))
        rows.append((str(size.get("num_envs", 1)), str(result.num_agents), *rates))
    print(printable(f"{env_name}: agent steps per second through env.step, one thread, random actions"))
    print(plain_table(("environments", "agents", f"median of {REPEATS}", "lowest", "highest"), rows))


def _sizes(env_name: str, arguments: dict[str, Any]) -> list[dict[str, int]]:
    setting = env_settings(env_name).get("num_envs")
    if setting is None:
        return [{}]
    agents = catalog.find(env_name).agents_per_env
    count = resolve_env_count(arguments.get("num_envs", setting.default), "cpu", 1, agents)
    return [{"num_envs": count} for count in sorted({count, LARGE_NUM_ENVS})]


def measure(env: PufferEnv, seed: int, seconds: float) -> Measurement:
    """Times `env.step` with prepared actions, after a reset; it stays in the middle of an episode.

    Args:
        env: the environment.
        seed: of the environment and of the actions.
        seconds: of all repeats together, at least one step each.
    """
    env.reset(seed)
    actions = itertools.cycle(random_actions(env, seed))
    steps = _steps_within(env, actions, seconds / REPEATS)
    rates = [steps * env.num_agents / _time_steps(env, actions, steps) for _ in range(REPEATS)]
    return Measurement(env.num_agents, statistics.median(rates), min(rates), max(rates))


def random_actions(env: PufferEnv, seed: int) -> list[np.ndarray]:
    """Uniform random actions of all agents, in the dtype of the environment's array."""
    env.action_space.seed(seed)
    return [env.action_space.sample().astype(env.actions.dtype) for _ in range(_ACTION_SETS)]


def _steps_within(env: PufferEnv, actions: itertools.cycle, seconds: float) -> int:
    _time_steps(env, actions, _WARM_UP_STEPS)  # warms the caches
    per_step = _time_steps(env, actions, _WARM_UP_STEPS) / _WARM_UP_STEPS
    return max(1, int(seconds / per_step))


def _time_steps(env: PufferEnv, actions: itertools.cycle, steps: int) -> float:
    begin = time.perf_counter()
    for _ in range(steps):
        env.step(next(actions))
    return time.perf_counter() - begin
