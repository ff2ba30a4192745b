"""Hex against OpenSpiel and a second implementation of its rules."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from checked_headers import weekly_unless_changed
from contract import checksum
from oracles import replay
from positions import POINTERS, position, put, struct_layout

from pufferlib.errors import APIUsageError
from pufferlib.ocean.hex.hex import Hex

SIDE, CELLS = 11, 121
STRUCT = struct_layout(
    ("rng", np.uint64),
    *((name, np.uint8, CELLS) for name in ("cells", "parents", "touches")),
    ("free", np.uint64, 4),
    ("last", np.int32),
    *((name, np.bool_) for name in ("has_swap", "has_bot")),
    *((name, np.int32) for name in ("first", "num_turns", "num_steps", "bot_strength", "bot_random")),
    ("log", np.float32, 5),
    pointers=(*POINTERS, "action_masks", "masks"),
)


def mirrored(cell):
    return cell % SIDE * SIDE + cell // SIDE


MIRRORED = [mirrored(cell) for cell in range(CELLS)]


def neighbours(cell):
    row, column = divmod(cell, SIDE)
    around = ((row - 1, column), (row - 1, column + 1), (row, column - 1), (row, column + 1), (row + 1, column - 1))
    return [SIDE * y + x for y, x in (*around, (row + 1, column)) if 0 <= y < SIDE and 0 <= x < SIDE]


def way(board, own):
    """The fewest stones that join the top to the bottom, of a board as its player sees it: by relaxation."""
    costs = np.where(board == own, 0, np.where(board == 0, 1, 10_000))
    best = np.full(CELLS, 10_000)
    best[:SIDE] = costs[:SIDE]
    for _ in range(CELLS):
        before = best.copy()
        for cell in range(CELLS):
            best[cell] = min(best[cell], costs[cell] + min(best[neighbours(cell)]))
        if np.array_equal(best, before):
            break
    return int(best[-SIDE:].min())


class Spiel:
    """A game in OpenSpiel."""

    def __init__(self, swap=False):
        import pyspiel

        self.state = pyspiel.load_game("hex", {"board_size": SIDE, "swap": swap}).new_initial_state()
        self.last = None

    def _own(self, action):
        """The action as its player sees it, either way."""
        return mirrored(action) if self.state.current_player() == 1 else action

    def player(self):
        return self.state.current_player()

    def legal(self):
        actions = self.state.legal_actions()
        if self.state.current_player() == 0:
            return actions
        cells = [MIRRORED[action] for action in actions if action < CELLS]
        return sorted([*cells, MIRRORED[self.last]] if CELLS in actions else cells)

    def play(self, action):
        cell = self._own(action)
        is_swap = self.state.move_number() == 1 and cell == self.last and CELLS in self.state.legal_actions()
        self.state.apply_action(CELLS if is_swap else cell)
        self.last = cell

    def outcome(self):
        return int(self.state.returns()[0]) if self.state.is_terminal() else None

    def board(self, player):
        signs = [sign for sign in str(self.state) if sign in ".xo"]
        values = {".": 0, "x": 1 + player, "o": 2 - player}
        shown = np.array([values[sign] for sign in signs], np.uint8).reshape(SIDE, SIDE)
        return (shown.T if player else shown).ravel()


def make_two(num_envs, **kwargs):
    return Hex(num_envs, opponent="self", **kwargs)


@pytest.mark.parametrize("swap", [False, True])
def test_random_games_are_those_of_openspiel(swap):
    pytest.importorskip("pyspiel", reason="the other program; pip install open-spiel")
    moves, _, drawn, _ = replay(partial(make_two, swap=swap), partial(Spiel, swap), 50)
    assert moves > 4000 and drawn == 0


@pytest.mark.slow
@weekly_unless_changed("puffer_hex")
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("games", [1_000, pytest.param(10_000, marks=pytest.mark.weekly)])
def test_thousands_of_random_games_are_those_of_openspiel(swap, games):
    pytest.importorskip("pyspiel", reason="the other program; pip install open-spiel")
    moves, won, drawn, lost = replay(partial(make_two, swap=swap), partial(Spiel, swap), games, seed=1, every=100)
    assert moves > 90 * games and drawn == 0 and min(won, lost) > 3 * games // 10


def step(env, action):
    env.step(np.full(env.num_agents, action, np.int32))


def begun(**kwargs):
    env = make_two(1, **kwargs)
    env.reset(0)
    return env, int(env.masks.argmax())


@pytest.mark.parametrize("winner", [0, 1])
def test_a_straight_chain_from_top_to_bottom_wins_for_either_player(winner):
    """The winner plays down its first column, the other along a row in the middle, which joins nothing of its own."""
    env, first = begun()
    for turn in range(21 + winner):
        assert not env.terminals.any()
        step(env, SIDE * (turn // 2) if turn % 2 == winner else SIDE * (SIDE // 2) + turn // 2)
    assert env.terminals.all()
    assert env.rewards[[first, 1 - first]].tolist() == [1.0 - 2 * winner, 2 * winner - 1.0]


def test_the_first_stone_can_be_taken_over_once():
    env, first = begun(swap=True)
    second = 1 - first
    step(env, 3)
    assert env.action_masks[second].sum() == CELLS and env.observations[second, mirrored(3)] == 2
    step(env, mirrored(3))
    assert np.flatnonzero(env.observations[second] == 1).tolist() == [3]
    assert np.flatnonzero(env.observations[first] == 2).tolist() == [mirrored(3)]
    assert env.action_masks[first].sum() == CELLS - 1 and not env.action_masks[first, mirrored(3)]
    assert env.masks.tolist() == [first == 0, first == 1]
    step(env, 3)  # the cell that the stone left
    assert env.observations[first, 3] == 1 and env.action_masks[second].sum() == CELLS - 2


def test_the_right_to_take_over_ends_with_another_move():
    env, first = begun(swap=True)
    step(env, 60)
    step(env, 0)
    for seat in (0, 1):
        assert env.action_masks[seat].sum() == CELLS - 2
    env, first = begun(swap=False)
    step(env, 60)
    assert env.action_masks[1 - first].sum() == CELLS - 1


def test_other_actions_stand_for_the_next_free_cell():
    for action, cell in ((7, 8), (7 + CELLS, 8), (1 - 2**31, None), (2**31 - 1, None), (-1, None)):
        env, first = begun()
        step(env, 7)
        step(env, 100)
        before = env.observations[first].copy()
        step(env, action)
        placed = np.flatnonzero(env.observations[first] != before).tolist()
        assert len(placed) == 1 and cell in (None, placed[0])
    env, first = begun()
    step(env, CELLS - 1)
    step(env, 50)
    step(env, CELLS - 1)
    assert env.observations[first, 0] == 1


@pytest.mark.parametrize("strength", [1, 2])
def test_the_bot_plays_on_the_shortest_way(strength):
    """Of its own, or of both together: a stone there shortens the bot's or lengthens the agent's."""
    env = Hex(1, bot_strength=strength, bot_random=0)
    env.reset(strength)
    generator, shorter = np.random.default_rng(0), 0
    for _ in range(12):
        action = int(generator.choice(np.flatnonzero(env.action_masks[0])))
        before = env.observations[0].copy()
        before[action] = 1
        step(env, action)
        if env.terminals[0]:
            continue
        own, other = (way(board.reshape(SIDE, SIDE).T.ravel(), 2) for board in (before, env.observations[0]))
        shorter += other < own
        if strength == 1:
            assert other == own - 1
    assert shorter >= 6


def masked_actions(env, generator):
    return np.array([generator.choice(np.flatnonzero(row)) for row in env.action_masks], np.int32)


def test_a_stronger_bot_wins_more_against_chance():
    scores = []
    for strength in (0, 1, 2):
        env = Hex(64, bot_strength=strength, bot_random=0, report_interval=10**9)
        env.reset(0)
        generator = np.random.default_rng(strength)
        for _ in range(150):
            env.step(masked_actions(env, generator))
        scores.append(env.episode_statistics()[0]["perf"])
    assert 0.3 < scores[0] < 0.7 and scores[1] < 0.1 and scores[2] < 0.05


def test_a_snapshot_whose_chains_are_not_those_of_the_stones_is_refused():
    """Or nobody could win: the board would be full, and the next stone would lie beside the arrays."""
    env, _ = begun()
    for cell in (0, 0, 11, 11, 22):  # each player's along an edge, as it sees the board
        step(env, cell)
    played = position(env, STRUCT)
    put(env, STRUCT)
    chain = np.where(played["cells"] > 0, np.arange(CELLS), 0)
    for member, value in (("touches", 0 * chain), ("touches", 3 + 0 * chain), ("parents", chain)):
        with pytest.raises(APIUsageError, match="snapshot"):
            put(env, STRUCT, **{member: value})


def test_who_begins_is_drawn_by_chance():
    env = make_two(2000)
    env.reset(0)
    assert abs(int(env.masks[::2].sum()) - 1000) < 5 * 500**0.5
    assert np.array_equal(env.masks[::2], ~env.masks[1::2])


def test_rollout_is_the_golden_one():
    env = make_two(16, swap=True)
    env.reset(42)
    rows = np.arange(32)
    observed = [env.step((rows * 7 + i * i) % CELLS)[0].copy() for i in range(256)]
    assert checksum(observed) == 2973757532  # printed by the lines above; changes when rules or random streams do
