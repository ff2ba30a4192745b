"""The robotic warehouse against a second implementation in Python, and against what its rules promise."""

from __future__ import annotations

import ctypes
import math
from collections import Counter

import numpy as np
import pytest
from contract import checksum
from game import SNAPSHOT_HEADER_BYTES

from pufferlib.ocean.rware import binding
from pufferlib.ocean.rware.rware import FORWARD, TOGGLE, TURN_LEFT, TURN_RIGHT, Rware

NOTHING, SHELF, REQUESTED = range(3)
CARRIED, OWED = 0, -1
AHEAD = [(0, 1), (1, 0), (0, -1), (-1, 0)]  # rows and columns, by heading: right, down, left, up
STRIDE, ROWS, MAX_ROBOTS, MAX_REQUESTS, MAX_STEPS = 22, 18, 64, 32, 500
# Drawn as the benchmark's documentation has them, on their side: shelves, aisles, and the stations at the right edge.
RACKS = "." + 8 * "#"
FULL, AISLE, OPEN = 2 * RACKS + "..", 20 * ".", RACKS + 11 * "."
DRAWINGS = {
    1: [11 * ".", *2 * [RACKS + ".."], *[11 * "."] * 4, *2 * [RACKS + ".."], 11 * "."],
    2: [AISLE, FULL, FULL, AISLE, OPEN, OPEN, AISLE, FULL, FULL, AISLE],
    3: [AISLE, *[FULL, FULL, AISLE] * 2, OPEN, OPEN, AISLE, *[FULL, FULL, AISLE] * 2],
}
SIZES = {1: (11, 10, 32), 2: (20, 10, 80), 3: (20, 16, 144)}  # columns, rows, shelves
COUNTS = ["num_deliveries", "num_loaded", "num_returned", "least_steps"]
FIELDS = ["cell", "heading", "carried", "request", "place", *COUNTS, "loaded_at"]


class Robot(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int16) for name in FIELDS)


class State(ctypes.Structure):
    """The struct of rware.h."""

    _fields_ = (
        ("arrays", ctypes.c_void_p * 6),
        ("rng", ctypes.c_uint64),
        ("shaped", ctypes.c_bool),
        *((name, ctypes.c_int) for name in ("size", "num_robots", "num_requests", "width", "height")),
        ("places", ctypes.c_uint32 * 16),
        *((name, ctypes.c_int) for name in ("steps", "num_unasked", "num_owed")),
        ("requests", ctypes.c_int * MAX_REQUESTS),
        ("log", ctypes.c_float * 5),
        ("robots_at", ctypes.c_uint8 * STRIDE * ROWS),
        ("shelves_at", ctypes.c_uint8 * STRIDE * ROWS),
        ("robots", Robot * MAX_ROBOTS),
    )


