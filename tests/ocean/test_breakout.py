import collections
import hashlib

import numpy as np
import pytest
from breakout_reference import POINTS, State, play_frame
from hypothesis import given, settings, strategies as st

from pufferlib.ocean.breakout.breakout import Breakout

SCALE = np.array([576, 330, 576, 330, 512, 512, 5, 864, 5, 62], np.float64)  # observations to pixels and counts
LEGAL_SPEEDS = np.array([0.0, 256.0, 320.0, 384.0, 448.0])
BALL_START = [272.0, 135.0]


def make(num_envs=1, seed=0, **kwargs):
    env = Breakout(num_envs=num_envs, seed=seed, **kwargs)
    env.reset(seed)
    return env


def follow(observations, offset=0.0):
    """Actions that keep the paddle's middle `offset` paddle widths beside the ball's."""
    state = observations[:, :10] * SCALE
    distance = state[:, 2] + 16.0 - (state[:, 0] + state[:, 9] * (0.5 + offset))
    return np.where(distance > 6.0, 2, np.where(distance < -6.0, 1, 0)).astype(np.int32)


class FollowingPlayer:
    """Catches every ball, each time at another place of the paddle."""

    def __init__(self, num_envs, seed=0):
        self.random = np.random.default_rng(seed)
        self.offset = np.zeros(num_envs)

    def actions(self, observations):
        is_new = (observations[:, 5] < 0.0) & (self.random.random(len(observations)) < 0.05)
        self.offset = np.where(is_new, self.random.uniform(-0.45, 0.45, len(observations)), self.offset)
        return follow(observations, self.offset)


def state_of(row, hits=0, is_second_wall=False):
    values = row[:10].astype(np.float64) * SCALE
    return State(
        ball=values[2:4].copy(),
        velocity=values[4:6].copy(),
        paddle_x=values[0],
        paddle_width=round(values[9]),
        speed=round(np.hypot(*values[4:6])),
        hits=hits,
        score=round(values[7]),
        is_broken=row[10:] == 1.0,
        is_second_wall=is_second_wall,
    )


# ------------------------------------------------------------------------------------------------ spaces and actions


@pytest.mark.parametrize("continuous", [False, True])
def test_random_play_stays_in_the_declared_space(continuous):
    env = make(num_envs=37, continuous=continuous)
    space = env.single_observation_space
    assert (space.shape, space.dtype, env.observations.dtype) == ((118,), np.float32, np.float32)
    assert np.array_equal(np.flatnonzero(space.low), [4, 5])
    env.action_space.seed(0)
    seen = np.zeros((2, 118))
    for _ in range(1000):
        observations, rewards, *_ = env.step(env.action_space.sample())
        assert np.all((space.low <= observations) & (observations <= space.high))
        assert np.all((rewards >= 0.0) & (rewards <= 864.0))
        seen = np.maximum(seen, [observations.max(axis=0), -observations.min(axis=0)])
    assert np.all(seen[1, 4:6] > 0.2) and np.all(seen[0, 2:6] > 0.2)


def test_actions_outside_the_space_stay():
    env = make(num_envs=4)
    env.step(np.array([0, 3, -1, np.iinfo(np.int32).max], np.int32))
    np.testing.assert_allclose(env.observations[:, 0], 257.0 / 576.0, rtol=1e-6)


def test_actions_move_the_paddle_and_stop_it_at_the_walls():
    env = make(num_envs=3, frameskip=1)
    for frame in range(1, 30):
        env.step(np.array([0, 1, 2], np.int32))
        way = min(frame * 620.0 / 60.0, 257.0)
        np.testing.assert_allclose(env.observations[:, 0] * 576.0, [257.0, 257.0 - way, 257.0 + way], atol=1e-3)


