"""Backgammon against OpenSpiel move by move, and positions with known answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from checked_headers import weekly_unless_changed
from contract import checksum
from open_spiel_games import pyspiel

from pufferlib.errors import APIUsageError
from pufferlib.ocean.backgammon.backgammon import PASS, Backgammon

POINTS, BAR, HOME = 24, 24, 6
DICE = slice(196, 202)
START = {6: 5, 8: 3, 13: 5, 24: 2}  # checkers by point, from 1


def counts(row, is_other):
    """The checkers of a side by point, from the side of whose observation it is, then on the bar and borne off."""
    points = row[96 * is_other : 96 * is_other + 96].reshape(POINTS, 4).astype(int)
    return [*points.sum(axis=1).tolist(), int(row[192 + is_other]), int(row[194 + is_other])]


def dice(row):
    """The dice that are left, in falling order."""
    return [die for die in range(6, 0, -1) for _ in range(row[DICE][die - 1])]


def act(env, action):
    env.step(np.full(env.num_agents, action, np.int32))
    return env.rewards.copy(), bool(env.terminals[0])


def as_move(action, roll):
    """A point or the bar, and the pips that an action moves."""
    return int(action % 25), roll[action // 25]


def spiel_moves(state, player):
    """What each action of OpenSpiel's does, as moves like ours in the order in which they are played."""
    found = {}
    for action in state.legal_actions():
        moves = state.spiel_move_to_checker_moves(player, action)
        places = [min(move.pos, BAR) if move.pos >= POINTS or player == 1 else POINTS - 1 - move.pos for move in moves]
        found[action] = [(place, move.num) for place, move in zip(places, moves, strict=True) if move.pos >= 0]
    return found


def check_board(state, env, first):
    """Holds both observations to OpenSpiel's board, where player 0 moves up and player 1 down."""
    for agent, row in enumerate(env.observations):
        for is_other in (False, True):
            side = first ^ agent ^ is_other
            board = [state.board(side, place) for place in range(POINTS)]
            seen = counts(row, is_other)[:POINTS]
            assert seen == (board[::-1] if (side == 0) != is_other else board)


def roll_in(state, env):
    """Gives OpenSpiel the roll that our game has."""
    roll = dice(env.observations[0])
    words = "".join(map(str, sorted(set(roll)))) if len(roll) == 2 else f"{roll[0]}{roll[0]}"
    for action, _ in state.chance_outcomes():
        if f"roll: {words})" in state.action_to_string(-1, action):
            state.apply_action(action)
            return
    raise AssertionError(f"expected a roll of {words}")


def play_turn(state, env, first, generator):
    """Plays what OpenSpiel takes for one action, at random; returns rewards, whether the game is over, and moves."""
    player, mover = state.current_player(), int(np.argmax(env.masks))
    assert env.masks.sum() == 1 and mover == first ^ player
    choices = spiel_moves(state, player)
    roll = dice(env.observations[0])
    roll = roll if len(roll) == 2 and roll[0] != roll[1] else roll[:1] * 2
    played, is_over, rewards = [], False, None
    while True:
        fitting = [moves for moves in choices.values() if moves[: len(played)] == played]
        expected = {moves[len(played)] for moves in fitting if len(moves) > len(played)}
        if not expected:
            break
        legal = np.flatnonzero(env.action_masks[mover])
        assert {as_move(action, roll) for action in legal} == expected and PASS not in legal
        action = int(generator.choice(legal))
        played.append(as_move(action, roll))
        rewards, is_over = act(env, action)
        if is_over or len(played) == 2:
            break
    if not played:
        assert np.flatnonzero(env.action_masks[mover]).tolist() == [PASS]
        act(env, PASS)
    state.apply_action(next(action for action, moves in choices.items() if moves == played))
    return rewards, is_over, len(played)


def replay(num_games, seed):
    env, generator, num_moves, results = Backgammon(1, "self"), np.random.default_rng(seed), 0, []
    game = pyspiel().load_game("backgammon(scoring_type=full_scoring,max_player_turns=100000)")
    env.reset(seed)
    for _ in range(num_games):
        state, first = game.new_initial_state(), int(np.argmax(env.masks))
        roll_in(state, env)  # of its two outcomes with these dice the first lets player 0 begin
        is_over = False
        while not is_over:
            check_board(state, env, first)
            rewards, is_over, played = play_turn(state, env, first, generator)
            num_moves += played
            assert is_over == state.is_terminal()
            # The second half of a double is an action of its own, which can be to pass; ours is over then.
            if (
                not is_over
                and not state.is_chance_node()
                and (first ^ state.current_player()) != int(np.argmax(env.masks))
            ):
                assert list(spiel_moves(state, state.current_player()).values()) == [[]]
                state.apply_action(state.legal_actions()[0])
            if not is_over and state.is_chance_node():
                roll_in(state, env)
        np.testing.assert_array_equal(rewards, np.array(state.returns())[[first, 1 - first]])
        results.append(abs(int(rewards[0])))
    return num_moves, results


@pytest.mark.slow
def test_games_are_those_of_open_spiel():
    num_moves, results = replay(50, 0)
    assert num_moves > 5000 and {1, 2} <= {*results}


