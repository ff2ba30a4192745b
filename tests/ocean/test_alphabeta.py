"""The search of bots, in a game that is small enough to know by heart."""

from __future__ import annotations

import ctypes
from collections import Counter

import pytest
from searching import ROOT, Searcher

ROWS = (0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124)
WON = 100


class Board(ctypes.Structure):
    _fields_ = [("own", ctypes.c_uint32), ("other", ctypes.c_uint32)]


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    searcher = Searcher(ROOT / "tests/c/tictactoe.h", Board, ctypes.c_int, tmp_path_factory.mktemp("tictactoe"))
    searcher.library.take_positions_seen.restype = ctypes.c_uint64
    return searcher


def minimax(own, other, depth, seen):
    """The plain search: every position down to the depth."""
    seen.append(None)
    if any(other & row == row for row in ROWS):
        return -(WON + depth)
    free = [1 << cell for cell in range(9) if not (own | other) >> cell & 1]
    if depth == 0 or not free:
        return 0
    return max(-minimax(other, own | cell, depth - 1, seen) for cell in free)


def positions(game, board, plies):
    """All positions after so many moves, one for each way to come to them."""
    if plies == 0:
        yield board
        return
    for move in game.moves(board):
        yield from positions(game, game.play(board, move), plies - 1)


def test_moves_are_those_of_the_game(game):
    counts = [game.perft(Board(0, 0), plies) for plies in range(10)]
    assert counts == [1, 9, 72, 504, 3024, 15120, 54720, 148176, 200448, 127872]
    assert sum(counts) == 549946  # the whole tree, as published


def test_the_game_is_a_draw_and_pruning_sees_a_small_part_of_it(game):
    game.library.take_positions_seen()
    assert game.value(Board(0, 0), 9) == 0
    assert game.library.take_positions_seen() < 549946 / 15


@pytest.mark.quick("1", "2", "3")
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_values_are_those_of_plain_minimax_and_fewer_positions_are_seen(game, depth):
    seen_plainly, values = [], set()
    game.library.take_positions_seen()
    for board in positions(game, Board(0, 0), 4):
        value = game.value(board, depth)
        assert value == minimax(board.own, board.other, depth, seen_plainly)
        values.add(value)
    seen = game.library.take_positions_seen()
    assert len(values) > 1 or depth < 2
    assert seen < len(seen_plainly) * (1.0 if depth > 1 else 1.01)


def test_of_the_best_moves_each_is_as_likely_and_no_other_is_made(game):
    board = Board(0, 0o020)  # the centre is taken: corners draw, sides lose
    exact = {move: -game.value(game.play(board, move), 7) for move in game.moves(board)}
    best = {move for move, value in exact.items() if value == max(exact.values())}
    counts = Counter(game.best(board, 8, seed) for seed in range(3000))
    assert set(counts) == best == {0, 2, 6, 8}
    assert all(abs(count - 750) < 5 * 750**0.5 for count in counts.values())


def test_the_bot_wins_as_early_and_loses_as_late_as_it_can(game):
    assert game.best(Board(0o003, 0o030), 4, seed=0) == 2  # its own row, rather than to stop the other's
    assert game.value(Board(0o003, 0o030), 4) == WON + 3
    lost = Board(0o010, 0o005)  # cell 1 closes the row, before the other makes two more at once
    assert game.best(lost, 6, seed=0) == 1
    assert game.value(lost, 6) == -(WON + 2)
    assert {game.value(game.play(lost, move), 5) for move in game.moves(lost) if move != 1} == {WON + 4}