def test_box_actions_are_speeds_and_nonsense_is_harmless():
    env = make(num_envs=6, frameskip=1, continuous=True)
    env.step(np.array([[-1.0], [0.25], [7.0], [-np.inf], [np.inf], [np.nan]], np.float32))
    expected = 257.0 + 620.0 / 60.0 * np.array([-1.0, 0.25, 1.0, -1.0, 1.0, 0.0])
    np.testing.assert_allclose(env.observations[:, 0] * 576.0, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"frameskip": 0}, ValueError, "frameskip must be an integer from 1 to 64, got 0"),
        ({"frameskip": 65}, ValueError, "frameskip must be an integer from 1 to 64, got 65"),
        ({"frameskip": 2.5}, TypeError, "frameskip must be an integer"),
        ({"continuous": 1}, TypeError, "continuous must be True or False, got 1"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        Breakout(num_envs=1, **arguments)


# ------------------------------------------------------------------------------------------------- known trajectories


def test_first_observation():
    env = make(num_envs=3)
    expected = np.zeros(118)
    expected[:10] = [257.0, 312.0, *BALL_START, 0.0, 0.0, 0, 0, 5, 62.0] / SCALE
    np.testing.assert_allclose(env.observations, np.tile(expected, (3, 1)), rtol=1e-6)


def test_serve_is_on_the_first_frame_to_both_sides():
    env = make(num_envs=64, frameskip=1)
    observations, *_ = env.step(np.zeros(64, np.int32))
    velocity = observations[:, 4:6] * 512.0
    np.testing.assert_allclose(np.arctan2(np.abs(velocity[:, 0]), velocity[:, 1]), np.pi / 3.25, atol=1e-6)
    np.testing.assert_allclose(np.hypot(*velocity.T), 256.0, rtol=1e-6)
    np.testing.assert_allclose(observations[:, 2:4] * [576, 330], BALL_START + velocity / 60.0, atol=1e-3)
    assert 16 < np.sum(velocity[:, 0] > 0.0) < 48
    assert np.all(observations[:, 6] == np.float32(1 / 5))


def test_a_ball_nobody_catches_is_lost_on_the_floor():
    env = make(frameskip=1)
    fall = 163.0 / (256.0 * np.cos(np.pi / 3.25) / 60.0)  # frames from the start to the floor
    env.step(np.array([1], np.int32))
    away = np.array([2 if env.observations[0, 4] < 0.0 else 1], np.int32)
    for _ in range(int(fall) - 1):
        env.step(away)
    assert env.observations[0, 8] == 1.0
    env.step(away)
    np.testing.assert_allclose(env.observations[0, [6, 8]], [1 / 5, 4 / 5])
    np.testing.assert_allclose(env.observations[0, 2:6], [272 / 576, 135 / 330, 0.0, 0.0], rtol=1e-6)


def test_five_lost_balls_end_the_episode_and_the_rest_of_the_step_is_not_played():
    env = make(num_envs=8, frameskip=7)
    first = env.observations.copy()
    lengths, steps = [], 0
    for _ in range(400):
        balls = env.observations[:, 8] * 5
        _, rewards, terminals, truncations, _ = env.step(np.ones(8, np.int32))  # runs to the left and stays there
        steps += 1
        assert not truncations.any()
        if terminals[0]:
            assert round(balls[0]) == 1
            np.testing.assert_array_equal(env.observations[0], first[0])  # at rest, not served
            lengths.append(steps)
            steps = 0
    assert len(lengths) >= 3 and min(lengths) > 40


@pytest.mark.slow
def test_c_agrees_with_the_reference_frame_by_frame():
    """Every frame starts from what C shows, so that errors do not pile up; every kind of event must occur."""
    num_envs, checked = 8, (0, 7)  # one that catches everything, one that plays at random
    env = make(num_envs=num_envs, seed=11, frameskip=1)
    player, random = FollowingPlayer(num_envs, seed=5), np.random.default_rng(6)
    events, hits, is_second = collections.Counter(), [0] * num_envs, [False] * num_envs
    actions = np.zeros(num_envs, np.int32)
    for _ in range(9000):
        before = env.observations.copy()
        actions[:7] = player.actions(before)[:7]
        actions[7] = random.integers(3) if random.random() < 0.1 else actions[7]
        _, rewards, terminals, *_ = env.step(actions)
        for i in checked:
            if before[i, 4] == before[i, 5] == 0.0:  # the serve: its side is not known beforehand
                hits[i] = 0
                continue
            state = state_of(before[i], hits[i], is_second[i])
            score = state.score
            is_caught = play_frame(state, (0, -1, 1)[actions[i]], events)
            hits[i] = state.hits
            is_over = state.score == 864 or (not is_caught and round(before[i, 8] * 5) == 1)
            is_second[i] = state.is_second_wall and not is_over
            assert (rewards[i], terminals[i]) == (state.score - score, is_over)
            if not is_caught or is_over:
                assert np.abs(env.observations[i, 2:4] * SCALE[2:4] - BALL_START).max() < 1e-3
                continue
            after = state_of(env.observations[i])
            assert np.array_equal(after.is_broken, state.is_broken)
            assert np.abs(after.ball - state.ball).max() < 0.02  # pixels
            assert np.abs(after.velocity - state.velocity).max() < 0.5  # pixels a second
            assert abs(after.paddle_x - state.paddle_x) < 1e-3
            assert (after.paddle_width, after.speed, after.score) == (state.paddle_width, state.speed, state.score)
    kinds = "side wall", "back wall", "floor", "paddle", "brick side", "brick face", "speed up", "second wall"
    assert all(events[kind] for kind in kinds), events


def test_frameskip_is_the_same_game_in_larger_steps():
    one, four = make(num_envs=64, seed=2, frameskip=1), make(num_envs=64, seed=2, frameskip=4)
    random = np.random.default_rng(0)
    for _ in range(50):  # 3 or 4 paddle hits: each makes differences in rounding some 15 times larger
        actions = np.where(random.random(64) < 0.1, random.integers(0, 3, 64), follow(four.observations)).astype("i4")
        four.step(actions)
        rewards = np.zeros(64)
        for _ in range(4):
            one.step(actions)
            rewards += one.rewards
        np.testing.assert_array_equal(four.rewards, rewards)
        np.testing.assert_allclose(four.observations, one.observations, atol=2e-4)
    assert four.observations[:, 10:].sum() > 50


# ----------------------------------------------------------------------------------------------------- whole episodes


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32), frameskip=st.sampled_from([1, 2, 4, 5]), patience=st.integers(1, 20))
def test_no_ball_escapes_sticks_or_cheats(seed, frameskip, patience):
    """100,000 steps in all: random play that now and then turns into catching."""
    env = make(num_envs=20, seed=seed, frameskip=frameskip)
    random = np.random.default_rng(seed)
    score = np.zeros(20)
    actions = np.zeros(20, np.int32)
    for step in range(500):
        if step % patience == 0:
            actions = np.where(random.random(20) < 0.7, follow(env.observations), random.integers(0, 3, 20))
        observations, rewards, terminals, truncations, _ = env.step(actions.astype(np.int32))
        state = observations[:, :10] * SCALE
        assert np.all((state[:, 2] >= 0.0) & (state[:, 2] <= 544.001))
        assert np.all((state[:, 3] >= 0.0) & (state[:, 3] <= 298.001))
        speed = np.hypot(state[:, 4], state[:, 5])
        assert np.all(np.min(np.abs(speed[:, None] - LEGAL_SPEEDS), axis=1) < 0.01)
        assert np.all((np.abs(state[:, 5]) > 0.56 * speed) | (speed == 0.0))  # never flat
        assert not truncations.any()
        score += rewards
        score[terminals] = 0.0
        broken = observations[:, 10:] @ POINTS
        np.testing.assert_allclose(state[:, 7], score, atol=1e-3)
        assert np.all((broken == score) | (broken == score - 432))
        np.testing.assert_array_equal(observations[terminals, 7], 0.0)
        env.restore(env.snapshot())  # whatever play leads to is accepted


