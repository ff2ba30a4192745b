"""Memory: what it is worth to remember, and when the end comes."""

from __future__ import annotations

import numpy as np
import pytest
from known_policies import play

from pufferlib.ocean.memory.memory import Memory


class Recall:
    """A player of memory that remembers what it saw, and when its episodes begin."""

    def __init__(self, env):
        self.env, self.lamps = env, np.zeros(env.num_agents, int)

    def __call__(self, observations):
        burns = observations.any(1)
        self.lamps[self.env.terminals] = 0
        self.lamps[burns] = observations[burns].argmax(1) + 1
        return self.lamps


@pytest.mark.parametrize("delay", [1, 2, 8])
def test_who_remembers_is_always_right_and_who_does_not_in_one_of_four(delay):
    env = Memory(256, delay=delay)
    statistics = play(env, Recall(env), 400)
    assert statistics["perf"] == statistics["score"] == statistics["episode_return"] == 1.0
    assert statistics["episode_length"] == pytest.approx(1 + (1 + delay) / 2, rel=0.03)
    for answer in range(4):
        assert play(env, lambda seen, answer=answer: np.full(len(seen), answer), 400)["perf"] == pytest.approx(
            0.25, abs=0.02
        )


def test_a_lamp_burns_at_the_start_alone_and_the_end_comes_unannounced():
    env = Memory(512, delay=5)
    begun = env.reset(2)[0].copy()
    assert np.all(begun.sum(1) <= 1)
    ends = np.zeros(512, int)
    for step in range(1, 7):
        env.step(np.full(512, 1))
        first_end = env.terminals & (ends == 0)
        np.testing.assert_array_equal(env.rewards[first_end], begun[first_end, 0])
        assert not env.observations[ends + first_end == 0].any() and not env.truncations.any()
        ends[first_end] = step
    counts = np.bincount(ends, minlength=7)
    assert counts[0] == counts[1] == 0 and counts[2:].min() > 60  # uniform over 2 to 6 steps
