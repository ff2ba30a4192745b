"""Connect Four against published counts, a plain search, and a second implementation of the rules."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np
import pytest
from contract import checksum
from searching import ROOT, Searcher

from pufferlib.ocean.connect4.connect4 import Connect4

WON = 1000
COLUMNS, ROWS = 7, 6
OWN, OTHER = 1, 2  # discs, as they are seen


class Board(ctypes.Structure):
    _fields_ = [("own", ctypes.c_uint64), ("other", ctypes.c_uint64)]


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    header = ROOT / "ocean/connect4/connect4.h"
    return Searcher(header, Board, ctypes.c_uint64, tmp_path_factory.mktemp("connect4"))


# A second implementation: sets of cells, row * 7 + column, and the 69 lines of four that there are.


def lines():
    for row in range(ROWS):
        for column in range(COLUMNS):
            for up, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(row + i * up, column + i * right) for i in range(4)]
                if all(y < ROWS and 0 <= x < COLUMNS for y, x in cells):
                    yield sum(1 << (COLUMNS * y + x) for y, x in cells)


LINES = list(lines())
LINES_AT = [[line for line in LINES if line >> cell & 1] for cell in range(ROWS * COLUMNS)]


def landings(discs):
    """The cells where a disc comes to rest."""
    columns = ([COLUMNS * row + column for row in range(ROWS)] for column in range(COLUMNS))
    return [free[0] for cells in columns if (free := [cell for cell in cells if not discs >> cell & 1])]


def wins(discs, cell):
    return any(discs & line == line for line in LINES_AT[cell])


@lru_cache(maxsize=1_000_000)
def minimax(own, other, depth):
    """The plain search, on a board that nobody has won."""
    cells = landings(own | other)
    if depth == 0 or not cells:
        return 0
    return max(gain(own, other, cell, depth) for cell in cells)


def gain(own, other, cell, depth):
    """What a disc is worth to who drops it."""
    own |= 1 << cell
    return WON + depth - 1 if wins(own, cell) else -minimax(other, own, depth - 1)


def in_columns(discs):
    """The same cells as the game numbers them."""
    return sum(1 << (7 * (cell % COLUMNS) + cell // COLUMNS) for cell in range(42) if discs >> cell & 1)


def as_board(own, other):
    return Board(in_columns(own), in_columns(other))


def discs_of(observation):
    """The agent's cells and the bot's."""
    own, other = (sum(1 << int(cell) for cell in np.nonzero(observation == disc)[0]) for disc in (OWN, OTHER))
    assert observation.shape == (42,)
    return own, other


def kind_of(cell, own, other):
    """What is seen of a cell."""
    if (own | other) >> cell & 1:
        return OWN if own >> cell & 1 else OTHER
    return {(0, 0): 0, (1, 0): 3, (0, 1): 4, (1, 1): 5}[wins(own | 1 << cell, cell), wins(other | 1 << cell, cell)]


def random_discs(generator, count):
    """A board that nobody has won."""
    own = other = 0
    while count:
        cell = int(generator.choice(landings(own | other)))
        if wins(own | 1 << cell, cell):
            return random_discs(generator, count + (own | other).bit_count())
        own, other, count = other, own | 1 << cell, count - 1
    return own, other


def step(env, action):
    _, rewards, terminals, truncations, _ = env.step(np.full(env.num_agents, action, np.int32))
    return float(rewards[0]), bool(terminals[0]), bool(truncations[0])


def test_games_are_as_many_as_published(game):
    counts = [game.perft(Board(0, 0), plies) for plies in range(9)]
    assert counts == [1, 7, 49, 343, 2401, 16807, 117649, 823536, 5673234]


def test_positions_are_as_many_as_published(game):
    """The number of different boards after so many discs: OEIS A212693."""
    boards, counts = {(0, 0)}, []
    for _ in range(6):
        followers = {board: game.moves(Board(*board)) for board in boards}
        following = [game.play(Board(*board), move) for board, moves in followers.items() for move in moves]
        boards = {(board.own, board.other) for board in following}
        counts.append(len(boards))
    assert counts == [7, 49, 238, 1120, 4263, 16422]


@pytest.mark.parametrize("count", [6, 10, 14, 20, 28, 36, 40])
def test_values_are_those_of_plain_minimax(game, count):
    generator, values = np.random.default_rng(count), set()
    for _ in range(8):
        own, other = random_discs(generator, count)
        for depth in range(5):
            value = game.value(as_board(own, other), depth)
            assert value == minimax(own, other, depth), (own, other, depth)
            values.add(value)
    assert len(values) > 1


@pytest.mark.parametrize(
    ("discs", "sign"),
    [
        ("2252576253462244111563365343671351441", -1),
        ("7422341735647741166133573473242566", 1),
        ("23163416124767223154467471272416755633", 0),
        ("65214673556155731566316327373221417", -1),
    ],
)
def test_the_ends_of_solved_games_are_known(game, discs, sign):
    """Columns from 1, in the order of play; solved by Pascal Pons's program, blog.gamesolver.org."""
    board = Board(0, 0)
    for disc in discs:
        (move,) = (
            cell for cell in game.moves(board) if cell.bit_length() - 1 in range(7 * int(disc) - 7, 7 * int(disc))
        )
        board = game.play(board, move)
    assert np.sign(game.value(board, 8)) == sign


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_every_step_is_the_agents_disc_and_one_of_the_bots_best(depth):
    env = Connect4(1, bot_depth=depth, bot_random=0)
    env.reset(depth)
    finals = env.keep_final_observations()
    generator, outcomes = np.random.default_rng(0), []
    own, other = discs_of(env.observations[0])
    for _ in range(30):
        cell = int(generator.choice(landings(own | other)))
        reward, terminal, truncation = step(env, cell % COLUMNS)
        own |= 1 << cell
        after, answered = discs_of((finals if terminal else env.observations)[0])
        assert after == own and not truncation
        if wins(own, cell):
            assert (reward, terminal, answered) == (1.0, True, other)
        else:
            gains = {other | 1 << i: gain(other, own, i, depth) for i in landings(own | other)}
            assert gains[answered] == max(gains.values())
            is_lost = wins(answered, (answered ^ other).bit_length() - 1)
            assert (reward, terminal) == (-1.0 if is_lost else 0.0, is_lost)
        outcomes.append(reward)
        own, other = discs_of(env.observations[0])
        assert [kind_of(cell, own, other) for cell in range(42)] == list(env.observations[0])
        assert not terminal or (own == 0 and other.bit_count() < 2)
    assert -1.0 in outcomes


