"""A person's game, without a window: the keys that are held, the score, the end."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import pufferlib
from pufferlib.environment import Keys
from pufferlib.ocean.connect4.connect4 import Connect4
from pufferlib.play.agent import Agent
from pufferlib.play.matches import load_member
from pufferlib.watch.controls import keyboard_for
from pufferlib.watch.playing import HumanEpisodes


class Ladder(pufferlib.PufferEnv):
    """Climbs by one with action 1, which is worth its height; ends after three steps, and begins anew by itself."""

    def __init__(self, waits=False):
        self.single_observation_space, self.single_action_space = Box(0, 9, (1,)), Discrete(2)
        self.num_agents = 1
        self.keys = Keys({"up": 1, "down": 0}, idle=None if waits else 0, waits=waits)
        self.seeds = []
        super().__init__()

    def reset(self, seed=None):
        self.seeds.append(seed)
        self.time, self.height = 0, 0
        return self.observations, []

    def step(self, actions):
        self.time += 1
        self.height += int(actions[0])
        self.rewards[0], self.terminals[0] = self.height * actions[0], self.time == 3
        if self.terminals[0]:
            self.time, self.height = 0, 0
        return self.observations, self.rewards, self.terminals, self.truncations, []


def play(env):
    return HumanEpisodes(env, keyboard_for(env), seed=7)


def test_the_score_is_the_sum_of_an_episode():
    env = Ladder()
    game = play(env)
    for keys, score in (({"up"}, 1), (set(), 1), ({"w"}, 3)):
        assert not game.is_over
        game.step(keys)
        assert game.score == score
    assert (game.is_over, game.steps) == (True, 3)
    game.begin()
    assert (game.is_over, game.steps, game.score) == (False, 0, 0.0)
    game.step({"up"})
    assert game.score == 1
    assert env.seeds == [7, 8]


def test_a_game_that_is_given_up_is_followed_by_one_of_another_seed():
    env = Ladder()
    game = play(env)
    for _ in range(2):
        game.step({"up"})
        game.begin()
    assert (env.seeds, game.score, env.height) == ([7, 8, 9], 0.0, 0)


def test_a_game_of_turns_stands_without_a_key():
    game = play(Ladder(waits=True))
    for keys in (set(), {"x"}, {"up", "down"}):
        game.step(keys)
        assert game.steps == 0
    game.step({"up"})
    assert (game.steps, game.score) == (1, 1.0)


def test_a_truncated_episode_is_over():
    env = pufferlib.make("CartPole-v1", max_episode_steps=4)
    game = play(env)
    for _ in range(4):
        game.step(set())
    assert (game.is_over, game.score) == (True, 4.0)
    env.close()


def test_an_ocean_game_is_played_alone():
    env = pufferlib.make("puffer_breakout", num_envs=1, continuous=True)
    game = play(env)
    before = env.observations.copy()
    for _ in range(5):
        game.step({"left"})
    assert game.steps == 5
    assert not np.array_equal(before, env.observations)
    env.close()


@pytest.mark.parametrize("side", [0, 1])
def test_a_rival_plays_the_other_side_when_it_is_its_turn(side):
    env = Connect4(num_envs=1, opponent="self")
    rival = Agent(load_member("random", "puffer_connect4", env, torch.device("cpu"), ""), env)
    game = HumanEpisodes(env, keyboard_for(env), seed=3, side=side, rival=rival)
    ends = 0
    while ends < 3:
        turn, steps, mover = game.is_rivals_turn, game.steps, int(env.masks.argmax())
        assert turn == (mover != side)
        column = int(env.action_masks[side].argmax())
        game.step(() if turn else {("one", "two", "three", "four", "five", "six", "seven")[column]})
        assert game.steps == steps + 1
        if game.is_over:
            assert not game.is_rivals_turn and game.score in (-1, 0, 1)
            ends += 1
            game.begin()
    if not game.is_rivals_turn:
        game.step({"escape"})
        assert game.steps == 0  # a key that means nothing is no turn
    env.close()
