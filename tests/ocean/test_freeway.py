"""Freeway: traffic and chicken in positions made by hand, and whole games against a second implementation."""

from __future__ import annotations

import numpy as np
import pytest
from contract import checksum
from positions import position, put, struct_layout

from pufferlib.ocean.freeway.freeway import Freeway

STAY, UP, DOWN = range(3)
PIXEL, LOOP, HEIGHT = 60, 184 * 60, 180 * 60
SPEEDS = [12, 15, 20, 30, 60, 60, 30, 20, 15, 12]  # 60ths of a pixel in a frame
LAYOUT = struct_layout(
    ("rng", np.uint64),
    *((name, np.int16, 10) for name in ("passed", "speeds", "frames_to_change")),
    *((name, np.int16) for name in ("y", "throw_left", "frames", "score", "level", "chosen_level", "frameskip")),
    ("to_kerb", np.bool_),
    ("episode_return", np.float32),
    ("log", np.float32, 5),
)

# What drives in the lanes of games 1 to 4, from below: pixels behind the first one, and which of them are trucks.
ALONE = [[0]] * 10
PAIRS = [[0], [0, 24], [0], [0, 70], [0], [0], [0, 70], [0], [0, 24], [0]]
MORE = [[0, 60], [0, 24, 90], [0, 60], [0, 20, 40], [0, 70], [0, 70], [0, 20, 40], [0, 60], [0, 24, 90], [0, 60]]
TRUCKS = [[0, 70], [0, 20, 40], [0], [0, 30, 90], [0, 50, 100], [0, 50, 100], [0, 30, 90], [0], [0, 20, 40], [0, 70]]
TRAFFIC = [ALONE, PAIRS, MORE, TRUCKS]


def started(seed=0, **kwargs):
    env = Freeway(1, **{"level": 1, "frameskip": 1, "report_interval": 10**9, **kwargs})
    env.reset(seed)
    return env


def step(env, action=STAY):
    _, rewards, terminals, truncations, _ = env.step(np.array([action], np.int32))
    return float(rewards[0]), bool(terminals[0]), bool(truncations[0])


@pytest.mark.parametrize("level", range(1, 9))
def test_lanes_drive_a_pixel_in_five_to_one_frames(level):
    env = started(level=level)
    begin = position(env, LAYOUT)
    assert begin["speeds"].tolist() == SPEEDS == begin["speeds"][::-1].tolist()
    for frames in (1, 2, 60):
        while position(env, LAYOUT)["frames"] < frames:
            step(env)
        if level <= 4 or frames < 60:  # the others may change from the 60th frame on
            ways = (position(env, LAYOUT)["passed"].astype(int) - begin["passed"]) % LOOP
            assert ways.tolist() == [speed * frames for speed in SPEEDS]
    assert env.observations[0, 3] == level / 8


def test_lower_lanes_drive_to_the_right_and_upper_ones_to_the_left():
    env = started()
    pixels = np.array([0.2, 0.25, 1 / 3, 0.5, 1.0])
    np.testing.assert_allclose(env.observations[0, 24:], [*pixels, *-pixels[::-1]], rtol=1e-6)


def test_from_level_five_on_lanes_change_their_speeds_every_one_to_four_seconds():
    env, seen = started(level=7), []
    for _ in range(6000):
        step(env)
        seen.append(np.abs(env.observations[0, 24:]) * PIXEL)  # the chicken stays, so that the lowest lane is the first
    seen = np.rint(seen).astype(int)
    assert set(seen.ravel().tolist()) == set(SPEEDS)
    changes = [np.flatnonzero(np.diff(lane)) for lane in seen.T]
    assert min(np.diff(each).min() for each in changes) >= 60
    # Drawn every 150.5 frames in the mean, one of five times the speed that it was.
    assert np.mean([len(each) for each in changes]) == pytest.approx(0.8 * 6000 / 150.5, rel=0.15)


def test_level_zero_draws_every_level():
    env = Freeway(400, level=0)
    env.reset(0)
    levels, counts = np.unique(np.rint(env.observations[:, 3] * 8), return_counts=True)
    assert levels.tolist() == list(range(1, 9)) and counts.min() > 25


# -------------------------------------------------------------------------------------------- against a second version


def touches(beyond, is_truck):
    """`beyond`: 60ths of a pixel that a front is past the chicken's nearer side."""
    return beyond < ((22 if is_truck else 12) + 6) * PIXEL


