"""The rules of tower climb, against a second implementation in Python, and the towers, by solving them."""

from __future__ import annotations

import ctypes
from collections import deque

import numpy as np
import pytest
from game import SNAPSHOT_HEADER_BYTES
from hypothesis import given, settings, strategies as st

from pufferlib.ocean.tower_climb.tower_climb import CLIMB, EAST, NORTH, SOUTH, STAY, WEST, TowerClimb

MOVES = {NORTH: (1, 0), EAST: (0, 1), SOUTH: (-1, 0), WEST: (0, -1)}
AIR, FIXED, LOOSE, VOID = range(4)
ROWS, WIDTH = 31, 7


class State(ctypes.Structure):
    """The members of the struct, up to those that matter here."""

    _fields_ = (
        ("arrays", ctypes.c_void_p * 6),
        ("rng", ctypes.c_uint64),
        ("terraces", ctypes.c_int),
        ("fixed", ctypes.c_uint8 * WIDTH * ROWS),
        ("loose", ctypes.c_uint8 * WIDTH * ROWS),
        ("terrace_of", ctypes.c_uint8 * ROWS),
        *((name, ctypes.c_int) for name in ("rows", "row", "column", "facing", "highest", "steps")),
    )


class Tower:
    """A tower in play, its blocks in dictionaries by (row, column)."""

    def __init__(self, env):
        state = State.from_buffer_copy(env.binding.env_get(env.binding.vec_env(env.handle, 0))[SNAPSHOT_HEADER_BYTES:])
        cells = [(row, column) for row in range(state.rows) for column in range(WIDTH)]
        self.fixed = {cell: state.fixed[cell[0]][cell[1]] for cell in cells}
        self.loose = {cell: state.loose[cell[0]][cell[1]] for cell in cells}
        self.terrace_of = list(state.terrace_of[: state.rows])
        self.terraces, self.highest = state.terraces, state.highest
        self.agent, self.facing = (state.row, state.column), NORTH + state.facing

    def height(self, cell):
        return self.fixed[cell] + self.loose[cell]

    def step(self, action):
        """Whether the agent lives."""
        if action in MOVES:
            self.facing = action
        elif action != CLIMB:
            return True
        down, right = MOVES[self.facing]
        front = (self.agent[0] + down, self.agent[1] + right)
        behind = (front[0] + down, front[1] + right)
        if front not in self.fixed:
            return action == CLIMB
        level = self.height(self.agent)
        if action == CLIMB:
            if self.height(front) == level + 1:
                self.agent = front
            return True
        is_free = behind not in self.fixed or self.height(behind) <= level
        if self.height(front) == level + 1 and self.loose[front] and is_free:
            self.loose[front] -= 1
            if behind in self.fixed:
                self.loose[behind] += 1
        if self.height(front) > level:
            return True
        self.agent = front
        return level - self.height(front) < 3

    def reward(self, lives):
        if not lives:
            return 0.0
        terrace = self.terrace_of[self.agent[0]]
        gained, self.highest = max(terrace - self.highest, 0), max(terrace, self.highest)
        return float(gained)

    def window(self):
        lowest = self.height(self.agent) - 4
        seen = []
        for row in range(self.agent[0] - 2, self.agent[0] + 3):
            for column in range(self.agent[1] - 2, self.agent[1] + 3):
                for level in range(lowest, lowest + 9):
                    if (row, column) not in self.fixed:
                        seen.append(VOID)
                    elif level < self.fixed[row, column]:
                        seen.append(FIXED)
                    else:
                        seen.append(LOOSE if level < self.height((row, column)) else AIR)
        return seen

    def way_up(self):
        """The fewest actions to the next terrace, by breadth-first search over the agent and all blocks."""
        terrace = self.terrace_of[self.agent[0]]
        begin = (self.agent, self.facing, tuple(sorted(self.loose.items())))
        came, waiting = {begin: None}, deque([begin])
        while waiting:
            state = waiting.popleft()
            for action in (NORTH, EAST, SOUTH, WEST, CLIMB):
                self.agent, self.facing, self.loose = state[0], state[1], dict(state[2])
                if not self.step(action) or self.terrace_of[self.agent[0]] < terrace:
                    continue
                following = (self.agent, self.facing, tuple(sorted(self.loose.items())))
                if following in came:
                    continue
                came[following] = (state, action)
                if self.terrace_of[self.agent[0]] > terrace:
                    actions = []
                    while came[following]:
                        following, action = came[following]
                        actions.append(action)
                    return actions[::-1]
                waiting.append(following)
        return None


