"""Multiagent: every agent's own rule, reward and episode."""

from __future__ import annotations

import numpy as np
import pytest
from known_policies import play

from pufferlib.ocean.multiagent.multiagent import Multiagent


def right_answers(observations):
    return (observations[:, 4:].argmax(1) + observations[:, :4].argmax(1)) % 4


def test_each_agent_has_its_rule_and_its_number():
    env = Multiagent(64, steps=4)
    env.reset(0)
    np.testing.assert_array_equal(env.observations[:, :4], np.tile(np.eye(4, dtype=np.uint8), (64, 1)))
    assert play(env, right_answers, 100)["perf"] == 1.0
    # Another one's rule is always wrong; in 100 steps the four end 25, 12, 8 and 6 episodes.
    for rule, perf in enumerate((25 / 51, 12 / 51, 8 / 51, 6 / 51)):
        statistics = play(env, lambda seen, rule=rule: (seen[:, 4:].argmax(1) + rule) % 4, 100)
        assert statistics["perf"] == pytest.approx(perf)


def test_rewards_are_each_agents_own():
    env = Multiagent(16, steps=4)
    env.reset(0)
    for step in range(50):
        right = right_answers(env.observations)
        is_right = (np.arange(64) * 7 + step) % 3 > 0
        env.step(np.where(is_right, right, (right + 1 + step % 3) % 4))
        np.testing.assert_array_equal(env.rewards, is_right)


def test_episodes_of_four_lengths_lie_side_by_side():
    env = Multiagent(5, steps=3, report_interval=10**9)
    env.reset(0)
    for step in range(1, 145):
        env.step(right_answers(env.observations))
        expected = [step % (3 * (agent + 1)) == 0 for agent in range(4)] * 5
        np.testing.assert_array_equal(env.truncations, expected)
        assert not env.terminals.any()
    (statistics,) = env.episode_statistics()
    episodes = 144 / (3 * np.arange(1, 5))
    assert statistics["n"] == 5 * episodes.sum()
    assert statistics["episode_return"] == pytest.approx(4 * 144 / episodes.sum())  # longer episodes are fewer


def test_numbers_are_uniform_and_drawn_for_each_agent_alone():
    env = Multiagent(4000)
    env.reset(0)
    numbers = env.observations[:, 4:].argmax(1).reshape(4000, 4)
    for one in range(4):
        for other in range(one):
            pairs = np.bincount(numbers[:, one] * 4 + numbers[:, other], minlength=16)
            assert np.all(np.abs(pairs - 250) < 5 * 250**0.5)
