"""Chess against published counts, python-chess, and games that end in every way there is."""

from __future__ import annotations

import collections
import ctypes

import numpy as np
import pytest
from checked_headers import weekly_unless_changed
from contract import checksum
from oracles import replay
from searching import ROOT, Searcher

from pufferlib.ocean.chess.chess import Chess

KINDS = "pnbrqk"
NUM_MOVES = 1858


class Board(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("own", "other", "pawns", "straight", "slanted", "kings")),
        ("castling", ctypes.c_int),
        ("passed", ctypes.c_int),
    ]


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    header = ROOT / "ocean/chess/chess.h"
    return Searcher(header, Board, ctypes.c_uint16, tmp_path_factory.mktemp("chess"))


def flipped(squares):
    return int.from_bytes(squares.to_bytes(8, "little"), "big")


def board_of(fen):
    """A position that nobody can take a pawn en passant in."""
    rows, player, castling, passed = fen.split()[:4]
    assert passed == "-"
    sets = collections.Counter()
    for rank, row in enumerate(rows.split("/")):
        file = 0
        for sign in row:
            if sign.isdigit():
                file += int(sign)
                continue
            square = 1 << 8 * (7 - rank) + file
            sets["white" if sign.isupper() else "black"] |= square
            for name, signs in (("pawns", "p"), ("straight", "rq"), ("slanted", "bq"), ("kings", "k")):
                sets[name] |= square if sign.lower() in signs else 0
            file += 1
    names = ("white", "black", "pawns", "straight", "slanted", "kings")
    numbers, rights = [sets[name] for name in names], sum(1 << "KQkq".index(sign) for sign in castling.strip("-"))
    if player == "b":
        numbers, rights = (
            [flipped(sets[name]) for name in ("black", "white", *names[2:])],
            rights >> 2 | (rights & 3) << 2,
        )
    return Board(*numbers, rights, 0)


START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


@pytest.mark.parametrize(
    ("fen", "counts"),
    [
        (START, [20, 400, 8902, 197281, 4865609]),
        ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq -", [48, 2039, 97862, 4085603]),
        ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - -", [14, 191, 2812, 43238, 674624]),
        ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq -", [6, 264, 9467, 422333]),
        ("r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ -", [6, 264, 9467, 422333]),
        ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ -", [44, 1486, 62379, 2103487]),
        ("r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - -", [46, 2079, 89890, 3894594]),
    ],
)
def test_games_are_as_many_as_published(game, fen, counts):
    """Perft Results, chessprogramming.org; the fifth is the fourth with colours changed over."""
    board = board_of(fen)
    assert [game.perft(board, depth) for depth in range(1, len(counts) + 1)] == counts


# The numbers of the moves, once more: pairs of squares that are a queen's or a knight's move apart, then promotions.


