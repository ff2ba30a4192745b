"""What an episode came to: the observation that the reset inside a step overwrites, kept for those who want it."""

from __future__ import annotations

import gc
import sys

import gymnasium
import numpy as np
import pytest
from breakout_reference import play_frame
from contract import assert_same_rollout, each_case, each_name, random_actions, random_actions_until, rollout
from game import Game
from test_breakout import SCALE as BREAKOUT_SCALE, state_of
from test_cartpole import peer_step
from test_pong import whole

from pufferlib.ocean.breakout.breakout import Breakout
from pufferlib.ocean.cartpole.cartpole import Cartpole
from pufferlib.ocean.pong.pong import Pong
from pufferlib.ocean.squared.squared import Squared
from pufferlib.ocean.template.template import Template


@each_case
def test_they_are_in_the_space_written_at_ends_alone_and_change_nothing_else(case):
    env, twin = case.make(), case.make()
    final = env.keep_final_observations()
    assert env.keep_final_observations() is final and final.shape == env.observations.shape
    env.reset(3)
    twin.reset(3)
    space, ends = env.single_observation_space, []
    unwritten = np.nan if final.dtype.kind == "f" else np.iinfo(final.dtype).max
    for actions in random_actions_until(env, lambda: any(ends), seed=2):
        final[:] = unwritten
        env.step(actions)
        twin.step(actions)
        ended = env.terminals | env.truncations
        assert env.has_truncations or not env.truncations.any(), "has_truncations is False, and one was set"
        ends.append(ended.any())
        np.testing.assert_array_equal(final[~ended], unwritten)
        assert np.all(final[ended] >= space.low) and np.all(final[ended] <= space.high)
        assert np.all(np.any(final[ended] != unwritten, axis=1)), "c_step ends an episode without keep_final"
    assert_same_rollout(rollout(env, random_actions(env, 50)), rollout(twin, random_actions(twin, 50)))


@each_case
def test_a_snapshot_brings_no_rows_of_its_own(case):
    env, other = case.make(4), case.make(4, seed=1)
    final = env.keep_final_observations()
    for each in (env, other):
        each.reset(0)
    other.restore(env.snapshot())  # whose rows those of env must not become
    final[:] = 1
    for actions in random_actions(other, 1000):
        other.step(actions)
    assert np.all(final == 1)
    env.restore(other.snapshot())
    ends = []
    for actions in random_actions_until(env, lambda: any(ends), seed=1):
        env.step(actions)
        ends.append(np.any(env.terminals | env.truncations))
    assert np.any(final != 1)


def test_cartpole_shows_where_gymnasiums_cart_came_to():
    peer = gymnasium.make("CartPole-v1").unwrapped
    peer.reset(seed=0)
    env = Cartpole(8)
    final = env.keep_final_observations()
    env.reset(0)
    ends = 0
    for actions in random_actions(env, 400):
        before = env.observations.copy()
        env.step(actions)
        for i in np.flatnonzero(env.terminals):
            expected, _, terminal = peer_step(peer, before[i], int(actions[i]))
            assert terminal
            np.testing.assert_allclose(final[i], expected, rtol=1e-4, atol=1e-6)
            assert np.all(np.abs(env.observations[i]) <= 0.05)
            ends += 1
    assert ends > 50


def test_breakout_shows_the_ball_on_the_floor_and_no_ball_left():
    env = Breakout(64, frameskip=1)
    final = env.keep_final_observations()
    env.reset(0)
    ends = 0
    for actions in random_actions(env, 1500):
        before = env.observations.copy()
        env.step(actions)
        for i in np.flatnonzero(env.terminals):
            state = state_of(before[i])
            direction = int(actions[i] == 2) - int(actions[i] == 1)
            assert not play_frame(state, direction, dict.fromkeys(("floor", "side wall", "paddle"), 0))
            shown = final[i, :10] * BREAKOUT_SCALE
            np.testing.assert_allclose(shown[2:6], [*state.ball, *state.velocity], atol=2e-3)
            np.testing.assert_allclose(shown[[0, 6, 7, 8]], [state.paddle_x, 5, state.score, 0], atol=1e-3)
            np.testing.assert_array_equal(final[i, 10:], before[i, 10:])
            ends += 1
    assert ends > 50