class Reference:
    """One game, frame by frame, every vehicle by itself, from what is drawn at the beginning."""

    def __init__(self, found):
        self.level, self.frameskip, self.to_kerb = (int(found[name]) for name in ("level", "frameskip", "to_kerb"))
        self.passed = [int(each) for each in found["passed"]]
        self.y = self.throw_left = self.frames = self.score = 0

    def beyond(self, lane):
        return [(self.passed[lane] - behind * PIXEL) % LOOP for behind in TRAFFIC[self.level - 1][lane]]

    def is_hit(self):
        for lane in range(10):
            bottom = (10 + 16 * lane + 3) * PIXEL
            is_level = self.y < bottom + 10 * PIXEL and bottom < self.y + 8 * PIXEL
            is_truck = self.level == 4 and lane in (0, 2, 7, 9)
            if is_level and any(touches(each, is_truck) for each in self.beyond(lane)):
                return True
        return False

    def frame(self, action):
        self.frames += 1
        self.passed = [(each + speed) % LOOP for each, speed in zip(self.passed, SPEEDS, strict=True)]
        if self.throw_left:
            way = min(self.throw_left, 240 if self.to_kerb else 60)
            self.y, self.throw_left = self.y - way, self.throw_left - way
            return
        self.y = max(0, self.y + 45 * ((action == UP) - (action == DOWN)))
        if self.y >= HEIGHT:
            self.y, self.score = 0, self.score + 1
        elif self.is_hit():
            self.throw_left = self.y if self.to_kerb else min(self.y, 16 * PIXEL)

    def step(self, action):
        score, y = self.score, self.y
        for _ in range(self.frameskip):
            if self.frames < 8160:
                self.frame(action)
        return self.score - score + 0.5 * (self.y - y) / HEIGHT

    def expected_lanes(self):
        """For each lane: frames to the next vehicle, and until it is past, once the chicken has walked there."""
        rows = []
        for lane, speed in enumerate(SPEEDS):
            way = (10 + 16 * lane + 3 - 8) * PIXEL - self.y + HEIGHT * (lane < first_lane(self.y))
            later = max(0, way) // 45 * speed
            span = (28 if self.level == 4 and lane in (0, 2, 7, 9) else 18) * PIXEL
            beyond = [(each + later) % LOOP for each in self.beyond(lane)]
            arrival = 0 if min(beyond) < span else min(LOOP - each for each in beyond)
            departure = span - min(beyond) if min(beyond) < span else arrival + span
            rows.append((arrival / speed, departure / speed))
        return np.minimum(np.array(rows) / 60, 1.0)


def first_lane(y):
    """The lane whose vehicles are not yet below the chicken's feet."""
    return next((lane for lane in range(10) if y < (10 + 16 * lane + 13) * PIXEL), 0)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize(("frameskip", "to_kerb"), [(1, False), (4, False), (7, True)])
def test_every_step_agrees_with_the_reference(level, frameskip, to_kerb):
    env = started(level=level, frameskip=frameskip, to_kerb=to_kerb)
    reference, generator = Reference(position(env, LAYOUT)), np.random.default_rng(level)
    for count in range(1250):
        action = int(generator.integers(-1, 5)) if count % 3 == 0 else UP
        expected = reference.step(action)
        reward, *flags = step(env, action)
        assert reward == pytest.approx(expected, abs=1e-6)
        ends = reference.frames == 8160
        assert flags == [False, ends]
        if ends:
            break
        if count % 8 == 0:
            found, observation = position(env, LAYOUT), env.observations[0]
            assert [int(each) for each in found["passed"]] == reference.passed
            assert (found["y"], found["throw_left"], found["score"]) == (
                reference.y,
                reference.throw_left,
                reference.score,
            )
            lanes = np.roll(reference.expected_lanes(), -first_lane(reference.y), axis=0)
            np.testing.assert_allclose(observation[4:24], lanes.T.ravel(), atol=1e-5)
            assert observation[0] == pytest.approx(reference.y / HEIGHT)


# -------------------------------------------------------------------------------------------------------- the chicken


