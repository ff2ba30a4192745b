"""Spaces: what its parts are worth, and that each of them comes through the packing where it belongs."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector.utils import batch_space

import pufferlib
from pufferlib.errors import APIUsageError
from pufferlib.ocean.spaces.spaces import OBSERVATION, Spaces, SpacesVectorEnv
from pufferlib.spaces import unpack

GAMES = 32


def right_action(seen, game):
    """What an observation asks of one game, by the rules and by nothing of the environment's code."""
    suit, pair = seen["cards"]
    gauge = seen["gauge"][game]
    return {
        "cell": int(np.flatnonzero(seen["picture"][game].reshape(9) >= 200)[0]),
        "cards": (suit[game], pair[game]),
        "switches": 1 - seen["switches"][game],
        "dials": np.array([gauge[1], -gauge[0]], np.float32),
    }


def rows_of(actions):
    """Rows of actions: the parts in the order of their names, and choices counted from 0."""
    rows = [
        np.hstack([part["cards"][0] - 1, part["cards"][1], part["cell"], part["dials"], part["switches"]])
        for part in actions
    ]
    return np.array(rows, np.float32)


def made(games=GAMES, seed=3, **kwargs):
    env = Spaces(games, **kwargs)
    env.reset(seed)
    return env, lambda: unpack(env.observations, env.emulated)


def test_observations_are_of_the_space_before_and_after_packing():
    vector, (_, seen) = SpacesVectorEnv(GAMES, 8), made()
    plain, _ = vector.reset(seed=[1] * GAMES)
    assert batch_space(OBSERVATION, GAMES).contains(plain)
    for game in range(GAMES):
        parts = seen()
        one = {**{name: parts[name][game] for name in ("picture", "switches", "gauge")}}
        one["cards"] = (parts["cards"][0][game], parts["cards"][1][game])
        assert OBSERVATION.contains(one)


def test_the_right_action_gives_one_in_every_step():
    env, seen = made()
    for step in range(1, 17):
        _, rewards, terminals, truncations, infos = env.step(rows_of([right_action(seen(), i) for i in range(GAMES)]))
        np.testing.assert_allclose(rewards, 1.0, atol=1e-6)
        assert not terminals.any() and truncations.all() == truncations.any() == (step % 8 == 0)
        assert bool(infos) == (step % 8 == 0)
    episodes = [info for info in infos if "perf" in info]
    assert len(episodes) == GAMES
    assert episodes[0] == pytest.approx({"perf": 1.0, "score": 1.0, "episode_return": 8.0, "episode_length": 8.0})


@pytest.mark.parametrize("column", range(9))
def test_every_number_of_the_action_is_worth_a_ninth(column):
    env, seen = made()
    rows = rows_of([right_action(seen(), i) for i in range(GAMES)])
    space = env.single_action_space.spaces
    parts = [part for part in space for _ in range(part.shape[0] if part.shape else 1)]
    is_dial = parts[column].shape != ()
    wrong = -np.sign(rows[:, column]) if is_dial else (rows[:, column] + 1) % parts[column].n
    missed = np.minimum(np.abs(wrong - rows[:, column]), 1) if is_dial else 1.0
    rows[:, column] = wrong
    _, rewards, *_ = env.step(rows)
    np.testing.assert_allclose(rewards, 1 - missed / 9, atol=1e-6)


def test_chance_is_worth_what_the_sizes_say():
    env, _ = made(512)
    env.single_action_space.seed(0)
    rows = np.array([np.hstack(env.single_action_space.sample()) for _ in range(512)], np.float32)
    rewards = [env.step(np.roll(rows, step, axis=0))[1].mean() for step in range(40)]
    dial = 5 / 12  # the mean of max(1 - |a - b|, 0) over two uniform numbers in [-1, 1]
    expected = (1 / 9 + 1 / 4 + 1 / 3 + 1 / 5 + 3 / 2 + 2 * dial) / 9
    assert np.mean(rewards) == pytest.approx(expected, abs=0.01)


def test_the_last_observation_comes_with_the_truncation():
    env, _ = made(4, rounds=2)
    actions = np.zeros_like(env.actions)
    env.step(actions)
    *_, infos = env.step(actions)
    finals = [info for info in infos if "final_observation" in info]
    assert [info["agent_id"] for info in finals] == [0, 1, 2, 3]
    for info in finals:
        parts = unpack(info["final_observation"][np.newaxis], env.emulated)
        assert (parts["picture"] >= 200).sum() == 1 and 1 <= parts["cards"][0][0] <= 4
        assert not np.array_equal(info["final_observation"], env.observations[info["agent_id"]])


def test_one_seed_gives_one_rollout():
    histories = []
    for seed in (3, 3, 4):
        env, _ = made(seed=seed)
        histories.append(np.stack([env.step(np.zeros_like(env.actions))[0].copy() for _ in range(20)]))
    np.testing.assert_array_equal(histories[0], histories[1])
    assert not np.array_equal(histories[0], histories[2])


def test_it_shows_what_was_seen_and_how_it_was_answered():
    env, seen = made(2)
    asked = env.render()
    assert asked.shape == (320, 640, 3) and asked.dtype == np.uint8
    env.step(rows_of([right_action(seen(), i) for i in range(2)]))
    right = env.render()
    env.reset(3)
    np.testing.assert_array_equal(env.render(), asked)
    row = rows_of([right_action(seen(), i) for i in range(2)])
    env.step((row + 1).astype(np.float32))
    wrong = env.render()
    red = np.array([187, 0, 0])
    assert not (right == red).all(-1).any() and (wrong == red).all(-1).any()


def test_it_is_made_by_its_name():
    env = pufferlib.make("puffer_spaces", num_envs=3)
    assert isinstance(env, Spaces) and env.num_agents == 3
    env.close()


@pytest.mark.parametrize("keyword", ["num_envs", "rounds"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", None, True])
def test_an_impossible_size_is_refused(keyword, value):
    with pytest.raises(APIUsageError, match=f"spaces: {keyword} must be an integer of at least 1, got"):
        Spaces(**{keyword: value})
