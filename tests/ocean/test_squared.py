"""The rules of squared, against known answers and against a second implementation in Python."""

from __future__ import annotations

import numpy as np
import pytest
from contract import checksum
from hypothesis import given, settings, strategies as st

from pufferlib.ocean.squared.squared import Squared

STAY, DOWN, UP, LEFT, RIGHT = range(5)
MOVES = {DOWN: (1, 0), UP: (-1, 0), LEFT: (0, -1), RIGHT: (0, 1)}


def cell_of(observation, value):
    (cells,) = np.nonzero(observation == value)
    assert len(cells) == 1
    return divmod(int(cells[0]), int(len(observation) ** 0.5))


def step(env, action):
    _, rewards, terminals, truncations, _ = env.step(np.full(env.num_agents, action, np.int32))
    return float(rewards[0]), bool(terminals[0]), bool(truncations[0])


@pytest.mark.parametrize("seed", range(10))
def test_walking_to_the_target_pays_on_the_last_step_only(seed):
    env = Squared(1)
    env.reset(seed)
    assert cell_of(env.observations[0], 1) == (5, 5)
    row, column = cell_of(env.observations[0], 2)
    path = [DOWN if row > 5 else UP] * abs(row - 5) + [RIGHT if column > 5 else LEFT] * abs(column - 5)
    for action in path[:-1]:
        assert step(env, action) == (0.0, False, False)
    assert step(env, path[-1]) == (1.0, True, False)
    assert cell_of(env.observations[0], 1) == (5, 5)  # already the next episode
    assert step(env, STAY) == (0.0, False, False)
    assert env.episode_statistics() == [
        {"perf": 1.0, "score": 1.0, "episode_return": 1.0, "episode_length": len(path), "n": 1.0}
    ]


@pytest.mark.parametrize("action", [DOWN, UP, LEFT, RIGHT])
def test_leaving_the_grid_loses_on_the_sixth_step(action):
    ends = []
    for seed in range(40):
        env = Squared(1)
        env.reset(seed)
        outcomes = [step(env, action) for _ in range(6)]
        if (1.0, True, False) not in outcomes:  # the target was not on the way
            ends.append(outcomes)
    assert len(ends) > 20
    assert all(outcomes == [(0.0, False, False)] * 5 + [(-1.0, True, False)] for outcomes in ends)


@pytest.mark.parametrize("size", [2, 3, 11, 128])
def test_time_runs_out_after_three_times_the_size(size):
    env = Squared(1, size=size)
    env.reset(0)
    outcomes = [step(env, STAY) for _ in range(3 * size + 1)]
    assert outcomes == [(0.0, False, False)] * (3 * size - 1) + [(-1.0, True, False), (0.0, False, False)]


class Reference:
    """Squared for one grid; the target of a new episode is read off the observation."""

    def __init__(self, size, observation):
        self.size = size
        self.begin(observation)

    def begin(self, observation):
        self.agent = (self.size // 2, self.size // 2)
        self.target = cell_of(observation, 2)
        self.steps = 0

    def step(self, action):
        self.steps += 1
        down, right = MOVES.get(action, (0, 0))
        self.agent = (self.agent[0] + down, self.agent[1] + right)
        if self.agent == self.target:
            return 1.0
        is_inside = all(0 <= coordinate < self.size for coordinate in self.agent)
        return 0.0 if is_inside and self.steps < 3 * self.size else -1.0


@settings(deadline=None, max_examples=25)
@given(size=st.integers(2, 12), seed=st.integers(0, 2**64 - 1), actions=st.lists(st.integers(-1, 6), max_size=60))
def test_every_step_agrees_with_the_reference(size, seed, actions):
    env = Squared(1, size=size)
    env.reset(seed)
    reference = Reference(size, env.observations[0])
    for action in actions:
        reward, terminal, truncation = step(env, action)
        assert (reward, truncation) == (reference.step(action), False)
        assert terminal == (reward != 0.0)
        if terminal:
            reference.begin(env.observations[0])
        assert cell_of(env.observations[0], 1) == reference.agent
        assert cell_of(env.observations[0], 2) == reference.target


def test_targets_are_uniform_over_the_other_cells():
    env = Squared(8000, size=3)
    env.reset(0)
    counts = np.sum(env.observations == 2, axis=0)
    assert counts[4] == 0
    assert np.all(np.abs(np.delete(counts, 4) - 1000) < 5 * 1000**0.5)


def test_rollout_is_the_golden_one():
    env = Squared(16)
    env.reset(42)
    rows = np.arange(16)
    observed = [env.step((rows * 7 + step * step) % 5)[0].copy() for step in range(256)]
    assert checksum(observed) == 1703065935  # printed by the lines above; changes when rules or random streams do


@pytest.mark.parametrize("size", [1, 129, 10**9, 5.0, "11", None, True])
def test_an_impossible_size_is_refused_before_memory_is_asked_for(size):
    with pytest.raises((TypeError, ValueError), match="squared: size must be an integer from 2 to 128, got"):
        Squared(1, size=size)
