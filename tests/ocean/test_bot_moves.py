"""An agent that sends BOT_MOVES gets the move of the game's bot: the game is then the one against the bot."""

from __future__ import annotations

import inspect
import zlib

import numpy as np
import pytest

from pufferlib import ocean, vector
from pufferlib.environment import BOT_MOVES
from pufferlib.ocean.environment import OceanEnv

NEVER = 10**9  # steps between two reports
GAMES = [name for name in ocean.names() if "opponent" in inspect.signature(ocean.env_class(name)).parameters]
VARIANTS = [
    *((name, {}) for name in GAMES),
    ("puffer_checkers", {"bot_depth": 1, "bot_random": 30}),
    ("puffer_chess", {"bot_depth": 1, "bot_random": 30}),
    ("puffer_connect4", {"bot_depth": 0}),
    ("puffer_go", {"size": 4, "strength": 3}),
    ("puffer_hex", {"bot_strength": 2, "swap": True}),
    ("puffer_poker", {"game": "kuhn"}),
    ("puffer_poker", {"game": "holdem"}),
    ("puffer_slimevolley", {"bot_strength": 1}),
]
each_variant = pytest.mark.parametrize(
    ("name", "settings"), VARIANTS, ids=lambda given: given if isinstance(given, str) else str(given)[1:-1]
)


def make(name: str, opponent: str, num_envs: int, **settings) -> OceanEnv:
    return ocean.env_class(name)(num_envs, opponent=opponent, report_interval=NEVER, **settings)


def choice(env: OceanEnv, agent: int) -> np.ndarray | int:
    """A legal action that follows from what the agent sees."""
    number = zlib.crc32(env.observations[agent].tobytes())
    if env.action_masks is not None:
        allowed = np.flatnonzero(env.action_masks[agent])
        return int(allowed[number % len(allowed)])
    return number >> np.arange(3) & 1 if env.actions.ndim == 2 else number % 4


def play(env: OceanEnv, steps: int) -> list[list[bytes | int]]:
    """Plays the first agent of each game, and has the bot play the others; what each first agent saw and was paid."""
    told: list[list[bytes | int]] = [[] for _ in range(env.num_envs)]
    env.reset(seed=3)
    for _ in range(steps):
        actions = np.full_like(env.actions, BOT_MOVES)
        for game, found in enumerate(told):
            agent = game * env.agents_per_env
            if env.masks[agent]:
                found.append(env.observations[agent].tobytes())
                actions[agent] = choice(env, agent)
        env.step(actions)
        for game, found in enumerate(told):
            agent = game * env.agents_per_env
            if env.terminals[agent] or env.truncations[agent]:
                found.append(round(float(env.rewards[agent])))  # without what pieces are paid beside the end
    return told


@each_variant
def test_the_game_of_an_agent_and_a_seat_of_the_bots_is_that_against_the_bot(name, settings):
    steps = 2000 if name == "puffer_slimevolley" else 150
    turns = 1 if name in ("puffer_slimevolley", "puffer_tron") else 3  # steps for one against the bot, at most about
    against_bot = play(make(name, "bot", 6, **settings), steps)
    between_agents = play(make(name, "self", 6, **settings), steps * turns)
    ended = 0
    for expected, found in zip(against_bot, between_agents, strict=True):
        common = min(len(expected), len(found))
        assert common >= 100 and found[:common] == expected[:common]
        ended += sum(isinstance(part, int) for part in found[:common])
    assert ended >= 3


@pytest.mark.parametrize("name", GAMES)
def test_a_game_of_bots_alone_stays_in_the_spaces_and_its_snapshots_are_accepted(name):
    env = make(name, "self", 4)
    env.reset(seed=1)
    actions = np.full_like(env.actions, BOT_MOVES)
    for _ in range(300):
        env.step(actions)
        env.restore(env.snapshot())
        assert env.observation_space.contains(env.observations)
        assert (env.actions == BOT_MOVES).all()
    env.close()


def test_all_but_one_of_many_riders_may_be_bots():
    env = make("puffer_tron", "self", 16, num_riders=8)
    assert sum(isinstance(part, int) for found in play(env, 400) for part in found) > 20
    env.close()


def test_the_bot_in_an_agents_seat_wins_as_it_does_as_the_opponent():
    """In either seat, against chance."""
    generator, shares = np.random.default_rng(0), []
    for seat in (0, 1):
        env, won = make("puffer_connect4", "self", 200), []
        env.reset(seed=seat)
        for _ in range(120):
            actions = (generator.random(env.action_masks.shape) * env.action_masks).argmax(1)
            actions[seat::2] = BOT_MOVES
            env.step(actions)
            won += (env.rewards[seat::2][env.terminals[seat::2]] > 0).tolist()
        shares.append(np.mean(won))
        env.close()
    env = make("puffer_connect4", "bot", 400)
    env.reset(seed=2)
    for _ in range(60):
        env.step((generator.random(env.action_masks.shape) * env.action_masks).argmax(1))
    shares.append(1.0 - env.episode_statistics()[0]["perf"])
    env.close()
    assert min(shares) > 0.93 and max(shares) - min(shares) < 0.03


@pytest.mark.parametrize("backend", ["Serial", "Native", "Multiprocessing"])
def test_every_backend_passes_it_on(backend):
    rollouts = []
    for tried in ("Serial", backend):
        kwargs = {"num_envs": 6, "opponent": "self"}
        workers = {} if tried == "Serial" else {"num_workers": 2, "batch_size": 2}
        vecenv = vector.make(ocean.env_class("puffer_othello"), env_kwargs=kwargs, backend=tried, num_envs=2, **workers)
        vecenv.reset(seed=4)
        seen = [vecenv.step(np.full(24, BOT_MOVES))[0].copy() for _ in range(100)]
        vecenv.close()
        rollouts.append(np.stack(seen))
    np.testing.assert_array_equal(*rollouts)
    assert len(np.unique(rollouts[0][-1], axis=0)) > 6


def test_the_games_that_have_an_opponent_say_so():
    assert [name for name in ocean.names() if ocean.env_class(name).has_bot_moves] == GAMES