def test_a_free_crossing_takes_four_seconds():
    env, rewards = started(), []
    for frame in range(1, 481):
        put(env, LAYOUT, passed=np.full(10, 20 * PIXEL))  # nobody is near
        rewards.append(step(env, UP)[0])
        assert position(env, LAYOUT)["y"] == 45 * (frame % 240)
    along = 0.5 / 240
    np.testing.assert_allclose(rewards, ([along] * 239 + [along + 0.5]) * 2, rtol=1e-5)


def test_thirty_four_crossings_are_the_best_that_there_are():
    env = started(frameskip=4)
    for _ in range(2039):
        put(env, LAYOUT, passed=np.full(10, 20 * PIXEL))
        assert not step(env, UP)[2]
    put(env, LAYOUT, passed=np.full(10, 20 * PIXEL))
    assert step(env, UP)[1:] == (False, True)
    (statistics,) = env.episode_statistics()
    assert statistics.pop("episode_return") == pytest.approx(34, rel=1e-4)
    assert statistics == {"perf": 1.0, "score": 34.0, "episode_length": 2040.0, "n": 1.0}


@pytest.mark.parametrize(("frameskip", "steps"), [(1, 8160), (4, 2040), (7, 1166), (64, 128)])
def test_the_time_is_up_after_136_seconds(frameskip, steps):
    env = started(frameskip=frameskip)
    ends = [step(env)[1:] for _ in range(steps + 1)]
    assert ends == [(False, False)] * (steps - 1) + [(False, True), (False, False)]


def test_a_vehicle_throws_the_chicken_one_lane_back():
    env = started()
    passed = np.full(10, 20 * PIXEL)
    passed[3] = LOOP - 30  # its front reaches the chicken's side in this frame
    put(env, LAYOUT, passed=passed, y=65 * PIXEL, frames=8000)  # in the middle of the fourth lane
    heights = []
    for _ in range(18):
        step(env, UP)
        heights.append(position(env, LAYOUT)["y"] / PIXEL)
    assert heights == [65.75, *np.arange(64.75, 49, -1.0), 50.5]


def test_a_vehicle_throws_the_chicken_to_the_kerb_where_that_is_asked_for():
    env = started(to_kerb=True)
    passed = np.full(10, 20 * PIXEL)
    passed[3] = LOOP - 30
    put(env, LAYOUT, passed=passed, y=65 * PIXEL, frames=8000)
    heights = []
    for _ in range(19):
        step(env, UP)
        heights.append(position(env, LAYOUT)["y"] / PIXEL)
    assert heights == [65.75, *np.arange(61.75, 0, -4.0), 0.0, 0.75]


@pytest.mark.parametrize(("level", "lane", "length"), [(1, 4, 12), (1, 7, 12), (4, 2, 22), (4, 7, 22)])
def test_a_vehicle_is_in_the_way_from_its_front_to_its_rear(level, lane, length):
    env, span = started(level=level), (length + 6) * PIXEL  # 6 pixels is the chicken wide
    for beyond, is_hit in ((LOOP - 1, False), (0, True), (span - 1, True), (span, False)):
        passed = np.full(10, 40 * PIXEL)
        passed[lane] = (beyond - SPEEDS[lane]) % LOOP  # a frame before
        put(env, LAYOUT, passed=passed, y=(10 + 16 * lane + 4) * PIXEL, throw_left=0, frames=8000)
        step(env, STAY)
        assert (position(env, LAYOUT)["throw_left"] > 0) == is_hit


def test_between_two_rows_of_vehicles_the_chicken_meets_both():
    for lane in (2, 3):
        env = started()
        passed = np.full(10, 20 * PIXEL)
        passed[lane] = 0
        put(env, LAYOUT, passed=passed, y=(10 + 2 * 16 + 12) * PIXEL, frames=8000)  # feet in the third lane, head above
        step(env, STAY)
        assert position(env, LAYOUT)["throw_left"] == 16 * PIXEL


def test_the_chicken_does_not_walk_below_its_start():
    env = started()
    for action in (DOWN, DOWN, -9, 77):
        step(env, action)
        assert position(env, LAYOUT)["y"] == 0


def test_rollout_is_the_golden_one():
    env = Freeway(16)
    env.reset(42)
    rows, observed = np.arange(16), []
    for count in range(512):
        env.step((rows + count // (1 + rows)) % 3)
        observed.append(np.rint(env.observations * 1000).astype(np.int16))
    assert checksum(observed) == 1917292145  # printed by the lines above; changes when rules or random streams do
