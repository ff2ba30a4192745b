"""The quiz: which answers pay, what ends an episode, what is logged."""

from __future__ import annotations

import numpy as np
import pytest
from contract import checksum

import pufferlib
from pufferlib.ocean.template.template import Template


def right_answers(observations):
    return (observations[:, 0] >= 2).astype(np.int32)


def test_right_answers_pay_until_the_rounds_are_full():
    env = Template(20, rounds=5, report_interval=10**6)
    env.reset(0)
    for step in range(1, 21):
        env.step(right_answers(env.observations))
        assert np.all(env.rewards == 1.0) and not env.terminals.any(), f"step {step} must pay 1 and end nothing"
        is_full = step % 5 == 0
        assert np.all(env.truncations == is_full), f"truncations of step {step} must be {is_full}"
    (statistics,) = env.episode_statistics()
    assert statistics == {"perf": 1.0, "score": 5.0, "episode_return": 5.0, "episode_length": 5.0, "n": 80.0}


def test_a_wrong_answer_ends_the_episode():
    env = Template(20, rounds=5, report_interval=10**6)
    env.reset(0)
    for step in range(1, 10):
        answers = right_answers(env.observations)
        env.step(1 - answers if step % 3 == 0 else answers)
        is_wrong = step % 3 == 0
        reward = -1.0 if is_wrong else 1.0
        assert np.all(env.rewards == reward), f"step {step} must pay {reward}, found {env.rewards.tolist()}"
        assert np.all(env.terminals == is_wrong), f"terminals of step {step} must be {is_wrong}"
        assert not env.truncations.any(), f"step {step} must cut no episode"
    (statistics,) = env.episode_statistics()
    assert statistics["perf"] == pytest.approx(0.4)
    assert (statistics["score"], statistics["episode_return"], statistics["episode_length"]) == (2.0, 1.0, 3.0)


def test_nothing_is_found_that_keeps_a_policy_from_learning():
    assert pufferlib.check_env("puffer_template") == []


def test_every_question_is_asked_equally_often():
    env = Template(8000)
    env.reset(0)
    counts = np.bincount(env.observations[:, 0], minlength=4)
    assert np.all(np.abs(counts - 2000) < 5 * 2000**0.5), f"each must be asked some 2,000 times, found {counts}"


def test_rollout_is_the_golden_one():
    env = Template(16)
    env.reset(42)
    rows = np.arange(16)
    observed = [env.step((rows * 7 + step) // 3 % 2)[0].copy() for step in range(256)]
    found = checksum(observed)
    assert found == 2485700910, f"rules or random streams changed: where that was meant, the golden number is {found}"


@pytest.mark.parametrize("rounds", [0, 1001])
def test_an_impossible_number_of_rounds_is_refused(rounds):
    with pytest.raises(ValueError, match=f"template: rounds must be an integer from 1 to 1000, got {rounds}"):
        Template(1, rounds=rounds)
