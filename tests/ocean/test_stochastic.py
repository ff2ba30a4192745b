"""Stochastic: what its rewards add up to, and what known distributions are worth."""

from __future__ import annotations

import numpy as np
import pytest
from known_policies import play

from pufferlib.ocean.stochastic.stochastic import Stochastic

SHARES = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])


def test_rewards_add_up_to_minus_the_last_distance():
    env = Stochastic(32, steps=50, report_interval=10**9)
    env.reset(0)
    generator = np.random.default_rng(0)
    counts, returns, mixtures = np.zeros((32, 3)), np.zeros(32), env.observations.argmax(1)
    for _ in range(50):
        actions = generator.integers(0, 3, 32)
        env.step(actions)
        counts[np.arange(32), actions] += 1
        returns += env.rewards
    distances = 0.5 * np.abs(counts - 50 * SHARES[mixtures]).sum(1)
    assert env.truncations.all() and not env.terminals.any()
    np.testing.assert_allclose(returns, -distances, rtol=1e-4, atol=1e-4)
    (statistics,) = env.episode_statistics()
    assert statistics["score"] == pytest.approx(-distances.mean(), rel=1e-4)
    assert statistics["perf"] == pytest.approx(np.clip(1 - distances / 20, 0, 1).mean(), rel=1e-4)


@pytest.mark.parametrize(
    ("probabilities", "perf"),
    [(SHARES, 0.92), (np.full((2, 3), 1 / 3), 0.33), (SHARES[:, ::-1], 0.0), (np.eye(3)[[0, 2]], 0.0)],
    ids=["the shares", "all alike", "the other mixture", "the likeliest"],
)
def test_what_distributions_are_worth(probabilities, perf):
    generator = np.random.default_rng(0)

    def draw(seen):
        cumulative = probabilities[seen.argmax(1)].cumsum(1)
        return (generator.random((len(seen), 1)) > cumulative[:, :2]).sum(1)

    assert play(Stochastic(512, steps=256), draw, 512)["perf"] == pytest.approx(perf, abs=0.01)
