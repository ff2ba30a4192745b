"""connect4, go and checkers between two agents: turns, masks, what each sees, and who is paid."""

from __future__ import annotations

import numpy as np
import pytest
from test_checkers import MOVABLE_MAN, REACHABLE, Reference

from pufferlib.errors import APIUsageError
from pufferlib.ocean.checkers.checkers import Checkers
from pufferlib.ocean.connect4.connect4 import Connect4
from pufferlib.ocean.go.go import Go

GAMES = (Connect4, Go, Checkers)
each_game = pytest.mark.parametrize("game", GAMES, ids=lambda game: game.__name__)


def play(env, steps, seed=0):
    """Plays legal moves at random; yields who moved before each step, its actions, and what the step returned."""
    generator = np.random.default_rng(seed)
    env.reset(seed=5)
    for _ in range(steps):
        before = env.masks.copy()
        weights = env.action_masks * generator.random(env.action_masks.shape)
        actions = weights.argmax(1).astype(np.int32)
        yield before, actions, env.step(actions)


@each_game
def test_one_of_two_is_to_move_and_both_are_paid_at_the_end(game):
    env, ended = game(num_envs=16, opponent="self", report_interval=10**9), 0
    for before, _, (_, rewards, terminals, truncations, _) in play(env, 400):
        assert (before.reshape(-1, 2).sum(1) == 1).all()
        assert env.action_masks[env.masks].any(1).all()
        pairs, over = rewards.reshape(-1, 2), (terminals | truncations).reshape(-1, 2)
        assert (pairs.sum(1) == 0).all() and (over[:, 0] == over[:, 1]).all()
        assert (pairs[~over[:, 0]] == 0).all()
        ended += over[:, 0].sum()
    log = env.episode_statistics()[0]
    assert log["n"] == 2 * ended > 0 and log["perf"] == pytest.approx(0.5) and log["episode_return"] == 0
    env.close()


@each_game
def test_with_a_bot_there_is_one_agent_who_always_acts_by_its_legal_moves(game):
    env = game(num_envs=8)
    for before, _, _ in play(env, 200):
        assert env.num_agents == 8 and before.all() and env.action_masks.any(1).all()
    env.close()


@each_game
def test_who_begins_is_drawn_evenly(game):
    env = game(num_envs=400, opponent="self")
    env.reset(seed=2)
    assert 160 < env.masks[0::2].sum() < 240
    env.close()


@each_game
def test_another_opponent_is_refused(game):
    with pytest.raises(APIUsageError, match="opponent must be 'bot' or 'self', got 'pool'"):
        game(opponent="pool")


def test_both_see_the_discs_as_their_own_and_the_others():
    env = Connect4(num_envs=4, opponent="self")
    for before, actions, (observations, *_) in play(env, 100):
        assert np.array_equal(observations[0::2], np.array([0, 2, 1, 4, 3, 5])[observations[1::2]])
        columns = ~np.isin(observations.reshape(8, 6, 7), (1, 2)).all(1)
        assert np.array_equal(env.action_masks, columns)
        assert before.sum() == 4 and actions.max() < 7
    env.close()


def test_four_in_a_line_win_and_a_full_column_loses():
    env = Connect4(num_envs=1, opponent="self")
    env.reset(seed=1)
    first = int(env.masks.argmax())
    for column in (0, 1, 0, 1, 0, 1):
        env.step(np.full(2, column, np.int32))
        assert not env.terminals.any()
    env.step(np.zeros(2, np.int32))  # the fourth of who began
    assert env.terminals.all() and env.rewards[first] == 1 and env.rewards[1 - first] == -1
    mover = int(env.masks.argmax())
    for column in (0, 0, 0, 0, 0, 0):
        env.step(np.full(2, column, np.int32))
    assert not env.action_masks[mover, 0] and not env.terminals.any()
    env.step(np.zeros(2, np.int32))
    assert env.terminals.all() and env.rewards[mover] == -1
    env.close()


def test_both_sides_of_checkers_move_up_on_a_board_of_their_own():
    env = Checkers(num_envs=4, opponent="self")
    kings = 0
    for _ in play(env, 600, seed=3):
        for agent in env.masks.nonzero()[0]:
            seen = env.observations[agent]
            assert env.action_masks[agent].nonzero()[0].tolist() == sorted(Reference.observed(seen).moves())
            waiting = env.observations[agent ^ 1]
            assert not (waiting >= MOVABLE_MAN).any()
            own = np.isin(seen, (1, 2, MOVABLE_MAN, MOVABLE_MAN + 1))
            other = np.isin(waiting[::-1], (3, 4))
            assert np.array_equal(own, other) and (seen == REACHABLE).any()
            kings += int((seen == MOVABLE_MAN + 1).any())
    assert kings > 10
    env.close()


def test_both_sides_of_go_see_the_stones_and_who_waits_sees_no_legal_point():
    size = 5
    env = Go(num_envs=4, size=size, opponent="self")
    for _ in play(env, 200):
        boards = env.observations[:, : 6 * size * size].reshape(4, 2, 6, size * size)
        assert np.array_equal(boards[:, 0, 0], boards[:, 1, 1]) and np.array_equal(boards[:, 0, 1], boards[:, 1, 0])
        assert np.array_equal(boards[:, 0, 2], boards[:, 1, 3])
        allowed = env.action_masks.reshape(4, 2, -1)
        assert np.array_equal(allowed[..., :-1], boards[:, :, 4]) and allowed[..., -1].all()
        waits = ~env.masks.reshape(4, 2)
        assert not boards[:, :, 4:][waits].any()
        black = env.observations[:, -2].reshape(4, 2)
        assert (black.sum(1) == 1).all()
    env.close()


def test_a_game_of_go_is_won_by_the_points_of_both():
    env = Go(num_envs=1, size=3, opponent="self")
    env.reset(seed=1)
    mover = int(env.masks.argmax())
    for _ in range(2):  # passes: white has 7.5 points more
        env.step(np.full(2, 9, np.int32))
    assert env.terminals.all() and env.rewards[mover] == -1 and env.rewards[1 - mover] == 1
    env.close()


@each_game
def test_a_snapshot_of_one_form_is_not_taken_by_the_other(game):
    one, two = game(num_envs=1), game(num_envs=1, opponent="self")
    for env in (one, two):
        env.reset(seed=1)
    with pytest.raises(APIUsageError):
        two.restore(one.snapshot())
    with pytest.raises(APIUsageError):
        one.restore(two.snapshot())
    for env in (one, two):
        env.close()
