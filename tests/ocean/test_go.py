"""Go against known answers of its rules and against a second implementation, move by move, in Python."""

from __future__ import annotations

import ctypes
import itertools
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from contract import checksum
from go_reference import BLACK, WHITE, Board, Reference
from hypothesis import given, settings, strategies as st
from test_forged_snapshots import content_of, sealed, struct_size

from pufferlib.errors import PufferError
from pufferlib.ocean.go.go import Go

ROOT = Path(__file__).parents[2]
PASS = 64
RANDOM, CAPTURES, SAVES, THREATENS, COUNTS = range(5)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Both colours of the game to play: tests/c/go_probe.c."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler, cc")
    path = tmp_path_factory.mktemp("go") / "go.so"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function", "-Werror"]
    source = [f"-I{ROOT / 'ocean/include'}", str(ROOT / "tests/c/go_probe.c"), "-o", str(path)]
    subprocess.run(["cc", *flags, "-shared", "-fPIC", *source, "-lm"], check=True)
    found = ctypes.CDLL(str(path))
    for name in ("stones", "allowed", "chain", "threatened"):
        getattr(found, f"probe_{name}").restype = ctypes.c_uint64
    found.probe_margin.restype = ctypes.c_float
    found.probe_bytes.restype = ctypes.c_size_t
    return found


class Probe:
    """A board in C. Points are (row, column) here, 8 * row + column there."""

    def __init__(self, library, size, strength=THREATENS, seed=0):
        self.library, self.size = library, size
        self.env = ctypes.create_string_buffer(library.probe_bytes())
        library.probe_begin(self.env, size, strength, ctypes.c_uint64(seed))

    def points(self, bits):
        return {divmod(i, 8) for i in range(64) if bits >> i & 1}

    def stones(self, color):
        return self.points(self.library.probe_stones(self.env, color))

    def allowed(self, color):
        return self.points(self.library.probe_allowed(self.env, color))

    def may_play(self, color, point):
        return bool(self.library.probe_may_play(self.env, color, 8 * point[0] + point[1]))

    def turn(self, color, point=None):
        return bool(self.library.probe_turn(self.env, color, PASS if point is None else 8 * point[0] + point[1]))

    def chain(self, point):
        return self.points(self.library.probe_chain(self.env, 8 * point[0] + point[1]))

    def threatened(self, color):
        return self.points(self.library.probe_threatened(self.env, color))

    def choose(self, color):
        point = self.library.probe_choose(self.env, color)
        return None if point == PASS else divmod(point, 8)

    def margin(self, color):
        return self.library.probe_margin(self.env, color)

    def accepts(self):
        return bool(self.library.probe_accepts(self.env))

    def picture(self):
        black, white = self.stones(BLACK), self.stones(WHITE)
        side = range(self.size)
        return ["".join("X" if (r, c) in black else "O" if (r, c) in white else "." for c in side) for r in side]


@pytest.fixture
def put(library):
    """Makes a board from a picture: X black, O white."""

    def make(*rows, strength=THREATENS, seed=0):
        probe = Probe(library, len(rows), strength, seed)
        for r, row in enumerate(rows):
            for c, cell in enumerate(row):
                if cell in "XO":
                    probe.turn("XO".index(cell), (r, c))
        assert probe.picture() == [*rows]
        return probe

    return make


# ---------------------------------------------------------------------------------------------------------------- rules


def test_a_stone_and_a_chain_without_liberties_are_captured(put):
    board = put(".O...", "OXO..", ".....", ".....", ".....")
    board.turn(WHITE, (2, 1))
    assert board.picture() == [".O...", "O.O..", ".O...", ".....", "....."]
    board = put(".OO..", "OXXO.", "OXO..", ".....", ".....")
    board.turn(WHITE, (3, 1))
    assert board.picture() == [".OO..", "O..O.", "O.O..", ".O...", "....."]


def test_one_stone_captures_several_chains(put):
    board = put("XO.OX", ".XOX.", "..X..", ".....", ".....")
    board.turn(BLACK, (0, 2))
    assert board.picture() == ["X.X.X", ".X.X.", "..X..", ".....", "....."]


