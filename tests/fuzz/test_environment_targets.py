"""A short run of the fuzzers of some environments, and their corpora; `make fuzz` runs those of all for long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import fuzzers
import pytest

# One of each kind: a table in common, a field, boxes, search, many agents, a board.
SOME = ("pacman", "tetris", "drone", "checkers", "squared")
INPUTS = {"play": 600, "calls": 2000}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(fuzzers.missing() is not None, reason=str(fuzzers.missing())),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """By the name of the environment."""
    folder = tmp_path_factory.mktemp("fuzz")

    def build(name):
        return fuzzers.build(fuzzers.binding_of(name), fuzzers.facts_of(name), folder)

    with ThreadPoolExecutor() as pool:
        return dict(zip(SOME, pool.map(build, SOME), strict=True))


@pytest.mark.parametrize("mode", INPUTS)
@pytest.mark.parametrize("name", SOME)
def test_no_input_breaks_an_environment(programs, name, mode):
    corpus = fuzzers.corpus_of(f"{mode}/{name}")
    outcome = fuzzers.fuzz([programs[name], f"--{mode}"], mode, corpora=[corpus], executions=0)
    assert outcome.crash is None, outcome.report
    outcome = fuzzers.fuzz([programs[name], f"--{mode}"], mode, executions=INPUTS[mode])
    assert outcome.crash is None, outcome.report
    assert outcome.done > 10_000


def test_one_seed_gives_one_run(programs):
    command = [programs["squared"], "--play"]
    one, other = (fuzzers.fuzz(command, "play", executions=200, seed=5) for _ in range(2))
    assert (one.executions, one.done, one.edges) == (other.executions, other.done, other.edges)


@pytest.mark.parametrize("name", fuzzers.NAMES)
def test_every_environment_has_a_small_corpus(name):
    files = list(fuzzers.corpus_of(f"play/{name}").iterdir())
    assert 5 <= len(files) <= 40
    assert all(file.stat().st_size <= fuzzers.LONGEST_INPUT["play"] for file in files)
