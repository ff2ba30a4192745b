"""The robotic warehouse against a second implementation in Python, and against what its rules promise."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from contract import checksum

from pufferlib.ocean.rware import binding
from pufferlib.ocean.rware.rware import Rware

STAY, FORWARD, TURN_LEFT, TURN_RIGHT, TOGGLE = range(5)
NOTHING, SHELF, REQUESTED = range(3)
AHEAD = [(0, 1), (1, 0), (0, -1), (-1, 0)]  # rows and columns, by heading: right, down, left, up
WIDTH, HEIGHT, ROBOTS, MAX_STEPS = 20, 10, 8, 500
STATIONS = [(4, 19), (5, 19)]
PLACES = [
    (row, column)
    for row in (1, 2, 4, 5, 7, 8)
    for column in (*range(1, 9), *range(10, 18))
    if not (row in (4, 5) and column > 8)
]
COUNTS = ["num_deliveries", "num_loaded", "num_returned", "least_steps"]
FIELDS = ["cell", "heading", "carried", "request", "place", *COUNTS, "loaded_at"]


class Moment:
    """What one environment holds, read from its struct."""

    def __init__(self, env, index=0):
        state = binding.env_get(binding.vec_env(env.handle, index))
        cells = (WIDTH + 2) * (HEIGHT + 2)
        robots_at = state.index(bytes([2]) * (WIDTH + 3))  # the walls above the warehouse
        robots = np.frombuffer(state, [(name, "i4") for name in FIELDS], ROBOTS, robots_at - ROBOTS * 40)
        self.robots = [{name: int(robot[name]) for name in FIELDS} for robot in robots]
        self.requests = np.frombuffer(state, np.int32, ROBOTS, robots_at - ROBOTS * 40 - 20 - 32).tolist()
        inside = np.frombuffer(state, np.uint8, cells, robots_at + cells).reshape(HEIGHT + 2, -1)[1:-1, 1:-1]
        self.shelves = {place: int(inside[place]) for place in PLACES}
        assert sum(self.shelves.values()) == inside.sum()  # nothing stands elsewhere


def place_of(cell):
    row, column = divmod(cell, WIDTH + 2)
    return row - 1, column - 1


def distance(one, other):
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


class Reference:
    """One warehouse; which shelf is requested next is read from the environment."""

    def __init__(self, moment, shaped):
        self.places = [place_of(robot["cell"]) for robot in moment.robots]
        self.headings = [robot["heading"] for robot in moment.robots]
        self.loads = [NOTHING] * ROBOTS
        self.taken_at = [None] * ROBOTS
        self.useful = [0] * ROBOTS
        self.shelves = dict(moment.shelves)
        self.steps, self.deliveries, self.events, self.shaped = 0, 0, Counter(), shaped

    def step(self, actions):
        rewards = [0.0] * ROBOTS
        self.unread = 0  # requests that were made in this step
        for turn in range(ROBOTS):
            row = (self.steps + turn) % ROBOTS
            if actions[row] == FORWARD:
                rewards[row] = self.drive(row)
            elif actions[row] in (TURN_LEFT, TURN_RIGHT):
                self.headings[row] = (self.headings[row] + (1 if actions[row] == TURN_RIGHT else -1)) % 4
            elif actions[row] == TOGGLE:
                rewards[row] = self.toggle(row) * 0.2 * self.shaped
        self.steps += 1
        return rewards

    def drive(self, row):
        place = tuple(part + move for part, move in zip(self.places[row], AHEAD[self.headings[row]], strict=True))
        is_inside = 0 <= place[0] < HEIGHT and 0 <= place[1] < WIDTH
        if not is_inside or place in self.places or (self.loads[row] and self.shelves.get(place)):
            self.events["blocked"] += 1
            return 0.0
        self.places[row] = place
        if place not in STATIONS or self.loads[row] != REQUESTED:
            return 0.0
        self.loads[row] = SHELF
        self.useful[row] += distance(place, self.taken_at[row])
        self.taken_at[row] = place
        self.deliveries += 1
        self.unread += 1
        return 1.0

    def toggle(self, row):
        place = self.places[row]
        standing, load = self.shelves.get(place), self.loads[row]
        if not load and standing:
            self.loads[row], self.shelves[place] = standing, NOTHING
            self.taken_at[row] = place if standing == REQUESTED else None
            self.events[f"load {standing}"] += 1
            return 1 if standing == REQUESTED else -1
        if not load or standing is None or standing:
            return 0
        if load == SHELF and self.taken_at[row]:
            self.useful[row] += distance(place, self.taken_at[row])
        self.loads[row], self.shelves[place] = NOTHING, load
        self.events[f"unload {load}"] += 1
        return -1 if load == REQUESTED else 1

    def look(self, moment):
        """Compares everything, and takes over which shelves are requested anew."""
        new = [place for place in PLACES if moment.shelves[place] != self.shelves[place]]
        assert len(new) == self.unread
        for place in new:
            assert (self.shelves[place], moment.shelves[place]) == (SHELF, REQUESTED)
            self.shelves[place] = REQUESTED
        assert [place_of(robot["cell"]) for robot in moment.robots] == self.places
        assert [robot["heading"] for robot in moment.robots] == self.headings
        assert [robot["carried"] for robot in moment.robots] == self.loads
        assert [robot["least_steps"] for robot in moment.robots] == self.useful
        standing = [place_of(cell) for cell in moment.requests if cell]
        assert sorted(standing) == sorted(place for place in PLACES if self.shelves[place] == REQUESTED)
        assert len(standing) + self.loads.count(REQUESTED) == ROBOTS
        free = [place for place in PLACES if not self.shelves[place]]
        assert sorted(place_of(robot["place"]) for robot in moment.robots if robot["carried"]) == free

    def targets(self, row):
        if self.loads[row] == REQUESTED:
            return STATIONS
        return [place for place in PLACES if self.shelves[place] == (NOTHING if self.loads[row] else REQUESTED)]

    def check_view(self, row, observation):
        (y, x), (down, right) = self.places[row], AHEAD[self.headings[row]]
        load = self.loads[row]
        own = [load > 0, load == REQUESTED, (y, x) in PLACES, x / (WIDTH - 1), y / (HEIGHT - 1), right, down]
        np.testing.assert_allclose(observation[:7], own, rtol=1e-6)
        ahead, aside = (round(value / (1 - abs(value))) for value in observation[7:9].astype(float))
        seen = (y + ahead * down + aside * right, x + ahead * right - aside * down)
        nearest = min(distance((y, x), target) for target in self.targets(row))
        assert seen in self.targets(row) and distance((y, x), seen) == nearest
        expected = []
        for forward in (1, 0, -1):
            for sideways in (-1, 0, 1):
                expected.append((y + forward * down + sideways * right, x + forward * right - sideways * down))
        for index, place in enumerate(expected):
            is_inside = 0 <= place[0] < HEIGHT and 0 <= place[1] < WIDTH
            robot = -1.0 if not is_inside else float(place in self.places and place != (y, x))
            assert observation[9 + index] == robot
            assert observation[18 + index] == 0.5 * self.shelves.get(place, NOTHING)


def errands(observations, generator):
    """Drives straight to the target and toggles there, now and then at random: all that can happen does."""
    actions = np.full(ROBOTS, FORWARD)
    for row, observation in enumerate(observations):
        ahead, aside = observation[7:9]
        if generator.random() < 0.15:
            actions[row] = generator.integers(-1, 7)
        elif ahead == aside == 0.0:
            actions[row] = TOGGLE
        elif abs(aside) > abs(ahead) or ahead < 0.0:
            actions[row] = TURN_RIGHT if aside > 0.0 else TURN_LEFT
        if observation[0] and (observation[19] or observation[10]) and generator.random() < 0.6:
            actions[row] = generator.choice([TURN_LEFT, TURN_RIGHT, FORWARD])
    return actions.astype(np.int32)


@pytest.mark.parametrize("shaped", [True, False])
def test_every_step_agrees_with_the_reference(shaped):
    env = Rware(1, shaped=shaped)
    final = env.keep_final_observations()
    env.reset(1)
    generator, events, deliveries = np.random.default_rng(0), Counter(), 0
    for _ in range(2):
        reference, returns = Reference(Moment(env), shaped), np.zeros(ROBOTS)
        for count in range(1, MAX_STEPS + 1):
            actions = errands(env.observations, generator)
            expected = reference.step(actions.tolist())
            env.step(actions)
            returns += env.rewards
            np.testing.assert_allclose(env.rewards, expected, rtol=1e-6)
            assert not env.terminals.any()
            assert env.truncations.tolist() == [count == MAX_STEPS] * ROBOTS
            if count == MAX_STEPS:
                break
            reference.look(Moment(env))
            for row in range(ROBOTS):
                reference.check_view(row, env.observations[row])
        for row in range(ROBOTS):  # as far as no new request hides it
            np.testing.assert_allclose(final[row, 3:5], np.divide(reference.places[row][::-1], (19, 9)), rtol=1e-6)
        (statistics,) = env.episode_statistics()
        assert statistics["n"] == ROBOTS and statistics["episode_length"] == MAX_STEPS
        assert statistics["score"] == reference.deliveries
        assert statistics["episode_return"] == pytest.approx(returns.mean(), abs=1e-5)
        assert statistics["perf"] == pytest.approx(np.mean(reference.useful) / MAX_STEPS, rel=1e-5)
        events += reference.events
        deliveries += reference.deliveries
    assert deliveries >= 5
    assert min(events[event] for event in ("blocked", "load 1", "load 2", "unload 1", "unload 2")) >= 1


def test_warehouses_begin_full_with_eight_requests_and_robots_apart():
    env = Rware(200)
    env.reset(0)
    requested = Counter()
    for index in range(200):
        moment = Moment(env, index)
        assert len(moment.shelves) == 80 and NOTHING not in moment.shelves.values()
        wanted = [place for place, shelf in moment.shelves.items() if shelf == REQUESTED]
        assert len(wanted) == ROBOTS and sorted(map(place_of, moment.requests)) == sorted(wanted)
        assert len({robot["cell"] for robot in moment.robots}) == ROBOTS
        requested.update(wanted)
    assert len(requested) == 80
    expected = 200 * ROBOTS / 80
    assert all(abs(count - expected) < 5 * math.sqrt(expected) for count in requested.values())


def test_undoing_a_shaped_reward_takes_it_back():
    """Loading and unloading on the spot earns nothing, whatever the shelf."""
    for seed in range(20):
        env = Rware(1)
        env.reset(seed)
        totals = np.zeros(ROBOTS)
        for _ in range(6):
            totals += env.step(np.full(ROBOTS, TOGGLE, np.int32))[1]
        np.testing.assert_allclose(totals, 0.0, atol=1e-6)


def test_rollout_is_the_golden_one():
    env, generator = Rware(1), np.random.default_rng(0)
    env.reset(42)
    observed, rewards = [], 0.0
    for _ in range(600):
        env.step(errands(env.observations, generator))
        observed.append(np.rint(env.observations * 1024).astype(np.int16))
        rewards += float(env.rewards.sum())
    assert (checksum(observed), round(rewards, 3)) == (
        3464817835,
        7.2,
    )  # printed by the lines above; changes when rules or draws do