class Warehouse:
    """Where things are in one of a size: places of racks and stations as (row, column)."""

    def __init__(self, size):
        drawing = DRAWINGS[size]
        self.width, self.height = len(drawing[0]), len(drawing)
        self.places = [
            (row, column) for row, line in enumerate(drawing) for column, cell in enumerate(line) if cell == "#"
        ]
        self.stations = [(self.height // 2 - 1, self.width - 1), (self.height // 2, self.width - 1)]

    def has(self, place):
        return 0 <= place[0] < self.height and 0 <= place[1] < self.width


class Moment:
    """What one environment holds, read from its struct."""

    def __init__(self, env, index=0):
        content = binding.env_get(binding.vec_env(env.handle, index))
        state = State.from_buffer_copy(content[SNAPSHOT_HEADER_BYTES:])
        self.robots = [{name: getattr(robot, name) for name in FIELDS} for robot in state.robots[: state.num_robots]]
        self.requests = state.requests[: state.num_requests]
        inside = np.array(state.shelves_at)[1:-1, 1:-1]
        self.shelves = {place: int(inside[place]) for place in Warehouse(state.size).places}
        assert sum(self.shelves.values()) == inside.sum()  # nothing stands elsewhere
        assert state.num_unasked == list(self.shelves.values()).count(SHELF)
        assert state.num_owed == self.requests.count(OWED)


def place_of(cell):
    row, column = divmod(cell, STRIDE)
    return row - 1, column - 1


def distance(one, other):
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


class Reference:
    """One warehouse; which shelf is requested next is read from the environment."""

    def __init__(self, moment, shaped, size=2):
        self.warehouse, self.count = Warehouse(size), len(moment.robots)
        self.places = [place_of(robot["cell"]) for robot in moment.robots]
        self.headings = [robot["heading"] for robot in moment.robots]
        self.loads = [NOTHING] * self.count
        self.taken_at = [None] * self.count
        self.useful = [0] * self.count
        self.shelves = dict(moment.shelves)
        self.steps, self.deliveries, self.events, self.shaped = 0, 0, Counter(), shaped

    def step(self, actions):
        rewards = [0.0] * self.count
        for turn in range(self.count):
            row = (self.steps + turn) % self.count
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
        if not self.warehouse.has(place) or place in self.places or (self.loads[row] and self.shelves.get(place)):
            self.events["blocked"] += 1
            return 0.0
        self.places[row] = place
        if place not in self.warehouse.stations or self.loads[row] != REQUESTED:
            return 0.0
        self.loads[row] = SHELF
        self.useful[row] += distance(place, self.taken_at[row])
        self.taken_at[row] = place
        self.deliveries += 1
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
        for place in self.warehouse.places:
            if moment.shelves[place] != self.shelves[place]:
                assert (self.shelves[place], moment.shelves[place]) == (SHELF, REQUESTED)
                self.shelves[place] = REQUESTED
        assert [place_of(robot["cell"]) for robot in moment.robots] == self.places
        assert [robot["heading"] for robot in moment.robots] == self.headings
        assert [robot["carried"] for robot in moment.robots] == self.loads
        assert [robot["least_steps"] for robot in moment.robots] == self.useful
        standing = [place_of(cell) for cell in moment.requests if cell > 0]
        assert sorted(standing) == [place for place in self.warehouse.places if self.shelves[place] == REQUESTED]
        owed = moment.requests.count(OWED)  # only while no shelf is free for them
        assert len(standing) + self.loads.count(REQUESTED) + owed == len(moment.requests)
        assert owed == 0 or SHELF not in self.shelves.values()
        self.events["owed"] += owed
        free = [place for place in self.warehouse.places if not self.shelves[place]]
        assert sorted(place_of(robot["place"]) for robot in moment.robots if robot["carried"]) == free

    def targets(self, row):
        if self.loads[row] == REQUESTED:
            return self.warehouse.stations
        return [
            place
            for place in self.warehouse.places
            if self.shelves[place] == (NOTHING if self.loads[row] else REQUESTED)
        ]

    def check_view(self, row, observation):
        (y, x), (down, right) = self.places[row], AHEAD[self.headings[row]]
        load, width, height = self.loads[row], self.warehouse.width, self.warehouse.height
        is_place = (y, x) in self.warehouse.places
        own = [load > 0, load == REQUESTED, is_place, x / (width - 1), y / (height - 1), right, down]
        np.testing.assert_allclose(observation[:7], own, rtol=1e-6)
        ahead, aside = (round(value / (1 - abs(value))) for value in observation[7:9].astype(float))
        seen = (y + ahead * down + aside * right, x + ahead * right - aside * down)
        if targets := self.targets(row):
            assert seen in targets and distance((y, x), seen) == min(distance((y, x), target) for target in targets)
        else:
            assert seen == (y, x)
        expected = []
        for forward in (1, 0, -1):
            for sideways in (-1, 0, 1):
                expected.append((y + forward * down + sideways * right, x + forward * right - sideways * down))
        for index, place in enumerate(expected):
            robot = -1.0 if not self.warehouse.has(place) else float(place in self.places and place != (y, x))
            assert observation[9 + index] == robot
            assert observation[18 + index] == 0.5 * self.shelves.get(place, NOTHING)


def errands(observations, generator):
    """Drives straight to the target and toggles there, now and then at random: all that can happen does."""
    actions = np.full(len(observations), FORWARD)
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


WAREHOUSES = [
    {},
    {"shaped": False},
    {"size": 1, "num_robots": 1, "num_requests": 1},
    {"size": 1, "num_robots": 8, "num_requests": 32},  # every shelf is asked for, and others wait
    {"size": 3, "num_robots": 11, "num_requests": 3},  # more robots than requests: none may stand
]


@pytest.mark.parametrize("arguments", WAREHOUSES, ids=str)
def test_every_step_agrees_with_the_reference(arguments):
    env, shaped = Rware(1, **arguments), arguments.get("shaped", True)
    count, warehouse = env.num_agents, Warehouse(arguments.get("size", 2))
    final = env.keep_final_observations()
    env.reset(1)
    generator, events, deliveries = np.random.default_rng(0), Counter(), 0
    for _ in range(2):
        reference, returns = Reference(Moment(env), shaped, arguments.get("size", 2)), np.zeros(count)
        for number in range(1, MAX_STEPS + 1):
            actions = errands(env.observations, generator)
            expected = reference.step(actions.tolist())
            env.step(actions)
            returns += env.rewards
            np.testing.assert_allclose(env.rewards, expected, rtol=1e-6)
            assert not env.terminals.any()
            assert env.truncations.tolist() == [number == MAX_STEPS] * count
            if number == MAX_STEPS:
                break
            reference.look(Moment(env))
            for row in range(number % 3, count, 3):
                reference.check_view(row, env.observations[row])
        for row in range(count):  # as far as no new request hides it
            expected = np.divide(reference.places[row][::-1], (warehouse.width - 1, warehouse.height - 1))
            np.testing.assert_allclose(final[row, 3:5], expected, rtol=1e-6)
        (statistics,) = env.episode_statistics()
        assert statistics["n"] == count and statistics["episode_length"] == MAX_STEPS
        assert statistics["score"] == reference.deliveries
        assert statistics["episode_return"] == pytest.approx(returns.mean(), abs=1e-5)
        assert statistics["perf"] == pytest.approx(np.mean(reference.useful) / MAX_STEPS, rel=1e-5)
        events += reference.events
        deliveries += reference.deliveries
    print(deliveries, events)
    assert deliveries >= 1
    assert min(events[event] for event in ("load 2", "unload 1")) >= 1
    if arguments.get("num_requests") == 32:
        assert events["owed"] >= 1
    elif count > 1:
        assert min(events[event] for event in ("blocked", "load 1", "unload 2")) >= 1


@pytest.mark.parametrize("size", SIZES)
def test_warehouses_begin_full_with_requests_and_robots_apart(size):
    count, (width, height, num_shelves) = 200, SIZES[size]
    env = Rware(count, size=size, num_requests=6)
    env.reset(0)
    requested, occupied = Counter(), set()
    for index in range(count):
        moment = Moment(env, index)
        assert len(moment.shelves) == num_shelves and NOTHING not in moment.shelves.values()
        wanted = [place for place, shelf in moment.shelves.items() if shelf == REQUESTED]
        assert len(wanted) == 6 and sorted(map(place_of, moment.requests)) == sorted(wanted)
        cells = {place_of(robot["cell"]) for robot in moment.robots}
        assert len(cells) == 8
        requested.update(wanted)
        occupied |= cells
    assert len(requested) == num_shelves
    expected = count * 6 / num_shelves
    assert all(abs(number - expected) < 5 * math.sqrt(expected) for number in requested.values())
    assert {row for row, _ in occupied} == set(range(height)) and {column for _, column in occupied} == set(
        range(width)
    )


@pytest.mark.parametrize(("key", "high"), [("size", 3), ("num_robots", 64), ("num_requests", 32)])
def test_an_impossible_number_is_refused(key, high):
    for value in (0, high + 1, 10**9):
        with pytest.raises(ValueError, match=f"rware: {key} must be an integer from 1 to {high}, got {value}"):
            Rware(1, **{key: value})


def test_as_many_robots_as_fit_move_in_the_tiny_one():
    env = Rware(1, size=1, num_robots=64, num_requests=32)
    env.reset(0)
    generator, before = np.random.default_rng(0), [robot["cell"] for robot in Moment(env).robots]
    for _ in range(300):
        env.step(generator.integers(0, 5, 64, np.int32))
    after = [robot["cell"] for robot in Moment(env).robots]
    assert len(set(after)) == 64 and sum(one != other for one, other in zip(before, after, strict=True)) > 32


def test_undoing_a_shaped_reward_takes_it_back():
    """Loading and unloading on the spot earns nothing, whatever the shelf."""
    for seed in range(20):
        env = Rware(1)
        env.reset(seed)
        totals = np.zeros(8)
        for _ in range(6):
            totals += env.step(np.full(8, TOGGLE, np.int32))[1]
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
        2183793955,
        5.0,
    )  # printed by the lines above; changes when rules or draws do
