"""What has no ini of its own learns as well: small tasks trained by the defaults alone."""

from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
TASKS = ("template", "catch", "squared", "cartpole", "pong", "recall")


@pytest.fixture
def defaults(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import defaults

    return defaults


def test_every_task_is_tried(defaults):
    assert tuple(defaults.TASKS) == TASKS


@pytest.mark.slow
def test_an_environment_as_a_function_is_trained_and_played(defaults, tmp_path):
    rows = defaults.given_rows("CartPole-v1", 1, str(tmp_path), steps=2_048, trainers=["ours"])
    assert [unit for _, _, unit in rows] == ["return", "return", "steps", "s"]
    assert rows[0][0].startswith("CartPole-v1, seed 1, nothing set: 50 sampled episodes")


def test_a_game_of_ocean_is_trained_by_its_class_without_its_ini(defaults, tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "_GAMES", 50)
    rows = defaults.withheld_rows("puffer_bandit", 1, str(tmp_path), steps=32_768)
    assert [unit for _, _, unit in rows] == ["perf", "perf", "perf", "steps", "s"]
    assert rows[2] == ("puffer_bandit, seed 1, ini withheld: threshold of its ini", 0.95, "perf")


DAILY = ("template", "cartpole")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DAILY else pytest.mark.weekly) for name in TASKS]
)
def test_a_small_task_is_learnt_by_the_defaults_alone(defaults, name, tmp_path):
    task = defaults.TASKS[name]
    outcome = defaults.learn(task, seed=1, given=[], folder=str(tmp_path), stops=True)
    assert outcome.learnt_steps is not None, f"ended at {task.metric} {outcome.last_mean:.3f} of {task.threshold}"
