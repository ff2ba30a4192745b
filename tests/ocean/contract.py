"""What the tests of all Ocean environments share: the cases, actions of every kind, and recorded rollouts."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from pufferlib import ocean
from pufferlib.ocean.environment import OceanEnv

# A folder may hold an environment in Python alone: what is said of C is said of those with a binding.
COMPILED = [name for name in ocean.names() if (ocean.config_path(name).parent / "binding.c").exists()]
OF_ONE_AGENT = [name for name in COMPILED if ocean.env_class(name).agents_per_env == 1]
COMMON = ("num_envs", "kwargs")  # constructor parameters that are no keyword arguments of the game


@dataclass(frozen=True)
class Case:
    """One environment with one set of keyword arguments."""

    name: str
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{key}={value}" for key, value in self.kwargs.items())])

    def make(self, num_envs: int = 16, **kwargs) -> OceanEnv:
        return ocean.env_class(self.name)(num_envs, **{**self.kwargs, **kwargs})


def keywords(name: str) -> dict[str, Any]:
    """The keyword arguments of an environment's game, with their defaults."""
    parameters = inspect.signature(ocean.env_class(name)).parameters
    return {key: parameter.default for key, parameter in parameters.items() if key not in COMMON}


def cases() -> list[Case]:
    """Every environment in C as it is, and once more for each of its switches turned over."""
    found = []
    for name in COMPILED:
        switches = [key for key, default in keywords(name).items() if isinstance(default, bool)]
        found += [Case(name), *(Case(name, {key: not keywords(name)[key]}) for key in switches)]
    return found


def random_actions(env: OceanEnv, steps: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Actions inside the space, uniform."""
    generator = np.random.default_rng(seed)
    space = env.single_action_space
    for _ in range(steps):
        if isinstance(space, gymnasium.spaces.Box):
            yield generator.uniform(space.low, space.high, env.actions.shape).astype(env.actions.dtype)
        else:
            count = space.n if isinstance(space, gymnasium.spaces.Discrete) else space.nvec
            yield generator.integers(0, count, env.actions.shape).astype(env.actions.dtype)


def outrageous_actions(env: OceanEnv, steps: int) -> Iterator[np.ndarray]:
    """Actions far outside the space, every kind at every row in turn."""
    if env.actions.dtype == np.float32:
        values = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1.5], np.float32)
    else:
        values = np.array([-(2**31), -1, 100, 2**31 - 1, 2**16, -(2**16)], np.int32)
    for step in range(steps):
        yield np.resize(np.roll(values, step), env.actions.shape)


def rollout(env: OceanEnv, actions: Iterator[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
    """Copies of observations, rewards, terminals and truncations after every step."""
    return [tuple(array.copy() for array in env.step(action)[:4]) for action in actions]


def assert_same_rollout(one: list[tuple[np.ndarray, ...]], other: list[tuple[np.ndarray, ...]]) -> None:
    """Compares two recorded rollouts bit for bit."""
    assert len(one) == len(other)
    for step, arrays in enumerate(zip(one, other, strict=True)):
        for array, expected in zip(*arrays, strict=True):
            np.testing.assert_array_equal(array, expected, err_msg=f"step {step}")


def assert_in_space(env: OceanEnv) -> None:
    """Checks what the environment's arrays hold against its spaces and the meaning of the flags."""
    space = env.single_observation_space
    assert env.observations.dtype == space.dtype
    assert np.all(np.isfinite(env.observations)) and np.all(np.isfinite(env.rewards))
    assert np.all(env.observations >= space.low) and np.all(env.observations <= space.high)
    assert np.all(env.terminals.view(np.uint8) <= 1) and np.all(env.truncations.view(np.uint8) <= 1)
    assert not np.any(env.terminals & env.truncations)


def checksum(arrays: Iterator[np.ndarray]) -> int:
    """A golden number for a sequence of integer arrays, the same on every little-endian machine."""
    total = 0
    for array in arrays:
        assert array.dtype.kind in "iub", f"expected integers, which round nowhere, got {array.dtype}"
        total = zlib.crc32(np.ascontiguousarray(array).view(np.uint8), total)
    return total
