"""A short run of the fuzzers of settings and checkpoints, their corpora, and code that was broken for them to find."""

from __future__ import annotations

import fuzzers
import pytest

INPUTS = {"settings": 300, "checkpoint": 100}
BROKEN = {
    "evaluate_settings": ("settings", "Broken: exec"),
    "let_errors_through": ("settings", "MissingSectionHeaderError|ParsingError|DuplicateOptionError"),
    "load_anything": ("checkpoint", "Broken: pickle.find_class|CheckpointError"),
    "check_nothing": ("checkpoint", "Uncaught Python exception"),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(fuzzers.missing("settings") is not None, reason=str(fuzzers.missing("settings"))),
]


@pytest.mark.parametrize("target", fuzzers.PYTHON_TARGETS)
def test_no_input_breaks_a_reader(target, tmp_path):
    (found := tmp_path / "found").mkdir()
    command, corpora = fuzzers.python_command(target), [found, fuzzers.corpus_of(target, tmp_path)]
    outcome = fuzzers.fuzz(command, target, corpora=corpora, executions=INPUTS[target])
    assert outcome.crash is None, outcome.report
    assert outcome.executions >= INPUTS[target]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_reader_is_found(broken):
    target, words = BROKEN[broken]
    outcome = fuzzers.fuzz(fuzzers.python_command(target, f"--broken={broken}"), target, seconds=60)
    assert outcome.crash is not None, f"not found by {outcome.executions} inputs"
    assert any(word in outcome.report for word in words.split("|")), outcome.report
