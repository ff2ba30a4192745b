"""Tron against a second implementation of its rules, and crashes with known results."""

from __future__ import annotations

import numpy as np
import pytest
from contract import checksum

from pufferlib.errors import APIUsageError
from pufferlib.ocean.tron.tron import DOWN, LEFT, RIGHT, UP, Tron

STEPS = {UP: (0, -1), RIGHT: (1, 0), DOWN: (0, 1), LEFT: (-1, 0)}
WINDOW, HALF = 225, 7
RIDERS, WALLS, OWNERS = 88, 176, 672  # bytes of the struct before them: Tron in tron.h


def heading_of(row):
    return int(np.argmax(row[WINDOW : WINDOW + 4]))


def window_of(row):
    return row[:WINDOW].reshape(15, 15)


def places_in(env):
    """Columns and rows of the first environment's riders, from its struct."""
    rider = np.dtype([("column", "i1"), ("row", "i1"), ("heading", "i1"), ("is_riding", "u1")])
    riders = env.structs()[0, RIDERS : RIDERS + rider.itemsize * env.num_agents].view(rider)
    return {i: (int(one["column"]), int(one["row"])) for i, one in enumerate(riders)}


class Arena:
    """The rules once more, in a set of walls."""

    def __init__(self, env, num_riders):
        self.env, self.num_riders = env, num_riders
        self.walls, self.places, self.riding = {}, {}, [True] * num_riders

    def step(self, headings):
        entered = {}
        for i in range(self.num_riders):
            if self.riding[i]:
                x, y = self.places[i]
                dx, dy = STEPS[headings[i]]
                entered[i] = (x + dx, y + dy)
        crashed = {
            i
            for i, place in entered.items()
            if place in self.walls or any(place == other for j, other in entered.items() if j != i)
        }
        for i, place in entered.items():
            self.places[i] = place
            self.walls.setdefault(place, i)
        before = self.num_riders - sum(self.riding)
        for i in crashed:
            self.riding[i] = False
        left = sum(self.riding)
        rewards = [0.0] * self.num_riders
        for i in crashed:
            rewards[i] = (before - left) / (self.num_riders - 1)
        if left == 1:
            rewards[self.riding.index(True)] = 1.0
        return rewards, left < 2


def act(env, actions):
    env.step(np.asarray(actions, np.int32))
    return env.rewards.copy(), env.terminals.copy()


def turned(heading, action):
    return heading if action not in STEPS or action == heading ^ 2 else action


@pytest.mark.parametrize("num_riders", [2, 3, 5, 8])
def test_games_follow_the_rules(num_riders):
    """Each step is foretold from where the riders begin and what they do."""
    size = 16
    env = Tron(1, num_riders, "self", size=size)
    generator, num_games = np.random.default_rng(num_riders), 0
    env.reset(0)
    while num_games < 30:
        arena = Arena(env, num_riders)
        for x in range(-1, size + 1):
            for wall in ((x, -1), (x, size), (-1, x), (size, x)):
                arena.walls[wall] = None
        headings = [heading_of(row) for row in env.observations]
        arena.places = places_in(env)
        arena.walls.update({place: i for i, place in arena.places.items()})
        assert len(set(arena.places.values())) == num_riders
        is_over = False
        while not is_over:
            masks = env.masks.copy()
            assert masks.tolist() == arena.riding
            before = env.observations.copy()
            actions = [
                int(generator.integers(-1, 6)) if generator.random() < 0.3 else headings[i] for i in range(num_riders)
            ]
            headings = [turned(headings[i], actions[i]) for i in range(num_riders)]
            expected, is_over = arena.step(headings)
            rewards, terminals = act(env, actions)
            np.testing.assert_allclose(rewards, expected, atol=1e-6)
            assert terminals.tolist() == [is_over] * num_riders
            for i in range(num_riders):
                if not is_over and arena.riding[i]:
                    check_row(env.observations[i], arena, i, headings[i], size)
                elif not is_over:
                    np.testing.assert_array_equal(env.observations[i], before[i])
        num_games += 1


def check_row(row, arena, index, heading, size):
    x, y = arena.places[index]
    window = window_of(row)
    others = {arena.places[i] for i in range(arena.num_riders) if i != index and arena.riding[i]}
    for down in range(15):
        for across in range(15):
            cell = (x + across - HALF, y + down - HALF)
            is_wall = cell in arena.walls or not (0 <= cell[0] < size and 0 <= cell[1] < size)
            assert window[down, across] == (2 if cell in others else int(is_wall)), (cell, index)
    assert heading_of(row) == heading and row[WINDOW : WINDOW + 4].sum() == 1
    for slot in range(7):
        alive, right, below = row[WINDOW + 4 + 3 * slot :][:3]
        other = (index + 1 + slot) % arena.num_riders
        if slot >= arena.num_riders - 1 or not arena.riding[other]:
            assert (alive, right, below) == (0, 0, 0)
        else:
            away = [int((a - b) / 4) for a, b in zip(arena.places[other], (x, y), strict=True)]
            assert [alive, right, below] == [1, *away]


