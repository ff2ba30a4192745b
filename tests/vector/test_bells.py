"""How a vector and its workers ring for each other, all of them in one process here."""

import mmap
import os
import subprocess
from pathlib import Path

import pytest
from test_thread_pool import ROOT, WARNINGS, compile_with, has_flags

from pufferlib.vector._native import ParentBells, WorkerBells, bells_bytes

OFFSET = 128


@pytest.fixture
def bells():
    """The sides of the parent and of three workers."""
    memory = mmap.mmap(-1, OFFSET + bells_bytes(3))
    return ParentBells(memory, OFFSET, 3), [WorkerBells(memory, OFFSET, 3, index) for index in range(3)]


def test_a_worker_takes_every_command_once(bells):
    parent, workers = bells
    for by_message in (False, True, False):
        parent.ask(1, by_message)
        assert workers[1].watch(0.0)
        assert workers[1].is_message() is by_message
        assert not workers[1].watch(0.0)
        assert not workers[0].watch(0.0)


def test_a_worker_that_sleeps_is_woken_once(bells):
    parent, workers = bells
    assert not parent.ask(2, False)
    assert workers[2].watch(0.0)
    assert not workers[2].watch(0.0)
    assert parent.ask(2, False)
    assert not parent.ask(2, False)
    assert workers[2].watch(0.0)
    assert workers[2].watch(0.0)
    assert not parent.ask(2, False)  # it was awake again


def test_the_parent_hears_every_answer_once(bells):
    parent, workers = bells
    assert parent.answers() == []
    workers[2].answer(True)
    workers[0].answer(False)
    assert parent.answers() == [(0, False), (2, True)]
    assert parent.answers() == []
    workers[2].answer(False)
    assert parent.answers() == [(2, False)]


def test_the_parent_is_woken_once_and_only_when_enough_have_answered(bells):
    parent, workers = bells
    assert not workers[0].answer(False)  # it is awake
    assert parent.fall_asleep(3)
    assert [worker.answer(False) for worker in workers[1:]] == [False, True]
    assert not workers[0].answer(False)  # it was woken before
    assert len(parent.answers()) == 3
    assert parent.fall_asleep(2)  # the second answer of the first worker is not heard yet
    parent.wake_up()
    assert not workers[1].answer(False)


def test_the_parent_does_not_fall_asleep_when_enough_have_answered(bells):
    parent, workers = bells
    workers[0].answer(False)
    workers[1].answer(False)
    assert not parent.fall_asleep(2)
    assert not workers[2].answer(False)
    assert parent.fall_asleep(4)


def test_bells_outside_the_memory_are_refused():
    memory = mmap.mmap(-1, OFFSET + bells_bytes(3))
    with pytest.raises(ValueError, match=r"4 bells at 128 need \d+ of \d+ bytes"):
        ParentBells(memory, OFFSET, 4)
    with pytest.raises(ValueError, match=r"3 bells at 129 need"):
        WorkerBells(memory, OFFSET + 1, 3, 0)


def current_core():
    return int(Path("/proc/thread-self/stat").read_text().rsplit(")", 1)[1].split()[36])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the hint is for Linux")
def test_a_worker_leaves_the_core_of_another_and_stays_free_to_run_anywhere(bells):
    _, workers = bells
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("needs two cores")
    num_moved = 0
    try:
        for core in sorted(allowed)[:2] * 10:
            os.sched_setaffinity(0, {core})
            workers[0].spread()
            os.sched_setaffinity(0, allowed)
            workers[1].spread()
            num_moved += current_core() != core
            assert os.sched_getaffinity(0) == allowed
    finally:
        os.sched_setaffinity(0, allowed)
    assert num_moved >= 10  # of 20: the kernel is free to move it back


BELLS = ROOT / "vector/src/bells.h"
RACES = {  # what is broken, and by what
    "hears an answer before its rows": (
        "&bell->answered, memory_order_acquire",
        "&bell->answered, memory_order_relaxed",
    ),
    "takes a command before its actions": ("&bell->asked, memory_order_acquire", "&bell->asked, memory_order_relaxed"),
    "answers before its rows are written": (
        "atomic_fetch_add(&bell->answered, 1);",
        "atomic_fetch_add_explicit(&bell->answered, 1, memory_order_relaxed);",
    ),
}


def run_bells(folder, header, flags, num_steps):
    """Runs tests/c/bells_test.c with a bells.h of this text."""
    if not has_flags(flags, folder):
        pytest.skip(f"this compiler cannot build and run programs with {' '.join(flags)}")
    (folder / "bells.h").write_text(header)
    program = folder / "bells_test"
    built = compile_with([*WARNINGS, *flags, f"-I{folder}"], [str(ROOT / "tests/c/bells_test.c")], program)
    assert built.returncode == 0, built.stderr
    return subprocess.run([str(program), str(num_steps)], capture_output=True, text=True, timeout=600)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "num_steps"),
    [
        (["-O2"], 2000),
        pytest.param(["-O1", "-fsanitize=thread"], 5000, marks=pytest.mark.slow),
    ],
    ids=["plain", "thread"],
)
def test_rows_are_seen_whole_and_no_ring_is_lost(tmp_path, flags, num_steps):
    done = run_bells(tmp_path, BELLS.read_text(), flags, num_steps)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("race", RACES)
def test_a_race_between_bells_is_reported(tmp_path, race):
    right, wrong = RACES[race]
    header = BELLS.read_text()
    assert header.count(right) == 1
    done = run_bells(tmp_path, header.replace(right, wrong), ["-O1", "-fsanitize=thread"], 2000)
    assert done.returncode != 0 and "WARNING: ThreadSanitizer: data race" in done.stderr