@pytest.fixture(scope="module")
def perfect_games():
    """Play to the end of an episode by a player that never misses, and its record."""
    env = make(num_envs=8, seed=3, frameskip=1, report_interval=10**9)
    player, record = FollowingPlayer(8), collections.defaultdict(list)
    score, length = np.zeros(8), np.zeros(8)
    while len(record["score"]) < 4:
        env.step(player.actions(env.observations))
        env.restore(env.snapshot())  # accepted at every step of whole games
        score, length = score + env.rewards, length + 1
        record["most broken"].append(env.observations[:, 10:].sum(axis=1).max())
        for i in np.flatnonzero(env.terminals):
            record["score"].append(score[i])
            record["length"].append(length[i])
            score[i] = length[i] = 0
        assert length.max() < 40_000
    record["log"] = env.episode_statistics()
    return record


def test_a_player_that_catches_every_ball_clears_both_walls(perfect_games):
    assert set(perfect_games["score"]) == {864.0}
    assert max(perfect_games["most broken"]) == 108


def test_log_is_the_mean_of_the_episodes_played(perfect_games):
    (log,) = perfect_games["log"]
    count = len(perfect_games["score"])
    expected = {"perf": 1.0, "score": 864.0, "episode_return": 864.0, "n": count}
    assert log == pytest.approx({**expected, "episode_length": np.mean(perfect_games["length"])})


