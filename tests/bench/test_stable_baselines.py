from pathlib import Path

import gymnasium
import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import stable_baselines

    return stable_baselines


def test_final_policies_play_the_same_fresh_episodes(bench):
    seen = []

    def act(observation):
        seen.append(observation)
        return int(observation[2] > 0)

    returns = bench.play("CartPole-v1", act, 3)
    first, again = seen[:], seen.clear()
    assert bench.play("CartPole-v1", act, 3) == returns
    assert again is None and np.array_equal(first, seen)
    assert sum(returns) == len(seen)  # a point a step
    reset, _ = gymnasium.make("CartPole-v1").reset(seed=1_000_003)
    assert np.array_equal(seen[0], reset)


def test_ours_trains_the_steps_it_was_given_and_its_policy_plays(bench, tmp_path):
    trained = bench.ours("CartPole-v1", 3000, 1, str(tmp_path))
    assert trained.steps == 2 * 2048 and trained.seconds > 0 < trained.cpu_seconds  # whole rollouts
    assert min(bench.play("CartPole-v1", trained.act, 2)) >= 8


def test_theirs_trains_the_steps_it_was_given_and_its_policy_plays(bench):
    pytest.importorskip("stable_baselines3")
    trained = bench.theirs("CartPole-v1", bench.RECIPES["CartPole-v1"]["RL Zoo's settings"], 1000, 1, "")
    assert trained.steps == 1024 and trained.seconds > 0 < trained.cpu_seconds
    assert min(bench.play("CartPole-v1", trained.act, 2)) >= 8


def test_rows_tell_rate_steps_and_return_with_its_error(bench):
    trained = bench.Trained(lambda observation: 0, 1000, 4.0, 2.0)
    assert bench.rows("case", trained, [1.0, 3.0]) == [
        ("case: throughput", 250.0, "steps/s"),
        ("case: throughput by processor time", 500.0, "steps/s"),
        ("case: steps", 1000, "steps"),
        ("case: time", 4.0, "s"),
        ("case: final policy, 2 episodes, mean", 2.0, "return"),
        ("case: final policy, 2 episodes, standard error", 1.0, "return"),
    ]
