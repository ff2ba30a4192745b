"""Othello against published counts, OpenSpiel, and a plain search."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np
import pytest
from checked_headers import weekly_unless_changed
from contract import checksum
from oracles import replay
from searching import ROOT, Searcher

from pufferlib.ocean.othello.othello import Othello

PASS = 64
DIRECTIONS = [(up, right) for up in (-1, 0, 1) for right in (-1, 0, 1) if up or right]


class Board(ctypes.Structure):
    _fields_ = [("own", ctypes.c_uint64), ("other", ctypes.c_uint64)]


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    header = ROOT / "ocean/othello/othello.h"
    return Searcher(header, Board, ctypes.c_int, tmp_path_factory.mktemp("othello"))


# A second implementation: cells walked one by one.


def turned(own, other, cell):
    """The discs that a new one turns over."""
    found = 0
    for up, right in DIRECTIONS:
        row, column, line = cell // 8 + up, cell % 8 + right, 0
        while 0 <= row < 8 and 0 <= column < 8 and other >> 8 * row + column & 1:
            line |= 1 << 8 * row + column
            row, column = row + up, column + right
        if 0 <= row < 8 and 0 <= column < 8 and own >> 8 * row + column & 1:
            found |= line
    return found


def legal_moves(own, other):
    """Cells, or a pass where only the other has some; empty at the end."""
    cells = [cell for cell in range(64) if not (own | other) >> cell & 1 and turned(own, other, cell)]
    if cells or not any(not (own | other) >> cell & 1 and turned(other, own, cell) for cell in range(64)):
        return cells
    return [PASS]


def after(own, other, move):
    if move == PASS:
        return other, own
    flips = turned(own, other, move)
    return other & ~flips, own | flips | 1 << move


@lru_cache(maxsize=200_000)
def lead_at_the_end(own, other):
    """Discs more than the other's after perfect play."""
    moves = legal_moves(own, other)
    if not moves:
        return own.bit_count() - other.bit_count()
    return max(-lead_at_the_end(*after(own, other, move)) for move in moves)


def random_board(generator, empty):
    """A position with so many empty cells."""
    own, other = 1 << 28 | 1 << 35, 1 << 27 | 1 << 36
    while 64 - (own | other).bit_count() > empty:
        moves = legal_moves(own, other)
        if not moves:
            return random_board(generator, empty)
        own, other = after(own, other, int(generator.choice(moves)))
    return own, other


def test_games_are_as_many_as_published(game):
    """OEIS A124004, and Aart Bik's page."""
    board = Board(1 << 28 | 1 << 35, 1 << 27 | 1 << 36)
    assert [game.perft(board, depth) for depth in range(1, 9)] == [4, 12, 56, 244, 1396, 8200, 55092, 390216]


def test_moves_are_those_of_the_second_implementation(game):
    generator, passes = np.random.default_rng(0), 0
    for empty in [*range(1, 56, 3)] * 6:
        own, other = random_board(generator, empty)
        moves = legal_moves(own, other)
        assert sorted(game.moves(Board(own, other))) == moves
        for move in moves:
            board = game.play(Board(own, other), move)
            assert (board.own, board.other) == after(own, other, move)
        passes += moves == [PASS]
    assert passes


def test_the_last_moves_are_those_of_perfect_play(game):
    generator, signs = np.random.default_rng(1), set()
    for empty in (1, 2, 3, 4) * 8:
        own, other = random_board(generator, empty)
        lead = lead_at_the_end(own, other)
        assert game.value(Board(own, other), 8) == 1000 * lead
        signs.add(np.sign(lead))
    assert signs >= {-1, 1}


class Spiel:
    """A game in OpenSpiel."""

    def __init__(self):
        import pyspiel

        self.state = pyspiel.load_game("othello").new_initial_state()

    def player(self):
        return self.state.current_player()

    def legal(self):
        return self.state.legal_actions()

    def play(self, action):
        self.state.apply_action(action)

    def outcome(self):
        return int(self.state.returns()[0]) if self.state.is_terminal() else None

    def board(self, player):
        rows = [line.split()[1:9] for line in str(self.state).splitlines() if line[:1].isdigit()]
        signs = {"-": 0, "x": 1 + player, "o": 2 - player}
        shown = np.array([signs[sign] for row in rows for sign in row], np.uint8)
        if not self.state.is_terminal() and self.state.current_player() == player:
            shown[[cell for cell in self.state.legal_actions() if cell != PASS]] = 3
        return shown


def make_two(num_envs):
    return Othello(num_envs, opponent="self")


def test_random_games_are_those_of_openspiel():
    pytest.importorskip("pyspiel", reason="the other program; pip install open-spiel")
    assert replay(make_two, Spiel, 50)[0] > 2900


@pytest.mark.slow
@weekly_unless_changed("puffer_othello")
@pytest.mark.parametrize("games", [1_000, pytest.param(10_000, marks=pytest.mark.weekly)])
def test_thousands_of_random_games_are_those_of_openspiel(games):
    pytest.importorskip("pyspiel", reason="the other program; pip install open-spiel")
    moves, *outcomes = replay(make_two, Spiel, games, seed=1, every=30)
    assert moves > 59 * games and min(outcomes) > games // 50


def masked_actions(env, generator):
    return np.array([generator.choice(np.flatnonzero(row)) for row in env.action_masks], np.int32)


def test_other_actions_stand_for_the_next_legal_one():
    for action, cell in ((0, 19), (19, 19), (20, 26), (44, 44), (45, 19), (64, 19), (-1, None), (2**31 - 1, None)):
        env = make_two(1)
        env.reset(0)
        row = int(env.masks.argmax())
        before = env.observations[row].copy()
        env.step(np.full(2, action, np.int32))
        placed = np.flatnonzero((before % 3 == 0) & (env.observations[row] == 1)).tolist()
        assert len(placed) == 1 and cell in (None, placed[0])


def test_a_stronger_bot_wins_more_against_chance():
    scores = []
    for depth in (0, 1, 3):
        env = Othello(200, bot_depth=depth, bot_random=0, report_interval=10**9)
        env.reset(0)
        generator = np.random.default_rng(depth)
        for _ in range(100):
            env.step(masked_actions(env, generator))
        scores.append(env.episode_statistics()[0]["perf"])
    assert 0.4 < scores[0] < 0.6 and scores[1] < 0.25 and scores[2] < 0.1


def test_depth_0_and_chance_alone_are_the_same_bot():
    scores = []
    for kwargs in ({"bot_depth": 0, "bot_random": 0}, {"bot_depth": 2, "bot_random": 100}):
        env = Othello(500, report_interval=10**9, **kwargs)
        env.reset(0)
        for i in range(200):
            env.step(np.full(500, i * 7 % 65, np.int32))
        scores.append(env.episode_statistics()[0]["perf"])
    assert scores[0] == pytest.approx(scores[1], abs=0.05)


def test_colours_are_drawn_by_chance():
    env = make_two(2000)
    env.reset(0)
    assert abs(int(env.masks[::2].sum()) - 1000) < 5 * 500**0.5
    assert np.array_equal(env.masks[::2], ~env.masks[1::2])


def test_rollout_is_the_golden_one():
    env = make_two(16)
    env.reset(42)
    rows = np.arange(32)
    observed = [env.step((rows * 7 + i * i) % 65)[0].copy() for i in range(256)]
    assert checksum(observed) == 221831523  # printed by the lines above; changes when rules or random streams do
