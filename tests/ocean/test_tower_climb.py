"""The rules of tower climb, against a second implementation in Python, and the towers, by solving them."""

from __future__ import annotations

import ctypes
from collections import Counter, deque

import numpy as np
import pytest
from game import SNAPSHOT_HEADER_BYTES
from hypothesis import given, settings, strategies as st
from positions import position, put, struct_layout

from pufferlib.ocean.tower_climb.tower_climb import CLIMB, EAST, GRAB, NORTH, SOUTH, STAY, WEST, TowerClimb

MOVES = {NORTH: (1, 0), EAST: (0, 1), SOUTH: (-1, 0), WEST: (0, -1)}
AIR, FIXED, LOOSE, VOID = range(4)
STANDS, HOLDS, HANGS = range(3)
ROWS, WIDTH = 31, 7
OTHERS = (NORTH, EAST, SOUTH, WEST, CLIMB)
STRUCT = struct_layout(
    ("rng", np.uint64),
    ("terraces", np.int32),
    *((name, np.uint8, (ROWS, WIDTH)) for name in ("fixed", "loose")),
    ("terrace_of", np.uint8, ROWS),
    *((name, np.int32) for name in ("rows", "row", "column", "facing", "posture", "highest", "steps")),
    ("episode_return", np.float32),
    ("log", np.float32, 5),
)


class State(ctypes.Structure):
    """The members of the struct, up to those that matter here."""

    _fields_ = (
        ("arrays", ctypes.c_void_p * 6),
        ("rng", ctypes.c_uint64),
        ("terraces", ctypes.c_int),
        ("fixed", ctypes.c_uint8 * WIDTH * ROWS),
        ("loose", ctypes.c_uint8 * WIDTH * ROWS),
        ("terrace_of", ctypes.c_uint8 * ROWS),
        *((name, ctypes.c_int) for name in ("rows", "row", "column", "facing", "posture", "highest", "steps")),
    )


def moved(cell, direction, count=1):
    down, right = MOVES[direction]
    return cell[0] + count * down, cell[1] + count * right


def opposite(direction):
    return {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST}[direction]