def test_a_full_column_and_a_number_that_is_none_lose():
    env = Connect4(1, bot_depth=4, bot_random=0)
    finals = env.keep_final_observations()
    for action in (7, -1, 2**31 - 1, -(2**31)):
        env.reset(0)
        before = env.observations[0].copy()
        assert step(env, action) == (-1.0, True, False)
        np.testing.assert_array_equal(finals[0], before)
    lost = 0
    for seed in range(30):
        env.reset(seed)
        while env.observations[0, -COLUMNS] not in (OWN, OTHER):  # the highest cell of the first column
            if step(env, 0)[1]:
                break
        else:
            assert step(env, 0) == (-1.0, True, False)
            lost += 1
    assert lost >= 3


def test_who_begins_is_drawn_by_chance():
    env = Connect4(4000)
    env.reset(0)
    begun = (env.observations != 0).sum(axis=1)
    assert set(begun) == {0, 1} and set(env.observations[begun == 1].max(axis=1)) == {OTHER}
    assert abs(begun.sum() - 2000) < 5 * 1000**0.5


def test_a_draw_is_half_a_win():
    env = Connect4(2000, bot_depth=0, report_interval=10**9)
    env.reset(0)
    finals = env.keep_final_observations()
    generator = np.random.default_rng(0)
    outcomes = []
    for _ in range(60):
        heights = np.isin(env.observations, (OWN, OTHER)).reshape(-1, ROWS, COLUMNS).sum(axis=1)
        env.step(np.argmax(generator.random(heights.shape) * (heights < ROWS), axis=1).astype(np.int32))
        ended = env.terminals
        drawn = ended & (env.rewards == 0.0)
        assert np.all(np.isin(finals[drawn], (OWN, OTHER)))
        outcomes += list(env.rewards[ended])
    assert outcomes.count(0.0) > 5
    (statistics,) = env.episode_statistics()
    assert statistics["n"] == len(outcomes)
    assert statistics["score"] == pytest.approx(np.mean(outcomes), abs=1e-5)
    assert statistics["perf"] == pytest.approx(0.5 + 0.5 * np.mean(outcomes), abs=1e-5)


def test_depth_0_and_chance_alone_are_the_same_bot():
    rollouts = []
    for kwargs in ({"bot_depth": 0, "bot_random": 0}, {"bot_depth": 4, "bot_random": 100}):
        env = Connect4(500, report_interval=10**9, **kwargs)
        env.reset(0)
        for i in range(200):
            env.step(np.full(500, i % COLUMNS, np.int32))
        rollouts.append(env.episode_statistics()[0]["perf"])
    assert rollouts[0] == pytest.approx(rollouts[1], abs=0.03)


def test_rollout_is_the_golden_one():
    env = Connect4(16)
    env.reset(42)
    rows = np.arange(16)
    observed = [env.step((rows * 3 + i * i) % 7)[0].astype(np.int8) for i in range(128)]
    assert checksum(observed) == 4282721902  # printed by the lines above; changes when rules or random streams do
