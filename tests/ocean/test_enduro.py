"""The rules of enduro, against known answers and against a second implementation in Python that keeps its cars."""

from __future__ import annotations

import bisect

import numpy as np
import pytest

from pufferlib.ocean.enduro.enduro import (
    ACCELERATE,
    ACCELERATE_LEFT,
    ACCELERATE_RIGHT,
    BRAKE,
    CRUISE,
    LEFT,
    RIGHT,
    Enduro,
)

DAY = 1500  # steps
SPEED, WEATHER, CARS = 1, slice(14, 18), slice(18, 68)
CLEAR, ICE, NIGHT, FOG = range(4)
PEDALS = {ACCELERATE: 0.0034, ACCELERATE_RIGHT: 0.0034, ACCELERATE_LEFT: 0.0034, BRAKE: -0.012, 5: -0.012, 6: -0.012}
WHEEL = {RIGHT: 1, ACCELERATE_RIGHT: 1, 5: 1, LEFT: -1, ACCELERATE_LEFT: -1, 6: -1}
MASK = 2**64 - 1
real = np.float32


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def words(seed):
    """PCG32's numbers of environment 0."""
    state = mix((mix((seed + 0x9E3779B97F4A7C15) & MASK) + 0x9E3779B97F4A7C15) & MASK)
    while True:
        shifted = ((state >> 18 ^ state) >> 27) & 0xFFFFFFFF
        turn = state >> 59
        yield (shifted >> turn | shifted << (32 - turn)) & 0xFFFFFFFF
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK


class Race:
    """One day of the race, every car in a list and every step of the arithmetic in float32."""

    def __init__(self, seed, cars=600):
        numbers = words(seed)
        road = next(numbers) << 32 | next(numbers)
        self.x = self.speed = self.place = self.distance = real(0)
        self.frame = self.crash = self.overtaken = 0
        self.lanes = [(mix(road + i & MASK) >> 32) % 3 for i in range(cars)]
        shares = [real(mix(road + i & MASK) & 0xFFFF) * real(1 / 65536) for i in range(cars)]
        self.places = [real(7.5) * (real(i) + real(1) + real(0.5) * (s - real(0.5))) for i, s in enumerate(shares)]
        knots = (-1, -0.7, -0.4, 0, 0, 0.4, 0.7, 1)
        self.curves = [real(0)] + [real(knots[mix((~road & MASK) + i & MASK) & 7]) for i in range(1, 40)]
        self.x_of = [real(0.6) * real(lane - 1) for lane in self.lanes]

    def curvature(self):
        knots = self.distance / real(300)
        before, after = self.curves[int(knots)], self.curves[int(knots) + 1]
        return before + (after - before) * (knots - real(int(knots)))

    def is_icy(self):
        return 0.25 <= self.frame / 6000 < 0.45

    def touches(self, car):
        return abs(self.places[car] - self.place) < real(1) and abs(self.x_of[car] - self.x) < real(0.35)

    def step(self, action):
        curvature, reward = self.curvature(), 0
        for _ in range(4):
            reward += self.drive(real(PEDALS.get(action, 0)), real(WHEEL.get(action, 0)), curvature)
            self.frame += 1
        return reward

    def drive(self, pedal, wheel, curvature):
        if self.crash:
            self.crash -= 1
        else:
            self.speed = min(max(self.speed + pedal, real(0)), real(0.8))
        if abs(self.x) == real(0.85) and self.speed > real(0.3):
            self.speed = max(self.speed - real(0.006), real(0.3))
        share, grip = self.speed / real(0.8), real(0.5 if self.is_icy() else 1)
        turn = real(0.035) * grip * wheel * share * (real(2) - share)
        self.x = min(max(self.x + (turn - real(0.016) * curvature * share * share), real(-0.85)), real(0.85))
        self.distance += self.speed
        ahead = self.ahead()
        self.place += self.speed - real(0.3)
        if self.touches(ahead):
            self.place, self.speed, self.crash = self.places[ahead] - real(1), real(0.12), 30
        elif ahead and self.touches(ahead - 1):
            self.place, self.speed = self.places[ahead - 1] + real(1), max(self.speed, real(0.3))
        change = self.ahead() - ahead
        change = 0 if self.overtaken == 200 or self.overtaken + change < 0 else change
        self.overtaken += change
        return change

    def ahead(self):
        """The first car that is not overtaken, of all."""
        return bisect.bisect_left(self.places, self.place)


def driver(observation):
    """Full speed in the lane that is free for longest, where that is not too far aside."""
    x, cars = observation[0], observation[CARS].reshape(10, 5)[2:]
    free = [min([4.0, *(car[4] for car in cars if car[lane])]) - 0.05 * abs(0.6 * (lane - 1) - x) for lane in range(3)]
    aim = 0.6 * (int(np.argmax(free)) - 1)
    return ACCELERATE_RIGHT if aim > x + 0.05 else ACCELERATE_LEFT if aim < x - 0.05 else ACCELERATE