def test_a_capture_comes_before_suicide(put):
    board = put(".OX..", "OXX..", "X....", ".....", ".....")
    assert board.may_play(BLACK, (0, 0))
    board.turn(BLACK, (0, 0))
    assert board.picture() == ["X.X..", ".XX..", "X....", ".....", "....."]


def test_suicide_of_several_takes_them_off_and_of_one_is_a_repetition(put):
    board = put("X.O..", "OO...", ".....", ".....", ".....")
    assert board.may_play(BLACK, (0, 1))
    board.turn(BLACK, (0, 1))
    assert board.picture() == ["..O..", "OO...", ".....", ".....", "....."]
    board = put(".O...", "O....", ".....", ".....", ".....")
    assert not board.may_play(BLACK, (0, 0))
    assert board.may_play(WHITE, (0, 0))


def test_a_ko_may_not_be_taken_back_at_once(put):
    board = put(".XO..", "X.XO.", ".XO..", ".....", ".....")
    board.turn(WHITE, (1, 1))
    assert board.picture() == [".XO..", "XO.O.", ".XO..", ".....", "....."]
    assert not board.may_play(BLACK, (1, 2))
    assert (1, 2) not in board.allowed(BLACK)
    board.turn(BLACK, (4, 4))
    board.turn(WHITE, (4, 0))
    assert board.may_play(BLACK, (1, 2))  # the position is another one
    board.turn(BLACK, (1, 2))
    assert not board.may_play(WHITE, (1, 1))


def test_sending_two_and_returning_one_is_a_repetition_that_a_ko_rule_alone_would_miss(put):
    board = put(".O.O.", "XXO..", ".....", ".....", ".....")
    board.turn(WHITE, (0, 0))
    board.turn(BLACK, (0, 2))
    assert board.picture()[:2] == ["..XO.", "XXO.."]
    assert not board.may_play(WHITE, (0, 1))


def test_who_takes_a_snapback_is_taken(put):
    board = put("..OX.", "OOOX.", "XXX..", ".....", ".....")
    board.turn(BLACK, (0, 1))
    board.turn(WHITE, (0, 0))
    assert board.picture()[:3] == ["O.OX.", "OOOX.", "XXX.."]
    assert board.threatened(WHITE) == {(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)}
    board.turn(BLACK, (0, 1))
    assert board.picture()[:3] == [".X.X.", "...X.", "XXX.."]


COUNTS_BY_HAND = {  # black's points less white's, by Tromp and Taylor
    (".....", ".....", ".....", ".....", "....."): 0,
    (".....", ".....", "..X..", ".....", "....."): 25,
    ("..X..", "..X..", "..X..", "..X..", "..X.."): 25,
    (".X.O.", ".X.O.", ".X.O.", ".X.O.", ".X.O."): 0,
    (".XO..", ".XO..", ".XO..", "XXO..", "..XO."): 11 - 14,
    ("X.X.O", ".X.OO", "XXOO.", "XOO.O", "XO.O."): 9 - 14,
}


@pytest.mark.parametrize("rows", COUNTS_BY_HAND)
def test_points_are_counted_as_by_hand(put, rows):
    board = put(*rows)
    assert board.margin(BLACK) + 7.5 == COUNTS_BY_HAND[rows]
    assert board.margin(WHITE) == -board.margin(BLACK)


@pytest.mark.parametrize(("size", "count"), [(2, 57), (3, 12_675)])
def test_as_many_positions_can_be_set_up_as_are_known_to_be_legal(library, size, count):
    """The numbers of Tromp and Farneback 2006, "Combinatorics of Go"; other positions lose stones on the way."""
    probe, legal = Probe(library, size), 0
    points = [8 * row + column for row in range(size) for column in range(size)]
    for colors in itertools.product((None, BLACK, WHITE), repeat=len(points)):
        library.probe_begin(probe.env, size, RANDOM, 0)
        wanted = [0, 0]
        for color, point in zip(colors, points, strict=True):
            if color is not None:
                wanted[color] |= 1 << point
                library.probe_turn(probe.env, color, point)
        legal += wanted == [library.probe_stones(probe.env, color) for color in (BLACK, WHITE)]
    assert legal == count


