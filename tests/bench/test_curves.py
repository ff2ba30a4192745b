"""What bench/curves.py makes of a run."""

from pathlib import Path

import pytest

from pufferlib.config import load_config

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def curves(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import curves

    return curves


def test_parts_are_equal_and_weigh_episodes_alike(curves):
    found = [(10, 1.0, 3.0), (20, 5.0, 1.0), (30, 7.0, 2.0), (100, 9.0, 4.0)]
    assert curves.in_parts(found, parts=4) == [(25, 2.0), (50, 7.0), (100, 9.0)]


def test_a_training_is_followed_to_its_end(curves, tmp_path):
    args = load_config("puffer_squared")
    args["train"].update(total_timesteps=200_000, data_dir=str(tmp_path))
    found = curves.train("puffer_squared", args, minutes=1.0)
    steps = [step for step, _, _ in found]
    assert steps == sorted(steps) and steps[-1] > 100_000
    assert all(0.0 <= mean <= 1.0 and count > 0 for _, mean, count in found)