@pytest.mark.slow
@weekly_unless_changed("puffer_backgammon")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.weekly) for seed in range(2, 11))])
def test_ten_thousand_games_are_those_of_open_spiel(seed):
    num_moves, results = replay(1000, seed)
    assert num_moves > 100_000 and {*results} == {1, 2, 3}


def test_a_game_begins_as_it_is_set_up():
    env = Backgammon(200, "self")
    env.reset(0)
    for row in env.observations:
        for is_other in (False, True):
            seen = counts(row, is_other)
            points = seen[:POINTS][::-1] if is_other else seen[:POINTS]
            assert points == [START.get(point + 1, 0) for point in range(POINTS)] and seen[POINTS:] == [0, 0]
    rolls = [dice(row) for row in env.observations[::2]]
    assert all(len(roll) == 2 and roll[0] > roll[1] for roll in rolls)
    assert env.masks.reshape(-1, 2).sum(axis=1).tolist() == [1] * 200
    assert 60 < env.masks[::2].sum() < 140  # who begins is drawn
    assert (env.observations[:, 202] == env.masks).all()


def test_an_opening_of_3_and_1():
    """Every checker that can move, by hand: from 24, 13, 8 and 6 by 3 and by 1, but not to the other's points."""
    env = Backgammon(500, "self")
    env.reset(0)
    index = next(i for i in range(0, 1000, 2) if dice(env.observations[i]) == [3, 1])
    mover = index + int(env.masks[index + 1])
    legal = {as_move(action, [3, 1]) for action in np.flatnonzero(env.action_masks[mover])}
    assert legal == {(point - 1, die) for point, die in itertools.product((24, 13, 8, 6), (3, 1))} - {(12, 1)}


def test_checkers_are_fifteen_and_never_on_a_point_of_both():
    env, generator = Backgammon(64, "self"), np.random.default_rng(0)
    env.reset(0)
    for _ in range(300):
        rows = env.observations
        for agent in range(0, 16):
            own, other = counts(rows[agent], False), counts(rows[agent], True)
            assert sum(own) == sum(other) == 15
            assert not any(a and b for a, b in zip(own[:POINTS], other[:POINTS], strict=True))
            assert counts(rows[agent ^ 1], True)[:POINTS] == own[:POINTS][::-1]
        env.step((generator.random(env.action_masks.shape) * env.action_masks).argmax(axis=1).astype(np.int32))


def test_a_game_is_won_by_one_two_or_three_points():
    env, generator = Backgammon(256, "self", report_interval=10**9), np.random.default_rng(0)
    env.reset(0)
    finals = env.keep_final_observations()
    seen = []
    for _ in range(700):
        env.step((generator.random(env.action_masks.shape) * env.action_masks).argmax(axis=1).astype(np.int32))
        for agent in np.flatnonzero(env.terminals & (env.rewards > 0)):
            own, other = counts(finals[agent], False), counts(finals[agent], True)
            assert own[-1] == 15 and env.rewards[agent ^ 1] == -env.rewards[agent]
            is_behind = other[BAR] > 0 or sum(other[:HOME]) > 0
            assert env.rewards[agent] == (1 if other[-1] else 3 if is_behind else 2)
            seen.append(int(env.rewards[agent]))
    assert {*seen} == {1, 2, 3}
    (statistics,) = env.episode_statistics()
    assert statistics["n"] == 2 * len(seen) and statistics["perf"] == 0.5 and statistics["score"] == 0


def test_an_action_that_is_not_legal_is_the_first_that_is():
    for action in (PASS, 51, -1, 2**31 - 1, 1 - 2**31):
        rollouts = []
        for is_legal in (False, True):
            env = Backgammon(1, "self")
            env.reset(5)
            for _ in range(30):
                first = int(np.flatnonzero(env.action_masks[np.argmax(env.masks)])[0])
                act(env, first if is_legal else action)
            rollouts.append(env.observations.copy())
        np.testing.assert_array_equal(*rollouts)


def test_the_bot_beats_chance_and_plays_whole_turns():
    wins = {}
    for share in (0, 100):
        env, generator = Backgammon(128, bot_random=share, report_interval=10**9), np.random.default_rng(0)
        env.reset(0)
        assert env.num_agents == 128 and env.masks.all()
        for _ in range(400):
            env.step((generator.random(env.action_masks.shape) * env.action_masks).argmax(axis=1).astype(np.int32))
            assert env.masks.all() and (env.observations[:, 202] == 1).all()
        wins[share] = env.episode_statistics()[0]["perf"]
    assert wins[0] < 0.1 and 0.4 < wins[100] < 0.6


def test_a_word_that_is_none_is_refused():
    with pytest.raises(APIUsageError, match="opponent must be 'bot' or 'self', got 'pool'"):
        Backgammon(1, opponent="pool")


def test_rollout_is_the_golden_one():
    env = Backgammon(16, "self")
    env.reset(42)
    rows = np.arange(32)
    assert (
        checksum([env.step((rows * 3 + i * i) % 51)[0].copy() for i in range(128)]) == 4107519553
    )  # changes when rules or random streams do