@settings(deadline=None, max_examples=12)
@given(size=st.integers(2, 8), seed=st.integers(0, 2**32))
def test_every_move_of_random_games_agrees_with_the_reference(library, size, seed):
    generator = random.Random(seed)
    probe, board, color = Probe(library, size), Board(size), BLACK
    for _ in range(2 * size * size):
        allowed = board.allowed(color)
        assert probe.allowed(color) == allowed
        assert {point for point in board.points if probe.may_play(color, point)} == allowed
        point = generator.choice(sorted(allowed)) if allowed else None
        probe.turn(color, point)
        if point is not None:
            board.play(color, point)
        for each in (BLACK, WHITE):
            assert probe.stones(each) == {p for p, its_color in board.stones.items() if its_color == each}
            assert probe.threatened(each) == board.threatened(each)
        assert all(probe.chain(point) == board.chain(point)[0] for point in board.stones)
        assert probe.margin(color) == board.margin(color)
        assert probe.accepts()
        color = 1 - color


# --------------------------------------------------------------------------------------------------------- the opponent


def choices(put, rows, strength, color=WHITE, count=30):
    return {put(*rows, strength=strength, seed=seed).choose(color) for seed in range(count)}


def test_it_captures_the_largest_chain(put):
    rows = ["X..XX", "O..OO", ".....", ".....", "....."]
    assert choices(put, rows, CAPTURES) == {(0, 2)}
    assert len(choices(put, rows, RANDOM)) > 3


def test_it_saves_a_chain_if_that_gives_it_room(put):
    rows = [".....", "..X..", ".XOX.", ".....", "....."]
    assert choices(put, rows, SAVES) == {(3, 2)}
    assert len(choices(put, rows, CAPTURES)) > 3
    rows = ["OX...", ".....", ".....", ".....", "....."]
    assert (1, 0) in choices(put, rows, SAVES)


def test_it_takes_a_second_liberty_away(put):
    rows = [".....", "..O..", ".OX..", ".....", "....."]
    assert choices(put, rows, THREATENS) <= {(2, 3), (3, 2)}
    assert len(choices(put, rows, SAVES)) > 3


def test_it_does_not_fill_its_eyes_and_passes_instead(put):
    rows = [".O.O.", "OOOOO", "OOOOO", "OOOOO", "OOOOO"]
    for strength in range(5):
        assert choices(put, rows, strength) == {None}


def test_it_answers_a_pass_with_a_pass_when_it_is_ahead(put):
    for rows, color, expected in [
        ([".....", ".....", "..O..", ".....", "....."], WHITE, True),
        ([".....", ".....", "..O..", ".....", "....."], BLACK, False),
        ([".....", ".....", ".....", ".....", "....."], WHITE, True),
        ([".....", ".....", ".....", ".....", "....."], BLACK, False),
    ]:
        board = put(*rows)
        board.turn(1 - color)
        assert (board.choose(color) is None) == expected


def test_counting_it_closes_what_is_open(put):
    rows = [".OX..", ".OX..", ".OX..", ".OX..", "....."]
    assert choices(put, rows, COUNTS) <= {(4, 2), (4, 1), (4, 3)}


@pytest.mark.parametrize("strength", [CAPTURES, SAVES, THREATENS, COUNTS])
def test_each_strength_beats_the_one_below(library, strength):
    wins, games = 0, 300
    for seed in range(games):
        players = [Probe(library, 7, strength - 1, seed), Probe(library, 7, strength, seed + games)]
        is_strong_black, color, is_over = seed % 2, BLACK, False
        while not is_over:
            point = players[is_strong_black ^ color].choose(color)
            is_over = [player.turn(color, point) for player in players][0]
            color = 1 - color
        wins += players[0].margin(1 - is_strong_black) > 0
    assert wins >= 0.55 * games


# ------------------------------------------------------------------------------------------------------------- episodes


def step(env, action):
    _, rewards, terminals, truncations, _ = env.step(np.full(env.num_agents, action, np.int32))
    return float(rewards[0]), bool(terminals[0]), bool(truncations[0])