class Tower:
    """A tower in play, its blocks in dictionaries by (row, column); beside it the ground is infinitely far down."""

    def __init__(self, env):
        self._env = env
        self._content = bytearray(env.binding.env_get(env.binding.vec_env(env.handle, 0)))
        state = State.from_buffer_copy(self._content[SNAPSHOT_HEADER_BYTES:])
        cells = [(row, column) for row in range(state.rows) for column in range(WIDTH)]
        self.fixed = {cell: state.fixed[cell[0]][cell[1]] for cell in cells}
        self.loose = {cell: state.loose[cell[0]][cell[1]] for cell in cells}
        self.terrace_of = list(state.terrace_of[: state.rows])
        self.terraces, self.highest = state.terraces, state.highest
        self.agent, self.facing, self.posture = (state.row, state.column), NORTH + state.facing, state.posture

    @classmethod
    def drawn(cls, *lines):
        """A tower of one terrace, from the north to the south: heights, `a` to `i` with a loose block on 0 to 8; the
        agent stands in the first column of the southern row and looks north."""
        tower = cls.__new__(cls)
        numbers = [[ord(cell) - ord("a") if cell.isalpha() else int(cell) for cell in line] for line in lines[::-1]]
        tower.fixed = {(row, column): number for row, line in enumerate(numbers) for column, number in enumerate(line)}
        tower.loose = {cell: int(lines[::-1][cell[0]][cell[1]].isalpha()) for cell in tower.fixed}
        tower.terrace_of, tower.terraces, tower.highest = [0] * len(lines), 1, 0
        tower.agent, tower.facing, tower.posture = (0, 0), NORTH, STANDS
        return tower

    def height(self, cell):
        return self.fixed[cell] + self.loose[cell] if cell in self.fixed else -99

    def feet(self):
        return self.height(moved(self.agent, self.facing)) - 1 if self.posture == HANGS else self.height(self.agent)

    def faces_block(self):
        front = moved(self.agent, self.facing)
        return bool(self.loose.get(front)) and self.height(front) == self.height(self.agent) + 1

    def shift_block(self, source, target):
        self.loose[source] -= 1
        if target in self.fixed:
            self.loose[target] += 1

    def step(self, action):
        """Whether the agent lives."""
        if self.posture == HANGS:
            return self.step_hanging(action)
        is_along = action in (self.facing, opposite(self.facing))
        holds = self.posture == HOLDS and is_along
        if action == GRAB:
            self.posture = HOLDS if self.posture == STANDS and self.faces_block() else STANDS
        elif action == CLIMB:
            self.posture = STANDS
            front = moved(self.agent, self.facing)
            if self.height(front) == self.height(self.agent) + 1:
                self.agent = front
        elif holds and action != self.facing:
            self.pull()
        elif action in MOVES:
            self.walk(action)
        if holds and self.posture == STANDS and self.faces_block():
            self.posture = HOLDS
        return True

    def walk(self, direction):
        self.facing, self.posture = direction, STANDS
        front, behind, level = moved(self.agent, direction), moved(self.agent, direction, 2), self.height(self.agent)
        if self.faces_block() and self.height(behind) <= level:
            self.shift_block(front, behind)
        if self.height(front) > level or (front not in self.fixed and level == 0):
            return
        if level - self.height(front) > 1:
            self.facing, self.posture = opposite(direction), HANGS
        self.agent = front

    def pull(self):
        here, level = self.agent, self.height(self.agent)
        back = moved(here, opposite(self.facing))
        if self.height(back) <= level:
            self.shift_block(moved(here, self.facing), here)
            self.agent, self.posture = back, HANGS if level - self.height(back) > 1 else STANDS

    def step_hanging(self, action):
        front, top = moved(self.agent, self.facing), self.feet() + 1
        if action in (CLIMB, self.facing):
            self.agent, self.posture = front, STANDS
        elif action == opposite(self.facing):
            if self.agent not in self.fixed:
                return False
            drop = top - 1 - self.height(self.agent)
            self.posture = STANDS
            return drop < 3
        elif action in MOVES:
            beside, wall = moved(self.agent, action), moved(front, action)
            if self.height(beside) == top:
                self.facing = action
            elif self.height(beside) < top and self.height(wall) <= top:
                self.agent = beside
                if self.height(wall) < top:
                    self.agent, self.facing = wall, opposite(action)
                if self.height(self.agent) == top - 1:
                    self.posture = STANDS
        return True

    def reward(self, lives):
        if not lives or self.posture == HANGS:
            return 0.0
        terrace = self.terrace_of[self.agent[0]]
        gained, self.highest = max(terrace - self.highest, 0), max(terrace, self.highest)
        return float(gained > 0)

    def window(self):
        lowest = self.feet() - 4
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

    def way_up(self, actions=(*OTHERS, GRAB), may_hang=True):
        """The fewest of these actions to the next terrace, by breadth-first search over the agent and all blocks."""
        terrace = self.terrace_of[self.agent[0]]
        begin = (self.agent, self.facing, self.posture, tuple(sorted(self.loose.items())))
        came, waiting = {begin: None}, deque([begin])
        while waiting:
            state = waiting.popleft()
            for action in actions:
                self.agent, self.facing, self.posture, self.loose = *state[:3], dict(state[3])
                is_lost = not self.step(action) or (self.posture == HANGS and not may_hang)
                row = self.agent[0]
                if is_lost or row < 0 or row >= len(self.terrace_of) or self.terrace_of[row] < terrace:
                    continue
                following = (self.agent, self.facing, self.posture, tuple(sorted(self.loose.items())))
                if following in came:
                    continue
                came[following] = (state, action)
                if self.terrace_of[row] > terrace and self.posture != HANGS:
                    way = []
                    while came[following]:
                        following, action = came[following]
                        way.append(action)
                    return way[::-1]
                waiting.append(following)
        return None


def kind_of(tower, terrace):
    """The kind of a terrace, as its rows and the next ones look."""
    rows = [row for row, of in enumerate(tower.terrace_of) if of == terrace]
    rise = tower.fixed[rows[-1] + 1, 0] - tower.fixed[rows[0], 0]
    if rise != 2:
        return {0: "gap", -3: "drop"}[rise]
    return "push" if tower.way_up(OTHERS) else "pull"


