"""The rules of 2048, against known answers and against a second implementation in Python."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from contract import checksum
from hypothesis import given, settings, strategies as st
from test_forged_snapshots import content_of, sealed

from pufferlib.ocean.g2048 import binding
from pufferlib.ocean.g2048.g2048 import G2048

UP, DOWN, LEFT, RIGHT = range(4)


def slide_line(line):
    """A line of exponents towards its first cell, as the rules say it, and the exponents of what merged."""
    tiles, slid, merged = [tile for tile in line if tile], [], []
    while tiles:
        tile = tiles.pop(0)
        if tiles and tiles[0] == tile < 15:
            tile = tiles.pop(0) + 1
            merged.append(tile)
        slid.append(tile)
    return slid + [0] * (len(line) - len(slid)), merged


def slide(board, action):
    """A board of exponents after a move, before a tile appears, and the exponents of what merged."""
    turned = board.T if action in (UP, DOWN) else board
    turned = turned[:, ::-1] if action in (DOWN, RIGHT) else turned
    lines, merged = zip(*(slide_line(line) for line in turned.tolist()), strict=True)
    result = np.array(lines, np.uint8)
    result = result[:, ::-1] if action in (DOWN, RIGHT) else result
    return (result.T if action in (UP, DOWN) else result), [tile for line in merged for tile in line]


def moves(board):
    """What changes it."""
    return [action for action in range(4) if (slide(board, action)[0] != board).any()]


def measures(board):
    """Of each move, as the observation shows it: room, neighbours alike, roughness and turns, each at most 15."""
    shown = []
    for action in range(4):
        slid = slide(board, action)[0].astype(int)
        lines = [line for turned in (slid, slid.T) for line in turned.tolist()]
        steps = [[b - a for a, b in zip(line, line[1:], strict=False) if a and b] for line in lines]
        alike = sum(step == 0 for line in steps for step in line)
        roughness = sum(abs(step) for line in steps for step in line)
        turns = sum(min(sum(max(s, 0) for s in line), sum(max(-s, 0) for s in line)) for line in steps)
        room = 1 + np.count_nonzero(slid == 0) if action in moves(board) else 0
        shown.append([min(value, 15) for value in (room, alike, roughness // 6, turns // 2)])
    return np.array(shown, np.uint8).reshape(-1)


class Table:
    """One board in play."""

    def __init__(self, seed):
        self.env = G2048(1, report_interval=2**31)  # statistics stay until they are asked for
        self.env.reset(seed)
        self.finals = self.env.keep_final_observations()

    @property
    def board(self):
        return self.env.observations[0, :16].reshape(4, 4).copy()

    def step(self, action):
        """The board that it led to, the last of its episode too; reward and flags."""
        _, rewards, terminals, truncations, _ = self.env.step(np.array([action], np.int32))
        has_ended = terminals[0] or truncations[0]
        shown = (self.finals if has_ended else self.env.observations)[0]
        board = shown[:16].reshape(4, 4).copy()
        assert (shown[16:] == measures(board)).all()
        return board, float(rewards[0]), bool(terminals[0]), bool(truncations[0])


# -------------------------------------------------------------------------------------------------------------- moving


@pytest.mark.parametrize(
    ("line", "expected", "merged"),
    [
        ([1, 1, 1, 1], [2, 2, 0, 0], [2, 2]),
        ([1, 1, 2, 0], [2, 2, 0, 0], [2]),  # what merged does not merge again
        ([0, 1, 1, 1], [2, 1, 0, 0], [2]),  # the two that go first
        ([2, 0, 0, 2], [3, 0, 0, 0], [3]),
        ([1, 2, 1, 2], [1, 2, 1, 2], []),
        ([15, 15, 14, 14], [15, 15, 15, 0], [15]),  # 65,536 has no place on the board
    ],
)
def test_the_second_implementation_knows_the_rules(line, expected, merged):
    assert slide_line(line) == (expected, merged)


def test_the_table_has_every_row_right():
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    shared = binding.shared()
    table = ctypes.cast(get_pointer(shared, b"pufferlib.ocean.g2048.shared"), ctypes.POINTER(ctypes.c_uint32))
    for row in range(2**16):
        slid, merged = slide_line([row >> 4 * place & 15 for place in range(4)])
        expected = sum(tile << 4 * place for place, tile in enumerate(slid)) + (sum(merged) << 16)
        assert table[row] == expected, f"row {row:04x}"


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**64 - 1), actions=st.lists(st.integers(-1, 4), max_size=200))
def test_every_step_agrees_with_the_second_implementation(seed, actions):
    table, score, length, returned = Table(seed), 0, 0, 0.0
    for action in actions:
        board = table.board
        slid, merged = slide(board, action) if action in range(4) else (board, [])
        found, reward, is_over, is_cut = table.step(action)
        score, length, returned = score + sum(2**tile for tile in merged), length + 1, returned + reward
        if (slid == board).all():
            assert reward == -1 / 16 and (found == board).all()
        else:
            assert reward == sum(merged) / 16
            (appeared,) = np.argwhere(found != slid)
            assert slid[tuple(appeared)] == 0 and found[tuple(appeared)] in (1, 2)
        assert is_over == (not moves(found))
        if is_over:
            reached = min(2.0 ** int(found.max()) / 2048, 1.0)
            assert table.env.episode_statistics() == [
                {"perf": reached, "score": score, "episode_return": returned, "episode_length": length, "n": 1.0}
            ]
            score, length, returned = 0, 0, 0.0
            assert np.count_nonzero(table.board) == 2
        elif is_cut:
            return


# ------------------------------------------------------------------------------------------------------------ appearing


def test_the_first_two_tiles_are_anywhere_and_one_in_ten_is_a_four():
    env = G2048(40_000)
    env.reset(0)
    boards = env.observations[:, :16]
    assert (np.count_nonzero(boards, axis=1) == 2).all() and boards.max() == 2
    per_cell = np.count_nonzero(boards, axis=0)
    assert (abs(per_cell - 5000) < 5 * 5000**0.5).all()
    assert abs(np.count_nonzero(boards == 2) - 8000) < 5 * (8000 * 0.9) ** 0.5
    pairs = (boards > 0).astype(int).T @ (boards > 0)  # how often any two cells hold them
    counts = pairs[np.triu_indices(16, 1)]
    assert (abs(counts - 40_000 / 120) < 5 * (40_000 / 120) ** 0.5).all()


def test_a_tile_appears_in_any_empty_cell_as_often():
    """After the first move, by how many empty cells come before it."""
    env, count = G2048(60_000), 60_000
    env.reset(1)
    before = env.observations[:, :16].reshape(count, 4, 4).copy()
    after = env.step(np.full(count, LEFT, np.int32))[0][:, :16].reshape(count, 4, 4)
    ranks, fours = [], 0
    for one, two in zip(before, after, strict=True):
        slid, _ = slide(one, LEFT)
        if (slid != one).any() and np.count_nonzero(slid) == 2:
            cell = int(np.argmax((two != slid).reshape(-1)))
            ranks.append(np.count_nonzero(slid.reshape(-1)[:cell] == 0))
            fours += int(two.reshape(-1)[cell]) == 2
    counts = np.bincount(ranks, minlength=14)
    assert len(counts) == 14 and (abs(counts - len(ranks) / 14) < 5 * (len(ranks) / 14) ** 0.5).all()
    assert abs(fours - len(ranks) / 10) < 5 * (len(ranks) * 0.09) ** 0.5


# --------------------------------------------------------------------------------------------------------------- ending


def test_actions_that_move_nothing_cut_the_game_after_64_in_a_row():
    table = Table(6)  # both tiles lie at one side
    (futile,) = set(range(4)) - set(moves(table.board))
    outcomes = [table.step(futile)[1:] for _ in range(64)]
    assert outcomes == [(-1 / 16, False, False)] * 63 + [(-1 / 16, False, True)]
    (statistics,) = table.env.episode_statistics()
    assert statistics["episode_length"] == 64 and statistics["score"] == 0 and statistics["episode_return"] == -4


def test_a_move_lets_the_player_pause_again():
    table = Table(3)
    for action in [4] * 63 + [moves(table.board)[0]] + [4] * 63:
        assert table.step(action)[2:] == (False, False)
    assert table.step(4)[2:] == (False, True)


def test_a_game_is_cut_after_16_000_actions():
    table = Table(0)
    table.step(moves(table.board)[0])
    before = content_of(table.env.snapshot())
    table.step(4)
    after = bytearray(content_of(snapshot := table.env.snapshot()))
    one, two = (np.frombuffer(bytes(content), np.int32, len(content) // 4) for content in (before, after))
    (place,) = np.flatnonzero((one == 1) & (two == 2))  # where the actions are counted
    after[4 * place : 4 * place + 2] = (15_998).to_bytes(2, "little")
    table.env.restore(sealed(snapshot, after))
    assert [table.step(4)[2:] for _ in range(2)] == [(False, False), (False, True)]
    assert table.env.episode_statistics()[0]["episode_length"] == 16_000


# -------------------------------------------------------------------------------------------------------------- numbers


def test_a_random_player_scores_what_is_known_of_it():
    """About 1,100 points and a largest tile of about 108 by many accounts; it loses some actions to walls here."""
    env = G2048(512, report_interval=2**31)
    env.reset(0)
    random = np.random.default_rng(0)
    for _ in range(1500):
        env.step(random.integers(0, 4, 512).astype(np.int32))
    (statistics,) = env.episode_statistics()
    assert statistics["n"] > 3000
    assert statistics["score"] == pytest.approx(1100, rel=0.03)
    assert statistics["perf"] * 2048 == pytest.approx(108, rel=0.03)


def test_rollout_is_the_golden_one():
    env = G2048(16)
    env.reset(42)
    rows = np.arange(16)
    observed = [env.step((rows * 7 + step * step + step // 5) % 4)[0].copy() for step in range(256)]
    assert checksum(observed) == 796237571  # printed by the lines above; changes when rules or random streams do
