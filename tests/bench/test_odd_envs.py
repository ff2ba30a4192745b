"""Environments that are odd in one way each learn with nothing set, and what is odd is told early."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pufferlib
from pufferlib import PuffeRL, vector

BENCH = Path(__file__).parents[2] / "bench"
SMALL = {"num_envs": 2, "num_workers": 1, "num_steps": 64, "batch_size": 128, "n_epochs": 1}


@pytest.fixture
def odd(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import odd_envs

    return odd_envs


@pytest.fixture(autouse=True)
def here(in_tmp_path):
    pass


TOLD = {
    # What was chosen, what is noted, and what is noted where the choice is taken back.
    "rewards of 1000": (
        "less than a full vector: .*normalize_rewards True",
        None,
        ({"normalize_rewards": False}, "rewards are as large as 1,000, .* normalize_rewards=True scales them"),
    ),
    "observations of 10000": (
        "observations that may be above 100: normalize_observations True",
        None,
        ({"normalize_observations": False}, "observations are as large as 10,000, .* normalize_observations=True"),
    ),
    "episodes of 5000 steps": (None, "episodes last 5,000 steps, and gamma 0.99 sees 100 .*a larger gamma", None),
    "200 actions": ("choices as actions", None, None),
    "pictures of 32 x 32": ("observations that may be above 100: normalize_observations True", None, None),
    "5 ms a step": (None, r"a step of one agent takes .* ms, \d+% of it in the environment; .*num_workers=2", None),
}


def said(capsys, make, steps, **settings):
    trainer = PuffeRL(lambda: make(), device="cpu", **SMALL, **settings)
    trainer.learn(steps)
    trainer.release()
    lines = capsys.readouterr().out.splitlines()
    return [
        [line.removeprefix(words) for line in lines if line.startswith(words)]  #
        for words in ("chosen for ", "note: ")
    ]


def test_something_is_known_of_each(odd):
    assert list(odd.ODD_ENVS) == list(TOLD)
    for make, _ in odd.ODD_ENVS.values():
        vector.check_env(vector.as_puffer_env(make()))
        assert odd.best_return(make, 1) > 0.0


LONG = ("episodes of 5000 steps", "pictures of 32 x 32")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.weekly if name in LONG else ()) for name in TOLD]
)
def test_what_is_odd_is_told_early_with_what_helps(odd, capsys, name):
    chosen, note, without = TOLD[name]
    make, _ = odd.ODD_ENVS[name]
    steps = 128 * 80 if "5000" in name else 128 * 13  # until the first episodes end; no fewer updates than say so
    lines, notes = said(capsys, make, steps if name != "5 ms a step" else 128, minibatch_size=16)
    # On a machine that others use a step of any of them may take long.
    others = ["optimizer steps", *(["a step of one agent takes"] if name != "5 ms a step" else [])]
    notes = [line for line in notes if not any(words in line for words in others)]
    assert chosen is None or any(re.search(chosen, line) for line in lines)
    assert len(notes) == (note is not None) and all(re.search(note, line) for line in notes)
    if without is not None:
        notes = said(capsys, make, steps, minibatch_size=16, **without[0])[1]
        assert [line for line in notes if re.search(without[1], line)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "episodes"),
    [
        ("observations of 10000", 30),
        pytest.param("rewards of 1000", 30, marks=pytest.mark.weekly),
        pytest.param("episodes of 5000 steps", 2, marks=pytest.mark.weekly),
    ],
)
def test_nothing_set_learns_what_is_odd(odd, name, episodes, tmp_path):
    make, steps = odd.ODD_ENVS[name]
    trainer = PuffeRL(lambda: make(), device="cpu", seed=1, data_dir=str(tmp_path))
    trainer.learn(steps, dashboard=False)
    found = pufferlib.evaluate(trainer.policy, make, episodes, sample=True)["episode_return"].mean
    trainer.release()
    assert found >= 0.9 * odd.best_return(make, episodes)
