"""Moves per second of games for several: `python -m pytest -n0 bench/moves.py --benchmark-enable`.

Moves are drawn from the legal ones. Ours are steps of 2,048 games on one thread, with their masks and observations; the
moves are drawn outside the clock. OpenSpiel, PettingZoo and python-chess play one game, as their users do: legal moves,
one of them drawn, played. Cards and dice that a game draws are part of a move here and no moves of their own there.
"""

from __future__ import annotations

import importlib
import random

import numpy as np
import pytest

from pufferlib import ocean

GAMES = 2_048
SEATS = {  # one move a step, but where all move at once
    **dict.fromkeys(("chess", "othello", "hex", "connect4", "checkers", "go"), {"opponent": "self"}),
    "backgammon": {"opponent": "self"},
    "poker": {"opponent": "self", "game": "leduc"},
    "tron": {},
    "slimevolley": {"opponent": "self"},
    "overcooked": {},
}
AT_ONCE = {"tron", "slimevolley", "overcooked"}
SPIEL = {
    "othello": "othello",
    "hex": "hex",
    "connect4": "connect_four",
    "checkers": "checkers",
    "go": "go(board_size=7)",
    "backgammon": "backgammon",
    "poker": "leduc_poker",
    "chess": "chess",
}
ZOO = {  # with observations, as ours; its packages are those of pettingzoo[classic]
    "chess": ("chess_v6", {}),
    "connect4": ("connect_four_v3", {}),
    "go": ("go_v5", {"board_size": 7}),
    "poker": ("leduc_holdem_v4", {}),
}
OTHERS_MOVES = 2_000


def draw(env, generator):
    """An allowed action for every agent."""
    if not env.has_action_masks:
        env.single_action_space.seed(int(generator.integers(2**31)))
        rows = np.array([env.single_action_space.sample() for _ in range(256)], env.actions.dtype)
        return rows[generator.integers(256, size=env.num_agents)].reshape(env.actions.shape)
    masks = env.action_masks
    return (generator.random(masks.shape, np.float32) * masks).argmax(1).astype(env.actions.dtype)


@pytest.mark.parametrize("name", SEATS)
def test_ours(benchmark, name):
    env_class = ocean.env_class(f"puffer_{name}")
    env = env_class(num_envs=GAMES, report_interval=10**9, **SEATS[name])
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    benchmark.extra_info["steps"] = env.num_agents if name in AT_ONCE else GAMES
    benchmark.pedantic(env.step, setup=lambda: ((draw(env, generator),), {}), rounds=150, warmup_rounds=30)
    env.close()


@pytest.mark.parametrize("name", SPIEL)
def test_open_spiel(benchmark, name):
    pyspiel = pytest.importorskip("pyspiel")
    game, generator = pyspiel.load_game(SPIEL[name]), random.Random(0)

    def run():
        state, moves = game.new_initial_state(), 0
        while moves < OTHERS_MOVES:
            if state.is_terminal():
                state = game.new_initial_state()
            if state.is_chance_node():
                actions, chances = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(generator.choices(actions, chances)[0])
                continue
            state.apply_action(generator.choice(state.legal_actions()))
            moves += 1

    benchmark.extra_info["steps"] = OTHERS_MOVES
    benchmark.pedantic(run, rounds=5, warmup_rounds=1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ZOO)
def test_pettingzoo(benchmark, name):
    module, settings = ZOO[name]
    try:
        env = importlib.import_module(f"pettingzoo.classic.{module}").env(**settings)
    except ImportError as error:
        pytest.skip(str(error))
    generator = np.random.default_rng(0)
    env.reset(seed=0)

    def run():
        moves = 0
        while moves < OTHERS_MOVES // 4:
            observation, _, is_terminated, is_truncated, _ = env.last()
            if is_terminated or is_truncated:
                env.reset()
                continue
            env.step(int(generator.choice(observation["action_mask"].nonzero()[0])))
            moves += 1

    benchmark.extra_info["steps"] = OTHERS_MOVES // 4
    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
    env.close()


def test_python_chess(benchmark):
    chess = pytest.importorskip("chess")
    generator = random.Random(0)

    def run():
        board = chess.Board()
        for _ in range(OTHERS_MOVES // 4):
            if board.is_game_over():
                board = chess.Board()
            board.push(generator.choice(list(board.legal_moves)))

    benchmark.extra_info["steps"] = OTHERS_MOVES // 4
    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
