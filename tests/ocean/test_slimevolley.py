"""Slimevolley against a second implementation of its motion, its mirror image, and rallies with known results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from contract import checksum

from pufferlib.errors import APIUsageError
from pufferlib.ocean.slimevolley.slimevolley import Slimevolley

NEVER = 10**9
BODY = np.dtype([("x", "f4"), ("y", "f4"), ("vx", "f4"), ("vy", "f4")])
GAME = np.dtype([("slimes", BODY, 2), ("ball", BODY), ("lives", "i4", 2), ("pause", "i4"), ("steps", "i4")])
BEGIN = 76  # bytes of the struct before these
STILL = np.zeros((2, 3), np.int32)


def games_of(structs):
    """The games in structs, to read and to write."""
    return structs[:, BEGIN : BEGIN + GAME.itemsize].view(GAME)[:, 0]


def put(env, **changes):
    """Changes the first game: `ball` and `slimes` take rows of x, y, vx, vy."""
    structs = env.structs().copy()
    for name, value in changes.items():
        rows = [tuple(row) for row in value] if name == "slimes" else tuple(value) if name == "ball" else value
        games_of(structs)[name][0] = rows
    env.put_structs(structs, 0)


def game_of(env):
    return games_of(env.structs())[0]


def run(slime, sign, forward, backward, jump):
    """A slime one step later, as (x, y, vx, vy)."""
    vx = 17.5 * (int(backward) - int(forward))
    wanted = sign * slime["x"] + vx / 30
    x = min(max(wanted, 2.0), 22.5)
    vy = (13.5 if jump and slime["y"] <= 0 else slime["vy"]) - 29.4 / 30
    y = slime["y"] + vy / 30
    return sign * x, max(y, 0.0), sign * vx if x == wanted else 0.0, vy if y > 0 else 0.0


def reflect(ball, disc, reach):
    x, y = ball[0] - disc[0], ball[1] - disc[1]
    distance = math.hypot(x, y)
    x, y = x / distance, y / distance
    approach = min((ball[2] - disc[2]) * x + (ball[3] - disc[3]) * y, 0.0)
    return disc[0] + reach * x, disc[1] + reach * y, ball[2] - 2 * approach * x, ball[3] - 2 * approach * y


def fly(ball, slimes):
    """The ball one step later, and whether it is so near to touching something that rounding would decide."""
    vx, vy = ball["vx"], ball["vy"] - 29.4 / 30
    found = (ball["x"] + vx / 30, ball["y"] + vy / 30, vx, vy)
    gaps = []
    for slime in slimes:
        distance = math.dist(found[:2], slime[:2])
        gaps.append(distance - 2.0)
        if distance < 2.0:
            found = reflect(found, slime, 2.0)
            speed = math.hypot(*found[2:])
            scale = min(1.0, 22.5 / speed)
            found = (*found[:2], scale * found[2], scale * found[3])
    x, y, vx, vy = found
    gaps += [abs(x) - 23.5, abs(x) - 1.0, y - 3.5, math.hypot(x, y - 3.5) - 1.0]
    if abs(x) > 23.5:
        x, vx = math.copysign(23.5, x), -math.copysign(abs(vx), x)
    if abs(x) < 1.0 and y < 3.5:
        x, vx = math.copysign(1.0, x), math.copysign(abs(vx), x)
    elif math.hypot(x, y - 3.5) < 1.0:
        x, y, vx, vy = reflect((x, y, vx, vy), (0.0, 3.5, 0.0, 0.0), 1.0)
    return (x, y, vx, vy), min(map(abs, gaps)) < 1e-4


def rows_of(slimes, ball):
    """What both sides see."""
    sides = [(1.0, slimes), (-1.0, slimes[::-1])]
    flips = [np.array([sign, 1.0, sign, 1.0]) / 10 for sign, _ in sides]
    return [
        np.concatenate([flip * own, flip * ball, flip * other])
        for flip, (_, (own, other)) in zip(flips, sides, strict=True)
    ]


@pytest.mark.slow
def test_bodies_move_by_the_rules():
    """Every step is foretold from the one before, in doubles."""
    env, generator = Slimevolley(64, "self"), np.random.default_rng(0)
    env.reset(0)
    touched = 0
    for _ in range(600):
        games = games_of(env.structs())
        actions = generator.integers(-1, 3, (64, 2, 3))
        lives = games["lives"].copy()
        env.step(actions.reshape(128, 3))
        after = games_of(env.structs())
        for i, game in enumerate(games):
            if game["pause"] > 0 or (after["lives"][i] != lives[i]).any():
                continue
            slimes = [run(game["slimes"][side], 1 - 2 * side, *(actions[i, side] == 1)) for side in range(2)]
            ball, is_close = fly(game["ball"], slimes)
            touched += abs(ball[3] - game["ball"]["vy"] + 29.4 / 30) > 1e-3
            if not is_close:
                np.testing.assert_allclose(env.observations[2 * i : 2 * i + 2], rows_of(slimes, ball), atol=2e-5)
    assert touched > 100


def mirrored(structs):
    found = structs.copy()
    games, before = games_of(found), games_of(structs)
    games["slimes"] = before["slimes"][:, ::-1]
    games["lives"] = before["lives"][:, ::-1]
    for name in ("slimes", "ball"):
        for key in ("x", "vx"):
            games[name][key] *= -1
    return found


def test_both_sides_are_alike_to_the_bit():
    """Each step is played once more in the mirror, by the other side."""
    env, mirror = Slimevolley(64, "self"), Slimevolley(64, "self")
    generator = np.random.default_rng(0)
    for one in (env, mirror):
        one.reset(0)
    ends = points = 0
    for _ in range(3000):
        structs = env.structs()
        is_thrown = games_of(structs)["pause"] == 1  # that is drawn, and the mirror would draw the same
        mirror.put_structs(mirrored(structs), 0)
        actions = generator.integers(0, 2, (64, 2, 3))
        env.step(actions.reshape(-1, 3))
        mirror.step(actions[:, ::-1].reshape(-1, 3))
        for name in ("observations", "rewards", "terminals", "truncations"):
            found, other = (getattr(one, name).reshape(64, 2, -1) for one in (env, mirror))
            np.testing.assert_array_equal(found[~is_thrown], other[:, ::-1][~is_thrown])
        points += int((env.rewards != 0).sum())
        ends += int(env.terminals.sum())
    assert points > 500 and ends > 100


def test_the_ball_hangs_for_a_second_and_is_thrown_to_either_side():
    env = Slimevolley(200, "self")
    env.reset(0)
    for _ in range(29):
        env.step(np.tile(STILL, (200, 1)))
        np.testing.assert_allclose(env.observations[:, 4:8], [[0, 1.2, 0, 0]] * 400, rtol=1e-6)
    env.step(np.tile(STILL, (200, 1)))
    vx, vy = env.observations[::2, 6], env.observations[::2, 7]
    assert 60 < (vx > 0).sum() < 140 and abs(vx).max() < 1.6 and vy.min() >= 0.5 and vy.max() < 1.5
    np.testing.assert_array_equal(env.observations[1::2, 6], -vx)


def test_a_slime_that_stands_sends_the_ball_up_again_as_fast_as_it_came():
    env = Slimevolley(1, "self")
    env.reset(0)
    put(env, pause=0, ball=(12, 6, 0, 0))
    speeds = []
    for _ in range(60):
        env.step(STILL)
        speeds.append(float(game_of(env)["ball"]["vy"]))
    hit = next(i for i, vy in enumerate(speeds) if vy > 0)
    assert speeds[hit] == pytest.approx(-(speeds[hit - 1] - 29.4 / 30), rel=1e-4)
    assert game_of(env)["ball"]["x"] == 12 and game_of(env)["lives"].tolist() == [5, 5]


def test_a_slime_runs_to_the_net_and_the_wall_and_jumps_from_the_floor_alone():
    env = Slimevolley(1, "self")
    env.reset(0)
    for action, place, speed in (((1, 0, 0), 2.0, -17.5), ((0, 1, 0), 22.5, 17.5), ((1, 1, 0), 22.5, 0.0)):
        env.step(np.array([action, (0, 0, 0)]))
        assert env.observations[0, 2] == pytest.approx(speed / 10)
        for _ in range(40):
            put(env, pause=30)
            env.step(np.array([action, (0, 0, 0)]))
        assert env.observations[0, 0] == pytest.approx(place / 10) and env.observations[0, 2] == 0
    heights = []
    for _ in range(40):
        put(env, pause=30)
        env.step(np.array([(0, 0, 1), (0, 0, 0)]))
        heights.append(float(env.observations[0, 1]))
    highest = max(heights)
    assert 0.28 < highest < 0.31 and heights.count(highest) <= 4
    assert 0 in heights and heights[heights.index(0) + 1] == heights[0]  # it jumps at once again


@pytest.mark.parametrize(("x", "loser"), [(12.0, 0), (-12.0, 1)])
def test_the_side_on_whose_floor_the_ball_is_loses_a_life(x, loser):
    env = Slimevolley(1, "self", report_interval=NEVER)
    env.reset(0)
    for life in range(5):
        put(env, pause=0, ball=(x, 0.6, 0, -5), slimes=[(5, 0, 0, 0), (-5, 0, 0, 0)])
        env.step(STILL)
        assert env.rewards[loser] == -1 and env.rewards[1 - loser] == 1
        assert env.terminals.tolist() == [life == 4] * 2 and not env.truncations.any()
        assert game_of(env)["pause"] == 30
    (statistics,) = env.episode_statistics()
    expected = {"perf": 0.5, "score": 0.0, "episode_return": 0.0, "episode_length": 5.0, "n": 2.0}
    assert statistics == pytest.approx(expected) and game_of(env)["lives"].tolist() == [5, 5]


def test_a_game_is_cut_after_3000_steps():
    env = Slimevolley(1, report_interval=NEVER)
    env.reset(0)
    put(env, pause=30, steps=2998, lives=(4, 1))
    env.step(STILL[:1])
    assert not env.truncations[0]
    env.step(STILL[:1])
    assert env.truncations[0] and not env.terminals[0] and env.rewards[0] == 0
    (statistics,) = env.episode_statistics()
    assert statistics["episode_length"] == 3000 and statistics["score"] == 3
    assert statistics["perf"] == pytest.approx(0.8)


def test_a_stronger_bot_wins_more_against_chance():
    scores = []
    for strength in range(3):
        env, generator = Slimevolley(100, "bot", strength, 0, report_interval=NEVER), np.random.default_rng(0)
        env.reset(0)
        for _ in range(3000):
            env.step(generator.integers(0, 2, (100, 3)))
        scores.append(env.episode_statistics()[0]["score"])
    assert abs(scores[0]) < 0.5 and scores[1] < -3 and scores[2] < scores[1] - 0.5


def test_a_bot_that_is_random_at_every_step_is_the_random_one():
    games = []
    for strength in (0, 2):
        env, generator = Slimevolley(20, "bot", strength, 100), np.random.default_rng(0)
        env.reset(0)
        games.append([env.step(generator.integers(0, 2, (20, 3)))[0].copy() for _ in range(300)])
    np.testing.assert_array_equal(*games)


@pytest.mark.parametrize("kwargs", [{"bot_strength": 3}, {"bot_random": -1}, {"opponent": "pool"}])
def test_arguments_out_of_range_are_refused(kwargs):
    (key,) = kwargs
    with pytest.raises(APIUsageError, match=f"{key} must be"):
        Slimevolley(1, **kwargs)


@pytest.mark.parametrize(
    "changes",
    [
        {"ball": (0, 20, 30, 0)},
        {"ball": (25, 5, 0, 0)},
        {"ball": (math.nan, 5, 0, 0)},
        {"slimes": [(-3, 0, 0, 0), (-3, 0, 0, 0)]},
        {"lives": (0, 3)},
        {"pause": 31},
        {"steps": 3000},
    ],
)
def test_games_that_no_play_leads_to_are_refused(changes):
    env = Slimevolley(1)
    env.reset(0)
    with pytest.raises(APIUsageError):
        put(env, **changes)


def test_rollout_is_the_golden_one():
    env, generator = Slimevolley(16), np.random.default_rng(0)
    env.reset(42)
    actions = [generator.integers(0, 2, (16, 3)) for _ in range(500)]
    rows = [env.step(row)[0].view(np.uint32).copy() for row in actions]
    assert checksum(rows) == 4089082286  # changes when rules or random streams do
