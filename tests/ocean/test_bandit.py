"""Bandit: what machines pay, and what the best play is worth."""

from __future__ import annotations

import numpy as np
import pytest
from known_policies import play

from pufferlib.ocean.bandit.bandit import Bandit

CHANCES = np.array([1.0, 0.2, 0.1, 0.4, 0.3])


@pytest.mark.parametrize("action", range(5))
def test_machines_pay_as_often_as_they_say(action):
    statistics = play(Bandit(1024, pulls=16), lambda seen: np.full(len(seen), action), 160)
    pulls = 1 if action == 0 else 16
    assert statistics["episode_length"] == pulls
    assert statistics["episode_return"] == statistics["score"] == pytest.approx(pulls * CHANCES[action], rel=0.03)
    assert statistics["perf"] == pytest.approx(pulls * CHANCES[action] / 7, rel=1e-4)


def test_the_purse_in_place_of_the_last_pull_is_the_best_there_is():
    env = Bandit(64, pulls=16)
    statistics = play(env, lambda seen: np.where(seen[:, 0] > 0.07, 3, 0), 160)
    assert statistics["perf"] == 1.0 and statistics["episode_length"] == 16
    assert statistics["episode_return"] == pytest.approx(7, rel=0.05)


def test_what_is_no_machine_pays_nothing_and_takes_a_pull():
    env = Bandit(4, pulls=3)
    assert play(env, lambda seen: np.array([-1, 5, 2**31 - 1, -(2**31)]), 3)["perf"] == 0.0
