"""Mazes against what is known of spanning trees, and walks through them against a search in Python."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
import pytest
from contract import checksum

from pufferlib.ocean.maze import binding
from pufferlib.ocean.maze.maze import Maze

STAY, DOWN, UP, LEFT, RIGHT = range(5)
MOVES = {DOWN: (1, 0), UP: (-1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
FLOOR, WALL, GOAL = range(3)
BORDER = 5


def cells_of(env, index=0):
    """The whole maze, outer walls included: the last of the struct, as the state of one environment has it."""
    side = 2 * env.arguments["rooms"] + 1
    stride = side + 2 * BORDER
    state = binding.env_get(binding.vec_env(env.handle, index))
    grid = np.frombuffer(state, np.uint8)[cells_offset() :][: stride * stride].reshape(stride, stride)
    return grid[BORDER:-BORDER, BORDER:-BORDER]


def cells_offset(found=[]):  # noqa: B006 - kept for all calls
    """Where the grid begins in what `env_get` returns: at the first row of walls of a maze of one known size."""
    if not found:
        env = Maze(1, rooms=2)
        env.reset(0)
        found.append(binding.env_get(binding.vec_env(env.handle, 0)).index(bytes([WALL] * 15 * BORDER)))
    return found[0]


def shortest_way(cells):
    """Actions from the entrance to the goal, by breadth-first search."""
    goal, came = tuple(np.argwhere(cells == GOAL)[0]), {(1, 1): (None, None)}
    waiting = deque(came)
    while waiting:
        place = waiting.popleft()
        for action, (down, right) in MOVES.items():
            reached = (place[0] + down, place[1] + right)
            if cells[reached] != WALL and reached not in came:
                came[reached] = (place, action)
                waiting.append(reached)
    assert goal in came, "the goal cannot be reached"
    actions, place = [], goal
    while place != (1, 1):
        place, action = came[place]
        actions.append(action)
    return actions[::-1], len(came)


def step(env, action):
    _, rewards, terminals, truncations, _ = env.step(np.full(env.num_agents, action, np.int32))
    return float(rewards[0]), bool(terminals[0]), bool(truncations[0])


@pytest.mark.parametrize("rooms", [2, 3, 7, 23])
def test_every_maze_is_perfect(rooms):
    """All rooms are reached, by one passage fewer than there are rooms: a tree."""
    env = Maze(50, rooms=rooms)
    env.reset(rooms)
    for index in range(50):
        cells = cells_of(env, index)
        assert cells[-2, -2] == GOAL and np.sum(cells == GOAL) == 1
        assert np.all(cells[[0, -1]] == WALL) and np.all(cells[:, [0, -1]] == WALL)
        assert np.all(cells[2:-1:2, 2:-1:2] == WALL)
        is_open = cells != WALL
        assert np.all(is_open[1::2, 1::2])
        assert np.sum(is_open[2:-1:2, 1::2]) + np.sum(is_open[1::2, 2:-1:2]) == rooms**2 - 1
        assert shortest_way(cells)[1] == np.sum(is_open)


@pytest.mark.parametrize(("rooms", "trees"), [(2, 4), (3, 192)])
def test_every_perfect_maze_is_equally_likely(rooms, trees):
    """A grid of 2 x 2 rooms has 4 spanning trees, one of 3 x 3 has 192 (OEIS A007341)."""
    per_tree = 150
    env = Maze(trees * per_tree, rooms=rooms)
    env.reset(1)
    found = Counter(cells_of(env, index).tobytes() for index in range(env.num_agents))
    assert len(found) == trees
    counts = np.array(list(found.values()))
    chi_squared = np.sum((counts - per_tree) ** 2 / per_tree)
    assert abs(chi_squared - (trees - 1)) < 5 * (2 * (trees - 1)) ** 0.5


@pytest.mark.parametrize("rooms", [2, 5, 23])
def test_the_shortest_way_pays_at_its_end_and_is_perfect_play(rooms):
    env = Maze(1, rooms=rooms)
    env.reset(rooms)
    for _ in range(3):
        way, _ = shortest_way(cells_of(env))
        for action in way[:-1]:
            assert step(env, action) == (0.0, False, False)
        assert step(env, way[-1]) == (1.0, True, False)
        expected = {"perf": 1.0, "score": 1.0, "episode_return": 1.0, "episode_length": float(len(way)), "n": 1.0}
        assert env.episode_statistics() == [expected]


def test_a_detour_costs_its_share_of_perf():
    env = Maze(1, rooms=6)
    env.reset(0)
    way, _ = shortest_way(cells_of(env))
    for action in [STAY, UP, LEFT, *[STAY] * (len(way) - 3), *way]:  # standing still and running into walls
        step(env, action)
    assert env.episode_statistics()[0]["perf"] == 0.5


@pytest.mark.parametrize("rooms", [2, 7])
def test_time_runs_out_after_two_steps_for_every_cell(rooms):
    env, steps = Maze(1, rooms=rooms), 2 * (2 * rooms + 1) ** 2
    env.reset(0)
    outcomes = [step(env, STAY) for _ in range(steps + 1)]
    assert outcomes == [(0.0, False, False)] * (steps - 1) + [(0.0, False, True), (0.0, False, False)]
    (statistics,) = env.episode_statistics()
    assert (statistics["perf"], statistics["score"], statistics["episode_length"]) == (0.0, 0.0, steps)


def test_walks_and_views_agree_with_a_second_implementation():
    env = Maze(1, rooms=8)
    env.reset(5)
    cells, place = cells_of(env).copy(), (1, 1)
    generator = np.random.default_rng(0)
    moved = 0
    for _ in range(3000):
        action = int(generator.integers(-1, 7))
        down, right = MOVES.get(action, (0, 0))
        ahead = (place[0] + down, place[1] + right)
        moved += cells[ahead] != WALL and ahead != place
        place = ahead if cells[ahead] != WALL else place
        reached = cells[place] == GOAL
        reward, terminal, truncation = step(env, action)
        assert (reward, terminal) == (float(reached), reached)
        if terminal or truncation:
            cells, place = cells_of(env).copy(), (1, 1)
        view = np.pad(cells, BORDER, constant_values=WALL)[place[0] : place[0] + 11, place[1] : place[1] + 11]
        np.testing.assert_array_equal(env.observations[0], view)
    assert moved > 500


def test_a_new_maze_is_dug_for_every_episode():
    env = Maze(1, rooms=4)
    env.reset(0)
    mazes = set()
    for _ in range(20):
        mazes.add(cells_of(env).tobytes())
        for action in shortest_way(cells_of(env))[0]:
            step(env, action)
    assert len(mazes) == 20


def test_rollout_is_the_golden_one():
    env = Maze(16)
    env.reset(42)
    rows = np.arange(16)
    observed = [env.step((rows * 7 + step * step // 3) % 5)[0].copy() for step in range(512)]
    assert checksum(observed) == 2707246373  # printed by the lines above; changes when rules or random streams do
