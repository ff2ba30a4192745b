"""A short run of the fuzzers of some environments, and their corpora; `make fuzz` runs those of all for long."""

from __future__ import annotations

import functools

import fuzzers
import pytest
from checked_headers import is_changed

# One of each kind: a table in common, a field, boxes, search, many agents, a board.
SOME = ("pacman", "tetris", "drone", "checkers", "squared")
INPUTS = {"play": 600, "calls": 2000}

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Builds the fuzzer of an environment, once."""
    if fuzzers.missing():
        pytest.skip(fuzzers.missing())
    folder = tmp_path_factory.mktemp("fuzz")

    @functools.cache
    def build(name):
        return fuzzers.build(fuzzers.binding_of(name), fuzzers.facts_of(name), folder)

    return build


@slow
@pytest.mark.parametrize("mode", INPUTS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "squared" or is_changed(f"puffer_{name}") else pytest.mark.weekly)
        for name in SOME
    ],
)
def test_no_input_breaks_an_environment(program, name, mode, tmp_path):
    (found := tmp_path / "found").mkdir()
    corpora = [found, fuzzers.corpus_of(f"{mode}/{name}", tmp_path)]  # what is found goes into the first
    outcome = fuzzers.fuzz([program(name), f"--{mode}"], mode, corpora=corpora, executions=0)
    assert outcome.crash is None, outcome.report
    outcome = fuzzers.fuzz([program(name), f"--{mode}"], mode, executions=INPUTS[mode])
    assert outcome.crash is None, outcome.report
    assert outcome.done > 10_000


@slow
def test_one_seed_gives_one_run(program):
    command = [program("squared"), "--play"]
    one, other = (fuzzers.fuzz(command, "play", executions=200, seed=5) for _ in range(2))
    assert (one.executions, one.done, one.edges) == (other.executions, other.done, other.edges)


def test_corpora_are_small_and_belong_to_a_target():
    """An environment without one is fuzzed as well, from nothing; `bench/fuzz.py play/NAME --corpora` gives it one."""
    corpora = fuzzers.corpora()
    assert corpora.keys() <= {*fuzzers.NAMES, "calls", *fuzzers.PYTHON_TARGETS}
    assert all(1 <= len(inputs) <= fuzzers.MOST_IN_CORPUS for inputs in corpora.values())
    sizes = [len(content) for inputs in corpora.values() for content in inputs]
    assert max(sizes) <= fuzzers.LARGEST_IN_CORPUS and sum(sizes) < 1_000_000


def test_a_corpus_is_written_into_files_and_saved_again_as_it_was(tmp_path, monkeypatch):
    committed, corpora = fuzzers.CORPORA.read_text(), fuzzers.corpora()
    folder = fuzzers.corpus_of("play/squared", tmp_path)
    assert sorted(file.read_bytes() for file in folder.iterdir()) == sorted(corpora["squared"])
    monkeypatch.setattr(fuzzers, "CORPORA", tmp_path / "corpora.json")
    fuzzers.save_corpora(corpora)
    assert fuzzers.CORPORA.read_text() == committed