def is_reached(origin, target):
    across, up = abs(origin % 8 - target % 8), abs(origin // 8 - target // 8)
    return origin != target and (across * up == 0 or across == up or across * up == 2)


MOVES = [(origin, target, "q") for origin in range(64) for target in range(64) if is_reached(origin, target)]
MOVES += [(48 + file, 56 + to, kind) for file in range(8) for to in range(8) if abs(file - to) < 2 for kind in "nbr"]
NUMBERS = {move: number for number, move in enumerate(MOVES)}


def test_every_number_is_a_move_that_some_piece_can_make():
    assert len(NUMBERS) == NUM_MOVES == Chess(1).single_action_space.n


class PythonChess:
    """A game in python-chess."""

    def __init__(self):
        import chess

        self.chess, self.inner = chess, chess.Board()
        self.seen = collections.Counter([self.inner._transposition_key()])
        self.moves = self._legal()

    def _legal(self):
        turn = 0 if self.inner.turn else 56  # black sees the board upside down
        kinds = {None: "q", 2: "n", 3: "b", 4: "r", 5: "q"}
        return {
            NUMBERS[move.from_square ^ turn, move.to_square ^ turn, kinds[move.promotion]]: move
            for move in self.inner.generate_legal_moves()
        }

    def player(self):
        return 0 if self.inner.turn else 1

    def legal(self):
        return sorted(self.moves)

    def play(self, action):
        self.inner.push(self.moves[action])
        if self.inner.halfmove_clock == 0:
            self.inner.clear_stack()
            self.seen.clear()
        self.key = self.inner._transposition_key()
        self.seen[self.key] += 1
        self.moves = self._legal()

    def outcome(self):
        if not self.moves:
            return (-1 if self.inner.turn else 1) if self.inner.is_check() else 0
        is_drawn = self.seen[self.key] == 3 or self.inner.halfmove_clock == 100
        return 0 if is_drawn or self.inner.is_insufficient_material() else None

    def board(self, player):
        shown, turn = np.zeros(130, np.uint8), 56 * player
        for square, piece in self.inner.piece_map().items():
            shown[square ^ turn] = piece.piece_type + 6 * (piece.color == bool(player))
        for square in self.chess.SquareSet(self.inner.clean_castling_rights()):
            shown[square ^ turn] = 13 + (self.inner.color_at(square) == bool(player))
        if self.inner.has_legal_en_passant():
            shown[self.inner.ep_square ^ turn] = 15
        for square in range(64):
            kinds = [self.inner.piece_type_at(each) for each in self.inner.attackers(bool(player), square)]
            least = min(([0, 1, 2, 2, 3, 4, 4][kind] for kind in kinds), default=0)
            shown[64 + (square ^ turn)] = 3 * least + min(len(self.inner.attackers(not player, square)), 2)
        shown[128:] = self.inner.halfmove_clock // 10, self.seen[self.key] > 1
        return shown


def make_two(num_envs):
    return Chess(num_envs, opponent="self", draw_penalty=0.0, piece_reward=0.0)


def test_random_games_are_those_of_python_chess():
    pytest.importorskip("chess", reason="the other program; pip install chess")
    assert replay(make_two, PythonChess, 20)[0] > 2000


@pytest.mark.slow
@weekly_unless_changed("puffer_chess")
@pytest.mark.parametrize("games", [1_000, pytest.param(10_000, marks=pytest.mark.weekly)])
def test_thousands_of_random_games_are_those_of_python_chess(games):
    pytest.importorskip("chess", reason="the other program; pip install chess")

    moves, *outcomes = replay(make_two, PythonChess, games, seed=1, every=100)
    assert moves > 200 * games and min(outcomes) > games // 20


def play(*texts, draw_penalty=0.0, piece_reward=0.0):
    """Plays moves such as e2e4, as white sees them; returns the environment and the last rewards of white and black."""
    settings = {"draw_penalty": draw_penalty, "piece_reward": piece_reward}
    env = Chess(1, opponent="self", report_interval=10**9, **settings)
    env.reset(0)
    first = int(env.masks.argmax())
    finals = env.keep_final_observations()
    for turn, text in enumerate(texts):
        squares = [ord(text[i]) - ord("a") + 8 * (int(text[i + 1]) - 1) for i in (0, 2)]
        move = (*(square ^ 56 * (turn % 2) for square in squares), text[4:] or "q")
        row = first ^ turn % 2
        assert env.masks.tolist() == [row == 0, row == 1]
        assert not env.terminals.any() and env.action_masks[row, NUMBERS[move]], text
        env.step(np.full(2, NUMBERS[move], np.int32))
    return env, finals[first], env.rewards[[first, 1 - first]].tolist()


def test_the_fools_mate_is_one():
    env, _, rewards = play("f2f3", "e7e5", "g2g4", "d8h4")
    assert rewards == [-1.0, 1.0] and env.terminals.all() and not env.truncations.any()


def test_the_shortest_stalemate_is_a_draw():
    """Sam Loyd's, ten moves of each side."""
    moves = [
        "e2e3",
        "a7a5",
        "d1h5",
        "a8a6",
        "h5a5",
        "h7h5",
        "h2h4",
        "a6h6",
        "a5c7",
        "f7f6",
        "c7d7",
        "e8f7",
        "d7b7",
        "d8d3",
        "b7b8",
        "d3h7",
        "b8c8",
        "f7g6",
        "c8e6",
    ]
    env, _, rewards = play(*moves)
    assert rewards == [0.0, 0.0] and env.terminals.all()


def test_a_position_that_comes_for_the_third_time_is_a_draw():
    circle = ["g1f3", "g8f6", "f3g1", "f6g8"]
    env, *_ = play(*circle, *circle[:3])
    assert not env.terminals.any() and env.observations[:, 129].all(), "all positions of the second circle were there"
    env, _, rewards = play(*circle, *circle)
    assert rewards == [0.0, 0.0] and env.terminals.all()


def test_draws_and_pieces_are_rewarded_where_that_is_asked_for():
    circle = ["g1f3", "g8f6", "f3g1", "f6g8"]
    _, _, rewards = play("e2e4", "d7d5", "e4d5", piece_reward=0.5)
    assert rewards == pytest.approx([0.5, -0.5])  # a pawn
    _, _, rewards = play("e2e4", "d7d5", "e4d5", "g8f6", piece_reward=0.5)
    assert rewards == pytest.approx([-0.08, 0.08])  # black's knight in the middle: 16 hundredths of a pawn
    env, _, rewards = play(*circle, *circle, draw_penalty=0.5, piece_reward=0.5)
    assert rewards == pytest.approx([-0.5, -0.5])
    (statistics,) = env.episode_statistics()
    assert (statistics["score"], statistics["perf"]) == (0.0, 0.5)
    assert statistics["episode_return"] == pytest.approx(-0.5)  # what was gained was lost again


def test_a_queen_more_than_a_side_begins_with_is_not_rewarded():
    begin = ["h2h4", "g7g5", "h4g5", "h7h6", "g5h6", "a7a6", "h6h7", "a6a5"]
    _, _, rewards = play(*begin, "h7g8", piece_reward=0.5)  # takes a knight, and becomes a queen
    assert rewards == pytest.approx([1.55, -1.55])


def test_a_right_that_is_lost_makes_another_position():
    """The rook's way and back costs the right to castle, so that the first position does not count."""
    begin = ["h2h4", "h7h5"]
    circle = ["h1h2", "h8h7", "h2h1", "h7h8"]
    env, *_ = play(*begin, *circle, *circle)
    assert not env.terminals.any()
    env, *_ = play(*begin, *circle, *circle, *circle[:2])
    assert env.terminals.all()


def test_pawns_are_taken_en_passant_at_once_or_never():
    begin = ["e2e4", "a7a6", "e4e5", "d7d5"]
    env, *_ = play(*begin)
    row = int(env.masks.argmax())
    assert env.action_masks[row, NUMBERS[36, 43, "q"]] and env.observations[row, 43] == 15
    env, *_ = play(*begin, "h2h3", "h7h6")
    row = int(env.masks.argmax())
    assert not env.action_masks[row, NUMBERS[36, 43, "q"]] and env.observations[row, 43] == 0


@pytest.mark.parametrize(("kind", "number"), [("q", 5), ("r", 4), ("b", 3), ("n", 2)])
def test_pawns_become_what_they_are_to_become(kind, number):
    env, *_ = play("a2a4", "b7b5", "a4b5", "a7a6", "b5a6", "c8b7", "a6b7", "h7h6", f"b7a8{kind}")
    row = 1 - int(env.masks.argmax())
    assert env.observations[row, 56] == number


def test_other_actions_stand_for_a_legal_move():
    """The next number that is legal; those of the other promotions count the legal moves."""
    found = set()
    for action in (0, 1857, 1792, 1793, 1811, 1812, 500, -1, 1 - 2**31, 2**31 - 1):
        env = Chess(1, opponent="self")
        env.reset(0)
        row = int(env.masks.argmax())
        legal = np.flatnonzero(env.action_masks[row])
        env.step(np.full(2, action, np.int32))
        after = env.observations[row].copy()
        twins = []
        for number in legal:
            twin = Chess(1, opponent="self")
            twin.reset(0)
            twin.step(np.full(2, number, np.int32))
            twins.append(twin.observations[row].tolist())
        index = twins.index(after.tolist())
        if action in (0, 500):
            assert legal[index] == min(legal, key=lambda number: (number - action) % NUM_MOVES)
        found.add((action % NUM_MOVES, index))
    by_key = {index for action, index in found if 1792 <= action <= 1811}
    assert len(by_key) == 3
    assert {index for action, index in found if action == 1792} == {index for action, index in found if action == 1812}


@pytest.mark.parametrize("depth", [1, 2])
def test_the_bot_takes_what_is_free_and_mates_where_it_can(game, depth):
    """A queen that nothing guards, and the mate on the last rank."""
    board = board_of("6k1/5ppp/8/3q4/4P3/8/5PPP/6K1 w - -")
    moves = {game.best(board, depth, seed) for seed in range(5)}
    assert moves == {28 | 35 << 6}
    board = board_of("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - -")
    assert game.best(board, depth + 1, 0) == 0 | 56 << 6


@pytest.mark.parametrize(
    ("fen", "depth", "sign"),
    [
        ("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - -", 2, 1),
        ("7k/8/5K2/8/8/8/8/6Q1 b - -", 3, -1),
        ("k7/8/8/8/8/8/8/KB6 w - -", 3, 0),
    ],
)
def test_values_have_their_sign(game, fen, depth, sign):
    assert np.sign(game.value(board_of(fen), depth)) == sign


def masked_actions(env, generator):
    return np.array([generator.choice(np.flatnonzero(row)) for row in env.action_masks], np.int32)


def test_a_stronger_bot_wins_more_against_chance():
    scores = []
    for depth, chance_games in ((0, 0), (5, 0), (1, 0), (5, 100)):  # 5 is 0, 1 or 2, another one for each game
        env = Chess(64, bot_depth=depth, chance_games=chance_games, bot_random=0, report_interval=10**9)
        env.reset(0)
        generator = np.random.default_rng(depth)
        for _ in range(250):
            env.step(masked_actions(env, generator))
        scores.append(env.episode_statistics()[0]["perf"])
    assert 0.4 < scores[0] < 0.6 and 0.1 < scores[1] < 0.35 and scores[2] < 0.1 and 0.4 < scores[3] < 0.6


def test_colours_are_drawn_by_chance():
    env = Chess(2000, opponent="self")
    env.reset(0)
    assert abs(int(env.masks[::2].sum()) - 1000) < 5 * 500**0.5
    assert np.array_equal(env.masks[::2], ~env.masks[1::2])


def test_rollout_is_the_golden_one():
    env = Chess(16, opponent="self")
    env.reset(42)
    rows = np.arange(32)
    observed = [env.step((rows * 37 + i * i) % NUM_MOVES)[0].copy() for i in range(256)]
    assert checksum(observed) == 4091584456  # printed by the lines above; changes when rules or random streams do