@pytest.mark.parametrize("seed", range(4))
def test_a_race_agrees_with_the_reference(seed):
    env, race = Enduro(1), Race(seed)
    env.reset(seed)
    generator = np.random.default_rng(seed)
    action = ACCELERATE
    for step in range(700):  # on ice and off it again
        if seed % 2:
            action = driver(env.observations[0])
        elif step % 8 == 0:
            action = generator.choice([ACCELERATE, ACCELERATE_LEFT, ACCELERATE_RIGHT, CRUISE, BRAKE, LEFT, RIGHT])
        _, rewards, terminals, truncations, _ = env.step(np.array([action], np.int32))
        assert rewards[0] == race.step(action), step
        seen = env.observations[0, [0, SPEED, 5]]
        np.testing.assert_array_equal(seen, np.array([race.x, race.speed / real(0.8), race.curvature()], real))
        left = real(200 - race.overtaken) / real(200)
        assert (env.observations[0, 11], terminals[0], truncations[0]) == (left, False, False)
        nearest = race.ahead()
        car = env.observations[0, CARS].reshape(10, 5)[2]
        if car.any():
            assert int(np.argmax(car[:3])) == race.lanes[nearest]
            assert car[4] == (race.places[nearest] - race.place) / real(60)


def test_who_stands_still_overtakes_nobody_and_loses_with_the_day():
    env = Enduro(2, report_interval=10**6)
    env.reset(0)
    for step in range(1, 2 * DAY + 1):
        _, rewards, terminals, truncations, _ = env.step(np.full(2, BRAKE, np.int32))
        assert not rewards.any() and not truncations.any()
        assert terminals.all() == terminals.any() == (step % DAY == 0)
    (statistics,) = env.episode_statistics()
    assert statistics == {"perf": 0.0, "score": 0.0, "episode_return": 0.0, "episode_length": DAY, "n": 4.0}


def test_the_engine_takes_four_seconds_to_top_speed_and_cruising_keeps_it():
    env = Enduro(1)
    env.reset(0)
    speeds = [float(env.step(np.array([ACCELERATE], np.int32))[0][0, SPEED]) for _ in range(20)]
    assert speeds == pytest.approx([step * 4 * 0.0034 / 0.8 for step in range(1, 21)], rel=1e-4)
    for _ in range(20):
        assert env.step(np.array([CRUISE], np.int32))[0][0, SPEED] == pytest.approx(speeds[-1])
    env.step(np.array([BRAKE], np.int32))
    assert env.observations[0, SPEED] == pytest.approx(speeds[-1] - 4 * 0.012 / 0.8, rel=1e-4)


def test_weather_changes_at_its_hours_and_takes_the_sight():
    env = Enduro(1)
    env.reset(0)
    seen, farthest = [], {}
    for _ in range(DAY - 1):
        env.step(np.array([driver(env.observations[0])], np.int32))
        weather = int(np.argmax(env.observations[0, WEATHER]))
        assert env.observations[0, WEATHER].sum() == 1
        seen.append(weather)
        distances = np.abs(env.observations[0, CARS].reshape(10, 5)[:, 4]) * 60
        farthest[weather] = max(farthest.get(weather, 0), distances.max())
    changes = [(step + 1, seen[step]) for step in range(1, len(seen)) if seen[step] != seen[step - 1]]
    assert changes == [(375, ICE), (675, CLEAR), (825, NIGHT), (1200, FOG)]
    assert 30 < farthest[NIGHT] <= 40 and 15 < farthest[FOG] <= 20 and farthest[CLEAR] > 50


def test_a_day_that_is_won_leads_to_the_next_and_the_last_one_truncates():
    short, long = (Enduro(1, days=days, report_interval=10**6) for days in (1, 2))
    for env in (short, long):
        env.reset(41)  # the first day that the driver wins: few cars are in its way
    for _ in range(DAY):
        for env in (short, long):
            env.step(np.array([driver(env.observations[0])], np.int32))
    assert (bool(short.terminals[0]), bool(short.truncations[0])) == (False, True)
    assert short.episode_statistics()[0] == {
        "perf": 1.0,
        "score": 200.0,
        "episode_return": 200.0,
        "episode_length": DAY,
        "n": 1.0,
    }
    assert not long.terminals[0] and not long.truncations[0]
    assert long.observations[0, 10:14].tolist() == [0.0, 1.0, 0.0, 0.5]  # morning, all cars to go, none won, day 2 of 2
    for _ in range(DAY):
        long.step(np.array([BRAKE], np.int32))
    assert (bool(long.terminals[0]), bool(long.truncations[0])) == (True, False)
    assert long.episode_statistics()[0]["perf"] == pytest.approx(200 / 500)


@pytest.mark.parametrize("keyword, value", [("frameskip", 17), ("frameskip", 0), ("days", 0), ("days", 101)])
def test_impossible_arguments_are_refused(keyword, value):
    with pytest.raises(ValueError, match=f"enduro: {keyword} must be an integer from 1 to"):
        Enduro(1, **{keyword: value})