def step(env, action):
    _, rewards, terminals, truncations, _ = env.step(np.array([action], np.int32))
    return float(rewards[0]), bool(terminals[0]), bool(truncations[0])


def check(tower, actions, place, facing, posture, feet):
    """Where the agent is after some actions, and how."""
    for action in actions:
        assert tower.step(action)
    assert (tower.agent, tower.facing, tower.posture, tower.feet()) == (place, facing, posture, feet)


def test_a_held_block_is_pushed_and_pulled():
    check(Tower.drawn("444", "4e4", "444", "444"), [EAST, NORTH, GRAB, SOUTH, GRAB], (0, 1), NORTH, STANDS, 4)
    tower = Tower.drawn("444", "4e4", "444", "444")
    check(tower, [EAST, NORTH, GRAB, SOUTH], (0, 1), NORTH, HOLDS, 4)
    assert tower.loose[1, 1] == 1 and tower.loose[2, 1] == 0
    check(tower, [NORTH, NORTH], (2, 1), NORTH, HOLDS, 4)
    assert tower.loose[3, 1] == 1
    check(tower, [WEST], (2, 0), WEST, STANDS, 4)  # lets go


def test_who_pulls_a_block_over_the_edge_hangs_from_it_and_climbs_it():
    tower = Tower.drawn("444", "e44", "444")
    check(tower, [GRAB, SOUTH], (-1, 0), NORTH, HANGS, 4)
    assert tower.loose[0, 0] == 1 and tower.height((0, 0)) == 5
    check(tower, [CLIMB], (0, 0), NORTH, STANDS, 5)


def test_who_hangs_moves_along_around_corners_and_climbs():
    tower = Tower.drawn("444", "404", "444")
    check(tower, [NORTH, EAST], (1, 1), WEST, HANGS, 3)  # over the edge into the hole
    check(tower, [NORTH], (1, 1), NORTH, HANGS, 3)  # into the corner
    check(tower, [EAST], (1, 1), EAST, HANGS, 3)
    check(tower, [EAST], (1, 2), EAST, STANDS, 4)  # up
    tower = Tower.drawn("444", "444", "444")
    check(tower, [WEST, SOUTH], (-1, 0), NORTH, HANGS, 3)  # around the corner of the tower
    check(tower, [EAST], (-1, 1), NORTH, HANGS, 3)
    assert not tower.step(SOUTH)


def test_who_hangs_finds_no_way_past_a_higher_wall_and_stands_where_there_is_ground():
    check(Tower.drawn("664", "444"), [WEST, NORTH], (0, -1), EAST, HANGS, 3)
    check(Tower.drawn("443", "440"), [EAST, EAST, NORTH], (1, 2), WEST, STANDS, 3)


@pytest.mark.parametrize(("depth", "lives"), [(5, True), (4, False), (0, False)])
def test_a_fall_of_three_blocks_is_deadly(depth, lives):
    tower = Tower.drawn(f"8{depth}8", "888")
    assert tower.step(EAST) and tower.step(NORTH) and tower.posture == HANGS
    assert tower.step(NORTH) == lives


@settings(deadline=None, max_examples=60)
@given(
    terraces=st.integers(1, 6),
    seed=st.integers(0, 2**64 - 1),
    actions=st.lists(
        st.sampled_from([NORTH, NORTH, EAST, WEST, SOUTH, CLIMB, CLIMB, GRAB, GRAB, STAY, -1, 7]), max_size=120
    ),
)
def test_every_step_agrees_with_the_reference(terraces, seed, actions):
    env = TowerClimb(1, terraces=terraces)
    env.reset(seed)
    assert_agrees(env, actions, terraces)


