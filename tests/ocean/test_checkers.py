"""Checkers against published counts, a second implementation of the rules, and positions with known ends."""

from __future__ import annotations

import ctypes
from collections import Counter

import numpy as np
import pytest
from contract import checksum
from searching import ROOT, Searcher
from test_forged_snapshots import content_of, sealed

from pufferlib.ocean.checkers.checkers import Checkers

AGENT, BOT = range(2)
EMPTY, MAN, KING, OTHER_MAN, OTHER_KING, MOVABLE_MAN, MOVABLE_KING, REACHABLE = range(8)
DIRECTIONS = ((-1, -1), (-1, 1), (1, -1), (1, 1))
PIECE, CROWN, CROSSED, WON = 100, 50, 4, 100_000


class Board(ctypes.Structure):
    _fields_ = [
        ("agent", ctypes.c_uint64),
        ("bot", ctypes.c_uint64),
        ("kings", ctypes.c_uint64),
        ("jumper", ctypes.c_uint64),
        ("player", ctypes.c_int),
    ]


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    header = ROOT / "ocean/checkers/checkers.h"
    return Searcher(header, Board, ctypes.c_int, tmp_path_factory.mktemp("checkers"))


class Reference:
    """A second implementation: a dict of squares, (row, column) -> (player, is_king)."""

    def __init__(self, pieces, player=AGENT, jumper=None):
        self.pieces, self.player, self.jumper = pieces, player, jumper

    @classmethod
    def start(cls, player=AGENT):
        dark = [(row, column) for row in range(8) for column in range(8) if (row + column) % 2]
        return cls({at: (AGENT if at[0] > 4 else BOT, False) for at in dark if at[0] not in (3, 4)}, player)

    @classmethod
    def observed(cls, observation):
        """The agent to move, on the board that an observation shows."""
        kinds = {MAN: (AGENT, False), KING: (AGENT, True), OTHER_MAN: (BOT, False), OTHER_KING: (BOT, True)}
        kinds |= {MOVABLE_MAN: (AGENT, False), MOVABLE_KING: (AGENT, True)}
        cells = {divmod(square, 8): int(kind) for square, kind in enumerate(observation)}
        pieces = {at: kinds[kind] for at, kind in cells.items() if kind in kinds}
        movable = [at for at, kind in cells.items() if kind in (MOVABLE_MAN, MOVABLE_KING)]
        whole = cls(pieces)
        if sorted(whole.origins()) == sorted(movable):
            return whole
        return cls(pieces, jumper=movable[0])  # others could jump too, but for one that has

    def moves(self):
        """Numbers of the actions, in no order."""
        jumps, steps = [], []
        for (row, column), (player, is_king) in self.pieces.items():
            if player != self.player or (self.jumper and self.jumper != (row, column)):
                continue
            for index, (down, right) in enumerate(DIRECTIONS):
                if not is_king and down != (-1 if player == AGENT else 1):
                    continue
                number = (row * 8 + column) * 8 + index * 2
                beside, beyond = (row + down, column + right), (row + 2 * down, column + 2 * right)
                if self.is_free(beside):
                    steps.append(number)
                elif self.pieces.get(beside, (player,))[0] != player and self.is_free(beyond):
                    jumps.append(number + 1)
        return jumps or ([] if self.jumper else steps)

    def origins(self):
        return {divmod(move // 8, 8) for move in self.moves()}

    def targets(self):
        for move in self.moves():
            (row, column), (down, right) = divmod(move // 8, 8), DIRECTIONS[move // 2 % 4]
            yield row + (1 + move % 2) * down, column + (1 + move % 2) * right

    def is_free(self, at):
        return at not in self.pieces and 0 <= at[0] < 8 and 0 <= at[1] < 8

    def play(self, number):
        square, (index, is_jump) = number // 8, divmod(number % 8, 2)
        (row, column), (down, right) = divmod(square, 8), DIRECTIONS[index]
        pieces = dict(self.pieces)
        player, is_king = pieces.pop((row, column))
        to = (row + (1 + is_jump) * down, column + (1 + is_jump) * right)
        is_crowned = not is_king and to[0] == (0 if player == AGENT else 7)
        pieces[to] = (player, is_king or is_crowned)
        if is_jump:
            del pieces[row + down, column + right]
            onward = Reference(pieces, player, jumper=to)
            if not is_crowned and onward.moves():
                return onward
        return Reference(pieces, 1 - player)

    def worth(self, player):
        own = [(at, is_king) for at, (owner, is_king) in self.pieces.items() if owner == player]
        crossed = sum(not is_king and (at[0] < 4) == (player == AGENT) for at, is_king in own)
        return PIECE * len(own) + CROWN * sum(is_king for _, is_king in own) + CROSSED * crossed

    def lead(self):
        """What the agent has more than the bot, in pieces; a king is one and a half."""
        return sum((1.5 if is_king else 1) * (1 if player == AGENT else -1) for player, is_king in self.pieces.values())

    def minimax(self, depth):
        moves = self.moves()
        if depth <= 0 and not any(move % 2 for move in moves):
            return self.worth(self.player) - self.worth(1 - self.player)
        return max((self.gain(move, depth) for move in moves), default=-(WON + depth))

    def gain(self, move, depth):
        """What a move is worth to who makes it."""
        after = self.play(move)
        return after.minimax(depth) if after.player == self.player else -after.minimax(depth - 1)

    def board(self):
        sets = [
            sum(1 << (8 * at[0] + at[1]) for at, piece in self.pieces.items() if test(piece)) for test in self.TESTS
        ]
        jumper = 1 << (8 * self.jumper[0] + self.jumper[1]) if self.jumper else 0
        return Board(*sets, jumper, self.player)

    TESTS = (lambda piece: piece[0] == AGENT, lambda piece: piece[0] == BOT, lambda piece: piece[1])

    def observation(self):
        """What the agent sees."""
        cells = np.zeros((8, 8), np.uint8)
        for at, (player, is_king) in self.pieces.items():
            cells[at] = (MAN if player == AGENT else OTHER_MAN) + is_king
        if self.player == AGENT:
            for at in self.origins():
                cells[at] += MOVABLE_MAN - MAN
            for at in self.targets():
                cells[at] = REACHABLE
        return cells.ravel()

    def after_turns(self, generator, turns):
        """Played on by chance, until it is over at the latest."""
        game = self
        while turns and (moves := game.moves()):
            following = game.play(int(generator.choice(moves)))
            turns -= following.player != game.player
            game = following
        return game


def step(env, action):
    _, rewards, terminals, truncations, _ = env.step(np.full(env.num_agents, action, np.int32))
    return float(rewards[0]), bool(terminals[0]), bool(truncations[0])


@pytest.mark.parametrize("player", [AGENT, BOT])
def test_games_are_as_many_as_published(game, player):
    """English draughts from the start, a turn of several jumps counted as one move: chessprogramming.org, Perft."""
    start = Reference.start(player).board()
    counts = [game.perft(start, turns) for turns in range(1, 9)]
    assert counts == [7, 49, 302, 1469, 7361, 36768, 179740, 845931]


def test_moves_are_those_of_the_reference(game):
    generator, jumpers, kings = np.random.default_rng(0), 0, 0
    for _ in range(25):
        reference = Reference.start(int(generator.integers(2)))
        while moves := reference.moves():
            board = reference.board()
            assert sorted(game.moves(board)) == sorted(moves)
            jumpers += board.jumper != 0
            kings += board.kings != 0
            move = int(generator.choice(moves))
            reference, board = reference.play(move), game.play(board, move)
            assert bytes(board)[:36] == bytes(reference.board())[:36]
            if generator.random() < 0.005:  # kings alone can go on for long
                break
    assert jumpers > 10 and kings > 100


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4])
def test_values_are_those_of_plain_minimax(game, depth):
    generator, values = np.random.default_rng(depth), set()
    for _ in range(30 if depth < 3 else 8):
        reference = Reference.start().after_turns(generator, int(generator.integers(10, 60)))
        value = game.value(reference.board(), depth)
        assert value == reference.minimax(depth)
        values.add(value)
    assert len(values) > 3


def test_the_bot_makes_one_of_the_best_moves(game):
    generator = np.random.default_rng(0)
    for _ in range(20):
        reference = Reference.start().after_turns(generator, int(generator.integers(6, 30)))
        gains = {move: reference.gain(move, 2) for move in reference.moves()}
        best = {move for move, gain in gains.items() if gain == max(gains.values())}
        assert {game.best(reference.board(), 2, seed) for seed in range(60)} <= best


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_every_step_is_the_agents_move_and_a_turn_of_the_bots(depth):
    env = Checkers(1, bot_depth=depth, bot_random=0)
    env.reset(depth)
    finals = env.keep_final_observations()
    generator, seen = np.random.default_rng(0), Counter()
    for _ in range(400):
        reference = Reference.observed(env.observations[0])
        move = int(generator.choice(reference.moves()))
        before = reference.lead()
        reward, terminal, truncation = step(env, move)
        shown = (finals if terminal else env.observations)[0].tolist()
        assert not truncation
        reference = reference.play(move)
        expected = {tuple(reference.observation()): reference}
        while any(each.player == BOT and each.moves() for each in expected.values()):
            boards = [each.play(answer) for each in expected.values() for answer in each.moves() if each.player == BOT]
            boards += [each for each in expected.values() if each.player == AGENT]
            expected = {tuple(each.observation()): each for each in boards}
        assert tuple(shown) in expected
        reached = expected[tuple(shown)]
        outcome = 0.0
        if terminal:
            outcome = 0.0 if reached.moves() else 1.0 if reached.player == BOT else -1.0
            assert (env.observations[0] == Reference.start().observation()).mean() > 0.95
        else:
            assert reached.moves()
        assert reward == pytest.approx(outcome + 0.05 * (reached.lead() - before), abs=1e-6)
        seen[terminal, reference.jumper is not None] += 1
    assert seen[True, False] >= 5 and seen[False, True] >= 2


def moved(action):
    """What is observed before and after an action in a certain first step."""
    env = Checkers(1)
    env.reset(5)
    before = Reference.observed(env.observations[0])
    env.step(np.array([action], np.int32))
    return before, env.observations[0].copy()


@pytest.mark.parametrize("action", [0, 200, 333, 360, 365, 394, 511, 512, 900, -1, -400, 2**31 - 1, -(2**31)])
def test_an_action_that_is_not_legal_stands_for_the_next_that_is(action):
    before, shown = moved(action)
    legal = sorted(before.moves())
    following = [move for move in legal if move >= action % 512]
    np.testing.assert_array_equal(shown, moved((following or legal)[0])[1])


@pytest.mark.parametrize("index", range(10))
def test_a_light_square_stands_for_a_legal_move_by_its_number(game, index):
    before, shown = moved(8 * (2 * index + index // 4 % 2) + 7)
    moves = game.moves(before.board())
    np.testing.assert_array_equal(shown, moved(moves[index % len(moves)])[1])


def test_the_keys_make_the_moves_in_their_order(game):
    env = Checkers(1, bot_depth=0)
    for index, action in enumerate(env.keys.actions.values()):
        row, column = divmod(action // 8, 8)
        assert (row + column) % 2 == 0 and (action % 8, action // 16) == (7, index)  # a light square


def test_who_begins_is_drawn_by_chance():
    env = Checkers(2000)
    env.reset(0)
    begun = np.any(env.observations != Reference.start().observation(), axis=1)
    assert abs(begun.sum() - 1000) < 5 * 500**0.5


def placed(pieces):
    """A game with the agent to move and pieces such as {(7, 0): (AGENT, True)}, against a bot of depth 2."""
    env = Checkers(1, bot_depth=2, bot_random=0)
    env.reset(0)
    snapshot, before, after = env.snapshot(), Reference.observed(env.observations[0]), Reference(pieces)
    content = content_of(snapshot)
    for old, new in (
        (bytes(before.board())[:36], bytes(after.board())[:36]),  # without the padding
        (before.observation().tobytes(), after.observation().tobytes()),
    ):
        assert content.count(old) == 1
        content = content.replace(old, new)
    env.restore(sealed(snapshot, content))
    return env


def action(row, column, down, right, is_jump=False):
    return (8 * row + column) * 8 + 2 * DIRECTIONS.index((down, right)) + is_jump


def test_kings_that_only_walk_draw_after_forty_turns_of_each_side():
    env = placed({(7, 6): (AGENT, True), (0, 1): (BOT, True)})
    to_and_fro = [action(7, 6, -1, 1), action(6, 7, 1, -1)]
    outcomes = [step(env, to_and_fro[i % 2]) for i in range(40)]
    assert outcomes == [(0.0, False, False)] * 39 + [(0.0, True, False)]
    assert env.episode_statistics()[0]["perf"] == 0.5


def test_a_piece_that_can_jump_again_does_so_before_the_bot_moves():
    env = placed({(7, 0): (AGENT, False), (6, 1): (BOT, False), (4, 3): (BOT, False), (0, 7): (BOT, False)})
    assert step(env, action(7, 0, -1, 1, True)) == (pytest.approx(0.05), False, False)
    shown = Reference({(5, 2): (AGENT, False), (4, 3): (BOT, False), (0, 7): (BOT, False)}, jumper=(5, 2))
    np.testing.assert_array_equal(env.observations[0], shown.observation())
    step(env, action(5, 2, -1, 1, True))
    shown = Reference({(3, 4): (AGENT, False), (1, 6): (BOT, False)})
    np.testing.assert_array_equal(env.observations[0], shown.observation())


def test_who_jumps_over_the_last_piece_wins_at_once():
    env = placed({(4, 3): (AGENT, False), (3, 4): (BOT, False)})
    assert step(env, action(4, 3, -1, 1, True)) == (pytest.approx(1.05), True, False)
    (statistics,) = env.episode_statistics()
    assert (statistics["score"], statistics["episode_return"]) == (1.0, pytest.approx(1.05))


def test_who_has_no_move_loses():
    pieces = {(4, 1): (AGENT, False), (2, 1): (BOT, False), (1, 2): (BOT, False), (1, 6): (BOT, False)}
    env = placed(pieces)
    finals = env.keep_final_observations()
    assert step(env, action(4, 1, -1, -1)) == (-1.0, True, False)
    assert finals[0, 3 * 8] == MAN and finals[0, 2 * 8 + 1] == OTHER_MAN and finals[0, 1 * 8 + 2] == OTHER_MAN


def test_a_man_that_is_crowned_jumps_no_further_in_that_turn():
    pieces = {(2, 1): (AGENT, False), (1, 2): (BOT, False), (1, 4): (BOT, False), (4, 7): (BOT, False)}
    env = placed(pieces)
    step(env, action(2, 1, -1, 1, True))
    assert env.observations[0, 3] in (KING, MOVABLE_KING)
    assert np.isin(env.observations[0], (OTHER_MAN, OTHER_KING)).sum() == 2  # the bot moved, and lost one piece only


def test_rollout_is_the_golden_one():
    env = Checkers(16)
    env.reset(42)
    rows = np.arange(16)
    observed = [env.step((rows * 37 + i * i * 16) % 512)[0].copy() for i in range(256)]
    assert checksum(observed) == 269216610  # printed by the lines above; changes when rules or random streams do