def test_two_who_meet_in_a_cell_draw():
    """Both straight on without end, in arenas where riders happen to face each other: some meet, and share nothing."""
    env = Tron(400, 2, "self", size=16)
    env.reset(0)
    draws = wins = 0
    for _ in range(40):
        env.step(np.full(env.num_agents, -1, np.int32))
        ended = env.terminals[::2]
        rewards = env.rewards.reshape(-1, 2)[ended]
        assert (rewards.sum(axis=1) == 0).all()
        draws += int((rewards[:, 0] == 0).sum())
        wins += int((rewards[:, 0] != 0).sum())
    assert draws > 10 and wins > 100


def test_rewards_of_a_game_add_up_to_nothing():
    env, generator = Tron(50, 8, "self", size=24, report_interval=10**9), np.random.default_rng(0)
    env.reset(0)
    returns = np.zeros((50, 8))
    for _ in range(150):
        env.step(np.where(generator.random(env.num_agents) < 0.2, generator.integers(0, 4, env.num_agents), -1))
        returns += env.rewards.reshape(50, 8)
        for i in np.flatnonzero(env.terminals[::8]):
            assert returns[i].sum() == pytest.approx(0, abs=1e-5) and returns[i].min() >= -1 and returns[i].max() <= 1
            returns[i] = 0
    (statistics,) = env.episode_statistics()
    assert statistics["perf"] == pytest.approx(0.5, abs=1e-5) and statistics["n"] % 8 == 0


def test_who_is_out_is_absent_until_the_next_game():
    env, generator = Tron(20, 4, "self", size=16), np.random.default_rng(0)
    env.reset(0)
    seen = set()
    for _ in range(100):
        before = env.masks.copy()
        env.step(generator.integers(0, 4, env.num_agents))
        is_over = np.repeat(env.terminals[::4], 4)
        assert env.masks[is_over].all()
        assert not (env.masks & ~before)[~is_over].any()
        assert (env.rewards[~before] == 0).all()
        seen |= {*env.masks.reshape(-1, 4).sum(axis=1).tolist()}
    assert seen == {2, 3, 4}


def test_the_bots_outlive_who_goes_straight_on_and_are_agents_of_nothing():
    env = Tron(200, 4, size=24, report_interval=10**9)
    env.reset(0)
    assert env.num_agents == 200
    for _ in range(200):
        env.step(np.full(200, -1, np.int32))
        assert env.masks.all()
    (statistics,) = env.episode_statistics()
    assert statistics["score"] < -0.8 and statistics["episode_length"] < 24


def cell_of(structs, place):
    """The walls of its row, the planes of owners there, and its bit, in the first environment: views of its struct."""
    column, row = place
    walls = structs[0, WALLS:OWNERS].view(np.uint64)
    owners = structs[0, OWNERS:].view(np.uint64).reshape(3, 48)
    return walls[row + HALF :][:1], owners[:, row], np.uint64(1 << column + HALF)


def open_the_border(structs, place):
    walls, _, _ = cell_of(structs, place)
    walls &= ~np.uint64(1)


def take_the_wall_away(structs, place):
    walls, _, bit = cell_of(structs, place)
    walls &= ~bit


def give_the_wall_to_another(structs, place):
    _, owners, bit = cell_of(structs, place)
    owners[0] ^= bit


def leave_a_wall_of_no_rider(structs, place):
    column, row = place
    walls, owners, bit = cell_of(structs, (15 - column, row))
    walls |= bit
    owners |= bit


FORGERIES = [open_the_border, take_the_wall_away, give_the_wall_to_another, leave_a_wall_of_no_rider]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_an_arena_that_no_game_reaches_is_refused(forge):
    env = Tron(1, 5, "self", size=16)
    env.reset(0)
    structs = env.structs().copy()
    env.put_structs(structs, 0)
    forge(structs, places_in(env)[0])
    with pytest.raises(APIUsageError, match="holds numbers that no game reaches"):
        env.put_structs(structs, 0)


@pytest.mark.parametrize("kwargs", [{"num_riders": 1}, {"num_riders": 9}, {"size": 49}, {"opponent": "pool"}])
def test_arguments_out_of_range_are_refused(kwargs):
    (key,) = kwargs
    with pytest.raises(APIUsageError, match=f"{key} must be"):
        Tron(1, **{"opponent": "self", **kwargs})


def test_rollout_is_the_golden_one():
    env = Tron(16, 4, "self")
    env.reset(42)
    rows = np.arange(64)
    assert (
        checksum([env.step((rows * 3 + i * i) % 7)[0].copy() for i in range(128)]) == 1917165253
    )  # changes when rules or random streams do
