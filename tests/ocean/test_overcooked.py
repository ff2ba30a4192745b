"""Overcooked against games recorded in Overcooked-AI and, where it is installed, against that program, step by step."""

from __future__ import annotations

import json
import zlib

import numpy as np
import overcooked_oracle as oracle
import pytest
from contract import checksum
from overcooked_oracle import COOKS, KITCHENS, actions_of, facts_of, gridworld, num_pots, replay, seats_of

from pufferlib.errors import APIUsageError
from pufferlib.ocean.overcooked.overcooked import DOWN, INTERACT, LAYOUTS, LEFT, RIGHT, STAY, UP, Overcooked

NEVER = 10**9
HANDS, AHEAD, OTHER, COUNTERS, POTS, KITCHEN = 49, 52, 62, 114, 249, 265  # of an observation
GAMES = json.loads(oracle.FILE.read_text())["games"]


def act(env, *actions):
    """One step of one kitchen; the actions and the rewards are those of its first and its second cook."""
    order = slice(None, None, 1 - 2 * int(seats_of(env)[0]))
    env.step(np.array(actions, np.int32)[order])
    return env.rewards[order].tolist()


def rows_of(env):
    """What the first and the second cook of one kitchen see."""
    return env.observations[:: 1 - 2 * int(seats_of(env)[0])]


def do(env, *steps):
    """Several steps of one kitchen, in each of which the other cook stays; the sum of the rewards."""
    return np.sum([act(env, *step) for step in steps], axis=0).tolist()


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game["layout"])
def test_recorded_games_are_played_as_in_overcooked_ai(game):
    env, states, rewards = Overcooked(1, game["layout"]), 0, {}
    env.reset(0)
    for step in range(400):
        found = act(env, *(int(actions[step]) for actions in game["actions"]))
        if any(found):
            rewards[str(step)] = found
        if step < 399:
            states = zlib.crc32(facts_of(env.structs()[0], num_pots(game["layout"])), states)
    assert rewards == game["rewards"] and states == game["states"]
    assert env.truncations.all() and not env.terminals.any()


def test_the_recorded_games_have_soups_of_every_kitchen():
    soups = {layout: 0 for layout in KITCHENS}
    for game in GAMES:
        soups[game["layout"]] += sum(min(pair) >= 20 for pair in game["rewards"].values())
    assert min(soups.values()) >= 1


@pytest.mark.parametrize("layout", KITCHENS)
def test_games_by_chance_are_those_of_overcooked_ai(layout):
    gridworld()
    assert replay(layout, 5, seed=0)[1] > 10


@pytest.mark.slow
@pytest.mark.parametrize("layout", KITCHENS)
def test_many_games_by_chance_are_those_of_overcooked_ai(layout):
    gridworld()
    soups = others = 0
    for seed in range(1, 5):
        found = replay(layout, 50, seed)
        soups, others = soups + found[0], others + found[1]
    assert soups > 20 and others > 500


def test_a_soup_from_the_first_onion_to_the_window():
    env = Overcooked(1, report_interval=NEVER)
    env.reset(0)
    right = [(STAY, action) for action in (RIGHT, INTERACT, LEFT, UP, INTERACT)]  # of the cook beside the onions
    again = [(STAY, RIGHT), *right]
    assert do(env, *right) == [0, 3]
    assert do(env, *again) == [0, 3]
    pot = env.observations[:, POTS : POTS + 8]
    assert pot.tolist() == [[1, 1, 0, 0, 0, 0, 0, 0]] * 2
    assert do(env, *again) == [0, 3]
    assert rows_of(env)[0, POTS : POTS + 8].tolist() == [1, 1, 1, 0, 1, 1, 1, 1]
    assert do(env, (DOWN, STAY), (INTERACT, STAY)) == [3, 0]  # the first cook stands above the dishes
    assert rows_of(env)[0, HANDS : HANDS + 3].tolist() == [0, 1, 0]
    assert do(env, (STAY, RIGHT), (UP, STAY), (RIGHT, STAY), (UP, STAY)) == [0, 0]
    for _ in range(12):
        assert act(env, INTERACT, STAY) == [0, 0]  # it is not ready
    assert not rows_of(env)[0, POTS + 3] and act(env, INTERACT, STAY) == [0, 0]
    assert rows_of(env)[0, POTS + 3] and act(env, INTERACT, STAY) == [5, 0]
    assert rows_of(env)[0, HANDS : HANDS + 3].tolist() == [0, 0, 1]
    assert do(env, (DOWN, STAY), (RIGHT, STAY), (DOWN, STAY), (INTERACT, STAY)) == [20, 20]
    while not env.truncations[0]:
        act(env, STAY, STAY)
    (statistics,) = env.episode_statistics()
    returns = (3 + 5 + 20 + 9 + 20) / 2
    assert statistics == {
        "perf": 1 / 16,
        "score": 20.0,
        "episode_return": returns,
        "episode_length": 400.0,
        "n": 2.0,
    }


def test_rewards_are_those_that_were_asked_for():
    env = Overcooked(1, soup_reward=7, onion_reward=0.5, dish_reward=0.25, pickup_reward=0.125)
    env.reset(0)
    game = next(game for game in GAMES if game["layout"] == "cramped_room")
    scale = {3: {0.25, 0.5}, 5: {0.125}, 20: {7}, 23: {7.25, 7.5}, 25: {7.125}}
    num_seen = 0
    for step in range(400):
        found = act(env, *(int(actions[step]) for actions in game["actions"]))
        for own, theirs in zip(found, game["rewards"].get(str(step), [0, 0]), strict=True):
            assert own in scale.get(theirs, {0.0}), step
            num_seen += own > 0
    assert num_seen > 10


