"""What the tests of all Ocean environments share: the cases, actions of every kind, an observer, recorded rollouts."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import pytest
from checked_headers import quick_params

from pufferlib import ocean
from pufferlib.ocean.environment import OceanEnv

# A folder may hold an environment in Python alone: what is said of C is said of those with a binding.
COMPILED = [name for name in ocean.names() if (ocean.config_path(name).parent / "binding.c").exists()]
# The binding is one file that every environment compiles: its handling of arrays, handles and seeds is tested for
# these, which differ in the types and sizes of arrays, in the number of agents, and in having shared state.
OF_EACH_KIND = ["puffer_squared", "puffer_target", "puffer_pacman", "puffer_drone"]
OF_EACH_KIND = OF_EACH_KIND if {*OF_EACH_KIND} <= {*COMPILED} else COMPILED  # in a copy that has a few environments
OF_ONE_AGENT = [name for name in COMPILED if ocean.env_class(name).agents_per_env == 1]
COMMON = ("num_envs", "kwargs")  # constructor parameters that are no keyword arguments of the game
FEW_AGENTS = 16  # that a case has where nobody says how many environments
NEVER = 10**9  # steps between two reports: the log is read by the test
RANGE = re.compile(r"must be (an integer|a number) from (\S+) to (\S+), got")  # in the C side's refusals
WORDS = re.compile(r"must be ('\w+'(?: or '\w+')+), got")
MOST_CORNERS = 64
WRITTEN = ("observations", "rewards", "terminals", "truncations")  # by a step, in the order of `rollout`


@dataclass(frozen=True)
class Case:
    """One environment with one set of keyword arguments."""

    name: str
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{key}={value}" for key, value in self.kwargs.items())])

    def make(self, num_envs: int | None = None, **kwargs) -> OceanEnv:
        """So many environments; without a number at least three, with few agents."""
        env_class = ocean.env_class(self.name)
        count = max(3, FEW_AGENTS // env_class.agents_per_env) if num_envs is None else num_envs
        return env_class(count, **{**self.kwargs, **kwargs})


def keywords(name: str) -> dict[str, Any]:
    """The keyword arguments of an environment's game, with their defaults."""
    parameters = inspect.signature(ocean.env_class(name)).parameters
    return {key: parameter.default for key, parameter in parameters.items() if key not in COMMON}


@functools.cache
def keyword_words(name: str, key: str) -> tuple[Any, ...]:
    """The values of a keyword argument that is a switch or one of a few words; none of another one."""
    default = keywords(name)[key]
    if isinstance(default, bool):
        return (False, True)
    if not isinstance(default, str):
        return ()
    with pytest.raises(ValueError, match=f"{key} must be '.* got") as raised:
        Case(name, {key: "text"}).make(1)
    return tuple(re.findall(r"'(\w+)'", WORDS.search(str(raised.value))[1]))


@functools.cache
def keyword_range(name: str, key: str) -> tuple[float, float] | None:
    """The lowest and the highest value of a keyword argument as the C side tells them; None for a switch or a word."""
    if keyword_words(name, key):
        return None
    with pytest.raises((TypeError, ValueError), match=f"{key} must be") as raised:
        Case(name, {key: "text"}).make(1)
    found = RANGE.search(str(raised.value))
    assert found is not None, f"expected {key} to be read by kwarg_int or kwarg_float, found {raised.value}"
    low, high = map(int if found[1] == "an integer" else float, found.groups()[1:])
    return low, high


def another_value(name: str, key: str) -> Any:
    """A value of a keyword argument that is not its default."""
    default, values = keywords(name)[key], keyword_words(name, key) or keyword_range(name, key)
    return next(value for value in values if value != default)


def cases() -> list[Case]:
    """Every environment in C as it is, and once more for each of its switches turned over and its other words."""
    found = []
    for name in COMPILED:
        values = [(key, value) for key in keywords(name) for value in keyword_words(name, key)]
        others = [Case(name, {key: value}) for key, value in values if value != keywords(name)[key]]
        found += [Case(name), *others]
    return found


def extreme_cases() -> list[Case]:
    """Every environment in C with each of its numbers at its lowest and its highest."""
    ranges = [(name, key, keyword_range(name, key)) for name in COMPILED for key in keywords(name)]
    return [Case(name, {key: value}) for name, key, values in ranges for value in dict.fromkeys(values or ())]


each_case = pytest.mark.parametrize("case", quick_params(cases()))
each_name = pytest.mark.parametrize("name", quick_params(COMPILED))


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


def random_actions_until(env: OceanEnv, is_enough: Callable[[], bool], seed: int = 0) -> Iterator[np.ndarray]:
    """Actions inside the space, a thousand steps at a time, until enough has been seen."""
    for block in range(40):
        yield from random_actions(env, 1000, seed + block)
        if is_enough():
            return
    raise AssertionError("40,000 steps at random do not end episodes; let a limit cut them")


def corner_actions(space: gymnasium.Space) -> list:
    """Actions to be held: the corners of a space, or all it has, evenly thinned out where that is many."""
    if isinstance(space, gymnasium.spaces.Discrete):
        corners = list(range(space.n))
    elif isinstance(space, gymnasium.spaces.MultiDiscrete):
        corners = list(itertools.product(*(sorted({0, int(count) - 1}) for count in space.nvec)))
    else:
        corners = [*itertools.product(*zip(space.low, space.high, strict=True)), (space.low + space.high) / 2]
    return corners[:: -(-len(corners) // MOST_CORNERS)]


def outrageous_actions(env: OceanEnv, steps: int) -> Iterator[np.ndarray]:
    """Actions far outside the space, every kind at every row in turn."""
    if env.actions.dtype == np.float32:
        values = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1.5], np.float32)
    else:
        values = np.array([-(2**31), -1, 100, 2**31 - 1, 2**16, -(2**16)], np.int32)
    for step in range(steps):
        yield np.resize(np.roll(values, step), env.actions.shape)