def step(env, action):
    _, rewards, terminals, truncations, _ = env.step(np.array([action], np.int32))
    return float(rewards[0]), bool(terminals[0]), bool(truncations[0])


@settings(deadline=None, max_examples=40)
@given(
    terraces=st.integers(1, 6),
    seed=st.integers(0, 2**64 - 1),
    actions=st.lists(st.sampled_from([NORTH, NORTH, EAST, WEST, SOUTH, CLIMB, CLIMB, STAY, -1, 6]), max_size=120),
)
def test_every_step_agrees_with_the_reference(terraces, seed, actions):
    env = TowerClimb(1, terraces=terraces)
    env.reset(seed)
    tower = Tower(env)
    for number, action in enumerate(actions, 1):
        assert env.observations[0, :225].tolist() == tower.window()
        assert env.observations[0, 225] == tower.facing - NORTH
        assert env.observations[0, 226] == min(terraces - tower.terrace_of[tower.agent[0]], 3)
        reward, terminal, truncation = step(env, action)
        lives = tower.step(action)
        assert reward == tower.reward(lives)
        assert terminal == (not lives or tower.highest == terraces)
        assert truncation == (not terminal and number == 100 * terraces)
        if terminal or truncation:
            return


@pytest.mark.parametrize("seed", range(30))
def test_every_tower_can_be_climbed(seed):
    env = TowerClimb(1)
    env.reset(seed)
    length = 0
    for terrace in range(1, 5):
        actions = Tower(env).way_up()
        assert actions is not None, f"terrace {terrace} cannot be left"
        outcomes = [step(env, action) for action in actions]
        assert outcomes == [(0.0, False, False)] * (len(actions) - 1) + [(1.0, terrace == 4, False)]
        length += len(actions)
    (statistics,) = env.episode_statistics()
    assert statistics["perf"] == pytest.approx(1.0) and statistics["score"] == 4.0
    assert statistics["episode_length"] == length


def test_no_terrace_can_be_left_without_pushing():
    """Nothing is two blocks above the floor but the next terrace, and no step stands before that."""
    env = TowerClimb(1, terraces=6)
    for seed in range(300):
        env.reset(seed)
        tower = Tower(env)
        for row in range(1, len(tower.terrace_of)):
            if tower.terrace_of[row] > tower.terrace_of[row - 1]:
                floor = 2 * tower.terrace_of[row - 1] + 1
                assert all(tower.height((row - 1, column)) == floor for column in range(WIDTH))
                assert all(tower.fixed[row, column] == floor + 2 for column in range(WIDTH))


def test_leaving_the_tower_is_deadly_and_climbing_into_the_air_is_nothing():
    for action, steps in ((SOUTH, 1), (WEST, 7), (EAST, 7)):
        env = TowerClimb(1)
        env.reset(0)
        outcomes = [step(env, action) for _ in range(steps)]
        assert (0.0, True, False) in outcomes
        assert all(outcome in ((0.0, False, False), (0.0, True, False)) for outcome in outcomes)
    env.reset(0)
    step(env, NORTH)
    assert [step(env, CLIMB) for _ in range(3)] == [(0.0, False, False)] * 3


@pytest.mark.parametrize("terraces", [1, 3, 6])
def test_time_runs_out_after_a_hundred_steps_for_each_terrace(terraces):
    env = TowerClimb(1, terraces=terraces)
    env.reset(0)
    outcomes = [step(env, STAY) for _ in range(100 * terraces + 1)]
    assert outcomes == [(0.0, False, False)] * (100 * terraces - 1) + [(0.0, False, True), (0.0, False, False)]


@pytest.mark.parametrize("terraces", [0, 7, 10**9])
def test_an_impossible_number_of_terraces_is_refused(terraces):
    with pytest.raises(ValueError, match="tower_climb: terraces must be an integer from 1 to 6, got"):
        TowerClimb(1, terraces=terraces)