def test_who_would_meet_or_change_places_stays_and_turns():
    env = Overcooked(1)
    env.reset(0)

    def places():
        return [int(row[:45].argmax()) for row in rows_of(env)]

    assert places() == [19, 12]  # one row apart, two columns
    act(env, RIGHT, DOWN)
    assert places() == [20, 21]
    act(env, RIGHT, LEFT)  # face to face
    assert places() == [20, 21]
    assert env.observations[:, AHEAD].tolist() == [1, 1]  # each other
    act(env, UP, UP)
    assert places() == [11, 12]
    act(env, STAY, DOWN)
    act(env, RIGHT, UP)  # into the same cell
    assert places() == [11, 21]
    act(env, 77, -1)  # no actions
    assert places() == [11, 21]


@pytest.mark.parametrize("layout", KITCHENS)
def test_what_is_observed_is_what_is_there(layout):
    env, generator = Overcooked(4, layout), np.random.default_rng(0)
    env.reset(0)
    for _ in range(399):
        env.step(actions_of(env, layout, generator))
        for i, (struct, first) in enumerate(zip(env.structs(), seats_of(env), strict=True)):
            facts = [*facts_of(struct, num_pots(layout))]
            cooks, pots = [facts[:3], facts[3:6]], np.reshape(facts[6 : 6 + 2 * num_pots(layout)], (-1, 2))
            things = np.reshape(facts[7 + 2 * num_pots(layout) :], (-1, 2))
            for seat in range(2):
                expected = np.zeros(270, np.uint8)
                for place, (cell, facing, held) in ((0, cooks[seat]), (OTHER, cooks[1 - seat])):
                    expected[[place + cell, place + 45 + facing]] = 1
                    expected[place + HANDS + np.arange(3)] = np.arange(1, 4) == held
                expected[AHEAD:OTHER] = env.observations[2 * i + (seat ^ first), AHEAD:OTHER]
                for cell, thing in things:
                    expected[COUNTERS + (thing - 1) * 45 + cell] = 1
                for number, (onions, left) in enumerate(pots):
                    bits = [onions > 0, onions > 1, onions > 2, onions == 3 and left == 0]
                    bits += [left > 0, left > 5, left > 10, left > 15]
                    expected[POTS + 8 * number : POTS + 8 * number + 8] = bits
                expected[KITCHEN + LAYOUTS.index(layout)] = 1
                np.testing.assert_array_equal(env.observations[2 * i + (seat ^ first)], expected)
                assert expected[AHEAD:OTHER].sum() == 1


def test_all_draws_every_kitchen():
    env = Overcooked(50, "all")
    env.reset(0)
    drawn = set()
    for _ in range(401):
        drawn |= {*env.observations[:, KITCHEN:].argmax(axis=1).tolist()}
        env.step(np.full(100, STAY, np.int32))
    assert drawn == {0, 1, 2, 3, 4} and (env.observations[:, KITCHEN:].sum(axis=1) == 1).all()


@pytest.mark.parametrize("layout", KITCHENS)
def test_the_bot_cooks_with_a_partner_who_blunders(layout):
    """Also where each can do half of the work alone."""
    env, generator = Overcooked(20, layout, "bot", report_interval=NEVER), np.random.default_rng(0)
    env.reset(0)
    assert env.num_agents == 20
    for _ in range(400):
        env.step(actions_of(env, layout, generator))
    (statistics,) = env.episode_statistics()
    alone = Overcooked(20, layout, report_interval=NEVER)
    alone.reset(0)
    for _ in range(400):
        alone.step(actions_of(alone, layout, generator))
    assert statistics["score"] > 20 + alone.episode_statistics()[0]["score"]


@pytest.mark.parametrize("layout", ["asymmetric_advantages", "coordination_ring", "counter_circuit"])
def test_the_bot_cooks_alone_where_nobody_is_in_its_way(layout):
    env = Overcooked(20, layout, "bot", report_interval=NEVER)
    env.reset(0)
    for _ in range(400):
        env.step(np.full(20, STAY, np.int32))
    assert env.episode_statistics()[0]["score"] > 60


@pytest.mark.parametrize("kwargs", [{"layout": "pizzeria"}, {"partner": "pool"}, {"bot_random": 101}])
def test_arguments_out_of_range_are_refused(kwargs):
    (key,) = kwargs
    with pytest.raises(APIUsageError, match=f"{key} must be"):
        Overcooked(1, **kwargs)


def test_which_cook_an_agent_is_is_drawn():
    for partner in ("self", "bot"):
        env = Overcooked(200, partner=partner)
        env.reset(0)
        assert 60 < seats_of(env).sum() < 140


def test_a_kitchen_of_another_layout_is_not_gone_on_with():
    env, other = Overcooked(1), Overcooked(1, "all")
    env.reset(0)
    other.reset(0)
    with pytest.raises(APIUsageError):
        env.restore(other.snapshot())
    assert env.structs()[0, COOKS : COOKS + 3].tolist() == [19, 0, 0]


def test_rollout_is_the_golden_one():
    env, generator = Overcooked(16, "all"), np.random.default_rng(0)
    env.reset(42)
    actions = [generator.integers(0, 6, 32) for _ in range(450)]
    assert (
        checksum([env.step(row)[0].copy() for row in actions]) == 1527718576
    )  # changes when rules or random streams do