def assert_agrees(env, actions, terraces):
    tower = Tower(env)
    for number, action in enumerate(actions, 1):
        assert env.observations[0, :225].tolist() == tower.window()
        left = min(terraces - tower.highest, 3)
        assert env.observations[0, 225:228:2].tolist() == [
            tower.facing - NORTH,
            min(4 * (number - 1) // (100 * terraces), 3),
        ]
        assert env.observations[0, 226:229:2].tolist() == [left, tower.posture]
        reward, terminal, truncation = step(env, action)
        lives = tower.step(action)
        assert reward == tower.reward(lives)
        assert terminal == (not lives or tower.highest == terraces)
        assert truncation == (not terminal and number == 100 * terraces)
        if terminal or truncation:
            return tower
    return tower


def test_all_moves_agree_with_the_reference():
    """Actions that lead on: to blocks, over edges, along them. Every posture is met in every direction."""
    seen, generator = Counter(), np.random.default_rng(0)
    for seed in range(80):
        env = TowerClimb(1)
        env.reset(seed)
        tower = Tower(env)
        for _ in range(100):
            action = int(generator.choice([NORTH, EAST, SOUTH, WEST, CLIMB, GRAB]))
            if tower.posture != HOLDS and tower.faces_block() and generator.random() < 0.8:
                action = GRAB
            if tower.posture == HANGS and action == opposite(tower.facing) and generator.random() < 0.9:
                action = CLIMB
            before = tower.posture, dict(tower.loose)
            reward, terminal, _ = step(env, action)
            lives = tower.step(action)
            assert (reward, terminal) == (tower.reward(lives), not lives or tower.highest == 4)
            if terminal:
                break
            assert env.observations[0, :225].tolist() == tower.window()
            assert env.observations[0, 228] == tower.posture
            seen[before[0], tower.posture, tower.loose != before[1]] += 1
    expected = {(HOLDS, HOLDS, True), (HOLDS, HANGS, True), (HANGS, HANGS, False), (HANGS, STANDS, False)}
    assert expected | {(STANDS, HANGS, False), (STANDS, STANDS, True)} <= seen.keys()


def test_every_tower_can_be_climbed():
    kinds = Counter()
    for seed in range(16):
        env = TowerClimb(1)
        env.reset(seed)
        length = 0
        for terrace in range(1, 5):
            actions = Tower(env).way_up()
            assert actions is not None, f"terrace {terrace} of {seed} cannot be left"
            kinds[kind_of(Tower(env), terrace - 1)] += 1
            outcomes = [step(env, action) for action in actions]
            assert outcomes == [(0.0, False, False)] * (len(actions) - 1) + [(1.0, terrace == 4, False)]
            length += len(actions)
        (statistics,) = env.episode_statistics()
        assert statistics["perf"] == pytest.approx(1.0) and statistics["score"] == 4.0
        assert statistics["episode_length"] == length
    assert min(kinds[kind] for kind in ("push", "pull", "gap", "drop")) >= 6


def test_each_terrace_needs_its_move():
    """Without the move of its kind none can be left: pulling, hanging, pushing."""
    for seed in range(10):
        env = TowerClimb(1, terraces=3)
        env.reset(seed)
        for terrace in range(3):
            kind, way = kind_of(Tower(env), terrace), Tower(env).way_up()
            if kind == "pull":
                assert GRAB in way  # as none of the others is enough
            elif kind == "push":
                assert Tower(env).way_up((CLIMB, GRAB)) is None
            else:
                assert Tower(env).way_up(may_hang=False) is None
            for action in way:
                step(env, action)


def test_leaving_the_tower_is_hanging_and_letting_go_is_deadly():
    for action, steps in ((SOUTH, 2), (WEST, 8), (EAST, 8)):
        env = TowerClimb(1, terraces=1)
        env.reset(0)
        outcomes = [step(env, action) for _ in range(steps)]
        assert (0.0, True, False) in outcomes
        assert all(outcome in ((0.0, False, False), (0.0, True, False)) for outcome in outcomes)
    env.reset(0)
    step(env, SOUTH)
    assert env.observations[0, 228] == HANGS
    assert [step(env, STAY) for _ in range(3)] == [(0.0, False, False)] * 3
    step(env, CLIMB)
    assert env.observations[0, 228] == STANDS


def test_from_the_bottom_of_a_trench_no_way_leads_off_the_tower():
    env = TowerClimb(1, terraces=1)
    env.reset(0)
    fixed = position(env, STRUCT)["fixed"].copy()
    fixed[1:3] = 0
    put(env, STRUCT, fixed=fixed, row=1, column=0)
    step(env, WEST)
    assert env.observations[0, 228] == STANDS and position(env, STRUCT)["column"] == 0
    env.restore(env.snapshot())


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