@settings(deadline=None, max_examples=12)
@given(size=st.integers(2, 8), strength=st.integers(0, 4), seed=st.integers(0, 2**64 - 1), is_wild=st.booleans())
def test_every_step_agrees_with_the_reference(size, strength, seed, is_wild):
    env = Go(1, size=size, strength=strength)
    final = env.keep_final_observations()
    env.reset(seed)
    game, generator = Reference(size, env.observations[0]), random.Random(seed)
    np.testing.assert_array_equal(env.observations[0], game.observation())
    for _ in range(60):
        allowed = sorted(r * size + c for r, c in game.board.allowed(game.color))
        action = generator.randint(-1, size * size + 1) if is_wild or not allowed else generator.choice(allowed)
        reward, terminal, truncation = step(env, action)
        seen = final[0] if terminal or truncation else env.observations[0]
        assert (reward, terminal, truncation) == game.step(action, seen)
        np.testing.assert_array_equal(seen, game.observation())
        if terminal or truncation:
            game.begin(env.observations[0])
            np.testing.assert_array_equal(env.observations[0], game.observation())


def test_the_log_counts_games_won_and_points():
    env, margins = Go(1, size=3, strength=0, report_interval=10**9), []
    final = env.keep_final_observations()
    env.reset(1)
    game, generator = Reference(3, env.observations[0]), random.Random(0)
    for _ in range(600):
        action = generator.randint(0, 9)
        _, terminal, truncation = step(env, action)
        game.step(action, final[0] if terminal or truncation else env.observations[0])
        if terminal or truncation:
            margins.append(game.board.margin(game.color))
            game.begin(env.observations[0])
    (statistics,) = env.episode_statistics()
    assert statistics["n"] == len(margins)
    assert statistics["score"] == pytest.approx(np.mean(margins))
    assert statistics["perf"] == pytest.approx(np.mean(np.array(margins) > 0))


def test_colours_are_drawn_evenly():
    env = Go(4000)
    env.reset(0)
    assert abs(int(env.observations[:, -2].sum()) - 2000) < 5 * 1000**0.5


def test_rollout_is_the_golden_one():
    env = Go(16, strength=3)
    env.reset(42)
    rows = np.arange(16)
    observed = [env.step((rows * 11 + step * step // 2) % 50)[0].copy() for step in range(200)]
    assert checksum(observed) == 1087852651  # printed by the lines above; changes when rules or random streams do


def test_a_drawn_strength_is_another_one_in_each_game_and_the_highest_in_a_third(library):
    probe = Probe(library, 5)
    drawn = [library.probe_draw(probe.env) for _ in range(1200)]
    counts = [drawn.count(strength) for strength in range(5)]
    assert counts == [pytest.approx(share, abs=60) for share in (200, 200, 200, 200, 400)] and sum(counts) == 1200


def test_a_snapshot_of_a_drawn_strength_is_not_taken_by_a_chosen_one():
    drawn, chosen = Go(4, strength=5), Go(4, strength=3)
    drawn.reset(1), chosen.reset(1)
    drawn.restore(drawn.snapshot())
    with pytest.raises(PufferError, match="snapshot"):
        chosen.restore(drawn.snapshot())


def test_masks_hold_bools_whatever_a_snapshot_has_for_observations():
    env = Go(1, size=5, opponent="self")
    env.reset(0)
    snapshot = env.snapshot()
    content, begin = bytearray(content_of(snapshot)), struct_size(snapshot)
    content[begin : begin + env.observations.nbytes] = b"\7" * env.observations.nbytes
    env.restore(sealed(snapshot, bytes(content)))
    env.step(np.zeros(2, np.int32))
    assert env.action_masks.view(np.uint8).max() == 1


@pytest.mark.parametrize(("name", "value", "high"), [("size", 1, 8), ("size", 9, 8), ("strength", 6, 5)])
def test_impossible_arguments_are_refused(name, value, high):
    with pytest.raises(ValueError, match=f"go: {name} must be an integer from . to {high}, got {value}"):
        Go(1, **{name: value})