def test_log_sums_what_random_play_showed_and_is_cleared_by_reading():
    env = make(num_envs=50, seed=1, report_interval=10**9)
    random = np.random.default_rng(1)
    scores, lengths = [], []
    score, length = np.zeros(50), np.zeros(50)
    for _ in range(600):
        _, rewards, terminals, *_ = env.step(random.integers(0, 3, 50).astype(np.int32))
        score, length = score + rewards, length + 1
        scores += score[terminals].tolist()
        lengths += length[terminals].tolist()
        score[terminals] = length[terminals] = 0
    (log,) = env.episode_statistics()
    assert len(scores) > 100 and np.mean(scores) > 0.1
    expected = {"score": np.mean(scores), "episode_return": np.mean(scores), "perf": np.mean(scores) / 864}
    assert log == pytest.approx({**expected, "episode_length": np.mean(lengths), "n": len(scores)}, rel=1e-5)
    assert env.episode_statistics() == []


# ------------------------------------------------------------------------------------------------------ reproducibility


def rollout_hash(seed, steps=256):
    """What 16 players see: rewards, ends and bricks; positions differ between compilers in the last digits.

    One frame a step, because differences grow with every paddle hit: in 256 frames there are too few to matter.
    """
    env = make(num_envs=16, seed=seed, frameskip=1)
    player, digest = FollowingPlayer(16, seed), hashlib.sha256()
    for _ in range(steps):
        _, rewards, terminals, truncations, _ = env.step(player.actions(env.observations))
        for array in (rewards.astype(np.int32), terminals, truncations, env.observations[:, 10:].astype(np.uint8)):
            digest.update(array.tobytes())
    return digest.hexdigest()


def test_golden_rollout():
    # To make it anew: python -c "from test_breakout import rollout_hash; print(rollout_hash(3))" in tests/ocean
    assert rollout_hash(3) == "af39b421125553050051cf15a3e7ba9fdecc459c287f5e4108fb24c90e51efb1"


def test_one_seed_gives_one_rollout():
    assert rollout_hash(7) == rollout_hash(7)
    assert rollout_hash(7) != rollout_hash(8)


def test_a_restored_snapshot_continues_the_same_game():
    env = make(num_envs=9, seed=4)
    player = FollowingPlayer(9)
    for _ in range(333):
        env.step(player.actions(env.observations))
    snapshot, shown = env.snapshot(), env.observations.copy()

    def play_on():
        random = np.random.default_rng(0)
        for _ in range(200):
            result = env.step(random.integers(0, 3, 9).astype(np.int32))[:4]
            yield [array.copy() for array in result]

    first = list(play_on())
    env.restore(snapshot)
    np.testing.assert_array_equal(env.observations, shown)
    for step, again in zip(first, play_on(), strict=True):
        for expected, found in zip(step, again, strict=True):
            np.testing.assert_array_equal(found, expected)


# -------------------------------------------------------------------------------------------------------------- drawing


def test_drawing_shows_ball_paddle_and_the_bricks_that_stand():
    pytest.importorskip("raylib", reason="drawing needs raylib")
    env = make(seed=3)
    player = FollowingPlayer(1)
    before = env.render().astype(int)
    while env.observations[0, 10:].sum() < 3:
        env.step(player.actions(env.observations))
    frame = env.render().astype(int)
    env.close()
    assert frame.shape == before.shape == (776, 1184, 3)

    def pixel(image, x, y):  # of the field
        return image[100 + round(2 * y), 16 + round(2 * x)].tolist()

    state = state_of(env.observations[0])
    assert pixel(before, 16, 56) == [187, 0, 0]
    for brick in range(108):
        x, y = brick % 18 * 32 + 16, brick // 18 * 12 + 56
        if abs(x - state.ball[0] - 16) > 60 or abs(y - state.ball[1] - 16) > 60:
            assert (pixel(frame, x, y) == [6, 24, 24]) == state.is_broken[brick]
    assert pixel(frame, *(state.ball + 16)) == [241, 241, 241]
    assert pixel(frame, state.paddle_x + state.paddle_width / 2, 316) == [0, 187, 187]
