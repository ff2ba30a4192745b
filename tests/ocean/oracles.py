"""Random games of two agents by turns, each played in an environment and in another program that knows the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pufferlib.ocean.environment import OceanEnv


class Oracle(Protocol):
    """One game in the other program. Players are 0, who begins, and 1; actions are those of the environment."""

    def player(self) -> int:
        """Whose move it is."""

    def legal(self) -> list[int]:
        """All legal actions, the lowest first."""

    def play(self, action: int) -> None:
        """Makes a move."""

    def outcome(self) -> int | None:
        """1, 0 or -1 for the first player once the game is over, None before."""

    def board(self, player: int) -> np.ndarray:
        """What the environment must show a player, as far as the other program knows it."""


def replay(
    make_env: Callable[[int], OceanEnv], oracle: Callable[[], Oracle], games: int, seed: int = 0, every: int = 1
) -> Any:
    """Plays so many games at random in both, and holds every move, turn, board and result to the other program's.

    Args:
        make_env: makes so many environments.
        oracle: begins a game in the other program.
        games: how many.
        seed: of the moves.
        every: moves from one board that is compared to the next; the last one of a game always is.

    Returns:
        How many moves were made, and how many games the first player won, drew and lost.
    """
    parallel = min(games, 64)
    env, generator = make_env(parallel), np.random.default_rng(seed)
    env.reset(seed)
    finals = env.keep_final_observations()
    played = [oracle() for _ in range(parallel)]
    firsts = env.masks.reshape(-1, 2).argmax(axis=1)
    outcomes, moves, begun = [], 0, parallel
    going = set(range(parallel))
    while going:
        seats = env.masks.reshape(-1, 2)
        assert np.all(seats.sum(axis=1) == 1), "one of two is to move"
        actions = np.zeros(env.num_agents, np.int32)
        for i in going:
            game, first = played[i], int(firsts[i])
            seat = game.player() ^ first
            row = 2 * i + seat
            assert seats[i, seat], "the player to move is another one"
            legal = game.legal()
            assert np.flatnonzero(env.action_masks[row]).tolist() == legal
            actions[row] = legal[generator.integers(len(legal))]
            actions[row ^ 1] = generator.integers(-5, 5000)  # of one who waits: it means nothing
            game.play(int(actions[row]))
            moves += 1
        env.step(actions)
        for i in [*going]:
            game, first = played[i], int(firsts[i])
            outcome, rows = game.outcome(), slice(2 * i, 2 * i + 2)
            shown = env.observations if outcome is None else finals
            for player in (0, 1) if outcome is not None or (moves + i) % every == 0 else ():
                np.testing.assert_array_equal(shown[2 * i + (player ^ first)], game.board(player))
            assert env.terminals[rows].tolist() == [outcome is not None] * 2, outcome
            expected = [0.0, 0.0] if outcome is None else [outcome, -outcome]
            assert env.rewards[rows].tolist() == expected[:: 1 - 2 * first], outcome
            if outcome is None:
                continue
            outcomes.append(outcome)
            firsts[i] = env.masks[rows].argmax()
            played[i] = oracle()
            begun += 1
            if begun > games:
                going.discard(i)
    assert len(outcomes) == games
    return moves, *(outcomes.count(outcome) for outcome in (1, 0, -1))