def test_pong_shows_the_last_point():
    env = Pong(32)
    final = env.keep_final_observations()
    env.reset(0)
    ends = 0
    for actions in random_actions(env, 1500):
        before = whole(env.observations)
        env.step(actions)
        ended = np.flatnonzero(env.terminals)
        shown = whole(final[ended])
        for row, agent in zip(shown, ended, strict=True):
            point = np.array([0, 1]) if env.rewards[agent] > 0.5 else np.array([1, 0])
            np.testing.assert_array_equal(row[6:], before[agent, 6:] + point)
            assert row[6:].max() == 21 and abs(row[1] - before[agent, 1]) <= 8 * 8
        ends += len(ended)
    assert ends > 20


def test_squared_shows_the_agent_where_it_went_or_nowhere():
    env = Squared(64, size=5)
    final = env.keep_final_observations()
    env.reset(0)
    moves = [(0, 0), (1, 0), (-1, 0), (0, -1), (0, 1)]
    seen = set()
    for actions in random_actions(env, 300):
        before = env.observations.reshape(64, 5, 5).copy()
        env.step(actions)
        for i in np.flatnonzero(env.terminals):
            expected = before[i].copy()
            row, column = np.argwhere(expected == 1)[0]
            expected[row, column] = 0
            row, column = row + moves[actions[i]][0], column + moves[actions[i]][1]
            is_inside = 0 <= row < 5 and 0 <= column < 5
            if is_inside:
                expected[row, column] = 1
            np.testing.assert_array_equal(final[i].reshape(5, 5), expected)
            seen.add((is_inside, float(env.rewards[i])))
    assert seen == {(False, -1.0), (True, 1.0), (True, -1.0)}


def test_template_shows_the_question_that_nobody_answers():
    env = Template(2000, rounds=1)
    final = env.keep_final_observations()
    env.reset(0)
    env.step(np.zeros(2000, np.int32))
    counts = np.bincount(final[:, 0] * 4 + env.observations[:, 0], minlength=16)
    assert np.all(np.abs(counts - 125) < 5 * 125**0.5)  # it tells nothing of the next episode's


@pytest.mark.quick("puffer_target", "puffer_drone")
@each_name
def test_the_rows_are_held_until_they_are_exchanged_or_the_vec_is_closed(name):
    game = Game(name)
    singles = [game.single() for _ in range(2)]
    for vec in (game.vec(2), game.binding.vectorize(*singles)):
        one, other = game.arrays(2)[0], game.arrays(2)[0]
        counts = [sys.getrefcount(one), sys.getrefcount(other)]
        game.binding.vec_keep_final(vec, one)
        assert sys.getrefcount(one) > counts[0]
        game.binding.vec_keep_final(vec, other)
        assert sys.getrefcount(one) == counts[0] and sys.getrefcount(other) > counts[1]
        game.binding.vec_close(vec)
        gc.collect()
        assert sys.getrefcount(other) == counts[1]
        with pytest.raises(ValueError, match="closed"):
            game.binding.vec_keep_final(vec, one)
    arrays = game.arrays(1)
    again = game.binding.vectorize(game.single(arrays=arrays))  # environments made one by one outlive their vec
    final = game.arrays(1)[0]
    game.binding.vec_keep_final(again, final)
    game.binding.vec_keep_final(again, None)
    game.binding.vec_reset(again, 0)
    generator = np.random.default_rng(0)
    for _ in range(2000):
        game.fill_actions(arrays[1], generator)
        game.binding.vec_step(again)
    assert not final.any()


@each_name
def test_rows_that_do_not_fit_are_refused(name):
    game = Game(name)
    arrays = game.arrays(3)
    vec = game.vec(3, arrays=arrays)
    good = game.arrays(3)[0]
    game.binding.vec_keep_final(vec, good)
    read_only = good.copy()
    read_only.flags.writeable = False
    unfit = (good[:2], good.astype(np.float64), np.repeat(good, 2, axis=0)[::2], read_only)
    for wrong in unfit:
        with pytest.raises(ValueError, match="final_observations must be a writable C-contiguous .* got a"):
            game.binding.vec_keep_final(vec, wrong)
    with pytest.raises(ValueError, match="must not share memory"):
        game.binding.vec_keep_final(vec, arrays[0])
    for wrong in (3, "text"):
        with pytest.raises(TypeError, match="bytes-like"):
            game.binding.vec_keep_final(vec, wrong)
