"""Which run a word means."""

import os

import pytest
from made_runs import made_run

from pufferlib.errors import CheckpointError
from pufferlib.reports.recorded_run import find_run, find_runs

FIRST, SECOND = "20260101_120000_000000_aaaa0001", "20260101_130000_000000_bbbb0002"


@pytest.fixture
def runs(in_tmp_path):
    """Two runs of cartpole and one of squared, written to in this order but for the second, which is the newest."""
    folders = [made_run("experiments", FIRST), made_run("experiments", SECOND)]
    folders.append(made_run("experiments", "mine", "puffer_squared"))
    for index, folder in enumerate([folders[0], folders[2], folders[1]]):
        for path in folder.iterdir():
            os.utime(path, (1000 + index, 1000 + index))
    return folders


def test_a_run_is_found_by_every_name_it_has(runs):
    first, second, squared = runs
    for word in (str(first), str(first.absolute()), first.name, FIRST, "aaaa0001", str(first / "config.json")):
        assert find_run(word, "experiments").folder.resolve() == first.resolve()
    assert find_run("latest", "experiments").folder == find_run("puffer_cartpole", "experiments").folder == second
    assert find_run("mine", "experiments").folder == find_run("puffer_squared", "experiments").folder == squared


def test_a_run_is_found_from_within(runs, monkeypatch):
    monkeypatch.chdir(runs[0])
    assert find_run(".", "experiments").name == runs[0].name


def test_several_words_and_patterns_mean_each_run_once(runs):
    first, second, squared = runs
    found = find_runs(["mine", "puffer_cartpole_*", "latest", f"experiments/*{SECOND}"], "experiments")
    assert [run.folder for run in found] == [squared, first, second]


def test_a_name_that_looks_like_a_pattern_is_a_name_where_there_is_such_a_folder(runs):
    moved = runs[2].rename("experiments/mine [2]")
    for word in ("mine [2]", str(moved)):
        assert [run.folder.resolve() for run in find_runs([word], "experiments")] == [moved.resolve()]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("puffer_cartpol", "there is no run 'puffer_cartpol' in experiments; did you mean 'puffer_cartpole'"),
        ("xyz", "there is no run 'xyz' in experiments; `puffer runs` lists them"),
        ("puffer_x*", "no run in experiments matches 'puffer_x*'"),
    ],
)
def test_a_word_that_means_no_run_is_told(runs, word, message):
    with pytest.raises(CheckpointError) as told:
        find_runs([word], "experiments")
    assert message in str(told.value)


def test_a_word_that_means_several_runs_is_refused(runs):
    made_run("experiments", "another_aaaa0001")
    with pytest.raises(CheckpointError, match="2 runs in experiments end with 'aaaa0001', such as puffer_cartpole_"):
        find_run("aaaa0001", "experiments")


def test_without_runs_that_is_told(in_tmp_path):
    with pytest.raises(CheckpointError, match="there is no run 'latest', and experiments holds none"):
        find_run("latest", "experiments")
    made_run("experiments/sweeps/study", FIRST)
    with pytest.raises(CheckpointError, match="experiments holds none; `puffer runs`"):
        find_run("latest", "experiments")


def test_a_damaged_run_is_refused_by_name_and_passed_over_otherwise(runs):
    (runs[1] / "config.json").write_text('{"settings"')
    with pytest.raises(CheckpointError, match="config.json is damaged"):
        find_run(SECOND, "experiments")
    assert find_run("latest", "experiments").folder == runs[2]
    assert [run.folder for run in find_runs(["puffer_cartpole_*"], "experiments")] == [runs[0]]
