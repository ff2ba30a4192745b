"""The fuzzers find code that was broken on purpose, within seconds, and find nothing where nothing is broken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import broken_code
import fuzzers
import pytest

SECONDS = 60  # far more than any takes
TELLS = {
    "TERMINAL_ERASED": "the log tells of other episodes",
    "LOG_ASSIGNED": "the log tells of other returns",
    "OBSERVATION_OUTSIDE": "an observation is outside of its space",
    "WRITE_PAST_ROW": "heap-buffer-overflow",
    "LIBC_RAND": "the same actions from the same snapshot led elsewhere",
    "STATE_OUTSIDE": "the same actions from the same snapshot led elsewhere",
    "FLAG_KEPT": "the log tells of other episodes",
    "REWARD_KEPT": "the log tells of other returns",
    "EPISODES_MERGED": "the log tells of other episodes",
    "FINAL_FORGOTTEN": "a final row was left out",
    "STRUCT_UNCHECKED": "an observation is outside of its space|signed integer overflow|the log tells",
    "ACTION_WRITTEN": "c_step wrote to the actions",
    "CHECKSUM_NOT_COMPARED": "a damaged snapshot, or one of another version, was accepted",
    "VERSION_NOT_COMPARED": "a damaged snapshot, or one of another version, was accepted",
    "STRUCT_NOT_ASKED": "an observation is outside of its space|signed integer overflow|the log tells",
    "RESTORED_IN_PART": "a snapshot was refused and changed something",
    "RANGE_NOT_CHECKED": "keyword arguments outside of their ranges were taken|runtime error",
    "ROWS_NOT_COUNTED": "heap-buffer-overflow",
    "OWNER_NOT_HELD": "heap-use-after-free|attempting double-free",
}
# The second plays a game, in which actions make no difference; check_env finds the others (tests/ocean/test_faults.py).
NOT_BROKEN = {"NO_FAULT", "ACTION_AS_FLOAT", "ROW_OF_ANOTHER", "ADDRESS_KEPT"}
BY_CALLS = {"ROWS_NOT_COUNTED", "OWNER_NOT_HELD"}

pytestmark = [pytest.mark.slow, pytest.mark.weekly]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """By the name of the fault."""
    if fuzzers.missing():
        pytest.skip(fuzzers.missing())
    folder = tmp_path_factory.mktemp("broken")
    with ThreadPoolExecutor() as pool:
        broken = pool.submit(broken_code.build_broken, folder)
        apart = {name: pool.submit(broken_code.build_apart, name, folder) for name in broken_code.BUILT_APART}
        return {name: apart.get(name, broken).result() for name in broken_code.NUMBERS}


def found(programs, fault, mode, monkeypatch, **options):
    monkeypatch.setenv("CHOSEN_FAULT", str(broken_code.NUMBERS[fault]))
    return fuzzers.fuzz([programs[fault], f"--{mode}"], mode, **options)


def test_every_fault_is_looked_for():
    assert TELLS.keys() == broken_code.NUMBERS.keys() - NOT_BROKEN


@pytest.mark.parametrize("mode", ["play", "calls"])
def test_nothing_is_found_where_nothing_is_broken(programs, mode, monkeypatch):
    outcome = found(programs, "NO_FAULT", mode, monkeypatch, executions=2000)
    assert outcome.crash is None, outcome.report
    assert outcome.executions >= 2000 and outcome.done > 10_000 and (mode == "play" or outcome.served > 1000)


@pytest.mark.parametrize("fault", TELLS)
def test_a_fault_is_found(programs, fault, monkeypatch):
    outcome = found(programs, fault, "calls" if fault in BY_CALLS else "play", monkeypatch, seconds=SECONDS)
    assert outcome.crash is not None, f"not found by {outcome.executions} inputs"
    assert any(words in outcome.report for words in TELLS[fault].split("|")), outcome.report