class Observer:
    """Plays an environment, holds its rows to its spaces, and counts the episodes that it sees.

    An agent's episode is what lies between two of its flags; the log must tell of each one, once, and of no other.
    """

    def __init__(self, env: OceanEnv):
        self.env = env
        self.running_returns, self.running_lengths = np.zeros(env.num_agents), np.zeros(env.num_agents)
        self.ends = np.zeros(env.num_agents, int)  # these three since the log was last read
        self.sum_of_returns = self.sum_of_lengths = 0.0

    def play(self, actions: Iterable[np.ndarray]) -> Observer:
        env = self.env
        for action in actions:
            written = env.step(action)[:4]
            assert [*map(id, written)] == [*map(id, (env.observations, env.rewards, env.terminals, env.truncations))]
            assert_in_space(env)
            self._count(env.rewards, env.terminals | env.truncations)
        return self

    def _count(self, rewards: np.ndarray, ended: np.ndarray) -> None:
        self.running_returns += rewards
        self.running_lengths += 1
        if ended.any():
            self.ends += ended
            self.sum_of_returns += self.running_returns[ended].sum()
            self.sum_of_lengths += self.running_lengths[ended].sum()
            self.running_returns[ended] = self.running_lengths[ended] = 0

    def has_seen_two_ends_of_one(self) -> bool:
        """Whether a log that forgets what it held would be noticed."""
        return self.ends.reshape(self.env.num_envs, -1).sum(axis=1).max() >= 2

    def check_log(self) -> None:
        """Compares the log with what was seen, and begins anew."""
        log, count = self.env.binding.vec_log(self.env.handle), self.ends.sum()
        assert log["n"] == count, f"the log must count one episode for each flag: {count} were set, n is {log['n']}"
        lengths, returns = self.sum_of_lengths, self.sum_of_returns
        seen = f"over {count} episodes expected {lengths:g}, found {log['episode_length']:g}"
        assert log["episode_length"] == pytest.approx(lengths, rel=1e-4), (
            f"episode_length must add up their steps: {seen}"
        )
        seen = f"over {count} episodes expected {returns:g}, found {log['episode_return']:g}"
        rewards = pytest.approx(returns, rel=1e-4, abs=1e-4 * max(1, count))
        assert log["episode_return"] == rewards, f"episode_return must add up their rewards: {seen}"
        is_share = -1e-4 * count <= log["perf"] <= 1.0001 * count
        assert is_share, f"perf must be 0 to 1 in every episode, found a sum of {log['perf']:g} over {count}"
        assert np.isfinite(log["score"])
        self.ends[:] = 0
        self.sum_of_returns = self.sum_of_lengths = 0.0


def rollout(env: OceanEnv, actions: Iterable[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
    """Copies of observations, rewards, terminals and truncations after every step."""
    return [tuple(array.copy() for array in env.step(action)[:4]) for action in actions]


def assert_same(found: np.ndarray, expected: np.ndarray, rule: str) -> None:
    """Compares two arrays bit for bit.

    Args:
        found: what the environment wrote or drew.
        expected: what it was to be.
        rule: that is broken where they differ; the sentence that the author of an environment reads.
    """
    if np.array_equal(found, expected):
        return
    if found.shape != expected.shape:
        raise AssertionError(f"{rule}; expected the shape {expected.shape}, found {found.shape}")
    differs = np.argwhere(found != expected)
    place = tuple(map(int, differs[0]))
    raise AssertionError(
        f"{rule}; {len(differs):,} of {found.size:,} numbers differ, the first at {place}: "
        f"expected {expected[place]}, found {found[place]}"
    )


def assert_same_rollout(one: list[tuple[np.ndarray, ...]], other: list[tuple[np.ndarray, ...]]) -> None:
    """Compares two recorded rollouts bit for bit."""
    assert len(one) == len(other)
    for step, arrays in enumerate(zip(one, other, strict=True)):
        for name, array, expected in zip(WRITTEN, *arrays, strict=True):
            what = f"the {name} of step {step} must be the same in both rollouts"
            assert_same(array, expected, f"{what}; is all chance from env->rng, and all of the state in the struct?")


def assert_in_space(env: OceanEnv) -> None:
    """Checks what the environment's arrays hold against its spaces and the meaning of the flags."""
    space = env.single_observation_space
    assert env.observations.dtype == space.dtype
    assert np.all(np.isfinite(env.observations)), "an observation is infinite or NaN"
    assert np.all(np.isfinite(env.rewards)), "a reward is infinite or NaN"
    outside = np.argwhere((env.observations < space.low) | (env.observations > space.high))
    if len(outside):
        agent, *element = map(int, outside[0])
        low, high = space.low[tuple(element)], space.high[tuple(element)]
        found = env.observations[agent][tuple(element)]
        raise AssertionError(
            f"element {element} of agent {agent}'s observation must lie in the space of the class, "
            f"from {low} to {high}, found {found}"
        )
    for name in ("terminals", "truncations"):
        flags = getattr(env, name).view(np.uint8)
        assert np.all(flags <= 1), f"flags must be 0 or 1, found {flags.max()} in {name}"
    assert not np.any(env.terminals & env.truncations), "an episode must not be terminated and truncated in one step"


def checksum(arrays: Iterator[np.ndarray]) -> int:
    """A golden number for a sequence of integer arrays, the same on every little-endian machine."""
    total = 0
    for array in arrays:
        assert array.dtype.kind in "iub", f"expected integers, which round nowhere, got {array.dtype}"
        total = zlib.crc32(np.ascontiguousarray(array).view(np.uint8), total)
    return total
